"""The options of a run, put into its rules; and what follows from that for replies that break."""

import pytest
from msgspec.structs import replace
from support.turns.turn_facts import (
    MAIN,
    OTHER,
    RESET,
    START,
    TOOLS,
    TWO,
    after,
    ask,
    burst,
    called,
    recorded,
)

from turnbuckle.turn.commands import CallModel
from turnbuckle.turn.facts import GiveUp, ModelAsked, ToolFinished
from turnbuckle.turn.policy import ANY_TEXT, Policy, RouteFacts, ToolFacts, TurnLimits, for_options
from turnbuckle.vocab.events import (
    CallArgs,
    CallClosed,
    CallStarted,
    Ended,
    FinishNoted,
    ReasoningDelta,
    StateNoted,
    TextDelta,
)
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import CallPart, ReasoningPart
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import RunOptions, ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome

THIRD = RouteFacts(RouteName("third"), "openai_responses", "o")
POLICY = Policy((MAIN, OTHER, THIRD), TOOLS)
LENGTH = (FinishNoted("length", "length"), Ended("end"))
WHY = "the output limit of the request is reached"


def names(policy):
    return [route.name for route in policy.routes]


def test_without_options_the_rules_stay_as_they_are():
    assert for_options(POLICY, RunOptions()) == POLICY


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "wanted, order",
    [
        ("main", ["main", "other", "third"]),
        ("other", ["other", "main", "third"]),
        ("third", ["third", "main", "other"]),
        ("unknown", ["main", "other", "third"]),
    ],
)
def test_the_wanted_route_comes_first_and_the_others_stay_behind_it(wanted, order):
    assert names(for_options(POLICY, RunOptions(RouteName(wanted)))) == order


@pytest.mark.requirement("F11")
def test_a_limit_of_the_caller_holds_on_every_route_and_is_not_raised():
    made = for_options(POLICY, RunOptions(max_output_tokens=7))
    assert {(route.cap, route.cap_most) for route in made.routes} == {(7, 7)}
    assert made.capped
    assert not for_options(POLICY, RunOptions(effort="low")).capped


@pytest.mark.requirement("F11")
def test_the_callers_effort_holds_on_every_route():
    assert {route.effort for route in for_options(POLICY, RunOptions(effort="low")).routes} == {"low"}
    assert [route.effort for route in for_options(POLICY, RunOptions()).routes] == ["high", None, None]


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("own", [True, False])
def test_the_callers_tools_hide_ours_and_ours_are_there_if_wanted(own):
    made = for_options(POLICY, RunOptions(own_tools=own, tools=(ToolSpec("shell"), ToolSpec("find"))))
    brought = ToolFacts(draftable=ANY_TEXT, client=True)
    assert made.tool("shell") == made.tool("find") == brought
    assert made.tools.keys() == ({*TOOLS, "find"} if own else {"shell", "find"})
    assert made.closed


@pytest.mark.requirement("F11")
def test_options_are_put_in_once_whatever_is_folded_again():
    options = RunOptions(
        RouteName("other"), False, (ToolSpec("find"),), max_output_tokens=7, effort="low", max_tool_calls=2
    )
    once = for_options(POLICY, options)
    assert for_options(once, options) == once


def test_a_caller_may_lower_the_limit_of_tool_calls_and_not_raise_it():
    few = Policy((MAIN,), TOOLS, TurnLimits(tool_calls=10))
    assert for_options(few, RunOptions(max_tool_calls=3)).limits.tool_calls == 3
    assert for_options(few, RunOptions(max_tool_calls=30)).limits.tool_calls == 10


@pytest.mark.requirement("F11")
def test_a_run_asks_the_wanted_route_first_within_the_callers_limit():
    fold = after(
        replace(START, options=RunOptions(OTHER.name, max_output_tokens=7, effort="low")), policy=TWO
    )
    (due,) = fold.due()
    assert (due.ask.route, due.ask.cap, due.ask.effort) == ("other", 7, "low")


# The caller's limit


def capped(*events, limit=40, policy=TWO):
    fold = after(replace(START, options=RunOptions(max_output_tokens=limit)), policy=policy)
    fold.take(ask(cap=limit))
    fold.take(burst(*events))
    return fold


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "events",
    [
        (TextDelta(0, "It is"), *LENGTH),
        (ReasoningDelta(0, "hm"), *LENGTH),
        (CallStarted(0, "c", "write_file"), CallArgs(0, '{"path": "a", "content": "one two'), *LENGTH),
        (CallStarted(0, "c", "shell"), CallArgs(0, '{"comm'), *LENGTH),
        (TextDelta(0, "I write."), CallStarted(1, "c", "look"), CallArgs(1, '{"a'), *LENGTH),
    ],
    ids=["text", "thinking", "a draft", "a call", "text and a call"],
)
def test_a_reply_that_reaches_the_callers_limit_is_the_last_one(events):
    fold = capped(*events)
    assert fold.due()[0].facts[-1].decision == GiveUp("partial", WHY)
    assert recorded(fold) == ()
    assert (fold.turn.outcome.kind, fold.turn.outcome.why) == ("partial", WHY)


def test_a_full_window_is_no_limit_of_the_caller():
    fold = capped(TextDelta(0, "It is"), FinishNoted("window", "window"), Ended("end"))
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    assert due.ask.route == "other"


@pytest.mark.requirement("F11", "B3")
def test_a_cut_under_a_limit_is_gone_on_behind_with_what_is_left_of_it():
    fold = capped(TextDelta(0, "x" * 40), RESET)
    (due,) = recorded(fold)
    assert (due.ask.why, due.ask.cap) == ("continue", 30)
    fold.take(ask(2, why="continue", notes=due.ask.notes, cap=30))
    fold.take(burst(TextDelta(0, "y" * 400), RESET, number=2))
    (due,) = recorded(fold)
    assert due.ask.cap == 1  # never none, and never less than one


@pytest.mark.requirement("F11")
def test_another_route_gets_no_more_than_what_is_left_of_the_limit():
    fold = capped(TextDelta(0, "x" * 40), RESET)
    for number in range(2, 6):
        (due,) = recorded(fold)
        if due.ask.route == "other":
            break
        fold.take(ask(number, why="continue", notes=due.ask.notes, cap=due.ask.cap))
        fold.take(burst(RESET, number=number))
    assert (due.ask.route, due.ask.cap) == ("other", 30)


@pytest.mark.requirement("F11")
def test_behind_a_tool_the_callers_limit_counts_anew():
    fold = capped(TextDelta(0, "x" * 40), RESET)
    (due,) = recorded(fold)
    fold.take(ask(2, why="continue", notes=due.ask.notes, cap=due.ask.cap))
    fold.take(called(("c", "look", "{}"), number=2))
    fold.take(ToolFinished(5.0, "c", "look", ToolOutcome("finished")))
    (due,) = fold.due()
    assert due.ask.cap == 40


def test_without_a_limit_of_the_caller_a_raised_cap_stays_raised():
    fold = after(START, ask(cap=900), called(("c", "look", "{}")))
    fold.take(ToolFinished(5.0, "c", "look", ToolOutcome("finished")))
    assert fold.due()[0].ask.cap == 900


# Who said it


@pytest.mark.requirement("A3", "C5")
def test_what_a_model_said_is_its_own_also_when_the_route_has_another_model_by_now():
    """The state of a call goes back only to the model that it came from."""
    asked = ModelAsked(2.0, 1, MAIN.name, "anthropic", "the old model", "first")
    events = (
        ReasoningDelta(0, "hm"),
        StateNoted(0, {"signature": "s"}),
        CallStarted(1, "c", "look"),
        CallArgs(1, "{}"),
        StateNoted(1, {"thought": "t"}),
        CallClosed(1),
    )
    fold = after(START, asked, burst(*events, FinishNoted("calls", ""), Ended("end")), policy=TWO)
    states = [
        part.state for part in fold.turn.messages[-1].parts if isinstance(part, ReasoningPart | CallPart)
    ]
    assert {(state.protocol, state.model) for state in states} == {("anthropic", "the old model")}


def test_a_relay_that_simply_answers_is_simply_done():
    fold = after(replace(START, options=RunOptions(own_tools=False)), ask(), policy=TWO)
    fold.take(burst(TextDelta(0, "A title."), FinishNoted("stop", "stop"), Ended("end")))
    assert recorded(fold) == ()
    assert fold.turn.outcome == Outcome("completed")
