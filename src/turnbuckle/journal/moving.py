"""Moving a journal from one store to another: every row as it is, its number included.

Theory of operation. The copy is made beside the place where it will be, and takes that place in one step at
the end: until then nobody can take it for a journal. A move that was broken off is simply begun again: what
is there already is compared with the source, item by item, and from the first difference on it is written
again. So it does not matter where it was broken off, nor what happened to the source meanwhile. When all is
written everything is compared once more, and only a copy without any difference takes its place. The source
is never changed, but that it is brought to the newest format, and nobody can write to it meanwhile.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import Protocol

from msgspec import Struct

from turnbuckle.journal.port import StorageFailed, StreamRow

STREAMS_PAGE = 500
WORDS_PAGE = 500


class RawStream(Struct, frozen=True):
    """A stream as it is stored: its key, and its row."""

    key: int
    row: StreamRow


class RawItem(Struct, frozen=True, gc=False):
    """An item as it is stored. It stands for so many numbers before its own."""

    seq: int
    covers: int
    data: bytes


class RawWords(Struct, frozen=True):
    """Words that a stream is found by. A larger number was noted later."""

    number: int
    stream: int
    is_title: bool
    text: str


class RawReading(Protocol):
    """A store that nobody writes to meanwhile. Pages end with an empty one."""

    async def streams(self, after: int) -> Sequence[RawStream]: ...
    async def items(self, stream: int, after: int) -> Sequence[RawItem]:
        """Raises Damaged for what is not what was written."""
        ...

    async def words(self, after: int) -> Sequence[RawWords]: ...
    async def close(self) -> None: ...


class RawWriting(RawReading, Protocol):
    """A copy that is being made. What is put is stored when the call returns."""

    async def put_stream(self, stream: RawStream) -> None:
        """In the place of the row with this key, if there is one."""
        ...

    async def drop_stream(self, stream: int) -> None:
        """With its items."""
        ...

    async def cut_items(self, stream: int, first: int) -> None: ...
    async def put_items(self, stream: int, items: Sequence[RawItem]) -> None: ...
    async def cut_words(self, first: int) -> None: ...
    async def put_words(self, words: Sequence[RawWords]) -> None: ...
    async def finish(self) -> None:
        """Take the place of the journal that is to be."""
        ...


class Moved(Struct, frozen=True):
    """What is in the copy, and how many of its items and words were written this time."""

    streams: int = 0
    items: int = 0
    words: int = 0
    written: int = 0


async def move(source: RawReading, target: RawWriting, told: Callable[[Moved], None]) -> Moved:
    """Make the copy, compare it, and put it in its place. `told` hears how far it is. Raises StorageError."""
    moved = await _Move(source, target, told).run()
    again = await _Move(source, target, None).run()
    if again.written:
        raise StorageFailed(
            f"the copy differs from its source in {again.written} places: start the move again"
        )
    await target.finish()
    return moved


_Pages = Callable[[int], Awaitable[Sequence[RawStream]]]


class _Move:
    """One pass over everything. Each difference is mended, and counted."""

    def __init__(self, source: RawReading, target: RawWriting, told: Callable[[Moved], None] | None) -> None:
        self._source = source
        self._target = target
        self._told = told
        self._streams = self._items = self._words = self._written = 0

    async def run(self) -> Moved:
        async for mine, other in _side_by_side(self._source.streams, self._target.streams):
            if mine is None:
                assert other is not None
                self._written += 1
                await self._target.drop_stream(other.key)
                continue
            if other != mine:
                self._written += 1
                await self._target.put_stream(mine)
            self._streams += 1
            await self._copy_items(mine.key)
            if self._told is not None:
                self._told(self._moved)
        await self._copy_words()
        return self._moved

    @property
    def _moved(self) -> Moved:
        return Moved(self._streams, self._items, self._words, self._written)

    async def _copy_items(self, stream: int) -> None:
        after = 0
        while mine := await self._source.items(stream, after):
            other = await _until(self._target, stream, after, mine[-1].seq)
            self._items += len(mine)
            if other != list(mine):
                same = _same(mine, other)
                await self._target.cut_items(stream, after + 1 if not same else mine[same - 1].seq + 1)
                await self._target.put_items(stream, mine[same:])
                self._written += max(len(mine) - same, 1)
            after = mine[-1].seq
        if await self._target.items(stream, after):
            self._written += 1
            await self._target.cut_items(stream, after + 1)

    async def _copy_words(self) -> None:
        after = 0
        while mine := await self._source.words(after):
            there = [word for word in await self._target.words(after) if word.number <= mine[-1].number]
            self._words += len(mine)
            if there != list(mine):
                same = _same(mine, there)
                await self._target.cut_words(after + 1 if not same else mine[same - 1].number + 1)
                await self._target.put_words(mine[same:])
                self._written += max(len(mine) - same, 1)
            after = mine[-1].number
        if await self._target.words(after):
            self._written += 1
            await self._target.cut_words(after + 1)


def _same(mine: Sequence[object], other: Sequence[object]) -> int:
    """How many are the same from the beginning on."""
    for at, (one, two) in enumerate(zip_longest(mine, other)):
        if one != two:
            return at
    return len(mine)


async def _until(store: RawReading, stream: int, after: int, last: int) -> list[RawItem]:
    """The items behind a number, up to another."""
    found: list[RawItem] = []
    while page := await store.items(stream, after):
        found += [item for item in page if item.seq <= last]
        after = page[-1].seq
        if after >= last:
            break
    return found


async def _all(page_after: _Pages) -> AsyncIterator[RawStream]:
    after = 0
    while page := await page_after(after):
        for one in page:
            yield one
        after = page[-1].key


async def _side_by_side(
    mine: _Pages, other: _Pages
) -> AsyncIterator[tuple[RawStream | None, RawStream | None]]:
    """Those of two stores with the same key, in the order of keys."""
    left, right = _all(mine), _all(other)
    one, two = await anext(left, None), await anext(right, None)
    while one is not None or two is not None:
        if two is None or (one is not None and one.key < two.key):
            yield one, None
            one = await anext(left, None)
        elif one is None or two.key < one.key:
            yield None, two
            two = await anext(right, None)
        else:
            yield one, two
            one, two = await anext(left, None), await anext(right, None)
