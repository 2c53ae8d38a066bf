"""A primary that dies, and a standby that takes its place: what was sure is there, and what was only seen comes again."""

import asyncio
import signal

import pytest
from support.journals.journal_benches import Time
from support.postgres.cluster import Cluster, own_cluster, standby_of
from support.postgres.server import until

from turnbuckle.journal.port import Claim, Grade, ReadOnly, StorageFailed
from turnbuckle.journal.postgres.journal import PostgresJournal, open_postgres
from turnbuckle.journal.postgres.reader import Clocks, open_postgres_reader

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


async def written(journal: PostgresJournal, owner: str, word: bytes) -> tuple[int, int]:
    """The number under which an owner writes something, and that of the item."""
    claim = await journal.claim("run", owner, 60)
    assert isinstance(claim, Claim)
    place = {"after": claim.head, "epoch": claim.epoch}
    seq = await journal.append("run", [word], **place, grade=Grade.SYNCED)
    await journal.release(claim)
    return claim.epoch, seq


@pytest.mark.process
@pytest.mark.requirement("K6")
def test_the_number_of_a_claim_that_a_standby_had_not_received_is_never_given_again():
    """So whoever read under it, and comes back later, does not take what another wrote for the rest."""

    async def main(primary: Cluster, standby: Cluster):
        place = f"postgresql://tester@/postgres?host={primary.folder},{standby.folder}"
        time = Time()
        clocks = Clocks(monotonic=time.now, leases=time.now, wall=time.wall, grace=0)
        dies = await open_postgres(place, clocks)
        first = await written(dies, "one", b"kept")
        position = primary.sql("SELECT pg_current_wal_lsn()")
        arrived = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        await asyncio.to_thread(until, lambda: standby.sql(arrived) == "t")
        await asyncio.to_thread(standby.sql, "ALTER SYSTEM SET primary_conninfo = ''")
        await asyncio.to_thread(standby.sql, "SELECT pg_reload_conf()")
        await asyncio.to_thread(
            until, lambda: standby.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0"
        )
        lost = await written(dies, "one", b"lost")
        await asyncio.to_thread(primary.stop, signal.SIGKILL)
        await dies.close()
        await asyncio.to_thread(standby.promote)
        stays = await open_postgres(place, clocks)
        again = await written(stays, "two", b"new")
        items = [item.data for item in await stays.read("run")]
        await stays.close()
        return first, lost, again, items

    with own_cluster(**REPLICATED) as primary, standby_of(primary, **REPLICATED) as standby:
        first, lost, again, items = asyncio.run(asyncio.wait_for(main(primary, standby), 100))
    assert items == [b"kept", b"new"]
    assert first < lost < again
    assert again[1] < 1 << 53  # exact in JavaScript, too
