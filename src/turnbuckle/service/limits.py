"""How much one owner may ask for, and how many runs there may be at once. Each refusal says which limit it
was, and when to come back.

What an owner may use holds over all nodes (`journal/quotas.py`); how many runs there may be in all is each
process's own, since it protects its machine. While the store of the quotas does not answer, each process
counts by itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from msgspec import Struct

from turnbuckle.errors import BudgetSpent, RateLimited, Stopping, TooManyRuns
from turnbuckle.journal.port import StorageError
from turnbuckle.journal.quotas import (
    MINUTE,
    Admission,
    Quotas,
    QuotaUse,
    requests_left,
    until_next_day,
    wait_for_request,
)
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.prices import money_text

_COME_BACK = 5.0  # nobody knows when a run ends; often enough to feel prompt, seldom enough to cost nothing
NO_LIMIT = 1 << 62
PATIENCE = 2.0
"""Seconds after which a store that does not say what an owner has used is not waited for."""
_BEGINNING = 5.0  # the same for the beginning of a run, which waits for the store anyway
_AWAY = 1.0  # seconds until it is asked again
_FORGET_EVERY = 1000  # checks; an owner whose bucket is full again is as good as one never seen
_GOOD = 1.0  # seconds for which requests that were taken ahead may be used

log = logging.getLogger("turnbuckle.service")


class RequestsLeft(Struct, frozen=True):
    """What is left of an owner's minute after a request, and in how many seconds all of it is back."""

    limit: int
    remaining: int
    full_in: float


class Rates:
    """Requests of each owner, as a bucket that holds a minute's worth and fills evenly. 0: no limit."""

    def __init__(self, per_minute: int, now: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._now = now
        self._full_at: dict[str, float] = {}  # when the owner's bucket is full again
        self._checks = 0

    def __len__(self) -> int:
        return len(self._full_at)

    def allow(self, per_minute: int) -> None:
        """From now on so many."""
        self._per_minute = per_minute

    async def count(self, owner: str) -> RequestsLeft | None:
        """Count a request; None if there is no limit. Raises RateLimited."""
        return self.check(owner)

    def check(self, owner: str) -> RequestsLeft | None:
        """Count a request as this process alone would."""
        if not self._per_minute:
            return None
        now = self._now()
        full_at = max(self._full_at.get(owner, now), now)
        if not requests_left(full_at - now, self._per_minute):
            raise self._refused(full_at - now)
        self._full_at[owner] = full_at = full_at + MINUTE / self._per_minute
        self._checks += 1
        if self._checks % _FORGET_EVERY == 0:
            self._full_at = {owner: at for owner, at in self._full_at.items() if at > now}
        return self._left(full_at - now)

    def _left(self, full_in: float, ahead: int = 0) -> RequestsLeft:
        left = requests_left(full_in, self._per_minute) + ahead
        return RequestsLeft(self._per_minute, left, max(full_in, 0.0))

    def _refused(self, full_in: float) -> RateLimited:
        message = f"more than {self._per_minute} requests in a minute (server.requests_per_minute)"
        wait = wait_for_request(full_in, self._per_minute)
        return RateLimited(message, wait, self._per_minute, max(full_in, 0.0))


class _Ahead:
    """Requests of one owner that this process has taken and not used yet."""

    __slots__ = ("count", "full_at", "lock", "until")

    def __init__(self) -> None:
        self.count = 0
        self.until = 0.0
        self.full_at = 0.0
        self.lock = asyncio.Lock()


class SharedRates(Rates):
    """The same over all nodes. A process takes a second's worth ahead, so that not every request asks the
    store: the owner never gets more than there are, and what another node has taken and does not use comes
    back with its next request. Of a small limit single requests are taken."""

    def __init__(self, per_minute: int, now: Callable[[], float], quotas: Quotas) -> None:
        super().__init__(per_minute, now)
        self._quotas = quotas
        self._ahead: dict[str, _Ahead] = {}
        self._away_until = 0.0
        self._counts = 0

    async def count(self, owner: str) -> RequestsLeft | None:
        if not self._per_minute:
            return None
        self._forget()
        ahead = self._ahead.setdefault(owner, _Ahead())
        if self._is_usable(ahead):
            return self._use(ahead)
        async with ahead.lock:
            if self._is_usable(ahead):  # somebody took some meanwhile
                return self._use(ahead)
            return await self._take(owner, ahead)

    async def _take(self, owner: str, ahead: _Ahead) -> RequestsLeft | None:
        if self._now() < self._away_until:
            return self.check(owner)
        each, back, ahead.count = max(self._per_minute // 60, 1), ahead.count, 0
        try:
            async with asyncio.timeout(PATIENCE):
                taken = await self._quotas.take(owner, self._per_minute, each, back)
        except (StorageError, TimeoutError) as error:
            log.warning("requests are counted by this server alone: %s", error or "no answer")
            self._away_until = self._now() + _AWAY
            return self.check(owner)
        now = self._now()
        ahead.count, ahead.until, ahead.full_at = taken.granted, now + _GOOD, now + taken.full_in
        if not taken.granted:
            raise self._refused(taken.full_in)
        return self._use(ahead)

    def _is_usable(self, ahead: _Ahead) -> bool:
        return ahead.count > 0 and self._now() < ahead.until

    def _use(self, ahead: _Ahead) -> RequestsLeft:
        ahead.count -= 1
        return self._left(ahead.full_at - self._now(), ahead.count)

    def _forget(self) -> None:
        self._counts += 1
        if self._counts % _FORGET_EVERY == 0:
            now = self._now()
            self._ahead = {
                owner: one for owner, one in self._ahead.items() if one.full_at > now or one.lock.locked()
            }


class Slots:
    """Runs that are under way. A run takes a slot before it starts and gives it back when it has ended.
    `money` is what an owner may spend on a day; 0: any sum."""

    def __init__(self, most: int, per_owner: int, money: float = 0.0) -> None:
        self._most = most
        self._per_owner = per_owner
        self._money = money
        self._quotas: Quotas | None = None
        self._taken: dict[RunId, str] = {}
        self._by_owner: dict[str, int] = {}
        self._costs: dict[RunId, float] = {}
        self._closing = False
        self._wall: Callable[[], float] = lambda: 0.0
        self._costs_now: Callable[[], Iterable[tuple[RunId, float | None]]] = tuple

    def __len__(self) -> int:
        return len(self._taken)

    def share(
        self,
        quotas: Quotas,
        wall: Callable[[], float],
        costs: Callable[[], Iterable[tuple[RunId, float | None]]],
    ) -> None:
        """Count with all nodes. `wall` is the time of day; `costs` says of each run that is under way here
        what it has cost until now."""
        self._quotas, self._wall, self._costs_now = quotas, wall, costs

    def allow(self, most: int, per_owner: int, money: float = 0.0) -> None:
        """From now on so many. What is under way goes on."""
        self._most, self._per_owner, self._money = most, per_owner, money

    @property
    def most(self) -> tuple[int, int]:
        """How many runs there may be, of all and of one owner."""
        return self._most, self._per_owner

    def of(self, owner: str | None) -> int:
        """How many runs of this owner are under way; None: of all."""
        return len(self) if owner is None else self._by_owner.get(owner, 0)

    @property
    def money(self) -> float:
        """What one owner may spend on a day; 0: any sum."""
        return self._money

    async def use(self, owner: str | None) -> QuotaUse:
        """What an owner uses at all nodes. While that cannot be asked: the runs of this process."""
        if owner is not None and self._quotas is not None:
            self.tell_costs()
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._quotas.use(owner)
            except (StorageError, TimeoutError) as error:
                log.warning("the usage of an owner is not known at the moment: %s", error or "no answer")
        return QuotaUse(self.of(owner), 0.0)

    @property
    def closing(self) -> bool:
        return self._closing

    async def admit(self, owner: str, run: RunId) -> None:
        """Take a slot that counts at all nodes. Raises TooManyRuns, BudgetSpent and Stopping, and nothing is
        taken then."""
        if run in self._taken:
            return
        self.acquire(owner, run)
        try:
            await self._ask(owner, run)
        except BaseException:
            self._let_go(run)
            raise

    async def afford(self, owner: str, run: RunId) -> None:
        """Whether a run may begin that waited for its turn. Raises BudgetSpent."""
        if not self._money or run in self._taken or self._quotas is None:
            return
        self.tell_costs()
        try:
            async with asyncio.timeout(PATIENCE):
                used = await self._quotas.use(owner)
        except (StorageError, TimeoutError) as error:
            log.warning("the spending of an owner is not known at the moment: %s", error or "no answer")
            return
        if used.cost >= self._money:
            raise self._refusal(Admission("budget_spent", used.runs, used.cost))

    async def _ask(self, owner: str, run: RunId) -> None:
        if self._quotas is None:
            return
        self.tell_costs()
        try:
            admission = await self._admission(self._quotas, owner, run)
        except (StorageError, TimeoutError) as error:
            log.warning("runs are counted by this server alone: %s", error or "no answer")
            self._quotas.hold(owner, run)
            return
        except asyncio.CancelledError:
            self._quotas.release(run, ended=False)
            raise
        if admission.verdict != "admitted":
            raise self._refusal(admission)

    async def _admission(self, quotas: Quotas, owner: str, run: RunId) -> Admission:
        admission = quotas.admit(owner, run, self._per_owner, self._money)
        if quotas.in_memory and not self._money:  # nothing is waited for, so no clock is set
            return await admission
        async with asyncio.timeout(_BEGINNING):
            return await admission

    def _refusal(self, admission: Admission) -> TooManyRuns | BudgetSpent:
        if admission.verdict == "too_many_runs":
            return _full_of(admission.runs)
        limit = f"{money_text(self._money)} (server.max_money_per_day)"
        message = f"your runs of this day have cost {money_text(admission.cost)}, and may cost {limit}"
        return BudgetSpent(f"{message}; a new day begins at midnight UTC", until_next_day(self._wall()))

    def acquire(self, owner: str, run: RunId) -> None:
        """Take a slot of this process; one that the run has already stays its own. Raises TooManyRuns and
        Stopping, and nothing is taken then."""
        if run in self._taken:
            return
        if self._closing:
            raise Stopping("the server is stopping and starts nothing new", _COME_BACK)
        mine = self._by_owner.get(owner, 0)
        if mine >= self._per_owner:
            raise _full_of(mine)
        if len(self._taken) >= self._most:
            raise _full(f"{len(self._taken)} runs are under way, which is the limit (server.max_runs)")
        self._take(owner, run)

    def hold(self, owner: str, run: RunId) -> None:
        """Count a run that goes on anyway, such as one taken up after a restart."""
        if run not in self._taken:
            self._take(owner, run)
            if self._quotas is not None:
                self._quotas.hold(owner, run)

    def release(self, run: RunId, *, ended: bool = False, cost: float | None = None) -> None:
        """Give the slot back. May be called again. `ended`: the run is over, and has cost so much."""
        if not self._let_go(run) or self._quotas is None:
            return
        if cost is not None:
            self._quotas.spend(run, cost)
        self._quotas.release(run, ended=ended)

    def queue(self, run: RunId, session: str) -> None:
        """It is stored, and waits for a node that has room. Here it takes none; it still counts against its
        owner."""
        if self._let_go(run) and self._quotas is not None:
            self._quotas.queue(run, session)

    def tell_costs(self) -> None:
        """Say what the runs under way have cost, if there is a budget that it counts against."""
        if not self._money or self._quotas is None:
            return
        for run, cost in self._costs_now():
            if cost and run in self._taken and self._costs.get(run) != cost:
                self._costs[run] = cost
                self._quotas.spend(run, cost)

    def close(self) -> None:
        """From now on nothing new starts."""
        self._closing = True

    def _take(self, owner: str, run: RunId) -> None:
        self._taken[run] = owner
        self._by_owner[owner] = self._by_owner.get(owner, 0) + 1

    def _let_go(self, run: RunId) -> bool:
        self._costs.pop(run, None)
        owner = self._taken.pop(run, None)
        if owner is None:
            return False
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]
        return True


def _full_of(mine: int) -> TooManyRuns:
    return _full(f"{mine} of your runs are under way, which is the limit (server.max_runs_per_owner)")


def _full(message: str) -> TooManyRuns:
    return TooManyRuns(f"{message}; wait for one to end, or stop one", _COME_BACK)
