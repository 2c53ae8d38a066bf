"""Time, and a wish to stop, as whoever waits for them sees them. Both are always handed in."""

from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, and a way to wait for them."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class StopSignal(Protocol):
    """Somebody may want it to end: `is_set` to ask, `wait` to wait for it. An `asyncio.Event` is one."""

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...
