"""All routes behind one face: what the driver calls a model. Attempts, and what is learned from them."""

from collections.abc import Callable, Iterable
from typing import Self

from msgspec.structs import replace

from turnbuckle.call.attempt import Attempt, Listener
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

    def attempt(
        self,
        route: RouteName,
        request: ModelRequest,
        stop: StopSignal | None = None,
        first_delta: Callable[[], None] | None = None,
    ) -> "LiveAttempt":
        """One attempt at one route: batches of events, and exactly one last word."""
        return LiveAttempt(self, route, request, stop, first_delta)

    def begin(
        self,
        route: RouteName,
        request: ModelRequest,
        stop: StopSignal | None,
        first_delta: Callable[[], None] | None,
    ) -> Attempt:
        """What an attempt needs before its first batch is waited for."""
        now = self._clock.now()
        model = request.model or self._routes[route].model
        self._health.begin(route, now)
        if request.stream:
            self._health.begin_stream(route, model, now)
        alternative = any(self._health.usable(other, now) for other in self._routes if other != route)
        if (learned := self._health.cap_field(route)) is not None:
            request = replace(request, cap_field=learned)
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
        return attempt

    def end(self, attempt: Attempt, route: RouteName, request: ModelRequest) -> None:
        """It is over, or left: what is learned from it."""
        model = request.model or self._routes[route].model
        if request.stream and attempt.last is not None:
            self._health.note_stream(route, model, attempt.last, self._clock.now())
        attempt.close()
        self._live.discard(attempt)
        self._health.note_end(route, model, attempt.end_kind)

    def choose(self, wanted: RouteName) -> RouteName:
        """The route to take when `wanted` is to be asked: the next usable one while it rests. One that is not
        in the settings any more, since the run began under others, is any route; where no route is live the
        run's own rules say which."""
        names = tuple(self._routes)
        if not names:
            return wanted
        start = names.index(wanted) if wanted in names else 0
        return self._health.order((*names[start:], *names[:start]), self._clock.now())[0]

    def streams(self, route: RouteName) -> bool:
        """Whether this route is believed to stream at present."""
        known = self._routes.get(route)
        return known is None or self._health.streams(route, self._clock.now(), known.model)

    def note(self, route: RouteName, events: list[Event]) -> None:
        """Learn from how an attempt ended."""
        if events and isinstance(events[-1], (Ended, Cut)):
            self._health.note(route, events[-1], self._clock.now())

    def activity(self) -> tuple[Activity, ...]:
        """What the attempts under way are waiting for."""
        return tuple(attempt.activity for attempt in self._live)


class LiveAttempt:
    """An attempt of `Models`: an async iterator of batches, which begins with the first that is asked for."""

    def __init__(
        self,
        models: Models,
        route: RouteName,
        request: ModelRequest,
        stop: StopSignal | None,
        first_delta: Callable[[], None] | None,
    ) -> None:
        self._models = models
        self._route = route
        self._request = request
        self._stop = stop
        self._first_delta = first_delta
        self._attempt: Attempt | None = None
        self._listener: Listener | None = None
        self._is_over = False

    def listen(self, listener: Listener) -> None:
        """As of `Attempt`; before it begins."""
        self._listener = listener

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Event]:
        if self._is_over:
            raise StopAsyncIteration
        if self._attempt is None:
            self._attempt = self._models.begin(self._route, self._request, self._stop, self._first_delta)
            if self._listener is not None:
                self._attempt.listen(self._listener)
        try:
            return await anext(self._attempt)
        except BaseException:
            self._end()
            raise

    async def aclose(self) -> None:
        """Give up, if it is not over."""
        self._end()

    def _end(self) -> None:
        if not self._is_over and self._attempt is not None:
            self._models.end(self._attempt, self._route, self._request)
        self._is_over = True

    def __del__(self) -> None:
        self._end()  # whoever read it is gone
