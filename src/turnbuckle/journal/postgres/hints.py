"""What one node tells the others about streams: that they have grown, and, if it is little, by what.

A hint that brings items spares the others a query. It is sent by the transaction that stores the items, so
nobody is told of anything that is not stored, and in the order of the commits. Whoever has all that came
before them takes them; everybody else looks. A notification may have 8,000 bytes, so much is only announced.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from turnbuckle.journal.port import Item

GONE = -1
"""In the place of a number: the stream was dropped."""
_PAGE_BYTES = 7000  # a notification may have 8,000
_DATA_BYTES = 2000  # of one stream; more is announced, and read by those who want it
_page = msgspec.json.Decoder(dict[str, msgspec.Raw])
_told = msgspec.json.Decoder(int | tuple[int, int, list[str]])


class Hint(Struct, frozen=True):
    """That a stream ends with the number `seq`, and with `data` behind the item `before` if there is any."""

    seq: int
    before: int = 0
    data: tuple[bytes, ...] = ()
    size: int = 0


def hint_of(before: int, items: Sequence[tuple[int, int, bytes]]) -> Hint:
    """Of items that are stored behind another."""
    seq = items[-1][1]
    size = sum(len(data) for _, _, data in items)
    if size > _DATA_BYTES:
        return Hint(seq)
    return Hint(seq, before, tuple(data for _, _, data in items), size)


def hint_of_one(before: int, item: tuple[int, int, bytes]) -> Hint:
    """Of one item."""
    _, seq, data = item
    return Hint(seq) if len(data) > _DATA_BYTES else Hint(seq, before, (data,), len(data))


def joined(one: Hint | None, other: Hint) -> Hint:
    """Both of them, the second of which was made later."""
    if one is None:
        return other
    if GONE in (one.seq, other.seq):
        return Hint(GONE)
    size = one.size + other.size
    follows = other.before == one.seq and other.seq - len(other.data) == one.seq
    if one.data and other.data and follows and size <= _DATA_BYTES:
        return Hint(other.seq, one.before, one.data + other.data, size)
    return Hint(max(one.seq, other.seq))


def hint_texts(hints: Mapping[str, Hint]) -> list[str]:
    """Whole notifications, each in one line. Names that do not fit into one are left out: nobody has such,
    and whoever does is found by looking."""
    with suppress(UnicodeDecodeError):
        page = msgspec.json.encode({stream: _told_of(hint) for stream, hint in hints.items()})
        if len(page) <= _PAGE_BYTES:  # as nearly always
            return [page.decode()]
    pages: list[list[str]] = []
    room = 0
    for stream, hint in hints.items():
        text = _text(stream, hint)
        if (more := len(text) + 1) > _PAGE_BYTES:
            continue
        if more > room:
            pages.append([])
            room = _PAGE_BYTES
        pages[-1].append(text.decode())
        room -= more
    return [f"{{{','.join(texts)}}}" for texts in pages]


def _told_of(hint: Hint) -> int | tuple[int, int, list[str]]:
    if not hint.data:
        return hint.seq
    return hint.before, hint.seq, [data.decode() for data in hint.data]


def _text(stream: str, hint: Hint) -> bytes:
    name = msgspec.json.encode(stream)
    with suppress(UnicodeDecodeError):
        text = b"%b:%b" % (name, msgspec.json.encode(_told_of(hint)))
        if len(text) < _PAGE_BYTES:
            return text
    return b"%b:%d" % (name, hint.seq)


def read_page(payload: str) -> dict[str, msgspec.Raw]:
    """The streams of a notification. Raises msgspec.DecodeError."""
    return _page.decode(payload)


def read_hint(told: msgspec.Raw) -> tuple[int, int, list[Item]]:
    """The number that a stream ends with, and the items behind an earlier one, if they were told. Raises
    msgspec.DecodeError."""
    found = _told.decode(told)
    if isinstance(found, int):
        return found, 0, []
    before, seq, words = found
    first = seq - len(words) + 1
    return seq, before, [Item(first + at, data.encode()) for at, data in enumerate(words)]
