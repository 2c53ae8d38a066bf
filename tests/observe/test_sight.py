"""What onlookers are told of a run, and what a burst costs them: nothing."""

import logging

import pytest
from support.observe.observed_runs import observed
from support.turns.turn_facts import RESET, START, ask, burst, said

from turnbuckle.observe.run_observer import MOST_RUNS, CallStats, RunObserver, RunStats
from turnbuckle.turn.facts import (
    Fact,
    RunClaimed,
    RunEnded,
    RunLeft,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolSaid,
    ToolStarted,
)
from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    CallStarted,
    Ended,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome

DONE = RunEnded(9.0, Outcome("completed"))


class Notes:
    """Writes everything down."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.calls: list[CallStats] = []
        self.lost: list[str] = []
        self.tools: list[list[str]] = []
        self.sessions: list[str] = []

    def take(self, run: RunStats, fact: Fact) -> None:
        self.facts.append(fact)
        self.tools.append(list(run.tools))
        self.sessions.append(run.session)

    def over(self, run: RunStats, call: CallStats) -> None:
        self.calls.append(call)

    def gone(self, run: RunStats) -> None:
        self.lost.append(run.run)


class Breaks:
    """Cannot cope with anything."""

    def take(self, run: RunStats, fact: Fact) -> None:
        raise RuntimeError("no")

    def over(self, run: RunStats, call: CallStats) -> None:
        raise RuntimeError("no")

    def gone(self, run: RunStats) -> None:
        raise RuntimeError("no")


@pytest.mark.requirement("H5")
def test_a_call_is_told_once_with_its_times_its_usage_and_its_end():
    notes = Notes()
    usage = Usage(input=10, output=4)
    facts = [
        START,
        ask(at=2.0),
        burst(Started("id-1", "m-1"), at=3.0),
        burst(TextDelta(0, "a"), at=5.0),
        burst(TextDelta(0, "b"), at=6.0),
        burst(TextDelta(0, "c"), TextDelta(0, "d"), at=13.0),
        burst(UsageNoted(Usage(input=10)), at=14.0),
        burst(FinishNoted("stop", "stop"), UsageNoted(usage), Ended("end"), at=15.0),
        DONE,
    ]
    observed(facts, notes)
    assert notes.calls == [CallStats(ask(at=2.0), 15.0, 5.0, 7.0, usage, "stop", None, "id-1", "m-1")]
    assert notes.facts == [START, ask(at=2.0), DONE]


@pytest.mark.parametrize(
    ("bursts", "first", "gap"),
    [
        ([], None, None),
        ([(50, [Alive("ping")])], None, None),
        ([(5, [TextDelta(0, "a")])], 5, 95),
        ([(5, [TextDelta(0, "a")]), (50, [Alive("ping")]), (90, [Alive("ping")])], 5, 95),
        ([(5, [TextDelta(0, "a")]), (50, [Alive("ping"), TextDelta(0, "b")])], 5, 50),
        ([(5, [ReasoningDelta(0, "a")]), (80, [CallStarted(1, "c", "n")]), (95, [CallArgs(1, "{")])], 5, 75),
        ([(5, [RefusalDelta(0, "a")]), (80, [CallStarted(1, "c", "n"), CallArgs(1, "{")])], 5, 75),
    ],
)
def test_the_longest_silence_is_that_of_content_and_runs_to_the_last_word(bursts, first, gap):
    notes = Notes()
    observed(
        [START, ask(at=0.0), *(burst(*events, at=at) for at, events in bursts), burst(RESET, at=100)], notes
    )
    assert [(call.first_at, call.longest_gap, call.failure) for call in notes.calls] == [
        (first, gap, RESET.failure)
    ]


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("size", [1, 3])
def test_onlookers_are_not_called_for_bursts_however_many_there_are(size: int):
    notes = Notes()
    sight = observed([START, ask()], notes)
    for at in range(5_000):
        sight("r", Streamed(at, 1, (TextDelta(0, "x"),) * size))
    assert len(notes.facts) == 2
    assert notes.calls == []


def test_an_onlooker_that_fails_is_logged_and_touches_neither_the_run_nor_the_others(caplog):
    notes = Notes()
    with caplog.at_level(logging.ERROR):
        sight = observed([START, ask(), said("hi")], Breaks(), notes)
        sight.gone("r")
    assert (len(notes.facts), len(notes.calls), notes.lost) == (2, 1, ["r"])
    assert [record.getMessage() for record in caplog.records] == ["Breaks could not follow a run"] * 4


def test_a_tool_is_at_work_from_its_start_to_its_end_also_under_an_id_that_comes_again():
    notes = Notes()
    started = ToolStarted(3.0, "c", "look", {}, "k")
    finished = ToolFinished(4.0, "c", "look", ToolOutcome("finished"))
    observed([started, ToolSaid(3.5, "c", "x"), finished, started, finished], notes)
    assert notes.tools == [[], ["c"], ["c"], [], ["c"]]


@pytest.mark.parametrize("end", [DONE, RunLeft(9.0, "stopping")])
def test_a_run_that_ended_or_was_left_is_out_of_sight(end: Fact):
    notes = Notes()
    sight = observed([START, end], notes)
    sight.gone("r")
    assert notes.lost == []


def test_a_run_that_is_taken_up_again_in_the_same_process_is_gone_first_and_keeps_its_session():
    notes = Notes()
    observed([START, ask(), RunClaimed(5.0, 2), burst(RESET, at=6.0), StopAsked(7.0)], notes)
    assert notes.lost == ["r"]
    assert notes.calls == []  # the call died with its process; what became of it there nobody has seen
    assert notes.sessions == ["s"] * 4


def test_a_run_is_seen_from_wherever_it_comes_into_sight():
    notes = Notes()
    observed([StopAsked(7.0), DONE], notes)
    assert notes.facts == [StopAsked(7.0), DONE]


def test_runs_that_nobody_lets_go_of_do_not_pile_up():
    notes = Notes()
    sight = RunObserver([notes])
    for number in range(MOST_RUNS + 3):
        sight(f"r{number}", START)
    assert notes.lost == ["r0", "r1", "r2"]
