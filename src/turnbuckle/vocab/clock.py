"""Time, and a wish to stop, as whoever waits for them sees them. Both are always handed in."""

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, and a way to wait for them."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class StopSignal(Protocol):
    """Somebody may want it to end: `is_set` to ask, `wait` to wait for it. An `asyncio.Event` is one."""

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...


class StopListener(StopSignal, Protocol):
    """One that calls, so that nobody needs a task to wait for it."""

    def on_stop(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call once when it is set, if it is not yet. Gives what forgets that again."""
        ...
