"""Real processes that are killed in the middle of appending."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.journals import append_process

from turnbuckle.journal.port import EPOCH_BITS, InUse, StreamQuery
from turnbuckle.journal.sqlite.doctor import check
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import read_all

KILLS = 12


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, append_process.__file__, str(folder)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def kill_after(process: subprocess.Popen[bytes], lines: int) -> dict[str, int]:
    """Kill the process when it has said so many lines; the last number it said of each stream."""
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    return {
        stream: int(seq) for stream, seq in (line.decode().split() for line in said if line.endswith(b"\n"))
    }


async def stored(folder: Path) -> dict[str, list[tuple[int, bytes]]]:
    reader = SqliteReader(folder)
    found = {}
    for stream in append_process.STREAMS:
        found[stream] = [(item.seq, item.data) async for page in read_all(reader, stream) for item in page]
    await reader.close()
    return found


@pytest.mark.requirement("E2")
@pytest.mark.realtime
def test_a_killed_process_loses_nothing_that_it_had_said(tmp_path):
    chance = random.Random(3)
    before: dict[str, list[tuple[int, bytes]]] = {stream: [] for stream in append_process.STREAMS}
    for kill in range(KILLS):
        said = kill_after(start(tmp_path), chance.randint(1, 600))
        assert check(tmp_path).sound
        found = asyncio.run(stored(tmp_path))
        for stream, items in found.items():
            assert items[: len(before[stream])] == before[stream]
            numbers = [seq for seq, _ in items]
            assert said.get(stream, 0) <= (numbers[-1] if numbers else 0)
            assert all(data == append_process.content(stream, seq) for seq, data in items)
            this_epoch = [seq for seq in numbers if seq >> EPOCH_BITS == kill]
            assert this_epoch == [(kill << EPOCH_BITS) + at for at in range(1, len(this_epoch) + 1)]
        before = found


@pytest.mark.requirement("E6")
@pytest.mark.realtime
def test_a_second_process_is_refused_with_a_clear_message_and_readers_are_not(tmp_path):
    process = start(tmp_path)
    assert process.stdout is not None
    process.stdout.readline()

    async def read_beside() -> None:
        reader = SqliteReader(tmp_path)
        assert reader.writer
        await reader.wait("a", 0)
        head = await reader.head("a")
        await reader.wait("a", head)  # news of another process arrive
        assert len(await reader.streams(StreamQuery())) == len(append_process.STREAMS)
        assert await reader.streams(StreamQuery(orphaned=True)) == []
        await reader.close()

    try:
        with pytest.raises(InUse, match=f"process {process.pid} already writes"):
            SqliteJournal(tmp_path)
        drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        asyncio.run(asyncio.wait_for(read_beside(), 100))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    drain.wait()

    async def after() -> None:
        reader = SqliteReader(tmp_path)
        assert not reader.writer
        assert {row.name for row in await reader.streams(StreamQuery(orphaned=True))} == set(
            append_process.STREAMS
        )
        await reader.close()
        await SqliteJournal(tmp_path).close()

    asyncio.run(after())
