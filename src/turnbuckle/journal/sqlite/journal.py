"""The writing body: one process, one file, one connection that writes (`committer`) and one that reads.

The folder's lock says that no other process writes. So who may append and where each stream ends is known in
this process (`live`), claims need no clock that several machines agree on, and all claims of an earlier
process are dead. Only epochs and the names of holders are stored: the first so that no number is given twice,
the second so that the next process sees what was in flight. The disk is waited for with the first items under
a claim, not with the claim itself: an epoch that never had an item may be given again, since nobody has seen
a number of it.

Reads happen on the loop's thread. What was just committed is still in memory (`hot`), so a reader who follows
a run costs no query. Readers who want pages of the store take turns, one page for each pass of the loop:
however many of them replay however much, others wait for one page at a time. `docs/decisions/0011` has what a
thread would change.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from turnbuckle.journal.checks import check_distinct, check_size, merge_fault
from turnbuckle.journal.clock import lease_time
from turnbuckle.journal.hot import HotTails
from turnbuckle.journal.live import Live, Waiters
from turnbuckle.journal.port import (
    EPOCH_BITS,
    EVERY_STREAM,
    READ_BYTES,
    READ_LIMIT,
    SEARCH_LIMIT,
    Changes,
    Claim,
    Damaged,
    Gone,
    Grade,
    Held,
    IndexUpdate,
    Item,
    JournalError,
    Landed,
    Merge,
    SearchPage,
    SearchPlace,
    StorageError,
    StreamQuery,
    StreamRow,
    Take,
    Trouble,
)
from turnbuckle.journal.sqlite import database, rows
from turnbuckle.journal.sqlite.catch_up import CATCH_UP, CatchUp
from turnbuckle.journal.sqlite.checksums import checksum
from turnbuckle.journal.sqlite.committer import CHECKPOINT_PAGES, IN_THREAD, Committer, PendingWrite, weight
from turnbuckle.journal.sqlite.database import (
    UNREADABLE,
    Connect,
    open_to_read,
    open_to_write,
    storage_errors,
    translated,
)
from turnbuckle.journal.sqlite.folder import DATABASE, FolderLock, FolderMark, finish_mend, make_private
from turnbuckle.journal.sqlite.live_writes import Burst, LiveWrites
from turnbuckle.journal.sqlite.looking import look_at, read_beside
from turnbuckle.journal.sqlite.search import Search
from turnbuckle.journal.trouble import TroubleBook

_MOST_LARGE = 10_000


class SqliteJournal(LiveWrites):
    """The journal in a folder. Raises `InUse` if another process has it; `close` gives it back."""

    def __init__(
        self,
        folder: Path,
        *,
        connect: Connect = database.connect,
        monotonic: Callable[[], float] = lease_time,
        wall: Callable[[], float] = time.time,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        hot: HotTails | None = None,
        stopwatch: Callable[[], float] = time.perf_counter,
        catch_up: float = CATCH_UP,
    ) -> None:
        self._connect = connect
        self._monotonic = monotonic
        self._wall = wall
        self._live: dict[str, Live] = {}
        self._hot = HotTails() if hot is None else hot
        self._unlisted: dict[str, PendingWrite | None] = {}
        self._large: set[str] = set()  # streams that hold large items, as far as that is known
        self._page_turn = asyncio.Lock()
        self._search = Search(folder / DATABASE, connect)
        self._waiters = Waiters()
        self._book = TroubleBook(wall)
        self._closed = False
        self._lock = FolderLock(folder)
        try:
            with storage_errors():
                finish_mend(folder)
            make_private(folder)
            writing = open_to_write(folder / DATABASE, connect)
            try:
                with storage_errors():
                    rows.finish_drops(writing)
                    self._last_key = rows.highest_key(writing)
                self._reading = open_to_read(folder / DATABASE, connect)
                with storage_errors():
                    self._mark = FolderMark(folder)
            except JournalError:
                writing.close()
                raise
        except JournalError:
            self._lock.release()
            raise
        self._catch_up = CatchUp(self._has_unindexed, self._book, catch_up)
        self._committer = Committer(
            writing, checkpoint_pages, check=self._mark.check, told=self._told, stopwatch=stopwatch
        )
        self._catch_up.use(self._committer)

    # Reading

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        self._check_open()
        hot = self._hot.read(stream, after, limit)
        if hot is not None:
            return hot
        live = self._live.get(stream)
        if live is not None and live.head <= after:
            return []
        if stream not in self._large:
            async with self._page_turn:
                await asyncio.sleep(0)
                self._check_open()
                with self._looking(stream):
                    found = rows.find_stream(self._reading, stream)
                    if found is None:
                        return []
                    key = found[0]
                    items = rows.read_small_items(self._reading, stream, key, after, limit, READ_BYTES)
            if items is not None:
                return items
            self._note_large(stream)
        with self._looking(stream):
            return await asyncio.to_thread(read_beside, self._mark.file, self._connect, stream, after, limit)

    def _note_large(self, stream: str) -> None:
        if len(self._large) >= _MOST_LARGE:
            self._large.clear()  # it is found out again
        self._large.add(stream)

    async def head(self, stream: str) -> int:
        return self._head(stream)

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        while self._head(stream) <= after:
            if after > 0 and not self._exists(stream):
                raise Gone(f"stream {stream} is not there any more")
            await self._waiters.wait(stream, after, take)
            if take is not None:
                return

    def _head(self, stream: str) -> int:
        self._check_open()
        live = self._live.get(stream)
        if live is not None:
            return live.head
        with self._looking(stream):
            found = rows.find_stream(self._reading, stream)
            return 0 if found is None else rows.find_head(self._reading, found[0])

    async def streams(
        self, wanted: StreamQuery = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        self._check_open()
        if self._unlisted and (wanted.kind is UNSET or wanted.name in self._unlisted):
            for name in tuple(self._unlisted):
                self._store_claim(name)
            with suppress(StorageError):  # whoever writes is told; what is there can be read all the same
                await self._committer.settled()
        found: list[StreamRow] = []
        while len(found) < limit:
            with self._looking():
                page = rows.list_streams(self._reading, wanted, after, limit)
            found.extend(row for row in page if not wanted.orphaned or self._is_orphaned(row))
            if len(page) < limit:
                break
            after = page[-1].place
        return found[:limit]

    async def search(
        self,
        words: str,
        wanted: StreamQuery = EVERY_STREAM,
        limit: int = SEARCH_LIMIT,
        after: SearchPlace | None = None,
    ) -> SearchPage:
        self._check_open()
        page = await self._search.find(words, wanted, limit, after)
        if wanted.orphaned:
            return replace(page, hits=[hit for hit in page.hits if self._is_orphaned(hit.row)])
        return page

    def _exists(self, stream: str) -> bool:
        if stream in self._live:
            return True
        with self._looking(stream):
            return rows.find_stream(self._reading, stream) is not None

    def _is_orphaned(self, row: StreamRow) -> bool:
        live = self._live.get(row.name)
        return live is None or live.held_by(self._monotonic()) is None

    # Writing

    async def append(
        self,
        stream: str,
        items: Sequence[bytes],
        *,
        after: int,
        epoch: int,
        grade: Grade,
        note: IndexUpdate | None = None,
    ) -> int:
        live = self._known(stream)
        new = _checked(live, items, after, epoch)
        if max(map(len, items), default=0) > READ_BYTES:
            self._note_large(stream)
        is_new = stream in self._unlisted
        claim = self._take_claim(stream) if is_new and note is not None else None
        statements: list[rows.Statement] = []
        if note is not None and claim is not None:
            statements = rows.make_noted(claim.statements[0], note, self._wall())
        elif note is not None:
            statements = rows.set_note(live.key, note, self._wall())
        sure = Grade.SYNCED if live.unsure else grade
        await self._commit(live, sure, new, statements, size=weight(note, is_new=is_new), claim=claim)
        if new and live.epoch == epoch:
            live.unsure = False
        return new[-1][1] if new else after

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        live = None if self._closed or len(item) > READ_BYTES else self._live.get(stream)
        if live is None or live.unsure or live.epoch != epoch or live.tail != after or not live.holder:
            return False
        seq = max(live.tail + 1, (epoch << EPOCH_BITS) + 1)
        row = (live.key, seq, checksum(live.key, seq, item), item)
        live.tail = seq
        live.on_its_way += 1
        self._committer.add(Burst(live, row, self, landed))
        return True

    async def claim(self, stream: str, owner: str, seconds: float, *, begins: bool = False) -> Claim | Held:
        self._check_open()
        live = self._known(stream)
        now = self._monotonic()
        if held := live.held_by(now):
            return held
        claim = live.take(owner, now + seconds)
        if begins and not live.key:
            self._claim_soon(live, claim)
            return claim
        try:
            await self._commit_row(
                live, Grade.FLUSHED, lambda key, wall: [rows.set_claim(key, claim.epoch, owner, wall)]
            )
        except BaseException:  # a cancelled claim may be stored; it then looks like one whose holder died
            if live.is_newest(claim.epoch):
                live.let_go()
                self._forget_if_idle(live)
            raise
        return claim

    async def release(self, claim: Claim) -> None:
        self._check_open()
        live = self._live_of(claim)
        if live is not None:
            live.let_go()
            await self._commit(live, Grade.FLUSHED, [], [rows.set_released(live.key)])

    async def note(self, stream: str, note: IndexUpdate) -> None:
        self._check_open()
        live = self._known(stream)
        await self._commit_row(
            live, Grade.FLUSHED, lambda key, wall: rows.set_note(key, note, wall), size=weight(note)
        )

    async def merge(self, stream: str, merges: Sequence[Merge]) -> bool:
        self._check_open()
        live = self._known(stream)
        if live.held_by(self._monotonic()) or not live.key:
            return False
        if fault := merge_fault(merges):
            raise ValueError(fault)
        statements: list[rows.Statement] = []
        with self._looking(stream):
            for merge in merges:
                first = rows.find_first(self._reading, live.key, merge)
                if first is None:
                    raise ValueError(f"the stream {stream} has no such items")
                statements += rows.set_merged(live.key, first, merge.item)
        live.take("merge", math.inf)  # so that nobody claims it meanwhile
        try:
            await self._commit(live, Grade.SYNCED, [], statements, size=IN_THREAD)
        finally:
            live.let_go()
            live.epoch -= 1  # no number was given
            self._hot.forget(stream)
            self._forget_if_idle(live)
        return True

    async def drop(self, stream: str) -> bool:
        self._check_open()
        if not self._known(stream).key:
            return False
        return await self.change_all(Changes(drops=[stream]))

    def trouble(self) -> Trouble | None:
        return self._book.trouble

    async def change_all(self, changes: Changes) -> bool:
        self._check_open()
        check_distinct(changes)
        going = [live for live in map(self._known, changes.drops) if live.key]
        if any(live.held_by(self._monotonic()) for live in going):
            return False
        parts = [
            (live := self._known(one.stream), _checked(live, one.items, one.after, one.epoch))
            for one in changes.appends
        ]
        noted = [
            (live, note)
            for live, note in ((self._known(name), note) for name, note in changes.notes)
            if live.key
        ]
        pairs = [*((live, one.note) for (live, _), one in zip(parts, changes.appends, strict=True)), *noted]
        wall = self._wall()
        statements = [
            each for live, note in pairs if note is not None for each in rows.set_note(live.key, note, wall)
        ]
        statements += [each for live in going for each in rows.set_dropped(live.key)]
        await self._commit_all([*parts, *((live, []) for live, _ in noted)], going, statements)
        for (live, new), one in zip(parts, changes.appends, strict=True):
            if new and live.epoch == one.epoch:
                live.unsure = False
        with suppress(StorageError):  # they are gone; what is left of them is deleted with the next start
            for live in going:
                await self._sweep(Live("", 0), live.key)
        return True

    async def _commit_all(
        self,
        parts: list[tuple[Live, list[rows.ItemRow]]],
        going: list[Live],
        statements: list[rows.Statement],
    ) -> None:
        """One work of all these streams; those that are `going` do not exist afterwards."""
        parts = [*parts, *((live, list[rows.ItemRow]()) for live in going)]

        def settle(error: StorageError | None) -> None:
            for live in going:
                live.let_go()
            for live, new in parts:
                self._settle(live, new, error)
            for live in going if error is None else ():
                self._live.pop(live.name, None)
                self._hot.forget(live.name)
                self._waiters.gone(live.name)

        for live in going:
            live.take("drop", math.inf)  # so that nobody claims it while it goes
        for live, new in parts:
            self._accept(live, new)
            self._store_claim(live.name)
        lives = tuple(live for live, _ in parts)
        work = PendingWrite(lives, Grade.SYNCED, [row for _, new in parts for row in new], statements, settle)
        work.size = max(work.size, IN_THREAD)  # rare, and it may take out many words
        await self._committer.commit(work)

    def _known(self, stream: str) -> Live:
        return self._live.get(stream) or self._load(stream)

    async def _sweep(self, live: Live, key: int) -> None:
        """Delete a dropped stream's items and words, a bounded number at a time, since others want to write
        too. Raises Damaged where nothing goes, since a damaged index leads to rows that are not there."""
        before = None
        while (left := self._left(key)) != (None, 0):
            if left == before:
                error = Damaged(live.name, None, "what was deleted cannot be taken out of the file")
                self._book.failed(error)
                raise error
            before = left
            statements: list[rows.Statement] = [(sql, (key,)) for sql in rows.SWEEP]
            await self._commit(live, Grade.FLUSHED, [], statements, size=IN_THREAD)
        await self._commit(live, Grade.FLUSHED, [], [("DELETE FROM dropped WHERE stream = ?", (key,))])

    def _left(self, key: int) -> tuple[int | None, int]:
        self._check_open()
        with self._looking():
            return rows.rows_left(self._reading, key)

    async def look(self) -> None:
        self._check_open()
        try:
            await asyncio.get_running_loop().run_in_executor(None, look_at, self._mark, self._connect)
        except StorageError as error:
            self._book.failed(error)
            raise

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waiters.close()
        self._hot.clear()
        with suppress(StorageError):  # the next process does it
            await self._catch_up.close()
        self._reading.close()
        await self._search.close()
        await self._committer.close()
        self._lock.release()

    # Small things

    def _told(self, error: StorageError | None) -> None:
        """How a batch of somebody's has ended."""
        self._book.note(error)
        self._catch_up.due()

    def _has_unindexed(self) -> bool:
        """What cannot be read is told to whoever reads it, not here."""
        try:
            with storage_errors():
                return rows.has_unindexed(self._reading)
        except StorageError:
            return False

    def _looking(self, stream: str = "") -> "_Looking":
        return _Looking(self._book, stream)

    def _load(self, stream: str) -> Live:
        self._check_open()
        with self._looking(stream):
            found = rows.find_stream(self._reading, stream)
            if found is None:
                return Live(stream, 0)
            key, epoch = found
            return Live(stream, key, epoch, rows.find_head(self._reading, key))


class _Looking:
    """What goes wrong inside is raised as an error of the journal, and remembered."""

    __slots__ = ("_book", "_stream")

    def __init__(self, book: TroubleBook, stream: str) -> None:
        self._book = book
        self._stream = stream

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, StorageError):
            self._book.failed(error)
        elif isinstance(error, (*UNREADABLE, OSError)):
            told = translated(error, self._stream)
            self._book.failed(told)
            raise told from error


def _checked(live: Live, items: Sequence[bytes], after: int, epoch: int) -> list[rows.ItemRow]:
    """The rows of an append. Raises what speaks against it."""
    if (refusal := live.refusal(after, epoch)) is not None:
        raise refusal
    check_size(items)
    return rows.item_rows(live.key, live.tail, epoch, items)
