"""A real limit of the operating system, instead of a made-up one."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, resource, sys
from pathlib import Path
from turnbuckle.journal.port import Grade, StorageError
from turnbuckle.journal.sqlite.journal import SqliteJournal

async def main():
    journal = SqliteJournal(Path(sys.argv[1]))
    await journal.claim("run", "one", 60)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    stored, refused = 0, 0
    for number in range(60):
        grade = Grade.SYNCED if number % 5 == 0 else Grade.FLUSHED
        try:
            stored = await journal.append("run", [b"x" * 9000] * 2, after=stored, epoch=0, grade=grade)
        except StorageError:
            refused += 1
        assert await journal.head("run") == stored
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    more = await journal.append("run", [b"more"], after=stored, epoch=0, grade=Grade.SYNCED)
    count = len(await journal.read("run", 0, 500))
    await journal.close()
    print(refused > 0, 0 < stored, more == stored + 1, count == more)

asyncio.run(main())
"""


@pytest.mark.requirement("E2", "E8")
@pytest.mark.realtime
def test_a_file_that_may_not_grow_refuses_tears_nothing_and_recovers(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True True True True\n", "")
