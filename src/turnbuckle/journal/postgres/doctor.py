"""Finding items that are missing, and cutting off what stands behind a gap.

Damaged pages are the database's own matter: it finds them by its checksums, and says so when they are read.
What can be seen here is whether the numbers of every stream have no gap but those that a merge made. `mend`
moves what is behind a gap into the table `cut`, so nothing is ever destroyed.
"""

from turnbuckle.journal.address import Address, read_address
from turnbuckle.journal.port import InUse
from turnbuckle.journal.postgres.links import Connection, DatabaseLink, lock_alone, writer_of
from turnbuckle.journal.postgres.schema import version_of
from turnbuckle.journal.report import JournalReport, StreamDamage

_SIZES = """
SELECT (SELECT count(*) FROM stream), (SELECT count(*) FROM item),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
     WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r')"""
_GAPS = """
WITH behind AS (SELECT stream, min(seq) AS seq FROM (
    SELECT stream, seq, seq - covers AS begins,
        lag(seq, 1, 0::bigint) OVER (PARTITION BY stream ORDER BY seq) AS last FROM item) AS numbered
    WHERE begins > last + 1 AND begins & 4294967295 <> 1 GROUP BY stream)
SELECT s.id, s.name, b.seq, (SELECT count(*) FROM item i WHERE i.stream = s.id AND i.seq >= b.seq)
FROM behind b JOIN stream s ON s.id = b.stream ORDER BY s.id"""
_KEEP = """
CREATE TABLE IF NOT EXISTS cut(
    at timestamptz NOT NULL DEFAULT now(), stream text NOT NULL, seq bigint NOT NULL, covers int NOT NULL,
    data bytea NOT NULL)"""
_MOVE = """
WITH gone AS (DELETE FROM item WHERE stream = $1 AND seq >= $2 RETURNING seq, covers, data)
INSERT INTO cut(stream, seq, covers, data) SELECT $3, seq, covers, data FROM gone"""


async def check(place: str) -> JournalReport | None:
    """Look at everything, also beside a living process. None if there is no journal. Raises JournalError."""
    address = read_address(place)
    link = DatabaseLink(address)
    try:
        async with link.use() as connection:
            return await _examined(connection, address)
    finally:
        await link.close()


async def mend(place: str) -> JournalReport | None:
    """Cut the damage out. Raises InUse beside a living process, and JournalError."""
    address = read_address(place)
    link = DatabaseLink(address)
    try:
        async with link.use() as connection:
            if not await lock_alone(connection, address):
                who = await writer_of(connection, address)
                raise InUse(f"process {who or '?'} already writes to the journal at {address.shown}")
            report = await _examined(connection, address)
            if report is None or report.sound:
                return report
            async with connection.transaction():
                await connection.execute(_KEEP)
                for key, name, seq, _ in await connection.fetch(_GAPS):
                    await connection.execute(_MOVE, key, seq, name)
            kept = f"the table {address.schema}.cut"
            return JournalReport(
                report.format, report.streams, report.items, report.bytes, report.problems, kept=kept
            )
    finally:
        await link.close()


async def _examined(connection: Connection, address: Address) -> JournalReport | None:
    version = await version_of(connection, address)
    if not version:
        return None
    streams, items, size = await connection.fetchrow(_SIZES, address.written_schema)
    problems = tuple(
        StreamDamage(name, seq, lost, "items are missing before it")
        for _, name, seq, lost in await connection.fetch(_GAPS)
    )
    return JournalReport(version, streams, items, size, problems)
