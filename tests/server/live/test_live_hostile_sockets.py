"""What a client may do to a WebSocket without costing anybody else anything: half messages, floods, tiny frames."""

import asyncio
from pathlib import Path

import pytest
from support.server.live_server import PATIENCE, LiveServer, asked_until, run_scenario
from support.server.scripted_models import answer
from websockets.asyncio.client import connect
from websockets.frames import Frame, Opcode

from turnbuckle.server.http import websocket_cycle
from turnbuckle.server.http.bodies import BodyBudget
from turnbuckle.server.http.exchange import RequestHead
from turnbuckle.server.http.sockets import WebSocket
from turnbuckle.service.owners import Caller

pytestmark = [pytest.mark.realtime, pytest.mark.requirement("R12")]

HEAD = (
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PONG = b"\x8a\x00"
SMALL_BODIES = "max_body = 200000"


async def opened(server: LiveServer):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(HEAD)
    async with asyncio.timeout(PATIENCE):
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


async def close_code(reader: asyncio.StreamReader) -> int:
    """The code of the server's goodbye, behind any number of pings."""
    async with asyncio.timeout(PATIENCE):
        while True:
            kind, size = await reader.readexactly(2)
            data = await reader.readexactly(size)
            if kind & 15 == Opcode.CLOSE:
                return int.from_bytes(data[:2], "big")


def test_half_sent_messages_count_against_the_budget_of_their_owner(tmp_path: Path):
    half = frame(Opcode.TEXT, b"x" * 190_000, fin=False) + frame(Opcode.PING, b"")

    async def scenario(server: LiveServer):
        lines = [await opened(server) for _ in range(5)]
        for reader, writer in lines[:4]:
            writer.write(half)
            async with asyncio.timeout(PATIENCE):
                assert await reader.readexactly(2) == PONG  # all before it has arrived
        reader, writer = lines[4]
        writer.write(half)
        code = await close_code(reader)
        for _, writer in lines:
            writer.transport.abort()
        body = {"model": "lab", "input": "x" * 150_000}
        # The others are noticed to be gone in a moment.
        await asked_until(lambda reply: reply.status == 200, server.post, "/v1/responses", body)
        return code

    assert run_scenario(scenario, tmp_path, answer, server=SMALL_BODIES) == 1013


def test_a_message_that_stays_half_sent_ends_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(websocket_cycle, "PING_SECONDS", 0.05)
    monkeypatch.setattr(websocket_cycle, "SILENT_SECONDS", 0.0)

    async def scenario(server: LiveServer):
        reader, writer = await opened(server)
        writer.write(frame(Opcode.TEXT, b'{"type":', fin=False))
        code = await close_code(reader)
        writer.close()
        return code

    assert run_scenario(scenario, tmp_path, answer) == 1008


def test_frames_of_nothing_hold_nobody_up_and_the_next_message_is_answered(tmp_path: Path):
    async def scenario(server: LiveServer):
        flood = frame(Opcode.PING, b"") * 40_000
        reader, writer = await opened(server)
        writer.write(flood)
        writer.write(frame(Opcode.TEXT, b"x", fin=False) + frame(Opcode.CONT, b"", fin=False) * 40_000)
        async with (
            asyncio.timeout(PATIENCE),
            connect(f"ws://127.0.0.1:{server.port}/v1/responses", proxy=None) as other,
        ):
            await other.send("{}")
            assert "error" in await other.recv()
            got = 0
            while got < 2 * 40_000:
                got += len(await reader.read(65536))
        writer.close()

    run_scenario(scenario, tmp_path, answer)


def test_a_client_that_sends_large_messages_ahead_is_not_listened_to():
    async def main():
        sent = 0

        async def receive():
            nonlocal sent
            sent += 1
            return {"type": "websocket.receive", "text": "x" * (2 << 20)}

        async def send(_):
            raise AssertionError("nothing is said")

        budget = BodyBudget(100 << 20, 100 << 20)
        socket = WebSocket(RequestHead("GET", "/", b"", {}, "req"), None, receive, send)
        socket.admit(Caller("me"), budget)
        pump = asyncio.create_task(socket.pump())
        for taken in range(1, 4):
            for _ in range(50):
                await asyncio.sleep(0)
            assert sent == taken
            assert budget.held <= 4 << 20
            assert await socket.receive() is not None
        pump.cancel()
        await asyncio.wait({pump})
        socket.leave()
        assert budget.held == 0

    asyncio.run(main())


def test_a_message_for_which_there_is_no_room_ends_the_connection_with_words():
    async def main():
        said = []

        async def receive():
            return {"type": "websocket.receive", "text": "x" * 2000}

        async def send(message):
            said.append(message)

        socket = WebSocket(RequestHead("GET", "/", b"", {}, "req"), None, receive, send)
        socket.admit(Caller("me"), BodyBudget(1000, 1000))
        await socket.pump()
        assert said[0]["code"] == 1013
        assert await socket.receive() is None

    asyncio.run(main())


def test_a_socket_beyond_the_cap_of_connections_is_refused(tmp_path: Path):
    async def scenario(server: LiveServer):
        lines = [await opened(server) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD)
        async with asyncio.timeout(PATIENCE):
            refusal = await reader.readuntil(b"\r\n")
        for _, each in (*lines, (reader, writer)):
            each.transport.abort()
        return refusal

    assert b" 503 " in run_scenario(scenario, tmp_path, answer, server="max_connections = 3")
