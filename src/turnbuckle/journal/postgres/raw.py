"""A journal in a database, to be moved: away from it, or to it (`journal/moving.py`)."""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from turnbuckle.journal.address import Address, read_address
from turnbuckle.journal.moving import STREAMS_PAGE, WORDS_PAGE, RawItem, RawStream, RawWords
from turnbuckle.journal.port import READ_BYTES, READ_LIMIT, InUse, StorageFailed, StreamRow
from turnbuckle.journal.postgres.links import Connection, DatabaseLink, check_server, lock_alone
from turnbuckle.journal.postgres.rows import COLUMNS, lexemes
from turnbuckle.journal.postgres.schema import bring_up_to_date, version_of

_STREAMS = f"SELECT id, {COLUMNS} FROM stream WHERE id > $1 ORDER BY id LIMIT {STREAMS_PAGE}"
_ITEMS = f"""
SELECT seq, covers, data FROM (
    SELECT seq, covers, data, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before
    FROM item WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT {READ_LIMIT}) AS page
WHERE before < {READ_BYTES} ORDER BY seq"""
_WORDS = f"SELECT id, stream, is_title, text FROM word WHERE id > $1 ORDER BY id LIMIT {WORDS_PAGE}"
_NAMES = COLUMNS.split(", ")
_PUT_STREAM = f"""
INSERT INTO stream(id, {COLUMNS}) OVERRIDING SYSTEM VALUE VALUES({", ".join(f"${at}" for at in range(1, 13))})
ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _NAMES)}"""
_PUT_ITEMS = """
INSERT INTO item(stream, seq, covers, data)
SELECT $1, i.seq, i.covers, i.data
FROM unnest($2::bigint[], $3::int[], $4::bytea[]) AS i(seq, covers, data)"""
_PUT_WORDS = """
INSERT INTO word(id, stream, is_title, text, lexemes) OVERRIDING SYSTEM VALUE
VALUES($1, $2, $3, $4, array_to_tsvector($5::text[]))"""
_COUNT_ON = """
SELECT setval(pg_get_serial_sequence('{table}', 'id'), greatest((SELECT max(id) FROM {table}), 1))"""


class RawPostgres:
    """All of a journal in a schema. The lock is held as long as the link's first connection lasts."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._link = DatabaseLink(address)
        self._first: Connection = None

    async def open(self) -> None:
        """Raises InUse beside a living process, and StorageError."""
        async with self._link.use() as connection:
            await check_server(connection, self.address)
            await self._lock(connection, self.address)
            if not await version_of(connection, self.address):
                raise StorageFailed(f"there is no journal at {self.address.shown}")
            await bring_up_to_date(connection, self.address)
            self._first = connection

    async def _lock(self, connection: Connection, address: Address) -> None:
        if not await lock_alone(connection, address):
            raise InUse(f"another process already writes to the journal at {address.shown}; stop it")

    async def _fetch(self, sql: str, *values: Any) -> list[Any]:
        async with self._link.use() as connection:
            self._check(connection)
            return list(await connection.fetch(sql, *values))

    def _check(self, connection: Connection) -> None:
        if connection is not self._first:
            raise StorageFailed("the connection was lost, and the lock with it: start the move again")

    async def streams(self, after: int) -> Sequence[RawStream]:
        return [RawStream(key, StreamRow(*row)) for key, *row in await self._fetch(_STREAMS, after)]

    async def items(self, stream: int, after: int) -> Sequence[RawItem]:
        return [RawItem(*row) for row in await self._fetch(_ITEMS, stream, after)]

    async def words(self, after: int) -> Sequence[RawWords]:
        return [RawWords(*row) for row in await self._fetch(_WORDS, after)]

    async def close(self) -> None:
        await self._link.close()


class RawPostgresTarget(RawPostgres):
    """The copy in a schema beside the journal's own."""

    def __init__(self, address: Address) -> None:
        super().__init__(replace(address, schema=f"{address.schema}_moving"))
        self._place = address

    async def open(self) -> None:
        async with self._link.use() as connection:
            await check_server(connection, self._place)
            await self._lock(connection, self._place)
            if await _has_streams(connection, self._place):
                raise StorageFailed(
                    f"there is a journal at {self._place.shown} already: name another schema in the address, "
                    "as in ?schema=other"
                )
            await bring_up_to_date(connection, self.address)
            self._first = connection

    async def put_stream(self, stream: RawStream) -> None:
        fields = [getattr(stream.row, _FIELDS.get(name, name)) for name in _NAMES]
        await self._fetch(_PUT_STREAM, stream.key, *fields)

    async def drop_stream(self, stream: int) -> None:
        await self._fetch("DELETE FROM item WHERE stream = $1", stream)
        await self._fetch("DELETE FROM stream WHERE id = $1", stream)

    async def cut_items(self, stream: int, first: int) -> None:
        await self._fetch("DELETE FROM item WHERE stream = $1 AND seq >= $2", stream, first)

    async def put_items(self, stream: int, items: Sequence[RawItem]) -> None:
        seqs, covers, data = ([getattr(item, name) for item in items] for name in ("seq", "covers", "data"))
        await self._fetch(_PUT_ITEMS, stream, seqs, covers, data)

    async def cut_words(self, first: int) -> None:
        await self._fetch("DELETE FROM word WHERE id >= $1", first)

    async def put_words(self, words: Sequence[RawWords]) -> None:
        made = [(word.number, word.stream, word.is_title, word.text, lexemes(word.text)) for word in words]
        async with self._link.use() as connection:
            self._check(connection)
            await connection.executemany(_PUT_WORDS, made)  # all or nothing

    async def finish(self) -> None:
        old, new = self._place.schema, self.address.schema
        named = self._place.written_schema
        async with self._link.use() as connection:
            self._check(connection)
            async with connection.transaction():
                for table in ("stream", "word"):
                    await connection.execute(_COUNT_ON.format(table=table))
                await connection.execute("ANALYZE stream, item, word")
                if await version_of(connection, self._place):  # an empty one, which was looked at
                    await connection.execute(f'DROP SCHEMA "{old}" CASCADE')
                elif await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", named):
                    await connection.execute(f'DROP SCHEMA "{old}"')
                await connection.execute(f'ALTER SCHEMA "{new}" RENAME TO "{old}"')


_FIELDS = {"owner": "user"}


async def _has_streams(connection: Connection, address: Address) -> bool:
    if not await version_of(connection, address):
        return False
    return bool(await connection.fetchval(f'SELECT EXISTS(SELECT FROM "{address.schema}".stream)'))


Opened = TypeVar("Opened", bound=RawPostgres)


async def open_source(place: str) -> RawPostgres:
    """Raises ValueError for an address that is none, InUse beside a living process, and StorageError."""
    return await _opened(RawPostgres(read_address(place)))


async def open_target(place: str) -> RawPostgresTarget:
    """The same, and StorageFailed if there is a journal already."""
    return await _opened(RawPostgresTarget(read_address(place)))


async def _opened(store: Opened) -> Opened:
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store
