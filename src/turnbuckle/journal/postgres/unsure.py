"""Items that were stored and may still be lost: by a crash of the database, or by a standby that takes its
place.

What nobody waited for is kept until a sure commit of its stream is behind it, and bounded: a stream with more
of it than fits makes its next append a sure one. What is sure on the disk of the database may be missing on a
standby that nobody waits for (`synchronous_standby_names`). It is kept for a minute, and only as much as
fits: a standby that is further behind has lost it.
"""

from collections import deque
from collections.abc import Callable, Sequence

from turnbuckle.journal.postgres.rows import ItemRow

MOST_BYTES = 4 << 20
MOST_SURE_BYTES = 256 << 10
KEPT_SECONDS = 60.0
_ITEM_BYTES = 128  # what an item costs besides its data


def _size(item: ItemRow) -> int:
    return _ITEM_BYTES + len(item[2])


class _UnsureStream:
    """Of one stream. Of `sure` items it is known when they became so."""

    __slots__ = ("items", "size", "sure", "sure_size")

    def __init__(self) -> None:
        self.items: list[ItemRow] = []
        self.size = 0
        self.sure: deque[tuple[float, ItemRow]] = deque()
        self.sure_size = 0

    def drop_old(self, now: float) -> None:
        while self.sure and (self.sure_size > MOST_SURE_BYTES or self.sure[0][0] < now - KEPT_SECONDS):
            self.sure_size -= _size(self.sure.popleft()[1])


class UnsureItems:
    """Those of all streams that this process writes."""

    def __init__(self, monotonic: Callable[[], float], most_bytes: int = MOST_BYTES) -> None:
        self._monotonic = monotonic
        self._most_bytes = most_bytes
        self._streams: dict[str, _UnsureStream] = {}
        self._expired_at = monotonic()

    def add(self, stream: str, items: Sequence[ItemRow]) -> None:
        """These were stored, and nobody waited for the disk."""
        if items:
            kept = self._streams.setdefault(stream, _UnsureStream())
            kept.items.extend(items)
            kept.size += sum(map(_size, items))

    def add_one(self, stream: str, item: ItemRow) -> None:
        """The same for one item, as nearly always."""
        kept = self._streams.get(stream)
        if kept is None:
            kept = self._streams[stream] = _UnsureStream()
        kept.items.append(item)
        kept.size += _ITEM_BYTES + len(item[2])

    def sure(self, stream: str, items: Sequence[ItemRow] = ()) -> None:
        """These and all that was stored before them are on the disk."""
        self.add(stream, items)
        kept = self._streams.get(stream)
        if kept is None:
            return
        now = self._monotonic()
        kept.sure.extend((now, item) for item in kept.items)
        kept.sure_size += kept.size
        kept.items, kept.size = [], 0
        kept.drop_old(now)
        if now - self._expired_at >= KEPT_SECONDS:
            self._expire(now)

    def _expire(self, now: float) -> None:
        """Streams that are held for hours, and in which nothing happens, have nothing here."""
        self._expired_at = now
        for stream, kept in tuple(self._streams.items()):
            kept.drop_old(now)
            if not kept.sure and not kept.items:
                del self._streams[stream]

    def forget(self, stream: str) -> None:
        """Nobody here needs any of it."""
        self._streams.pop(stream, None)

    def streams(self) -> list[str]:
        """Those of which something may be lost."""
        return list(self._streams)

    def is_full(self, stream: str) -> bool:
        kept = self._streams.get(stream)
        return kept is not None and kept.size >= self._most_bytes

    def behind(self, stream: str, seq: int) -> list[ItemRow]:
        """What follows a number."""
        kept = self._streams.get(stream)
        if kept is None:
            return []
        since = self._monotonic() - KEPT_SECONDS
        sure = [item for at, item in kept.sure if at >= since]
        return [item for item in (*sure, *kept.items) if item[1] > seq]
