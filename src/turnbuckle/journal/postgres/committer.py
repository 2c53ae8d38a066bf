"""Two lanes to the database: what must be sure, and what need not be.

- The relaxed lane has a connection whose commits do not wait for the disk. It takes everything that is only
  `FLUSHED`: whatever piled up during the last commit is the next batch. Words that come one by one, and that
  nobody waits for, are stored at once if they are rare; if not, those of two milliseconds share a commit,
  which costs little more for ten of them than for one. The lane also carries the hints for those who wait on
  other nodes, since a commit with a notification holds a lock that all such commits of the database share,
  and must not hold it while a disk is waited for.
- The sure lane waits for the disk. A `SYNCED` work takes along what its stream has in the line before it.

The order of a stream is kept: of one stream nothing is under way in both lanes at once, and nothing
overtakes what stands before it in the line. The log of the database is one, so a sure commit makes all
earlier ones sure.

Whoever brings a work waits until it is stored. If a batch fails, all its works fail, and so do those in the
line that build on them. A work that a newer claim forbids fails alone.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from turnbuckle.journal.port import Closed, Conflict, Fenced, Grade, JournalError, StorageError, StorageFailed
from turnbuckle.journal.postgres import rows
from turnbuckle.journal.postgres.hints import Hint, hint_of_one, hint_texts, joined
from turnbuckle.journal.postgres.links import Connection, DatabaseLink, again
from turnbuckle.journal.postgres.notifier import Notifier
from turnbuckle.journal.words import kept

GATHER_SECONDS = 0.002
"""For how long words that nobody waits for are gathered, counted from the last commit."""
BATCH_ROWS = 2000
BATCH_BYTES = 4 << 20
_HINT_PAUSE = 0.25  # seconds before hints are sent again that could not be sent

log = logging.getLogger("turnbuckle.journal")

Act = Callable[[Connection], Awaitable[Any]]
Settle = Callable[[Exception | None, Any], None]


class PendingWork:
    """Something to be stored as a whole. `act` is done in the same transaction, and what it gives is the
    result. `settle` is told, on the loop, what came of it, before anybody who waits; one that is not
    `awaited` has nobody else. What is `alone` has a transaction to itself, and may raise an error of the
    journal there."""

    __slots__ = ("act", "alone", "done", "fences", "grade", "hints", "items", "settle", "size", "streams")

    can_wait = False
    """Whether it may be stored a little later, together with others."""

    def __init__(
        self,
        streams: Iterable[str],
        grade: Grade,
        settle: Settle,
        *,
        fences: rows.Fences | None = None,
        items: Sequence[rows.ItemRow] = (),
        act: Act | None = None,
        alone: bool = False,
    ) -> None:
        self.streams = frozenset(streams)
        self.grade = grade
        self.settle = settle
        self.fences = fences or {}
        self.items = items
        self.act = act
        self.alone = alone
        self.hints: dict[str, Hint] = {}
        self.size = sum(len(item[2]) for item in items)
        self.done: asyncio.Future[Any] | None = asyncio.get_running_loop().create_future()


class PendingWord(PendingWork):
    """One item that nobody waits for: only `settle` is told. Most works are such, so it is made quickly."""

    __slots__ = ()
    can_wait = True

    def __init__(self, stream: str, row: rows.ItemRow, epoch: int, after: int, settle: Settle) -> None:
        self.streams = frozenset((stream,))
        self.grade = Grade.FLUSHED
        self.settle = settle
        self.fences = {row[0]: (epoch, after)}
        self.items = (row,)
        self.act = None
        self.alone = False
        self.hints = {stream: hint_of_one(after, row)}
        self.size = len(row[2])
        self.done = None


class _Lane:
    def __init__(self, link: DatabaseLink, *, sure: bool) -> None:
        self.link = link
        self.sure = sure
        self.streams: frozenset[str] = frozenset()
        self.kick = asyncio.Event()
        self.is_busy = False
        self.begun = -math.inf
        """When the last commit began, by the clock of the loop."""
        self.task: asyncio.Task[None] | None = None


class LaneCommitter:
    """Takes works and stores them. `told` hears of every batch whether it was stored."""

    def __init__(
        self,
        relaxed: DatabaseLink,
        sure: DatabaseLink,
        channel: str,
        told: Callable[[StorageError | None], None],
        node: int,
    ) -> None:
        self._line: deque[PendingWork] = deque()
        self._lanes = (_Lane(relaxed, sure=False), _Lane(sure, sure=True))
        self._notifier = Notifier(channel)
        self._told = told
        self._node = node
        self._hints: dict[str, Hint] = {}
        self._closed = False
        self._idle = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._gathering: asyncio.TimerHandle | None = None
        for lane in self._lanes:
            lane.task = asyncio.ensure_future(self._work(lane))

    def enqueue(self, work: PendingWork, *, follows: bool = False) -> asyncio.Future[Any]:
        """Gives the result of the work's act, or what speaks against it. One that `follows` from a work of
        the line is taken while the line is finished, too."""
        assert work.done is not None
        if any(name != kept(name) for name in work.streams):  # it would fail, and everybody's work with it
            raise ValueError("the name of a stream has signs that a database does not take")
        self.post(work, follows=follows)
        return work.done

    def post(self, work: PendingWork, *, follows: bool = False) -> None:
        """The same for a work of streams that are held here, and that nobody waits for: only its `settle` is
        told."""
        if self._closed and not follows:
            raise Closed("the journal is closed")
        self._line.append(work)
        relaxed, sure = self._lanes
        if work.grade is Grade.SYNCED:
            sure.kick.set()
        elif not work.can_wait or relaxed.is_busy or not self._is_gathering():
            relaxed.kick.set()

    def _is_gathering(self) -> bool:
        """Whether words in the line wait for more to come. The next that comes late enough ends it, since a
        process that must be woken by a clock spends more on that than on a word; at the latest a clock."""
        if self._lanes[0].begun + GATHER_SECONDS > self._loop.time():
            if self._gathering is None:
                self._gathering = self._loop.call_later(GATHER_SECONDS, self._gathered)
            return True
        self._end_gathering()
        return False

    def _gathered(self) -> None:
        self._end_gathering()
        self._lanes[0].begun = -math.inf
        self._lanes[0].kick.set()

    def _end_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def _hint(self, hints: dict[str, Hint]) -> None:
        """Tell the other nodes with the next batch what is stored by now."""
        for stream, hint in hints.items():
            self._hints[stream] = joined(self._hints.get(stream), hint)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be stored."""
        return not self._line and not any(lane.is_busy for lane in self._lanes)

    async def close(self) -> None:
        """Finish what is in the line."""
        self._closed = True
        while not self.is_idle:
            self._idle.clear()
            await self._idle.wait()
        for lane in self._lanes:
            if lane.task is not None:
                lane.task.cancel()
                await asyncio.wait([lane.task])

    def abort(self) -> None:
        """Leave everything as it is, as a process does that dies."""
        self._closed = True
        for lane in self._lanes:
            if lane.task is not None:
                lane.task.cancel()
            lane.link.drop()

    async def _work(self, lane: _Lane) -> None:
        while True:
            await lane.kick.wait()
            lane.kick.clear()
            while batch := self._next_batch(lane):
                await self._store_batch(lane, batch)
            if self._hints and not lane.sure and self._gathering is None:
                lane.is_busy = True
                await self._send_hints(lane)
                lane.is_busy = False
            self._idle.set()

    async def _store_batch(self, lane: _Lane, batch: list[PendingWork]) -> None:
        lane.is_busy, lane.begun = True, self._loop.time()
        if not lane.sure:
            self._end_gathering()
        lane.streams = frozenset().union(*(work.streams for work in batch))
        results: list[Any] = []
        error: Exception | None = None
        try:
            results = await again(lambda: self._store(lane, batch))
        except (JournalError, ValueError) as failure:
            error = failure
        except Exception as failure:  # whatever it is, those who wait must hear of it
            error = StorageFailed(f"the journal's own mistake: {failure!r}")
            error.__cause__ = failure
        finally:
            lane.is_busy, lane.streams = False, frozenset()
        self._settle(batch, results, error)
        relaxed, sure = self._lanes
        if self._line:  # what had to wait for this batch may be for either
            relaxed.kick.set()
            sure.kick.set()
        elif self._hints:
            relaxed.kick.set()

    async def _store(self, lane: _Lane, batch: list[PendingWork]) -> list[Any]:
        """The result of each work, or the error that it alone has."""
        if all(work.act is None for work in batch):
            if not lane.sure:
                return await self._notifier.perform(lambda channel: self._append_all(lane, batch, channel))
            return await self._append_all(lane, batch)
        async with lane.link.use() as connection, connection.transaction():
            if not batch[0].alone:
                names = sorted(frozenset().union(*(work.streams for work in batch)))
                await connection.execute(
                    rows.LOCK, names
                )  # in one order everywhere, so nobody waits in a circle
            return [await self._perform(connection, work) for work in batch]

    async def _append_all(self, lane: _Lane, batch: list[PendingWork], channel: str = "") -> list[Any]:
        fences, items = _gathered(batch)
        async with lane.link.use() as connection:
            if channel:
                good = await self._store_with_hints(connection, batch, fences, items, channel)
            else:
                good = await rows.store(connection, self._node, fences, items)
                self._forget_hints(lane, batch)
            return [
                None if work.fences.keys() <= good else await self._verdict(connection, work, good)
                for work in batch
            ]

    def _forget_hints(self, lane: _Lane, batch: list[PendingWork]) -> None:
        """Nobody can be notified now, and to keep hints for later would take ever more room."""
        if not lane.sure:
            self._hints = {}
            for work in batch:
                work.hints = {}

    async def _store_with_hints(
        self,
        connection: Connection,
        batch: list[PendingWork],
        fences: rows.Fences,
        items: list[rows.ItemRow],
        channel: str,
    ) -> set[int]:
        earlier, self._hints = self._hints, {}
        hints = dict(earlier)
        for work in batch:
            for stream, hint in work.hints.items():
                hints[stream] = joined(hints.get(stream), hint)
        try:
            good = await rows.store(connection, self._node, fences, items, channel, hint_texts(hints))
        except BaseException:
            self._keep_hints(earlier)
            raise
        if len(good) < len(fences):  # nobody was told of the others either
            self._keep_hints(earlier)
        else:
            for work in batch:
                work.hints = {}
        return good

    def _keep_hints(self, hints: dict[str, Hint]) -> None:
        """They could not be sent, and go before those that came since."""
        later, self._hints = self._hints, hints
        self._hint(later)

    async def _perform(self, connection: Connection, work: PendingWork) -> Any:
        good = set[int]()
        if work.fences:
            good = await rows.store(connection, self._node, work.fences, work.items)
        verdict = await self._verdict(connection, work, good)
        if verdict is not None:
            if work.alone:
                raise verdict
            return verdict
        return None if work.act is None else await work.act(connection)

    async def _verdict(
        self, connection: Connection, work: PendingWork, good: set[int]
    ) -> Fenced | Conflict | None:
        """What speaks against a work: a newer claim, one of another node, or another end."""
        for key, (epoch, after) in work.fences.items():
            if key not in good:
                name, newest, node, head = await connection.fetchrow(rows.WHERE_IT_STANDS, key)
                name = name or next(iter(work.streams), "")
                is_mine = newest == epoch and node == self._node
                return Conflict(name, after, head) if is_mine else Fenced(name, epoch, newest)
        return None

    def _next_batch(self, lane: _Lane) -> list[PendingWork]:
        """What this lane can store now, out of the line."""
        other = self._lanes[0] if lane.sure else self._lanes[1]
        if all(work.can_wait for work in self._line):  # as nearly always
            if lane.sure or not self._line or self._is_gathering():
                return []
            if not other.streams and self._is_one_batch():
                batch, self._line = list(self._line), deque()
                return batch
        sure = frozenset[str]().union(*(work.streams for work in self._line if work.grade is Grade.SYNCED))
        blocked = set(other.streams)
        batch = []
        staying: deque[PendingWork] = deque()
        count, size = 0, 0
        for work in self._line:
            is_mine = lane.sure is not sure.isdisjoint(work.streams)
            is_full = bool(batch) and (
                count >= BATCH_ROWS or size + work.size > BATCH_BYTES or work.alone or batch[0].alone
            )
            if is_full or not is_mine or not blocked.isdisjoint(work.streams):
                blocked |= work.streams
                staying.append(work)
                continue
            batch.append(work)
            count += max(len(work.items), 1)
            size += work.size
        self._line = staying
        return batch

    def _is_one_batch(self) -> bool:
        size = 0
        for work in self._line:
            size += work.size
        return len(self._line) <= BATCH_ROWS and size <= BATCH_BYTES

    def _settle(self, batch: list[PendingWork], results: list[Any], error: Exception | None) -> None:
        self._told(error if isinstance(error, StorageError) else None)
        failed = [*batch, *self._followers(batch)] if error is not None else batch
        for at, work in enumerate(failed):
            result, fault = None, error
            if error is None and (result := results[at]) is not None and isinstance(result, JournalError):
                fault = result
            try:
                work.settle(fault, result)
            except Exception as failure:  # one that cannot hear of it must not make all others wait
                log.exception("what was stored could not be told to whoever stored it: %r", failure)
            if fault is None and work.hints:
                self._hint(work.hints)
            if work.done is None or work.done.done():
                continue
            if fault is None:
                work.done.set_result(result)
            else:
                work.done.set_exception(fault)

    def _followers(self, batch: list[PendingWork]) -> list[PendingWork]:
        """Works in the line that were accepted on the promise that this batch is stored, and what builds on
        them."""
        lost = set[str]().union(*(work.streams for work in batch))
        following: list[PendingWork] = []
        staying: deque[PendingWork] = deque()
        for work in self._line:
            if lost.isdisjoint(work.streams):
                staying.append(work)
            else:
                lost |= work.streams
                following.append(work)
        self._line = staying
        return following

    async def _send_hints(self, lane: _Lane) -> None:
        taken, self._hints = self._hints, {}

        async def notify(channel: str) -> None:
            if channel:
                async with lane.link.use() as connection:
                    sql = "SELECT pg_notify($1, hint) FROM unnest($2::text[]) AS h(hint)"
                    await connection.execute(sql, channel, hint_texts(taken))

        try:
            await self._notifier.perform(notify)
        except StorageError as error:
            self._told(error)
            self._keep_hints(taken)
            self._loop.call_later(_HINT_PAUSE, lane.kick.set)
        except Exception as mistake:  # whoever waits looks by itself, and the lane must go on
            log.exception("other nodes could not be told what was stored: %r", mistake)


def _gathered(batch: list[PendingWork]) -> tuple[rows.Fences, list[rows.ItemRow]]:
    """Of several works of one stream the first says where it ends."""
    fences: rows.Fences = {}
    items: list[rows.ItemRow] = []
    for work in batch:
        for key, fence in work.fences.items():
            fences.setdefault(key, fence)
        items.extend(work.items)
    return fences, items


def nothing(*_: object) -> None:
    """For a work after which nothing is known that would change."""


def heard_of(done: asyncio.Future[Any]) -> None:
    """For a work whose end nobody waits for."""
    if not done.cancelled():
        done.exception()
