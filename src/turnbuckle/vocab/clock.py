"""Time, as whoever waits for it sees it. It is always handed in."""

from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, and a way to wait for them."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...
