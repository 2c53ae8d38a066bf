"""What is stored is handed to who waits for it, where it was stored: never before, in order, and to everybody's
good."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.http.memory_server import END, RUN, Lines, memory_server

from turnbuckle.journal.live import Waiters
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Closed, Gone, Grade, Item, StorageError
from turnbuckle.journal.sqlite import database
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal


def in_file(folder: Path) -> list[bytes]:
    """What somebody else finds in the store at this moment."""
    other = sqlite3.connect(folder / DATABASE)
    try:
        return [data for (data,) in other.execute("SELECT data FROM item ORDER BY stream, seq")]
    finally:
        other.close()


async def claimed(journal, stream: str = "run") -> Claim:
    claim = await journal.claim(stream, "one", 60)
    assert isinstance(claim, Claim)
    await journal.append(stream, [b"first"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
    return claim


@pytest.mark.requirement("E1", "E4")
def test_what_a_reader_is_handed_is_in_the_file_by_then(tmp_path):
    seen: list[tuple[bytes, bool]] = []

    def take(items: Sequence[Item]) -> bool:
        stored = in_file(tmp_path)
        seen.extend((item.data, item.data in stored) for item in items)
        return True

    async def main():
        journal = SqliteJournal(tmp_path)
        claim = await claimed(journal)
        landed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(journal.wait("run", 1, take))
        await asyncio.sleep(0)
        await journal.append("run", [b"alone"], after=1, epoch=claim.epoch, grade=Grade.FLUSHED)
        gathered = journal.append("run", [b"gathered"], after=2, epoch=claim.epoch, grade=Grade.FLUSHED)
        await gathered
        await journal.append("run", [b"sure", b"too"], after=3, epoch=claim.epoch, grade=Grade.SYNCED)
        begun = journal.append_soon(
            "run", b"soon", after=5, epoch=claim.epoch, landed=lambda head, _: landed.set_result(head)
        )
        before = list(seen)
        assert begun
        assert await landed == 6
        await journal.close()
        with pytest.raises(Closed):
            await waiting
        return before

    before = asyncio.run(main())
    assert [data for data, _ in before] == [
        b"alone",
        b"gathered",
        b"sure",
        b"too",
    ]  # the last was not stored yet
    assert seen == [*before, (b"soon", True)]
    assert all(stored for _, stored in seen)


@pytest.mark.requirement("E1", "F2")
def test_what_a_client_is_shown_is_in_the_file_by_then(tmp_path):
    late: list[bytes] = []

    class Looking(Lines):
        def take(self, items: Sequence[Item]) -> bytes:
            stored = in_file(tmp_path)
            late.extend(item.data for item in items if item.data not in stored)
            return super().take(items)

    async def main():
        async with memory_server(journal=SqliteJournal(tmp_path), dialect=Looking) as built:
            await built.say(b"one")
            async with built.client() as client:
                await client.stream(f"/runs/{RUN}/events")
                await client.until(b"one")
                await built.say(b"two")
                await client.until(b"two")
                await built.say(b"three", END)
                return await client.rest()

    assert asyncio.run(main()) == b"data: three\n\ndata: [DONE]\n\n"
    assert late == []


class Failing:
    """A connection that writes nothing while it is `full`."""

    full = False

    def __init__(self, inner: database.SqlConnection) -> None:
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def execute(self, sql, parameters=()):
        if self.full and sql.startswith("INSERT"):
            raise sqlite3.OperationalError("database or disk is full")
        return self.inner.execute(sql, parameters)


@pytest.mark.requirement("E1", "E10")
def test_what_could_not_be_stored_is_handed_to_nobody_and_its_writer_is_told(tmp_path):
    seen: list[bytes] = []
    made: list[Failing] = []

    def connect(file: Path, *, read_only: bool = False):
        inner = database.connect(file, read_only=read_only)
        if read_only:
            return inner
        made.append(Failing(inner))
        return made[-1]

    def take(items: Sequence[Item]) -> bool:
        seen.extend(item.data for item in items)
        return True

    async def main():
        journal = SqliteJournal(tmp_path, connect=connect)
        claim = await claimed(journal)
        waiting = asyncio.ensure_future(journal.wait("run", 1, take))
        await asyncio.sleep(0)
        landed: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        made[0].full = True
        assert journal.append_soon(
            "run", b"lost", after=1, epoch=claim.epoch, landed=lambda _, error: landed.set_result(error)
        )
        error = await landed
        made[0].full = False
        head = await journal.append("run", [b"kept"], after=1, epoch=claim.epoch, grade=Grade.FLUSHED)
        waiting.cancel()
        await journal.close()
        return error, head

    error, head = asyncio.run(main())
    assert isinstance(error, StorageError)
    assert (head, seen) == (2, [b"kept"])


def test_nothing_is_begun_for_a_writer_that_may_not_write(tmp_path):
    async def main():
        journal = SqliteJournal(tmp_path)
        claim = await journal.claim("run", "one", 60)
        assert isinstance(claim, Claim)

        def begun(after: int, epoch: int) -> bool:
            return journal.append_soon("run", b"x", after=after, epoch=epoch, landed=lambda *_: None)

        tries = [begun(0, claim.epoch)]  # the claim is not sure yet
        await journal.append("run", [b"first"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
        tries += [
            begun(0, claim.epoch),
            begun(1, claim.epoch + 1),
            begun(1, claim.epoch),
            begun(1, claim.epoch),
        ]
        await journal.release(claim)
        tries.append(begun(2, claim.epoch))
        items = [item.data for item in await journal.read("run")]
        await journal.close()
        return tries, items

    assert asyncio.run(main()) == ([False, False, False, True, False, False], [b"first", b"x"])


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("mistake", [RuntimeError, StopIteration])  # no future takes the second as it is
def test_a_taker_that_fails_hurts_neither_the_writer_nor_anybody_else(mistake: type[Exception]):
    seen: list[bytes] = []

    def fails(items: Sequence[Item]) -> bool:
        raise mistake("no such thing")

    def takes(items: Sequence[Item]) -> bool:
        seen.extend(item.data for item in items)
        return len(seen) < 2

    async def main():
        journal = MemoryJournal()
        claim = await claimed(journal)
        waits = [asyncio.ensure_future(journal.wait("run", 1, take)) for take in (fails, takes, None)]
        await asyncio.sleep(0)
        for after in (1, 2, 3):
            await journal.append("run", [b"%d" % after], after=after, epoch=claim.epoch, grade=Grade.FLUSHED)
        return await asyncio.gather(*waits, return_exceptions=True)

    failed, *fine = asyncio.run(main())
    assert isinstance(failed, RuntimeError)
    assert (fine, seen) == ([None, None], [b"1", b"2"])  # who had enough is handed no more


@pytest.mark.requirement("E4")
def test_only_who_has_all_that_came_before_is_handed_what_comes_and_who_has_less_looks():
    async def main():
        waiters, handed = Waiters(), []

        def taker(after: int):
            def take(items: Sequence[Item]) -> bool:
                handed.append((after, [item.seq for item in items]))
                return True

            return asyncio.ensure_future(waiters.wait("run", after, take))

        takers = {after: taker(after) for after in (2, 3, 4, 9)}
        await asyncio.sleep(0)
        waiters.hand("run", 3, [Item(4, b"four"), Item(5, b"five")])
        await asyncio.sleep(0)
        woken = [after for after, wait in takers.items() if wait.done()]
        waiters.hand("run", 5, [Item(6, b"six")])
        waiters.gone("run")
        for after in (3, 4, 9):
            with pytest.raises(Gone):
                await takers[after]
        return woken, handed

    assert asyncio.run(main()) == ([2], [(3, [4, 5]), (4, [5]), (3, [6]), (4, [6])])
