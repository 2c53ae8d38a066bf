"""Who begins first when many come at once.

Theory of operation. Of two hundred requests that arrive together each takes the same steps to its first word.
Without an order all of them take a step before anybody takes the next, and all have their first word when the
last one has. So only `AT_ONCE` are on their way to it; the others stand in a line, first come first served.
The first half of a crowd is then served sooner, and the last one somewhat later, since those who came first
have their words meanwhile. Fewer at a time would have fewer commits to share.

Only a loop that has too much to do makes anybody wait. While somebody does, a clock looks whether the loop
has time: if so, those inside wait for a model or for the disk, and the next ones come in beside them. And
since a clock may be late for other reasons, nobody is waited for much longer than `LONGEST`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NewType

Place = NewType("Place", int)

AT_ONCE = 50
LONGEST = 0.05
"""Seconds, counted from coming in."""
LOOK = 0.002
LATE = 0.0015
"""A look that comes later than this had to wait for others. Loops count in milliseconds."""


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Entrance:
    """A place for each that may begin. Used on one loop."""

    def __init__(self, at_once: int = AT_ONCE, now: Callable[[], float] = _loop_time) -> None:
        self._at_once = at_once
        self._now = now
        self._last = 0
        self._inside: dict[Place, float] = {}  # since when; those who came first stand first
        self._line: deque[asyncio.Future[Place]] = deque()
        self._looking: asyncio.TimerHandle | None = None
        self._expected = 0.0  # when the clock should come

    def place(self) -> Place | None:
        """A place at once. None if there is none: `turn` waits for one."""
        if self._line or len(self._inside) >= self._at_once:
            return None
        return self._take()

    async def turn(self) -> Place:
        """A place, behind all who wait already."""
        waiter: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._line.append(waiter)
        if self._looking is None:
            self._look_soon()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.leave(waiter.result())
            raise

    def leave(self, place: Place) -> None:
        """Whoever had it has his first word, or will have none."""
        if self._inside.pop(place, None) is not None and self._line:
            self._let_in()

    def _take(self) -> Place:
        place = self._last = Place(self._last + 1)
        self._inside[place] = self._now()
        return place

    def _let_in(self) -> None:
        while self._line and len(self._inside) < self._at_once:
            waiter = self._line.popleft()
            if not waiter.done():  # else nobody waits for it any more
                waiter.set_result(self._take())

    def _look_soon(self) -> None:
        self._expected = self._now() + LOOK
        self._looking = asyncio.get_running_loop().call_later(LOOK, self._look)

    def _look(self) -> None:
        now = self._now()
        if now - self._expected <= LATE:
            self._inside.clear()
        else:
            for place in [place for place, since in self._inside.items() if now - since >= LONGEST]:
                del self._inside[place]
        self._let_in()
        self._looking = None
        if self._line:
            self._look_soon()
