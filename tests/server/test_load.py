"""Many streams at once through a real process, while the provider behind it breaks all the time."""

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.processes.server_process import run_process_scenario
from support.server.live_server import PATIENCE
from support.server.load_clients import Brittle, Crowd

from turnbuckle.lab.script import Call, Finish

SECONDS = float(os.environ.get("TURNBUCKLE_LOAD_SECONDS", "8"))
CLIENTS = 200
READERS = 1000
SERVER = "drain = 0\nrequests_per_minute = 0\nmax_runs = 2000\nmax_runs_per_owner = 2000\nkeepalive = 5"
MIB = 1 << 20


def resident(pid):
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def quantile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else 0.0


@pytest.mark.long(10)
@pytest.mark.realtime
@pytest.mark.process
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.requirement("E1", "E4", "E5", "F1", "F4", "F5", "F11")
def test_two_hundred_streams_through_a_breaking_provider_lose_and_repeat_nothing(tmp_path, record_property):
    """X9, X10, C13: every text comes once and whole, or the outcome says truly that it did not; memory stays."""
    model = Brittle()
    memory = []

    async def scenario(server):
        await server.start()
        crowd = Crowd(server, time.monotonic() + SECONDS)
        playing = asyncio.create_task(crowd.play(CLIENTS))
        while not playing.done():
            memory.append(resident(server.pid))
            await asyncio.wait({playing}, timeout=0.2)
        await playing
        assert await server.stop() == 0
        return crowd.results

    results = run_process_scenario(scenario, tmp_path, model, server=SERVER, gap=1.0)
    told = {
        "streams": len(results),
        "outcomes": dict(Counter(result.outcome for result in results)),
        "kinds": dict(Counter(result.kind for result in results)),
        "events": sum(result.events for result in results),
        "faults": dict(model.faults),
    }
    firsts = [result.first for result in results if result.first and result.number in model.smooth]
    half = len(memory) // 2
    before, after = max(memory[half // 2 : half]), max(memory[half:])
    figures = {
        "first token p50": round(quantile(firsts, 0.5), 3),
        "first token p99": round(quantile(firsts, 0.99), 3),
        "memory of the first half MiB": round(before / MIB, 1),
        "memory of the second half MiB": round(after / MIB, 1),
    }
    for name, value in {**told, **figures}.items():
        record_property(name, value)
    assert [result.wrong for result in results if result.wrong] == []
    assert model.odd == []
    assert len(results) >= CLIENTS
    assert sum(result.outcome == "completed" for result in results) > len(results) * 0.5
    assert after < before * 1.5 + 64 * MIB
    assert figures["first token p50"] < 20


@pytest.mark.realtime
@pytest.mark.process
@pytest.mark.requirement("E4", "E5")
def test_a_thousand_readers_that_wait_cost_little_and_each_gets_the_end(tmp_path, record_property):
    """X10, C17: one run, a thousand readers, each event once for each of them."""

    def asks(request):
        return (Call("ask_user", {"question": "When?"}), Finish())

    async def scenario(server):
        await server.start()
        run = await server.begin("wait")
        pending: list[Any] = []
        while not pending:
            pending = (await server.get(f"/v1/runs/{run}/approvals")).json["data"]
        path = f"/v1/runs/{run}/events"
        first = asyncio.Semaphore(50)  # a thousand at once would only measure the listening queue

        waiting, over = [], []

        async def read():
            async with first:
                listening = server.listen(path)
                listener = await listening.__aenter__()
                await listener.until(b"event: approval_asked")
            waiting.append(listener)
            try:
                over.append(await listener.rest())
            finally:
                await listening.__aexit__(None, None, None)

        before = resident(server.pid)
        readers = [asyncio.create_task(read()) for _ in range(READERS)]
        async with asyncio.timeout(PATIENCE * 2):
            while len(waiting) < READERS:
                assert not any(reader.done() for reader in readers)
                await asyncio.wait(readers, timeout=0.05, return_when=asyncio.FIRST_EXCEPTION)
        after = resident(server.pid)
        await server.post(f"/v1/runs/{run}/stop")
        async with asyncio.timeout(PATIENCE * 2):
            await asyncio.gather(*readers)
        return before, after, over

    before, after, over = run_process_scenario(scenario, tmp_path, asks, server=SERVER)
    each = (after - before) / READERS
    record_property("memory of a reader kB", round(each / 1000, 1))
    assert len(over) == READERS
    stories = {tuple((frame.id, frame.event) for frame in told if frame.id) for told in over}
    assert len(stories) == 1
    [story] = stories
    assert [number for number, _ in story] == [str(place) for place in range(1, len(story) + 1)]
    assert story[-1][1] == "run_ended"
    assert each < 300_000
