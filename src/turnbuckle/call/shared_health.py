"""What several processes know of the same routes: how two of them agree.

Each has a state of a route, and the state that both knew last. Where only one has changed it, that one is
right. Where both have, a route that one of them benched since is benched, a route that one of them found to
work is fit, and of failures the larger count holds. Times are those of a process's own clock; what is told to
others says how many seconds are left instead.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.call.health import Endings, RouteHealth
from turnbuckle.vocab.quirks import CapField

_TIMES = ("benched_until", "probe_until", "plain_until", "stream_probe_until")


class RouteKnown(Struct, frozen=True):
    """What is known of a route."""

    health: RouteHealth = RouteHealth()
    cap_field: CapField | None = None


class ModelKnown(Struct, frozen=True):
    """What is known of a model on a route: whether it streams, and how it ends."""

    streaming: RouteHealth = RouteHealth()
    endings: Endings = Endings()


def moved(health: RouteHealth, by: float) -> RouteHealth:
    """The same, so many seconds later on the clock."""
    times = {name: getattr(health, name) for name in _TIMES}
    return replace(health, **{name: at + by for name, at in times.items() if at is not None})


def agreed_health(base: RouteHealth, mine: RouteHealth, theirs: RouteHealth) -> RouteHealth:
    """The state that both can go on from."""
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    for name in ("benched_until", "plain_until"):
        new = [one for one in (mine, theirs) if getattr(one, name) not in (None, getattr(base, name))]
        if new:
            return max(new, key=lambda one: getattr(one, name) or 0.0)
    if base.benched_until is not None or base.plain_until is not None:
        fit = [one for one in (theirs, mine) if one.benched_until is None and one.plain_until is None]
        return fit[0] if fit else theirs
    return max(theirs, mine, key=lambda one: (one.failures, one.stalls, one.refusals))


def agreed_route(base: RouteKnown, mine: RouteKnown, theirs: RouteKnown) -> RouteKnown:
    field = theirs.cap_field if mine.cap_field == base.cap_field else mine.cap_field
    return RouteKnown(agreed_health(base.health, mine.health, theirs.health), field)


def agreed_model(base: ModelKnown, mine: ModelKnown, theirs: ModelKnown) -> ModelKnown:
    ends = Endings(
        max(mine.endings.bare, theirs.endings.bare), mine.endings.reasoned or theirs.endings.reasoned
    )
    return ModelKnown(agreed_health(base.streaming, mine.streaming, theirs.streaming), ends)


def route_told(known: RouteKnown, now: float) -> bytes:
    """What others are told at this moment."""
    return msgspec.json.encode(replace(known, health=moved(known.health, -now)))


def route_heard(data: bytes, now: float) -> RouteKnown:
    """What was told at this moment of our clock. Raises DecodeError for what another version wrote."""
    known = msgspec.json.decode(data, type=RouteKnown)
    return replace(known, health=moved(known.health, now))


def model_told(known: ModelKnown, now: float) -> bytes:
    return msgspec.json.encode(replace(known, streaming=moved(known.streaming, -now)))


def model_heard(data: bytes, now: float) -> ModelKnown:
    known = msgspec.json.decode(data, type=ModelKnown)
    return replace(known, streaming=moved(known.streaming, now))
