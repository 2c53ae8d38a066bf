"""Virtual time, so that a test can decide how it passes.

Theory of operation. `VirtualClock` keeps its sleepers in a heap and wakes them in the order of their
deadlines, either when `advance` is called, or by itself inside `run`: there the event loop tells the time by
this clock too, and whenever it would block with nothing to read, the clock jumps to the next deadline. So a
day of stalls takes a moment, and time-outs of libraries jump along.
"""

import asyncio
import heapq
import itertools
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from turnbuckle.runtime.environment import Environment

T = TypeVar("T")

# One real pause before a jump, since bytes between two sockets of this machine may still be on their way.
QUIET_SECONDS = 0.005


def numbered() -> Callable[[str], str]:
    """Ids that a test can guess: r1, s2, m3."""
    numbers = itertools.count(1)
    return lambda kind: f"{kind}{next(numbers)}"


class VirtualClock:
    """A clock that stands still until somebody moves it."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._new_name = numbered()

    def environment(self, owner: str) -> Environment:
        """What a process that lives by this clock is handed. All of them share one row of ids."""
        return Environment(owner, self.now, self.sleep, self._new_name)

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    @property
    def sleepers(self) -> int:
        """How many wait for this clock, forever or not."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Let time pass. Whoever wakes on the way runs, and may sleep again, before the next one wakes."""
        target = self._now + seconds
        await self._settle()
        while (deadline := self.next_deadline()) <= target:
            self.move_to(deadline)
            await self._settle()
        self._now = target

    def run(self, main: Callable[[], Coroutine[Any, Any, T]], *, quiet: float = QUIET_SECONDS) -> T:
        """Run `main` in a loop of its own where time jumps as soon as everybody waits."""
        with asyncio.Runner(loop_factory=lambda: _JumpingLoop(self, quiet)) as runner:
            return runner.run(main())

    def next_deadline(self) -> float:
        """When the next sleeper wakes; infinity if nobody ever will."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # it was cancelled
        return self._sleepers[0][0] if self._sleepers else math.inf

    def move_to(self, moment: float) -> None:
        """Set the time and wake everybody whose deadline it reaches."""
        self._now = max(self._now, moment)
        while self.next_deadline() <= self._now:
            heapq.heappop(self._sleepers)[2].set_result(None)

    async def _settle(self) -> None:
        # A task that was woken may wake others; a few passes of the loop let such chains run out.
        for _ in range(20):
            await asyncio.sleep(0)


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock, quiet: float) -> None:
        self._virtual = clock
        super().__init__(_JumpingSelector(clock, quiet))

    def time(self) -> float:
        return self._virtual.now()


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, clock: VirtualClock, quiet: float) -> None:
        super().__init__()
        self._clock = clock
        self._quiet = quiet
        self._files = self.get_map()  # as they are at any moment

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            # Without sockets only threads can want something, and that stands in the loop's queue already.
            return super().select(0) if len(self._files) > 1 else []
        timer = math.inf if timeout is None else self._clock.now() + timeout
        moment = min(timer, self._clock.next_deadline())
        if math.isinf(moment):
            return super().select(timeout)  # nobody waits for time, so wait for bytes
        ready = super().select(self._quiet)
        if not ready:
            self._clock.move_to(moment)
        return ready
