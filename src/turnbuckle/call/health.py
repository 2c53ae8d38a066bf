"""What is known of the routes, by all sessions together: which one rests, which one is being tried again, which one
does not stream.

Theory of operation. A route is `fit` until failures in a row bench it: two stalls, three failures of any kind that
speaks against the route, or one that no other request will fare better with (a bad key, no money). While benched it is
not picked. When its time is over the next attempt is a probe, and others stay away until that one is settled, or has
taken too long. A probe that fails benches for twice as long, up to a cap; any success wipes the slate.

A route that says it cannot stream is asked without streaming for a limited time. No other failure does that.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from turnbuckle.call.limits import Pace
from turnbuckle.vocab.events import Cut, LastWord
from turnbuckle.vocab.failure import Failure, FailureKind
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.quirks import CapField

Standing = Literal["fit", "benched", "due", "probed"]
"""`due`: its bench time is over and the next attempt is the probe. `probed`: that attempt is under way."""

STALLS = 2
FAILURES = 3
FIRST_BENCH = 30.0
LONGEST_BENCH = 600.0
HOPELESS_BENCH = 300.0
PROBE = 120.0
PLAIN = 600.0

_AGAINST: frozenset[FailureKind] = frozenset(
    {"connect", "reset", "incomplete", "stalled", "garbage", "rate_limited", "overloaded", "server", "timeout"}
)
_HOPELESS: frozenset[FailureKind] = frozenset({"auth", "permission", "billing", "not_found"})


class RouteHealth(Struct, frozen=True):
    """One route's state. Times are those of the clock that is handed in."""

    failures: int = 0
    stalls: int = 0
    benched_until: float | None = None
    bench: float = 0.0  # how long the last one was
    probe_until: float | None = None
    plain_until: float | None = None
    why: str = ""

    def standing(self, now: float) -> Standing:
        if self.benched_until is None:
            return "fit"
        if now < self.benched_until:
            return "benched"
        return "probed" if self.probe_until is not None and now < self.probe_until else "due"

    def usable(self, now: float) -> bool:
        return self.standing(now) in ("fit", "due")

    def streams(self, now: float) -> bool:
        return self.plain_until is None or now >= self.plain_until


def begin(health: RouteHealth, now: float) -> RouteHealth:
    """An attempt starts; behind a bench it is the probe."""
    if health.standing(now) != "due":
        return health
    return msgspec.structs.replace(health, probe_until=now + PROBE)


def note(health: RouteHealth, last: LastWord, now: float) -> RouteHealth:
    """An attempt is over."""
    if not isinstance(last, Cut):
        return RouteHealth(plain_until=health.plain_until if not health.streams(now) else None)
    told = last.failure
    if told.kind == "unstreamable":
        return msgspec.structs.replace(health, plain_until=now + PLAIN, probe_until=None)
    if told.kind in _HOPELESS and told.room is None:
        return _benched(health, told, now, HOPELESS_BENCH)
    if told.kind not in _AGAINST:
        return msgspec.structs.replace(health, probe_until=None)  # it says nothing about the route
    return _failed(health, told, now)


def _failed(health: RouteHealth, told: Failure, now: float) -> RouteHealth:
    if health.standing(now) == "benched":
        return health  # one of many that were under way when it was benched
    stalls = health.stalls + 1 if told.kind == "stalled" else 0
    health = msgspec.structs.replace(health, failures=health.failures + 1, stalls=stalls)
    if told.retry_after is not None and told.kind in ("rate_limited", "overloaded"):
        return _benched(health, told, now, told.retry_after)
    if health.benched_until is not None or stalls >= STALLS or health.failures >= FAILURES:
        return _benched(health, told, now, max(FIRST_BENCH, health.bench * 2))
    return health


def _benched(health: RouteHealth, told: Failure, now: float, seconds: float) -> RouteHealth:
    seconds = min(seconds, LONGEST_BENCH)
    return msgspec.structs.replace(
        health,
        failures=0,
        stalls=0,
        benched_until=now + seconds,
        bench=seconds,
        probe_until=None,
        why=f"{told.kind}: {told.message}",
    )


class HealthBook:
    """The states and the pace of all routes, shared by all sessions of a process."""

    def __init__(self) -> None:
        self._health: dict[RouteName, RouteHealth] = {}
        self._paces: dict[RouteName, Pace] = {}
        self._cap_fields: dict[RouteName, CapField] = {}

    def of(self, route: RouteName) -> RouteHealth:
        return self._health.get(route, RouteHealth())

    def pace(self, route: RouteName) -> Pace:
        return self._paces.setdefault(route, Pace())

    def cap_field(self, route: RouteName) -> CapField | None:
        """How this route wants the output cap called, once it has refused the other name."""
        return self._cap_fields.get(route)

    def usable(self, route: RouteName, now: float) -> bool:
        return self.of(route).usable(now)

    def streams(self, route: RouteName, now: float) -> bool:
        return self.of(route).streams(now)

    def begin(self, route: RouteName, now: float) -> None:
        self._health[route] = begin(self.of(route), now)

    def note(self, route: RouteName, last: LastWord, now: float) -> None:
        self._health[route] = note(self.of(route), last, now)
        if isinstance(last, Cut) and last.failure.kind == "unsupported":
            refused = last.failure.param
            self._cap_fields[route] = "max_tokens" if refused != "max_tokens" else "max_completion_tokens"

    def order(self, routes: tuple[RouteName, ...], now: float) -> tuple[RouteName, ...]:
        """The same routes: first the usable ones as they stand, then those that rest, soonest back first."""
        resting = [route for route in routes if not self.usable(route, now)]
        resting.sort(key=lambda route: self.of(route).benched_until or 0.0)
        return (*(route for route in routes if self.usable(route, now)), *resting)
