"""What people have allowed for good, in the database. Nobody remembers it: whoever judges a call asks here
first, so that a rule which was taken away holds for no later call of any node."""

from collections.abc import Sequence

from turnbuckle.journal.postgres.links import DatabaseLink
from turnbuckle.journal.postgres.schema import linked
from turnbuckle.journal.rules import StoredRule

_SINCE = 7  # the format of the tables that has rules
_COLUMNS = "id, owner, at, data"
_OF_OWNER = f"SELECT {_COLUMNS} FROM consent_rule WHERE owner = $1 ORDER BY at, id"
_ALL = f"SELECT {_COLUMNS} FROM consent_rule ORDER BY owner, at, id"
_SURE = "SET LOCAL synchronous_commit = on"  # the connection of nodes does not wait for the disk
_ONE_BY_ONE = "LOCK TABLE consent_rule IN SHARE ROW EXCLUSIVE MODE"  # who reads does not wait for it
_ADD = f"""
INSERT INTO consent_rule({_COLUMNS}) VALUES($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET at = excluded.at, data = excluded.data"""
_FORGET = """
DELETE FROM consent_rule WHERE owner = $1
AND id IN (SELECT id FROM consent_rule WHERE owner = $1 ORDER BY at DESC, id DESC OFFSET $2)"""
_REMOVE = f"""
DELETE FROM consent_rule WHERE id = $1 AND ($2::text IS NULL OR owner = $2) RETURNING {_COLUMNS}"""


class PostgresRules:
    """The rules. Made by a process over the connection that it has, or by `open_postgres_rules`."""

    def __init__(self, link: DatabaseLink) -> None:
        self._link = link

    async def listed(self, owner: str | None) -> Sequence[StoredRule]:
        async with self._link.use() as connection:
            found = connection.fetch(_ALL) if owner is None else connection.fetch(_OF_OWNER, owner)
            return [StoredRule(*row) for row in await found]

    async def add(self, rules: Sequence[StoredRule], most: int) -> None:
        async with self._link.use() as connection, connection.transaction():
            await connection.execute(f"{_SURE}; {_ONE_BY_ONE}")
            for rule in rules:
                await connection.execute(_ADD, rule.id, rule.owner, rule.at, rule.data)
            for owner in sorted({rule.owner for rule in rules}):
                await connection.execute(_FORGET, owner, most)

    async def remove(self, rule: str, owner: str | None) -> StoredRule | None:
        async with self._link.use() as connection, connection.transaction():
            await connection.execute(_SURE)
            row = await connection.fetchrow(_REMOVE, rule, owner)
        return None if row is None else StoredRule(*row)

    async def close(self) -> None:
        await self._link.close()


async def open_postgres_rules(place: str) -> PostgresRules | None:
    """The rules at an address, for a command; None if there are no tables for them. Raises ValueError and
    JournalError."""
    opened = await linked(place, since=_SINCE)
    return None if opened is None else PostgresRules(opened[0])
