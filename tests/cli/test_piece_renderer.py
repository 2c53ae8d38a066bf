"""Facts as a person reads them, and what a run is waiting for."""

from typing import Any

import pytest

from turnbuckle.cli.exits import EXIT_CODES
from turnbuckle.cli.follow import waste_lines
from turnbuckle.cli.pieces import Break, Line, Piece, PieceRenderer, Words
from turnbuckle.cli.waiting import words as waiting_words
from turnbuckle.narrate.told import ModelCalled, RunOver
from turnbuckle.narrate.waiting import WaitingFold
from turnbuckle.turn.facts import (
    ApprovalAsked,
    Decided,
    Fact,
    FinishDraft,
    ModelAsked,
    Retry,
    RunEnded,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolSaid,
    ToolStarted,
)
from turnbuckle.turn.labels import short_argument
from turnbuckle.turn.ledger import Waste
from turnbuckle.vocab.events import CallArgs, CallStarted, Event, ReasoningDelta, TextDelta
from turnbuckle.vocab.ids import DraftId, RouteName, RunId, SessionId
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import Spent
from turnbuckle.vocab.tooling import ToolOutcome


def _asked(at: float = 0.0, why: Any = "first") -> ModelAsked:
    return ModelAsked(at, 1, RouteName("r"), "openai_chat", "m", why)


def _said(*events: Event, at: float = 0.0) -> Streamed:
    return Streamed(at, 1, events)


def _finished(outcome: ToolOutcome, name: str = "shell") -> ToolFinished:
    return ToolFinished(0, "c", name, outcome)


STALLED = "stream stalled 12 s in write_file, 18,412 characters kept, finishing the draft"
LINES: list[tuple[Fact, list[Piece]]] = [
    (_said(TextDelta(0, "hi")), [Words("hi")]),
    (_said(ReasoningDelta(0, "hm")), []),
    (_said(CallStarted(0, "c", "shell"), CallArgs(0, "{")), []),
    (_asked(), []),
    (RunStarted(0, RunId("r"), SessionId("s"), ()), []),
    (RunStarted(0, RunId("r"), SessionId("s"), (), origin=Origin(notice="New.")), [Line("New.", "notice")]),
    (_asked(why="continue"), []),
    (
        ToolStarted(0, "c", "shell", {"command": "make\ntest"}, "k"),
        [Break(), Line("→ shell make test", "tool")],
    ),
    (ToolSaid(0, "c", "out"), []),
    (
        _finished(ToolOutcome("finished", "a\nb", seconds=1.25)),
        [Break(), Line("✓ shell, 1.2 s: a b", "tool")],
    ),
    (
        _finished(ToolOutcome("failed", "no", exit_code=2)),
        [Break(), Line("✗ shell, 0.0 s, exit code 2: no", "bad")],
    ),
    (_finished(ToolOutcome("timed_out", seconds=9)), [Break(), Line("✗ shell timed out after 9.0 s", "bad")]),
    (
        _finished(ToolOutcome("unknown")),
        [Break(), Line("? shell was started, how it ended is not known", "bad")],
    ),
    (_finished(ToolOutcome("denied", "no")), [Break(), Line("✗ shell did not run: no", "bad")]),
    (Decided(0, 1, "x", (), Retry(1)), []),
    (Decided(0, 1, "x", (), FinishDraft(DraftId("d")), notice=STALLED), [Line(STALLED, "notice")]),
    (StopAsked(0), [Line("stopping", "notice")]),
    (RunEnded(5, Outcome("completed")), [Break(), Line("completed after 0.0 s")]),
    (RunEnded(5, Outcome("partial", "it broke")), [Break(), Line("partial after 0.0 s: it broke", "bad")]),
]


@pytest.mark.parametrize(("fact", "pieces"), LINES)
def test_each_fact_is_told_in_at_most_one_line(fact: Fact, pieces: list[Piece]) -> None:
    assert PieceRenderer().take(fact) == pieces


def test_reasoning_is_shown_when_asked_for_and_stands_apart_from_the_answer() -> None:
    renderer = PieceRenderer(reasoning=True)
    pieces = renderer.take(_said(ReasoningDelta(0, "h"), ReasoningDelta(0, "m"), TextDelta(1, "so")))
    assert pieces == [Break(), Words("hm", True), Break(), Words("so")]


@pytest.mark.parametrize("why", ["after_tools", "steered"])
def test_a_reply_of_its_own_is_a_paragraph_of_its_own(why: str) -> None:
    renderer = PieceRenderer()
    renderer.take(_said(TextDelta(0, "One.")))
    assert renderer.take(_asked(why=why)) == [Break()]
    assert renderer.take(_said(TextDelta(0, "Two."))) == [Words("Two.", apart="\n\n")]


@pytest.mark.parametrize(
    ("arguments", "short"),
    [
        ({"content": "x" * 500, "path": "a.txt"}, "a.txt"),
        ({"pattern": "p", "path": "src"}, "src"),
        ({"other": 3}, "3"),
        ({}, ""),
        ({"command": "y" * 100}, "y" * 71 + "…"),
    ],
)
def test_a_call_is_shown_by_its_most_telling_argument(arguments: dict[str, Any], short: str) -> None:
    assert short_argument(arguments) == short


@pytest.mark.requirement("C6", "H2")
def test_every_outcome_has_an_exit_code_of_its_own() -> None:
    assert EXIT_CODES == {"completed": 0, "failed": 1, "partial": 3, "cancelled": 130}


WAITS: list[tuple[list[Fact], str]] = [
    ([], ""),
    ([_asked(10)], "waiting for m, 90 s"),
    ([_asked(10), _said(ReasoningDelta(0, "hm"), at=40)], "thinking, 60 s"),
    ([_asked(10), _said(TextDelta(0, "hm"), at=40)], "waiting for more from m, 60 s"),
    (
        [_asked(10), _said(CallStarted(0, "c", "write_file"), CallArgs(0, "x" * 2000), at=98)],
        "receiving write_file, 2,000 characters, last 2 s ago",
    ),
    ([_asked(10), Decided(95, 1, "x", (), Retry(20.0))], "waiting 20 s before the next try, 5 s"),
    ([_asked(10), ToolStarted(70, "c", "shell", {"command": "make"}, "k")], "running shell make, 30 s"),
    ([ToolStarted(70, "c", "shell", {}, "k"), ToolFinished(80, "c", "shell", ToolOutcome("finished"))], ""),
    ([_asked(-400)], "waiting for m, 8 min 20 s"),
    ([_asked(10), RunEnded(20, Outcome("completed"))], ""),
    (
        [_asked(10), ApprovalAsked(40, "a1", "c", "shell", {"command": "make"})],
        "waiting for an answer about shell make, 60 s",
    ),
    ([_asked(10), Decided(99, 1, "x", (), Retry(0.5))], ""),
]


@pytest.mark.parametrize(("facts", "words"), WAITS)
def test_what_is_waited_for_is_told_with_its_time(facts: list[Fact], words: str) -> None:
    waiting = WaitingFold()
    for fact in facts:
        waiting.take(fact)
    assert waiting_words(waiting, 100.0) == words


@pytest.mark.requirement("H8")
def test_the_last_line_says_how_much_of_a_limit_was_used():
    renderer = PieceRenderer()
    renderer.draw(ModelCalled(1, "main", "m", "first", max_money=0.5))
    *_, line = renderer.draw(RunOver("r", Outcome("completed"), seconds=1.0, spent=Spent(1, cost=0.25)))
    assert line == Line("completed after 1.0 s, 0 tokens in, 0 out, $0.2500 of $0.5000")


@pytest.mark.requirement("H8")
def test_a_failed_connection_has_no_unknown_cost():
    [line] = waste_lines((Waste("connect", 2, 1.5, money=None),))
    assert line == Line("wasted: 1.5 s (connect ×2)")
