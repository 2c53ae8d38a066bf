"""A journal whose large items lie in a store of objects.

An item over the limit is put into the store first, and what the journal holds in its place is a reference:
the object's name, its size and the mark of its bytes. Readers get the bytes. Nothing above knows the
difference.

- **Put first, then appended.** Who dies in between leaves an object that nobody refers to. It is swept
  (`sweep`) when it is old enough that nobody can still be about to refer to it. No name is used twice, so a
  sweep never takes away what another node has just put.
- **A store that is away holds nothing up.** What cannot be put within the store's time is kept in the journal
  itself, as if there were no store, and for some seconds nothing else is tried. Bytes that are already there
  and cannot be read now are an error that passes; those that are gone, or are others, are damage.
- **Order.** Appends may be sent ahead. One behind an upload waits until that was handed on.
- **What is dropped** takes its objects along, whatever they are; what a crash left of them is swept, too.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from turnbuckle.errors import ConfigError
from turnbuckle.journal.opening import JournalReader
from turnbuckle.journal.port import (
    MAX_ITEM,
    READ_BYTES,
    READ_LIMIT,
    Changes,
    Claim,
    Closed,
    Damaged,
    Grade,
    IndexUpdate,
    Item,
    Journal,
    JournalError,
    Landed,
    Merge,
    Reader,
    StorageFailed,
    StreamQuery,
    Take,
)
from turnbuckle.journal.wrapped import WrappedJournal
from turnbuckle.objects.memory import NoObjects
from turnbuckle.objects.owned import OwnedObjects
from turnbuckle.objects.port import (
    LONGEST_NAME,
    ObjectMissing,
    ObjectRow,
    ObjectStore,
    ObjectStoreError,
    StoreAway,
    area_of,
    object_key,
    prefix_of,
    stream_of,
)
from turnbuckle.objects.store_clock import time_of_store

T = TypeVar("T")

MARK = b"\x00turnbuckle "
"""How an item begins that is not what it says. No fact begins so; whatever else does is escaped."""
_OBJECT = MARK + b"object "
_PLAIN = MARK + b"plain "
RESTS = 15.0
"""Seconds in which a store that failed is not asked to take anything."""
YOUNG = 3600.0
"""Seconds in which an object may still be about to be referred to."""
STORE = "objects"
"""The stream, without any item, whose title says where large items went; and its kind."""
OWNER = "objects:owner"
"""The stream, without any item, whose title tells this journal from all others."""
_NO_STORE = (
    "large values of this journal are in {}, and the settings name no store: set objects.store to it, or to "
    "where its objects are now"
)
_CACHE_BYTES = 16 << 20
_ON_THE_LOOP = 1 << 20
_AT_ONCE = 4
_CLOSING = 5.0
_MARKING = 30.0  # seconds until another node may give the journal its mark

log = logging.getLogger("turnbuckle.objects")


class ObjectReference(Struct, frozen=True):
    """What stands in the place of a large item."""

    key: str
    size: int
    sha256: str


def reference_in(data: bytes) -> ObjectReference | None:
    """What an item refers to, if it is a reference."""
    if not data.startswith(_OBJECT):
        return None
    try:
        return msgspec.json.decode(data[len(_OBJECT) :], type=ObjectReference)
    except msgspec.DecodeError as error:
        raise Damaged("", None, f"a reference to an object cannot be read: {error}") from None


class LargeItems:
    """Large items in a store, and small ones as they are. `over` is the largest that stays."""

    def __init__(
        self, store: ObjectStore, over: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.store = store
        self._over = over
        self._monotonic = monotonic
        self._rests_until = 0.0
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached = 0
        self._room = asyncio.Semaphore(_AT_ONCE)

    def is_large(self, stream: str, data: bytes) -> bool:
        return self._over < len(data) <= MAX_ITEM and len(stream) <= LONGEST_NAME

    def is_plain(self, stream: str, data: bytes) -> bool:
        """Whether an item is stored as it is."""
        return not self.is_large(stream, data) and not data.startswith(MARK)

    async def kept(self, stream: str, items: Iterable[bytes]) -> list[bytes]:
        """What the journal is to hold."""
        return [
            data if self.is_plain(stream, data) else await self._stored(stream, bytes(data)) for data in items
        ]

    async def _stored(self, stream: str, data: bytes) -> bytes:
        if self.is_large(stream, data) and self._monotonic() >= self._rests_until:
            sha256 = await _sha256(data)
            name = f"{sha256[:24]}-{secrets.token_hex(4)}"
            reference = ObjectReference(object_key(stream, "items", name), len(data), sha256)
            try:
                async with self._room:
                    await self.store.put(reference.key, data)
            except ObjectStoreError as error:
                self._rests_until = self._monotonic() + RESTS
                log.warning("a value of %d bytes stays in the journal: %s", len(data), error)
            else:
                self._remember(reference.key, data)
                return _OBJECT + msgspec.json.encode(reference)
        return _PLAIN + data if data.startswith(MARK) else data

    async def read(self, stream: str, items: Sequence[Item]) -> list[Item]:
        """The items as they were appended: as many as make about one page, and at least one. Raises
        StorageError."""
        found: list[Item] = []
        size = 0
        for item in items:
            if not item.data.startswith(MARK):
                found.append(item)
                continue
            if found and size >= READ_BYTES:
                break
            data = await self._resolved(stream, item)
            size += len(data)
            found.append(Item(item.seq, data))
        return found

    async def _resolved(self, stream: str, item: Item) -> bytes:
        if item.data.startswith(_PLAIN):
            return item.data[len(_PLAIN) :]
        reference = reference_in(item.data)
        if reference is None:
            raise Damaged(stream, item.seq, "it was written by a newer version")
        if reference.key in self._cache:
            self._cache.move_to_end(reference.key)
            return self._cache[reference.key]
        try:
            async with self._room:
                data = await self.store.get(reference.key, reference.size)
        except ObjectMissing as error:
            raise Damaged(stream, item.seq, str(error)) from None
        except ObjectStoreError as error:
            raise StorageFailed(str(error)) from error
        if len(data) != reference.size or await _sha256(data) != reference.sha256:
            raise Damaged(
                stream, item.seq, f"the object {reference.key} in {self.store.shown} is not what was stored"
            )
        self._remember(reference.key, data)
        return data

    def _remember(self, key: str, data: bytes) -> None:
        if len(data) <= _CACHE_BYTES // 2 and key not in self._cache:
            self._cache[key] = data
            self._cached += len(data)
            while self._cached > _CACHE_BYTES:
                self._cached -= len(self._cache.popitem(last=False)[1])

    def take(self, inner: Take) -> Take:
        """What is handed over while somebody waits. A reference ends that: whoever waits reads it."""

        def taken(items: Sequence[Item]) -> bool:
            return not any(item.data.startswith(MARK) for item in items) and inner(items)

        return taken


async def _begun(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that has begun. Until then somebody else who runs in between could come before it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task


async def _sha256(data: bytes) -> str:
    """Of many megabytes it takes long enough that the loop must not wait for it."""
    if len(data) <= _ON_THE_LOOP:
        return hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())


class LargeItemsReader:
    """A journal to look at. Everything but the items is that of the one inside."""

    def __init__(self, reader: JournalReader, large: LargeItems) -> None:
        self._reader = reader
        self._large = large
        self.streams = reader.streams
        self.head = reader.head
        self.search = reader.search

    @property
    def writer(self) -> str:
        return self._reader.writer

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        return await self._large.read(stream, await self._reader.read(stream, after, limit))

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        await self._reader.wait(stream, after, None if take is None else self._large.take(take))

    async def close(self) -> None:
        await self._reader.close()
        await self._large.store.close()


class LargeItemsJournal(WrappedJournal):
    """A journal whose large items are in a store."""

    def __init__(self, journal: Journal, large: LargeItems, *, is_known: bool = False) -> None:
        """`is_known`: the journal says already that it has items elsewhere."""
        super().__init__(journal)
        self._large = large
        self._is_known = is_known
        self._ahead: dict[str, asyncio.Event] = {}
        """By streams: when what was sent last of it is handed on."""
        self._dropped: list[str] = []
        self._cleaning: asyncio.Task[None] | None = None
        self._swept_until = 0.0
        self._closed = False

    @property
    def objects(self) -> ObjectStore:
        return self._large.store

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        return await self._large.read(stream, await self._journal.read(stream, after, limit))

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        await self._journal.wait(stream, after, None if take is None else self._large.take(take))

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
        if stream not in self._ahead and all(self._large.is_plain(stream, data) for data in items):
            return await self._journal.append(stream, items, after=after, epoch=epoch, grade=grade, note=note)
        async with self._in_order([stream]):
            kept = await self._kept(stream, items)
            handed = self._journal.append(stream, kept, after=after, epoch=epoch, grade=grade, note=note)
            work = await _begun(handed)
        return await work

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        if stream in self._ahead or not self._large.is_plain(stream, item):
            return False
        return self._journal.append_soon(stream, item, after=after, epoch=epoch, landed=landed)

    async def _kept(self, stream: str, items: Iterable[bytes]) -> list[bytes]:
        """Whoever opens the journal later must know that some of it is elsewhere."""
        kept = await self._large.kept(stream, items)
        if not self._is_known and any(data.startswith(_OBJECT) for data in kept):
            await self._journal.note(STORE, IndexUpdate(kind=STORE, title=self._large.store.shown))
            self._is_known = True
        return kept

    @asynccontextmanager
    async def _in_order(self, streams: Sequence[str]) -> AsyncIterator[None]:
        """What is begun inside of this is begun behind what was sent before, and before what comes later."""
        if self._closed:
            raise Closed("the journal is closed")
        before = [self._ahead[stream] for stream in streams if stream in self._ahead]
        mine = asyncio.Event()
        self._ahead.update(dict.fromkeys(streams, mine))
        try:
            for one in before:
                await one.wait()
            yield
        finally:
            mine.set()
            for stream in streams:
                if self._ahead.get(stream) is mine:
                    del self._ahead[stream]

    async def merge(self, stream: str, merges: Sequence[Merge]) -> bool:
        kept = [
            Merge(merge.first, Item(merge.item.seq, data))
            for merge in merges
            for data in await self._kept(stream, [merge.item.data])
        ]
        return await self._journal.merge(stream, kept)

    async def drop(self, stream: str) -> bool:
        if not await self._journal.drop(stream):
            return False
        self._clean([stream])
        return True

    async def change_all(self, changes: Changes) -> bool:
        async with self._in_order([one.stream for one in changes.appends]):
            kept = [
                msgspec.structs.replace(one, items=tuple(await self._kept(one.stream, one.items)))
                for one in changes.appends
            ]
            handed = self._journal.change_all(Changes(appends=kept, notes=changes.notes, drops=changes.drops))
            work = await _begun(handed)
        if not await work:
            return False
        self._clean(changes.drops)
        return True

    async def close(self) -> None:
        self._closed = True
        while self._ahead:  # what was begun is finished
            await next(iter(self._ahead.values())).wait()
        await asyncio.sleep(0)  # so that it is really handed on
        if self._cleaning is not None:
            await asyncio.wait([self._cleaning], timeout=_CLOSING)
            self._cleaning.cancel()
        await self._journal.close()
        await self._large.store.close()

    # What nobody needs any more

    def _clean(self, streams: Sequence[str]) -> None:
        self._dropped.extend(streams)
        if self._dropped and (self._cleaning is None or self._cleaning.done()):
            self._cleaning = asyncio.create_task(self._clean_all(), name="objects of what was dropped")

    async def _clean_all(self) -> None:
        while self._dropped:
            stream = self._dropped.pop()
            try:
                await delete_all(self._large.store, stream, unless=self._is_there_again)
            except ObjectStoreError as error:  # the next sweep finds them
                log.warning("objects of %s could not be deleted now: %s", stream, error)
            except JournalError as error:
                log.warning("objects of %s are left to the next sweep: %s", stream, error)

    async def _is_there_again(self, stream: str) -> bool:
        """A stream may have the name of one that was dropped, and new values. Then a sweep tells them
        apart."""
        return stream in self._ahead or await self._journal.head(stream) > 0

    async def sweep(self) -> int:
        """Delete objects that nobody refers to: those of streams that are gone, and values whose append never
        came. The second is looked for only among what is new since the last sweep. How old an object is, is
        told by the store's own clock. Returns how many. Raises ObjectStoreError and JournalError."""
        until, since = await time_of_store(self._large.store) - YOUNG, self._swept_until
        await self._large.store.tidy(until)
        found: dict[str, list[ObjectRow]] = {}
        async for row in self._large.store.listed():
            if row.modified < until and area_of(row.key):
                found.setdefault(stream_of(row.key), []).append(row)
        count = 0
        for stream, rows in found.items():
            if stream and (unused := await self._unused(stream, rows, since)):
                await self._large.store.delete(unused)
                count += len(unused)
        self._swept_until = until - YOUNG
        return count

    async def _unused(self, stream: str, rows: list[ObjectRow], since: float) -> list[str]:
        if not await self._journal.head(stream):
            return [row.key for row in rows]
        values = {row.key for row in rows if area_of(row.key) == "items" and row.modified >= since}
        after = 0
        while values and (items := await self._journal.read(stream, after)):
            after = items[-1].seq
            for item in items:
                reference = reference_in(item.data)
                if reference is not None:
                    values.discard(reference.key)
        return sorted(values)


async def with_objects(
    journal: Journal, store: ObjectStore | None, over: int, *, shared: bool = False
) -> Journal:
    """The journal with its large items in a store, if there is one. A `shared` one, without a store here,
    takes what others have put into theirs for something that cannot be read now, and never for damage.
    Raises ConfigError if the journal has such, and nobody says where."""
    where = await _known_store(journal)
    if store is not None:
        owned = OwnedObjects(store, lambda: _mark_of(journal))
        return LargeItemsJournal(journal, LargeItems(owned, over), is_known=bool(where))
    if where:
        await journal.close()
        raise ConfigError(_NO_STORE.format(where))
    return LargeItemsJournal(journal, LargeItems(NoObjects(), MAX_ITEM)) if shared else journal


async def reader_with_objects(reader: JournalReader, store: ObjectStore | None) -> JournalReader:
    """The same for a journal that is looked at."""
    if store is not None:
        return LargeItemsReader(reader, LargeItems(store, MAX_ITEM))
    if where := await _known_store(reader):
        await reader.close()
        raise ConfigError(_NO_STORE.format(where))
    return reader


async def _known_store(reader: Reader) -> str:
    """Where large items of this journal went, if any did."""
    return await _title(reader, STORE)


async def _mark_of(journal: Journal) -> str:
    """What tells this journal from all others. It is made once, and moves with the journal. Raises
    ObjectStoreError."""
    try:
        if mark := await _title(journal, OWNER):
            return mark
        await journal.note(OWNER, IndexUpdate(kind=STORE))  # so that it is known for what it is
        claim = await journal.claim(OWNER, f"mark {secrets.token_hex(8)}", _MARKING)
        if not isinstance(claim, Claim):
            raise StoreAway("another node makes this journal known to the object store")
        try:
            if not (mark := await _title(journal, OWNER)):
                mark = secrets.token_hex(16)
                await journal.note(OWNER, IndexUpdate(title=mark))
        finally:
            await journal.release(claim)
    except JournalError as error:
        raise StoreAway(f"the journal has no mark for its objects yet: {error}") from error
    return mark


async def _title(reader: Reader, stream: str) -> str:
    rows = await reader.streams(StreamQuery(kind=STORE, name=stream), limit=1)
    return rows[0].title if rows else ""


async def delete_all(store: ObjectStore, stream: str, unless: Callable[[str], Awaitable[bool]]) -> None:
    """Delete every object that a stream has now, unless that is needed. Raises ObjectStoreError."""
    async with contextlib.aclosing(store.listed(prefix_of(stream))) as rows:
        keys = [row.key async for row in rows]
    if keys and not await unless(stream):
        await store.delete(keys)
