"""A primary that dies, and a standby that takes its place: what was sure is there, and what was only seen comes again."""

import asyncio
import signal

import pytest
from support.postgres.cluster import own_cluster, standby_of

from turnbuckle.journal.port import Grade, ReadOnly, StorageFailed
from turnbuckle.journal.postgres.journal import open_postgres
from turnbuckle.journal.postgres.reader import open_postgres_reader

REPLICATED = {"wal_level": "replica", "max_wal_senders": "5"}


@pytest.mark.process
@pytest.mark.requirement("K6")
def test_a_standby_that_takes_the_place_of_a_dead_primary_is_found_and_has_everything_that_was_sure():
    async def main(primary, standby):
        journal = await open_postgres(f"postgresql://tester@/postgres?host={primary.folder},{standby.folder}")
        claim = await journal.claim("run", "one", 600)
        await journal.append("run", [b"sure"], after=0, epoch=0, grade=Grade.SYNCED)
        await journal.append("run", [b"seen", b"too"], after=1, epoch=0, grade=Grade.FLUSHED)
        with pytest.raises(ReadOnly, match="standby"):
            await open_postgres(f"postgresql://tester@/postgres?host={standby.folder}")
        await asyncio.to_thread(primary.stop, signal.SIGQUIT)
        with pytest.raises(StorageFailed):  # nobody takes what is written at this moment
            await journal.append("run", [b"more"], after=3, epoch=0, grade=Grade.FLUSHED)
        await asyncio.to_thread(standby.promote)
        head = await journal.append("run", [b"more"], after=3, epoch=0, grade=Grade.FLUSHED)
        mine = await journal.renew(claim, 600), journal.still_mine(claim)
        looking = await open_postgres_reader(f"postgresql://tester@/postgres?host={standby.folder}")
        items = [item.data for item in await looking.read("run")]
        await looking.close()
        await journal.close()
        return head, items, mine

    with (
        own_cluster(**REPLICATED, synchronous_standby_names="*") as primary,
        standby_of(primary, **REPLICATED) as standby,
    ):
        answer = asyncio.run(asyncio.wait_for(main(primary, standby), 300))
    assert answer == (4, [b"sure", b"seen", b"too", b"more"], (True, True))
