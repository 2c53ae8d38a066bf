"""All routes behind one face: what the driver calls a model. Attempts, and what is learned from them."""

from collections.abc import AsyncIterator, Callable, Iterable

from msgspec.structs import replace

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.health import HealthBook
from turnbuckle.call.routes import Route
from turnbuckle.call.stall import Activity
from turnbuckle.call.transport import Connections
from turnbuckle.vocab.clock import Clock, StopSignal
from turnbuckle.vocab.events import Cut, Ended, Event
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import ModelRequest


class Models:
    """The routes of a configuration, in order, over one pool and one book of health."""

    def __init__(
        self, routes: Iterable[Route], connections: Connections, clock: Clock, health: HealthBook
    ) -> None:
        self._routes = {route.name: route for route in routes}
        self._connections = connections
        self._clock = clock
        self._health = health
        self.health, self.now = health, clock.now  # for whoever looks at how the routes fare
        self._live: set[Attempt] = set()

    async def attempt(
        self,
        route: RouteName,
        request: ModelRequest,
        stop: StopSignal | None = None,
        first_delta: Callable[[], None] | None = None,
    ) -> AsyncIterator[list[Event]]:
        """One attempt at one route: batches of events, and exactly one last word."""
        now = self._clock.now()
        model = request.model or self._routes[route].model
        self._health.begin(route, now)
        if request.stream:
            self._health.begin_stream(route, model, now)
        alternative = any(self._health.usable(other, now) for other in self._routes if other != route)
        if (learned := self._health.cap_field(route)) is not None:
            request = replace(request, cap_field=learned)
        model = request.model or self._routes[route].model
        to = self._routes[route]
        if self._health.ends_bare(route, model):
            to = replace(to, quirks=replace(to.quirks, bare_done=True))
        attempt = Attempt(
            to,
            request,
            connections=self._connections,
            clock=self._clock,
            stop=stop,
            pace=self._health.pace(route),
            first_delta=first_delta,
            alternative=alternative,
        )
        self._live.add(attempt)
        try:
            async for events in attempt:
                yield events
        finally:
            if request.stream and attempt.last is not None:
                self._health.note_stream(route, model, attempt.last, self._clock.now())
            attempt.close()
            self._live.discard(attempt)
            self._health.note_end(route, model, attempt.end_kind)

    def choose(self, wanted: RouteName) -> RouteName:
        """The route to take when `wanted` is to be asked: the next usable one while it rests. One that is not
        in the settings any more, since the run began under others, is any route."""
        names = tuple(self._routes)
        start = names.index(wanted) if wanted in names else 0
        return self._health.order((*names[start:], *names[:start]), self._clock.now())[0]

    def streams(self, route: RouteName) -> bool:
        """Whether this route is believed to stream at present."""
        known = self._routes.get(route)
        return known is None or self._health.streams(route, self._clock.now(), known.model)

    def note(self, route: RouteName, events: list[Event]) -> None:
        """Learn from how an attempt ended."""
        if events and isinstance(events[-1], Ended | Cut):
            self._health.note(route, events[-1], self._clock.now())

    def activity(self) -> tuple[Activity, ...]:
        """What the attempts under way are waiting for."""
        return tuple(attempt.activity for attempt in self._live)
