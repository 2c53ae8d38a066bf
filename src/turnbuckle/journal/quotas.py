"""What an owner has used, of all nodes together: requests of this minute, runs under way, money of this day.

The port, its decisions, and the body for one process alone. Requests are a bucket that holds a minute's
worth and fills evenly; `full_at` is when it is full again. A run has a slot from its admission until it has
ended or is let go of, and its slot says what it has cost so far. The money of a day is that of the runs that
began on it, by UTC. The slot of a run that no living process drives does not count as a run, but its money
does; one that is `queued` counts, since it waits only because all nodes are full.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct

MINUTE = 60.0
DAY = 86_400.0
Verdict = Literal["admitted", "too_many_runs", "budget_spent"]


class TakenRequests(Struct, frozen=True):
    """How many were granted, and in how many seconds the bucket is full again."""

    granted: int
    full_in: float


class Admission(Struct, frozen=True):
    """Whether a run may begin. `runs` are the owner's others that are under way, `cost` is the money that
    they have spent on this day."""

    verdict: Verdict
    runs: int
    cost: float


class QuotaUse(Struct, frozen=True):
    """What an owner has used: runs under way, and the money of this day."""

    runs: int
    cost: float


class Quotas(Protocol):
    """The quotas of all owners. What is not awaited is told soon. What is awaited raises StorageError."""

    in_memory: bool
    """Whether nothing is waited for but what an owner has spent."""

    async def take(self, owner: str, per_minute: int, wanted: int, back: int = 0) -> TakenRequests:
        """Take requests out of the owner's minute, as many as are wanted and left. So many of those that were
        taken before were not used, and come `back` first."""
        ...

    async def admit(self, owner: str, run: str, most: int, money: float) -> Admission:
        """Give a run its slot, if the owner has fewer than `most` and has spent less than `money` today; 0:
        as much as they like. One that has a slot is not counted against itself."""
        ...

    def hold(self, owner: str, run: str) -> None:
        """A run goes on here, whatever the limits say."""
        ...

    def queue(self, run: str, session: str) -> None:
        """A run waits in its session for a node that has room. All that wait in one session count as one."""
        ...

    def spend(self, run: str, cost: float) -> None:
        """A run that has its slot here has cost so much until now, from its beginning."""
        ...

    def release(self, run: str, *, ended: bool) -> None:
        """It does not go on here. One that has not `ended` may go on elsewhere, with what it has cost."""
        ...

    async def use(self, owner: str) -> QuotaUse:
        """What an owner has used."""
        ...

    async def abandoned(self, limit: int = 100) -> list[str]:
        """Runs that have ended though whoever drove them died before the slot was given back. What they cost
        is to be looked up."""
        ...

    async def settle(self, run: str, cost: float | None) -> None:
        """Give back the slot of such a run. None: nobody knows better than the slot what it cost."""
        ...


def requests_left(full_in: float, per_minute: int) -> int:
    """How many a bucket holds. Half a request of slack: sums of fractions are never exact."""
    each = MINUTE / per_minute
    return max(math.floor((MINUTE + each / 2 - max(full_in, 0.0)) / each), 0)


def wait_for_request(full_in: float, per_minute: int) -> float:
    """Seconds until a bucket that is empty holds one."""
    return max(full_in + MINUTE / per_minute - MINUTE, 0.0)


def verdict_of(runs: int, cost: float, most: int, money: float) -> Verdict:
    """Whether one more run may begin."""
    if runs >= most:
        return "too_many_runs"
    return "budget_spent" if money and cost >= money else "admitted"


def until_next_day(wall: float) -> float:
    """Seconds until the money of a day counts from nothing."""
    return DAY - wall % DAY


class _Slot:
    __slots__ = ("cost", "day", "is_driven", "owner")

    def __init__(self, owner: str, day: int) -> None:
        self.owner = owner
        self.day = day
        self.cost = 0.0
        self.is_driven = True


async def _nothing(owner: str) -> float:
    return 0.0


class MemoryQuotas:
    """The quotas of one process alone. `spent_before` looks up, once a day for each owner, what their runs
    cost that began on this day and have ended."""

    in_memory = True

    def __init__(
        self, wall: Callable[[], float], spent_before: Callable[[str], Awaitable[float]] = _nothing
    ) -> None:
        self._wall = wall
        self._spent_before = spent_before
        self._full_at: dict[str, float] = {}
        self._slots: dict[str, _Slot] = {}
        self._owners: dict[str, dict[str, _Slot]] = {}
        self._day = -1
        self._spent: dict[str, float] = {}
        """Of runs that have ended, on this day; of owners for whom it was looked up."""

    async def take(self, owner: str, per_minute: int, wanted: int, back: int = 0) -> TakenRequests:
        now, each = self._wall(), MINUTE / per_minute
        full_at = max(min(self._full_at.get(owner, now), now + MINUTE) - back * each, now)
        granted = min(wanted, requests_left(full_at - now, per_minute))
        self._full_at[owner] = full_at + granted * each
        return TakenRequests(granted, full_at + granted * each - now)

    async def admit(self, owner: str, run: str, most: int, money: float) -> Admission:
        if money:
            await self._look_up(owner)
        used = self._used(owner, but=run)
        verdict = verdict_of(used.runs, used.cost, most, money)
        if verdict == "admitted":
            self.hold(owner, run)
        return Admission(verdict, used.runs, used.cost)

    def hold(self, owner: str, run: str) -> None:
        slot = self._slots.get(run)
        if slot is None:
            slot = self._slots[run] = _Slot(owner, self._today())
            self._owners.setdefault(owner, {})[run] = slot
        slot.is_driven = True

    def queue(self, run: str, session: str) -> None:
        """There is no other node: it keeps its slot."""

    def spend(self, run: str, cost: float) -> None:
        if run in self._slots:
            self._slots[run].cost = cost

    def release(self, run: str, *, ended: bool) -> None:
        slot = self._slots.get(run)
        if slot is None:
            return
        slot.is_driven = False
        if slot.cost and not ended:
            return
        del self._slots[run]
        mine = self._owners[slot.owner]
        del mine[run]
        if not mine:
            del self._owners[slot.owner]
        if slot.day == self._today() and slot.owner in self._spent:
            self._spent[slot.owner] += slot.cost

    async def use(self, owner: str) -> QuotaUse:
        await self._look_up(owner)
        return self._used(owner)

    async def abandoned(self, limit: int = 100) -> list[str]:
        return []  # nobody is left who could ask for what this process has forgotten

    async def settle(self, run: str, cost: float | None) -> None:
        if cost is not None:
            self.spend(run, cost)
        self.release(run, ended=True)

    def _used(self, owner: str, but: str = "") -> QuotaUse:
        today = self._today()
        runs, cost = 0, self._spent.get(owner, 0.0)
        for name, slot in self._owners.get(owner, {}).items():
            if name != but:
                runs += slot.is_driven
                cost += slot.cost if slot.day == today else 0.0
        return QuotaUse(runs, cost)

    def _today(self) -> int:
        day = int(self._wall() // DAY)
        if day != self._day:
            self._day = day
            self._spent.clear()
        return day

    async def _look_up(self, owner: str) -> None:
        self._today()
        while owner not in self._spent:
            day = self._day
            ended = await self._spent_before(owner)
            if day == self._today():  # else it is the money of yesterday
                self._spent.setdefault(owner, ended)
