"""What breaks have cost, by day and cause, and how each route fares: over all runs that this journal had.

Theory of operation. The end of a run says which routes it asked and what broke there. `look` reads, of each
run, that one item, once: runs are taken in the order in which they began, behind a cursor. Those that have no
end yet are remembered and looked at again. Sums, cursor and open runs are one value, which is stored now and
then (`save`) under the kind `waste`. Whoever comes later, after a crash too, begins with the one that is
stored and counts what it does not hold; so does a node that finds one of another. So nothing is counted twice
or left out, and what was counted stays when runs are deleted.

The newest runs may become visible in another order than that of their beginnings, with several nodes. So the
cursor stays a little behind, and what is in front of it is added up again at each look, together with what
this process drives at the moment.

A day is the one on which the run began, by UTC, as for `/v1/usage`. A look counts a bounded number of runs;
until it has come to the newest, `complete` is false. Runs of versions whose ends did not say it count as
nothing, and so do those that were brought in from elsewhere.
"""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.journal.port import Grade, Held, IndexUpdate, Journal, StreamQuery, StreamRow
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, Runs
from turnbuckle.service.spending import RunSums, SpendingService
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.route_use import BreakSum, RouteUse, added, with_sum

KIND = "waste"
MOST_DAYS = 400
"""Days that are kept one by one; older ones are only in the sums over all time."""
MOST_ROUTES = 200
OTHER = "other"
MOST_OPEN = 2_000
"""Runs without an end that are remembered."""
LOOKED_AT = 500
"""Runs that one look counts."""
SETTLED = 120.0
"""Seconds after which no run appears any more in front of one that began later."""
SAVED_EVERY = 500
_PAGE = 100
_LEASE = 30.0
_START = (0.0, "")


class WasteLine(Struct, frozen=True):
    """What one cause has cost in the runs that began on one day, by UTC. `seconds` were spent in calls that
    broke, `characters` came and could not be used, `cost` is in US dollars, as far as it is known."""

    day: str
    cause: str
    times: int = 0
    seconds: float = 0.0
    characters: int = 0
    cost: float = 0.0


class RouteTally(Struct, frozen=True):
    """How the calls of one route went. `stalls` are among `breaks`. `recovered`: the run went on after a
    break there; `given_up`: it did not. `stopped`: a person ended the call."""

    route: str
    calls: int = 0
    breaks: int = 0
    stalls: int = 0
    recovered: int = 0
    given_up: int = 0
    stopped: int = 0


class WasteSums(Struct, frozen=True, omit_defaults=True):
    """What was counted. `behind` is the last run that it holds, `open` are runs before that without an end,
    with when they began. `first` is when the first run began."""

    days: dict[str, tuple[BreakSum, ...]] = {}
    ever: tuple[BreakSum, ...] = ()
    routes: dict[str, RouteUse] = {}
    behind: tuple[float, str] | None = None
    open: dict[str, float] = {}
    first: float | None = None


class WasteReport(Struct, frozen=True):
    """`lines` has the newest day first, and in it what took most time; `ever` is all time, by cause."""

    lines: list[WasteLine]
    ever: list[WasteLine]
    routes: dict[str, RouteTally]
    first: float | None
    complete: bool

    def route(self, name: str) -> RouteTally:
        """What is known of a route; nothing of one that was never asked."""
        return self.routes.get(name, RouteTally(name))


def counted(sums: WasteSums, began: float, uses: Iterable[RouteUse]) -> WasteSums:
    """With one run more."""
    day = day_of(began)
    days, ever, routes = dict(sums.days), sums.ever, dict(sums.routes)
    for use in uses:
        name = use.route if use.route in routes or len(routes) < MOST_ROUTES else OTHER
        known = routes.get(name, RouteUse(name))
        breaks = known.breaks
        for one in use.breaks:
            breaks, ever = with_sum(breaks, one), with_sum(ever, one)
            days[day] = with_sum(days.get(day, ()), one)
        routes[name] = RouteUse(name, known.calls + use.calls, breaks, known.stopped + use.stopped)
    for old in sorted(days)[:-MOST_DAYS]:
        del days[old]
    first = began if sums.first is None else min(sums.first, began)
    return replace(sums, days=days, ever=ever, routes=routes, first=first)


def report_of(sums: WasteSums, days: int, complete: bool) -> WasteReport:
    """What people look at: the last of the days one by one, and all time."""
    newest = sorted(sums.days, reverse=True)[:days]
    return WasteReport(
        [line for day in newest for line in _lines(day, sums.days[day])],
        _lines("", sums.ever),
        {name: _tally(use) for name, use in sums.routes.items()},
        sums.first,
        complete,
    )


def day_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _lines(day: str, sums: tuple[BreakSum, ...]) -> list[WasteLine]:
    by_time = sorted(sums, key=lambda one: (-one.seconds, one.cause))
    return [WasteLine(day, one.cause, one.times, one.seconds, one.characters, one.cost) for one in by_time]


def _tally(use: RouteUse) -> RouteTally:
    whole = BreakSum("")
    for one in use.breaks:
        whole = added(whole, one)
    stalls = sum(one.times for one in use.breaks if one.cause == "stalled")
    return RouteTally(use.route, use.calls, whole.times, stalls, whole.recovered, whole.given_up, use.stopped)


def _is_foreign(row: StreamRow, told: RunSums) -> bool:
    """Whether it was brought in from elsewhere: it had ended before it was here."""
    return told.ended_at is not None and told.ended_at < row.created - SETTLED


class WasteService:
    """Counts, and stores what it has counted."""

    def __init__(self, journal: Journal, runs: Runs, spending: SpendingService) -> None:
        self._journal = journal
        self._runs = runs
        self._spending = spending
        self._sums: WasteSums | None = None
        self._seen: set[str] = set()  # stored sums that ours go on from
        self._unsaved = 0
        self._is_level = False  # all that is settled is counted
        self._turn = asyncio.Lock()

    async def look(self, days: int = 31) -> WasteReport:
        """Count what is new, as far as one look goes, and tell all of it."""
        async with self._turn:
            sums = await self._known()
            sums = await self._settle_open(sums)
            sums, fresh, complete = await self._count_new(sums)
            self._sums, self._is_level = sums, complete or bool(fresh)
            if self._unsaved >= SAVED_EVERY:
                await self._save(sums)
        shown = sums
        for name, began in sums.open.items():
            if (running := self._runs.live(RunId(name))) is not None:
                shown = counted(shown, began, running.turn.tally.routes)
        for row, told in fresh:
            if not _is_foreign(row, told):
                shown = counted(shown, row.created, told.routes)
        return report_of(shown, days, complete)

    async def catch_up(self) -> None:
        """Count everything that is settled, and store what was counted. What is newer is not waited for: on a
        busy server there is always more of it."""
        while True:
            await self.look()
            if self._is_level and await self.save():
                return
            await asyncio.sleep(0)

    async def save(self) -> bool:
        """Store what was counted, if there is anything new in it. False if another node's was taken."""
        async with self._turn:
            if self._sums is not None and self._unsaved:
                return await self._save(self._sums)
        return True

    async def _known(self) -> WasteSums:
        await self._take_stored()
        return self._sums or WasteSums()

    async def _take_stored(self) -> list[str] | None:
        """Go on from what another node has stored, if one has: it may have deleted since what it counted. The
        names of what is stored if none has."""
        rows = await self._journal.streams(StreamQuery(kind=KIND, order="newest"), limit=_PAGE)
        names = [row.name for row in rows]
        if self._seen.issuperset(names):
            return names
        best: WasteSums | None = None
        for name in names:
            for item in await self._journal.read(name, limit=1):
                sums = msgspec.json.decode(item.data, type=WasteSums)
                if best is None or (sums.behind or _START) > (best.behind or _START):
                    best = sums
        self._seen = set(names)
        if best is None:
            return names  # one is about to store its first
        self._sums, self._unsaved = best, 0
        return None

    async def _settle_open(self, sums: WasteSums) -> WasteSums:
        """Count those of the open ones that have their end now."""
        asked = [name for name in sums.open if self._runs.live(RunId(name)) is None]
        if not asked:
            return sums
        rows = await self._journal.streams(StreamQuery(kind=RUN, status=RUNNING), limit=MOST_OPEN)
        running = {row.name for row in rows}
        for name in [name for name in asked if name not in running][:LOOKED_AT]:
            rows = await self._journal.streams(StreamQuery(kind=RUN, name=name), limit=1)
            if rows and not await self._is_over(rows[0]):
                continue
            for row in rows:
                sums = await self._with(sums, row)
            sums = replace(sums, open={key: at for key, at in sums.open.items() if key != name})
            self._unsaved += 1
        return sums

    async def _count_new(self, sums: WasteSums) -> tuple[WasteSums, list[tuple[StreamRow, RunSums]], bool]:
        """The sums with what is settled, what is in front of the cursor, and whether that is all."""
        fresh: list[tuple[StreamRow, RunSums]] = []
        settled = self._runs.environment.wall() - SETTLED
        place = sums.behind
        for _ in range(LOOKED_AT // _PAGE):
            rows = await self._journal.streams(StreamQuery(kind=RUN, order="oldest"), place, _PAGE)
            for row in rows:
                if row.created > settled or fresh:
                    fresh.append((row, await self._spending.sums_of(row)))
                    continue
                if not await self._is_over(row):
                    left = dict(list(sums.open.items())[-MOST_OPEN + 1 :])
                    sums = replace(sums, open={**left, row.name: row.created})
                else:
                    sums = await self._with(sums, row)
                sums = replace(sums, behind=row.born)
                self._unsaved += 1
            if len(rows) < _PAGE:
                return sums, fresh, True
            place = rows[-1].born
        return sums, fresh, False

    async def _is_over(self, row: StreamRow) -> bool:
        """Whether all of it can be counted. That a run has ended may be seen a moment before its end can be
        read; one whose end was lost has none for good."""
        if row.status == RUNNING:
            return False
        is_new = row.updated > self._runs.environment.wall() - SETTLED
        return not is_new or (await self._spending.sums_of(row)).ended_at is not None

    async def _with(self, sums: WasteSums, row: StreamRow) -> WasteSums:
        told = await self._spending.sums_of(row)
        return sums if _is_foreign(row, told) else counted(sums, row.created, told.routes)

    async def _save(self, sums: WasteSums) -> bool:
        """In a stream of its own, in place of those that it goes on from. False if another node has stored
        something since: then that is taken, and what it does not hold is counted again."""
        journal, environment = self._journal, self._runs.environment
        old = await self._take_stored()
        if old is None:
            return False
        name = environment.new_name(KIND)
        await journal.note(name, IndexUpdate(kind=KIND))
        claim = await journal.claim(name, environment.owner, _LEASE)
        if isinstance(claim, Held):
            return True
        data = msgspec.json.encode(sums)
        try:
            await journal.append(name, [data], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED)
        finally:
            await journal.release(claim)
        for stale in old:
            await journal.drop(stale)
        self._seen, self._unsaved = {name, *old}, 0
        return True
