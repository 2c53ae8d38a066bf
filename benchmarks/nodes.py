"""Nodes on one database: how long a word takes to a reader at another node, what claims cost, and how soon
the work of a node that was killed is taken over.

    .venv/bin/python -m benchmarks.nodes "postgresql://user@/postgres?host=…" [--runs 1 50 200] [--seconds 5]

Writers are in one process and readers in another, each with a journal of its own; they share a clock. A run
has twenty words a second. The database is given, and gets a schema that is dropped at the end.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import uuid

import asyncpg

from turnbuckle.journal.port import Claim, Grade, IndexUpdate
from turnbuckle.journal.postgres.journal import PostgresJournal, open_postgres
from turnbuckle.journal.tail import tail

EACH = 0.05
LEASE = 30.0
END = b"end"


async def write(place: str, runs: int, seconds: float) -> None:
    """One node that drives so many runs."""
    journal = await open_postgres(place, beside=True)

    async def drive(name: str, number: int) -> None:
        claim = await journal.claim(name, "writer", LEASE)
        assert isinstance(claim, Claim)
        head, until = claim.head, time.time() + seconds
        await asyncio.sleep(EACH * number / runs)
        while time.time() < until:
            data = str(time.time()).encode()
            head = await journal.append(name, [data], after=head, epoch=claim.epoch, grade=Grade.FLUSHED)
            await asyncio.sleep(EACH)
        await journal.append(name, [END], after=head, epoch=claim.epoch, grade=Grade.SYNCED)

    cpu = time.process_time()
    await asyncio.gather(*(drive(f"run-{runs}-{number}", number) for number in range(runs)))
    print(json.dumps({"cpu": time.process_time() - cpu}))
    await journal.close()


async def read(place: str, runs: int, seconds: float) -> dict[str, float]:
    """Another node, that follows all of them."""
    journal = await open_postgres(place, beside=True)
    late: list[float] = []

    async def follow(name: str) -> None:
        async for items in tail(journal, name):
            now = time.time()
            late.extend(now - float(item.data) for item in items if item.data != END)
            if items[-1].data == END:
                return

    words = [sys.executable, "-m", "benchmarks.nodes", place, "--write", str(runs), "--seconds", str(seconds)]
    writer = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    cpu = time.process_time()
    await asyncio.gather(*(follow(f"run-{runs}-{number}") for number in range(runs)))
    cpu = time.process_time() - cpu
    assert writer.stdout is not None
    wrote = json.loads(await writer.stdout.read())["cpu"]
    await writer.wait()
    await journal.close()
    late.sort()
    return {
        "words": len(late),
        "p50": statistics.median(late) * 1e3,
        "p99": late[int(len(late) * 0.99)] * 1e3,
        "writer": wrote / len(late) * 1e6,
        "reader": cpu / len(late) * 1e6,
    }


async def claims(place: str, count: int = 500) -> float:
    """Claims and releases in a second, by one node, twenty at a time."""
    journal = await open_postgres(place, beside=True)

    async def some(which: int) -> None:
        for number in range(which, count, 20):
            claim = await journal.claim(f"claim-{number}", "one", LEASE)
            assert isinstance(claim, Claim)
            await journal.release(claim)

    began = time.perf_counter()
    await asyncio.gather(*(some(which) for which in range(20)))
    took = time.perf_counter() - began
    await journal.close()
    return count / took


async def hold(place: str, name: str) -> None:
    """A node that is about to be killed."""
    journal = await open_postgres(place, beside=True)
    claim = await journal.claim(name, "dies", LEASE)
    assert isinstance(claim, Claim)
    note = IndexUpdate(kind="run", status="running")
    await journal.append(name, [b"x"], after=0, epoch=0, grade=Grade.SYNCED, note=note)
    print("held", flush=True)
    await asyncio.Event().wait()


async def takeover(journal: PostgresJournal, place: str, number: int) -> float:
    """Seconds from the death of a node until another has claimed its run, as nodes look for work."""
    name = f"dead-{number}"
    words = [sys.executable, "-m", "benchmarks.nodes", place, "--hold", name]
    node = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert node.stdout is not None
    await node.stdout.readline()
    began = time.perf_counter()
    os.kill(node.pid, signal.SIGKILL)
    while True:
        await asyncio.sleep(0.25)
        found = await journal.nodes.unheld(10)
        if any(row.name == name for row in found.runs):
            claim = await journal.claim(name, "stays", LEASE)
            assert isinstance(claim, Claim)
            took = time.perf_counter() - began
            await journal.append(
                name, [b"y"], after=1, epoch=1, grade=Grade.SYNCED, note=IndexUpdate(status="completed")
            )
            await node.wait()
            return took


async def main(url: str, runs: list[int], seconds: float) -> None:
    schema = f"bench_{uuid.uuid4().hex[:8]}"
    place = f"{url}{'&' if '?' in url else '?'}schema={schema}"
    await (await open_postgres(place)).close()
    try:
        print(f"{'runs':>5} {'words':>7} {'p50 ms':>8} {'p99 ms':>8} {'writer µs':>10} {'reader µs':>10}")
        for count in runs:
            got = await read(place, count, seconds)
            print(
                f"{count:5} {got['words']:7.0f} {got['p50']:8.1f} {got['p99']:8.1f}"
                f" {got['writer']:10.0f} {got['reader']:10.0f}"
            )
        print(f"claims and releases a second: {await claims(place):.0f}")
        journal = await open_postgres(place, beside=True)
        took = [await takeover(journal, place, number) for number in range(3)]
        await journal.close()
        print(f"takeover after kill -9: {', '.join(f'{one:.2f}' for one in took)} s")
    finally:
        connection = await asyncpg.connect(url)
        await connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        await connection.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Nodes on one database.")
    parser.add_argument("url")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 50, 200])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--write", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--hold", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        asyncio.run(write(given.url, given.write, given.seconds))
    elif given.hold:
        asyncio.run(hold(given.url, given.hold))
    else:
        asyncio.run(main(given.url, given.runs, given.seconds))
