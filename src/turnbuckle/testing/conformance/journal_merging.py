"""What every journal must do when several items of a stream become one."""

import asyncio

from turnbuckle.journal.port import Claim, Grade, IndexUpdate, Item, Merge, first_seq
from turnbuckle.testing.conformance.journal import Bench, Case, add, claimed, everything


async def _written(bench: Bench, count: int = 9) -> Claim:
    """A stream of so many items that nobody holds any more."""
    claim = await claimed(bench)
    await add(bench, claim, [b"%d" % number for number in range(1, count + 1)], grade=Grade.SYNCED)
    await bench.journal.release(claim)
    return claim


async def merged_items_are_one_and_all_other_numbers_stay(bench: Bench) -> None:
    await _written(bench)
    assert await bench.journal.merge("run", [Merge(2, Item(4, b"234")), Merge(6, Item(7, b"67"))])
    left = [(1, b"1"), (4, b"234"), (5, b"5"), (7, b"67"), (8, b"8"), (9, b"9")]
    assert await everything(bench) == [Item(*pair) for pair in left]
    assert await bench.journal.head("run") == 9
    for after in range(12):
        assert [item.seq for item in await everything(bench, after=after)] == [
            seq for seq, _ in left if seq > after
        ]


async def the_first_and_the_last_item_can_be_merged(bench: Bench) -> None:
    await _written(bench, 4)
    assert await bench.journal.merge("run", [Merge(1, Item(2, b"12")), Merge(3, Item(4, b"34"))])
    assert await everything(bench) == [Item(2, b"12"), Item(4, b"34")]
    assert await bench.journal.merge(
        "run", [Merge(2, Item(4, b"all"))]
    )  # what was merged can be merged again
    assert await everything(bench) == [Item(4, b"all")]
    assert [item.seq for item in await everything(bench, after=3)] == [4]
    assert await bench.journal.head("run") == 4


async def a_merged_stream_can_be_written_again(bench: Bench) -> None:
    await _written(bench, 3)
    assert await bench.journal.merge("run", [Merge(1, Item(3, b"123"))])
    claim = await claimed(bench, owner="two")
    assert (claim.epoch, claim.head) == (1, 3)
    assert await add(bench, claim, [b"more", b"still more"]) == first_seq(1) + 1
    await bench.journal.release(claim)
    assert await bench.journal.merge("run", [Merge(first_seq(1), Item(first_seq(1) + 1, b"both"))])
    assert await everything(bench) == [Item(3, b"123"), Item(first_seq(1) + 1, b"both")]
    assert [item.data for item in await everything(bench, after=9)] == [b"both"]


async def a_stream_that_somebody_holds_is_not_merged(bench: Bench) -> None:
    assert not await bench.journal.merge("none", [])
    claim = await claimed(bench)
    await add(bench, claim, [b"a", b"b"])
    assert not await bench.journal.merge("run", [Merge(1, Item(2, b"ab"))])
    assert [item.data for item in await everything(bench)] == [b"a", b"b"]
    assert await add(bench, claim, [b"c"]) == 3


async def a_merge_that_does_not_fit_changes_nothing(bench: Bench) -> None:
    claim = await _written(bench, 3)
    second = await claimed(bench, owner="two")
    await add(bench, second, [b"4"])
    await bench.journal.release(second)
    before = await everything(bench)
    wrong = (
        [Merge(3, Item(2, b""))],
        [Merge(1, Item(2, b"")), Merge(2, Item(3, b""))],
        [Merge(2, Item(3, b"")), Merge(1, Item(1, b""))],
        [Merge(3, Item(first_seq(1), b""))],
        [Merge(1, Item(2, b"good")), Merge(3, Item(4, b"there is no 4"))],
        [Merge(0, Item(2, b""))],
    )
    for merges in wrong:
        try:
            await bench.journal.merge(claim.stream, merges)
        except ValueError:
            assert await everything(bench) == before
        else:
            raise AssertionError(f"was not refused: {merges}")


async def a_merge_leaves_the_index_and_the_claims_as_they_are(bench: Bench) -> None:
    await _written(bench)
    await bench.journal.note("run", IndexUpdate(kind="run", status="completed", words="a word"))
    before = (await bench.journal.streams())[0]
    bench.pass_time(5)
    assert await bench.journal.merge("run", [Merge(2, Item(8, b"2-8"))])
    assert (await bench.journal.streams())[0] == before
    assert [found.row.name for found in (await bench.journal.search("word")).hits] == ["run"]
    assert (await claimed(bench, owner="two")).epoch == before.epoch + 1


async def readers_in_the_middle_go_on_behind_what_was_merged(bench: Bench) -> None:
    await _written(bench)
    waiting = asyncio.ensure_future(bench.journal.wait("run", 9))
    assert [item.seq for item in await bench.journal.read("run", 0, 3)] == [1, 2, 3]
    assert await bench.journal.merge("run", [Merge(2, Item(5, b"2-5"))])
    assert [item.seq for item in await bench.journal.read("run", 3, 3)] == [5, 6, 7]
    assert not waiting.done()
    claim = await claimed(bench, owner="two")
    await add(bench, claim, [b"more"])
    await asyncio.wait_for(waiting, 10)


async def a_merge_survives_the_death_of_the_process(bench: Bench) -> None:
    await _written(bench)
    assert await bench.journal.merge("run", [Merge(1, Item(9, b"all of it"))])
    await bench.kill()
    assert await everything(bench) == [Item(9, b"all of it")]
    assert await bench.journal.head("run") == 9
    assert (await claimed(bench, owner="two")).head == 9


CASES: tuple[Case, ...] = (
    merged_items_are_one_and_all_other_numbers_stay,
    the_first_and_the_last_item_can_be_merged,
    a_merged_stream_can_be_written_again,
    a_stream_that_somebody_holds_is_not_merged,
    a_merge_that_does_not_fit_changes_nothing,
    a_merge_leaves_the_index_and_the_claims_as_they_are,
    readers_in_the_middle_go_on_behind_what_was_merged,
    a_merge_survives_the_death_of_the_process,
)
