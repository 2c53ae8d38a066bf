"""Every attack that once stopped the whole server, for a real one: what a hostile page, model, file or client sends.

`attacks` gives them by name. The test of R1 and `benchmarks/attacks.py` play the same ones.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from support.server.live_server import ApiClient
from support.tools.mcp import PROGRAM

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

PAGE = b"<a " * 8_000
_HOSTILE = (*PROGRAM, "well")
TOOLS = f"""private_addresses = true
readable = ["{Path(PROGRAM[-1]).parent}"]
approval = {{ "mcp__*" = "allow" }}
mcp = {{ hostile = {{ command = "{_HOSTILE[0]}", args = {json.dumps(_HOSTILE[1:])}, start_seconds = 100 }} }}
"""
SERVER = "max_connections = 60\nmax_runs_per_owner = 20"


def hostile_model(request: LabRequest) -> Iterable[ScriptItem]:
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
        case "mcp":
            return (Call(f"mcp__hostile__{rest}", {"text": ""}), Finish())
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


async def talked(server: ApiClient, task: str) -> None:
    reply = await server.post(
        "/v1/chat/completions", {"model": "agent", "messages": [{"role": "user", "content": task}]}
    )
    assert reply.status == 200, reply.body


async def posted(server: ApiClient, path: str, body: bytes, kind: str, *statuses: int) -> None:
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


async def slow_bodies(server: ApiClient) -> None:
    """More connections than there are places, each of which sends its body forever."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    writers = []
    for _ in range(100):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + b"Content-Length: 1000000\r\n\r\n{")
        writers.append(writer)
    await asyncio.gather(*(writer.drain() for writer in writers), return_exceptions=True)
    for writer in writers:
        writer.transport.abort()


def provoke(workspace: Path) -> None:
    """A file that a bad pattern never comes to an end with."""
    (workspace / "long.txt").write_text("a" * 50_000 + "b\n")


Attack = Callable[[ApiClient], Awaitable[None]]
FACES = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
ALIKE = frozenset(
    {
        "31 MB of words",
        "31 MB of escapes",
        "120,000 messages to /v1/chat/completions",
        "120,000 messages to /v1/responses",
    }
)
"""Attacks of the same kind as others: the benchmark plays them, too."""
ANY = (200, 400, 413, 422, 502)


def one_string(piece: bytes) -> bytes:
    text = piece * ((31 << 20) // len(piece))
    return b'{"model":"agent","messages":[{"role":"user","content":"' + text + b'"}]}'


def many_messages(path: str) -> bytes:
    """As many messages as a body may hold values, all of them good."""
    field = "input" if path.endswith("responses") else "messages"
    one = b'{"role":"user","content":"x"},{"role":"assistant","content":"y"},'
    more = b'"max_tokens":100,' if path.endswith("messages") else b""
    return b'{"model":"agent",%b"%b":[' % (more, field.encode()) + one * 60_000 + one[:29] + b"]}"


async def empty_frames(server: ApiClient) -> None:
    """Frames that say nothing, as fast as they are taken, on a WebSocket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x89\x80\0\0\0\0" * 100_000)
    await reader.readexactly(2 * 100_000)  # each is answered
    writer.transport.abort()


def too_long(path: str) -> Attack:
    return lambda server: posted(server, path, many_messages(path), "application/json", *ANY)


def attacks(pages: str) -> dict[str, Attack]:
    lines, values = "application/x-ndjson", b'{"messages":[' + b"{}," * ((31 << 20) // 3) + b"{}]}"
    return {
        "a page of open tags": lambda server: talked(server, f"fetch {pages}/tags"),
        "a slow charset": lambda server: talked(server, f"fetch {pages}/punycode"),
        "interim answers without end": lambda server: talked(server, f"fetch {pages}/continue"),
        "250 fetches": lambda server: talked(server, "fetches http://127.0.0.1:1/"),
        "5,000 calls": lambda server: talked(server, "calls"),
        "a pattern without end": lambda server: talked(server, "search (a+)+$"),
        "an MCP server that floods": lambda server: talked(server, "mcp flood"),
        "an MCP server with a million parts": lambda server: talked(server, "mcp parts"),
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
        "one string of 31 MB": lambda server: posted(
            server, "/v1/chat/completions", one_string(b"x"), "application/json", *ANY
        ),
        "31 MB of words": lambda server: posted(
            server, "/v1/chat/completions", one_string(b"x "), "application/json", *ANY
        ),
        "31 MB of escapes": lambda server: posted(
            server, "/v1/chat/completions", one_string(b"\\u00e9"), "application/json", *ANY
        ),
        **{f"120,000 messages to {path}": too_long(path) for path in FACES},
        "empty frames on a WebSocket": empty_frames,
        "connections that never end": slow_bodies,
    }
