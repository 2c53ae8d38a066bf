"""Which price holds for a route: the one in the settings, else the one of a maintained table.

The table takes a third of a second to load. So it is loaded in a thread, once a model is asked of which the
settings say nothing; the reply is there later than the price.
"""

import asyncio
import importlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from turnbuckle.turn.facts import Fact, Streamed
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.prices import Price, PriceTier


class PriceBook:
    """The prices of routes. Without `look_up` there is no table."""

    def __init__(self, look_up: Callable[[str], Price | None] | None = None) -> None:
        self._look_up = look_up
        self._found: dict[str, asyncio.Future[Price | None]] = {}

    def look(self, route: RouteFacts) -> None:
        """Somebody will ask for this price soon."""
        if route.price is None and self._look_up is not None and route.model not in self._found:
            looking = asyncio.to_thread(self._look_up, route.model)
            self._found[route.model] = asyncio.ensure_future(looking)

    async def of(self, route: RouteFacts) -> Price | None:
        """The price of a route; None if nobody knows."""
        self.look(route)
        found = self._found.get(route.model)
        return route.price if route.price is not None or found is None else await asyncio.shield(found)

    async def paid(self, facts: tuple[Fact, ...], turn: Turn, policy: Policy) -> tuple[Fact, ...]:
        """The same, with its price beside the end of a model call whose process is gone: it is paid for all
        the same."""
        match facts:
            case (Streamed() as gone,) if turn.ask is not None:
                return (replace(gone, price=await self.of(policy.route(turn.ask.route))),)
        return facts


def price_of(model: str) -> Price | None:
    """The price of a model as the table has it."""
    known = _model(model)
    return None if known is None else price_in(known.get_prices(datetime.now(tz=UTC)))


def window_of(model: str) -> int | None:
    """How many tokens a model takes in all, or None if the table does not know."""
    known = _model(model)
    return None if known is None else known.context_window or None


def _model(name: str) -> Any:
    snapshots = importlib.import_module("genai_prices.data_snapshot")
    try:
        _, found = snapshots.get_snapshot().find_provider_model(name, None, None, None)
    except (LookupError, ValueError):
        return None
    return found


_INPUT = ("input_mtok", "input_text_mtok")
_OUTPUT = ("output_mtok", "output_text_mtok")
_CACHED = ("cache_read_mtok", "cache_text_read_mtok")
_WRITTEN = ("cache_write_mtok", "cache_write_5m_mtok", "cache_text_write_mtok")


def price_in(found: Any) -> Price | None:
    """The table's own shape in ours. A model that is not paid by the token has no price here."""
    rates = [_rate(found, names) for names in (_INPUT, _OUTPUT, _CACHED, _WRITTEN)]
    if rates[0] is None or rates[1] is None:
        return None
    starts = sorted({tier.start for rate in rates for tier in getattr(rate, "tiers", ())})
    base: list[Any] = [_at(rate, 0) for rate in rates]
    above: list[tuple[Any, ...]] = [tuple(_at(rate, start + 1) for rate in rates) for start in starts]
    tiers = tuple(PriceTier(start, *values) for start, values in zip(starts, above, strict=True))
    request = float(getattr(found, "requests_kcount", None) or 0) / 1000
    given, made, cached, written = base
    return Price(given, made, cached, written, request, tiers)


def _rate(found: Any, names: tuple[str, ...]) -> Any:
    values = (getattr(found, name, None) for name in names)
    return next((value for value in values if value is not None), None)


def _at(rate: Any, given: int) -> float | None:
    """A rate for a request with so many tokens of input."""
    if rate is None or not hasattr(rate, "tiers"):
        return None if rate is None else float(rate)
    reached = [tier.price for tier in rate.tiers if given > tier.start]
    return float(reached[-1] if reached else rate.base)
