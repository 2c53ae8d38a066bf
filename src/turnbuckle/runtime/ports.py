"""What the driver needs of the world, as narrow as it can be. The app hands in the real bodies, the lab its
doubles, which inherit what they leave out."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from turnbuckle.reply.verdict import SoundCall
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
        return wanted

    def streams(self, route: RouteName) -> bool:
        """Whether this route is believed to stream at present."""
        return True

    def note(self, route: RouteName, events: list[Event]) -> None:
        """Learn from how an attempt ended."""
        return


Publish = Callable[[str], None]
"""Takes what a tool says while it runs."""
Seen = tuple[str, ...] | None
"""The marks of the files that a person was shown before a call was allowed."""


class Tools(Protocol):
    """The tools of a run."""

    async def ready(self) -> None:
        """Wait until it is known what there is, for a bounded time. From then on it stays the same."""
        return

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is offered, always in the same order."""
        return ()

    async def refuse(self, call: SoundCall) -> ToolOutcome | None:
        """Why this call may not start: an unknown name, arguments that do not fit, a rule against it. None:
        it may."""
        return None

    async def run(
        self, call: SoundCall, key: str, publish: Publish, stop: StopSignal, seen: Seen = None
    ) -> ToolOutcome:
        """Run it to its one outcome. Never raises. A file that a person was shown is changed only if it is
        still as one of the marks in `seen` says."""
        ...

    async def preview(self, call: SoundCall) -> tuple[FileChange, ...]:
        """What a call would do to files as they are now. It changes nothing, and never raises."""
        return ()

    async def changes(self, key: str) -> tuple[FileChange, ...]:
        """What a call did to files that a process which is gone has carried out."""
        return ()

    async def probe(self, call: SoundCall, key: str) -> str:
        """After a crash: "again" if it may simply be run again, else "done", "not_done" or "unknown"."""
        return "unknown"


Wall = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
