"""What runs have used and cost: of one run, of a session, and by day.

The end of a run says what its model calls used, so one item is read of each run. What has ended does not
change, and is kept at hand.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from msgspec import Struct

from turnbuckle.journal.port import Journal, StreamQuery, StreamRow
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, Runs
from turnbuckle.service.owners import Owner, of
from turnbuckle.turn.facts import ModelAsked, RunEnded, decode
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.prices import NOTHING_SPENT, Spent, spent_text, together
from turnbuckle.vocab.route_use import RouteUse

MOST_RUNS = 20_000
"""Runs that one question looks at; the newest of them."""
DAY = 86_400.0
_KEPT = 50_000
_PAGE = 200
_LOOKED_AT = 500
_ASKED = b'{"type":"model_asked"'


class RunSums(Struct, frozen=True):
    """What is known of a run without reading all of it. `spent` is None if nobody knows; `ended_at` is None
    if it has no end. The route that was asked last stands last in `routes`."""

    spent: Spent | None = None
    routes: tuple[RouteUse, ...] = ()
    ended_at: float | None = None

    @property
    def route(self) -> str:
        """The one that answered, or was asked last; empty if none was asked."""
        return self.routes[-1].route if self.routes else ""


class Spending(Struct, frozen=True):
    """What several runs have used together. `uncounted` are those of which nobody knows: they are of a
    version that did not count, or were left without an end."""

    spent: Spent = NOTHING_SPENT
    runs: int = 0
    uncounted: int = 0


class DaySpending(Struct, frozen=True):
    """The runs that began on one day, by UTC: `2026-11-17`."""

    day: str
    spent: Spent
    runs: int
    uncounted: int = 0


class SpendingService:
    """Looks up what was spent."""

    def __init__(self, journal: Journal, runs: Runs) -> None:
        self._journal = journal
        self._runs = runs
        self._known: dict[str, RunSums] = {}

    async def of_run(self, row: StreamRow) -> Spent | None:
        """What one run has used so far; None if nobody knows."""
        return (await self.sums_of(row)).spent

    async def sums_of(self, row: StreamRow) -> RunSums:
        """What one run has used so far, and which routes it has asked."""
        running = self._runs.live(RunId(row.name))
        if running is not None and row.status == RUNNING:
            tally = running.turn.tally
            return RunSums(tally.spent, tally.routes)
        if row.status == RUNNING:
            return RunSums(routes=await self._asked_last(row.name))
        known = self._known.get(row.name)
        if known is None:
            known = await self._stored(row.name)
            if known.ended_at is None:
                return known  # that it has ended may be seen a moment before its end can be read
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[row.name] = known
        return known

    async def of_session(self, session: str) -> Spending:
        """What all runs of a session have used, also those that were taken back."""
        return await self._sum(self._rows(StreamQuery(kind=RUN, parent=session, order="newest"), 0.0))

    async def since(self, owner: Owner, at: float) -> Spending:
        """What all runs of this owner have used that began at this moment or later."""
        return await self._sum(self._rows(StreamQuery(kind=RUN, user=of(owner), order="newest"), at))

    async def of_today(self, owner: str) -> float:
        """What the runs of an owner have cost that began today and have ended, as far as that is known."""
        wanted = StreamQuery(kind=RUN, user=owner, order="newest")
        total = 0.0
        async for row in self._rows(wanted, _midnight(self._runs.environment.wall())):
            if self._runs.live(RunId(row.name)) is None:
                spent = await self.of_run(row)
                total += 0.0 if spent is None else spent.cost or 0.0
        return total

    async def stored(self, run: str) -> float | None:
        """What a run that has ended has cost; None if nobody knows."""
        spent = (await self._stored(run)).spent
        return None if spent is None else spent.cost

    async def by_day(self, owner: Owner, days: int) -> list[DaySpending]:
        """What was used on each of the last days, the newest first. Days without any run are left out."""
        sums: dict[str, Spending] = {}
        wanted = StreamQuery(kind=RUN, user=of(owner), order="newest")
        async for row in self._rows(wanted, _midnight(self._runs.environment.wall()) - (days - 1) * DAY):
            day = datetime.fromtimestamp(row.created, UTC).strftime("%Y-%m-%d")
            sums[day] = _with(sums.get(day, Spending()), await self.of_run(row))
        return [
            DaySpending(day, spending.spent, spending.runs, spending.uncounted)
            for day, spending in sums.items()
        ]

    async def words(self, session: str, owner: Owner) -> str:
        """The last run, the session and today, for a person."""
        rows = await self._journal.streams(StreamQuery(kind=RUN, parent=session, order="newest"), None, 1)
        last = await self.of_run(rows[0]) if rows else None
        whole = await self.of_session(session)
        today = await self.since(owner, _midnight(self._runs.environment.wall()))
        lines = [f"Last run: {spent_text(last)}."] if last is not None else []
        named = (("This session", whole), ("Today (UTC)", today))
        return "\n".join([*lines, *(f"{name}: {spending_text(spending)}." for name, spending in named)])

    async def _stored(self, run: str) -> RunSums:
        last = await self._journal.read(run, max(await self._journal.head(run) - 1, 0), 1)
        fact = decode(last[-1].data) if last else None
        if not isinstance(fact, RunEnded):
            return RunSums()
        # Of a version whose ends did not say it.
        routes = fact.routes or (
            await self._asked_last(run) if fact.spent is None or fact.spent.calls else ()
        )
        return RunSums(fact.spent, routes, fact.at)

    async def _asked_last(self, run: str) -> tuple[RouteUse, ...]:
        """The route of the last model call among the newest facts of a run that has not said it itself."""
        newest = await self._journal.read(run, max(await self._journal.head(run) - _LOOKED_AT, 0), _LOOKED_AT)
        for item in reversed(newest):
            fact = decode(item.data) if item.data.startswith(_ASKED) else None
            if isinstance(fact, ModelAsked):
                return (RouteUse(fact.route),)
        return ()

    async def _rows(self, wanted: StreamQuery, since: float) -> AsyncIterator[StreamRow]:
        place: tuple[float, str] | None = None
        for _ in range(MOST_RUNS // _PAGE):
            rows = await self._journal.streams(wanted, place, _PAGE)
            for row in rows:
                if row.created < since:
                    return
                yield row
            if len(rows) < _PAGE:
                return
            place = rows[-1].born

    async def _sum(self, rows: AsyncIterator[StreamRow]) -> Spending:
        total = Spending()
        async for row in rows:
            total = _with(total, await self.of_run(row))
        return total


def _with(total: Spending, spent: Spent | None) -> Spending:
    if spent is None:
        return Spending(total.spent, total.runs + 1, total.uncounted + 1)
    return Spending(together(total.spent, spent), total.runs + 1, total.uncounted)


def spending_text(spending: Spending) -> str:
    """One line for a person."""
    runs = "1 run" if spending.runs == 1 else f"{spending.runs:,} runs"
    missing = f", {spending.uncounted:,} of them not counted" if spending.uncounted else ""
    return f"{runs}{missing}, {spent_text(spending.spent)}"


def _midnight(now: float) -> float:
    return now - now % DAY
