"""How much one owner may ask for, and how many runs there may be at once. Each refusal says which limit it
was, and when to come back."""

from collections.abc import Callable

from turnbuckle.errors import RateLimited, Stopping, TooManyRuns
from turnbuckle.vocab.ids import RunId

_COME_BACK = 5.0  # nobody knows when a run ends; often enough to feel prompt, seldom enough to cost nothing
NO_LIMIT = 1 << 62
_FORGET_EVERY = 1000  # checks; an owner whose bucket is full again is as good as one never seen


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

    def check(self, owner: str) -> None:
        """Count a request. Raises RateLimited."""
        if not self._per_minute:
            return
        now, each = self._now(), 60.0 / self._per_minute
        full_at = max(self._full_at.get(owner, now), now) + each
        if full_at - now > 60.0 + each / 2:  # half a request of slack: sums of fractions are never exact
            message = f"more than {self._per_minute} requests in a minute (server.requests_per_minute)"
            raise RateLimited(message, full_at - now - 60.0)
        self._full_at[owner] = full_at
        self._checks += 1
        if self._checks % _FORGET_EVERY == 0:
            self._full_at = {owner: at for owner, at in self._full_at.items() if at > now}


class Slots:
    """Runs that are under way. A run takes a slot before it starts and gives it back when it has ended."""

    def __init__(self, most: int, per_owner: int) -> None:
        self._most = most
        self._per_owner = per_owner
        self._taken: dict[RunId, str] = {}
        self._by_owner: dict[str, int] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._taken)

    def allow(self, most: int, per_owner: int) -> None:
        """From now on so many. What is under way goes on."""
        self._most, self._per_owner = most, per_owner

    @property
    def most(self) -> tuple[int, int]:
        """How many runs there may be, of all and of one owner."""
        return self._most, self._per_owner

    def of(self, owner: str | None) -> int:
        """How many runs of this owner are under way; None: of all."""
        return len(self) if owner is None else self._by_owner.get(owner, 0)

    @property
    def closing(self) -> bool:
        return self._closing

    def acquire(self, owner: str, run: RunId) -> None:
        """Take a slot; one that the run has already stays its own. Raises TooManyRuns and Stopping, and
        nothing is taken then."""
        if run in self._taken:
            return
        if self._closing:
            raise Stopping("the server is stopping and starts nothing new", _COME_BACK)
        mine = self._by_owner.get(owner, 0)
        if mine >= self._per_owner:
            raise _full(f"{mine} of your runs are under way, which is the limit (server.max_runs_per_owner)")
        if len(self._taken) >= self._most:
            raise _full(f"{len(self._taken)} runs are under way, which is the limit (server.max_runs)")
        self.hold(owner, run)

    def hold(self, owner: str, run: RunId) -> None:
        """Count a run that goes on anyway, such as one taken up after a restart."""
        if run not in self._taken:
            self._taken[run] = owner
            self._by_owner[owner] = self._by_owner.get(owner, 0) + 1

    def release(self, run: RunId) -> None:
        """Give the slot back. May be called again."""
        owner = self._taken.pop(run, None)
        if owner is None:
            return
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]

    def close(self) -> None:
        """From now on nothing new starts."""
        self._closing = True


def _full(message: str) -> TooManyRuns:
    return TooManyRuns(f"{message}; wait for one to end, or stop one", _COME_BACK)
