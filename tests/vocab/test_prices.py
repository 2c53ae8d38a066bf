"""One function makes money of usage and a price, and says when nobody knows."""

import pytest

from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.prices import (
    NOTHING_SPENT,
    Price,
    PriceTier,
    Spent,
    cost_of,
    money_text,
    spent_text,
    together,
    with_call,
)

PLAIN = Price(2.0, 10.0)
CACHES = Price(2.0, 10.0, cached=0.2, cache_written=2.5)
TIERED = Price(2.0, 10.0, tiers=(PriceTier(1000, 4.0, 20.0), PriceTier(5000, 8.0, 40.0)))
MILLION = 1_000_000

COSTS = {
    "input and output": (Usage(MILLION, MILLION), PLAIN, 12.0),
    "what the provider says counts": (Usage(MILLION, MILLION, cost=0.5), PLAIN, 0.5),
    "what the provider says, without a price": (Usage(1, 1, cost=0.0), None, 0.0),
    "no price": (Usage(1, 1), None, None),
    "nothing counted": (Usage(), PLAIN, 0.0),
    "a cache without a price of its own": (Usage(MILLION, 0, cached=MILLION), PLAIN, 2.0),
    "from a cache": (Usage(MILLION, 0, cached=MILLION // 2), CACHES, 1.1),
    "to a cache": (Usage(MILLION, 0, cache_written=MILLION // 2), CACHES, 2.25),
    "both": (Usage(MILLION, 0, cached=MILLION // 2, cache_written=MILLION // 2), CACHES, 1.35),
    "more cached than there was input": (Usage(MILLION, 0, cached=9 * MILLION), CACHES, 0.2),
    "at the edge of a tier": (Usage(1000, 0), TIERED, 0.002),
    "in a tier": (Usage(1001, 1), TIERED, (1001 * 4 + 20) / MILLION),
    "in the last tier": (Usage(6000, 1), TIERED, (6000 * 8 + 40) / MILLION),
    "by the request": (Usage(0, 0), Price(0.0, 0.0, request=0.012), 0.012),
}


@pytest.mark.requirement("H8")
@pytest.mark.parametrize("usage, price, cost", COSTS.values(), ids=COSTS.keys())
def test_a_call_costs(usage, price, cost):
    found = cost_of(usage, price)
    assert found is None if cost is None else found == pytest.approx(cost)


@pytest.mark.requirement("H8")
def test_calls_whose_price_nobody_knows_are_counted_apart_and_never_free():
    first = with_call(NOTHING_SPENT, Usage(1000, 100, cached=10, cache_written=5), None)
    assert first == Spent(1, 1000, 100, 10, 5, None, 1)
    both = with_call(first, Usage(MILLION, 0), PLAIN)
    assert (both.calls, both.cost, both.unpriced_calls, both.tokens) == (2, 2.0, 1, 1_001_100)
    assert with_call(NOTHING_SPENT, Usage(), None) == Spent(1)  # it brought nothing
    assert together(first, both) == Spent(3, 1_002_000, 200, 20, 10, 2.0, 2)


TEXTS = {
    (None, 0): "no cost",
    (None, 2): "cost unknown",
    (0.0, 0): "$0.00",
    (0.00001, 0): "under $0.0001",
    (0.01234, 0): "$0.0123",
    (12.345, 0): "$12.35",
    (0.5, 1): "$0.5000 + 1 call of unknown price",
    (0.5, 2): "$0.5000 + 2 calls of unknown price",
}


@pytest.mark.parametrize("cost, unpriced", TEXTS.keys())
def test_money_in_words(cost, unpriced):
    assert money_text(cost, unpriced) == TEXTS[cost, unpriced]


def test_one_line_says_tokens_and_money():
    assert spent_text(Spent(2, 12_345, 678, 10_000, 0, 0.25)) == (
        "12,345 tokens in (10,000 cached), 678 out, $0.2500"
    )
    assert spent_text(Spent(1, 5, 7, unpriced_calls=1)) == "5 tokens in, 7 out, cost unknown"


def test_calls_that_all_broke_before_anybody_counted_have_not_used_nothing():
    assert spent_text(Spent(2)) == "tokens and cost unknown"
    assert spent_text(Spent()) == "0 tokens in, 0 out, no cost"
