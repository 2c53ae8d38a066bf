"""Runs to look at: find one, read it, follow it, and say how it stands."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import ApprovalUnknown, RunUnfinished, RunUnknown, TurnbuckleError
from turnbuckle.journal.port import Item, JournalError, StreamQuery, StreamRow
from turnbuckle.journal.tail import read_all
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, TOLD
from turnbuckle.runtime.undo import undone_in
from turnbuckle.service.anywhere import NodeDesk
from turnbuckle.service.owners import Owner, of, public_session, run_id
from turnbuckle.service.run_handle import RunHandle, handle_of
from turnbuckle.service.run_search import RunFilter, find_runs
from turnbuckle.service.run_view import ApprovalView, RunFold, RunLine, RunView, line_of, queued_view
from turnbuckle.service.spending import RunSums
from turnbuckle.service.stores import Stores
from turnbuckle.turn.approvals import open_in
from turnbuckle.turn.facts import Fact, RunEnded, RunStarted, UserSpoke, decode
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message

PATIENCE = 3.0
"""Seconds without a driver after which a run is called unfinished. A session that lost its run takes it up
again after one."""


class _Standing(Struct, frozen=True):
    """A run that another node drives, as a list shows it."""

    status: Literal["running", "waiting_for_approval"] = "running"
    sums: RunSums = RunSums()


class ListedRuns(Struct, frozen=True):
    """Runs as a list shows them. `missing` are nodes that did not answer: how the runs stand that they drive
    is not known."""

    lines: list[RunLine]
    missing: Sequence[str] = ()


class RunReading:
    """The half of `RunService` that changes nothing."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._journal = stores.journal
        self._runs = stores.runs
        self._manager = stores.manager
        self.spending = stores.spending
        self.is_read: Callable[[RunId], bool] = lambda _: False
        """Whether anybody reads a run here."""
        self.is_kept: Callable[[RunId], bool] = lambda _: False
        """Whether anybody reads a run here who would end it by leaving."""

    def live(self, run: RunId) -> Running | None:
        """The run, if it is driven here at this moment."""
        return self._runs.live(run)

    @property
    def desk(self) -> NodeDesk | None:
        """The other nodes, if there may be any."""
        return self._stores.desk

    async def is_read_elsewhere(self, run: RunId) -> bool:
        """Whether somebody reads it at another node. If that cannot be found out, somebody may."""
        assert self.desk is not None
        try:
            told = await self.desk.from_all(self, RunReading._is_read_here, run)
            return any(told.given) or bool(told.missing)
        except JournalError:
            return True

    async def is_kept_elsewhere(self, run: RunId) -> bool:
        """Whether somebody at another node would end it by leaving, and has not left. If that cannot be found
        out, nobody would: a stop must work."""
        assert self.desk is not None
        try:
            return bool(await self.desk.from_whoever(self, RunReading._is_kept_here, run))
        except (JournalError, TurnbuckleError):
            return False

    async def _is_read_here(self, run: RunId) -> bool:
        return self.is_read(run)

    async def _is_kept_here(self, run: RunId) -> bool | None:
        return self.is_kept(run) or None

    def _goes_on_elsewhere(self, row: StreamRow) -> bool:
        """Whether another node drives it; one that died a moment ago counts."""
        return self.desk is not None and row.status == RUNNING and self.desk.is_elsewhere(row)

    def is_driven(self, run: RunId) -> bool:
        """Whether it is driven here, or will be when its turn comes."""
        return self._runs.live(run) is not None or self._manager.waiting(run, None) is not None

    # Finding

    async def row(self, run: str, owner: Owner = None) -> StreamRow:
        """A run of this owner, or the answer to a command. Raises RunUnknown: one of somebody else looks
        unknown."""
        if (known := run_id(run)) is not None:
            for kind in (RUN, TOLD):
                if rows := await self._stores.rows(kind, known, owner):
                    return rows[0]
        raise RunUnknown.named(run)

    async def find(self, run: str, owner: Owner = None) -> RunHandle:
        """A run of this owner, also one that waits for its turn in a session. Raises RunUnknown."""
        try:
            return await self._begun(run, owner)
        except RunUnknown:
            waiting = await self._manager.find_waiting(run, owner, alone=self.desk is None)
        if waiting is None:
            return await self._begun(run, owner)  # its turn came between the two looks
        session, message = waiting
        return RunHandle(message.run, session, message.origin, message.at)

    async def _begun(self, run: str, owner: Owner) -> RunHandle:
        """One whose beginning can be read: its row may be seen a moment before."""
        row = await self.row(run, owner)
        begun = handle_of(await self.started(RunId(row.name)), ended=row.status != RUNNING)
        return replace(begun, told=row.kind == TOLD)

    async def steered(self, found: RunHandle, message: str) -> RunHandle | None:
        """The answer to what was said into a run, from where it begins. None if it was not told that."""
        async for items in self.stored(found.run, found.after):
            for item in items:
                fact = decode(item.data) if b'"user_spoke"' in item.data[:24] else None
                if isinstance(fact, UserSpoke) and fact.id == message:
                    origin = fact.origin
                    began = item.seq if origin.after is None else origin.after
                    at = fact.at if origin.created is None else origin.created
                    return replace(found, origin=origin, created=at, after=began, message=message)
        return None

    async def started(self, run: RunId) -> RunStarted:
        """How a run began. Raises RunUnknown."""
        first = await self._journal.read(run, 0, 1)
        fact = decode(first[0].data) if first else None
        if not isinstance(fact, RunStarted):
            raise RunUnknown.named(run)
        return fact

    def new_id(self) -> RunId:
        return self._runs.new_id()

    async def head(self, run: RunId) -> int:
        """How many items are stored of it: none, while it waits for its turn."""
        return await self._journal.head(run)

    async def page(
        self, wanted: StreamQuery, owner: Owner, place: tuple[float, str] | None = None, limit: int = 50
    ) -> tuple[list[StreamRow], ListedRuns]:
        """A page of runs, the last touched first: as the index has them, and as they are shown."""
        rows = await self._journal.streams(replace(wanted, kind=RUN, user=of(owner)), place, limit)
        return rows, await self._lines(rows, owner)

    async def search(
        self, wanted: StreamQuery, fits: RunFilter, owner: Owner, after: str = "", limit: int = 50
    ) -> tuple[ListedRuns, str]:
        """A page of the runs that fit, and where it ended. It may hold fewer than were asked for, even none,
        and still lead on. Raises InvalidValue."""

        async def route_of(row: StreamRow) -> str:
            return (await self.spending.sums_of(row)).route

        wanted = replace(wanted, kind=RUN, user=of(owner))
        found = await find_runs(self._journal, wanted, fits, route_of, after, limit)
        return await self._lines(found.rows, owner), found.next

    async def _lines(self, rows: Sequence[StreamRow], owner: Owner) -> ListedRuns:
        sums = {row.name: await self.spending.sums_of(row) for row in rows}
        elsewhere, missing = await self._standing(rows)
        lines = [self._line_of(row, owner, sums[row.name], elsewhere.get(row.name)) for row in rows]
        return ListedRuns(lines, missing)

    def _line_of(self, row: StreamRow, owner: Owner, sums: RunSums, standing: _Standing | None) -> RunLine:
        if self._goes_on_elsewhere(row):
            told = standing or _Standing(sums=sums)
            line = line_of(row, owner, None, told.sums.spent, told.sums.route or sums.route)
            return replace(line, status=told.status)
        return line_of(row, owner, self._runs.live(RunId(row.name)), sums.spent, sums.route)

    async def _standing(self, rows: Sequence[StreamRow]) -> tuple[dict[str, _Standing], Sequence[str]]:
        """Of those that other nodes drive: how they stand, and which nodes did not say."""
        names = [RunId(row.name) for row in rows if self._goes_on_elsewhere(row)]
        if self.desk is None or not names:
            return {}, ()
        told = await self.desk.from_all(self, RunReading._standing_here, names)
        found = {name: standing for each in told.given for name, standing in each.items()}
        return found, told.missing if len(found) < len(names) else ()

    async def _standing_here(self, runs: list[RunId]) -> dict[str, _Standing]:
        found: dict[str, _Standing] = {}
        for run in runs:
            if (one := self._runs.live(run)) is not None:
                tally = one.turn.tally
                sums = RunSums(tally.spent, tally.routes)
                found[run] = _Standing("waiting_for_approval" if open_in(one.turn) else "running", sums)
        return found

    # Reading

    async def stored(self, run: RunId, after: int = 0) -> AsyncIterator[Sequence[Item]]:
        """All that is stored of a run behind a number, page by page."""
        async for items in read_all(self._journal, run, after):
            yield items
            await asyncio.sleep(0)  # a long run must not hold up those who read live

    async def is_end(self, run: RunId, number: int) -> bool:
        """Whether this item is the run's end. That a run has ended may be seen a moment before its end can be
        read."""
        items = await self._journal.read(run, number - 1, 1)
        return bool(items) and isinstance(decode(items[0].data), RunEnded)

    async def facts(self, run: RunId) -> AsyncIterator[tuple[int, Fact]]:
        """The same as what happened, each with its number."""
        async for items in self.stored(run):
            for item in items:
                yield item.seq, decode(item.data)

    async def said(self, run: RunId, session: SessionId) -> tuple[Message, ...]:
        """All that was said up to the end of a run."""
        return (await self._runs.conversations.until(run, session)).messages

    async def fold(self, run: RunId) -> RunFold:
        """All that is stored of a run, folded."""
        fold = RunFold(self._runs.policy)
        async for seq, fact in self.facts(run):
            fold.take(seq, fact)
        return fold

    async def line(self, begun: RunHandle, owner: Owner) -> RunLine:
        """A run in a list, also one that waits for its turn."""
        try:
            row = await self.row(begun.run, owner)
        except RunUnknown:
            session = public_session(owner, begun.session)
            return RunLine(begun.run, session, "queued", "", begun.created, begun.created)
        return (await self._lines([row], owner)).lines[0]

    async def brief(self, run: str, owner: Owner) -> RunLine:
        """A run as a list shows it, without reading it: for whoever follows it anyway. Raises RunUnknown."""
        begun = await self.find(run, owner)
        return replace(await self.line(begun, owner), last_event=await self.head(begun.run))

    async def view(self, run: str, owner: Owner) -> RunView:
        """A run as it stands. Raises RunUnknown."""
        begun = await self.find(run, owner)
        if not await self.head(begun.run):
            session = public_session(owner, begun.session)
            return queued_view(begun.run, session, begun.created, begun.awaited)
        row, fold = await self.row(run, owner), await self.fold(begun.run)
        live = self._runs.live(begun.run) is not None or self._goes_on_elsewhere(row)
        undone = await undone_in(self._journal, begun.run) if fold.touched else ()
        view = fold.view(row, owner, live=live, now=self._stores.environment.wall(), undone=undone)
        stranded = await self.stranded(begun.run)
        return view if stranded is None else replace(view, status="interrupted", waiting_on=stranded)

    async def stranded(self, run: RunId) -> WaitingOn | None:
        """What a run waits for that no node may work on which lives."""
        if self._stores.pins is None or self._runs.live(run) is not None:
            return None
        rows = await self._journal.streams(StreamQuery(kind=RUN, name=run, status=RUNNING), limit=1)
        return await self._stores.pins.waiting(rows[0].parent, rows[0].updated) if rows else None

    async def follow(self, run: RunId, after: int = 0) -> AsyncGenerator[list[Item]]:
        """Everything behind a number, then what comes, until the run has its end. Raises RunUnfinished where
        it has none and nobody drives it."""
        while True:
            if items := await self._journal.read(run, after):
                after = items[-1].seq
                yield items
                continue
            if await self._is_over(run):
                if await self._journal.head(run) <= after:
                    return
                continue
            cared_for = await self._is_cared_for(run)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE if cared_for else 0):
                    await self._journal.wait(run, after)
                continue
            if not await self._is_cared_for(run) and not await self._is_over(run):
                raise RunUnfinished(f"the run {run} is not finished, and no process drives it")

    async def _is_cared_for(self, run: RunId) -> bool:
        """Whether it is driven, or its session is at work and will drive it again in a moment."""
        if self.is_driven(run) or await self.stranded(run) is not None:
            return True
        rows = await self._journal.streams(StreamQuery(name=run), limit=1)
        return (
            not rows
            or self._manager.of(SessionId(rows[0].parent)) is not None
            or self._goes_on_elsewhere(rows[0])
        )

    async def _is_over(self, run: RunId) -> bool:
        if (live := self._runs.live(run)) is not None:
            return live.turn.outcome is not None
        rows = await self._journal.streams(StreamQuery(name=run), limit=1)
        return bool(rows) and rows[0].status not in ("", RUNNING)

    async def approval(self, run: RunId, approval: str) -> ApprovalView:
        """What was asked, and what became of it. Raises ApprovalUnknown."""
        for view in (await self.fold(run)).approvals:
            if view.id == approval:
                return view
        raise ApprovalUnknown.named(approval)
