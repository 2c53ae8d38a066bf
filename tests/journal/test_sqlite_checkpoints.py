"""The log of a journal is folded into its file: where, how often, and what is told if it cannot be."""

import asyncio

import pytest
from support.journals.watched_journal import Bench, run

from turnbuckle.journal.port import Grade


def test_checkpoints_happen_in_the_thread_and_keep_the_log_short(tmp_path):
    async def main():
        bench = Bench(tmp_path, checkpoint_pages=50)
        await bench.claim("run")
        head = 0
        for _ in range(1000):
            head = await bench.append("run", [b"x" * 1000], head, Grade.FLUSHED)
            await asyncio.sleep(0)
        checkpoints = [on_loop for sql, on_loop in bench.watched.log if "wal_checkpoint(PASSIVE)" in sql]
        assert len(checkpoints) > 10
        assert not any(checkpoints)
        assert (tmp_path / "journal.db-wal").stat().st_size < 2_000_000
        assert bench.journal._committer.checkpoint_error is None
        await bench.journal.close()
        assert not (tmp_path / "journal.db-wal").exists()

    run(main())


@pytest.mark.requirement("E10")
def test_a_log_that_cannot_be_folded_into_its_file_is_told_once_and_loses_nothing(tmp_path, caplog):
    async def main():
        bench = Bench(tmp_path, checkpoint_pages=10)
        await bench.claim("run")
        head, bench.watched.folds = 0, False
        for _ in range(100):
            head = await bench.append("run", [b"x" * 1000], head, Grade.FLUSHED)
            await asyncio.sleep(0)
        assert len(await bench.journal.read("run", 0, 1000)) == 100
        bench.watched.folds = True
        await bench.journal.close()

    run(main())
    assert [record.message for record in caplog.records] == [
        "the journal's log grows, since it cannot be folded into its file: disk I/O error"
    ]
