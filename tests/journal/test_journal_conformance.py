"""Both bodies of the journal do what the port says."""

import asyncio

import pytest
from journal_benches import BENCHES

from turnbuckle.lab.conformance import journal, journal_merging, journal_reading, journal_search


async def put_through(case, bench):
    try:
        await case(bench)
    finally:
        await bench.close()


def run(case, bench):
    asyncio.run(asyncio.wait_for(put_through(case, bench), 30))


@pytest.mark.requirement("E1", "E2", "E6")
@pytest.mark.parametrize("case", journal.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_keeps_the_promise(case, bench_of, tmp_path):
    run(case, bench_of(tmp_path))


@pytest.mark.requirement("E1", "E4")
@pytest.mark.parametrize("case", journal_reading.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_is_read_in_one_way(case, bench_of, tmp_path):
    run(case, bench_of(tmp_path))


@pytest.mark.requirement("G7")
@pytest.mark.parametrize("case", journal_search.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_can_be_searched(case, bench_of, tmp_path):
    run(case, bench_of(tmp_path))


@pytest.mark.requirement("E4", "E8")
@pytest.mark.parametrize("case", journal_merging.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_makes_one_item_of_several(case, bench_of, tmp_path):
    run(case, bench_of(tmp_path))
