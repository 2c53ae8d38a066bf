"""Every request of the rehearsal model, with every way to break, through the real driver and the real tools: each run
ends truthfully, and what it did was done exactly once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.lab.rehearsal.model import Rehearsal
from turnbuckle.lab.rehearsal.words import HELP, MARKDOWN, WHO, lines, story
from turnbuckle.runtime.context import opening
from turnbuckle.runtime.runs import RunRules, Runs
from turnbuckle.runtime.toolbox import Toolbox, facts_of
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import Tool, ToolContext, tool
from turnbuckle.turn.facts import Decided, Fact, RunEnded, Streamed, ToolStarted, decode
from turnbuckle.turn.ledger import Ledger
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.events import ReasoningDelta, TextDelta, UsageNoted
from turnbuckle.vocab.ids import RouteName

BREAKS = ("cut", "stall", "lie", "fail", "be busy")
KINDS = {"cut": "reset", "stall": "stalled", "fail": "server", "be busy": "rate_limited"}


@tool(effect="write")
async def shell(command: str, context: ToolContext, timeout: float | None = None) -> str:
    """Stands for the shell, which needs real time. Every command leaves a line."""
    with (context.workspace / "commands").open("a") as file:
        file.write(command + "\n")
    return f"ran {command}"


@tool(effect="read")
async def fetch_url(url: str) -> str:
    """Stands for the web, which is not there."""
    return f"a page at {url}"


@tool(effect="read")
async def ask_user(question: str) -> str:
    """Stands for a person."""
    return f"answer to {question}"


@tool(effect="read")
async def get_weather(city: str) -> str:
    """A tool of one's own."""
    return f"fine in {city}"


@tool(effect="read")
async def search_files(pattern: str, context: ToolContext) -> str:
    """Stands for the search, which is a process and needs real time."""
    return f"found {(context.workspace / 'old.txt').read_text().count(pattern.replace(chr(92), ''))} times"


class Told:
    """What a run left behind."""

    def __init__(self, facts: list[Fact], folder: Path, seconds: float) -> None:
        (ended,) = [fact for fact in facts if isinstance(fact, RunEnded)]
        events = [event for fact in facts if isinstance(fact, Streamed) for event in fact.events]
        self.outcome = ended.outcome
        self.shown = "".join(event.text for event in events if isinstance(event, TextDelta))
        self.thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
        self.started = [fact.name for fact in facts if isinstance(fact, ToolStarted)]
        self.decided = [fact for fact in facts if isinstance(fact, Decided)]
        self.broke = [fact.failure.kind if fact.failure else fact.verdict for fact in self.decided]
        self.folder = folder
        self.seconds = seconds
        self.facts = facts

    def file(self, name: str) -> str:
        return (self.folder / name).read_text()


def told(folder: Path, task: str, tools: tuple[Tool, ...] | None = None) -> Told:
    clock = VirtualClock()
    instead = {one.name: one for one in (*BUILT_IN, shell, fetch_url, ask_user, search_files, get_weather)}
    dispatcher = Dispatcher(Registry(instead.values() if tools is None else tools))
    policy = Policy((RouteFacts(RouteName("r"), "openai_chat", "rehearsal"),), facts_of(dispatcher))
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "old.txt").write_text(lines(3))
    context = ToolContext(workspace=workspace, data=folder, clock=clock, threads=False)
    journal = MemoryJournal(monotonic=clock.now, wall=clock.now)

    async def main() -> Told:
        runs = Runs(
            journal,
            RunRules(policy, opening(str(workspace))),
            Rehearsal(clock.sleep),
            lambda run: Toolbox(dispatcher, context),
            clock.environment("a"),
        )
        running = await runs.start(task)
        await running.outcome()
        facts, after = [], 0
        while items := await journal.read(running.run, after):
            facts += [decode(item.data) for item in items]
            after = items[-1].seq
        return Told(facts, workspace, clock.now())

    return clock.run(main)


def done(text: str) -> str:
    return f"Done. The tool says:\n{text}\n"


Check = Callable[[Told], Any]
REQUESTS: dict[str, tuple[str, list[str], Check]] = {
    "write a.txt": (
        f"I will write a.txt.\n{done('Wrote a.txt: 1 line, 44 bytes.')}",
        ["write_file"],
        lambda told: told.file("a.txt") == lines(1),
    ),
    "write a.txt with 300 lines": (
        f"I will write a.txt.\n{done(f'Wrote a.txt: 300 lines, {len(lines(300)):,} bytes.')}",
        ["write_file"],
        lambda told: told.file("a.txt") == lines(300),
    ),
    "write a.txt saying `one, then two`": (
        f"I will write a.txt.\n{done('Wrote a.txt: 1 line, 14 bytes.')}",
        ["write_file"],
        lambda told: told.file("a.txt") == "one, then two\n",
    ),
    "append 40 lines to old.txt": (
        "I will add to old.txt.\n"
        + done(f"Added 40 lines, {len(lines(40, 'appended')):,} bytes to the end of old.txt."),
        ["append_file"],
        lambda told: told.file("old.txt") == lines(3) + lines(40, "appended"),
    ),
    "replace line 2 by `the second line` in old.txt": (
        f"I will change old.txt.\n{done('Changed old.txt, line 2.')}",
        ["edit_file"],
        lambda told: told.file("old.txt") == lines(3).replace("line 2", "the second line"),
    ),
    "edit old.txt": (
        f"I will change old.txt.\n{done('Changed old.txt, line 1.')}",
        ["edit_file"],
        lambda told: told.file("old.txt") == lines(3).replace("line 1", "line one"),
    ),
    "read old.txt": (f"I will read old.txt.\n{done(lines(3).strip())}", ["read_file"], lambda told: True),
    "list the files": (
        f"I will look at the files.\n{done('old.txt (132 bytes)')}",
        ["list_files"],
        lambda told: True,
    ),
    "search for line 2": (
        f"I will search the files.\n{done('found 1 times')}",
        ["search_files"],
        lambda told: True,
    ),
    "run echo a, b and c": (
        f"I will run a command.\n{done('ran echo a, b and c')}",
        ["shell"],
        lambda told: told.file("commands") == "echo a, b and c\n",
    ),
    "wait 2 seconds": (f"I will wait 2 seconds.\n{done('ran sleep 2')}", ["shell"], lambda told: True),
    "fetch http://example.org/a": (
        f"I will fetch http://example.org/a.\n{done('a page at http://example.org/a')}",
        ["fetch_url"],
        lambda told: True,
    ),
    "ask me which colour you like": (
        f"I have a question.\n{done('answer to Which colour you like?')}",
        ["ask_user"],
        lambda told: True,
    ),
    'call get_weather with {"city": "Oslo"}': (
        f"I will call get_weather.\n{done('fine in Oslo')}",
        ["get_weather"],
        lambda told: True,
    ),
    "say good morning": ("good morning\n", [], lambda told: True),
    "tell a story": (story(12), [], lambda told: True),
    "tell a story with 40 lines": (story(40), [], lambda told: True),
    "show markdown": (MARKDOWN, [], lambda told: True),
    "think about rain": ("I have thought about it.\n", [], lambda told: "about rain" in told.thought),
    "help": (HELP, [], lambda told: True),
    "make me a sandwich": (HELP, [], lambda told: True),
}


@pytest.mark.requirement("H1")
@pytest.mark.parametrize("request_", REQUESTS)
def test_every_request_is_followed(tmp_path: Path, request_: str) -> None:
    text, tools, check = REQUESTS[request_]
    run = told(tmp_path, request_)
    assert (run.outcome.kind, run.started, run.decided) == ("completed", tools, [])
    assert run.shown == WHO + text
    assert check(run)


@pytest.mark.requirement("H1", "B3", "B4", "B8")
@pytest.mark.parametrize("times", ["", " twice", " 3 times"])
@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("request_", [request for request in REQUESTS if "sandwich" not in request])
def test_every_request_survives_every_break(tmp_path: Path, request_: str, how: str, times: str) -> None:
    text, tools, check = REQUESTS[request_]
    run = told(tmp_path, f"{request_} and {how}{times}")
    count = {"": 1, " twice": 2, " 3 times": 3}[times]
    if how in ("fail",) and count > 2:
        assert run.outcome.kind == "failed"
        return
    assert run.broke[:1] == [KINDS.get(how, "malformed" if not tools else "cut_by_transport")]
    assert len(run.decided) == count
    assert (run.outcome.kind, run.started) == ("completed", tools)
    assert run.shown == WHO + text
    assert check(run)


@pytest.mark.requirement("H1")
@pytest.mark.parametrize("how", ["", *BREAKS])
def test_several_steps_are_done_one_after_the_other_and_may_all_break(tmp_path: Path, how: str) -> None:
    more = f" and {how}" if how else ""
    run = told(tmp_path, f"write a.txt with 20 lines{more}, then read it{more} and then run wc a.txt{more}")
    assert run.outcome.kind == "completed"
    assert run.started == ["write_file", "read_file", "shell"]
    assert (run.file("a.txt"), run.file("commands")) == (lines(20), "wc a.txt\n")
    assert len(run.decided) == (3 if how else 0)
    assert run.shown.endswith("I will run a command.\n" + done("ran wc a.txt"))


@pytest.mark.requirement("D6", "H1")
@pytest.mark.parametrize("how", ["", *BREAKS])
def test_calls_that_are_made_at_once_run_once_each(tmp_path: Path, how: str) -> None:
    run = told(
        tmp_path,
        f"run a, then read old.txt, then write b.txt with 50 lines{f' and {how}' if how else ''} at once",
    )
    assert run.outcome.kind == "completed"
    assert sorted(run.started) == ["read_file", "shell", "write_file"]
    assert (run.file("b.txt"), run.file("commands")) == (lines(50), "a\n")
    assert run.shown.count("Done. The tool says:") == 3


@pytest.mark.requirement("B6", "B9", "C6")
def test_a_write_that_is_cut_every_time_ends_with_its_draft_and_without_a_file(tmp_path: Path) -> None:
    run = told(tmp_path, "write a.txt with 50 lines and cut every time")
    assert (run.outcome.kind, run.started) == ("partial", [])
    assert len(run.outcome.drafts) == 1
    assert not (run.folder / "a.txt").exists()


@pytest.mark.requirement("B6", "C6")
@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        ("tell a story and cut every time", "partial"),
        ("tell a story and stall always", "partial"),
        ("tell a story and lie every time", "partial"),
        ("tell a story and fail every time", "failed"),
        ("tell a story and be busy every time", "failed"),
        ("refuse", "failed"),
        ("write a.txt and refuse", "failed"),
    ],
)
def test_what_never_works_ends_and_says_so(tmp_path: Path, task: str, outcome: str) -> None:
    run = told(tmp_path, task)
    assert (run.outcome.kind, run.started) == (outcome, [])
    assert (WHO + story(12)).startswith(run.shown)


def test_different_breaks_come_one_after_the_other(tmp_path: Path) -> None:
    run = told(tmp_path, "write a.txt with 200 lines and cut twice and stall and be busy")
    assert run.broke == ["rate_limited", "reset", "reset", "stalled"]
    assert (run.outcome.kind, run.started, run.file("a.txt")) == ("completed", ["write_file"], lines(200))


def test_a_step_that_does_not_work_ends_the_plan(tmp_path: Path) -> None:
    run = told(tmp_path, "read missing.txt, then write a.txt, then list")
    assert (run.outcome.kind, run.started) == ("completed", ["read_file"])
    assert "That did not work." in run.shown
    assert run.shown.endswith("So I leave the rest, 2 more, undone.\n")


def test_slowly_takes_the_time_that_a_person_needs_to_watch_and_the_rest_is_no_slower(tmp_path: Path) -> None:
    run = told(tmp_path, "write notes.md with 600 lines slowly and stall")
    assert run.file("notes.md") == lines(600)
    assert run.broke == ["stalled"]
    assert 12 + 3 < run.seconds < 17 + 3


def test_thoughts_are_reasoning_and_not_repeated_behind_a_cut(tmp_path: Path) -> None:
    run = told(tmp_path, "think about tea and cut, then write a.txt")
    assert run.thought.count("about tea") == 1
    assert (run.outcome.kind, run.started) == ("completed", ["write_file"])


@pytest.mark.requirement("C8")
def test_it_counts_tokens_so_that_the_ledger_has_something_to_tell(tmp_path: Path) -> None:
    run = told(tmp_path, "write a.txt with 100 lines and stall")
    ledger = Ledger()
    for fact in run.facts:
        ledger.take(fact)
    (waste,) = ledger.entries
    assert (waste.cause, waste.times) == ("stalled between words", 1)
    assert waste.input_tokens > 10
    usages = [
        event.usage
        for fact in run.facts
        if isinstance(fact, Streamed)
        for event in fact.events
        if isinstance(event, UsageNoted)
    ]
    assert usages[-1].output == -(-len(done("Wrote a.txt: 100 lines, 4,692 bytes.")) // 4)
