"""Every body of the journal does what the port says."""

import asyncio

import pytest
from msgspec.structs import replace
from support.journals.journal_benches import MemoryBench, SqliteBench
from support.journals.large_items_bench import LargeItemsBench
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Changes, SearchPage
from turnbuckle.testing.conformance import (
    journal,
    journal_changing,
    journal_merging,
    journal_reading,
    journal_search,
)


class DatabaseBench(PostgresBench):
    """A folder means nothing to it."""

    def __init__(self, folder):
        super().__init__()


BENCHES = (MemoryBench, SqliteBench, DatabaseBench, LargeItemsBench)


async def put_through(case, bench):
    if isinstance(bench, PostgresBench):
        await bench.open()
    try:
        await case(bench)
    finally:
        await bench.close()


def keeps(case, bench):
    """Whether a journal does what a case wants. What it does not do is told by the case itself, which raises."""
    asyncio.run(asyncio.wait_for(put_through(case, bench), 100))
    return True


@pytest.mark.requirement("E1", "E2", "E6", "E7", "K1")
@pytest.mark.parametrize("case", journal.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_keeps_the_promise(case, bench_of, tmp_path):
    assert keeps(case, bench_of(tmp_path))


@pytest.mark.requirement("E1", "E4")
@pytest.mark.parametrize("case", journal_reading.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_is_read_in_one_way(case, bench_of, tmp_path):
    assert keeps(case, bench_of(tmp_path))


@pytest.mark.requirement("G7")
@pytest.mark.parametrize("case", journal_search.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_can_be_searched(case, bench_of, tmp_path):
    assert keeps(case, bench_of(tmp_path))


@pytest.mark.requirement("E4", "E8")
@pytest.mark.parametrize("case", journal_merging.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_makes_one_item_of_several(case, bench_of, tmp_path):
    assert keeps(case, bench_of(tmp_path))


@pytest.mark.requirement("E12")
@pytest.mark.parametrize("case", journal_changing.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_changes_several_streams_as_a_whole(case, bench_of, tmp_path):
    assert keeps(case, bench_of(tmp_path))


class Careless(MemoryJournal):
    """Leaves out the last of several items, finds nothing, says of a merge only that it was done, and changes several
    streams one after the other."""

    async def read(self, *asked, **more):
        found = await super().read(*asked, **more)
        return found[:-1] if len(found) > 1 else found

    async def search(self, *asked, **more):
        return SearchPage([])

    async def merge(self, *asked, **more):
        return True

    async def change_all(self, changes):
        await super().change_all(Changes(drops=changes.drops[:1]))
        return await super().change_all(replace(changes, drops=changes.drops[1:]))


class CarelessBench(MemoryBench):
    def __init__(self, folder):
        super().__init__(folder)
        self.memory = Careless(monotonic=self.time.now, wall=self.time.wall)


@pytest.mark.parametrize(
    "case",
    [
        journal.any_cursor_gives_the_rest,
        journal_reading.the_newest_items_are_read_like_all_others,
        journal_search.streams_are_found_by_what_was_noted,
        journal_merging.merged_items_are_one_and_all_other_numbers_stay,
        journal_changing.nothing_is_dropped_beside_a_stream_that_somebody_holds,
    ],
    ids=lambda case: case.__name__,
)
def test_a_journal_that_breaks_a_promise_is_found_out(case, tmp_path):
    with pytest.raises(AssertionError):
        keeps(case, CarelessBench(tmp_path))
