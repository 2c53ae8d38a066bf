"""What a database suffers from, as it really does: each fault is a context in which the database of a server refuses, hangs
or is locked. The server under test is the user `app`, and reaches the database by lines that can fail.

A disk cannot be filled without root, so a trigger refuses every item as Postgres does on a full one, by the same code.
"""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from support.postgres.cluster import Cluster
from support.postgres.server import programs

from turnbuckle.lab.network import NetworkProxy

APP = "app"
SMALL_QUEUE = 64
"""Pages, the fewest that a queue of notifications can have."""
_FULL = """
CREATE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON {schema}.item FOR EACH ROW EXECUTE FUNCTION {schema}.no_room();
CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON {schema}.stream FOR EACH ROW EXECUTE FUNCTION {schema}.no_room()"""
_ROOM = "DROP FUNCTION {schema}.no_room() CASCADE"
_END_ALL = f"SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE usename = '{APP}'"
_LOCK = "LOCK TABLE {schema}.stream, {schema}.item"
_TRIES = 20
_RELOAD = "SELECT pg_reload_conf()"


def small_queue() -> dict[str, str]:
    """Settings of a database whose queue of notifications is soon full. Before version 17 it has eight gigabytes."""
    said = subprocess.run(
        [str(programs() / "postgres"), "--version"], check=True, capture_output=True, text=True
    )
    version = int(said.stdout.split()[2].split(".")[0])
    return {"max_notify_queue_pages": str(SMALL_QUEUE)} if version >= 17 else {}


class BrokenDatabase:
    """The database of a test: its cluster, the schema of the journal, and the lines by which the servers reach it."""

    def __init__(self, cluster: Cluster, schema: str, lines: Sequence[NetworkProxy]) -> None:
        self.cluster = cluster
        self.schema = schema
        self.lines = lines

    def place(self, line: NetworkProxy) -> str:
        """The address of the journal by a line. Locks are told soon."""
        return f"postgresql://{APP}@{line.host}:{line.port}/postgres?schema={self.schema}&lock_timeout=300"

    async def sql(self, *texts: str) -> None:
        for text in texts:
            await asyncio.to_thread(self._sql, text.format(schema=self.schema))

    def _sql(self, text: str) -> None:
        """What changes two tables and a server's own statement may each have what the other needs."""
        for _ in range(_TRIES):
            try:
                self.cluster.sql(text)
                return
            except AssertionError as error:
                if "deadlock detected" not in str(error):
                    raise
        self.cluster.sql(text)

    @asynccontextmanager
    async def by_sql(self, begin: Sequence[str], end: Sequence[str]) -> AsyncIterator[None]:
        await self.sql(*begin)
        try:
            yield
        finally:
            await self.sql(*end)

    @asynccontextmanager
    async def by_session(self, *texts: str) -> AsyncIterator[None]:
        """Somebody else's session, which does this and then nothing more."""
        words = [
            str(programs() / "psql"),
            "-X",
            "-q",
            "-h",
            str(self.cluster.folder),
            "-U",
            "tester",
            "postgres",
        ]
        held = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert held.stdin is not None
        assert held.stdout is not None
        try:
            lines = [*(f"{text.format(schema=self.schema)};" for text in texts), "\\echo done"]
            held.stdin.write("\n".join([*lines, ""]).encode())
            held.stdin.flush()
            while b"done" not in await asyncio.to_thread(held.stdout.readline):
                assert held.poll() is None
            yield
        finally:
            held.kill()
            await asyncio.to_thread(held.communicate)

    @asynccontextmanager
    async def impatient(self) -> AsyncIterator[None]:
        """A statement may take less time than it has to wait for a lock."""
        short, usual = (
            f"ALTER ROLE {APP} SET statement_timeout = 100",
            f"ALTER ROLE {APP} RESET statement_timeout",
        )
        async with self.by_session("BEGIN", _LOCK), self.by_sql([short, _END_ALL], [usual, _END_ALL]):
            yield

    @asynccontextmanager
    async def full_queue(self) -> AsyncIterator[None]:
        """Somebody listens in a transaction, so no notification can be forgotten, and there are many."""
        async with self.by_session("LISTEN nobody", "BEGIN", "SELECT 1"):
            notify = f"SELECT count(pg_notify('nobody', repeat('x', 7000) || n)) FROM generate_series(1, {SMALL_QUEUE}) n"
            with suppress(AssertionError):  # which the last of them cannot enter
                for _ in range(2):
                    await self.sql(notify)
            yield

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.cluster.stop, signal.SIGINT)
        try:
            yield
        finally:
            await asyncio.to_thread(self.cluster.start)

    @asynccontextmanager
    async def unreachable(self, *, hangs: bool) -> AsyncIterator[None]:
        for line in self.lines:
            if hangs:
                line.stall()
            else:
                line.refuses = True
                line.cut()
        try:
            yield
        finally:
            for line in self.lines:
                line.heal()


Fault = Callable[[BrokenDatabase], AbstractAsyncContextManager[None]]
FAULTS: dict[str, Fault] = {
    "it is stopped": lambda it: it.stopped(),
    "the way to it is cut": lambda it: it.unreachable(hangs=False),
    "the way to it hangs": lambda it: it.unreachable(hangs=True),
    "it takes no more connections": lambda it: it.by_sql(
        [f"ALTER ROLE {APP} CONNECTION LIMIT 0", _END_ALL], [f"ALTER ROLE {APP} CONNECTION LIMIT -1"]
    ),
    "its user may not log in": lambda it: it.by_sql(
        [f"ALTER ROLE {APP} NOLOGIN", _END_ALL], [f"ALTER ROLE {APP} LOGIN"]
    ),
    "it is full": lambda it: it.by_sql([_FULL], [_ROOM]),
    "it is read-only": lambda it: it.by_sql(
        ["ALTER SYSTEM SET default_transaction_read_only = on", _RELOAD],
        ["ALTER SYSTEM RESET default_transaction_read_only", _RELOAD],
    ),
    "its tables are locked": lambda it: it.by_session("BEGIN", _LOCK),
    "its rows are locked": lambda it: it.by_session("BEGIN", "SELECT name FROM {schema}.stream FOR UPDATE"),
    "nobody empties its queue of notifications": lambda it: it.full_queue(),
    "it ends what takes long": lambda it: it.impatient(),
}
