"""Clients that do not read what they asked for: they are hung up on, cost next to nothing, and can come back."""

import asyncio
import json
import socket
from collections.abc import Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.face_requests import has_ended, request_for
from support.server.live_server import ApiClient, LiveServer, eventually, frames, gate, run_scenario

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem

LINE = "All that is said here is said again and again, until nobody could hold all of it any more.\n"
PIECE = 8_000
PIECES = 500
SAID = (LINE * (PIECE // len(LINE) + 1))[:PIECE]
READERS = 80
KEPT = READERS * PIECE * PIECES * 2 // 3
"""Bytes by which many readers that do not read may make the server larger, of all that they do not read. What they
really cost is a third of it; how much an allocator keeps besides differs from run to run."""


def talkative(request: LabRequest) -> Iterable[ScriptItem]:
    return (gate(1), *(Say(SAID, 0) for _ in range(PIECES)), Finish())


class Idler:
    """A client that sends a request and then reads nothing, with a socket that takes little by itself."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire

    async def all_there_is(self) -> bytes:
        """What it finds when it reads at last, up to where the connection broke."""
        loop, got = asyncio.get_running_loop(), b""
        try:
            while piece := await loop.sock_recv(self._wire, 1 << 16):
                got += piece
        except ConnectionResetError:
            pass
        return got


@asynccontextmanager
async def idler(server: ApiClient, head: str, body: str = ""):
    loop = asyncio.get_running_loop()
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        wire.setblocking(False)
        await loop.sock_connect(wire, ("127.0.0.1", server.port))
        await loop.sock_sendall(wire, f"{head}host: 127.0.0.1\r\n\r\n{body}".encode())
        yield Idler(wire)


def unchunked(got: bytes) -> tuple[bytes, bool]:
    """The body of an answer as far as it came, and whether it came to its proper end."""
    _, _, rest = got.partition(b"\r\n\r\n")
    body = b""
    while b"\r\n" in rest:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            return body, True
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body, False


@pytest.mark.realtime
@pytest.mark.requirement("E5", "E4")
def test_a_reader_that_does_not_read_is_dropped_without_an_end_and_goes_on_where_it_was(tmp_path: Path):
    """C13."""

    async def scenario(live: LiveServer):
        run = await live.begin()
        async with idler(live, f"GET /v1/runs/{run}/events HTTP/1.1\r\n") as sleepy:
            await eventually(lambda: len(live.service.heartbeat) == 1)
            live.behind.gates.open(1)
            whole = await live.events(run)
            await eventually(lambda: live.service.heartbeat.dropped)
            got = await sleepy.all_there_is()
        body, ended = unchunked(got)
        last = frames(body)[-1].id
        return whole, frames(body), ended, await live.events(run, int(last)), len(live.service.heartbeat)

    whole, first, ended, rest, readers = run_scenario(
        scenario, tmp_path, talkative, server="drain = 0\nsend_timeout = 0.4\nkeepalive = 0.5"
    )
    assert not ended
    assert "run_ended" not in {frame.event for frame in first}
    assert len(first) < len(whole)
    assert [frame.raw for frame in (*first, *rest)] == [frame.raw for frame in whole]
    assert readers == 0


@pytest.mark.realtime
@pytest.mark.requirement("E5", "F7")
@pytest.mark.parametrize(
    "face, policy, status",
    [("chat", "cancel", "cancelled"), ("messages", "cancel", "cancelled"), ("chat", "detach", "completed")],
)
def test_a_client_that_does_not_read_counts_as_gone(face: str, policy: str, status: str, tmp_path: Path):
    path, asked = request_for(f"{face} stream")
    body = json.dumps(asked)

    def with_a_pause(request: LabRequest) -> Iterable[ScriptItem]:
        return (gate(1), *(Say(SAID, 0) for _ in range(PIECES // 2)), gate(2), Say(SAID, 0), Finish())

    async def scenario(live: LiveServer):
        request = f"POST {path} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        async with idler(live, f"{request}\r\nx-turnbuckle-on-disconnect: {policy}\r\n", body) as sleepy:
            await live.behind.asked(1)
            live.behind.gates.open(1)
            await eventually(lambda: live.service.heartbeat.dropped)
            got = await sleepy.all_there_is()
        if policy == "detach":  # else it ends without the rest
            live.behind.gates.open(2)
        [run] = (await live.get("/v1/runs")).json["data"]
        return unchunked(got), (await live.ended(run["id"]))["status"]

    (told, ended), was = run_scenario(
        scenario, tmp_path, with_a_pause, server="drain = 0\nsend_timeout = 0.4\nkeepalive = 0.5"
    )
    assert not ended
    assert not has_ended(face, told)
    assert was == status


@pytest.mark.process
@pytest.mark.requirement("E5")
def test_many_readers_that_do_not_read_leave_the_server_as_small_as_it_was(tmp_path: Path):
    """C13, C14."""

    def resident(server: ServerProcess) -> int:
        status = Path(f"/proc/{server.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS"))

    async def scenario(server: ServerProcess):
        await server.start()
        server.behind.gates.open(1)
        for _ in range(2):  # what the server needs for such a run by itself
            await server.events(await server.begin())
        before = resident(server)
        async with AsyncExitStack() as stack:
            run = await server.begin()
            for _ in range(READERS):
                await stack.enter_async_context(idler(server, f"GET /v1/runs/{run}/events HTTP/1.1\r\n"))
            await server.events(run)
            return resident(server) - before

    assert run_process_scenario(scenario, tmp_path, talkative) < KEPT
