"""What is deleted from the database goes in small pieces: no long transaction, and nobody waits for it."""

import asyncio

import pytest
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.port import Claim, Grade, Item, Merge
from turnbuckle.journal.postgres import rows
from turnbuckle.runtime.retention import STEP_ITEMS, in_steps

MANY = 4500


def played(scenario):
    async def main():
        bench = PostgresBench()
        await bench.open()
        try:
            return await scenario(bench.journal)
        finally:
            await bench.close()

    return asyncio.run(asyncio.wait_for(main(), 100))


async def written(journal, stream: str, count: int) -> None:
    claim = await journal.claim(stream, "me", 60)
    assert isinstance(claim, Claim)
    for after in range(0, count, 1500):
        await journal.append(stream, [b"x"] * 1500, after=after, epoch=claim.epoch, grade=Grade.FLUSHED)
    await journal.release(claim)


@pytest.mark.requirement("K10")
def test_a_long_stream_is_deleted_in_pieces_beside_others_who_write():
    async def scenario(journal):
        await written(journal, "long", MANY)
        async with journal.links["reading"].use() as connection:
            key = await connection.fetchval("SELECT id FROM stream WHERE name = 'long'")
            async with connection.transaction():
                await rows.write_drops(connection, [key])
            left = []
            while await rows.sweep_some(connection, key):
                left.append(await connection.fetchval("SELECT count(*) FROM item WHERE stream = $1", key))
                other = await journal.claim(f"other{len(left)}", "me", 60)
                await journal.append(other.stream, [b"y"], after=0, epoch=other.epoch, grade=Grade.SYNCED)
            remains = await connection.fetchval("SELECT count(*) FROM dropped")
        return left, remains, await journal.head("other1")

    left, remains, head = played(scenario)
    steps = [before - after for before, after in zip([MANY, *left], left, strict=False)]
    assert max(steps) <= 2000
    assert left[-1] == 0
    assert remains == 0
    assert head == 1


@pytest.mark.requirement("K10")
def test_what_a_process_left_of_a_drop_goes_with_the_next_start():
    async def scenario(journal):
        await written(journal, "long", 1500)
        async with journal.links["reading"].use() as connection:
            key = await connection.fetchval("SELECT id FROM stream WHERE name = 'long'")
            await rows.write_drops(connection, [key])  # and it died
        gone = await journal.head("long")
        await journal.sweep()
        async with journal.links["reading"].use() as connection:
            return gone, await connection.fetchval("SELECT count(*) FROM item")

    assert played(scenario) == (0, 0)


@pytest.mark.parametrize(
    "counts, steps",
    (
        ([], []),
        ([1, 2, 3], [6]),
        ([STEP_ITEMS, 1], [STEP_ITEMS, 1]),
        ([1500, 1500, 1500, 10], [3000, 1510]),
        ([9000, 1], [9000, 1]),
    ),
)
def test_merges_are_done_in_steps(counts: list[int], steps: list[int]):
    merges = [Merge(number, Item(number, b"")) for number in range(len(counts))]
    found = list(in_steps(merges, counts))
    assert [count for _, count in found] == steps
    assert [merge for step, _ in found for merge in step] == merges


@pytest.mark.requirement("K10")
def test_room_that_was_deleted_is_used_again_before_a_table_has_grown_by_much():
    async def scenario(journal):
        async with journal.links["reading"].use() as connection:
            tables = ["item", "stream", "word"]
            sql = "SELECT reloptions::text FROM pg_class WHERE oid = to_regclass($1)"
            return [await connection.fetchval(sql, table) for table in tables]

    assert all("autovacuum_vacuum_scale_factor=0.05" in options for options in played(scenario))
