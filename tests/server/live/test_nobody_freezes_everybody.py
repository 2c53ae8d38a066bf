"""Every attack that once stopped the whole server, against a real one, while somebody else asks it whether it lives.

The bar is 250 ms. What counts is what the server itself says of its event loop: how often one piece of work held it for
longer, in processor time, which no busy machine changes. `benchmarks/attacks.py` measures the same by the clock.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.http.memory_server import Reply
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.attacks import ALIKE, SERVER, TOOLS, attacks, hostile_model, hostile_pages, provoke
from support.server.live_server import asked_until, eventually

pytestmark = pytest.mark.process


class Neighbour:
    """Somebody who wants nothing but to be served, all the while, on a connection of their own."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.longest = 0.0
        self.asked = 0

    async def __aenter__(self) -> "Neighbour":
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._ask())
        await eventually(lambda: self.asked)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._task

    async def _ask(self) -> None:
        async with self._server.client() as client:
            while not self._stop.is_set():
                before = time.monotonic()
                reply = await client.ask("GET", "/healthz")
                assert reply.status == 200
                self.longest = max(self.longest, time.monotonic() - before)
                self.asked += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), 0.02)


async def held(server: ServerProcess) -> float:
    """How often the loop was held. Places of connections that just left are free when the server has noticed it."""

    def has_place(answer: Reply) -> bool:
        return answer.status != 503 or b"server.max_connections" not in answer.body

    answer = await asked_until(has_place, server.get, "/metrics")
    assert answer.status == 200, answer.body
    lines = answer.body.decode().splitlines()
    return float(next(line for line in lines if line.startswith("turnbuckle_loop_held_total ")).split()[1])


@pytest.mark.long(8)
@pytest.mark.requirement("R1", "R12")
def test_under_every_attack_everybody_else_is_served(
    tmp_path: Path, record_property: Callable[[str, object], None]
):
    async def scenario(server: ServerProcess) -> None:
        provoke(server.work)
        await server.start()
        async with hostile_pages() as pages, Neighbour(server) as neighbour:
            for name, attack in attacks(pages).items():
                if name in ALIKE:
                    continue
                neighbour.longest, before = 0.0, neighbour.asked
                await attack(server)
                await eventually(lambda before=before: neighbour.asked > before)
                assert await held(server) == 0, f"{name}: {server.log[-2000:]}"
                record_property(name, round(neighbour.longest, 3))
        for words in ("that nobody asked for", "more than 2,000 parts"):  # the MCP server was really there
            assert words in server.log

    run_process_scenario(scenario, tmp_path, hostile_model, tools=TOOLS, server=SERVER)
