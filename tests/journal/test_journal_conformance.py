"""Both bodies of the journal do what the port says."""

import asyncio

import pytest
from journal_benches import BENCHES

from turnbuckle.lab.conformance.journal import CASES


@pytest.mark.requirement("E1", "E2", "E6")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", BENCHES)
def test_every_journal_keeps_the_promise(case, bench_of, tmp_path):
    async def main():
        bench = bench_of(tmp_path)
        try:
            await case(bench)
        finally:
            await bench.close()

    asyncio.run(asyncio.wait_for(main(), 30))
