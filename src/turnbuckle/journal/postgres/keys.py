"""API keys in the database, for all nodes. Whoever changes them leaves a memo, so that nodes look at once."""

from collections.abc import Sequence
from typing import Any

from turnbuckle.journal.keys import KEYS_CHANGED, Key
from turnbuckle.journal.postgres.gossip import MEMO
from turnbuckle.journal.postgres.links import DatabaseLink, channel_of
from turnbuckle.journal.postgres.listener import CALLS
from turnbuckle.journal.postgres.notifier import Notifier
from turnbuckle.journal.postgres.schema import linked

_SINCE = 3  # the format of the tables that has keys
_COLUMNS = "id, name, owner, hash, created, revoked"
_LISTED = f"SELECT {_COLUMNS} FROM api_key ORDER BY created, id"
_ADD = f"""
INSERT INTO api_key({_COLUMNS}) SELECT $1, $2, $3, $4, $5, $6
WHERE (SELECT count(*) FROM api_key) < $7 RETURNING id"""
_REVOKE = f"""
UPDATE api_key SET revoked = coalesce(revoked, $2) WHERE id = $1 RETURNING {_COLUMNS}"""
_CHANGED = """
INSERT INTO memo(name, version, node, at, data)
VALUES($1, 1, 0, extract(epoch FROM clock_timestamp())::float8, '')
ON CONFLICT (name) DO UPDATE SET version = memo.version + 1, node = 0, at = excluded.at"""


class PostgresKeys:
    """The keys. Made by a node over the connection that it has, or by `open_postgres_keys`."""

    def __init__(self, link: DatabaseLink, notifier: Notifier) -> None:
        self._link = link
        self._notifier = notifier

    async def listed(self) -> Sequence[Key]:
        async with self._link.use() as connection:
            return [Key(*row) for row in await connection.fetch(_LISTED)]

    async def add(self, key: Key, most: int) -> bool:
        given = (key.id, key.name, key.owner, key.hash, key.created, key.revoked, most)
        return await self._change(_ADD, *given) is not None

    async def revoke(self, key: str, now: float) -> Key | None:
        row = await self._change(_REVOKE, key, now)
        return None if row is None else Key(*row)

    async def close(self) -> None:
        await self._link.close()

    async def _change(self, sql: str, *given: object) -> Any:
        """Stored for good before anybody is told."""
        async with self._link.use() as connection, connection.transaction():
            row = await connection.fetchrow(sql, *given)
            await connection.execute(_CHANGED, KEYS_CHANGED)
        await self._notifier.perform(self._call)
        return row

    async def _call(self, channel: str) -> None:
        if channel:
            async with self._link.use() as connection:
                await connection.execute("SELECT pg_notify($1, $2)", channel, MEMO)


async def open_postgres_keys(place: str, *, makes: bool) -> PostgresKeys | None:
    """The keys at an address, for somebody who is not a node. If there are no tables they are made, or there
    are no keys. Raises ValueError and JournalError."""
    opened = await linked(place, since=_SINCE, makes=makes)
    if opened is None:
        return None
    link, address = opened
    return PostgresKeys(link, Notifier(channel_of(address) + CALLS))
