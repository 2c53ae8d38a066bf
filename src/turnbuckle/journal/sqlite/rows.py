"""Rows and what they mean: items with their checksums, and the index of streams.

A checksum covers an item's bytes, its number and its stream, so a changed byte and a row in the wrong place
are both found. Numbers have no gaps inside an epoch, so a missing row is found too. Every read checks both.

An item that took the place of others says how many numbers before its own it stands for: in the upper half of
the column that holds its checksum, which covers that too. So such a gap is known from one that damage made.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from turnbuckle.journal.port import (
    MAX_WORDS,
    READ_BYTES,
    Damaged,
    IndexUpdate,
    Item,
    Merge,
    StreamOrder,
    StreamQuery,
    StreamRow,
    next_seq,
)
from turnbuckle.journal.sqlite.checksums import SUM_BITS, SUM_MASK, checksum, seed
from turnbuckle.journal.sqlite.database import SqlConnection, transaction
from turnbuckle.journal.words import kept_fields

ItemRow = tuple[int, int, int, bytes]
Statement = tuple[str, tuple[Any, ...]]

INSERT_ITEM = "INSERT INTO item(stream, seq, sum, data) VALUES(?, ?, ?, ?)"
INSERT_ITEMS = tuple(f"{INSERT_ITEM}{', (?, ?, ?, ?)' * more}" for more in range(16))
"""The same for one, for two, and so on: so many at once need no transaction around them."""
SELECT_ITEMS = "SELECT seq, sum, data FROM item WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?"
_SELECT_SMALL = (
    "SELECT seq, sum, CASE WHEN length(data) > ? THEN NULL ELSE data END FROM item "
    "WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?"
)
_LAST_OF_PART = """SELECT coalesce(max(id), (SELECT upto FROM indexed)) FROM (
    SELECT id, sum(length(text)) OVER (ORDER BY id) - length(text) AS before FROM (
        SELECT id, text FROM word WHERE id > (SELECT upto FROM indexed) ORDER BY id LIMIT 64))
    WHERE before < 131072"""
INDEX_WORDS: tuple[Statement, ...] = (
    (
        "INSERT INTO word_index(rowid, text) SELECT id, text FROM word "
        f"WHERE id > (SELECT upto FROM indexed) AND id <= ({_LAST_OF_PART})",
        (),
    ),
    (f"UPDATE indexed SET upto = ({_LAST_OF_PART})", ()),
)
"""What brings a bounded part of the newer texts into the index; all who write wait meanwhile, a few
milliseconds. Something is always written, so that the transaction reaches the disk with all before it."""
INDEX_NOTHING: Statement = ("UPDATE indexed SET upto = upto", ())
"""The same for no text, where the index is damaged."""
_SWEEP_ROWS = 2000
_SWEEP_WORDS = 50  # each of them is taken apart again to be taken out of the index
SWEEP = (
    (
        "DELETE FROM item WHERE stream = ?1 AND seq IN (SELECT seq FROM item WHERE stream = ?1 LIMIT "
        f"{_SWEEP_ROWS})"
    ),
    f"DELETE FROM word WHERE id IN (SELECT id FROM word WHERE stream = ?1 LIMIT {_SWEEP_WORDS})",
)
"""What deletes a bounded part of a dropped stream."""
COLUMNS = tuple("name kind parent title status user created updated epoch holder mark".split())
"""Of a stream's row, behind its key. A file that was not yet brought up to date ends earlier."""
_MAKE_STREAM = (
    f"INSERT INTO stream(id, {', '.join(COLUMNS)}) VALUES(?, ?, '', '', '', '', '', ?, ?, ?, ?, '')"
)
_NOTED = ("kind", "parent", "title", "status", "user", "mark")
_MAKE_NOTED = (
    f"INSERT INTO stream(id, name, {', '.join(_NOTED)}, created, updated, epoch, holder) "
    f"VALUES({', '.join('?' * (len(_NOTED) + 6))})"
)
_ORDERS: dict[StreamOrder, tuple[str, str]] = {
    "touched": ("updated", "DESC"),
    "newest": ("created", "DESC"),
    "oldest": ("created", "ASC"),
}
_EPOCH_MASK = (1 << 32) - 1


def item_rows(key: int, head: int, epoch: int, items: Sequence[bytes]) -> list[ItemRow]:
    seq = next_seq(head, epoch)
    return [(key, seq + at, checksum(key, seq + at, data), bytes(data)) for at, data in enumerate(items)]


def trusted(stream: str, key: int, after: int, rows: Iterable[tuple[int, int, bytes]]) -> list[Item]:
    """The items of these rows up to the first one that is not what was written. Raises if that is the very
    first."""
    items: list[Item] = []
    size = 0
    last = after
    sums = seed(key)
    for seq, stored, data in rows:
        if seq == last + 1 and type(data) is bytes and crc32(data, (sums + seq) & SUM_MASK) == stored:
            why = ""  # the short way, for what nearly every row is
        else:
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


def fault(key: int, last: int, seq: object, stored: object, data: object) -> str:
    """What is wrong with a row that follows `last`; empty if nothing is. In a damaged file a column may hold
    anything."""
    if type(seq) is not int or type(stored) is not int:
        return "its number or checksum is not a number"
    first = seq if stored <= SUM_MASK else seq - (stored >> SUM_BITS)
    if first > last + 1 and first & _EPOCH_MASK != 1:  # a cursor may stand inside of what was merged
        return f"items are missing after {last}"
    if not isinstance(data, bytes) or checksum(key, seq, data, seq - first) != stored:
        return "the checksum does not fit"
    return ""


def read_items(connection: SqlConnection, stream: str, key: int, after: int, limit: int) -> list[Item]:
    cursor = connection.execute(SELECT_ITEMS, (key, after, max(limit, 1)))
    try:
        return trusted(stream, key, after, cursor)
    finally:
        cursor.close()  # a query left open would keep the log from being reused


def read_small_items(
    connection: SqlConnection, stream: str, key: int, after: int, limit: int, most: int
) -> list[Item] | None:
    """The next items up to the first that has more bytes than `most`, of which nothing is read; None if that
    is the very first."""
    cursor = connection.execute(_SELECT_SMALL, (most, key, after, max(limit, 1)))
    try:
        first = cursor.fetchone()
        if first is None:
            return []
        if first[2] is None:
            return None
        small = itertools.takewhile(lambda row: row[2] is not None, cursor)
        return trusted(stream, key, after, itertools.chain((first,), small))
    finally:
        cursor.close()


def find_stream(connection: SqlConnection, name: str) -> tuple[int, int] | None:
    """The key and the newest epoch of a stream."""
    found = connection.execute("SELECT id, epoch FROM stream WHERE name = ?", (name,)).fetchone()
    return None if found is None else (int(found[0]), int(found[1]))


def find_head(connection: SqlConnection, key: int) -> int:
    return int(
        connection.execute("SELECT coalesce(max(seq), 0) FROM item WHERE stream = ?", (key,)).fetchone()[0]
    )


def rows_left(connection: SqlConnection, key: int) -> tuple[int | None, int]:
    """What is left of a stream, whether or not it is still in the index: its first item, and how many words.
    With every part that is deleted one of them changes."""
    sql = (
        "SELECT (SELECT min(seq) FROM item WHERE stream = ?1), (SELECT count(*) FROM word WHERE stream = ?1)"
    )
    first, words = connection.execute(sql, (key,)).fetchone()
    return first, words


def highest_key(connection: SqlConnection) -> int:
    return int(
        connection.execute(
            "SELECT max((SELECT coalesce(max(id), 0) FROM stream), (SELECT coalesce(max(stream), 0) FROM "
            "dropped))"
        ).fetchone()[0]
    )


def list_streams(
    connection: SqlConnection, wanted: StreamQuery, after: tuple[float, str] | None, limit: int
) -> list[StreamRow]:
    conditions = conditions_of(wanted)
    column, way = _ORDERS[wanted.order]
    if after is not None:
        conditions.append((f"({column}, name) {'<' if way == 'DESC' else '>'} (?, ?)", after))
    where = " AND ".join(text for text, _ in conditions) or "1"
    values = [value for _, some in conditions for value in some]
    sql = f"SELECT * FROM stream WHERE {where} ORDER BY {column} {way}, name {way} LIMIT ?"
    return [StreamRow(*row[1:]) for row in connection.execute(sql, (*values, limit))]


def conditions_of(wanted: StreamQuery) -> list[Statement]:
    """What a row of the index must fulfil. Whether a holder is gone only a writer knows."""
    conditions: list[Statement] = []
    for field, value in wanted.fields():
        conditions.append((f"stream.{field} = ?", (value,)))
        if value and field in ("parent", "user"):
            conditions.append(
                (f"stream.{field} != ''", ())
            )  # says that the index with this very condition will do
    if wanted.parent and wanted.user:  # a parent has few children, a user may have everything
        conditions = [(text.replace("stream.user", "+stream.user"), values) for text, values in conditions]
    return [*conditions, ("stream.holder != ''", ())] if wanted.orphaned else conditions


def make_stream(key: int, name: str, epoch: int, now: float, holder: str = "") -> Statement:
    return (_MAKE_STREAM, (key, name, now, now, epoch, holder))


def set_claim(key: int, epoch: int, holder: str, now: float) -> Statement:
    return ("UPDATE stream SET epoch = ?, holder = ?, updated = ? WHERE id = ?", (epoch, holder, now, key))


def set_released(key: int) -> Statement:
    return ("UPDATE stream SET holder = '' WHERE id = ?", (key,))


def set_note(key: int, note: IndexUpdate, now: float) -> list[Statement]:
    fields = kept_fields(note)
    words = fields.pop("words", "")
    columns = ", ".join([f"{name} = ?" for name in (*fields, "updated")])
    statements: list[Statement] = [
        (f"UPDATE stream SET {columns} WHERE id = ?", (*fields.values(), now, key))
    ]
    if note.forgotten:
        statements.append(("DELETE FROM word WHERE stream = ?", (key,)))
    if "title" in fields:
        statements.append(("DELETE FROM word WHERE stream = ? AND is_title = 1", (key,)))
    return statements + _insert_words(key, fields.get("title", ""), words)


def make_noted(made: Statement, note: IndexUpdate, now: float) -> list[Statement]:
    """A stream that begins with a note: what `make_stream` has given and `set_note` would change, in fewer
    steps, of which each would touch every list."""
    key, name, created, _, epoch, holder = made[1]
    fields = kept_fields(note)
    row = (key, name, *[fields.get(column, "") for column in _NOTED], created, now, epoch, holder)
    return [(_MAKE_NOTED, row), *_insert_words(key, fields.get("title", ""), fields.get("words", ""))]


def _insert_words(key: int, title: str, words: str) -> list[Statement]:
    return [
        ("INSERT INTO word(stream, is_title, text) VALUES(?, ?, ?)", (key, is_title, text[:MAX_WORDS]))
        for is_title, text in ((1, title), (0, words))
        if text
    ]


def has_unindexed(connection: SqlConnection) -> bool:
    """Whether texts were stored that are not in the index of words."""
    sql = "SELECT 1 FROM indexed WHERE upto < (SELECT coalesce(max(id), 0) FROM word)"
    return connection.execute(sql).fetchone() is not None


def index_all_words(connection: SqlConnection) -> None:
    """Bring all of them into it."""
    while has_unindexed(connection):
        for sql, values in INDEX_WORDS:
            connection.execute(sql, values)


def find_first(connection: SqlConnection, key: int, merge: Merge) -> int | None:
    """The first number that a merge will stand for; None if the stream does not have its items."""
    sql = "SELECT sum FROM item WHERE stream = ? AND seq = ?"
    begin, end = (connection.execute(sql, (key, seq)).fetchone() for seq in (merge.first, merge.item.seq))
    return None if begin is None or end is None else merge.first - (int(begin[0]) >> SUM_BITS)


def set_merged(key: int, first: int, item: Item) -> list[Statement]:
    """One item in place of those from `first` on."""
    seq, data = item.seq, bytes(item.data)
    return [
        ("DELETE FROM item WHERE stream = ? AND seq BETWEEN ? AND ?", (key, first, seq)),
        (INSERT_ITEM, (key, seq, checksum(key, seq, data, seq - first), data)),
    ]


def set_dropped(key: int) -> list[Statement]:
    """From here on the stream does not exist; its items and words are deleted little by little."""
    return [("INSERT INTO dropped(stream) VALUES(?)", (key,)), ("DELETE FROM stream WHERE id = ?", (key,))]


def finish_drops(connection: SqlConnection) -> None:
    """Delete what a process that died left half deleted."""
    for (key,) in connection.execute("SELECT stream FROM dropped").fetchall():
        with transaction(connection):
            connection.execute("DELETE FROM item WHERE stream = ?", (key,))
            connection.execute("DELETE FROM word WHERE stream = ?", (key,))
            connection.execute("DELETE FROM dropped WHERE stream = ?", (key,))
