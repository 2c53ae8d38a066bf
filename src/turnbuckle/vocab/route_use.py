"""What the routes of a run were asked for, and what broke there. The end of a run keeps it, so that sums over
many runs read one item of each."""

from msgspec import Struct


class BreakSum(Struct, frozen=True, omit_defaults=True):
    """The calls that broke by one cause. `seconds` are those of the calls, from the request to the decision.
    `recovered`: the run went on behind it. `characters` came and could not be used. `cost` is in US dollars,
    as far as it is known."""

    cause: str
    times: int = 0
    seconds: float = 0.0
    characters: int = 0
    cost: float = 0.0
    recovered: int = 0
    given_up: int = 0


class RouteUse(Struct, frozen=True, omit_defaults=True):
    """One route. `stopped` are calls that a person ended."""

    route: str
    calls: int = 0
    breaks: tuple[BreakSum, ...] = ()
    stopped: int = 0


def with_sum(sums: tuple[BreakSum, ...], more: BreakSum) -> tuple[BreakSum, ...]:
    """The same with one cause more, or more of one."""
    if all(known.cause != more.cause for known in sums):
        return (*sums, more)
    return tuple(added(known, more) if known.cause == more.cause else known for known in sums)


def added(one: BreakSum, other: BreakSum) -> BreakSum:
    """Both, under the cause of the first."""
    return BreakSum(
        one.cause,
        one.times + other.times,
        one.seconds + other.seconds,
        one.characters + other.characters,
        one.cost + other.cost,
        one.recovered + other.recovered,
        one.given_up + other.given_up,
    )
