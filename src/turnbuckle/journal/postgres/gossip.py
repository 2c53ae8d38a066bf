"""What nodes tell each other, in a table: a row for each name, and a call on the nodes' channel as a hint.

Every look asks for what changed since the last one. A commit may be seen later than its time says, so each
look goes back some seconds, also behind a clock that was set back, and what is known already is left out by
its version. Now and then all is read.
"""

from typing import Any

from turnbuckle.journal.gossip import Memo
from turnbuckle.journal.postgres.links import DatabaseLink
from turnbuckle.journal.postgres.notifier import Notifier

MEMO = "memo"
"""What is called to the others when there is something to hear."""
_BACK = 5.0  # seconds; no transaction of ours is open for so long
_ALL_EVERY = 240  # looks
_KEPT = 86_400.0
_NOW = "extract(epoch FROM clock_timestamp())::float8"
_TELL = f"""
WITH told AS (
    INSERT INTO memo(name, version, node, at, data) SELECT $1, 1, $2, {_NOW}, $3
    WHERE NOT EXISTS(SELECT FROM memo WHERE name = $1) ON CONFLICT (name) DO NOTHING RETURNING version),
again AS (
    UPDATE memo SET version = version + 1, node = $2, at = {_NOW}, data = $3
    WHERE name = $1 AND version = $4 RETURNING version),
changed AS (SELECT version FROM told UNION ALL SELECT version FROM again)
SELECT version, CASE WHEN $5 <> '' THEN pg_notify($5, $6)::text END FROM changed"""
_HEARD = f"""
SELECT name, version, data, {_NOW} - at, {_NOW} FROM memo
WHERE at > least($1::float8, {_NOW} - {_BACK})"""
_MOST = 10_000
"""Memos of all nodes together: each book of a node has fewer by far."""
_TIDY = f"""
DELETE FROM memo WHERE at < {_NOW} - {_KEPT}
OR name IN (SELECT name FROM memo ORDER BY at DESC, name OFFSET {_MOST})"""


class PostgresGossip:
    """As the node of this number hears it."""

    def __init__(self, link: DatabaseLink, number: int, notifier: Notifier) -> None:
        self._link = link
        self._number = number
        self._notifier = notifier
        self._known: dict[str, int] = {}
        self._until = 0.0
        self._looks = 0

    async def heard(self) -> list[Memo]:
        reads_all = not self._looks % _ALL_EVERY
        since = 0.0 if reads_all else self._until - _BACK
        async with self._link.use() as connection:
            rows = await connection.fetch(_HEARD, since)
        self._looks += 1
        if reads_all:  # a name that was forgotten begins again with its first version
            there = {row[0] for row in rows}
            self._known = {name: known for name, known in self._known.items() if name in there}
        new = []
        for name, version, data, age, now in rows:
            self._until = max(self._until, now - age)
            if self._known.get(name) != version:
                self._known[name] = version
                new.append(Memo(name, version, bytes(data), max(age, 0.0)))
        return new

    async def tell(self, name: str, data: bytes, after: int, *, urgent: bool = False) -> int:
        async def write(channel: str) -> Any:
            given = (name, self._number, data, after, channel if urgent else "", MEMO)
            async with self._link.use() as connection:
                return await connection.fetchrow(_TELL, *given)

        row = await self._notifier.perform(write)
        if row is None:
            self._known.pop(name, None)  # whoever told another one is heard again
            return 0
        self._known[name] = int(row[0])
        return self._known[name]

    async def tidy(self) -> None:
        """Forget what nobody has told again for a day, and the oldest of too many."""
        async with self._link.use() as connection:
            await connection.execute(_TIDY)
