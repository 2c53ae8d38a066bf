"""What a journal promises. Bodies: `memory`, `sqlite`, `postgres`. Whoever uses one knows only this file.

A journal holds streams. A stream is a list of items, opaque bytes with a sequence number, that only ever
grows at its end. An item that `read` returns or `wait` hands over is stored: there is no other way to learn
of one. Of a stream that nobody writes any more several items may be made one (`merge`); it has the number of
the last of them, so all other numbers stay.

Grades. `FLUSHED` items survive the death of the process, `SYNCED` items also the loss of power. A `SYNCED`
append makes everything before it in its stream sure as well. After a loss of power a stream is cut behind
some item at or after its last sure one, never in the middle: what follows the last sure item is provisional.

Writers. Who wants to append must hold the stream's claim. Each claim has an epoch, larger by one than the
last. An append names the epoch of its claim and the head it knows; if either is no longer true it is refused
and nothing is stored. So a writer that was stalled while another took its place can do no harm when it wakes.

Numbers. The items of epoch `e` are numbered from `(e << 32) + 1` on, without gaps but those that `merge`
leaves. The first epoch is 0, so a run that never changed hands counts 1, 2, 3. A number is never given twice,
not even when items of an earlier epoch were lost, so a cursor is one integer, stays good forever, and fits
into a JavaScript number.

Several streams. `change_all` appends, notes and drops in as many streams as it likes, and happens as a whole.
What belongs together is changed by it and by nothing else: a session and its runs are deleted so.

Words. A note may carry words by which its stream can be found. They are added to those of earlier notes, and
stored with the items of the append or not at all; the title is found too, as it is now. `search` gives
streams that have every word that was asked for, anywhere; case and accents do not matter, and the last word
may be the beginning of one.

Pages. A page of a list or a search costs what it shows. Rows that come and go move no other. A search shows
what was noted before its first page.

Errors. What a caller must expect while using a sound program correctly is raised as one of these:

    JournalError
    ├── Fenced           the claim is no longer the newest: stop, and start nothing
    ├── Conflict         the claim is good but the head is another than the writer thinks
    ├── Gone             the stream was dropped while somebody waited for it
    ├── Closed           the journal was closed
    ├── TooLarge         an item is larger than any journal takes; it is a ValueError, too
    └── StorageError     the store did not do its work; nothing of the append is visible
        ├── StorageFull      no room; works again when there is some
        ├── StorageFailed    the machine reported an error
        │   ├── StorageAway      it is elsewhere, and cannot be reached
        │   ├── StorageLocked    somebody holds what has to be changed
        │   ├── StorageSlow      it takes longer than it may
        │   ├── ReadOnly         the folder or its files may not be written
        │   ├── OutOfFiles       the process may open no more files
        │   └── FolderGone       the folder was deleted, moved away, or another took its place
        ├── Damaged          stored bytes are not what was written
        ├── FormatUnknown    written by another program or a newer version
        └── InUse            another process writes to this journal
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

EPOCH_BITS = 32
READ_LIMIT = 500
READ_BYTES = 1 << 20
MAX_ITEM = 64 << 20
MAX_WORDS = 64 << 10  # characters of one note; a long reply has a tenth of that
SEARCH_LIMIT = 20


class Grade(Enum):
    """How much an appended item must survive before the append returns."""

    FLUSHED = "flushed"
    SYNCED = "synced"


class Item(Struct, frozen=True, gc=False):
    """One stored item."""

    seq: int
    data: bytes


Take = Callable[[Sequence[Item]], bool]
"""Takes items as they are stored, and says whether it wants more of them in this way. It must be quick."""


Landed = Callable[[int, "StorageError | None"], None]


class Merge(Struct, frozen=True):
    """Items that become one: all from the number `first` on up to that of `item`, which takes their place."""

    first: int
    item: Item


class Claim(Struct, frozen=True):
    """The right to append to a stream. `head` is where the stream ended when it was claimed."""

    stream: str
    owner: str
    epoch: int
    head: int


class Held(Struct, frozen=True):
    """The stream is claimed by somebody else, for so many seconds more unless it is renewed."""

    stream: str
    by: str
    seconds: float


class IndexUpdate(Struct, frozen=True, omit_defaults=True):
    """Changes to a stream's row in the index; what is unset stays as it is. The journal gives these no
    meaning.

    `words` are not part of the row: they are what the stream is found by, besides what earlier notes brought.
    Of more than `MAX_WORDS` characters the first are taken. With `forgotten` the stream is found by nothing
    that was noted before, its title included, which it keeps."""

    kind: str | UnsetType = UNSET
    parent: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    mark: str | UnsetType = UNSET
    words: str | UnsetType = UNSET
    forgotten: bool = False


class Append(Struct, frozen=True):
    """Items for one of several streams that change together, as for `Journal.append`."""

    stream: str
    items: tuple[bytes, ...]
    after: int
    epoch: int
    note: IndexUpdate | None = None


class Changes(Struct, frozen=True, kw_only=True):
    """What happens to several streams as a whole. No stream may be named in two places."""

    appends: Sequence[Append] = ()
    notes: Sequence[tuple[str, IndexUpdate]] = ()
    drops: Sequence[str] = ()


class StreamRow(Struct, frozen=True):
    """One stream in a list. `holder` claimed it last and did not release it, and may be dead by now."""

    name: str
    kind: str
    parent: str
    title: str
    status: str
    user: str
    created: float
    updated: float
    epoch: int
    holder: str
    mark: str = ""

    @property
    def place(self) -> tuple[float, str]:
        """Where this row stands in a list of what was last touched: `streams` gives the rows after it."""
        return (self.updated, self.name)

    @property
    def born(self) -> tuple[float, str]:
        """The same by creation."""
        return (self.created, self.name)


class SearchPlace(Struct, frozen=True, array_like=True):
    """Where a page of a search ended, and what was the newest when the first page was asked for."""

    below: int
    newest: int


class SearchHit(Struct, frozen=True):
    """A stream that was searched for, and a line of plain text around the place where the leading word was
    last noted. `place` is where this hit stands: the page behind it begins there."""

    row: StreamRow
    snippet: str
    place: SearchPlace


class SearchPage(Struct, frozen=True):
    """What was found. With `next` there is more to look through, even if nothing was found so far."""

    hits: list[SearchHit]
    next: SearchPlace | None = None


StreamOrder = Literal["touched", "newest", "oldest"]  # last updated first; by creation, either way


class StreamQuery(Struct, frozen=True):
    """Which streams to list; what is unset matches every one. `orphaned`: claimed by somebody who is gone."""

    kind: str | UnsetType = UNSET
    parent: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    orphaned: bool = False
    order: StreamOrder = "touched"

    def fields(self) -> list[tuple[str, str]]:
        """What a stream's row must hold."""
        pairs = ((name, getattr(self, name)) for name in ("kind", "parent", "status", "user", "name"))
        return [(name, value) for name, value in pairs if value is not UNSET]


EVERY_STREAM = StreamQuery()


class JournalError(Exception):
    """The root of the tree that is drawn above."""


class Fenced(JournalError):
    """The claim is not, or no longer, the newest."""

    def __init__(self, stream: str, epoch: int, newest: int) -> None:
        super().__init__(f"stream {stream}: epoch {epoch} may not write, the newest is {newest}")
        self.stream = stream
        self.epoch = epoch
        self.newest = newest


class Conflict(JournalError):
    """The stream does not end where the writer thinks it does."""

    def __init__(self, stream: str, after: int, head: int) -> None:
        super().__init__(f"stream {stream}: ends at {head}, not at {after}")
        self.stream = stream
        self.after = after
        self.head = head


class Gone(JournalError):
    """The stream was dropped."""


class Closed(JournalError):
    """The journal was closed."""


class TooLarge(JournalError, ValueError):
    """An item has more bytes than any journal takes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"an item may have at most {MAX_ITEM} bytes, and this one has {size}")
        self.size = size


class StorageError(JournalError):
    """The store did not do its work. `fault` names what is wrong with it in one word, and `passes` says
    whether the same may work later, without anybody who repairs the store."""

    fault = "failed"
    passes = False


class StorageFull(StorageError):
    """There is no room. Nothing was stored; the same append works when there is room again."""

    fault = "full"
    passes = True


class StorageFailed(StorageError):
    """The machine reported an error. Nothing is visible now, but a restart may find the items after all."""

    passes = True


class StorageAway(StorageFailed):
    """The store is not on this machine, and cannot be reached: it restarts, or the way to it is cut."""

    fault = "away"


class StorageLocked(StorageFailed):
    """Somebody holds what has to be changed."""

    fault = "locked"


class StorageSlow(StorageFailed):
    """What was asked of the store took longer than it may."""

    fault = "slow"


class ReadOnly(StorageFailed):
    """The folder, or a file in it, may not be written."""

    fault = "read_only"


class OutOfFiles(StorageFailed):
    """The process has reached its limit of open files."""

    fault = "out_of_files"


class FolderGone(StorageFailed):
    """The folder is not there any more, or another one has its name. What is written now would be lost."""

    fault = "gone"


class Damaged(StorageError):
    """What is stored is not what was written. `seq` is the first item that cannot be trusted, if known."""

    fault = "damaged"

    def __init__(self, stream: str, seq: int | None, why: str) -> None:
        place = f"stream {stream}{'' if seq is None else f', item {seq}'}: " if stream else ""
        super().__init__(f"{place}{why}")
        self.stream = stream
        self.seq = seq
        self.why = why


class FormatUnknown(StorageError):
    """The file is not a journal, or one of a newer version."""

    fault = "unknown_format"


class InUse(StorageError):
    """Another process writes to this journal."""

    fault = "in_use"


class Trouble(Struct, frozen=True):
    """What a store suffers from: the word and the sentence of its last error, and since when."""

    fault: str
    why: str
    since: float


class Reader(Protocol):
    """The half of a journal that changes nothing."""

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        """The next items after a cursor: at most `limit`, and about a megabyte. An empty list is the end."""
        ...

    async def head(self, stream: str) -> int:
        """The number of the last item; 0 if there is none."""
        ...

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        """Return as soon as the stream has an item after the cursor. With the cursor 0 it need not exist yet.
        A body may hand to `take` what is stored meanwhile, at once and in order, and then waits on until that
        says no or raises. Whoever gives one looks again when this returns, for whatever reason.

        Raises `Gone` if it is dropped, or if it is not there although the cursor says that it once was.
        """
        ...

    async def streams(
        self, wanted: StreamQuery = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        """A page of the index, behind the last row of the page before: its `place`, or its `born` in an order
        of creation."""
        ...

    async def search(
        self,
        words: str,
        wanted: StreamQuery = EVERY_STREAM,
        limit: int = SEARCH_LIMIT,
        after: SearchPlace | None = None,
    ) -> SearchPage:
        """The streams that have all these words, those first in which the leading one was noted last. The
        longest word leads, but one that may be the beginning of another only if there is no whole one.

        Any text may be searched for: it has no signs with a meaning. Words that stand joined by signs, as in
        `foo_bar`, are found joined. Without any letter or number in it nothing is found.

        One page looks at a bounded number of places. If that is not enough it holds fewer hits than were
        asked for, or none, and `next` leads on.
        """
        ...

    async def close(self) -> None:
        """End every wait, finish what was begun, and let go of the store. May be called again."""
        ...


class Journal(Reader, Protocol):
    """A journal that can be written."""

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
        """Store the items, and the note with them or neither, and return the new head.

        Appends to one stream may be sent without waiting for the earlier ones, each with the head that the
        one before will give (`head_after`). If one fails, those behind it fail too. A writer that waits is
        slowed to the pace of the store; one that does not must bound what it sends ahead. If the caller is
        cancelled the items may or may not be stored.
        """
        ...

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        """Begin to store one `FLUSHED` item, and return without a wait. `landed` is called on the loop, once:
        with the new head, or with what went wrong. It must be quick, and must not raise. False if nothing was
        begun, for whatever reason: then `append` does it, or tells why not."""
        ...

    async def claim(self, stream: str, owner: str, seconds: float, *, begins: bool = False) -> Claim | Held:
        """Become the stream's only writer until `seconds` have passed without `renew`. Makes the stream if
        need be.

        The journal tells the time by itself. `owner` names a process, and no other process ever has the same
        name. `begins`: the first items of a new stream follow at once. Then the claim may be stored with
        them, and if they are not, it was none. If they are only `FLUSHED`, the stream may be gone with the
        power, and its numbers with it: so nobody may use its name again."""
        ...

    async def renew(self, claim: Claim, seconds: float) -> bool:
        """Hold the claim for longer. False if it was lost; a claim that only ran out can still be renewed."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give the claim back: nothing can be appended with it any more. Does nothing if it was lost."""
        ...

    def still_mine(self, claim: Claim) -> bool:
        """Whether the claim is known to be good now. Ask it right before what cannot be undone."""
        ...

    async def note(self, stream: str, note: IndexUpdate) -> None:
        """Change the stream's row in the index. Needs no claim. Makes the stream if need be."""
        ...

    async def merge(self, stream: str, merges: Sequence[Merge]) -> bool:
        """Make one item of several, for every merge or for none, and sure when it returns. A cursor at a
        number that is gone gives what follows it, the merged item first. The row in the index stays as it is.

        False if the stream is not there, or claimed. Raises ValueError if the merges are not in order, name
        numbers that the stream does not have, or reach over the end of an epoch.
        """
        ...

    async def drop(self, stream: str) -> bool:
        """Delete the stream and its row forever. False if there is none, or if it is claimed. Its name may
        not be used again: numbers would start fresh."""
        ...

    async def look(self) -> None:
        """Look at the store itself, past whatever is kept in memory, in a bounded number of places. Raises
        StorageError; that it does not says only that nothing was found."""
        ...

    def trouble(self) -> Trouble | None:
        """What the store suffers from, as far as its last works have shown; None if all is well. A write that
        succeeds ends the trouble of earlier ones. Damage that was found stays."""
        ...

    async def change_all(self, changes: Changes) -> bool:
        """Everything is stored, and sure when it returns, or nothing is, also if the process dies meanwhile.

        False, and nothing was changed, if one of those to be dropped is claimed. A note on a stream that is
        not there, and the drop of one, are left out. Raises what `append` raises, for any of the appends.
        """
        ...


def first_seq(epoch: int) -> int:
    """The number of an epoch's first item."""
    return (epoch << EPOCH_BITS) + 1


def next_seq(head: int, epoch: int) -> int:
    """The number that follows `head` when somebody appends under `epoch`."""
    return max(head + 1, first_seq(epoch))


def head_after(head: int, epoch: int, count: int) -> int:
    """Where a stream ends after `count` more items."""
    return next_seq(head, epoch) + count - 1 if count else head
