"""The benches on which both bodies of the journal are tested."""

import gc
import math
from pathlib import Path

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Journal
from turnbuckle.journal.sqlite import database
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal


class Time:
    def __init__(self) -> None:
        self.seconds = 1000.0
        self.reads = 0

    def now(self) -> float:
        return self.seconds

    def wall(self) -> float:
        self.reads += 1
        return self.seconds + self.reads * 1e-6  # no two moments are the same


class MemoryBench:
    def __init__(self, folder: Path) -> None:
        self.time = Time()
        self.memory = MemoryJournal(monotonic=self.time.now, wall=self.time.wall)

    @property
    def journal(self) -> Journal:
        return self.memory

    def pass_time(self, seconds: float) -> None:
        self.time.seconds += seconds

    async def kill(self) -> None:
        self.memory = self.memory.after_kill()

    def fill(self) -> None:
        self.memory.room = 1000

    def make_room(self) -> None:
        self.memory.room = math.inf

    async def close(self) -> None:
        await self.memory.close()


class SqliteBench:
    def __init__(self, folder: Path) -> None:
        self.time = Time()
        self.folder = folder
        self.lives = 0
        self.journal: SqliteJournal = self._open(folder)

    def _open(self, folder: Path) -> SqliteJournal:
        return SqliteJournal(folder, connect=self._connect, monotonic=self.time.now, wall=self.time.wall)

    def _connect(self, file: Path, *, read_only: bool = False) -> database.SqlConnection:
        connection = database.connect(file, read_only=read_only)
        if not read_only:
            self.connection = connection
        return connection

    def pass_time(self, seconds: float) -> None:
        self.time.seconds += seconds

    async def kill(self) -> None:
        """A copy of the files as they are now is what a new process would find; the old journal is never used again."""
        self.lives += 1
        left = self.folder / f"life-{self.lives}"
        left.mkdir()
        for ending in ("", "-wal"):
            file = self.folder / (DATABASE + ending)
            if file.exists():
                (left / file.name).write_bytes(file.read_bytes())
        await self.journal.close()
        self.folder = left
        self.journal = self._open(left)

    def fill(self) -> None:
        pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
        self.connection.execute(f"PRAGMA max_page_count={pages + 2}").fetchall()

    def make_room(self) -> None:
        self.connection.execute("PRAGMA max_page_count=1000000").fetchall()

    async def close(self) -> None:
        await self.journal.close()
        gc.collect()  # a connection left open would warn here, in the test that left it


BENCHES = (MemoryBench, SqliteBench)
