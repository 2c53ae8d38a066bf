"""All models behind the driver's port: live routes, and the rehearsal that needs none."""

from collections.abc import AsyncIterator, Mapping

from turnbuckle.runtime.ports import Model
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import ModelRequest


class RoutedModels:
    """Hands each route to whoever serves it. `live` serves all that `embedded` does not name."""

    def __init__(self, live: Model, embedded: Mapping[RouteName, Model]) -> None:
        self._live = live
        self._embedded = embedded

    def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        return self._of(route).attempt(route, request, stop)

    def choose(self, wanted: RouteName) -> RouteName:
        return self._of(wanted).choose(wanted)

    def streams(self, route: RouteName) -> bool:
        return self._of(route).streams(route)

    def note(self, route: RouteName, events: list[Event]) -> None:
        self._of(route).note(route, events)

    def _of(self, route: RouteName) -> Model:
        return self._embedded.get(route, self._live)


async def close(bursts: AsyncIterator[list[Event]]) -> None:
    """An attempt that is left early is closed at once, and its connection with it."""
    aclose = getattr(bursts, "aclose", None)
    if aclose is not None:
        await aclose()
