"""Mending is one step: whenever its process dies, there is a journal, and nothing that was sound is lost."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.journals import mend_process

from turnbuckle.journal.port import Claim, Grade
from turnbuckle.journal.sqlite.doctor import check, mend
from turnbuckle.journal.sqlite.folder import DATABASE, MENDED
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader

STREAMS = ("first", "second")


async def fill(folder: Path) -> None:
    journal = SqliteJournal(folder)
    for stream in STREAMS:
        claim = await journal.claim(stream, "one", 60)
        assert isinstance(claim, Claim)
        await journal.append(stream, [b"%d" % at for at in range(50)], after=0, epoch=0, grade=Grade.SYNCED)
        await journal.release(claim)
    await journal.close()


async def heads(journal: SqliteReader | SqliteJournal) -> dict[str, int]:
    found = {}
    for stream in STREAMS:
        items = await journal.read(stream)
        found[stream] = items[-1].seq if items else 0
    await journal.close()
    return found


def damaged(folder: Path) -> Path:
    """A journal with one bad item, and with a part of it still in its log."""
    asyncio.run(fill(folder))
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("UPDATE item SET data = x'00' WHERE stream = 2 AND seq = 30")
    connection.commit()
    for ending in ("", "-wal"):  # as the process that dies leaves them
        shutil.copy(folder / f"{DATABASE}{ending}", folder / f"copy{ending}")
    connection.close()
    for ending in ("", "-wal"):
        os.replace(folder / f"copy{ending}", folder / f"{DATABASE}{ending}")
    return folder


def mend_until(folder: Path, change: int) -> subprocess.CompletedProcess[bytes]:
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, mend_process.__file__, str(folder), str(change)]
    return subprocess.run(command, env=path, capture_output=True, check=False)


@pytest.mark.requirement("E12", "E8")
@pytest.mark.process
def test_a_mend_that_dies_anywhere_leaves_a_journal_and_is_finished_by_whoever_comes(tmp_path):
    whole = damaged(tmp_path / "whole")
    changes = int(mend_until(whole, 10_000).stdout)
    assert changes > 8
    seen = set()
    for change in range(1, changes + 1):
        folder = damaged(tmp_path / str(change))
        assert mend_until(folder, change).returncode == -signal.SIGKILL
        seen.add((folder / MENDED).exists())
        other = shutil.copytree(folder, tmp_path / f"{change}-read")
        assert (
            asyncio.run(heads(SqliteReader(other)))["first"] == 50
        )  # who only reads finds all that is sound
        written = shutil.copytree(folder, tmp_path / f"{change}-written")
        assert asyncio.run(heads(SqliteJournal(written)))["first"] == 50
        mend(folder)
        assert check(folder).sound
        assert asyncio.run(heads(SqliteReader(folder))) == {"first": 50, "second": 29}
        kept = [
            file
            for file in folder.iterdir()
            if "damaged-" in file.name and not file.name.endswith(("-wal", "-shm"))
        ]
        assert len(kept) == 1
        assert not (folder / MENDED).exists()
    assert seen == {True, False}
