"""Ending a run that somebody no longer wants: first in a way that keeps the conversation, then by force.

Force is offered once an interrupt has not ended the run in a second, and taken when somebody presses again.
What is said about that belongs to the run: it stands behind the paragraph that is open, and not above it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

from turnbuckle.cli.backend import SessionBackend
from turnbuckle.cli.chat.view import ChatView
from turnbuckle.cli.pieces import Line
from turnbuckle.errors import TurnbuckleError
from turnbuckle.journal.port import JournalError

FORCE_AFTER = 1.0
"""Seconds after which an interrupt that has not ended the run is said to need force."""
FORCE = "still running: Ctrl-C again, or /stop, ends it by force; the next message starts fresh then"
FORCED = "ended by force: the next message starts fresh"


class Interrupter:
    """`watch` the run that is under way, and `press` when somebody wants it to end."""

    def __init__(
        self,
        place: SessionBackend,
        front: ChatView,
        sleep: Callable[[float], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], "asyncio.Future[None]"],
    ) -> None:
        self._place = place
        self._front = front
        self._sleep = sleep
        self._spawn = spawn
        self._run = ""
        self._stage: Literal["", "interrupting", "offered", "forcing"] = ""

    def watch(self, run: str) -> None:
        """From here on this run is meant; empty: none."""
        self._run, self._stage = run, ""

    @property
    def is_stopping(self) -> bool:
        """The run was asked to end already."""
        return bool(self._run and self._stage)

    def press(self) -> Literal["stopping", "leave", "idle"]:
        """The first time it is interrupted; again, once force was offered, and it is forced; and again, and
        somebody wants to leave. Pressed twice in a hurry it is one interrupt."""
        if not self._run:
            return "idle"
        match self._stage:
            case "":
                self._stage = "interrupting"
                self._spawn(self._interrupt(self._run))
            case "offered":
                self._stage = "forcing"
                self._spawn(self._force(self._run))
            case "forcing":
                return "leave"
        return "stopping"

    async def _interrupt(self, run: str) -> None:
        offering = self._spawn(self._offer_force(run))
        try:
            await self._place.interrupt(run)
        except (TurnbuckleError, JournalError) as error:
            await self._tell(f"not stopped: {error}")
        finally:
            offering.cancel()
            self._may_force(run)

    async def _force(self, run: str) -> None:
        try:
            if await self._place.stop(run):  # else the interrupt had ended it, and nothing is lost
                await self._tell(FORCED)
        except (TurnbuckleError, JournalError) as error:
            await self._tell(f"not stopped: {error}")

    async def _offer_force(self, run: str) -> None:
        """An interrupt takes less than a second, unless something hangs."""
        await self._sleep(FORCE_AFTER)
        if self._run == run:
            self._may_force(run)
            await self._tell(FORCE)

    def _may_force(self, run: str) -> None:
        if self._run == run and self._stage == "interrupting":
            self._stage = "offered"

    async def _tell(self, words: str) -> None:
        await self._front.show([Line(words, "notice")])
