"""Every attack that once stopped the whole server, against a real one, while somebody else asks it whether it lives.

The bar is 250 ms. What counts is what the server itself says of its event loop: how often one piece of work held it for
longer, in processor time, which no busy machine changes. How long `/healthz` took by the clock is told with the test.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.live_server import eventually

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

pytestmark = pytest.mark.process

PAGE = b"<a " * 8_000
TOOLS = "private_addresses = true"
SERVER = "max_connections = 60\nmax_runs_per_owner = 20"


def model(request: LabRequest) -> Iterable[ScriptItem]:
    """Does to the server what the task says."""
    if results_brought(request):
        return (Say("Done."), Finish())
    what, _, rest = last_user_text(request).partition(" ")
    match what:
        case "fetch":
            return (Call("fetch_url", {"url": rest}), Finish())
        case "fetches":
            return (*(Call("fetch_url", {"url": f"{rest}{number}"}) for number in range(250)), Finish())
        case "calls":
            return (*(Call("list_files", {"path": f"x{number}"}) for number in range(5_000)), Finish())
        case "search":
            return (Call("search_files", {"pattern": rest}), Finish())
    return (Say("What?"), Finish())


@asynccontextmanager
async def hostile_pages() -> AsyncIterator[str]:
    """A web server that answers as each path says."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
        with contextlib.suppress(ConnectionError):
            while path == b"/continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
                await writer.drain()
            kind = b"text/plain; charset=punycode" if path == b"/punycode" else b"text/html"
            body = b"a-" * 12_000 if path == b"/punycode" else PAGE
            head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, len(body))
            writer.write(head + body)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


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
    lines = (await server.get("/metrics")).body.decode().splitlines()
    return float(next(line for line in lines if line.startswith("turnbuckle_loop_held_total ")).split()[1])


async def talked(server: ServerProcess, task: str) -> None:
    reply = await server.post(
        "/v1/chat/completions", {"model": "agent", "messages": [{"role": "user", "content": task}]}
    )
    assert reply.status == 200, reply.body


async def posted(server: ServerProcess, path: str, body: bytes, kind: str, *statuses: int) -> None:
    async with server.client() as client:
        reply = await client.ask("POST", path, body=body, headers={"content-type": kind})
        assert reply.status in statuses, reply.body[:500]


def waiting_messages(count: int) -> bytes:
    head = {"format": "turnbuckle.session", "version": 1, "session": "s", "items": count + 1, "runs": []}
    lines = [msgspec.json.encode(head), b'{"stream":"s","seq":1,"fact":{"type":"session_made","at":1.0}}']
    message = (
        b'{"type":"message_accepted","at":1.0,"id":"m%d","run":"r%d","messages":[{"role":"user","parts":[]}]}'
    )
    lines += [
        b'{"stream":"s","seq":%d,"fact":%b}' % (number, message % (number, number))
        for number in range(2, count + 2)
    ]
    return b"\n".join(lines)


async def slow_bodies(server: ServerProcess) -> None:
    """More connections than there are places, each of which sends its body for ever."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    writers = []
    for _ in range(100):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + b"Content-Length: 1000000\r\n\r\n{")
        writers.append(writer)
    await asyncio.gather(*(writer.drain() for writer in writers), return_exceptions=True)
    for writer in writers:
        writer.transport.abort()


def attacks(pages: str) -> dict[str, Callable[[ServerProcess], Awaitable[None]]]:
    lines, values = "application/x-ndjson", b'{"messages":[' + b"{}," * ((31 << 20) // 3) + b"{}]}"
    return {
        "a page of open tags": lambda server: talked(server, f"fetch {pages}/tags"),
        "a slow charset": lambda server: talked(server, f"fetch {pages}/punycode"),
        "interim answers without end": lambda server: talked(server, f"fetch {pages}/continue"),
        "250 fetches": lambda server: talked(server, "fetches http://127.0.0.1:1/"),
        "5,000 calls": lambda server: talked(server, "calls"),
        "a pattern without end": lambda server: talked(server, "search (a+)+$"),
        "an import": lambda server: posted(
            server, "/v1/sessions/import", waiting_messages(100_000), lines, 413
        ),
        "an import of fewer values": lambda server: posted(
            server, "/v1/sessions/import", waiting_messages(20_000), lines, 400, 422
        ),
        "blank lines": lambda server: posted(
            server, "/v1/sessions/import", b"\n" * (31 << 20), lines, 400, 422
        ),
        "31 MB of values": lambda server: posted(
            server, "/v1/chat/completions", values, "application/json", 413
        ),
        "connections that never end": slow_bodies,
    }


@pytest.mark.requirement("R1", "R12")
def test_under_every_attack_everybody_else_is_served(
    tmp_path: Path, record_property: Callable[[str, object], None]
):
    async def scenario(server: ServerProcess) -> None:
        (server.work / "long.txt").write_text("a" * 50_000 + "b\n")
        await server.start()
        async with hostile_pages() as pages, Neighbour(server) as neighbour:
            for name, attack in attacks(pages).items():
                neighbour.longest, before = 0.0, neighbour.asked
                await attack(server)
                await eventually(lambda before=before: neighbour.asked > before)
                assert await held(server) == 0, f"{name}: {server.log[-2000:]}"
                record_property(name, round(neighbour.longest, 3))

    run_process_scenario(scenario, tmp_path, model, tools=TOOLS, server=SERVER)
