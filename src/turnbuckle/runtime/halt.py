"""What ends a run, or one attempt of it, before its time.

Nearly every run comes to its end by itself, so whoever wants to hear of a stop is called, and needs no task
that waits for it.
"""

import asyncio
from collections.abc import Callable

from turnbuckle.runtime.plain_rest import RestSpeech
from turnbuckle.runtime.stream_filter import StreamFilter
from turnbuckle.turn import budget
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.clock import StopListener
from turnbuckle.vocab.failure import Failure, failure

_PASSES = 3
"""Passes of the loop before an attempt that is to halt is broken off: what has arrived by then is read."""


class _Calls:
    """Whom to call once. They can be forgotten again."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[object, Callable[[], None]] = {}

    def add(self, call: Callable[[], None]) -> Callable[[], None]:
        """Gives what forgets it again."""
        place = object()
        self._calls[place] = call

        def forget() -> None:
            self._calls.pop(place, None)

        return forget

    def tell(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call()


class Stop:
    """The wish that a run end. May be made at any time, from anywhere on the event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._calls = _Calls()
        self.by = "user"
        self.keeps = False

    def ask(self, by: str = "user", *, keeps: bool = False) -> None:
        """`keeps`: it is an interrupt, and the conversation goes on from what there is."""
        if not self._event.is_set():
            self.by, self.keeps = by, keeps
            self._event.set()
            self._calls.tell()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()

    def on_stop(self, call: Callable[[], None]) -> Callable[[], None]:
        return self._calls.add(call)


class Halt:
    """Stops one attempt: because the run is to stop, because what it says is useless, or because the time of
    the turn is over, which a silent stream would never find out by itself."""

    def __init__(self, stop: StopListener, seconds_left: float, limit: float) -> None:
        self._stop = stop
        self._seconds_left = seconds_left
        self._too_late = failure("budget", f"the limit of {limit:g} seconds is reached")
        self._why: Failure | None = None
        self._calls = _Calls()

    @property
    def why(self) -> Failure | None:
        return self._why

    @why.setter
    def why(self, reason: Failure | None) -> None:
        self._why = reason
        if reason is not None:
            self._tell_soon()

    def is_set(self) -> bool:
        return self._why is not None or self._stop.is_set()

    def look(
        self, speech: StreamFilter | RestSpeech, turn: Turn, policy: Policy, now: float, given: int
    ) -> None:
        """Find out whether what came by now is useless, or too much. `given` is the guess for the input."""
        if not self.is_set():
            self.why = _why(speech, turn, policy, now, given)

    def seconds_without(self, turn: Turn, policy: Policy, now: float) -> float:
        """For how long nothing that comes can be too much."""
        return policy.limits.seconds - budget.seconds_used(turn, now) if budget.has_only_time(policy) else 0.0

    async def wait(self) -> None:
        told = asyncio.Event()
        forget = self.on_stop(told.set)
        try:
            if not self.is_set():
                await told.wait()
        finally:
            forget()

    def on_stop(self, call: Callable[[], None]) -> Callable[[], None]:
        """As the port says. The time of the turn is watched until it is forgotten."""
        forget_own, forget_stop = self._calls.add(call), self._stop.on_stop(self._tell_soon)
        timer = asyncio.get_running_loop().call_later(self._seconds_left, self._end_in_time)

        def forget() -> None:
            timer.cancel()
            forget_own()
            forget_stop()

        return forget

    def _tell_soon(self, passes: int = _PASSES) -> None:
        if passes:
            asyncio.get_running_loop().call_soon(self._tell_soon, passes - 1)
        else:
            self._calls.tell()

    def _end_in_time(self) -> None:
        if not self.is_set():
            self.why = self._too_late


def _why(
    speech: StreamFilter | RestSpeech, turn: Turn, policy: Policy, now: float, given: int
) -> Failure | None:
    """Why this attempt is not worth its time any more."""
    if speech.repeats:
        where = "" if speech.repeats_in == "text" else f" in its {speech.repeats_in}"
        return failure("repeated", f"the model repeats itself{where}: {speech.repeats[:120]}")
    if budget.has_only_time(policy) and budget.seconds_used(turn, now) < policy.limits.seconds:
        return None
    spent = budget.exceeded_inside(turn, policy, now, speech.characters, speech.usage, given)
    return failure("budget", spent) if spent else None
