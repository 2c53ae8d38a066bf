"""Two neighbouring versions on one database: the newer one brings the tables up to date while the older one writes."""

import asyncio

import pytest
from support.postgres.server import shared_server

from turnbuckle.journal.address import read_address
from turnbuckle.journal.port import Grade, IndexUpdate
from turnbuckle.journal.postgres.journal import PostgresJournal, open_postgres
from turnbuckle.journal.postgres.links import connect
from turnbuckle.journal.postgres.reader import Clocks
from turnbuckle.journal.postgres.schema import FORMAT, STEPS, bring_up_to_date, version_of
from turnbuckle.journal.tail import items_of

SINCE_NODES = 2  # the first shape on which several processes write


async def older_node(url: str) -> PostgresJournal:
    """A node that was started on the tables as they were, and knows of no others."""
    journal = PostgresJournal(read_address(url), Clocks())
    journal.listener.beside = True
    await journal.listener.open()
    return journal


@pytest.mark.requirement("K4")
@pytest.mark.parametrize("version", range(SINCE_NODES, FORMAT))
def test_tables_are_brought_up_to_date_while_an_older_node_writes(version: int):
    async def main():
        url = shared_server().url()
        address = read_address(url)
        connection = await connect(address)
        await bring_up_to_date(connection, address, STEPS, version)
        old = await older_node(url)
        claim = await old.claim("run", "old", 60.0)
        going, head = asyncio.Event(), 0

        async def write() -> None:
            nonlocal head
            for number in range(200):
                sure = Grade.SYNCED if number % 10 == 0 else Grade.FLUSHED
                note = IndexUpdate(kind="run", status="running") if number == 0 else None
                data = [b"%d" % number]
                head = await old.append("run", data, after=head, epoch=claim.epoch, grade=sure, note=note)
                if number == 20:
                    going.set()

        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            group.create_task(write())
            await going.wait()
            new = await open_postgres(url, beside=True)
        versions = await version_of(connection, address)
        seen = [item.data for item in await items_of(new, "run")]
        admitted = await new.nodes.quotas.admit("ann", "other", 1, 1.0)
        await old.release(claim)
        taken = await new.claim("run", "new", 60.0)
        for journal in (old, new):
            await journal.close()
        await connection.close()
        return versions, seen, taken.epoch, admitted.verdict

    versions, seen, epoch, verdict = asyncio.run(main())
    assert (versions, epoch, verdict) == (FORMAT, 1, "admitted")
    assert seen == [b"%d" % number for number in range(200)]


@pytest.mark.requirement("K4")
def test_several_that_start_at_once_bring_the_tables_up_to_date_once():
    async def main():
        url = shared_server().url()
        async with asyncio.timeout(100):
            made = await asyncio.gather(*(open_postgres(url, beside=True) for _ in range(4)))
        connection = await connect(read_address(url))
        version = await version_of(connection, read_address(url))
        for journal in made:
            await journal.close()
        await connection.close()
        return version

    assert asyncio.run(main()) == FORMAT
