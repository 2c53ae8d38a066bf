"""What a run waits for, and since when."""

import pytest
from support.turns.turn_facts import RESET, START, ask, burst

from turnbuckle.narrate.waiting import WaitingFold, WaitingOn
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    Continue,
    Decided,
    DraftClosed,
    GiveUp,
    HandedCall,
    Reask,
    Retry,
    RunClaimed,
    RunEnded,
    RunLeft,
    StopAsked,
    ToolFinished,
    ToolSaid,
    ToolStarted,
)
from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    CallNamed,
    CallStarted,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
)
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome

FULL = Failure("rate_limited", "slow down", True, status=429)
TOLD = Failure("server", "come back", True, retry_after=9.0)
TOOL = ToolStarted(20.0, "c1", "shell", {"command": "make all"}, "k")
OTHER = ToolStarted(21.0, "c2", "look", {}, "k2")
DONE = ToolFinished(30.0, "c1", "shell", ToolOutcome("finished"))
CONSENT = ApprovalAsked(22.0, "a1", "c3", "shell", {"command": "make all"})
QUESTION = ApprovalAsked(
    23.0, "a2", "c4", "ask_user", {"question": "Which?"}, "question", "Which of  the\ntwo?"
)
FIRST = WaitingOn("provider_first_token", "m", 10.0)


def decided(decision, why=None, at=50.0):
    return Decided(at, 1, "cut_by_transport", (), decision, why)


def on(*facts, now=100.0):
    waiting = WaitingFold()
    for fact in facts:
        waiting.take(fact)
    return waiting.on(now)


@pytest.mark.requirement("F8")
@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ([], None),
        ([START], None),
        ([ask(at=10.0)], FIRST),
        ([ask(at=10.0), burst(Started("id", "m"), Alive("ping"), at=40.0)], FIRST),
        ([ask(at=10.0), burst(TextDelta(0, "x"), at=40.0)], WaitingOn("provider", "m: text", 40.0)),
        ([ask(at=10.0), burst(RefusalDelta(0, "x"), at=40.0)], WaitingOn("provider", "m: text", 40.0)),
        ([ask(at=10.0), burst(ReasoningDelta(0, "x"), at=40.0)], WaitingOn("provider", "m: reasoning", 40.0)),
        (
            [ask(at=10.0), burst(ReasoningDelta(0, "x"), at=40.0), burst(Alive("ping"), at=90.0)],
            WaitingOn("provider", "m: reasoning", 40.0),
        ),
        (
            [
                ask(at=10.0),
                burst(TextDelta(0, "x"), CallStarted(1, "c", "look"), CallArgs(1, "x" * 2_000), at=40.0),
            ],
            WaitingOn("provider", "m: look, 2,000 characters", 40.0),
        ),
        (
            [
                ask(at=10.0),
                burst(CallStarted(1, "c", ""), CallArgs(1, "ab"), at=40.0),
                burst(CallNamed(1, "c", "look"), at=41.0),
            ],
            WaitingOn("provider", "m: look, 2 characters", 41.0),
        ),
        (
            [
                ask(at=10.0),
                burst(
                    CallStarted(1, "c", "look"),
                    CallArgs(1, "ab"),
                    CallStarted(2, "d", "look"),
                    CallArgs(2, "c"),
                    at=40.0,
                ),
            ],
            WaitingOn("provider", "m: look, 1 characters", 40.0),
        ),
        ([ask(at=10.0), decided(Retry(60.0))], WaitingOn("retry", "next try in 10 s", 50.0)),
        ([ask(at=10.0), decided(Retry(20.0))], WaitingOn("retry", "next try in 0 s", 50.0)),
        ([ask(at=10.0), decided(Reask("more_room", 60.0))], WaitingOn("retry", "next try in 10 s", 50.0)),
        ([ask(at=10.0), decided(Retry(60.0), FULL)], WaitingOn("rate_limit", "next try in 10 s", 50.0)),
        ([ask(at=10.0), decided(Retry(60.0), TOLD)], WaitingOn("rate_limit", "next try in 10 s", 50.0)),
        (
            [ask(at=10.0), decided(Retry(60.0), failure("reset", "x"))],
            WaitingOn("retry", "next try in 10 s", 50.0),
        ),
        ([ask(at=10.0), decided(Retry(60.0)), ask(2, at=60.0)], WaitingOn("provider_first_token", "m", 60.0)),
        ([TOOL], WaitingOn("tool", "shell make all", 20.0)),
        ([TOOL, ToolSaid(25.0, "c1", "x")], WaitingOn("tool", "shell make all", 20.0)),
        ([TOOL, OTHER], WaitingOn("tool", "look", 21.0)),
        ([TOOL, OTHER, DONE], WaitingOn("tool", "look", 21.0)),
        ([TOOL, DONE], None),
        ([ask(at=10.0), TOOL, DONE], None),
        ([CONSENT], WaitingOn("approval", "shell make all", 22.0)),
        ([QUESTION], WaitingOn("approval", "Which of the two?", 23.0)),
        ([CONSENT, TOOL], WaitingOn("approval", "shell make all", 22.0)),
        ([CONSENT, ApprovalAnswered(30.0, "a1", "allowed"), TOOL], WaitingOn("tool", "shell make all", 20.0)),
        (
            [CONSENT, QUESTION, ApprovalAnswered(30.0, "a2", "answered")],
            WaitingOn("approval", "shell make all", 22.0),
        ),
        ([TOOL, StopAsked(25.0)], WaitingOn("tool", "shell make all", 20.0)),
        ([TOOL, RunClaimed(30.0, 2)], None),
        ([ask(at=10.0), burst(TextDelta(0, "x")), RunClaimed(30.0, 2)], None),
        ([ask(at=10.0), RunLeft(30.0, "stopping")], None),
        (
            [CONSENT, RunLeft(30.0, "stopping"), RunClaimed(31.0, 2)],
            WaitingOn("approval", "shell make all", 22.0),
        ),
        ([ask(at=10.0), CallsHandedOver(30.0, (HandedCall("x", "n", "{}", "y"),))], None),
        ([TOOL, CONSENT, RunEnded(40.0, Outcome("cancelled"))], None),
    ],
)
def test_what_is_waited_for_is_named_with_its_time(facts, wanted):
    assert on(*facts) == wanted


@pytest.mark.parametrize("decision", [Continue("text"), GiveUp("failed", "x"), Retry(0.0)])
def test_a_decision_without_a_wait_is_no_wait(decision):
    assert on(ask(at=10.0), burst(RESET, at=20.0), decided(decision)) == FIRST


@pytest.mark.requirement("F8")
@pytest.mark.parametrize(
    "fact", [StopAsked(70.0), ApprovalAnswered(70.0, "a9", "expired"), burst(Alive("ping"), at=70.0)]
)
@pytest.mark.parametrize("before", [[], [burst(TextDelta(0, "x"), at=40.0)], [decided(Retry(60.0))]])
def test_what_happens_beside_a_wait_does_not_begin_it_anew(before, fact):
    assert on(ask(at=10.0), *before, fact) == on(ask(at=10.0), *before)


def test_what_a_tool_was_called_with_is_told_without_credentials():
    call = ToolStarted(20.0, "c1", "shell", {"command": "curl -H 'Authorization: Bearer abc123def456'"}, "k")
    assert on(call).detail == "shell curl -H 'Authorization: [secret]'"


@pytest.mark.parametrize("fact", [DraftClosed(70.0, DraftId("d"), "finished"), TOOL, StopAsked(70.0)])
def test_every_fact_but_a_sign_of_life_is_something_heard(fact):
    waiting = WaitingFold()
    waiting.take(ask(at=10.0))
    waiting.take(burst(Alive("ping"), at=60.0))
    assert waiting.since == 10.0
    waiting.take(fact)
    assert waiting.since == fact.at
