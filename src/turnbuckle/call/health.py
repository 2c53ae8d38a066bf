"""What is known of the routes, by all sessions together: which one rests, which one is being tried again,
which one does not stream.

Theory of operation. A route is `fit` until failures in a row bench it: two stalls, three failures of any kind
that speaks against the route, or one that no other request will fare better with (a bad key, no money). While
benched it is not picked. When its time is over the next attempt is a probe, and others stay away until that
one is settled, or has taken too long. A probe that fails benches for twice as long, up to a cap; any success
wipes the slate.

A model that is said not to stream is asked without streaming for a limited time, on that route alone. No
other failure does that. Where it has streamed before, the first refusal is taken for one of that request, and
only the second in a row is believed. When the time is over one attempt streams again, and the others wait for
how it goes.

Some hosts never give a reason to stop, and their end mark alone is a proper end. Relays that lost their
upstream send the same. A route and model is believed to be such a host when `BARE_ENDS` replies ended that
way and none ever gave a reason; the first that does ends the belief for good. Until then such a reply is cut
and gone on with, and that teaches. A text that breaks off in the middle teaches nothing.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from turnbuckle.call.limits import RoutePace
from turnbuckle.vocab.events import Cut, LastWord
from turnbuckle.vocab.failure import RETRYABLE, Failure, FailureKind
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.quirks import CapField
from turnbuckle.vocab.recent import Recent
from turnbuckle.wire.decoder import EndKind

Standing = Literal["fit", "benched", "due", "probed"]
"""`due`: its bench time is over and the next attempt is the probe. `probed`: that attempt is under way."""

STALLS = 2
FAILURES = 3
FIRST_BENCH = 30.0
LONGEST_BENCH = 600.0
HOPELESS_BENCH = 300.0
PROBE = 120.0
PLAIN = 600.0
BELIEVED = 2
"""Refusals to stream in a row that count against a model that has streamed."""
BARE_ENDS = 2
"""Replies that ended by their end mark alone, until that is believed to be the host's way."""
MOST_NAMES = 1000
"""Of routes, and of models on them. Clients may name any model of a relay; what was used last is kept."""

_HOPELESS: frozenset[FailureKind] = frozenset({"auth", "permission", "billing", "not_found"})


class RouteHealth(Struct, frozen=True):
    """One route's state. Times are those of the clock that is handed in."""

    failures: int = 0
    stalls: int = 0
    benched_until: float | None = None
    bench: float = 0.0  # how long the last one was
    probe_until: float | None = None
    plain_until: float | None = None
    stream_probe_until: float | None = None
    streamed: bool = False  # a stream came to its end here
    refusals: int = 0  # to stream, in a row
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
        if self.plain_until is None:
            return True
        probing = self.stream_probe_until is not None and now < self.stream_probe_until
        return now >= self.plain_until and not probing


def begin(health: RouteHealth, now: float) -> RouteHealth:
    """An attempt starts; behind a bench it is the probe."""
    if health.standing(now) != "due":
        return health
    return msgspec.structs.replace(health, probe_until=now + PROBE)


def begin_stream(health: RouteHealth, now: float) -> RouteHealth:
    """A stream is asked for; behind a time of plain answers it is the probe."""
    if health.plain_until is None or now < health.plain_until:
        return health
    return msgspec.structs.replace(health, stream_probe_until=now + PROBE)


def note_stream(health: RouteHealth, last: LastWord, now: float) -> RouteHealth:
    """A stream is over: what it says about streaming."""
    if not isinstance(last, Cut):
        return RouteHealth(streamed=True)
    if last.failure.kind != "unstreamable":
        return msgspec.structs.replace(health, stream_probe_until=None)
    refused = msgspec.structs.replace(health, refusals=health.refusals + 1, stream_probe_until=None)
    if health.streamed and refused.refusals < BELIEVED:
        return refused
    return msgspec.structs.replace(note(refused, last, now), streamed=False)


def note(health: RouteHealth, last: LastWord, now: float) -> RouteHealth:
    """An attempt is over."""
    if not isinstance(last, Cut):
        return RouteHealth(plain_until=health.plain_until if not health.streams(now) else None)
    failure = last.failure
    if failure.kind == "unstreamable":
        return msgspec.structs.replace(health, plain_until=now + PLAIN, probe_until=None)
    if failure.kind in _HOPELESS and failure.room is None:
        return _benched(health, failure, now, HOPELESS_BENCH)
    if failure.kind not in RETRYABLE:
        return msgspec.structs.replace(health, probe_until=None)  # it says nothing about the route
    return _failed(health, failure, now)


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


class Endings(Struct, frozen=True):
    """How the replies of one route and model have ended: how many by their end mark alone, and whether any
    ever gave a reason."""

    bare: int = 0
    reasoned: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether its end mark alone is a proper end."""
        return self.bare >= BARE_ENDS and not self.reasoned


def note_end(endings: Endings, kind: EndKind) -> Endings:
    """A reply is over. An end mark behind nothing says something only where text has ended so before."""
    match kind:
        case "reason":
            return Endings(reasoned=True)
        case "bare":
            return msgspec.structs.replace(endings, bare=min(endings.bare + 1, BARE_ENDS))
        case "blank" if endings.bare:
            return msgspec.structs.replace(endings, bare=min(endings.bare + 1, BARE_ENDS))
    return endings


class HealthBook:
    """The states and the pace of all routes, shared by all sessions of a process."""

    def __init__(self) -> None:
        self._health: Recent[RouteName, RouteHealth] = Recent(MOST_NAMES)
        self._streaming: Recent[tuple[RouteName, str], RouteHealth] = Recent(MOST_NAMES)
        self._paces: Recent[RouteName, RoutePace] = Recent(MOST_NAMES)
        self._cap_fields: Recent[RouteName, CapField] = Recent(MOST_NAMES)
        self._endings: Recent[tuple[RouteName, str], Endings] = Recent(MOST_NAMES)

    def of(self, route: RouteName) -> RouteHealth:
        return self._health.get(route, RouteHealth())

    def pace(self, route: RouteName) -> RoutePace:
        pace = self._paces[route] = self._paces.get(route) or RoutePace()
        return pace

    @property
    def routes(self) -> frozenset[RouteName]:
        """Those of which something is known."""
        return frozenset((*self._health, *self._cap_fields, *self._paces))

    @property
    def models(self) -> frozenset[tuple[RouteName, str]]:
        """The same for models on routes."""
        return frozenset((*self._streaming, *self._endings))

    def learn(self, route: RouteName, health: RouteHealth, cap_field: CapField | None) -> None:
        """Somebody else knows better how a route is."""
        self._health[route] = health
        if cap_field is not None:
            self._cap_fields[route] = cap_field

    def model(self, route: RouteName, model: str) -> tuple[RouteHealth, Endings]:
        """Whether a model streams, and how its replies end."""
        return self._streaming_of(route, model), self._endings.get((route, model), Endings())

    def learn_model(self, route: RouteName, model: str, streaming: RouteHealth, endings: Endings) -> None:
        """The same of a model."""
        self._streaming[route, model] = streaming
        self._endings[route, model] = endings

    def cap_field(self, route: RouteName) -> CapField | None:
        """How this route wants the output cap called, once it has refused the other name."""
        return self._cap_fields.get(route)

    def usable(self, route: RouteName, now: float) -> bool:
        return self.of(route).usable(now)

    def streams(self, route: RouteName, now: float, model: str = "") -> bool:
        return self._streaming_of(route, model).streams(now)

    def begin_stream(self, route: RouteName, model: str, now: float) -> None:
        self._streaming[route, model] = begin_stream(self._streaming_of(route, model), now)

    def note_stream(self, route: RouteName, model: str, last: LastWord, now: float) -> None:
        self._streaming[route, model] = note_stream(self._streaming_of(route, model), last, now)

    def _streaming_of(self, route: RouteName, model: str) -> RouteHealth:
        return self._streaming.get((route, model), RouteHealth())

    def begin(self, route: RouteName, now: float) -> None:
        self._health[route] = begin(self.of(route), now)

    def note(self, route: RouteName, last: LastWord, now: float) -> None:
        self._health[route] = note(self.of(route), last, now)
        if isinstance(last, Cut) and last.failure.kind == "unsupported":
            refused = last.failure.param
            self._cap_fields[route] = "max_tokens" if refused != "max_tokens" else "max_completion_tokens"

    def ends_bare(self, route: RouteName, model: str) -> bool:
        """Whether this route and model is known to give no reason to stop."""
        return self._endings.get((route, model), Endings()).is_bare

    def note_end(self, route: RouteName, model: str, kind: EndKind) -> None:
        """Learn from how a reply said that it is over."""
        if kind:
            known = self._endings.get((route, model), Endings())
            self._endings[route, model] = note_end(known, kind)

    def order(self, routes: tuple[RouteName, ...], now: float) -> tuple[RouteName, ...]:
        """The same routes: first the usable ones as they stand, then those that rest, soonest back first."""
        resting = [route for route in routes if not self.usable(route, now)]
        if not resting:
            return routes
        resting.sort(key=lambda route: self.of(route).benched_until or 0.0)
        return (*(route for route in routes if self.usable(route, now)), *resting)
