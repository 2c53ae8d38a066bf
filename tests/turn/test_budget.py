"""Limits of a whole turn: one sentence each, and none before it is due."""

import pytest
from msgspec.structs import replace

from turnbuckle.turn import budget
from turnbuckle.turn.policy import Limits, Policy, RouteFacts
from turnbuckle.turn.state import Tally, Turn
from turnbuckle.vocab.ids import RouteName

POLICY = Policy(
    (RouteFacts(RouteName("main"), "openai_chat", "m"),),
    limits=Limits(model_calls=3, tool_calls=4, seconds=60.0, tokens=1000, money=2.5, same_call=2),
)
TURN = Turn(started_at=100.0, now=130.0)

ASKING = {
    "model calls": (Tally(asks=3), "the limit of 3 model calls is reached", Tally(asks=2)),
    "tokens": (Tally(tokens=1000), "the limit of 1,000 tokens is reached", Tally(tokens=999)),
    "money": (Tally(money=2.5), "the limit of 2.5 in money is reached", Tally(money=2.4)),
    "anchors": (Tally(misjoined=4), "a call that was cut could not be finished 4 times in a row", Tally(misjoined=3)),
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
        budget.no_more_tools(replace(TURN, tally=Tally(tool_runs=4)), POLICY) == "the limit of 4 tool calls is reached"
    )
    assert budget.no_more_tools(replace(TURN, same_calls={"shell {}": 2}), POLICY) == ""
    assert "more than 2 times: shell {}" in budget.no_more_tools(replace(TURN, same_calls={"shell {}": 3}), POLICY)


def test_what_has_no_limit_is_never_used_up():
    free = replace(POLICY, limits=Limits(tokens=None, money=None))
    assert budget.exceeded(replace(TURN, tally=Tally(tokens=10**9, money=1e9)), free) == ""
