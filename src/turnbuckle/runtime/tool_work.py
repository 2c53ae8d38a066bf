"""A tool at work in a run: what it says meanwhile, and what becomes of it when the process lets go of the
run.

A process that stops in good order ends what runs, and knows how it ended. So that is stored, and whoever
takes the run up again tells the model the truth: it was killed, after so long, with this output. Only where a
tool may simply be run again is nothing stored of one that was killed: it is run again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from turnbuckle.journal.port import JournalError
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.ports import Sleep, Wall
from turnbuckle.turn.facts import ToolFinished, ToolSaid
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.tooling import Effect, ToolOutcome

LEAVE_PATIENCE = 5.0
"""Seconds that a tool has to say how it ended. Everything of ours needs less than three."""
BEFORE_IT = "The server was stopped before it began."
_LEFT = "The server was stopped while this ran."
_DIED = "The process died as this ran."
_SUSPECT = (
    "The server that you run in stopped as this ran, and this may have been the reason. Nobody knows "
    "whether it was done; look first, and do not stop the server again."
)


class Either:
    """Set as soon as one of two is."""

    def __init__(self, one: StopSignal, other: StopSignal) -> None:
        self._both = (one, other)

    def is_set(self) -> bool:
        return any(signal.is_set() for signal in self._both)

    async def wait(self) -> bool:
        waits = [asyncio.ensure_future(signal.wait()) for signal in self._both]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return True


async def outcome_of(
    work: "asyncio.Task[ToolOutcome]",
    leaving: asyncio.Event,
    sleep: Sleep,
    left: Callable[[ToolOutcome], Awaitable[None]],
) -> ToolOutcome:
    """The outcome of a tool. If the run is let go of meanwhile, `left` gets it, and the tool has ended by
    then."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if work.cancelled():
            raise
        if leaving.is_set():  # which told it to stop
            patience = asyncio.ensure_future(sleep(LEAVE_PATIENCE))
            await asyncio.wait({work, patience}, return_when=asyncio.FIRST_COMPLETED)
            patience.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
        elif not work.cancelled() and work.exception() is None and leaving.is_set():
            with suppress(JournalError):  # then nobody will know
                await left(work.result())
        raise


async def store_left(
    log: RunLog, wall: Wall, call_id: str, name: str, effect: Effect, outcome: ToolOutcome
) -> None:
    """Store how a tool ended that was ended because the process stops."""
    was_killed = outcome.status in ("killed", "not_started")
    if was_killed and effect != "write":
        return  # it is run again
    if outcome.status == "killed":
        outcome = replace(outcome, text=outcome.text or _LEFT)
    await log.append([ToolFinished(wall(), call_id, name, outcome)])


def settled(probed: str, changes: tuple[FileChange, ...], *, is_suspect: bool) -> ToolOutcome:
    """How a call ended that was started by a process which is gone, after a look."""
    match probed:
        case "done":
            return ToolOutcome("finished", f"{_DIED} A look shows that it had been done.", changes=changes)
        case "not_done":
            return ToolOutcome("failed", f"{_DIED} A look shows that it had not been done.")
        case _ if is_suspect:
            return ToolOutcome("unknown", _SUSPECT)
        case _:
            return ToolOutcome("unknown", f"{_DIED} Nobody knows whether it was done; look first.")


class Teller:
    """Takes a tool's live output and stores it behind the tool's back: in order, and before its result. If it
    cannot be stored only the live view suffers, since the result holds it too."""

    def __init__(self, log: RunLog, wall: Wall, call_id: str) -> None:
        self._log = log
        self._wall = wall
        self._call_id = call_id
        self._texts: list[str] = []
        self._storing: asyncio.Task[None] | None = None

    def say(self, text: str) -> None:
        if not text:
            return
        self._texts.append(text)
        if self._storing is None or self._storing.done():
            self._storing = asyncio.ensure_future(self._store())

    async def done(self) -> None:
        if self._storing is not None:
            await asyncio.gather(self._storing, return_exceptions=True)

    async def _store(self) -> None:
        while self._texts:
            text = "".join(self._texts)
            self._texts.clear()
            try:
                await self._log.append([ToolSaid(self._wall(), self._call_id, text)])
            except JournalError:
                return
