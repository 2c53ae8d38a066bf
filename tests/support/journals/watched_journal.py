"""A journal in a folder whose connection is watched: what runs in which thread, and what can go wrong there."""

import asyncio
import sqlite3
import threading
from pathlib import Path

from turnbuckle.journal.port import Claim, Grade
from turnbuckle.journal.sqlite import committer, database
from turnbuckle.journal.sqlite.journal import SqliteJournal


class Watched:
    """A connection that notes what runs in which thread, and can be held up at its next synced commit."""

    def __init__(self, inner: database.SqlConnection) -> None:
        self.inner = inner
        self.log: list[tuple[str, bool]] = []  # (statement, whether on the loop's thread)
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False
        self.folds = True
        self.breaks = ""  # statements that begin so fail

    def execute(self, sql, parameters=()):
        self.log.append((sql, threading.current_thread() is threading.main_thread()))
        self._break(sql)
        if "wal_checkpoint" in sql and not self.folds:
            raise sqlite3.OperationalError("disk I/O error")
        if sql == "COMMIT":
            assert self.gate.wait(100)
            if self.broken:
                raise OSError(5, "the disk is gone")
        return self.inner.execute(sql, parameters)

    def executemany(self, sql, parameters):
        self.log.append((sql, threading.current_thread() is threading.main_thread()))
        self._break(sql)
        return self.inner.executemany(sql, parameters)

    def _break(self, sql: str) -> None:
        if self.breaks and sql.startswith(self.breaks):
            raise sqlite3.OperationalError("disk I/O error")

    @property
    def in_transaction(self) -> bool:
        return self.inner.in_transaction

    def interrupt(self) -> None:
        self.inner.interrupt()

    def close(self) -> None:
        self.inner.close()

    def count(self, statement: str) -> int:
        return sum(sql == statement for sql, _ in self.log)


class Bench:
    def __init__(
        self,
        folder: Path,
        checkpoint_pages: int = committer.CHECKPOINT_PAGES,
        catch_up: float = 3600.0,
    ) -> None:
        self.seconds = 0.0  # that a commit takes, by our stopwatch
        self.now = 0.0
        self.journal = SqliteJournal(
            folder,
            connect=self._connect,
            checkpoint_pages=checkpoint_pages,
            stopwatch=self._look,
            catch_up=catch_up,
        )

    def _look(self) -> float:
        self.now += self.seconds
        return self.now

    def _connect(self, file: Path, *, read_only: bool = False) -> database.SqlConnection:
        inner = database.connect(file, read_only=read_only)
        if read_only:
            return inner
        self.watched = Watched(inner)
        return self.watched

    async def claim(self, stream: str) -> Claim:
        claim = await self.journal.claim(stream, "one", 60)
        assert isinstance(claim, Claim)
        return claim

    async def append(
        self, stream: str, items: list[bytes], after: int = 0, grade: Grade = Grade.SYNCED
    ) -> int:
        return await self.journal.append(stream, items, after=after, epoch=0, grade=grade)


def run(coroutine) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 100))
