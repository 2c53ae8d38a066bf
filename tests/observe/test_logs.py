"""Lines for people and for programs: true, without content, without secrets, and never in anybody's way."""

import io
import json
import logging
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.observe.observed_runs import observed, world_facts
from support.runs.run_harness import TASK, run_case
from support.turns.turn_facts import START, ask, burst
from support.worlds.tasks import TASKS

from turnbuckle.observe.logs import JsonForm, LineWriter, PlainForm, RunLines, open_log, request_id
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    Decided,
    Fact,
    GiveUp,
    RunClaimed,
    RunEnded,
    RunLeft,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.redaction import Redactor
from turnbuckle.vocab.tooling import ToolOutcome

KEY = "the-one-key-of-this-house"


def lines(facts: Iterable[Fact], *, content: bool = False) -> list[dict]:
    stream = io.StringIO()
    with open_log("json", Redactor([KEY]), stream):
        observed(facts, RunLines(content=content))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def formed(form, message: str, **extra) -> str:
    record = logging.LogRecord("turnbuckle.x", logging.WARNING, "x.py", 1, message, (), None)
    record.created = 1_700_000_000.25
    vars(record).update(extra)
    return form(Redactor([KEY])).format(record)


@pytest.mark.requirement("H5")
def test_a_line_of_json_has_the_fields_that_everybody_looks_for():
    line = formed(
        JsonForm, "it broke", run="r1", session="s1", request_id="q1", event="broke", details={"seconds": 2.5}
    )
    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "message": "it broke",
        "logger": "turnbuckle.x",
        "run": "r1",
        "session": "s1",
        "request_id": "q1",
        "event": "broke",
        "seconds": 2.5,
    }


def test_a_plain_line_tells_the_same_to_people():
    line = formed(PlainForm, "it broke", run="r1", session="s1", event="broke", details={"seconds": 2.5})
    assert line == "2023-11-14T22:13:20.250Z WARNING it broke run=r1 session=s1"


def test_details_can_not_take_the_place_of_a_field():
    assert json.loads(formed(JsonForm, "m", run="r1", details={"run": "x", "level": "y"}))["run"] == "r1"


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("form", [JsonForm, PlainForm])
def test_no_line_holds_a_secret_wherever_it_stands(form):
    try:
        raise ValueError(f"refused {KEY} and Bearer abcdefghijklmnop1234")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    told = {"session": KEY, "details": {"said": f"key {KEY}", "header": "Authorization: Basic abcdefgh"}}
    line = formed(form, f"a {KEY} b sk-abcdefghijklmnopqrst", exc_info=info, **told)
    assert KEY not in line
    assert "abcdefgh" not in line
    assert "ValueError: refused [secret] and [secret]" in line


@pytest.mark.parametrize("form", [JsonForm, PlainForm])
@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\u2028b", "a\ud800b", "a\x9bb"])
def test_no_text_can_begin_a_line_of_its_own_or_drive_a_terminal(form, text: str):
    line = formed(form, text)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert line.encode()


@pytest.mark.parametrize("form", [JsonForm, PlainForm])
def test_a_line_is_of_bounded_length(form):
    assert len(formed(form, "x" * 1_000_000)) < 9_000
    assert KEY[:12] not in formed(form, "x" * (4 * 8_000 - 12) + KEY)


@pytest.mark.requirement("H5")
def test_the_story_of_a_run_that_broke_and_went_on(tmp_path: Path):
    found = lines(run_case(tmp_path, "silent-once-then-works").facts)
    assert [(line["event"], line["level"], line["message"]) for line in found] == [
        ("run_started", "info", "run started"),
        ("model_call_broke", "warning", "model call 1 on main broke after 20.0 s: stalled (first_event)"),
        ("decided", "info", "cut by transport: retry"),
        ("model_call_ended", "info", "model call 2 on main ended after 0.0 s"),
        ("run_ended", "info", "run completed after 20.4 s"),
    ]
    assert {(line["run"], line["session"]) for line in found} == {("r", "s1")}
    assert found[1]["clock"] == "first_event"


@pytest.mark.parametrize(
    ("facts", "event", "level", "message"),
    [
        ([RunClaimed(2.0, 3)], "run_resumed", "info", "run resumed"),
        ([RunLeft(2.0, "stopping")], "run_left", "info", "run released: stopping"),
        ([StopAsked(2.0, "ann")], "stop_asked", "info", "stop requested by ann"),
        ([ToolStarted(2.0, "c", "look", {"path": "x"}, "k")], "tool_started", "info", "look started"),
        (
            [ToolFinished(2.0, "c", "look", ToolOutcome("timed_out", seconds=3.0))],
            "tool_finished",
            "info",
            "look timed out after 3.0 s",
        ),
        (
            [ToolFinished(2.0, "c", "look", ToolOutcome("unknown"))],
            "tool_finished",
            "warning",
            "look unknown after 0.0 s",
        ),
        (
            [ApprovalAsked(2.0, "a1", "c", "shell", {"command": "x"})],
            "approval_asked",
            "info",
            "shell waits for approval (approval)",
        ),
        ([ApprovalAnswered(2.0, "a1", "denied", "ann")], "approval_answered", "info", "a1 denied"),
        (
            [Decided(2.0, 1, "empty", (), GiveUp("failed", "x"), gained=5, lost=1_200)],
            "decided",
            "warning",
            "empty: give up, 5 characters kept, 1,200 lost",
        ),
        (
            [RunEnded(4.0, Outcome("failed", "x", failure("auth", "x")))],
            "run_ended",
            "warning",
            "run failed after 3.0 s: auth",
        ),
        (
            [ask(), burst(Cut(failure("cancelled", "stopped")), at=4.0)],
            "model_call_broke",
            "info",
            "model call 1 on main broke after 2.0 s: cancelled",
        ),
    ],
)
def test_each_thing_that_happens_is_one_line(facts, event, level, message):
    last = lines([START, *facts])[-1]
    assert (last["event"], last["level"], last["message"]) == (event, level, message)


def test_a_run_that_this_process_lost_is_told():
    stream = io.StringIO()
    with open_log("text", Redactor(), stream):
        observed([START], RunLines()).gone("r")
    assert "WARNING this process no longer drives the run, which has not ended run=r" in stream.getvalue()


@pytest.mark.requirement("H5")
@pytest.mark.parametrize(
    "case", ["tool", "stalls-in-text", "cut-in-shell", "error-in-stream", "rate-limited", "refusal"]
)
def test_lines_hold_no_content_unless_it_is_asked_for(tmp_path: Path, case: str):
    story = run_case(tmp_path, case)
    spoken = [
        TASK,
        story.shown,
        "Oslo",
        "rm -rf",
        "slow down",
        "engine failed",
        *(fact.outcome.text for fact in story.finished),
    ]
    told = json.dumps(lines(story.facts), ensure_ascii=False)
    assert [words for words in spoken if words and words in told] == []


def test_content_that_is_asked_for_comes_without_secrets():
    facts = [
        START,
        ToolStarted(2.0, "c", "shell", {"command": f"curl -H 'x-api-key: abcdefgh' {KEY}"}, "k"),
        ask(),
        burst(Cut(Failure("auth", f"bad key {KEY}", False, status=401))),
        RunEnded(4.0, Outcome("failed", f"bad key {KEY}")),
    ]
    _, tool, broke, ended = lines(facts, content=True)
    assert tool["message"] == "shell started curl -H 'x-api-key: [secret]' [secret]"
    assert (broke["said"], ended["why"]) == ("bad key [secret]", "bad key [secret]")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_begins_with_a_line_and_ends_with_one(task):
    events = [line["event"] for line in lines(world_facts(task))]
    assert (events[0], events[-1]) == ("run_started", "run_ended")
    assert events.count("run_ended") == 1


def test_the_lines_of_a_run_name_the_request_that_started_it():
    token = request_id.set("q-77")
    try:
        (line,) = lines([START])
    finally:
        request_id.reset(token)
    assert line["request_id"] == "q-77"


def test_a_log_takes_in_other_packages_and_goes_when_it_is_closed():
    stream = io.StringIO()
    root = logging.getLogger()
    before = list(root.handlers), logging.getLogger("turnbuckle").level
    with open_log("text", Redactor([KEY]), stream):
        logging.getLogger("somebody.else").warning("it uses %s", KEY)
        logging.getLogger("somebody.else").info("chatter")
        logging.getLogger("turnbuckle.x").info("ours")
    assert (list(root.handlers), logging.getLogger("turnbuckle").level) == before
    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()] == [
        "WARNING it uses [secret]",
        "INFO    ours",
    ]


class Stuck(io.StringIO):
    """A stream that nobody reads, until somebody does."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.drained = threading.Event(), threading.Event()
        self.writes = 0

    def write(self, text: str) -> int:
        self.entered.set()
        self.writes += 1
        assert self.drained.wait(100)
        return super().write(text)


@pytest.mark.requirement("H5")
def test_a_log_that_nobody_reads_holds_nobody_up_and_says_what_was_lost():
    stream = Stuck()
    writer = LineWriter(stream, PlainForm(Redactor()), most=3)
    logger = logging.Logger("busy")
    logger.addHandler(writer)
    logger.warning("line 0")
    assert stream.entered.wait(100)  # the thread has taken it and hangs
    for number in range(1, 11):
        logger.warning("line %d", number)
    assert writer.lost == 7
    stream.drained.set()
    writer.close()
    words = [line.split("WARNING ")[1] for line in stream.getvalue().splitlines()]
    lost = "7 log lines were dropped: the log was read too slowly"
    assert words == ["line 0", "line 1", "line 2", "line 3", lost]


def test_lines_that_wait_are_written_in_one_piece_and_none_of_them_late():
    stream = Stuck()
    writer = LineWriter(stream, PlainForm(Redactor()))
    logger = logging.Logger("busy")
    logger.addHandler(writer)
    logger.warning("line 0")
    assert stream.entered.wait(100)
    for number in range(1, 251):
        logger.warning("line %d", number)
    stream.drained.set()
    writer.close()
    words = [line.split("WARNING ")[1] for line in stream.getvalue().splitlines()]
    assert words == [f"line {number}" for number in range(251)]
    assert stream.writes <= 5


def test_a_log_whose_reader_is_gone_is_no_problem():
    stream = io.StringIO()
    stream.close()
    writer = LineWriter(stream, PlainForm(Redactor()))
    writer.emit(logging.LogRecord("x", logging.INFO, "", 0, "hello", None, None))
    writer.close()
    assert writer.lost == 1


@pytest.mark.requirement("H5")
def test_a_line_of_ours_is_without_secrets_wherever_they_stand_in_it():
    record = logging.LogRecord("turnbuckle.x", logging.INFO, "x.py", 1, "%s %d %s", (KEY, 7, "fine"), None)
    vars(record).update(event="e", run="r20261117-120000-0123456789ab", session=f"of {KEY}")
    line = PlainForm(Redactor([KEY])).format(record)
    assert line.endswith("[secret] 7 fine run=r20261117-120000-0123456789ab session=of [secret]")


def test_the_log_leaves_the_switches_of_others_as_they_were():
    before = (logging._srcfile, logging.logThreads)
    with open_log("text", Redactor(), io.StringIO()):
        pass
    assert (logging._srcfile, logging.logThreads) == before
