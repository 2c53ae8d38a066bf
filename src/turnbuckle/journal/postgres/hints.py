"""What one node tells the others about streams: that they have grown, and, if it is little, by what.

A hint that brings items spares the others a query. It is sent by the transaction that stores the items, so
nobody is told of anything that is not stored, and in the order of the commits. Whoever has all that came
before them takes them; everybody else looks. A notification may have 8,000 bytes, so much is only announced.
"""

from collections.abc import Mapping, Sequence

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
    """That a stream ends with the number `seq`, and with `data` behind the item `before` if there is any. It
    is true if the items of the stream with this `key` are stored in the same transaction; 0: it is true
    already."""

    seq: int
    before: int = 0
    data: tuple[bytes, ...] = ()
    size: int = 0
    key: int = 0


class HintPart(Struct, frozen=True):
    """A hint as a part of a notification: parts of one `page` go together."""

    text: str
    key: int
    page: int


def hint_of(before: int, items: Sequence[tuple[int, int, bytes]]) -> Hint:
    """Of items that are stored behind another."""
    key, seq, _ = items[-1]
    size = sum(len(data) for _, _, data in items)
    if size > _DATA_BYTES:
        return Hint(seq, key=key)
    return Hint(seq, before, tuple(data for _, _, data in items), size, key)


def joined(one: Hint | None, other: Hint) -> Hint:
    """Both of them, the second of which was made later."""
    if one is None:
        return other
    if GONE in (one.seq, other.seq):
        return Hint(GONE)
    key, size = one.key or other.key, one.size + other.size
    follows = other.before == one.seq and other.seq - len(other.data) == one.seq
    if one.data and other.data and follows and size <= _DATA_BYTES:
        return Hint(other.seq, one.before, one.data + other.data, size, key)
    return Hint(max(one.seq, other.seq), key=key)


def hint_parts(hints: Mapping[str, Hint]) -> list[HintPart]:
    """Names that do not fit into a notification are left out: nobody has such, and whoever does is found by
    looking."""
    parts: list[HintPart] = []
    size = page = 0
    for stream, hint in hints.items():
        text = _text(stream, hint)
        if (more := len(text.encode()) + 1) > _PAGE_BYTES:
            continue
        if size + more > _PAGE_BYTES:
            page, size = page + 1, 0
        parts.append(HintPart(text, hint.key, page))
        size += more
    return parts


def hint_texts(parts: Sequence[HintPart]) -> list[str]:
    """Whole notifications."""
    pages: dict[int, list[str]] = {}
    for part in parts:
        pages.setdefault(part.page, []).append(part.text)
    return [f"{{{','.join(texts)}}}" for texts in pages.values()]


def _text(stream: str, hint: Hint) -> str:
    name = msgspec.json.encode(stream).decode()
    if hint.data:
        try:
            words = [data.decode() for data in hint.data]
        except UnicodeDecodeError:
            return f"{name}:{hint.seq}"
        told = msgspec.json.encode((hint.before, hint.seq, words)).decode()
        if len(f"{name}:{told}".encode()) < _PAGE_BYTES:
            return f"{name}:{told}"
    return f"{name}:{hint.seq}"


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
