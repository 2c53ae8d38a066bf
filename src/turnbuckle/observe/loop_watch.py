"""Whether one piece of work held the event loop, and for how long.

While it is held nobody is served: no stream, no heartbeat, no `/healthz`. A task sleeps for a moment, again
and again, and looks how much processor time the loop's thread has used meanwhile. More than the moment itself
can only have been spent in one turn of the loop. Processor time, since a busy machine takes the processor
away from everybody; how late the task was by the clock is counted as well, but it blames nobody.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

EVERY = 0.05
LONGEST = 0.25
"""Seconds for which nothing that anybody sends may hold the loop."""

log = logging.getLogger("turnbuckle.loop")


class LoopCounter(Protocol):
    """What counts."""

    def loop_turned(self, late: float, held: float) -> None:
        """One look: by how many seconds it was late, and how long the loop was held by work."""


class LoopWatch:
    """`run` until it is cancelled."""

    def __init__(
        self,
        counter: LoopCounter,
        *,
        thread_time: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counter = counter
        self._thread_time = thread_time
        self._clock = clock

    async def run(self) -> None:
        worked, was = self._thread_time(), self._clock()
        while True:
            await asyncio.sleep(EVERY)
            now_worked, now = self._thread_time(), self._clock()
            held, late = held_in(now_worked - worked), max(now - was - EVERY, 0.0)
            worked, was = now_worked, now
            self._counter.loop_turned(late, held)
            if held > LONGEST:
                log.warning(
                    "the event loop was blocked for %.2f s: no requests were served",
                    held,
                    extra={"event": "loop_held"},
                )


def held_in(worked: float) -> float:
    """How long the loop was held for certain, if so much was worked in one look."""
    return max(worked - EVERY, 0.0)
