"""Who reads which run, and what happens when nobody does any more.

Each reader brings a policy for the case that it leaves before the run's end:

- `detach`: the run goes on.
- `cancel`: the run is stopped at once, unless another reader with the same policy is still there, as happens
  when a client sent its request twice under one `Idempotency-Key`. Mere watchers do not keep such a run
  alive: pressing "stop" in a chat window must work while somebody else looks on.
- a number of seconds: the run is stopped when nobody at all has read it for so long. Whoever comes back in
  time, by whichever way, keeps it alive.

A reader that saw the end has not left. Waiting costs one timer for each run that nobody reads, and nothing
otherwise. Among nodes, a grace that is over begins again if somebody reads the run at another node, and
whoever leaves with `cancel` ends nothing while another reader with that policy is at another node.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from turnbuckle.errors import InvalidValue
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.origin import CANCEL, DETACH

SECONDS = r"[0-9]{1,6}(\.[0-9]{1,3})?"
"""How a grace is written: at most eleven days. Longer ones are `detach`; a timer for years is a mistake."""

_LEFT = "the client left"

Stop = Callable[[RunId, str], None]
ReadElsewhere = Callable[[RunId], Awaitable[bool]]


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

    def __init__(
        self,
        stop: Stop,
        read_elsewhere: ReadElsewhere | None = None,
        kept_elsewhere: ReadElsewhere | None = None,
    ) -> None:
        self._stop = stop
        self._read_elsewhere = read_elsewhere
        self._kept_elsewhere = kept_elsewhere
        self._asking: set[asyncio.Task[None]] = set()
        self._runs: dict[RunId, _Attended] = {}

    def __len__(self) -> int:
        """How many runs are looked after."""
        return len(self._runs)

    def is_read(self, run: RunId) -> bool:
        """Whether anybody reads it here."""
        return run in self._runs and self._runs[run].readers > 0

    def is_kept(self, run: RunId) -> bool:
        """Whether anybody reads it here who would end it by leaving."""
        return run in self._runs and self._runs[run].cancelling > 0

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
            if self._kept_elsewhere is None:
                self._end(run, _LEFT)
            else:
                self._ask(run, self._end_unless_kept(run))
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
        found.timer = asyncio.get_running_loop().call_later(found.grace, self._grace_over, run, why)

    def _grace_over(self, run: RunId, why: str) -> None:
        if self._read_elsewhere is None:
            self._end(run, why)
            return
        self._ask(run, self._end_if_unread(run, why))

    def _ask(self, run: RunId, others: Coroutine[Any, Any, None]) -> None:
        asking = asyncio.create_task(others, name=f"readers of {run}")
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    async def _end_unless_kept(self, run: RunId) -> None:
        assert self._kept_elsewhere is not None
        elsewhere = await self._kept_elsewhere(run)
        attended = self._runs.get(run)
        if attended is None or attended.cancelling:
            return  # it has ended, or somebody came back meanwhile
        if not elsewhere:
            self._end(run, _LEFT)
        elif not attended.readers and attended.timer is None:
            self._left_alone(run, attended)

    async def _end_if_unread(self, run: RunId, why: str) -> None:
        assert self._read_elsewhere is not None
        attended = self._runs.get(run)
        elsewhere = await self._read_elsewhere(run)
        if attended is None or self._runs.get(run) is not attended or attended.readers:
            return  # it has ended, or somebody came back meanwhile
        if elsewhere:
            self._left_alone(run, attended)
        else:
            self._end(run, why)

    def _end(self, run: RunId, why: str) -> None:
        attended = self._runs[run]
        attended.grace = attended.timer = None
        if not attended.readers:
            del self._runs[run]
        self._stop(run, why)
