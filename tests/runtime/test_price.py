"""Which price holds for a model: the settings', else the table's, and never a made up one."""

import asyncio
import threading
from datetime import UTC, datetime

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot

from turnbuckle.runtime.prices import PriceBook, price_in, price_of, window_of
from turnbuckle.turn.policy import RouteFacts
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.prices import Price, cost_of


def _cost(usage: Usage, price: Price | None) -> float:
    cost = cost_of(usage, price)
    assert cost is not None
    return cost


def _route(model="gpt-4o", price=None):
    return RouteFacts(RouteName("main"), "openai_chat", model, price=price)


def test_a_known_model_has_a_price_and_a_window_and_an_unknown_one_has_neither():
    assert 0 < _cost(Usage(1000, 1000), price_of("gpt-4o")) < 1
    assert window_of("gpt-4o") == 128_000
    assert price_of("no-such-model-anywhere") is None
    assert window_of("no-such-model-anywhere") is None


@pytest.mark.requirement("I7")
def test_what_comes_from_a_cache_costs_less_and_what_goes_to_one_more():
    price = price_of("claude-sonnet-4-5")
    plain, cached = _cost(Usage(1000, 10), price), _cost(Usage(1000, 10, cached=900), price)
    assert cached < plain / 2 < plain < _cost(Usage(1000, 10, cache_written=900), price)


def test_a_long_prompt_has_the_price_of_its_tier():
    price = price_of("claude-sonnet-4-5")
    short, long = _cost(Usage(200_000, 0), price), _cost(Usage(200_001, 0), price)
    assert long > 1.9 * short


@pytest.mark.requirement("H8")
def test_every_model_of_the_table_costs_here_what_it_costs_there():
    now, compared = datetime.now(tz=UTC), 0
    for usage in (Usage(1000, 500), Usage(500_000, 1000, cached=1000, cache_written=10)):
        counts = {"input_tokens": usage.input, "output_tokens": usage.output}
        if usage.cached:
            counts |= {"cache_read_tokens": usage.cached, "cache_write_tokens": usage.cache_written}
        for model in [model for provider in get_snapshot().providers for model in provider.models]:
            theirs = model.get_prices(now)
            if (ours := price_in(theirs)) is not None:
                wanted = theirs.calc_price(genai_prices.Usage(**counts))["total_price"]
                assert cost_of(usage, ours) == pytest.approx(float(wanted)), model.id
                compared += 1
    assert compared > 1000


@pytest.mark.requirement("H8")
def test_the_settings_come_before_the_table_which_is_looked_at_once_and_beside_the_event_loop():
    asked = []

    def look_up(model):
        asked.append((model, threading.current_thread() is threading.main_thread()))
        return Price(1.0, 2.0) if model == "known" else None

    async def scenario():
        book = PriceBook(look_up)
        own = Price(3.0, 4.0)
        assert await book.of(_route("known", own)) == own
        assert asked == []
        book.look(_route("known"))
        assert await book.of(_route("known")) == await book.of(_route("known")) == Price(1.0, 2.0)
        assert await book.of(_route("unknown")) is None is await book.of(_route("unknown"))
        assert await PriceBook().of(_route("known")) is None
        assert asked == [("known", False), ("unknown", False)]

    asyncio.run(scenario())
