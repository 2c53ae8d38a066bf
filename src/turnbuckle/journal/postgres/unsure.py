"""Items that were stored and may still be lost: by a crash of the database, or by a standby that takes its
place.

They are kept until a sure commit of their stream is behind them, and bounded: a stream with more of them
than fits makes its next append a sure one.
"""

from turnbuckle.journal.postgres.rows import ItemRow

MOST_BYTES = 4 << 20
_ITEM_BYTES = 128  # what an item costs besides its data


class UnsureItems:
    """Those of all streams that this process writes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._items: dict[str, list[ItemRow]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, stream: str, items: list[ItemRow]) -> None:
        """These were stored, and nobody waited for the disk."""
        if items:
            self._items.setdefault(stream, []).extend(items)
            more = sum(_ITEM_BYTES + len(data) for _, _, data in items)
            self._sizes[stream] = self._sizes.get(stream, 0) + more

    def sure(self, stream: str) -> None:
        """All that was stored so far is on the disk, or nobody here needs it any more."""
        self._items.pop(stream, None)
        self._sizes.pop(stream, None)

    def streams(self) -> list[str]:
        """Those of which something may be lost."""
        return list(self._items)

    def is_full(self, stream: str) -> bool:
        return self._sizes.get(stream, 0) >= self._most_bytes

    def behind(self, stream: str, seq: int) -> list[ItemRow]:
        """What follows a number."""
        return [item for item in self._items.get(stream, ()) if item[1] > seq]
