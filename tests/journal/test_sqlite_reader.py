"""Reading beside a living writer, without disturbing it."""

import asyncio

import pytest

from turnbuckle.journal.port import Claim, Closed, Grade, IndexUpdate, InUse, StorageFailed
from turnbuckle.journal.sqlite.folder import has_writer
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import tail


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.mark.requirement("E5")
def test_a_reader_follows_another_process_and_a_slow_one_misses_nothing(tmp_path):
    async def main():
        journal = SqliteJournal(tmp_path)
        claim = await journal.claim("run", "one", 60)
        assert isinstance(claim, Claim)
        reader = SqliteReader(tmp_path, sleep=no_pause)
        following = tail(reader, "run", limit=10)
        head = await journal.append("run", [b"0"], after=0, epoch=0, grade=Grade.FLUSHED)
        assert [item.seq for item in await anext(following)] == [1]
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        for _ in range(40):
            head = await journal.append("run", [b"x"] * 5, after=head, epoch=0, grade=Grade.FLUSHED)
        seen = [item.seq for item in await waiting]
        while seen[-1] < head:
            seen.extend([item.seq for item in await anext(following)])
        assert seen == list(range(2, head + 1))
        await following.aclose()
        await reader.close()
        await journal.close()

    asyncio.run(asyncio.wait_for(main(), 100))


def test_a_reader_takes_no_lock_and_leaves_the_log_to_the_writer(tmp_path):
    async def main():
        assert not has_writer(tmp_path)
        journal = SqliteJournal(tmp_path)
        await journal.note("s", IndexUpdate(kind="session"))
        log = tmp_path / "journal.db-wal"
        size = log.stat().st_size
        reader = SqliteReader(tmp_path)
        assert reader.writer
        with pytest.raises(InUse):
            SqliteJournal(tmp_path)
        assert [row.name for row in await reader.streams()] == ["s"]
        await reader.close()
        assert log.stat().st_size == size
        await journal.close()
        reader = SqliteReader(tmp_path)
        assert not reader.writer
        await SqliteJournal(tmp_path).close()
        await reader.close()

    asyncio.run(main())


def test_closing_a_reader_ends_its_waits(tmp_path):
    async def main():
        await SqliteJournal(tmp_path).close()
        reader = SqliteReader(tmp_path, sleep=no_pause)
        wait = asyncio.ensure_future(reader.wait("run", 0))
        for _ in range(5):
            await asyncio.sleep(0)
        await reader.close()
        with pytest.raises(Closed):
            await wait
        with pytest.raises(Closed):
            await reader.head("run")

    asyncio.run(asyncio.wait_for(main(), 100))


def test_nobody_can_read_what_is_not_there(tmp_path):
    with pytest.raises(StorageFailed):
        SqliteReader(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
