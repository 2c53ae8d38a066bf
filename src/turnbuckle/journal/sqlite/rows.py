"""Rows and what they mean: items with their checksums, and the index of streams.

A checksum covers an item's bytes, its number and its stream, so a changed byte and a row in the wrong place are both
found. Numbers have no gaps inside an epoch, so a missing row is found too. Every read checks both.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from msgspec import UNSET, structs

from turnbuckle.journal.port import READ_BYTES, Damaged, Item, Note, StreamRow, Wanted, next_seq
from turnbuckle.journal.sqlite.database import Connection

ItemRow = tuple[int, int, int, bytes]
Statement = tuple[str, tuple[Any, ...]]

INSERT_ITEM = "INSERT INTO item(stream, seq, sum, data) VALUES(?, ?, ?, ?)"
SELECT_ITEMS = "SELECT seq, sum, data FROM item WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?"
_COLUMNS = "name, kind, parent, title, status, user, created, updated, epoch, holder"
_EPOCH_MASK = (1 << 32) - 1
_SPREAD = 2654435761  # keeps the sums of equal items in neighbouring streams apart
_SUM_MASK = 0xFFFFFFFF


def checksum(key: int, seq: int, data: bytes) -> int:
    return crc32(data, (key * _SPREAD + seq) & _SUM_MASK)


def item_rows(key: int, head: int, epoch: int, items: Sequence[bytes]) -> list[ItemRow]:
    seq = next_seq(head, epoch)
    return [(key, seq + at, checksum(key, seq + at, data), data) for at, data in enumerate(items)]


def trusted(stream: str, key: int, after: int, rows: Iterable[tuple[int, int, bytes]]) -> list[Item]:
    """The items of these rows up to the first one that is not what was written. Raises if that is the very first."""
    items: list[Item] = []
    size = 0
    last = after
    for seq, stored, data in rows:
        why = fault(key, last, seq, stored, data)
        if why:
            if items:
                break
            raise Damaged(stream, seq, why)
        items.append(Item(seq, data))
        last = seq
        size += len(data)
        if size >= READ_BYTES:
            break
    return items


def fault(key: int, last: int, seq: int, stored: int, data: object) -> str:
    """What is wrong with a row that follows `last`; empty if nothing is."""
    if seq != last + 1 and seq & _EPOCH_MASK != 1:
        return f"items are missing after {last}"
    if not isinstance(data, bytes) or checksum(key, seq, data) != stored:
        return "the checksum does not fit"
    return ""


def read_items(connection: Connection, stream: str, key: int, after: int, limit: int) -> list[Item]:
    cursor = connection.execute(SELECT_ITEMS, (key, after, max(limit, 1)))
    try:
        return trusted(stream, key, after, cursor)
    finally:
        cursor.close()  # a query left open would keep the log from being reused


def find_stream(connection: Connection, name: str) -> tuple[int, int] | None:
    """The key and the newest epoch of a stream."""
    found = connection.execute("SELECT id, epoch FROM stream WHERE name = ?", (name,)).fetchone()
    return None if found is None else (int(found[0]), int(found[1]))


def find_head(connection: Connection, key: int) -> int:
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM item WHERE stream = ?", (key,)).fetchone()[0])


def highest_key(connection: Connection) -> int:
    return int(
        connection.execute(
            "SELECT max((SELECT coalesce(max(id), 0) FROM stream), (SELECT coalesce(max(stream), 0) FROM dropped))"
        ).fetchone()[0]
    )


def list_streams(
    connection: Connection, wanted: Wanted, after: tuple[float, str] | None, limit: int
) -> list[StreamRow]:
    pairs = ((field, getattr(wanted, field)) for field in ("kind", "parent", "status", "user"))
    conditions: list[Statement] = [(f"{field} = ?", (value,)) for field, value in pairs if value is not UNSET]
    if wanted.orphaned:
        conditions.append(("holder != ''", ()))
    if after is not None:
        conditions.append(("(updated, name) < (?, ?)", after))
    where = " AND ".join(text for text, _ in conditions) or "1"
    values = [value for _, some in conditions for value in some]
    sql = f"SELECT {_COLUMNS} FROM stream WHERE {where} ORDER BY updated DESC, name DESC LIMIT ?"
    return [StreamRow(*row) for row in connection.execute(sql, (*values, limit))]


def make_stream(key: int, name: str, epoch: int, now: float) -> Statement:
    return (
        f"INSERT INTO stream(id, {_COLUMNS}) VALUES(?, ?, '', '', '', '', '', ?, ?, ?, '')",
        (key, name, now, now, epoch),
    )


def set_claim(key: int, epoch: int, holder: str, now: float) -> Statement:
    return ("UPDATE stream SET epoch = ?, holder = ?, updated = ? WHERE id = ?", (epoch, holder, now, key))


def set_released(key: int) -> Statement:
    return ("UPDATE stream SET holder = '' WHERE id = ?", (key,))


def set_note(key: int, note: Note, now: float) -> Statement:
    fields = {name: value for name, value in structs.asdict(note).items() if value is not UNSET} | {"updated": now}
    columns = ", ".join(f"{name} = ?" for name in fields)
    return (f"UPDATE stream SET {columns} WHERE id = ?", (*fields.values(), key))


def set_dropped(key: int) -> list[Statement]:
    """From here on the stream does not exist; its items are deleted little by little."""
    return [("INSERT INTO dropped(stream) VALUES(?)", (key,)), ("DELETE FROM stream WHERE id = ?", (key,))]
