"""What a standby had not received: a claim that somebody else was given there under the same number, and the end
of a stream that is changed together with others."""

import asyncio

import pytest
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.port import Append, Changes, Fenced, Grade, IndexUpdate


def lose_claim(bench, items):
    """What a standby knows that had received so many items, and not the newest claim."""
    bench.server.sql(
        f"UPDATE {bench.schema}.stream SET epoch = epoch - 1, holder = '', node = 0, until = 0;"
        f"DELETE FROM {bench.schema}.item WHERE seq > {items}"
    )


async def claimed_twice(bench):
    """Two processes whose claims have the same number. The first has stored three items under it."""
    journal, other = bench.journal, await bench.another()
    await journal.release(await journal.claim("run", "one", 60))
    mine = await journal.claim("run", "one", 60)
    head = await journal.append("run", [b"a", b"b", b"c"], after=0, epoch=1, grade=Grade.SYNCED)
    lose_claim(bench, 0)
    theirs = await other.claim("run", "two", 60)
    assert (mine.epoch, theirs.epoch) == (1, 1)
    return journal, other, mine, theirs, head


@pytest.mark.requirement("K6")
@pytest.mark.parametrize("known", [0, 1], ids=["nothing", "something"])
def test_whoever_lost_a_claim_stores_nothing_behind_what_another_stored_under_the_same_number(known):
    async def main():
        bench = await PostgresBench().open()
        journal, other, _, _, head = await claimed_twice(bench)
        stored = [b"theirs"] * known
        end = await other.append("run", stored, after=0, epoch=1, grade=Grade.SYNCED)
        with pytest.raises(Fenced):
            await journal.append("run", [b"d"], after=head, epoch=1, grade=Grade.FLUSHED)
        await other.append("run", [b"more"], after=end, epoch=1, grade=Grade.SYNCED)
        items = [item.data for item in await other.read("run")]
        await other.close()
        await bench.close()
        return items

    assert asyncio.run(asyncio.wait_for(main(), 100)) == [*[b"theirs"] * known, b"more"]


@pytest.mark.requirement("K6")
def test_whoever_lost_a_claim_neither_renews_nor_gives_back_that_of_another():
    async def main():
        bench = await PostgresBench().open()
        journal, other, mine, theirs, _ = await claimed_twice(bench)
        renewed = await journal.renew(mine, 600), journal.still_mine(mine)
        await journal.release(mine)
        third = await bench.another()
        held = await third.claim("run", "three", 60)
        kept = await other.renew(theirs, 60)
        await third.close()
        await other.close()
        await bench.close()
        return renewed, held.by, kept

    assert asyncio.run(asyncio.wait_for(main(), 100)) == ((False, False), "two", True)


@pytest.mark.requirement("K6")
def test_a_claim_that_is_given_back_late_leaves_the_one_of_another_under_the_same_number_alone():
    async def main():
        bench = await PostgresBench().open()
        journal, other, mine, theirs, _ = await claimed_twice(bench)
        await journal.release(mine)
        kept = await other.renew(theirs, 60)
        await other.close()
        await bench.close()
        return kept

    assert asyncio.run(asyncio.wait_for(main(), 100))


@pytest.mark.requirement("K6")
def test_a_change_of_several_streams_also_stores_again_what_was_lost_before_it():
    async def main():
        bench = await PostgresBench().open()
        journal = bench.journal
        for name in ("one", "two"):
            await journal.claim(name, "me", 60)
            await journal.append(name, [b"a", b"b"], after=0, epoch=0, grade=Grade.SYNCED)
        bench.server.sql(f"DELETE FROM {bench.schema}.item WHERE seq > 1")
        appends = [Append(name, [b"c"], 2, 0, IndexUpdate(status="new")) for name in ("one", "two")]
        changed = await journal.change_all(Changes(appends=appends))
        other = await bench.another()
        items = [[item.data for item in await other.read(name)] for name in ("one", "two")]
        await other.close()
        await bench.close()
        return changed, items

    assert asyncio.run(asyncio.wait_for(main(), 100)) == (True, [[b"a", b"b", b"c"]] * 2)


@pytest.mark.requirement("K6")
@pytest.mark.parametrize("row", ["older", "gone"])
def test_a_claim_that_was_lost_and_is_taken_again_has_a_number_that_no_reader_has_seen(row):
    async def main():
        bench = await PostgresBench().open()
        journal = bench.journal
        await journal.release(await journal.claim("run", "one", 60))
        lost = await journal.claim("run", "one", 60)
        seen = await journal.append("run", [b"a", b"b"], after=0, epoch=1, grade=Grade.SYNCED)
        lose_claim(bench, 0)
        if row == "gone":
            bench.server.sql(f"DELETE FROM {bench.schema}.stream")
        with pytest.raises(Fenced):
            await journal.append("run", [b"c"], after=seen, epoch=1, grade=Grade.SYNCED)
        claim = await journal.claim("run", "one", 60)
        head = await journal.append("run", [b"new"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
        await bench.close()
        return lost.epoch, claim.epoch, claim.head, head > seen

    assert asyncio.run(asyncio.wait_for(main(), 100)) == (1, 2, 0, True)
