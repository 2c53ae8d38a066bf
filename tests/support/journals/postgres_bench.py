"""The bench on which the journal in a database is tested, with a real server."""

import asyncio

from support.journals.journal_benches import Time
from support.postgres.server import PostgresServer, shared_server, until

from turnbuckle.journal.address import read_address
from turnbuckle.journal.postgres.journal import PostgresJournal, open_postgres
from turnbuckle.journal.postgres.reader import Clocks

_FULL = """
CREATE OR REPLACE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF octet_length(NEW.data) > 1000 THEN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END IF;
    RETURN NEW; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON {schema}.item FOR EACH ROW EXECUTE FUNCTION {schema}.no_room()"""


class PostgresBench:
    """A schema of its own. The clocks are the test's, so time passes only when told to."""

    def __init__(self, server: PostgresServer | None = None) -> None:
        self.server = shared_server() if server is None else server
        self.time = Time()
        self.url = self.server.url()
        self.schema = read_address(self.url).schema
        self.journal: PostgresJournal

    async def open(self) -> "PostgresBench":
        self.journal = await self.another()
        return self

    async def another(self) -> PostgresJournal:
        """One more process on the same database."""
        clocks = Clocks(monotonic=self.time.now, leases=self.time.now, wall=self.time.wall, grace=0)
        return await open_postgres(self.url, clocks)

    def pass_time(self, seconds: float) -> None:
        self.time.seconds += seconds

    async def kill(self) -> None:
        await self.end(self.journal)
        self.journal = await self.another()

    async def end(self, journal: PostgresJournal) -> None:
        """It dies, and the database notices."""
        pids = [journal.listener.pid, *(link.pid for link in journal.links.values() if link.pid)]
        journal.abort()
        await asyncio.sleep(0)
        listed = ", ".join(map(str, pids))
        asked = f"SELECT count(*) FROM pg_stat_activity WHERE pid IN ({listed})"
        until(lambda: self.server.sql(asked) == "0")

    def fill(self) -> None:
        self.server.sql(_FULL.format(schema=self.schema))

    def make_room(self) -> None:
        self.server.sql(f"DROP TRIGGER no_room ON {self.schema}.item")

    async def close(self) -> None:
        await self.journal.close()
