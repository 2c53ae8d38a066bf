"""What tokens cost: prices, and the one function that makes money of usage and a price."""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.vocab.events import Usage

MILLION = 1_000_000


class PriceTier(Struct, frozen=True, omit_defaults=True):
    """Prices of a request with more than `above` tokens of input. They hold for all of its tokens."""

    above: int
    input: float
    output: float
    cached: float | None = None
    cache_written: float | None = None


class Price(Struct, frozen=True, omit_defaults=True):
    """US dollars for a million tokens. What has no price of its own (tokens that came from a cache, or went
    to one) costs as much as other input. `request` is dollars for each request. `tiers` are in the order of
    their size."""

    input: float
    output: float
    cached: float | None = None
    cache_written: float | None = None
    request: float = 0.0
    tiers: tuple[PriceTier, ...] = ()


FREE = Price(0.0, 0.0)


class Spent(Struct, frozen=True, omit_defaults=True):
    """What model calls have used. Tokens are the provider's own count; of a reply that broke they are an
    estimate. `cost` is US dollars for the calls whose price is known, and None if no price is. There may be
    others beside them, which `unpriced_calls` counts."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    cost: float | None = None
    unpriced_calls: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


NOTHING_SPENT = Spent()


def cost_of(usage: Usage, price: Price | None) -> float | None:
    """Dollars for what one model call has used, or None if nobody knows. What the provider itself says
    counts."""
    if usage.cost is not None:
        return usage.cost
    if price is None:
        return None
    given, made = usage.input or 0, usage.output or 0
    rates: Price | PriceTier = price
    for tier in price.tiers:
        rates = tier if given > tier.above else rates
    cached = min(usage.cached, given)
    written = min(usage.cache_written, given - cached)
    read_rate = rates.input if rates.cached is None else rates.cached
    write_rate = rates.input if rates.cache_written is None else rates.cache_written
    plain = given - cached - written
    total = plain * rates.input + cached * read_rate + written * write_rate + made * rates.output
    return total / MILLION + price.request


def with_call(spent: Spent, usage: Usage, price: Price | None) -> Spent:
    """The same and one call more. One that brought nothing has cost nothing that anybody could know."""
    used = bool(usage.input or usage.output or usage.cost is not None)
    cost = cost_of(usage, price) if used else None
    return Spent(
        spent.calls + 1,
        spent.input_tokens + (usage.input or 0),
        spent.output_tokens + (usage.output or 0),
        spent.cached_tokens + usage.cached,
        spent.cache_written_tokens + usage.cache_written,
        _sum(spent.cost, cost),
        spent.unpriced_calls + (used and cost is None),
    )


def together(one: Spent, other: Spent) -> Spent:
    """Both."""
    return Spent(
        one.calls + other.calls,
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        one.cache_written_tokens + other.cache_written_tokens,
        _sum(one.cost, other.cost),
        one.unpriced_calls + other.unpriced_calls,
    )


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other


def money_text(cost: float | None, unpriced: int = 0) -> str:
    """A sum of money in words: as many digits as tell something, and never 0 for what nobody knows."""
    if cost is None:
        return "cost unknown" if unpriced else "no cost"
    digits = 2 if cost >= 1 or cost == 0 else 4
    known = f"${cost:.{digits}f}" if cost == 0 or cost >= 0.0001 else "under $0.0001"
    calls = "1 call" if unpriced == 1 else f"{unpriced:,} calls"
    return f"{known} + {calls} of unknown price" if unpriced else known


def spent_text(spent: Spent) -> str:
    """One line: tokens in and out, and the cost. Calls that all broke before anybody counted have used what
    nobody knows, which is not nothing."""
    if is_uncounted(spent):
        return "tokens and cost unknown"
    cached = f" ({spent.cached_tokens:,} cached)" if spent.cached_tokens else ""
    tokens = f"{spent.input_tokens:,} tokens in{cached}, {spent.output_tokens:,} out"
    return f"{tokens}, {money_text(spent.cost, spent.unpriced_calls)}"


def is_uncounted(spent: Spent) -> bool:
    """Whether models were asked, and nobody has counted anything."""
    return bool(spent.calls) and not spent.tokens and spent.cost is None and not spent.unpriced_calls


def of_limit(most: float, *, known: bool) -> str:
    """What stands behind a sum that may be so much at most."""
    return f" of {money_text(most)}" if known else f" (limit {money_text(most)})"


def without_own_cost(usage: Usage) -> Usage:
    """For a part of a call, which the provider's own sum is not for."""
    return usage if usage.cost is None else replace(usage, cost=None)
