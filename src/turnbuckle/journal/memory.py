"""A journal in memory: for tests, for the lab's simulated world, and as the plainest reading of the port.

It can show what a dead process and a loss of power leave behind. For power it takes the worst that the port
allows: each stream ends at its own last sure item, although a real store usually keeps more.
"""

import asyncio
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec import Struct, structs

from turnbuckle.journal.checks import check_distinct, check_size, merge_fault
from turnbuckle.journal.clock import lease_time
from turnbuckle.journal.live import NO_EPOCH, Live, LiveClaims, Waiters
from turnbuckle.journal.port import (
    EVERY_STREAM,
    READ_BYTES,
    READ_LIMIT,
    SEARCH_LIMIT,
    Append,
    Changes,
    Claim,
    Gone,
    Grade,
    Held,
    IndexUpdate,
    Item,
    Landed,
    Merge,
    SearchHit,
    SearchPage,
    SearchPlace,
    StorageFull,
    StreamQuery,
    StreamRow,
    Take,
    Trouble,
    next_seq,
)
from turnbuckle.journal.trouble import TroubleBook
from turnbuckle.journal.words import kept_fields, kept_words, leading, questions, snippet


class _Said(Struct, frozen=True):
    """Words of a stream. A larger number was said later, in whatever stream."""

    number: int
    text: str
    is_title: bool = False


class _Stream:
    def __init__(self, name: str, now: float) -> None:
        self.live = Live(name, 0)
        self.items: list[Item] = []
        self.sure = 0  # how many items a loss of power leaves
        self.row = StreamRow(name, "", "", "", "", "", now, now, NO_EPOCH, "")
        self.sure_row = self.row
        self.said: tuple[_Said, ...] = ()
        self.sure_said: tuple[_Said, ...] = ()

    def index_after(self, after: int) -> int:
        """Where in the list the items after a cursor begin."""
        return bisect_right(self.items, after, key=attrgetter("seq"))


class MemoryJournal(LiveClaims):
    """`room` is how many bytes of items it takes before it is full; it may be changed at any time."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = lease_time,
        wall: Callable[[], float] = time.time,
        room: float = math.inf,
    ) -> None:
        self.room = room
        self._monotonic = monotonic
        self._wall = wall
        self._streams: dict[str, _Stream] = {}
        self._waiters = Waiters()
        self._stored = 0
        self._said = 0
        self._book = TroubleBook(wall)
        self._closed = False

    # Reading

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        self._check_open()
        found = self._streams.get(stream)
        if found is None:
            return []
        start = found.index_after(after)
        page = found.items[start : start + max(limit, 1)]
        size = 0
        for count, item in enumerate(page, 1):
            size += len(item.data)
            if size >= READ_BYTES:
                return page[:count]
        return page

    async def head(self, stream: str) -> int:
        self._check_open()
        found = self._streams.get(stream)
        return 0 if found is None else found.live.head

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        while await self.head(stream) <= after:
            if after > 0 and stream not in self._streams:
                raise Gone(f"stream {stream} is not there any more")
            await self._waiters.wait(stream, after, take)
            if take is not None:
                return

    async def streams(
        self, wanted: StreamQuery = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        self._check_open()
        place = attrgetter("place" if wanted.order == "touched" else "born")
        falls = wanted.order != "oldest"
        fields = wanted.fields()
        rows = [found.row for found in self._streams.values() if self._matches(found.row, wanted, fields)]
        if after is not None:
            rows = [row for row in rows if (place(row) < after if falls else place(row) > after)]
        return sorted(rows, key=place, reverse=falls)[:limit]

    async def search(
        self,
        words: str,
        wanted: StreamQuery = EVERY_STREAM,
        limit: int = SEARCH_LIMIT,
        after: SearchPlace | None = None,
    ) -> SearchPage:
        self._check_open()
        asked = questions(words)
        if not asked:
            return SearchPage([])
        lead, hits, fields = leading(asked), list[SearchHit](), wanted.fields()
        after = after or SearchPlace(self._said + 1, self._said)
        for found in self._streams.values():
            known = [said for said in found.said if said.number <= after.newest]
            place = max(
                (said for said in known if lead.fits(said.text)), key=attrgetter("number"), default=None
            )
            is_whole = all(any(one.fits(said.text) for said in known) for one in asked)
            if place is None or place.number >= after.below or not is_whole:
                continue
            if self._matches(found.row, wanted, fields):
                where = SearchPlace(place.number, after.newest)
                hits.append(SearchHit(found.row, snippet(place.text, asked), where))
        hits = sorted(hits, key=lambda hit: hit.place.below, reverse=True)[: max(limit, 1)]
        return SearchPage(hits, hits[-1].place if len(hits) == max(limit, 1) else None)

    def _matches(self, row: StreamRow, wanted: StreamQuery, fields: Sequence[tuple[str, str]]) -> bool:
        if wanted.orphaned and (not row.holder or self._streams[row.name].live.held_by(self._monotonic())):
            return False
        return all(getattr(row, name) == value for name, value in fields)

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
        self._check_open()
        self._check_appends([Append(stream, tuple(items), after, epoch)])
        return self._append(stream, items, epoch, grade, note)

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        return False  # whoever extends it sees every append

    def _check_appends(self, appends: Sequence[Append]) -> None:
        """Raises what speaks against one of them."""
        for one in appends:
            found = self._streams.get(one.stream)
            live = Live(one.stream, 0) if found is None else found.live
            if refusal := live.refusal(one.after, one.epoch):
                raise refusal
        items = [item for one in appends for item in one.items]
        check_size(items)
        if items and self._stored + sum(map(len, items)) > self.room:
            full = StorageFull("no room in memory")
            self._book.failed(full)
            raise full
        if items:  # what takes no room says nothing about it
            self._book.stored()

    def _append(
        self, stream: str, items: Sequence[bytes], epoch: int, grade: Grade, note: IndexUpdate | None
    ) -> int:
        found = self._streams[stream]
        self._stored += sum(map(len, items))
        before = found.live.head
        seq = next_seq(before, epoch)
        new = [Item(seq + at, bytes(data)) for at, data in enumerate(items)]
        found.items.extend(new)
        if items:
            found.live.head = found.live.tail = found.items[-1].seq
        if note is not None:
            self._change(found, note)
        if grade is Grade.SYNCED:
            self._make_sure(found)
        if new:
            self._waiters.hand(stream, before, new)
        return found.live.head

    async def claim(self, stream: str, owner: str, seconds: float, *, begins: bool = False) -> Claim | Held:
        self._check_open()
        now = self._monotonic()
        found = self._find_or_make(stream)
        if held := found.live.held_by(now):
            return held
        claim = found.live.take(owner, now + seconds)
        found.row = structs.replace(found.row, epoch=claim.epoch, holder=owner, updated=self._wall())
        found.sure_row = found.row  # a claim is sure, or its numbers could be given again
        return claim

    async def release(self, claim: Claim) -> None:
        self._check_open()
        live = self._live_of(claim)
        if live is not None:
            live.let_go()
            found = self._streams[claim.stream]
            found.row = structs.replace(found.row, holder="")

    async def note(self, stream: str, note: IndexUpdate) -> None:
        self._check_open()
        self._change(self._find_or_make(stream), note)

    async def merge(self, stream: str, merges: Sequence[Merge]) -> bool:
        self._check_open()
        found = self._streams.get(stream)
        if found is None or found.live.held_by(self._monotonic()):
            return False
        if fault := merge_fault(merges):
            raise ValueError(fault)
        numbers = {item.seq for item in found.items}
        if not all({merge.first, merge.item.seq} <= numbers for merge in merges):
            raise ValueError(f"the stream {stream} has no such items")
        kept: list[Item] = []
        for item in found.items:
            inside = next((merge for merge in merges if merge.first <= item.seq <= merge.item.seq), None)
            if inside is None or inside.item.seq == item.seq:
                kept.append(item if inside is None else inside.item)
        self._stored += sum(len(item.data) for item in kept) - sum(len(item.data) for item in found.items)
        found.items = kept
        self._make_sure(found)
        return True

    async def drop(self, stream: str) -> bool:
        self._check_open()
        found = self._streams.get(stream)
        if found is None or found.live.held_by(self._monotonic()):
            return False
        self._drop(stream)
        return True

    def _drop(self, stream: str) -> None:
        found = self._streams.pop(stream, None)
        if found is not None:
            self._stored -= sum(len(item.data) for item in found.items)
            self._waiters.gone(stream)

    async def look(self) -> None:
        self._check_open()

    def trouble(self) -> Trouble | None:
        return self._book.trouble

    async def change_all(self, changes: Changes) -> bool:
        self._check_open()
        check_distinct(changes)
        going = [self._streams[name] for name in changes.drops if name in self._streams]
        if any(found.live.held_by(self._monotonic()) for found in going):
            return False
        self._check_appends(changes.appends)
        for one in changes.appends:
            self._append(one.stream, one.items, one.epoch, Grade.SYNCED, one.note)
        for name, note in changes.notes:
            if name in self._streams:
                self._change(self._streams[name], note)
                self._make_sure(self._streams[name])
        for name in changes.drops:
            self._drop(name)
        return True

    async def close(self) -> None:
        self._closed = True
        self._waiters.close()
        await asyncio.sleep(0)

    # What is left after an accident

    def after_kill(self) -> "MemoryJournal":
        """A journal as the next process finds it: all items, no claim."""
        return self._survivor(power_lost=False)

    def after_power_loss(self) -> "MemoryJournal":
        """The same after the machine itself went dark: each stream ends at its last sure item."""
        return self._survivor(power_lost=True)

    def _survivor(self, *, power_lost: bool) -> "MemoryJournal":
        other = MemoryJournal(monotonic=self._monotonic, wall=self._wall, room=self.room)
        other._said = self._said
        for name, found in self._streams.items():
            copy = _Stream(name, 0.0)
            copy.row = copy.sure_row = found.sure_row if power_lost else found.row
            copy.said = copy.sure_said = found.sure_said if power_lost else found.said
            copy.items = found.items[: found.sure] if power_lost else found.items[:]
            copy.sure = len(copy.items)
            copy.live = Live(name, 0, copy.row.epoch, copy.items[-1].seq if copy.items else 0)
            other._streams[name] = copy
            other._stored += sum(len(item.data) for item in copy.items)
        return other

    # Small things

    def _make_sure(self, found: _Stream) -> None:
        """All that this stream is now survives a loss of power."""
        found.sure, found.sure_row, found.sure_said = len(found.items), found.row, found.said

    def _live_named(self, stream: str) -> Live | None:
        found = self._streams.get(stream)
        return None if found is None else found.live

    def _find_or_make(self, stream: str) -> _Stream:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = _Stream(stream, self._wall())
        return found

    def _change(self, found: _Stream, note: IndexUpdate) -> None:
        fields = kept_fields(note)
        words = fields.pop("words", "")
        if note.forgotten:
            found.said = ()
        if "title" in fields:
            found.said = tuple(said for said in found.said if not said.is_title)
            self._say(found, fields["title"], is_title=True)
        self._say(found, words)
        found.row = structs.replace(found.row, **fields, updated=self._wall())

    def _say(self, found: _Stream, text: str, *, is_title: bool = False) -> None:
        if text:
            self._said += 1
            found.said += (_Said(self._said, kept_words(text), is_title),)
