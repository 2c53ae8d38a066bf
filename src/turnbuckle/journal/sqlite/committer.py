"""Group commit: many small works become one transaction, and only what must reach the disk waits for the
disk.

There is one writing connection and two places that may use it: the event loop's own thread and one thread
beside it, never both at once. Whoever has it is said to have the turn.

- A commit that need not be synced is a write to memory of the operating system and takes a few microseconds,
  less than handing it to a thread. So a `FLUSHED` work that finds the turn free is committed at once, where
  it stands. If more of them come in the same pass of the loop they are gathered and committed together when
  the pass ends. Where such commits have become slow, a disk that must write before it takes more, they go to
  the thread until they are quick again.
- A `SYNCED` work waits for the disk, so its commit goes to the thread. Everything that comes meanwhile waits
  in a line and is the next batch: the slower the disk, the larger the batches. What a small batch consists of
  is made on the loop before that: behind each statement the thread would wait for the interpreter, and the
  loop for the thread.
- Checkpoints sync twice, so they too happen in the thread.

Whoever brings a work waits until it is stored, so a writer that outruns the disk is slowed, and the line is
never longer than what those who wait hold in their hands. If a batch fails, all its works fail, and so do
those in the line that build on them.
"""

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter

from msgspec import UNSET

from turnbuckle.journal.live import Live
from turnbuckle.journal.port import Closed, Grade, IndexUpdate, StorageError, StorageFull
from turnbuckle.journal.sqlite.database import SqlConnection, translated
from turnbuckle.journal.sqlite.rows import INSERT_ITEM, INSERT_ITEMS, ItemRow, Statement

BATCH_ROWS = 2000
BATCH_BYTES = 4 << 20
BATCH_LONE = 64  # lone items that are taken without counting; each is small
INLINE_BYTES = 128 << 10  # more than this would hold up the loop
IN_THREAD = INLINE_BYTES + 1  # the size of a work that is small but slow
CHECKPOINT_PAGES = 4000
GATHERING = 4  # passes of the loop, at most, in which works that must be synced are gathered
SLOW = 0.02  # seconds of a commit that is not synced, as a running mean: it would hold up the loop
_NEWEST = 0.1  # what the newest one counts in that mean
_PAGE = 4096

log = logging.getLogger("turnbuckle.journal")


def _nothing(*_: object) -> None:
    """Nobody wants to know."""


class PendingWrite:
    """Something to be stored as a whole, of one stream or of several. `settle` is told, on the loop, whether
    it was."""

    __slots__ = ("alone", "done", "grade", "lives", "rows", "settle", "size", "statements")

    def __init__(
        self,
        lives: tuple[Live, ...],
        grade: Grade,
        rows: list[ItemRow],
        statements: list[Statement],
        settle: Callable[[StorageError | None], None],
    ) -> None:
        self.lives = lives
        self.grade = grade
        self.rows = rows
        self.statements = statements
        self.settle = settle
        self.size = 64 * (len(rows) + len(statements))
        for row in rows:
            self.size += len(row[3])
        self.done: asyncio.Future[None] | None = None
        self.alone = False
        """In a batch of its own: if it fails, nobody else does."""


class LoneItem:
    """The same for one item that nobody waits for. A streaming model makes one of nearly every read, so it is
    as small as can be."""

    __slots__ = ("live", "row", "size")

    grade = Grade.FLUSHED
    statements: Sequence[Statement] = ()
    done: asyncio.Future[None] | None = None
    alone = False

    def __init__(self, live: Live, row: ItemRow) -> None:
        self.live = live
        self.row = row
        self.size = 64 + len(row[3])

    @property
    def lives(self) -> tuple[Live, ...]:
        return (self.live,)

    @property
    def rows(self) -> list[ItemRow]:
        return [self.row]

    def settle(self, error: StorageError | None) -> None:
        """It is stored, or not. Nobody waits for it, so nothing follows unless its own kind says what."""


Work = PendingWrite | LoneItem


class Committer:
    """Owns the writing connection. `commit` returns when the work is stored, or raises why it is not."""

    def __init__(
        self,
        connection: SqlConnection,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        *,
        check: Callable[[], None] = _nothing,
        told: Callable[[StorageError | None], None] = _nothing,
        stopwatch: Callable[[], float] = perf_counter,
    ) -> None:
        """`check` raises what speaks against the file before anything is written to it. `told` hears of
        every batch that somebody's stream is in, on the loop. `stopwatch` says how long commits take."""
        self._stopwatch = stopwatch
        self._check = check
        self._told = told
        self._connection = connection
        self._checkpoint_pages = checkpoint_pages
        self._level: Grade | None = None
        self._line: deque[Work] = deque()
        self._lone = 0  # how many in the line are lone items
        self._gathered = 0  # how many were to be synced when they were counted last
        self._passes = 0  # of the loop, in which they are gathered
        self._turn_taken = False
        self._flush_due = False
        self._pages = 0
        self._seconds = 0.0  # of a commit that need not be synced, as a running mean
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._idle: asyncio.Future[None] | None = None
        self._closed = False
        self.checkpoint_error: StorageError | None = None

    async def commit(self, work: PendingWrite) -> None:
        if self._closed:
            raise Closed("the journal is closed")
        if self._free_for(work):
            self._flush_soon()  # what follows in this pass of the loop is gathered
            error = self._store([work], Grade.FLUSHED)
            self._settle([work], error)
            if error is not None:
                raise error
            return
        work.done = asyncio.get_running_loop().create_future()
        self.add(work)
        await work.done

    def add(self, work: Work) -> None:
        """The same without a wait. It is stored with what else comes in this pass of the loop."""
        self._line.append(work)
        if isinstance(work, LoneItem):
            self._lone += 1
        if not (self._turn_taken or self._flush_due):
            self._flush_soon()

    async def settled(self) -> None:
        """Wait for what was added before."""
        if self._line or self._turn_taken:
            await self.commit(PendingWrite((), Grade.FLUSHED, [], [], _nothing))

    async def close(self) -> None:
        """Finish the line, fold the log into the file, and give the connection up."""
        if self._closed:
            return
        self._closed = True
        await self._drain()
        self._hand_over(lambda: self._checkpoint("TRUNCATE"), [])
        await self._drain()
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        self._connection.close()

    async def _drain(self) -> None:
        while self._line or self._turn_taken:
            self._idle = asyncio.get_running_loop().create_future()
            self._flush()
            await self._idle

    # The turn

    def _free_for(self, work: PendingWrite) -> bool:
        return (
            work.grade is Grade.FLUSHED
            and work.size <= INLINE_BYTES
            and self._seconds <= SLOW
            and not (self._turn_taken or self._flush_due or self._line)
        )

    def _flush(self) -> None:
        """Commit what is in the line, here or in the thread."""
        self._flush_due = False
        if self._turn_taken:
            return
        if self._pages >= self._checkpoint_pages:
            self._pages = 0
            self._hand_over(lambda: self._checkpoint("PASSIVE"), [])
            return
        batch = self._take_quick() if self._gathers() else self._take_batch()
        if not batch:
            if self._line:
                self._flush_soon()
            else:
                self._tell_idle()
            return
        grade = Grade.SYNCED if any(work.grade is Grade.SYNCED for work in batch) else Grade.FLUSHED
        may_be_slow = self._seconds > SLOW or sum([work.size for work in batch]) > INLINE_BYTES
        if grade is Grade.FLUSHED and not may_be_slow:
            self._settle_here(batch, self._store(batch, grade))
        else:
            self._store_beside(batch, grade, may_be_slow=may_be_slow)

    def _store_beside(self, batch: list[Work], grade: Grade, *, may_be_slow: bool) -> None:
        """Commit in the thread, and all else too if that may be slow or is a single statement."""
        if may_be_slow or _lone_statement(batch) is not None:
            self._hand_over(lambda: self._store(batch, grade), batch)
            return
        began = self._stopwatch()
        error = self._make(batch, grade)
        if (took := self._stopwatch() - began) > SLOW:
            self._note(took)
        if error is not None:
            self._settle_here(batch, error)
        else:
            self._hand_over(lambda: self._finish(batch), batch)

    def _settle_here(self, batch: list[Work], error: StorageError | None) -> None:
        self._settle(batch, error)
        if self._line:
            self._flush_soon()
        else:
            self._tell_idle()

    def _gathers(self) -> bool:
        """Whether to wait for another pass of the loop before the disk is waited for: while more and more
        want that, one wait for all of them costs the least, and takes none of them longer."""
        wanted = sum([work.grade is Grade.SYNCED for work in self._line]) if self._line else 0
        if wanted > self._gathered and self._passes < GATHERING:
            self._gathered = wanted
            self._passes += 1
            return True
        self._gathered = self._passes = 0
        return False

    def _take_quick(self) -> list[Work]:
        """What need not wait for the disk, and belongs to nothing that does."""
        if self._seconds > SLOW or self._gathered == len(self._line):  # or all of it waits for the disk
            return []
        batch: list[Work] = []
        staying: deque[Work] = deque()
        behind = {id(live) for work in self._line if work.grade is Grade.SYNCED for live in work.lives}
        size = 0
        for work in self._line:
            mine = {id(live) for live in work.lives}
            if work.grade is Grade.FLUSHED and size + work.size <= INLINE_BYTES and behind.isdisjoint(mine):
                size += work.size
                self._lone -= isinstance(work, LoneItem)
                batch.append(work)
            else:
                behind |= mine
                staying.append(work)
        self._line = staying
        return batch

    def _take_batch(self) -> list[Work]:
        if self._lone == len(self._line) <= BATCH_LONE:
            batch = list(self._line)
            self._line.clear()
            self._lone = 0
            return batch
        batch = []
        rows = size = 0
        while self._line and rows < BATCH_ROWS and size < BATCH_BYTES:
            if batch and (batch[-1].alone or self._line[0].alone):
                break
            work = self._line.popleft()
            self._lone -= isinstance(work, LoneItem)
            rows += len(work.rows)
            size += work.size
            batch.append(work)
        return batch

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _tell_idle(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _hand_over(self, job: Callable[[], StorageError | None], batch: list[Work]) -> None:
        loop = asyncio.get_running_loop()
        self._turn_taken = True

        def perform() -> None:
            error = job()
            loop.call_soon_threadsafe(self._take_back, batch, error)

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
            self._thread.start()
        self._jobs.put(perform)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _take_back(self, batch: list[Work], error: StorageError | None) -> None:
        self._turn_taken = False
        self._settle(batch, error)
        self._flush()

    # The connection: only for whoever has the turn

    def _store(self, batch: Sequence[Work], grade: Grade) -> StorageError | None:
        began = self._stopwatch()
        error = self._write(batch, grade)
        if grade is Grade.FLUSHED:  # also if it failed: that may take as long
            self._note(self._stopwatch() - began)
        return error

    def _note(self, took: float) -> None:
        self._seconds += (took - self._seconds) * _NEWEST

    def _write(self, batch: Sequence[Work], grade: Grade) -> StorageError | None:
        lone = _lone_statement(batch)
        if lone is None:
            return self._make(batch, grade) or self._finish(batch)
        try:
            self._prepare(grade)
            self._connection.execute(*lone)
        except Exception as error:
            return _told_as(error)
        self._count(batch)
        return None

    def _prepare(self, grade: Grade) -> None:
        connection = self._connection
        if connection.in_transaction:  # the rollback of an earlier batch failed
            connection.execute("ROLLBACK")
        self._check()
        if grade is not self._level:
            connection.execute(
                "PRAGMA synchronous=FULL" if grade is Grade.SYNCED else "PRAGMA synchronous=NORMAL"
            )
            self._level = grade

    def _make(self, batch: Sequence[Work], grade: Grade) -> StorageError | None:
        """All of a transaction but its end."""
        try:
            self._prepare(grade)
            self._connection.execute("BEGIN IMMEDIATE")
            _execute(self._connection, batch)
        except Exception as error:
            return self._rolled_back(error)
        return None

    def _finish(self, batch: Sequence[Work]) -> StorageError | None:
        try:
            self._connection.execute("COMMIT")
        except Exception as error:
            return self._rolled_back(error)
        self._count(batch)
        return None

    def _rolled_back(self, error: Exception) -> StorageError:
        try:
            if self._connection.in_transaction:  # some errors have already rolled back
                self._connection.execute("ROLLBACK")
        except Exception as another:
            return _told_as(another)
        return _told_as(error)

    def _count(self, batch: Sequence[Work]) -> None:
        self._pages += 2
        for work in batch:
            self._pages += 2 + work.size // _PAGE

    def _checkpoint(self, mode: str) -> StorageError | None:
        """Fold the log into the file. If that fails the log just stays longer; the next one tries again. Of
        several failures in a row the first is told."""
        try:
            self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except Exception as error:
            if self.checkpoint_error is None:
                log.warning("the journal's log grows, since it cannot be folded into its file: %s", error)
            self.checkpoint_error = translated(error)
        else:
            self.checkpoint_error = None
        return None

    def _settle(self, batch: Sequence[Work], error: StorageError | None) -> None:
        for work in batch:
            if work.lives:
                self._told(error)
                break
        if isinstance(error, StorageFull):
            self._pages = self._checkpoint_pages  # a log that was folded into the file needs no more room
        failed = [*batch, *self._followers(batch)] if error is not None else batch
        for work in failed:
            try:
                work.settle(error)
            except Exception as mistake:  # one that cannot hear of it must not make all others wait
                log.exception("what was stored could not be told to whoever stored it: %r", mistake)
            done = work.done
            if done is not None and not done.done():
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)

    def _followers(self, batch: Sequence[Work]) -> list[Work]:
        """Works in the line that were accepted on the promise that this batch is stored, and what builds on
        them."""
        lost = {id(live) for work in batch for live in work.lives}
        following: list[Work] = []
        staying: deque[Work] = deque()
        for work in self._line:
            mine = {id(live) for live in work.lives}
            if lost.isdisjoint(mine):
                staying.append(work)
            else:
                lost |= mine
                following.append(work)
                self._lone -= isinstance(work, LoneItem)
        self._line = staying
        return following


def _lone_statement(batch: Sequence[Work]) -> tuple[str, Sequence[object]] | None:
    """What stores a batch for which one statement is enough, which is a transaction by itself. Else None."""
    if len(batch) == 1:
        rows, statements = batch[0].rows, batch[0].statements
        if len(rows) + len(statements) != 1:
            return None
        return (INSERT_ITEM, rows[0]) if rows else statements[0]
    lone = [work.row for work in batch if isinstance(work, LoneItem)]
    if not lone or len(lone) != len(batch) or len(lone) > len(INSERT_ITEMS):
        return None
    return INSERT_ITEMS[len(lone) - 1], [value for row in lone for value in row]


def _told_as(error: Exception) -> StorageError:
    """Whatever it is, those who wait must hear of it."""
    return error if isinstance(error, StorageError) else translated(error)


def weight(note: IndexUpdate | None, *, is_new: bool = False) -> int:
    """Words that go have to be taken out of the index, which at times takes long: never on the loop. Of a
    stream that is new none go. Those that come are brought into the index later (`catch_up`)."""
    if note is None:
        return 0
    if note.forgotten or not (note.title is UNSET or is_new):
        return IN_THREAD
    return 0 if note.words is UNSET else min(len(note.words), IN_THREAD)


def _execute(connection: SqlConnection, batch: Sequence[Work]) -> None:
    rows = batch[0].rows if len(batch) == 1 else [row for work in batch for row in work.rows]
    if rows:
        connection.executemany(INSERT_ITEM, rows)
    for work in batch:
        for sql, values in work.statements:
            connection.execute(sql, values)
