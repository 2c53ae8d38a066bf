"""Who reads which run, and what happens when nobody does any more.

Each reader brings a policy for the case that it leaves before the run's end:

- `detach`: the run goes on.
- `cancel`: the run is stopped at once, unless another reader with the same policy is still there, as happens
  when a client sent its request twice under one `Idempotency-Key`. Mere watchers do not keep such a run
  alive: pressing "stop" in a chat window must work while somebody else looks on.
- a number of seconds: the run is stopped when nobody at all has read it for so long. Whoever comes back in
  time, by whichever way, keeps it alive.

A reader that saw the end has not left. Waiting costs one timer for each run that nobody reads, and nothing
otherwise.
"""

import asyncio
import re
from collections.abc import Callable

from turnbuckle.errors import InvalidValue
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.origin import CANCEL, DETACH

SECONDS = r"[0-9]{1,6}(\.[0-9]{1,3})?"
"""How a grace is written: at most eleven days. Longer ones are `detach`; a timer for years is a mistake."""

Stop = Callable[[RunId, str], None]


def read_policy(text: str, default: str, *, param: str = "X-Turnbuckle-On-Disconnect") -> str:
    """The policy that a request asks for. Raises InvalidValue."""
    wanted = text.strip().lower()
    if not wanted:
        return default
    if wanted in (CANCEL, DETACH) or _seconds(wanted) is not None:
        return wanted
    raise InvalidValue(f"{param} must be cancel, detach, or a number of seconds", param)


def _seconds(policy: str) -> float | None:
    return float(policy) if re.fullmatch(SECONDS, policy) else None


class _Attended:
    """One run with readers, or in its grace."""

    __slots__ = ("cancelling", "grace", "readers", "timer")

    def __init__(self) -> None:
        self.readers = 0
        self.cancelling = 0  # readers whose policy is `cancel`
        self.grace: float | None = None  # the longest that any of its readers asked for
        self.timer: asyncio.TimerHandle | None = None


class DisconnectPolicy:
    """Counts readers and calls `stop` with a run and the reason. `stop` must not wait."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._runs: dict[RunId, _Attended] = {}

    def __len__(self) -> int:
        """How many runs are looked after."""
        return len(self._runs)

    def enter(self, run: RunId, policy: str) -> None:
        """A reader begins."""
        attended = self._runs.setdefault(run, _Attended())
        attended.readers += 1
        if policy == CANCEL:
            attended.cancelling += 1
        elif policy != DETACH:
            attended.grace = max(attended.grace or 0.0, _seconds(policy) or 0.0)
        if attended.timer is not None:
            attended.timer.cancel()
            attended.timer = None

    def leave(self, run: RunId, policy: str, *, ended: bool) -> None:
        """A reader is no longer there. `ended`: it has seen the end of the run, or was sent away by the
        server."""
        attended = self._runs[run]
        attended.readers -= 1
        if policy == CANCEL:
            attended.cancelling -= 1
        if ended:
            if not attended.readers:
                del self._runs[run]
        elif policy == CANCEL and not attended.cancelling:
            self._end(run, "the client left")
        elif not attended.readers:
            self._left_alone(run, attended)

    def expect(self, run: RunId, policy: str) -> None:
        """A run that nobody reads yet, after a restart for example: its grace begins now."""
        seconds = None if policy in (CANCEL, DETACH) else _seconds(policy)
        if seconds is not None and run not in self._runs:
            attended = self._runs[run] = _Attended()
            attended.grace = seconds
            self._left_alone(run, attended)

    def forget(self, run: RunId) -> None:
        """The run has ended by itself."""
        attended = self._runs.get(run)
        if attended is None:
            return
        attended.grace = None
        if attended.timer is not None:
            attended.timer.cancel()
            attended.timer = None
        if not attended.readers:
            del self._runs[run]

    def _left_alone(self, run: RunId, found: _Attended) -> None:
        if found.grace is None:
            del self._runs[run]
            return
        why = f"nobody read it for {found.grace:g} seconds"
        found.timer = asyncio.get_running_loop().call_later(found.grace, self._end, run, why)

    def _end(self, run: RunId, why: str) -> None:
        attended = self._runs[run]
        attended.grace = attended.timer = None
        if not attended.readers:
            del self._runs[run]
        self._stop(run, why)
