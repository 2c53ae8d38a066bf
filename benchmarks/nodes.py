"""Nodes on one database: how long a word takes to a reader at another node, what claims cost, how soon the
work of a node that was killed is taken over, and what a chunk costs beside a server over a folder.

    .venv/bin/python benchmarks/nodes.py "postgresql://user@/postgres?host=…" [--runs 1 50 200] [--seconds 5]

Writers are in one process and readers in another, each with a journal of its own; they share a clock. A run
has twenty words a second. The database is given, and gets a schema that is dropped at the end.

Then whole servers answer, as in `profile.py`: one over a folder, and one, two and three on the database, all
on this machine, beside the provider, the load and the database. All of it is one run, so the figures can be
compared with each other whatever else the machine does; with `--postgres PID` the CPU time of the database's
processes is told too.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import asyncpg
from serving.contender import MODEL, Contender, Load, told_by
from serving.processes import cpu_seconds, cpu_seconds_of, family
from serving.script import Script
from serving.servers import RECIPES, Provider, Recipe, Server, Start, turnbuckle

from turnbuckle.journal.nodes import NodeState
from turnbuckle.journal.port import Claim, Grade, IndexUpdate, Item
from turnbuckle.journal.postgres.journal import PostgresJournal, open_postgres

EACH = 0.05
LEASE = 30.0
BEGUN, END = b"begun", b"end"
TURN, CROWDS, ROUNDS = Script(5), 4, 5
PACED, STREAMS = Script(150, 20), 20
FAST, MANY = Script(300, 1), 24
"""More than a core can do: a chunk each millisecond, in so many streams."""


async def write(place: str, runs: int, seconds: float) -> None:
    """One node that drives so many runs."""
    journal = await open_postgres(place, beside=True)

    async def stored(name: str, after: int, epoch: int) -> int:
        """As a run stores a word."""
        landed = asyncio.get_running_loop().create_future()
        begun = journal.append_soon(
            name,
            str(time.time()).encode(),
            after=after,
            epoch=epoch,
            landed=lambda seq, error: landed.set_exception(error) if error else landed.set_result(seq),
        )
        assert begun
        return int(await landed)

    async def drive(name: str, number: int) -> None:
        claim = await journal.claim(name, "writer", LEASE)
        assert isinstance(claim, Claim)
        head = await journal.append(name, [BEGUN], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED)
        until = time.time() + seconds
        await asyncio.sleep(EACH * number / runs)
        while time.time() < until:
            head = await stored(name, head, claim.epoch)
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
        """As a reader of the server does: handed what is stored, and otherwise looking."""
        after, ended = 0, False

        def take(items: Sequence[Item]) -> bool:
            nonlocal after, ended
            now, after = time.time(), items[-1].seq
            late.extend(now - float(item.data) for item in items if item.data not in (BEGUN, END))
            ended = items[-1].data == END
            return not ended

        while not ended:
            if items := await journal.read(name, after):
                take(items)
            else:
                await journal.wait(name, after, take)

    words = [sys.executable, __file__, place, "--write", str(runs), "--seconds", str(seconds)]
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


async def bare(url: str, count: int = 200) -> float:
    """Milliseconds that a notification alone takes from one connection to another, of a commit that waits for
    no disk: what no word can be faster than at this moment."""
    one, other = await asyncpg.connect(url), await asyncpg.connect(url)
    heard: asyncio.Queue[float] = asyncio.Queue()
    await other.add_listener("bare", lambda *_: heard.put_nowait(time.perf_counter()))
    await one.execute("SET synchronous_commit = off")
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await one.execute("SELECT pg_notify('bare', 'x')")
        took.append((await heard.get() - began) * 1e3)
        await asyncio.sleep(0.01)
    for connection in (one, other):
        await connection.close()
    return statistics.median(took)


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
    words = [sys.executable, __file__, place, "--hold", name]
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


async def take(place: str) -> None:
    """A node with room, that claims what nobody holds as soon as it hears of it."""
    journal = await open_postgres(place, beside=True)
    looking: set[asyncio.Task[None]] = set()
    looks_again = False

    async def look() -> None:
        for row in (await journal.nodes.unheld(10)).runs:
            claim = await journal.claim(row.name, "takes", LEASE)
            if isinstance(claim, Claim):
                at = str(time.time()).encode()
                note = IndexUpdate(status="completed")
                await journal.append(
                    row.name, [at], after=claim.head, epoch=claim.epoch, grade=Grade.FLUSHED, note=note
                )

    def due() -> None:
        nonlocal looks_again
        looks_again = bool(looking)
        if not looking:
            task = asyncio.ensure_future(look())
            looking.add(task)
            task.add_done_callback(done)

    def done(task: asyncio.Task[None]) -> None:
        looking.discard(task)
        if looks_again:
            due()

    async def perform(_: bytes) -> bytes:
        return b""

    await journal.nodes.join("takes", "1", NodeState, perform, due)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def given_away(journal: PostgresJournal, place: str, count: int = 100) -> list[float]:
    """Seconds from the moment at which a node lets go of a run until another has claimed it."""
    words = [sys.executable, __file__, place, "--take"]
    node = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert node.stdout is not None
    await node.stdout.readline()

    async def perform(_: bytes) -> bytes:
        return b""

    await journal.nodes.join("gives", "1", NodeState, perform, lambda: None)
    took = []
    for number in range(count):
        name = f"given-{number}"
        claim = await journal.claim(name, "gives", LEASE)
        assert isinstance(claim, Claim)
        note = IndexUpdate(kind="run", status="running")
        head = await journal.append(name, [b"x"], after=0, epoch=0, grade=Grade.SYNCED, note=note)
        began = time.time()
        await journal.release(claim)
        journal.nodes.call()
        await journal.wait(name, head)
        took.append(float((await journal.read(name, head))[0].data) - began)
    await journal.nodes.leave()
    node.kill()
    await node.wait()
    return sorted(took)


async def beginnings(journal: PostgresJournal, count: int = 300) -> tuple[list[float], list[float]]:
    """What it takes to ask whether an owner with a hundred runs may begin one more, and make a request."""
    quotas = journal.nodes.quotas
    for number in range(100):
        await quotas.admit("ann", f"held-{number}", 1000, 0)
    admitted, counted = [], []
    for number in range(count):
        began = time.perf_counter()
        await quotas.admit("ann", f"new-{number % 10}", 1000, 100.0)
        between = time.perf_counter()
        await quotas.take("ann", 1_000_000, 1)
        admitted.append(between - began)
        counted.append(time.perf_counter() - between)
    return sorted(admitted), sorted(counted)


def quantiles(sorted_seconds: list[float]) -> str:
    """The median and the ninety-ninth of a hundred."""
    count = len(sorted_seconds)
    return (
        f"p50 {sorted_seconds[count // 2] * 1e3:.1f} ms, p99 {sorted_seconds[count * 99 // 100] * 1e3:.1f} ms"
    )


def measured(server: Server, database: int) -> tuple[float, float]:
    """The CPU time of a lone chunk in microseconds: of the server, and of the database's processes."""
    asked = Contender(server.name, server.port, MODEL, server.process.pid)

    def spent(script: Script, crowds: int) -> list[float]:
        pids = [server.process.pid, *([database] if database else [])]
        before = [cpu_seconds(pid) for pid in pids]
        for _ in range(crowds):
            told = told_by(asked, script, mode="crowd", streams=STREAMS)
            assert told["whole"] == STREAMS, server.last_words()
        return [cpu_seconds(pid) - begun for pid, begun in zip(pids, before, strict=True)]

    begun = [one / CROWDS for one in spent(TURN, CROWDS)]
    chunks = STREAMS * (PACED.chunks - TURN.chunks)
    costs = [(one - turn) / chunks * 1e6 for one, turn in zip(spent(PACED, 1), begun, strict=True)]
    return costs[0], costs[1] if database else 0.0


def throughput(servers: Sequence[Server]) -> float:
    """Chunks a second that so many servers bring to their clients, all of them together."""
    streams = MANY // len(servers)
    began = time.perf_counter()
    loads = [
        Load(Contender(one.name, one.port, MODEL, one.process.pid), FAST, mode="crowd", streams=streams)
        for one in servers
    ]
    told = [load.result() for load in loads]
    took = time.perf_counter() - began
    for load in loads:
        load.close()
    assert all(one["whole"] == streams for one in told), "streams failed"
    return len(servers) * streams * FAST.chunks / took


def compare(place: str, database: int, *, only_chunks: bool = False) -> None:
    """Whole servers: one over a folder, and up to three on the database."""

    def on_database(python: Path, folder: Path, port: int, provider: int) -> Start:
        start = turnbuckle(python, folder, port, provider)
        return Start(start.command, {**start.environment, "TURNBUCKLE_DATA": place})

    RECIPES["node"] = Recipe(RECIPES["turnbuckle"].python, on_database)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        provider, running = Provider(), list[Server]()
        try:
            for number, kind in enumerate(("turnbuckle", "node", "node", "node")):
                running.append(Server(kind, Path(name) / str(number), provider.port))
            alone, *nodes = running
            rounds = [(measured(alone, 0)[0], *measured(nodes[0], database)) for _ in range(ROUNDS)]
            folder, node, below = (statistics.median(column) for column in zip(*rounds, strict=True))
            ratio = statistics.median(node / folder for folder, node, _ in rounds)
            print(f"a lone chunk: {folder:.0f} µs over a folder, {node:.0f} µs of a node", end="")
            print(f" and {below:.0f} µs of the database" if database else "", end="")
            print(f"; node / folder = {ratio:.2f} ({', '.join(f'{b / a:.2f}' for a, b, _ in rounds)})")
            if only_chunks:
                return
            for crew in ([alone], nodes[:1], nodes[:2], nodes):
                rates = [throughput(crew) for _ in range(3)]
                kind = "over a folder" if crew == [alone] else f"{len(crew)} on the database"
                print(f"chunks a second, {kind}: {statistics.median(rates):.0f}")
        finally:
            for server in running:
                server.stop()
            provider.stop()


def compare_workers(place: str, count: int, rounds: int = 4) -> None:
    """One server by itself and one with so many workers, in turns. A machine that is busy says little about
    chunks a second; the CPU time of the worker that had most to do says what free cores would allow."""

    def by(workers: int) -> Recipe:
        def start(python: Path, folder: Path, port: int, provider: int) -> Start:
            made = turnbuckle(python, folder, port, provider)
            words = [*made.command, "--workers", str(workers)]
            return Start(words, {**made.environment, "TURNBUCKLE_DATA": place})

        return Recipe(RECIPES["turnbuckle"].python, start)

    RECIPES["alone"], RECIPES["workers"] = by(1), by(count)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        provider, running = Provider(), list[Server]()
        try:
            running += [Server(kind, Path(name) / kind, provider.port) for kind in ("alone", "workers")]
            found: dict[str, list[tuple[float, float, float]]] = {"alone": [], "workers": []}
            for _ in range(rounds):
                for server in running:
                    processes = family(server.process.pid)
                    before = [cpu_seconds_of(pid) for pid in processes]
                    rate = throughput([server])
                    spent = [cpu_seconds_of(pid) - cpu for pid, cpu in zip(processes, before, strict=True)]
                    chunks = MANY * FAST.chunks / 1e6
                    found[server.name].append((rate, sum(spent) / chunks, max(spent) / chunks))
        finally:
            for server in running:
                server.stop()
            provider.stop()
    alone, several = (
        [statistics.median(column) for column in zip(*found[kind], strict=True)]
        for kind in ("alone", "workers")
    )
    for kind, (rate, whole, busiest) in ((1, alone), (count, several)):
        print(f"workers: {kind}, chunks a second: {rate:.0f}", end=", ")
        print(f"CPU µs a chunk: {whole:.0f}, of the busiest: {busiest:.0f}")
    print(
        f"x {several[0] / alone[0]:.2f} chunks a second here, x {several[1] / alone[1]:.2f} CPU a chunk, "
        f"x {alone[2] / several[2]:.2f} chunks for the CPU of the busiest"
    )


async def limits_and_work(place: str) -> None:
    journal = await open_postgres(place, beside=True)
    admitted, counted = await beginnings(journal)
    print(f"whether a run may begin: {quantiles(admitted)}; counting a request: {quantiles(counted)}")
    print(
        f"work that nobody holds is claimed after {quantiles(await given_away(journal, place))}", flush=True
    )
    await journal.close()


async def main(
    url: str,
    runs: list[int],
    seconds: float,
    database: int,
    *,
    only_limits: bool = False,
    only_chunks: bool = False,
    workers: int = 0,
) -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    schema = f"bench_{uuid.uuid4().hex[:8]}"
    place = f"{url}{'&' if '?' in url else '?'}schema={schema}"
    await (await open_postgres(place)).close()
    try:
        if workers:
            await asyncio.to_thread(compare_workers, place, workers)
            return
        if only_chunks:
            await asyncio.to_thread(compare, place, database, only_chunks=True)
            return
        if only_limits:
            await limits_and_work(place)
            return
        print(f"{'runs':>5} {'words':>7} {'p50 ms':>8} {'p99 ms':>8} {'writer µs':>10} {'reader µs':>10}")
        for count in runs:
            got = await read(place, count, seconds)
            print(
                f"{count:5} {got['words']:7.0f} {got['p50']:8.1f} {got['p99']:8.1f}"
                f" {got['writer']:10.0f} {got['reader']:10.0f}"
            )
        print(f"a bare notification: {await bare(url):.1f} ms (median)")
        print(f"claims and releases a second: {await claims(place):.0f}")
        journal = await open_postgres(place, beside=True)
        took = [await takeover(journal, place, number) for number in range(3)]
        await journal.close()
        print(f"takeover after kill -9: {', '.join(f'{one:.2f}' for one in took)} s", flush=True)
        await limits_and_work(place)
        await asyncio.to_thread(compare, place, database)
    finally:
        connection = await asyncpg.connect(url)
        await connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        await connection.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Nodes on one database.")
    parser.add_argument("url")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 50, 200])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--postgres", type=int, default=0, help="the first process of the database")
    parser.add_argument("--write", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--hold", default="", help=argparse.SUPPRESS)
    parser.add_argument("--take", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--limits", action="store_true", help="only what limits cost, and work changing hands"
    )
    parser.add_argument("--chunks", action="store_true", help="only what a lone chunk costs")
    parser.add_argument("--workers", type=int, default=0, help="only one server beside one with so many")
    given = parser.parse_args()
    if given.write:
        asyncio.run(write(given.url, given.write, given.seconds))
    elif given.take:
        asyncio.run(take(given.url))
    elif given.workers:
        asyncio.run(main(given.url, [], 0.0, 0, workers=given.workers))
    elif given.limits:
        asyncio.run(main(given.url, [], 0.0, 0, only_limits=True))
    elif given.chunks:
        asyncio.run(main(given.url, [], 0.0, given.postgres, only_chunks=True))
    elif given.hold:
        asyncio.run(hold(given.url, given.hold))
    else:
        asyncio.run(main(given.url, given.runs, given.seconds, given.postgres))
