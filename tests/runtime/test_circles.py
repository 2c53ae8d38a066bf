"""Models that go round in circles, in what they show, in what they think, and in what they write into a call."""

from pathlib import Path

import pytest
from support.runs.run_harness import MAIN, RunRecord, run_case

from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.script import Call, Case, Finish, Reason, Say, ScriptItem
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.wire.registry import PROTOCOLS

RUN_ON = "and then I look at it again and once more "
LINE = "the very same line of a file, once more\\n"


def case(*steps: ScriptItem) -> Case:
    return Case("circle", "goes round", (steps,))


IN_CALL = case(
    Call("write_file", '{"path": "a.txt", "content": "' + LINE * 4_000, pieces=600, closed=False), Finish()
)
IN_CALL_BEHIND_TEXT = case(
    Say("I write it. "),
    Call("write_file", '{"path": "a.txt", "content": "' + RUN_ON * 3_000, pieces=500),
    Finish(),
)
CIRCLES: dict[str, Case | str] = {
    "run-on text": case(Say(RUN_ON, pieces=42, times=3_000), Finish()),
    "thoughts": "thinks-in-circles",
    "thoughts, long period": case(Reason(f"{ANSWER} {'x' * 900}! " * 200, pieces=90), Finish()),
    "blanks in arguments": "blanks-in-arguments",
    "lines in arguments": IN_CALL,
    "words in arguments": IN_CALL_BEHIND_TEXT,
    "the same call": case(*[Call("get_weather", {"city": "Oslo"})] * 900, Finish()),
}


def every(*names: str) -> pytest.MarkDecorator:
    """Each circle in each protocol that can show it: nobody sees arguments that come whole."""
    cases = [
        (protocol, name)
        for name in names
        for protocol in PROTOCOL_NAMES
        if "arguments" not in name or PROTOCOLS[protocol].streams_arguments
    ]
    return pytest.mark.parametrize(("protocol", "name"), cases)


def generated(record: RunRecord) -> int:
    return sum(len(getattr(event, "text", "")) for event in record.events)


@pytest.mark.requirement("B15")
@every(*CIRCLES)
def test_a_circle_is_stopped_and_leaves_no_trace_in_the_history(
    tmp_path: Path, protocol: ProtocolName, name: str
):
    """Given a model in circles, then it is stopped and the history stays clean."""
    record = run_case(tmp_path, CIRCLES[name], protocol=protocol)
    assert record.outcome.kind in ("failed", "partial")
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "repeated"
    assert record.requests[0].progress.over == "client left"
    assert generated(record) < (70_000 if "lines" in name else 20_000)
    assert record.started == []
    assert record.outcome.drafts == ()
    assert all(len(str(message)) < 2_000 for message in record.turn.messages)


@pytest.mark.requirement("B15")
@every("thoughts", "blanks in arguments", "words in arguments")
def test_where_nothing_of_the_circle_was_shown_another_route_is_asked(
    tmp_path: Path, protocol: ProtocolName, name: str
):
    """Given a circle of which nothing was shown, then another route is asked."""
    record = run_case(tmp_path, {MAIN: CIRCLES[name], "other": "happy"}, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert record.shown.endswith(ANSWER)
    assert [asked.route for asked in record.asked] == [MAIN, "other"]
    assert RUN_ON not in str(record.turn.messages)
