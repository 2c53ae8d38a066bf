"""What was just committed is read from memory: exactly as the store has it, within bounds, and without the store."""

import asyncio
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.journal.hot import HotTails
from turnbuckle.journal.port import Claim, Grade, Item, JournalError, first_seq
from turnbuckle.journal.sqlite import database
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import tail

SMALL = {"tail_items": 6, "tail_bytes": 2000, "all_bytes": 3000}
STREAMS = ("a", "b")


class Counted:
    """A connection that notes each query."""

    def __init__(self, inner: database.SqlConnection) -> None:
        self.inner = inner
        self.queries: list[str] = []

    def execute(self, sql, parameters=()):
        self.queries.append(sql)
        return self.inner.execute(sql, parameters)

    def close(self) -> None:
        self.inner.close()


class Bench:
    """A journal whose reading connection is watched."""

    def __init__(self, folder: Path, hot: HotTails | None = None) -> None:
        self.hot = HotTails() if hot is None else hot
        self.journal = SqliteJournal(folder, connect=self._connect, hot=self.hot)

    def _connect(self, file: Path, *, read_only: bool = False):
        inner = database.connect(file, read_only=read_only)
        if not read_only:
            return inner
        self.reading = Counted(inner)
        return self.reading

    async def claim(self, stream: str = "run") -> Claim:
        claim = await self.journal.claim(stream, "one", 60)
        assert isinstance(claim, Claim)
        return claim

    async def append(self, items: list[bytes], after: int, grade: Grade = Grade.FLUSHED) -> int:
        return await self.journal.append("run", items, after=after, epoch=0, grade=grade)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 100))


@pytest.mark.requirement("E1", "E4")
def test_a_reader_who_follows_a_run_needs_no_query_and_one_who_is_behind_does(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        claim = await bench.claim()
        seen: list[list[int]] = [[] for _ in range(3)]

        async def follow(mine: list[int]):
            async for page in tail(bench.journal, "run"):
                mine.extend(item.seq for item in page)

        head = await bench.append([b"first"], 0)
        readers = [asyncio.create_task(follow(mine)) for mine in seen]
        while not all(seen):
            await asyncio.sleep(0)
        bench.reading.queries.clear()
        for number in range(200):
            head = await bench.append(
                [b"x" * 100] * (number % 3 + 1), head, Grade.SYNCED if number % 50 == 7 else Grade.FLUSHED
            )
            await asyncio.sleep(0)
        while any(mine[-1] != head for mine in seen):
            await asyncio.sleep(0)
        assert bench.reading.queries == []
        assert all(mine == list(range(1, head + 1)) for mine in seen)
        for _ in range(20):
            head = await bench.append([b"x"] * 50, head)
        assert len(await bench.journal.read("run", 0, 500)) == 500
        assert len(bench.reading.queries) > 0
        for reader in readers:
            reader.cancel()
        await bench.journal.release(claim)
        assert len(bench.hot) == bench.hot.size == 0
        await bench.journal.close()

    run(main())


items = st.lists(st.integers(0, 700).map(bytes), min_size=1, max_size=8)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(STREAMS), items, st.sampled_from(Grade)),
        st.tuples(st.just("release"), st.sampled_from(STREAMS)),
        st.tuples(st.just("take over"), st.sampled_from(STREAMS)),
        st.tuples(st.just("drop"), st.sampled_from(STREAMS)),
        st.tuples(st.just("together"), st.sampled_from(STREAMS), items),
    ),
    max_size=25,
)


class Writer:
    """Does the steps, with a claim wherever one is needed."""

    def __init__(self, journal: SqliteJournal) -> None:
        self.journal = journal
        self.now = 0.0
        self.claims: dict[str, Claim] = {}

    async def do(self, name: str, stream: str, *more) -> None:
        if name == "release" and stream in self.claims:
            await self.journal.release(self.claims.pop(stream))
        elif name == "take over":
            self.now += 100
            await self._claim(stream)
        elif name == "drop":
            self.now += 100  # whoever held it is gone
            self.claims.pop(stream, None)
            await self.journal.drop(stream)
        elif name in ("append", "together"):
            if stream not in self.claims or not await self.journal.renew(self.claims[stream], 60):
                await self._claim(stream)
            claim, head = self.claims[stream], await self.journal.head(stream)
            grade = more[1] if name == "append" else Grade.SYNCED
            work = [self.journal.append(stream, more[0], after=head, epoch=claim.epoch, grade=grade)]
            if name == "together":
                work.append(self.journal.release(self.claims.pop(stream)))
            await asyncio.gather(*work)

    async def _claim(self, stream: str) -> None:
        claim = await self.journal.claim(stream, "one", 60)
        if isinstance(claim, Claim):
            self.claims[stream] = claim


@pytest.mark.requirement("E1", "E4")
@given(steps=steps)
def test_what_is_read_from_memory_is_what_the_store_has(steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hot")

    async def main():
        hot = HotTails(**SMALL)
        writer = Writer(SqliteJournal(folder, hot=hot, monotonic=lambda: writer.now))
        store = SqliteReader(folder)
        for step in steps:
            await writer.do(*step)
            assert hot.size <= SMALL["all_bytes"]
            for stream in STREAMS:
                everything = await store.read(stream, 0, 500)
                numbers = [item.seq for item in everything]
                for after in {-1, 0, 1, first_seq(1), *numbers, *(seq + 1 for seq in numbers)}:
                    for limit in (0, 1, 4, 500):
                        assert await writer.journal.read(stream, after, limit) == await store.read(
                            stream, after, limit
                        )
                assert await writer.journal.head(stream) == await store.head(stream)
        await store.close()
        await writer.journal.close()

    run(main())


def numbered(first: int, count: int, size: int = 10) -> list[Item]:
    return [Item(first + at, b"x" * size) for at in range(count)]


@pytest.mark.requirement("E5")
def test_a_tail_has_a_bound_in_items_and_in_bytes():
    hot = HotTails(tail_items=10, tail_bytes=100_000, all_bytes=1_000_000)
    for number in range(100):
        hot.add("a", number, numbered(number + 1, 1))
        kept = hot.read("a", max(number - 6, 0), 100)
        assert kept is not None  # the newest are always there
        assert hot.read("a", number - 10, 100) is None
    hot.add("a", 100, numbered(101, 1000))
    assert [item.seq for item in hot.read("a", 1098, 9) or []] == [1099, 1100]
    hot = HotTails(tail_items=1000, tail_bytes=10_000, all_bytes=1_000_000)
    for number in range(100):
        hot.add("a", number, numbered(number + 1, 1, 900))
        assert hot.size <= 10_000
    hot.add("a", 100, numbered(101, 1, 20_000))  # more than a tail may hold
    assert hot.size == 0
    assert hot.read("a", 100, 5) is None
    assert hot.read("a", 101, 5) == []
    hot.add("a", 101, numbered(102, 1))
    assert hot.read("a", 101, 5) == numbered(102, 1)


@pytest.mark.requirement("E5")
def test_all_tails_together_have_a_bound_and_the_longest_silent_gives_way():
    hot = HotTails(tail_items=100, tail_bytes=10_000, all_bytes=10_000)
    for number in range(20):
        hot.add(f"run-{number}", 0, numbered(1, 5, 300))
        hot.add("busy", number, numbered(number + 1, 1))
        assert hot.size <= 10_000
    assert hot.read("run-0", 0, 9) is None
    assert hot.read("run-19", 0, 9) == numbered(1, 5, 300)
    assert hot.read("busy", 19, 9) == numbered(20, 1)
    for name in [*(f"run-{number}" for number in range(20)), "busy"]:
        hot.forget(name)
    assert hot.size == len(hot) == 0


def test_a_tail_that_missed_something_begins_anew():
    hot = HotTails()
    hot.add("a", 0, numbered(1, 3))
    hot.add("a", 5, numbered(6, 2))
    assert hot.read("a", 3, 9) is None
    assert hot.read("a", 5, 9) == numbered(6, 2)
    hot.add("a", 7, numbered(first_seq(1), 2))  # another epoch
    assert hot.read("a", 6, 9) is None
    assert hot.read("a", 7, 9) == hot.read("a", 99, 9) == numbered(first_seq(1), 2)


@pytest.mark.requirement("E5")
def test_readers_of_old_items_take_turns_so_that_others_wait_for_one_page(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        claim = await bench.claim()
        for head in range(0, 5000, 500):
            await bench.append([b"x"] * 500, head)
        await bench.journal.release(claim)
        pages = 0
        most = 0

        async def replay():
            after = 0
            while page := await bench.journal.read("run", after, 100):
                after = page[-1].seq

        readers = [asyncio.create_task(replay()) for _ in range(8)]
        while not all(reader.done() for reader in readers):
            before = len(bench.reading.queries)
            await asyncio.sleep(0)
            now = sum("FROM item" in sql for sql in bench.reading.queries[before:])
            most, pages = max(most, now), pages + now
        assert pages == 8 * 51
        assert most == 1
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E5")
def test_a_thousand_who_wait_cost_little_memory_and_leave_none_behind(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim()

        async def follow():
            async for _ in tail(bench.journal, "run"):
                pass

        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            readers = [asyncio.create_task(follow()) for _ in range(1000)]
            await asyncio.sleep(0)
            assert len(bench.journal._waiters) == 1000
            assert tracemalloc.get_traced_memory()[0] - before < 1000 * 5000
        finally:
            tracemalloc.stop()
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        assert len(bench.journal._waiters) == 0
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E1")
def test_a_failed_append_leaves_nothing_in_memory(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim()
        head = await bench.append([b"a"], 0)
        writing = bench.journal._committer._connection
        writing.execute("PRAGMA max_page_count=1").fetchall()
        with pytest.raises(JournalError):
            await bench.append([b"x" * 1_000_000], head)
        assert await bench.journal.read("run") == [Item(1, b"a")]
        writing.execute("PRAGMA max_page_count=100000").fetchall()
        assert await bench.append([b"b"], head) == 2
        assert await bench.journal.read("run") == [Item(1, b"a"), Item(2, b"b")]
        await bench.journal.close()

    run(main())
