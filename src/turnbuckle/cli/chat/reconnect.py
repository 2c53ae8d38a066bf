"""Coming back after a lost connection: tried again with growing pauses, and told once, for all that was lost
together."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from turnbuckle.cli.backend import BackendRefused, Lost, SessionBackend
from turnbuckle.cli.chat.renderer import CommandOutput
from turnbuckle.cli.chat.view import ChatView
from turnbuckle.turn.labels import shortened

T = TypeVar("T")
FIRST_PAUSE, LAST_PAUSE = 0.2, 5.0
"""Seconds before a lost connection is tried again: the first time, and when nothing helps."""
_LONGEST = 300  # characters of the reason: an address and a sentence


class Reconnect:
    """`patience` is for how many seconds a lost connection is tried again; None: forever."""

    def __init__(
        self,
        place: SessionBackend,
        front: ChatView,
        sleep: Callable[[float], Awaitable[None]],
        patience: float | None,
    ) -> None:
        self.lost = False
        self.count = 0
        """How often we have come back."""
        self._place = place
        self._front = front
        self._sleep = sleep
        self._patience = patience
        self._coming_back = asyncio.Lock()

    async def steadily(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do it, as often as the connection is lost meanwhile."""
        tries = 0
        while True:
            count = self.count
            try:
                return await act()
            except Lost as error:
                await self.come_back(error, count, tries)
                tries += 1

    async def come_back(self, error: Lost, count: int, tries: int) -> None:
        """Wait until the place answers again. `count` is how often we had come back before this was lost, and
        `tries` how often it was lost since anything came. Raises Refused, and Lost when patience is at its
        end."""
        async with self._coming_back:
            if self.count != count:
                return
            self.lost = True
            if not tries:
                await self._front.show(
                    [
                        CommandOutput(
                            f"connection lost, trying again ({shortened(str(error), _LONGEST)})", "notice"
                        )
                    ]
                )
            pause, waited = min(FIRST_PAUSE * 2 ** min(tries, 10), LAST_PAUSE), 0.0
            while True:
                await self._sleep(pause)
                waited += pause
                try:
                    await self._place.latest()
                    break
                except Lost:
                    if self._patience is not None and waited >= self._patience:
                        raise BackendRefused(f"no connection for {waited:.0f} s: {error}") from None
                    pause = min(pause * 2, LAST_PAUSE)
            self.count += 1
            self.lost = False
            if not tries:
                await self._front.show([CommandOutput("connected again")])
