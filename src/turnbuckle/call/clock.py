"""The time that deadlines are measured in: it only grows, and it goes on while the machine sleeps.

The event loop's own time stands still during a suspend, so its timers wake up as if nothing had happened.
Comparing the two tells how long the machine slept.
"""

import asyncio
import time

# Linux counts suspended time only in BOOTTIME; elsewhere MONOTONIC does.
_SOURCE: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clock, suspended time included."""

    def now(self) -> float:
        return time.clock_gettime(_SOURCE)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
