"""What the journal costs: appends, waits for the disk, and reading back, beside a bare SQLite commit for each
append.

Every row of a table is measured in the same run, in turns, and the ratios are what counts: disks differ, and
change their mood. Run it with `python benchmarks/journal.py`; `--quick` does a tenth of the work.
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from turnbuckle.journal.port import Claim, Grade
from turnbuckle.journal.sqlite import committer
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.tail import read_all, tail

EVENT = b"x" * 215
SYNCED_EVERY = 30
READERS = (1, 10, 50)


class Row:
    """One measured way to append."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rates: list[float] = []
        self.cpu: list[float] = []
        self.seen: list[float] = []
        self.sure: list[float] = []

    def __str__(self) -> str:
        cells = [f"{statistics.median(self.rates):10,.0f}", f"{statistics.median(self.cpu):9.1f}"]
        cells += [_percentiles(self.seen), _percentiles(self.sure)]
        return f"{self.name:44}" + "".join(cells)


def _percentiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return f"{'':20}"
    cuts = statistics.quantiles(seconds, n=100)
    return f"{cuts[49] * 1e6:10,.0f}{cuts[98] * 1e6:10,.0f}"


def bare(folder: Path, events: int, level: str, row: Row) -> None:
    """The floor: one connection, one commit for each event, nothing else."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={level}")
    connection.execute("CREATE TABLE item(stream, seq, data, PRIMARY KEY(stream, seq)) WITHOUT ROWID")
    times = row.sure if level == "FULL" else row.seen
    began, cpu = time.perf_counter(), time.process_time()
    for number in range(events):
        start = time.perf_counter()
        connection.execute("INSERT INTO item VALUES(1, ?, ?)", (number, EVENT))
        times.append(time.perf_counter() - start)
    _note(row, events, began, cpu)
    connection.close()


async def appends(folder: Path, events: int, writers: int, sure_every: int, burst: int, row: Row) -> None:
    """So many writers, each one append after the other, giving way to the loop as a driver between two reads
    does."""
    journal = SqliteJournal(folder)
    claims = [await journal.claim(f"run-{number}", "bench", 60) for number in range(writers)]

    async def write(claim: Claim) -> None:
        head = 0
        for number in range(events // writers // burst):
            grade = Grade.SYNCED if sure_every and number % sure_every == sure_every - 1 else Grade.FLUSHED
            await asyncio.sleep(0)
            start = time.perf_counter()
            head = await journal.append(
                claim.stream, [EVENT] * burst, after=head, epoch=claim.epoch, grade=grade
            )
            (row.sure if grade is Grade.SYNCED else row.seen).append(time.perf_counter() - start)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write(claim) for claim in claims if isinstance(claim, Claim)))
    _note(row, events, began, cpu)
    await journal.close()


def _note(row: Row, events: int, began: float, cpu: float) -> None:
    row.rates.append(events / (time.perf_counter() - began))
    row.cpu.append((time.process_time() - cpu) / events * 1e6)


async def through_the_thread(work: Callable[[], Awaitable[None]]) -> None:
    """The same with every commit in the thread, to see what committing on the loop saves."""
    kept = committer.INLINE_BYTES
    committer.INLINE_BYTES = -1
    try:
        await work()
    finally:
        committer.INLINE_BYTES = kept


async def append_table(events: int, rounds: int) -> list[Row]:
    rows = {name: Row(name) for name in _NAMES}
    for _ in range(rounds):
        for name in _NAMES:
            with tempfile.TemporaryDirectory(prefix="journal-bench-") as folder:
                await _measure(name, Path(folder), events, rows[name])
    return list(rows.values())


_NAMES = (
    "bare SQLite, synced, commit each",
    "bare SQLite, unsynced, commit each",
    "1 writer, FLUSHED",
    "1 writer, FLUSHED, in the thread",
    "1 writer, FLUSHED, bursts of 16",
    "1 writer, 1 in 30 SYNCED",
    "1 writer, SYNCED",
    "50 writers, FLUSHED",
    "50 writers, FLUSHED, in the thread",
    "50 writers, 1 in 30 SYNCED",
    "50 writers, 1 in 30 SYNCED, in the thread",
    "50 writers, SYNCED",
)


async def _measure(name: str, folder: Path, events: int, row: Row) -> None:
    if name.startswith("bare"):
        synced = "unsynced" not in name
        bare(folder, events // 20 if synced else events, "FULL" if synced else "NORMAL", row)
        return
    writers = int(name.split(maxsplit=1)[0])
    every = SYNCED_EVERY if "1 in 30" in name else 1 if "SYNCED" in name else 0
    count = events // 20 if name == "1 writer, SYNCED" else events

    async def work() -> None:
        await appends(folder, count, writers, every, 16 if "bursts" in name else 1, row)

    await (through_the_thread(work) if "thread" in name else work())


async def reading(events: int) -> dict[str, float]:
    """Seconds to read everything back, by the journal and by a bare query, how long others wait for it
    meanwhile, and how long events take to live readers."""
    with tempfile.TemporaryDirectory(prefix="journal-bench-") as folder:
        journal = SqliteJournal(Path(folder))
        claim = await journal.claim("run", "bench", 60)
        assert isinstance(claim, Claim)
        head = 0
        while head < events:
            head = await journal.append("run", [EVENT] * 500, after=head, epoch=0, grade=Grade.FLUSHED)
        began = time.perf_counter()
        count = sum([len(page) async for page in read_all(journal, "run")])
        ours = time.perf_counter() - began
        assert count == head
        connection = sqlite3.connect(Path(folder) / "journal.db")
        began = time.perf_counter()
        connection.execute("SELECT seq, data FROM item WHERE stream = 1 ORDER BY seq").fetchall()
        floor = time.perf_counter() - began
        connection.close()
        found = {"ours": ours, "floor": floor, "held up": await _held_up(journal)}
        for readers in READERS:
            found[f"live {readers}"] = await _live(journal, f"live-{readers}", readers, events // 20)
        found["waiter"] = await _waiters(journal)
        await journal.close()
    return found


async def _held_up(journal: SqliteJournal) -> float:
    """The longest pass of the loop while ten readers replay everything at once, in CPU time."""
    passes: list[float] = []

    async def replay() -> None:
        async for _ in read_all(journal, "run"):
            pass

    readers = [asyncio.create_task(replay()) for _ in range(10)]
    while not all(reader.done() for reader in readers):
        began = time.process_time()
        await asyncio.sleep(0)
        passes.append(time.process_time() - began)
    return statistics.quantiles(passes, n=100)[98]


async def _live(journal: SqliteJournal, stream: str, readers: int, events: int) -> float:
    """From the call of append to the readers' hands, one event at a time; the median over all of them."""
    claim = await journal.claim(stream, "bench", 60)
    assert isinstance(claim, Claim)
    started: dict[int, float] = {}
    delays: list[float] = []

    async def follow() -> None:
        async for page in tail(journal, stream):
            now = time.perf_counter()
            delays.extend(now - started[item.seq] for item in page)
            if page[-1].seq == events:
                return

    following = [asyncio.create_task(follow()) for _ in range(readers)]
    head = 0
    for _ in range(events):
        for _ in range(3):  # until everybody waits again
            await asyncio.sleep(0)
        started[head + 1] = time.perf_counter()
        head = await journal.append(stream, [EVENT], after=head, epoch=claim.epoch, grade=Grade.FLUSHED)
    await asyncio.gather(*following)
    return statistics.median(delays)


async def _waiters(journal: SqliteJournal) -> float:
    """Bytes for each of a thousand readers who wait for a stream, with their tasks."""

    async def follow(stream: str) -> None:
        async for _ in tail(journal, stream):
            pass

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    waiting = [asyncio.create_task(follow(f"idle-{number}")) for number in range(1000)]
    for _ in range(2000):  # they look into the store first, one after the other
        await asyncio.sleep(0)
    each = (tracemalloc.get_traced_memory()[0] - before) / 1000
    tracemalloc.stop()
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    return each


async def main(events: int, rounds: int) -> None:
    rows = await append_table(events, rounds)
    print(
        f"{'':44}{'events/s':>10}{'CPU µs':>9}{'FLUSHED p50':>10}{'p99 µs':>10}{'SYNCED p50':>10}{'p99':>10}"
    )
    for row in rows:
        print(row)
    rate = {row.name: statistics.median(row.rates) for row in rows}
    cpu = {row.name: statistics.median(row.cpu) for row in rows}
    print(
        f"\n50 writers SYNCED : bare synced          {rate['50 writers, SYNCED'] / rate[_NAMES[0]]:6.1f} "
        "x the rate"
    )
    print(
        f"1 writer FLUSHED : bare unsynced          {cpu['1 writer, FLUSHED'] / cpu[_NAMES[1]]:6.2f} x "
        "the CPU"
    )
    on_loop, in_thread = cpu["50 writers, FLUSHED"], cpu["50 writers, FLUSHED, in the thread"]
    print(f"50 writers FLUSHED, loop : thread         {on_loop / in_thread:6.2f} x the CPU")
    found = await reading(max(events * 5, 10_000))
    print(f"read {max(events * 5, 10_000):,} events              {found['ours'] * 1e3:8.0f} ms,", end=" ")
    print(f"{found['ours'] / found['floor']:.1f} x a bare query")
    print(
        f"longest wait behind 10 such readers    {found['held up'] * 1e3:6.1f} ms, p99 of the loop's passes"
    )
    for readers in READERS:
        print(f"append to {readers:3} live readers, median    {found[f'live {readers}'] * 1e6:6.0f} µs")
    print(f"a reader who waits                     {found['waiter']:6.0f} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    uvloop.run(main(2_000 if quick else 20_000, 1 if quick else 3))
