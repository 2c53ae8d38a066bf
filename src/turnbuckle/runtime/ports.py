"""What the driver needs of the world, as narrow as it can be. The app hands in the real bodies, the lab its
doubles."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome


class Model(Protocol):
    """Model calls over routes. One attempt each, never a retry."""

    def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        """Events in bursts, with exactly one last word, also when stopped or when a clock fires."""
        ...

    def choose(self, wanted: RouteName) -> RouteName:
        """The route to take when `wanted` is to be asked: another one while it is benched."""
        ...

    def streams(self, route: RouteName) -> bool:
        """Whether this route is believed to stream at present."""
        ...

    def note(self, route: RouteName, events: list[Event]) -> None:
        """Learn from how an attempt ended."""
        ...


class Tools(Protocol):
    """The tools of a run."""

    async def ready(self) -> None:
        """Wait until it is known what there is, for a bounded time. From then on it stays the same."""
        ...

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is offered, always in the same order."""
        ...

    async def refuse(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolOutcome | None:
        """Why this call may not start: an unknown name, arguments that do not fit, a rule against it. None:
        it may."""
        ...

    async def run(
        self,
        call_id: str,
        name: str,
        arguments: dict[str, Any],
        key: str,
        said: Callable[[str], None],
        stop: StopSignal,
        seen: tuple[str, ...] | None = None,
    ) -> ToolOutcome:
        """Run it to its one outcome. Never raises. A file that a person was shown is changed only if it is
        still as one of the marks in `seen` says."""
        ...

    async def preview(self, name: str, arguments: dict[str, Any]) -> tuple[FileChange, ...]:
        """What a call would do to files as they are now. It changes nothing, and never raises."""
        ...

    async def changes(self, key: str) -> tuple[FileChange, ...]:
        """What a call did to files that a process which is gone has carried out."""
        ...

    async def probe(self, name: str, arguments: dict[str, Any], key: str) -> str:
        """After a crash: "again" if it may simply be run again, else "done", "not_done" or "unknown"."""
        ...


Wall = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
