"""What ends a run, or one attempt of it, before its time."""

import asyncio

from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.failure import Failure, failure


class Stop:
    """The wish that a run end. May be made at any time, from anywhere on the event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.by = "user"
        self.keeps = False

    def ask(self, by: str = "user", *, keeps: bool = False) -> None:
        """`keeps`: it is an interrupt, and the conversation goes on from what there is."""
        if not self._event.is_set():
            self.by, self.keeps = by, keeps
            self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


class Halt:
    """Stops one attempt: because the run is to stop, because what it says is no use, or because the time of
    the turn is over, which a silent stream would never find out by itself."""

    def __init__(self, stop: StopSignal, seconds_left: float, limit: float) -> None:
        self._stop = stop
        self._seconds_left = seconds_left
        self._too_late = failure("budget", f"the limit of {limit:g} seconds is reached")
        self._own = asyncio.Event()
        self._why: Failure | None = None

    @property
    def why(self) -> Failure | None:
        return self._why

    @why.setter
    def why(self, reason: Failure | None) -> None:
        self._why = reason
        if reason is not None:
            self._own.set()

    def is_set(self) -> bool:
        return self._own.is_set() or self._stop.is_set()

    async def wait(self) -> None:
        either = [asyncio.ensure_future(self._own.wait()), asyncio.ensure_future(self._stop.wait())]
        try:
            done, _ = await asyncio.wait(
                either, timeout=self._seconds_left, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                self.why = self._too_late
        finally:
            for signal in either:
                signal.cancel()
