"""Limits of a whole turn: one sentence each, and none before it is due."""

from functools import partial

import pytest
from msgspec.structs import replace
from support.turns import turn_facts
from support.turns.turn_facts import RESET, START, after, ask, burst, recorded, said

from turnbuckle.turn import budget
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts, TurnLimits
from turnbuckle.turn.state import Tally, Turn
from turnbuckle.vocab.events import (
    CallArgs,
    CallStarted,
    Ended,
    FinishNoted,
    ReasoningDelta,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.prices import MILLION, Price, Spent

POLICY = Policy(
    (RouteFacts(RouteName("main"), "openai_chat", "m"),),
    limits=TurnLimits(model_calls=3, tool_calls=4, seconds=60.0, tokens=1000, money=2.5, same_call=2),
)
TURN = Turn(started_at=100.0, now=130.0)

ASKING = {
    "model calls": (Tally(asks=3), "the limit of 3 model calls is reached", Tally(asks=2)),
    "tokens": (
        Tally(spent=Spent(input_tokens=400, output_tokens=600)),
        "the limit of 1,000 tokens is reached",
        Tally(spent=Spent(output_tokens=999)),
    ),
    "money": (
        Tally(spent=Spent(cost=2.5)),
        "the limit of 2.5 in money is reached",
        Tally(spent=Spent(cost=2.4)),
    ),
    "anchors": (
        Tally(splice_failures=4),
        "a call that was cut could not be finished 4 times in a row",
        Tally(splice_failures=3),
    ),
}


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("used, why, less", ASKING.values(), ids=ASKING.keys())
def test_a_used_up_budget_allows_no_further_model_call(used, why, less):
    assert budget.exceeded(replace(TURN, tally=used), POLICY) == why
    assert budget.exceeded(replace(TURN, tally=less), POLICY) == ""


@pytest.mark.requirement("C7")
def test_time_runs_out():
    assert budget.exceeded(replace(TURN, now=159.9), POLICY) == ""
    assert budget.exceeded(replace(TURN, now=160.0), POLICY) == "the limit of 60 seconds is reached"
    assert budget.seconds_left(TURN, POLICY) == 30.0
    assert budget.seconds_left(replace(TURN, now=999.0), POLICY) == 0.0


@pytest.mark.requirement("C7")
def test_tools_have_limits_of_their_own():
    assert budget.no_more_tools(replace(TURN, tally=Tally(tool_runs=3)), POLICY) == ""
    assert (
        budget.no_more_tools(replace(TURN, tally=Tally(tool_runs=4)), POLICY)
        == "the limit of 4 tool calls is reached"
    )
    assert budget.no_more_tools(replace(TURN, same_calls={"shell {}": 2}), POLICY) == ""
    assert "more than 2 times: shell {}" in budget.no_more_tools(
        replace(TURN, same_calls={"shell {}": 3}), POLICY
    )


def test_what_has_no_limit_is_never_used_up():
    free = replace(POLICY, limits=TurnLimits(tokens=None, money=None))
    assert budget.exceeded(replace(TURN, tally=Tally(spent=Spent(output_tokens=10**9, cost=1e9))), free) == ""


LONG = "x" * 4_000
BROKEN = {
    "text": (TextDelta(0, LONG),),
    "reasoning": (ReasoningDelta(0, LONG),),
    "arguments": (CallStarted(0, "c", "shell"), CallArgs(0, '{"command": "' + LONG)),
    "text, of which little was told": (TextDelta(0, LONG), UsageNoted(Usage(input=None, output=1))),
}


@pytest.mark.requirement("C12")
@pytest.mark.parametrize("events", BROKEN.values(), ids=BROKEN.keys())
def test_what_a_cut_reply_generated_counts_though_nobody_told(events):
    limited = replace(turn_facts.POLICY, limits=TurnLimits(tokens=2_000))
    fold = TurnFold(limited)
    price = Price(0.0, MILLION / 1000)
    for fact in (START, ask(), replace(burst(*events, RESET), price=price)):
        fold.take(fact)
    assert 1_000 <= fold.turn.tally.spent.tokens <= 1_020
    cost = fold.turn.tally.spent.cost
    assert cost is not None
    assert 1.0 <= cost <= 1.02
    number = 1
    while due := recorded(fold):
        number = due[0].attempt
        fold.take(ask(number, why=due[0].ask.why, notes=due[0].ask.notes))
        fold.take(burst(TextDelta(0, f"{number}{LONG}"), RESET, number=number))
    assert fold.turn.outcome.why == "the limit of 2,000 tokens is reached"
    assert number == 2


@pytest.mark.requirement("C12")
def test_the_input_of_a_reply_that_broke_counts_too_and_an_attempt_without_any_answer_costs_nothing():
    task = replace(START, messages=(Message("user", (TextPart("w" * 8_000),)),))
    assert after(task, ask(), burst(TextDelta(0, "Hi"), RESET)).turn.tally.spent.tokens == 2_001
    assert after(task, ask(), burst(RESET)).turn.tally.spent.tokens == 0


@pytest.mark.requirement("C12")
def test_a_whole_reply_is_believed_and_one_without_a_count_is_guessed():
    told = (
        TextDelta(0, LONG),
        FinishNoted("stop", "stop"),
        UsageNoted(Usage(input=10, output=5)),
        Ended("end"),
    )
    assert after(START, ask(), burst(*told)).turn.tally.spent.tokens == 15
    assert after(START, ask(), said(LONG)).turn.tally.spent.tokens == 1_001


@pytest.mark.requirement("C12")
def test_in_the_middle_of_a_reply_the_input_is_guessed_until_it_is_told():
    policy = replace(POLICY, limits=TurnLimits(tokens=1_000))
    inside = partial(budget.exceeded_inside, TURN, policy, 131.0)
    assert inside(400, None, given=899) == ""
    assert inside(400, None, given=900) == "the limit of 1,000 tokens is reached"
    assert inside(400, Usage(input=10), given=900) == ""


@pytest.mark.requirement("H8")
def test_what_is_left_is_told_of_every_limit_and_none_where_there_is_none():
    used = Tally(asks=1, tool_runs=1, spent=Spent(2, 100, 50, cost=1.0))
    assert budget.left(replace(TURN, tally=used), POLICY) == budget.BudgetLeft(2, 3, 30.0, 850, 1.5)
    free = replace(POLICY, limits=TurnLimits())
    assert budget.left(replace(TURN, tally=used), free) == budget.BudgetLeft(89, 299, 3570.0)
    over = Tally(asks=9, spent=Spent(9, 9_999, cost=9.0))
    assert budget.left(replace(TURN, tally=over, now=999.0), POLICY) == budget.BudgetLeft(0, 4, 0.0, 0, 0.0)
