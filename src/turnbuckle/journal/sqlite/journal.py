"""The writing body: one process, one file, one connection that writes (`committer`) and one that reads.

The folder's lock says that no other process writes. So who may append and where each stream ends is known in
this process (`live`), claims need no clock that several machines agree on, and all claims of an earlier process are
dead. Only epochs and the names of holders are stored: the first so that no number is given twice, the second so
that the next process sees what was in flight.

Reads happen on the loop's thread: a page from the cache of the operating system takes less time than a hop to
another thread and back.
"""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from turnbuckle.journal.live import NO_EPOCH, Live, Waiters
from turnbuckle.journal.port import (
    EVERY_STREAM,
    MAX_ITEM,
    READ_LIMIT,
    Claim,
    Closed,
    Grade,
    Held,
    Item,
    JournalError,
    Note,
    StorageError,
    StreamRow,
    Wanted,
)
from turnbuckle.journal.sqlite import database, rows
from turnbuckle.journal.sqlite.committer import CHECKPOINT_PAGES, INLINE_BYTES, Committer, Work
from turnbuckle.journal.sqlite.database import Connect, open_to_read, open_to_write, storage_errors
from turnbuckle.journal.sqlite.folder import DATABASE, FolderLock

_SWEEP_ROWS = 2000
_SWEEP = f"DELETE FROM item WHERE stream = ?1 AND seq IN (SELECT seq FROM item WHERE stream = ?1 LIMIT {_SWEEP_ROWS})"


class SqliteJournal:
    """The journal in a folder. Raises `InUse` if another process has it; `close` gives it back."""

    def __init__(
        self,
        folder: Path,
        *,
        connect: Connect = database.connect,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        checkpoint_pages: int = CHECKPOINT_PAGES,
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._live: dict[str, Live] = {}
        self._waiters = Waiters()
        self._closed = False
        self._lock = FolderLock(folder)
        try:
            writing = open_to_write(folder / DATABASE, connect)
            try:
                with storage_errors():
                    _finish_drops(writing)
                    self._last_key = rows.highest_key(writing)
                self._reading = open_to_read(folder / DATABASE, connect)
            except JournalError:
                writing.close()
                raise
        except JournalError:
            self._lock.release()
            raise
        self._committer = Committer(writing, checkpoint_pages)

    # Reading

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        self._check_open()
        live = self._live.get(stream)
        with storage_errors(stream):
            if live is not None:
                return rows.read_items(self._reading, stream, live.key, after, limit) if live.head > after else []
            found = rows.find_stream(self._reading, stream)
            return [] if found is None else rows.read_items(self._reading, stream, found[0], after, limit)

    async def head(self, stream: str) -> int:
        self._check_open()
        live = self._live.get(stream)
        if live is not None:
            return live.head
        with storage_errors(stream):
            found = rows.find_stream(self._reading, stream)
            return 0 if found is None else rows.find_head(self._reading, found[0])

    async def wait(self, stream: str, after: int) -> None:
        while await self.head(stream) <= after:
            await self._waiters.wait(stream)

    async def streams(
        self, wanted: Wanted = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        self._check_open()
        found: list[StreamRow] = []
        while len(found) < limit:
            with storage_errors():
                page = rows.list_streams(self._reading, wanted, after, limit)
            found.extend(row for row in page if not wanted.orphaned or self._is_orphaned(row))
            if len(page) < limit:
                break
            after = page[-1].place
        return found[:limit]

    def _is_orphaned(self, row: StreamRow) -> bool:
        live = self._live.get(row.name)
        return live is None or live.held_by(self._monotonic()) is None

    # Writing

    async def append(
        self, stream: str, items: Sequence[bytes], *, after: int, epoch: int, grade: Grade, note: Note | None = None
    ) -> int:
        live = self._live.get(stream) or self._load(stream)
        refusal = live.refusal(after, epoch)
        if refusal is not None:
            raise refusal
        if max(map(len, items), default=0) > MAX_ITEM:
            raise ValueError(f"an item may have at most {MAX_ITEM} bytes")
        new = rows.item_rows(live.key, live.tail, epoch, items)
        statements = [] if note is None else [rows.set_note(live.key, note, self._wall())]
        await self._commit(live, grade, new, statements)
        return new[-1][1] if new else after

    async def claim(self, stream: str, owner: str, seconds: float) -> Claim | Held:
        self._check_open()
        live = self._live.get(stream) or self._load(stream)
        now = self._monotonic()
        if held := live.held_by(now):
            return held
        claim = live.take(owner, now + seconds)
        try:
            await self._commit_row(live, Grade.SURE, lambda key, wall: rows.set_claim(key, claim.epoch, owner, wall))
        except BaseException:  # a cancelled claim may be stored; it then looks like one whose holder died
            if live.is_newest(claim.epoch):
                live.let_go()
                self._forget_if_idle(live)
            raise
        return claim

    async def renew(self, claim: Claim, seconds: float) -> bool:
        self._check_open()
        live = self._live_of(claim)
        if live is None:
            return False
        live.until = self._monotonic() + seconds
        return True

    async def release(self, claim: Claim) -> None:
        self._check_open()
        live = self._live_of(claim)
        if live is not None:
            live.let_go()
            await self._commit(live, Grade.SEEN, [], [rows.set_released(live.key)])

    def still_mine(self, claim: Claim) -> bool:
        live = self._live_of(claim)
        return not self._closed and live is not None and self._monotonic() < live.until

    async def note(self, stream: str, note: Note) -> None:
        self._check_open()
        live = self._live.get(stream) or self._load(stream)
        await self._commit_row(live, Grade.SEEN, lambda key, wall: rows.set_note(key, note, wall))

    async def drop(self, stream: str) -> bool:
        self._check_open()
        live = self._live.get(stream) or self._load(stream)
        if live.held_by(self._monotonic()) or not live.key:
            return False
        key = live.key
        live.take("drop", math.inf)  # so that nobody claims it while it goes
        try:
            await self._commit(live, Grade.SURE, [], rows.set_dropped(key))
        finally:
            live.let_go()
            self._forget_if_idle(live)
        self._live.pop(stream, None)
        self._waiters.gone(stream)
        await self._sweep(Live("", 0), key)
        return True

    async def _sweep(self, live: Live, key: int) -> None:
        """Delete a dropped stream's items, a bounded number at a time, since others want to write too."""
        while self._has_items(key):
            await self._commit(live, Grade.SEEN, [], [(_SWEEP, (key,))], size=INLINE_BYTES + 1)
        await self._commit(live, Grade.SEEN, [], [("DELETE FROM dropped WHERE stream = ?", (key,))])

    def _has_items(self, key: int) -> bool:
        self._check_open()
        with storage_errors():
            return rows.find_head(self._reading, key) != 0

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waiters.close()
        self._reading.close()
        await self._committer.close()
        self._lock.release()

    # Small things

    async def _commit_row(self, live: Live, grade: Grade, change: Callable[[int, float], rows.Statement]) -> None:
        """Change the stream's row in the index, and make it first if there is none."""
        now = self._wall()
        if live.key:
            await self._commit(live, grade, [], [change(live.key, now)])
            return
        self._last_key += 1
        live.key = self._last_key
        statements = [rows.make_stream(live.key, live.name, NO_EPOCH, now), change(live.key, now)]
        await self._commit(live, grade, [], statements, makes=True)

    async def _commit(
        self,
        live: Live,
        grade: Grade,
        new: list[rows.ItemRow],
        statements: list[rows.Statement],
        *,
        makes: bool = False,
        size: int = 0,
    ) -> None:
        """Store, and keep `live` true to what was stored. From here on the stream is known until it is idle."""
        self._check_open()
        tail = new[-1][1] if new else 0

        def settle(error: StorageError | None) -> None:
            live.on_its_way -= 1
            if error is not None:
                live.tail = live.head
                if makes:
                    live.key = 0
            elif tail:
                live.head = tail
                self._waiters.wake(live.name)
            self._forget_if_idle(live)

        if tail:
            live.tail = tail
        live.on_its_way += 1
        if live.key:
            self._live[live.name] = live
        work = Work(live, grade, new, statements, settle)
        work.size = max(work.size, size)
        await self._committer.commit(work)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the journal is closed")

    def _load(self, stream: str) -> Live:
        self._check_open()
        with storage_errors(stream):
            found = rows.find_stream(self._reading, stream)
            if found is None:
                return Live(stream, 0)
            key, epoch = found
            return Live(stream, key, epoch, rows.find_head(self._reading, key))

    def _live_of(self, claim: Claim) -> Live | None:
        live = self._live.get(claim.stream)
        return live if live is not None and live.is_newest(claim.epoch) else None

    def _forget_if_idle(self, live: Live) -> None:
        """A stream that nobody writes is read from the store when it is asked for, so memory does not grow."""
        if not live.holder and not live.on_its_way and self._live.get(live.name) is live:
            del self._live[live.name]


def _finish_drops(connection: database.Connection) -> None:
    """Delete what a process that died left half deleted."""
    for (key,) in connection.execute("SELECT stream FROM dropped").fetchall():
        with database.transaction(connection):
            connection.execute("DELETE FROM item WHERE stream = ?", (key,))
            connection.execute("DELETE FROM dropped WHERE stream = ?", (key,))
