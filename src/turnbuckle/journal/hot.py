"""The newest items of streams that are being written, in memory, so that a reader who follows a run needs no
store.

A tail is a run of items without gaps up to the stream's head, and a floor: everything behind the floor is in
it. A cursor at or behind the floor is answered from the tail, exactly as the store would; any other is not
answered here. Whoever keeps tails adds what was committed, after it was committed, and forgets the tail of a
stream to which it does not add: so a tail is never behind its stream, and never ahead of the store.
"""

from collections import OrderedDict
from collections.abc import Sequence

from turnbuckle.journal.port import Item

TAIL_ITEMS = 512  # about one page of the store: who is further behind reads pages anyway
TAIL_BYTES = 256 << 10  # what a reader may be behind while a socket of usual size takes what it was sent
ALL_BYTES = 64 << 20  # 256 full tails, more than one process drives well
_ITEM_BYTES = 128  # what an item costs besides its data: two objects, a number and a place in a list


class _StreamTail:
    __slots__ = ("first", "floor", "items", "size")

    def __init__(self, floor: int, first: int) -> None:
        self.floor = floor
        self.first = first  # the number of the first item; inside an epoch the others follow without gaps
        self.items: list[Item] = []
        self.size = 0

    def extend(self, items: Sequence[Item]) -> None:
        self.items.extend(items)
        for item in items:
            self.size += _ITEM_BYTES + len(item.data)

    def cut(self, most_items: int, most_bytes: int) -> None:
        """Let the oldest go. A quarter more than needed goes, so that not every append has to cut."""
        most_items -= most_items // 4
        most_bytes -= most_bytes // 4
        gone = 0
        for item in self.items:
            if self.size <= most_bytes and len(self.items) - gone <= most_items:
                break
            self.size -= _ITEM_BYTES + len(item.data)
            gone += 1
        self.floor = self.items[gone - 1].seq
        self.first = self.floor + 1
        del self.items[:gone]


class HotTails:
    """All tails of one process. The stream that was longest not written gives way when there is no room."""

    def __init__(
        self, *, tail_items: int = TAIL_ITEMS, tail_bytes: int = TAIL_BYTES, all_bytes: int = ALL_BYTES
    ) -> None:
        self._tail_items = tail_items
        self._tail_bytes = tail_bytes
        self._all_bytes = all_bytes
        self._tails: OrderedDict[str, _StreamTail] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._tails)

    def read(self, stream: str, after: int, limit: int) -> list[Item] | None:
        """The next items after a cursor; None if the store must be asked."""
        tail = self._tails.get(stream)
        if tail is None or after < tail.floor:
            return None
        start = max(after - tail.first + 1, 0)
        return tail.items[start : start + max(limit, 1)]

    def add(self, stream: str, before: int, items: Sequence[Item]) -> None:
        """These items, at least one and all of one epoch, were committed behind the item `before`."""
        tail = self._tails.get(stream)
        first = items[0].seq
        if tail is not None:
            self.size -= tail.size
        if tail is None or first != tail.first + len(tail.items):  # another epoch, or something was left out
            tail = self._tails[stream] = _StreamTail(before, first)
        self._tails.move_to_end(stream)
        tail.extend(items)
        if len(tail.items) > self._tail_items or tail.size > self._tail_bytes:
            tail.cut(self._tail_items, self._tail_bytes)
        self.size += tail.size
        while self.size > self._all_bytes:
            _, oldest = self._tails.popitem(last=False)
            self.size -= oldest.size

    def add_one(self, stream: str, before: int, item: Item) -> None:
        """The same for one item, as nearly always."""
        tail = self._tails.get(stream)
        size = _ITEM_BYTES + len(item.data)
        if (
            tail is None
            or item.seq != tail.first + len(tail.items)
            or len(tail.items) >= self._tail_items
            or tail.size + size > self._tail_bytes
            or self.size + size > self._all_bytes
        ):
            self.add(stream, before, (item,))
            return
        tail.items.append(item)
        tail.size += size
        self.size += size
        self._tails.move_to_end(stream)

    def forget(self, stream: str) -> None:
        tail = self._tails.pop(stream, None)
        if tail is not None:
            self.size -= tail.size

    def clear(self) -> None:
        self._tails.clear()
        self.size = 0
