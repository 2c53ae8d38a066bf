"""Statements, and what their rows mean.

Times are seconds. Where a statement needs the present it takes what it is given, and otherwise asks the
database: all nodes go by that one clock.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from turnbuckle.journal.port import (
    Claim,
    Held,
    IndexUpdate,
    JournalError,
    Merge,
    StreamOrder,
    StreamQuery,
    StreamRow,
)
from turnbuckle.journal.postgres.links import Connection
from turnbuckle.journal.words import kept, kept_fields, kept_words, plain_words

ItemRow = tuple[int, int, bytes]
Fences = dict[int, tuple[int, int]]
"""By the keys of streams: the epoch that must be the newest, and the number that the stream must end with."""
LONGEST_LEXEME = 500  # characters; the index takes 2,046 bytes
COLUMNS = "name, kind, parent, title, status, owner, created, updated, epoch, holder, mark"
_ORDERS: dict[StreamOrder, tuple[str, str]] = {
    "touched": ("updated", "DESC"),
    "newest": ("created", "DESC"),
    "oldest": ("created", "ASC"),
}
_FIELDS = {"user": "owner"}


class NotFree(JournalError):
    """One of the streams that are to be dropped is claimed."""


def _now(at: str) -> str:
    return f"coalesce({at}::float8, extract(epoch FROM clock_timestamp())::float8)"


def grace(at: str) -> str:
    """For how long a database that was started knows nobody. One that was started in the future has had its
    clock set back since, and knows everybody."""
    return f"CASE WHEN pg_postmaster_start_time() > clock_timestamp() THEN -1e9 ELSE {at}::float8 END"


STORE = """
WITH asked AS (
    SELECT * FROM unnest($1::text::bigint[], $2::text::int[], $3::text::bigint[]) AS a(id, epoch, after)),
good AS MATERIALIZED (
    SELECT s.id FROM stream s JOIN asked a ON a.id = s.id AND a.epoch = s.epoch AND s.node = $4
    WHERE a.after = (SELECT coalesce(max(i.seq), 0) FROM item i WHERE i.stream = a.id)
    ORDER BY s.id FOR NO KEY UPDATE OF s),
stored AS (
    INSERT INTO item(stream, seq, data) SELECT i.stream, i.seq, substr($9::bytea, i.first, i.size)
    FROM unnest($5::text::bigint[], $6::text::bigint[], $7::text::int[], $8::text::int[])
        AS i(stream, seq, first, size)
    JOIN good ON good.id = i.stream)
SELECT id, '' FROM good UNION ALL
SELECT 0, pg_notify($10, page)::text FROM unnest(string_to_array($11::text, E'\\n')) AS h(page)
WHERE (SELECT count(*) FROM good) = $12"""
"""Items of streams whose epoch is still the newest and that end where the writer thinks, and hints for those
who wait, if all items are stored. The lock on a stream's row keeps everybody from taking the stream between
the check and the commit. A database that crashed may have lost what was not sure, so where a stream ends is
never taken on trust. And a standby that had not received a claim gives its epoch once more, so the node must
be the writer's own, too.

Numbers come as text, the data of all items as one value, and hints as lines: the driver takes several times
as long for an array."""

LOCK = "SELECT id FROM stream WHERE name = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE"

_CLAIM = f"""
INSERT INTO stream AS s(name, created, updated, epoch, holder, node, until)
VALUES($1, {_now("$2")}, {_now("$2")}, $9, $3, $4, {_now("$5")} + $6::float8)
ON CONFLICT (name) DO UPDATE SET epoch = greatest(s.epoch + 1, excluded.epoch),
    holder = excluded.holder, node = excluded.node, until = excluded.until, updated = excluded.updated
WHERE s.holder = '' OR s.until <= {_now("$5")} OR (s.node = $4 AND $7) OR NOT alive(s.node, {grace("$8")})
RETURNING id, epoch"""
_HELD = f"SELECT holder, until - {_now('$2')} AS seconds FROM stream WHERE name = $1"
IS_FREE = f"""
SELECT id, holder = '' OR until <= {_now("$2")} OR NOT alive(node, {grace("$3")}) AS free
FROM stream WHERE name = ANY($1::text[]) ORDER BY id FOR UPDATE"""
RENEW = f"""
UPDATE stream s SET until = {_now("$1")} + r.seconds
FROM unnest($2::bigint[], $3::int[], $4::float8[]) AS r(id, epoch, seconds)
WHERE s.id = r.id AND s.epoch = r.epoch AND s.node = $5 AND s.holder <> '' RETURNING s.id"""
RELEASE = "UPDATE stream SET holder = '', until = 0 WHERE id = $1 AND epoch = $2 AND node = $3"
_SWEEP = (
    "DELETE FROM item WHERE ctid = ANY(ARRAY(SELECT ctid FROM item WHERE stream = $1 LIMIT 2000))",
    "DELETE FROM word WHERE ctid = ANY(ARRAY(SELECT ctid FROM word WHERE stream = $1 LIMIT 500))",
)


WHERE_IT_STANDS = """
SELECT coalesce(max(name), ''), coalesce(max(epoch), -1), coalesce(max(node), 0),
    (SELECT coalesce(max(seq), 0) FROM item WHERE stream = $1)
FROM stream WHERE id = $1"""


def stream_row(row: Sequence[Any]) -> StreamRow:
    return StreamRow(*row)


async def store(
    connection: Connection,
    node: int,
    fences: Fences,
    items: Sequence[ItemRow],
    channel: str = "",
    hints: Sequence[str] = (),
) -> set[int]:
    """The streams whose items were stored: those of which epoch, node and end are as they must be. Hints,
    each a notification, are sent if that is so of all."""
    firsts, end = [], 1
    for _, _, data in items:
        firsts.append(end)
        end += len(data)
    found = await connection.fetch(
        STORE,
        _numbers(fences),
        _numbers(epoch for epoch, _ in fences.values()),
        _numbers(after for _, after in fences.values()),
        node,
        _numbers(stream for stream, _, _ in items),
        _numbers(seq for _, seq, _ in items),
        _numbers(firsts),
        _numbers(len(data) for _, _, data in items),
        b"".join([data for _, _, data in items]),
        channel or "none",
        "\n".join(hints),
        len(fences),
    )
    return {key for key, _ in found if key}


def _numbers(some: Iterable[int]) -> str:
    """Numbers as the database reads an array."""
    return f"{{{','.join(map(str, some))}}}"


async def take_claim(
    connection: Connection,
    name: str,
    owner: str,
    seconds: float,
    *,
    node: int,
    is_left: bool,
    moment: tuple[float | None, float | None, float],
    least: int = 0,
) -> tuple[int, Claim] | Held:
    """Take a stream that nobody holds, and its key. `is_left`: nobody in this process knows of a claim.
    `least` is the smallest epoch that may be given. The moment is that of the world, that of claims, and for
    how long a database that was started knows nobody."""
    wall, now, patience = moment
    least = max(least, connection.first_epoch)
    given = name, wall, owner, node, now, seconds, is_left, patience, least
    taken = await connection.fetchrow(_CLAIM, *given)
    if taken is None:
        holder, left = await connection.fetchrow(_HELD, name, now)
        return Held(name, holder, left)
    key, epoch = taken
    head = await connection.fetchval("SELECT coalesce(max(seq), 0) FROM item WHERE stream = $1", key)
    return key, Claim(name, owner, epoch, head)


async def write_note(
    connection: Connection, name: str, note: IndexUpdate, wall: float | None, *, makes: bool
) -> None:
    """Change a stream's row. Without `makes` nothing happens if there is none."""
    fields = kept_fields(note)
    words = fields.pop("words", "")
    columns = {_FIELDS.get(field, field): value for field, value in fields.items()}
    changes = "".join(f"{column} = ${at}, " for at, column in enumerate(columns, 3))
    sql = f"UPDATE stream SET {changes}updated = {_now('$2')} WHERE name = $1 RETURNING id"
    key = await connection.fetchval(sql, name, wall, *columns.values())
    if key is None and makes:
        names = "".join(f", {column}" for column in columns)
        places = "".join(f", ${at}" for at in range(3, 3 + len(columns)))
        now = _now("$2")
        sql = f"INSERT INTO stream(name, created, updated{names}) VALUES($1, {now}, {now}{places})"
        update = "".join(f"{column} = excluded.{column}, " for column in columns)
        sql += f" ON CONFLICT (name) DO UPDATE SET {update}updated = excluded.updated RETURNING id"
        key = await connection.fetchval(sql, name, wall, *columns.values())
    if key is None:
        return
    if note.forgotten:
        await connection.execute("DELETE FROM word WHERE stream = $1", key)
    if "title" in fields:
        await connection.execute("DELETE FROM word WHERE stream = $1 AND is_title", key)
    for is_title, text in ((True, fields.get("title", "")), (False, words)):
        if text:
            await say(connection, key, text, is_title=is_title)


async def say(connection: Connection, key: int, text: str, *, is_title: bool) -> None:
    """Words that a stream is found by."""
    text = kept_words(text)
    sql = (
        "INSERT INTO word(stream, is_title, text, lexemes) VALUES($1, $2, $3, array_to_tsvector($4::text[]))"
    )
    await connection.execute(sql, key, is_title, text, lexemes(text))


def lexemes(text: str) -> list[str]:
    """What the index has of a text."""
    return sorted({word[:LONGEST_LEXEME] for word in plain_words(text) if word})


async def write_merges(connection: Connection, key: int, name: str, merges: Sequence[Merge]) -> None:
    """Items in place of others. Raises ValueError if the stream does not have those."""
    for merge in merges:
        last = merge.item.seq
        ends = await connection.fetch(
            "SELECT seq, covers FROM item WHERE stream = $1 AND seq = ANY($2::bigint[])",
            key,
            [merge.first, last],
        )
        covers = {int(seq): int(count) for seq, count in ends}
        if not {merge.first, last} <= covers.keys():
            raise ValueError(f"the stream {name} has no such items")
        first = merge.first - covers[merge.first]
        await connection.execute(
            "DELETE FROM item WHERE stream = $1 AND seq BETWEEN $2 AND $3", key, first, last
        )
        sql = "INSERT INTO item(stream, seq, covers, data) VALUES($1, $2, $3, $4)"
        await connection.execute(sql, key, last, last - first, bytes(merge.item.data))


async def write_drops(connection: Connection, keys: Sequence[int]) -> None:
    """From here on the streams do not exist; their items and words are deleted little by little."""
    await connection.execute("INSERT INTO dropped SELECT unnest($1::bigint[])", list(keys))
    await connection.execute("DELETE FROM stream WHERE id = ANY($1::bigint[])", list(keys))


async def sweep_some(connection: Connection, key: int) -> bool:
    """Delete a bounded number of rows of a dropped stream. Returns whether there are more."""
    gone = [await connection.execute(sql, key) for sql in _SWEEP]
    if all(told.endswith(" 0") for told in gone):
        await connection.execute("DELETE FROM dropped WHERE stream = $1", key)
        return False
    return True


class Conditions:
    """What rows must fulfil, and the values of it."""

    def __init__(self, wanted: StreamQuery, now: float | None, seconds: float) -> None:
        self.values: list[Any] = []
        self._parts: list[str] = []
        self.is_never = False
        for field, value in wanted.fields():
            column = _FIELDS.get(field, field)
            self.is_never = self.is_never or value != kept(value)
            self._parts.append(f"s.{column} = {self.add(value)}")
            if value and field in ("parent", "user"):
                self._parts.append(
                    f"s.{column} <> ''"
                )  # says that the index with this very condition will do
        if wanted.orphaned:
            is_over = f"s.until <= {_now(self.add(now))}"
            self._parts.append(
                f"s.holder <> '' AND ({is_over} OR NOT alive(s.node, {grace(self.add(seconds))}))"
            )

    def add(self, value: object) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def also(self, text: str) -> None:
        self._parts.append(text)

    @property
    def text(self) -> str:
        return " AND ".join(self._parts) or "true"


async def list_streams(
    connection: Connection,
    wanted: StreamQuery,
    after: tuple[float, str] | None,
    limit: int,
    conditions: Conditions,
) -> list[StreamRow]:
    if conditions.is_never or limit < 1:
        return []
    column, way = _ORDERS[wanted.order]
    if after is not None:
        moment, name = after
        sign = "<" if way == "DESC" else ">"
        conditions.also(
            f"(s.{column}, s.name) {sign} ({conditions.add(moment)}::float8, {conditions.add(name)}::text)"
        )
    most = conditions.add(limit)
    order = f"{column} {way}, name {way}"
    sql = f"SELECT {COLUMNS} FROM stream s WHERE {conditions.text} ORDER BY {order} LIMIT {most}"
    return [stream_row(row) for row in await connection.fetch(sql, *conditions.values)]
