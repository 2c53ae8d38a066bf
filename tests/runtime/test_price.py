"""Money is counted where it is known, and never made up."""

import pytest

from turnbuckle.runtime.price import price_of
from turnbuckle.turn.facts import ModelAsked, RunStarted, Streamed
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts, TurnLimits
from turnbuckle.vocab.events import Ended, FinishNoted, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.ids import RouteName, RunId, SessionId

ROUTE = RouteFacts(RouteName("main"), "openai_chat", "gpt-4o")


def _spent(usage, price):
    fold = TurnFold(Policy((ROUTE,), limits=TurnLimits(money=1.0)), price)
    fold.take(RunStarted(0.0, RunId("r"), SessionId("s"), ()))
    fold.take(ModelAsked(0.0, 1, ROUTE.name, "openai_chat", "gpt-4o", "first"))
    said = (TextDelta(0, "yes"), UsageNoted(usage), FinishNoted("stop", "stop"), Ended("[DONE]"))
    fold.take(Streamed(1.0, 1, said))
    return fold.turn.tally.money


def test_a_known_model_has_a_price_and_an_unknown_one_has_none():
    assert 0 < price_of("gpt-4o", Usage(1000, 1000)) < 1
    assert price_of("no-such-model-anywhere", Usage(1000, 1000)) is None


@pytest.mark.requirement("I7")
def test_what_comes_from_a_cache_costs_less_and_what_goes_to_one_more():
    plain = price_of("claude-sonnet-4-5", Usage(1000, 10))
    cached = price_of("claude-sonnet-4-5", Usage(1000, 10, cached=900))
    written = price_of("claude-sonnet-4-5", Usage(1000, 10, cache_written=900))
    assert cached < plain / 2 < plain < written


@pytest.mark.requirement("C7")
def test_a_reply_costs_what_its_provider_says_else_what_the_table_says():
    assert _spent(Usage(1000, 1000, cost=0.25), price_of) == 0.25
    assert _spent(Usage(1000, 1000), price_of) == pytest.approx(price_of("gpt-4o", Usage(1000, 1000)))
    assert _spent(Usage(1000, 1000), None) == 0
