"""The machine's own time, for a provider that serves real clients."""

import asyncio
import math
import time


class RealClock:
    """The machine's monotonic clock. A sleep of infinite length ends only by cancellation."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        if math.isinf(seconds):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(seconds)
