"""Connections that lead nowhere are closed, in any event loop, and those that lead somewhere are not."""

import asyncio
import socket

import pytest
from support.http.memory_server import END, RUN, memory_server, settled

from turnbuckle.call.loop import new_loop
from turnbuckle.server.http.connection import watch_peer
from turnbuckle.server.settings import ServerSettings
from turnbuckle.testing.clock import VirtualClock

EVENTS = f"/runs/{RUN}/events"


def run_scenario(scenario, **more):
    clock = VirtualClock()

    async def main():
        async with memory_server(**more) as built:
            return await scenario(built, clock)

    return clock.run(main, quiet=0.001)


async def closed_after(client, clock):
    """The seconds until the server hangs up, and what it said before."""
    began = clock.now()
    try:
        said = await client.reader.read()
    except ConnectionResetError:
        said = b"(reset)"
    return round(clock.now() - began), said


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "sent, least, most, said",
    [
        (b"", 30, 32, b""),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-sl", 30, 32, b""),
        (b"POST /echo HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 10\r\n\r\n{", 30, 32, b"(reset)"),
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_request_that_stays_half_sent_is_given_up(sent, least, most, said):
    async def scenario(built, clock):
        async with built.client() as client:
            client.writer.write(sent)
            return await closed_after(client, clock)

    seconds, heard = run_scenario(scenario)
    assert least <= seconds <= most
    assert heard == said


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "sent, piece",
    [
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ", b"x"),
        (b"POST /echo HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\n{", b" "),
        (b"POST /echo HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["a head", "a body", "a body in chunks"],
)
def test_a_request_that_comes_byte_by_byte_is_given_up_as_if_it_had_stopped(sent, piece):
    async def scenario(built, clock):
        async with built.client() as client:
            client.writer.write(sent)
            began = clock.now()
            while (
                not client.reader.at_eof() and client.reader.exception() is None and clock.now() - began < 600
            ):
                client.writer.write(piece)
                await asyncio.sleep(5)
            return clock.now() - began

    assert 30 <= run_scenario(scenario) <= 45


def test_a_large_body_on_a_thin_line_has_the_time_that_it_needs():
    text = b"x" * 100_000

    async def scenario(built, clock):
        async with built.client() as client:
            await client.send("POST", "/echo", headers={"content-length": str(len(text) + 11)})
            client.writer.write(b'{"text":"')
            for at in range(0, len(text), 5000):
                client.writer.write(text[at : at + 5000])
                await asyncio.sleep(5)
            client.writer.write(b'"}')
            return await client.reply()

    assert run_scenario(scenario).status == 200


def test_a_connection_that_nobody_uses_is_closed_later_than_balancers_close_theirs():
    async def scenario(built, clock):
        async with built.client() as client:
            await client.ask("GET", "/healthz")
            return await closed_after(client, clock)

    seconds, said = run_scenario(scenario)
    assert 70 <= seconds <= 80
    assert said == b""


def test_a_stream_lives_however_long_its_client_says_nothing():
    async def scenario(built, clock):
        async with built.client() as client:
            await client.stream(EVENTS)
            await asyncio.sleep(300)
            await built.say(END)
            body = await client.rest()
            again = await client.ask("GET", "/healthz")  # the connection is good for another request
            return body, again.status

    body, status = run_scenario(scenario)
    assert body.endswith(b"data: [DONE]\n\n")
    assert status == 200


def test_a_body_that_its_handler_does_not_read_does_not_end_the_stream():
    async def scenario(built, clock):
        async with built.client() as client:
            reply = await client.ask("GET", EVENTS, headers={"content-length": "300000"})
            client.writer.write(b"x" * 200_000)
            await asyncio.sleep(100)
            await built.say(END)
            return reply.status, (await client.rest()).endswith(b"data: [DONE]\n\n")

    assert run_scenario(scenario) == (200, True)


@pytest.mark.requirement("E5")
def test_a_client_that_has_hung_up_one_way_and_reads_nothing_is_gone_in_time():
    async def scenario(built, clock):
        await built.say(*([b"x" * 60_000] * 100))
        async with built.client() as client:
            client.reader._transport.pause_reading()
            await client.send("GET", EVENTS)
            await settled(lambda: len(built.pulse) == 1)
            await asyncio.sleep(2)  # all buffers are full
            client.writer.write_eof()
            await asyncio.sleep(1)
            readers = len(built.pulse)
            began = clock.now()
            while built.pulse.connections:
                await asyncio.sleep(1)
            return readers, clock.now() - began

    readers, seconds = run_scenario(scenario)
    assert readers == 0  # the run's reader is gone at once, the connection when nothing can be saved any more
    assert seconds <= 62


@pytest.mark.realtime
@pytest.mark.requirement("E5")
def test_a_real_socket_that_does_not_read_is_reset_and_all_of_it_is_gone():
    settings = ServerSettings(port=0, send_timeout=0.4, keepalive=0.2)

    async def main():
        async with memory_server(settings) as built:
            loop = asyncio.get_running_loop()
            peer = socket.create_connection(("127.0.0.1", built.port))
            peer.sendall(b"GET %s HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % EVENTS.encode())
            await settled(lambda: len(built.pulse) == 1)
            for _ in range(200):
                await built.say(b"x" * 60_000)
            await settled(lambda: len(built.pulse) == 0 and built.pulse.connections == 0)
            peer.setblocking(False)
            got = b""
            try:
                while piece := await loop.sock_recv(peer, 1 << 20):
                    got += piece
            except ConnectionResetError:
                pass
            peer.close()
            return got, built.pulse.dropped, len(built.attendance)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        got, dropped, attended = runner.run(main())
    assert got.startswith(b"HTTP/1.1 200")
    assert not got.endswith(b"0\r\n\r\n")
    assert (dropped, attended) == (1, 0)


@pytest.mark.realtime
@pytest.mark.requirement("F2", "F7")
def test_signs_of_life_and_leaving_work_in_the_loop_that_is_really_used():
    settings = ServerSettings(port=0, keepalive=0.1, noop=0.25)

    async def main():
        async with memory_server(settings) as built:
            async with built.client() as client:
                await client.stream(EVENTS, headers={"x-turnbuckle-on-disconnect": "cancel"})
                seen = await client.until(b"beat")
            await settled(lambda: len(built.pulse) == 0)
            return seen, built.stopped

    with asyncio.Runner(loop_factory=new_loop) as runner:
        seen, stopped = runner.run(main())
    assert b": keepalive\n\n" in seen
    assert stopped == [(RUN, "the client left")]


def test_what_a_listening_socket_is_told_about_peers_holds_for_its_connections():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        watch_peer(listening, 60.0)
        with socket.create_connection(listening.getsockname()):
            made, _ = listening.accept()
            with made:
                kept = made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_USER_TIMEOUT", "TCP_NOTSENT_LOWAT")
                told = [made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
    assert (kept, told) == (1, [30, 30, 90_000, 64 * 1024])
