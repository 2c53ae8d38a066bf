"""The turn through crashes, stops and limits."""

import pytest
from support.turns.turn_facts import MAIN, RESET, START, TOOLS, after, ask, burst, called, recorded, said

from turnbuckle.turn.commands import CallModel, RunTool, SettleTool
from turnbuckle.turn.facts import (
    Decided,
    Retry,
    RunClaimed,
    StopAsked,
    ToolFinished,
    ToolSaid,
    ToolStarted,
)
from turnbuckle.turn.policy import Policy, TurnLimits
from turnbuckle.vocab.events import (
    Cut,
    TextDelta,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.messages import ResultPart
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome

# Crashes


@pytest.mark.requirement("D3", "E2")
def test_a_model_call_that_died_with_its_process_is_cut_and_what_it_showed_stays():
    fold = after(START, ask(), burst(TextDelta(0, "Hel")), RunClaimed(9.0, 2))
    (due,) = recorded(fold)
    assert due.ask.why == "continue"
    assert fold.turn.shown == "Hel"


@pytest.mark.requirement("D3")
def test_a_tool_that_was_under_way_is_settled_and_one_that_was_not_is_started():
    calls = called(("a", "shell", "{}"), ("b", "shell", "{}"))
    fold = after(START, ask(), calls, ToolStarted(4.0, "a", "shell", {}, "r:1:a"), RunClaimed(9.0, 2))
    assert fold.due() == (SettleTool("a", "shell", {}, "r:1:a"),)
    fold.take(ToolFinished(9.0, "a", "shell", ToolOutcome("unknown", "nobody knows")))
    assert fold.due() == (RunTool("b", "shell", {}, "r:1:b"),)


@pytest.mark.requirement("D3")
def test_finished_results_are_reused_after_a_crash():
    calls = called(("a", "shell", "{}"), ("b", "shell", "{}"))
    done = ToolFinished(5.0, "a", "shell", ToolOutcome("finished", "ok"))
    fold = after(START, ask(), calls, ToolStarted(4.0, "a", "shell", {}, "k"), done, RunClaimed(9.0, 2))
    assert [due.call_id for due in fold.due()] == ["b"]


@pytest.mark.requirement("G5")
def test_a_third_comeback_without_progress_ends_the_run():
    fold = after(START, *(RunClaimed(float(n), n) for n in range(2, 4)))
    assert isinstance(fold.due()[0], CallModel)
    fold.take(RunClaimed(4.0, 4))
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "failed"


@pytest.mark.requirement("G5")
def test_progress_between_comebacks_keeps_a_run_alive():
    fold = after(START)
    for number in range(1, 9):
        fold.take(ask(number, notes=fold.due()[0].ask.notes))
        fold.take(burst(TextDelta(0, f"word{number} "), number=number))
        fold.take(RunClaimed(float(number), number))
        (due,) = recorded(fold)
    assert due.attempt == 9


@pytest.mark.requirement("G5", "D4")
def test_a_third_comeback_inside_a_tool_leaves_it_unknown_and_ends_the_run():
    fold = after(
        START, ask(), called(("a", "look", "{}"), ("b", "look", "{}")), ToolStarted(4.0, "a", "look", {}, "k")
    )
    for epoch in (2, 3, 4):
        fold.take(RunClaimed(5.0, epoch))
    (record,) = fold.due()
    assert [fact.outcome.status for fact in record.facts[:2] if isinstance(fact, ToolFinished)] == [
        "unknown",
        "not_started",
    ]
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "partial"


# Stop


@pytest.mark.parametrize(
    "facts",
    [
        (START,),
        (START, ask(), burst(RESET), Decided(4.0, 1, "cut_by_transport", (), Retry(9.0))),
    ],
    ids=["before the first call", "in a wait"],
)
def test_a_stop_while_nothing_is_under_way_ends_the_run_at_once(facts):
    fold = after(*facts, StopAsked(5.0))
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "cancelled"


def test_a_stop_while_the_model_speaks_keeps_what_it_said():
    fold = after(START, ask(), burst(TextDelta(0, "Hel")), StopAsked(4.0))
    assert fold.due() == ()
    fold.take(burst(Cut(failure("cancelled", "stopped"))))
    assert recorded(fold) == ()
    assert (fold.turn.outcome.kind, fold.turn.shown) == ("cancelled", "Hel")


@pytest.mark.requirement("H6")
@pytest.mark.parametrize(("keeps", "why"), [(True, "interrupted"), (False, "stopped")])
def test_the_end_of_a_run_tells_an_interrupt_from_a_stop(keeps, why):
    at_once = after(START, StopAsked(5.0, keeps=keeps))
    speaking = after(START, ask(), burst(TextDelta(0, "Hel")), StopAsked(4.0, keeps=keeps))
    speaking.take(burst(Cut(failure("cancelled", "stopped"))))
    forced = after(START, ask(), burst(TextDelta(0, "Hel")), StopAsked(4.0, keeps=True))
    for fact in (StopAsked(4.5, keeps=keeps), burst(Cut(failure("cancelled", "stopped")))):
        forced.take(fact)
    for fold in (at_once, speaking, forced):
        assert recorded(fold) == ()
        assert (fold.turn.outcome.kind, fold.turn.outcome.why) == ("cancelled", why)


def test_a_stop_that_comes_between_a_decision_and_its_record_still_ends_the_run():
    fold = after(
        START, ask(), burst(RESET), StopAsked(4.0), Decided(4.0, 1, "cut_by_transport", (), Retry(9.0))
    )
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "cancelled"


@pytest.mark.requirement("D4")
def test_a_stop_between_two_calls_lets_none_start_and_says_so():
    fold = after(START, ask(), called(("a", "shell", "{}"), ("b", "shell", "{}")))
    fold.take(ToolStarted(4.0, "a", "shell", {}, "k"))
    fold.take(StopAsked(5.0))
    (record,) = fold.due()
    assert [(fact.call_id, fact.outcome.status) for fact in record.facts] == [("b", "not_started")]
    for fact in (*record.facts, ToolFinished(6.0, "a", "shell", ToolOutcome("killed"))):
        fold.take(fact)
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "cancelled"
    assert [type(part) for part in fold.turn.messages[-1].parts] == [ResultPart, ResultPart]


def test_a_crash_after_a_stop_settles_what_was_under_way():
    fold = after(
        START, ask(), called(("a", "shell", "{}")), ToolStarted(4.0, "a", "shell", {}, "k"), StopAsked(5.0)
    )
    fold.take(RunClaimed(6.0, 2))
    assert fold.due() == (SettleTool("a", "shell", {}, "r:1:a"),)


def test_a_stop_does_not_rewrite_a_finished_answer():
    fold = after(START, ask(), said("Hello."), StopAsked(4.0))
    assert recorded(fold) == ()
    assert fold.turn.outcome == Outcome("completed")
    before = fold.turn
    fold.take(StopAsked(9.0))
    assert fold.turn.outcome == before.outcome


def test_what_a_tool_prints_changes_nothing():
    fold = after(START, ask(), called(("a", "shell", "{}")), ToolStarted(4.0, "a", "shell", {}, "k"))
    before = fold.turn
    fold.take(ToolSaid(4.0, "a", "working"))
    assert fold.turn == before


# Budgets in the turn


@pytest.mark.requirement("C7")
def test_the_calls_over_a_limit_are_answered_and_the_run_ends():
    policy = Policy((MAIN,), TOOLS, TurnLimits(tool_calls=2))
    fold = after(START, ask(), called(*((name, "look", "{}") for name in "abc")), policy=policy)
    assert [due.call_id for due in fold.due()] == ["a", "b"]
    for name in "ab":
        fold.take(ToolStarted(4.0, name, "look", {}, name))
        fold.take(ToolFinished(5.0, name, "look", ToolOutcome("finished")))
    assert recorded(fold) == ()
    why = "the limit of 2 tool calls is reached"
    assert fold.turn.outcome == Outcome("partial", why, failure("budget", why))
    assert "nothing happened" in str(fold.turn.messages[-1].parts[2])


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    "between, limit", [(False, 5), (True, None)], ids=["in a row", "with new work between"]
)
def test_the_same_call_again_and_again_is_stopped_unless_something_changed(between, limit):
    fold = after(START)
    rounds = 0
    for number in range(1, 30):
        if not (due := recorded(fold)):
            break
        calls = [("a", "shell", '{"command": "make"}')]
        if between:
            calls.append(("b", "write_file", f'{{"path": "x", "content": "{number}"}}'))
        fold.take(ask(number, notes=due[0].ask.notes))
        fold.take(called(*calls, number=number))
        if not isinstance(fold.due()[0], RunTool):
            continue
        rounds += 1
        for call_id, name, _ in calls:
            fold.take(ToolStarted(5.0, call_id, name, {}, f"{number}{call_id}"))
            fold.take(ToolFinished(5.0, call_id, name, ToolOutcome("finished")))
    if limit is None:
        assert rounds == 29
    else:
        assert rounds == limit
        assert "the same call was made more than 5 times" in fold.turn.outcome.why
