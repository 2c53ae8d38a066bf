"""Listening, and leaving in good order."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.http.memory_server import END, RUN, memory_server, settled
from support.processes.reserved_port import reserved_port

from turnbuckle.call.loop import new_loop
from turnbuckle.errors import CanNotListen
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.server.http.listeners import address_of
from turnbuckle.server.http.serving import MARKING
from turnbuckle.server.settings import ServerSettings
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import RunId

EVENTS, WHOLE = f"/runs/{RUN}/events", f"/runs/{RUN}/whole"
TESTS = Path(__file__).parent.parent


def run_scenario(scenario, settings=ServerSettings(port=0), **more):
    clock = VirtualClock()

    async def main():
        async with memory_server(settings, **more) as built:
            return await scenario(built, clock)

    return clock.run(main, quiet=0.001)


async def forever(built, seconds):
    await asyncio.sleep(seconds)


def test_while_it_drains_health_says_so_nothing_new_starts_and_readers_read_on():
    async def scenario(built, clock):
        built.slots.acquire("ann", RunId("old"))
        async with built.client() as client:
            await client.stream(EVENTS)
            await client.chunk()
            before = await built.ask("GET", "/readyz")
            built.stop()
            await asyncio.sleep(1)
            after = await built.ask("GET", "/readyz")
            alive = await built.ask("GET", "/healthz")
            await built.say(b"on")
            more = await client.chunk()
            return before.status, after, alive.status, more, built.slots.closing

    before, after, alive, more, closing = run_scenario(scenario, leave=forever)
    assert (before, after.status, alive, more, closing) == (200, 503, 200, b"data: on\n\n", True)
    assert after.json == {"status": "not ready", "why": "the server is stopping"}
    assert after.headers["retry-after"]


@pytest.mark.requirement("F2")
def test_at_the_end_every_reader_is_told_in_its_dialect_and_its_stream_ends_properly():
    async def scenario(built, clock):
        await built.say(b"one")
        async with built.client() as stream, built.client() as plain:
            policy = {"x-turnbuckle-on-disconnect": "cancel"}
            await stream.stream(EVENTS, headers=policy)
            await stream.until(b"one")
            await plain.send("GET", WHOLE, headers=policy)
            await settled(lambda: len(built.pulse) == 2)
            built.stop()
            body, reply = await stream.rest(), await plain.reply()
            await built.serving
            return body, reply, clock.now(), built.left, built.stopped

    body, reply, now, left, stopped = run_scenario(scenario, ServerSettings(port=0, drain=7), leave=forever)
    assert body == b"data: interrupted\n\n"
    assert (reply.status, reply.error["code"], reply.headers["x-should-retry"]) == (
        503,
        "interrupted",
        "false",
    )
    assert reply.headers["x-turnbuckle-run"] == RUN
    assert left == [7.0]
    assert 7 <= now <= 10
    assert stopped == []  # nobody left: it was the server


def test_a_run_that_ends_while_the_server_drains_is_told_to_its_end():
    async def leave(built, seconds):
        await built.say(b"last", END)  # and no reader has had a turn since

    async def scenario(built, clock):
        async with built.client() as stream, built.client() as plain:
            await stream.stream(EVENTS)
            await stream.chunk()
            await plain.send("GET", WHOLE)
            await settled(lambda: len(built.pulse) == 2)
            built.stop()
            return await stream.rest(), (await plain.reply()).json

    body, items = run_scenario(scenario, leave=leave)
    assert body == b"data: last\n\ndata: [DONE]\n\n"
    assert items == {"items": ["last"]}


def test_who_comes_when_the_server_lets_go_gets_what_is_stored():
    async def scenario(built, clock):
        await built.say(b"one")
        await built.say(b"two", END, run="over")
        async with built.client() as open_run, built.client() as over:
            await settled(lambda: True)
            built.pulse.interrupt_all()
            await open_run.stream(EVENTS)
            await over.stream("/runs/over/events")
            return await open_run.rest(), await over.rest()

    open_run, over = run_scenario(scenario)
    assert open_run == b"data: open\n\ndata: one\n\ndata: interrupted\n\n"
    assert over == b"data: open\n\ndata: two\n\ndata: [DONE]\n\n"


def test_a_reader_that_does_not_read_does_not_hold_up_the_end():
    async def scenario(built, clock):
        async with built.client() as client:
            await client.stream(EVENTS, headers={"x-turnbuckle-on-disconnect": "cancel"})
            client.reader._transport.pause_reading()
            for _ in range(200):
                await built.say(b"x" * 60_000)
            await asyncio.sleep(1)
            built.stop()
            await built.serving
            now = clock.now()
            client.reader._transport.resume_reading()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.rest()
            return now, len(built.pulse), built.stopped

    now, readers, stopped = run_scenario(scenario)
    assert now <= 6
    assert readers == 0
    assert stopped == []  # its run is kept for the next start, whatever its policy says


def test_a_journal_that_hangs_at_the_end_neither_holds_it_up_nor_stops_a_run():
    class Hanging(MemoryJournal):
        hangs = False

        async def read(self, stream, after=0, limit=100):
            if self.hangs:
                await asyncio.Event().wait()
            return await super().read(stream, after, limit)

    async def leave(built, seconds):
        built.journal.hangs = True

    async def scenario(built, clock):
        async with built.client() as stream, built.client() as plain:
            await stream.stream(EVENTS, headers={"x-turnbuckle-on-disconnect": "cancel"})
            await plain.send("GET", WHOLE)
            await settled(lambda: len(built.pulse) == 2)
            built.stop()
            await built.serving
            await asyncio.sleep(1)
            return clock.now(), built.stopped, len(built.pulse)

    now, stopped, readers = run_scenario(scenario, journal=Hanging(), leave=leave)
    assert now <= 8
    assert (stopped, readers) == ([], 0)


def test_marking_that_hangs_does_not_hold_up_the_end():
    async def hang(built, seconds):
        await asyncio.Event().wait()

    async def scenario(built, clock):
        built.stop()
        await built.serving
        return clock.now()

    assert (
        3 + MARKING <= run_scenario(scenario, ServerSettings(port=0, drain=3), leave=hang) <= 3 + MARKING + 5
    )


def test_the_second_wish_to_stop_leaves_at_once():
    left: list[Any] = []

    async def scenario(built, clock):
        built.stop()
        await asyncio.sleep(1)
        before = len(left)
        built.stop()
        return before, len(left)

    assert run_scenario(scenario, leave=forever, at_once=lambda: left.append(1)) == (0, 1)


def test_idle_connections_do_not_hold_up_the_end():
    async def scenario(built, clock):
        async with built.client() as idle:
            await idle.ask("GET", "/healthz")
            built.stop()
            await built.serving
            return clock.now(), await idle.reader.read()

    now, rest = run_scenario(scenario)
    assert now < 1
    assert rest == b""


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, new_loop], ids=["plain", "uvloop"])
def test_a_port_that_is_taken_is_told_and_a_free_one_can_be_taken_again_at_once(factory):
    async def main():
        with reserved_port() as port:
            taken = ServerSettings(port=port)
            async with memory_server(taken) as first:
                with pytest.raises(
                    CanNotListen, match=rf"port {port} of 127.0.0.1 is in use; choose another by --port"
                ):
                    async with memory_server(taken):
                        pass
                await first.ask("GET", "/healthz")
            async with memory_server(taken) as second:
                return (await second.ask("GET", "/healthz")).status, second.port == first.port == port

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == (200, True)


@pytest.mark.parametrize("host", ["127.0.0.300", "host.invalid"])
def test_an_address_that_is_not_ours_is_told(host):
    async def main():
        async with memory_server(ServerSettings(host=host, port=0), keys=["tb-a-key-of-the-tests"]):
            pass

    with pytest.raises(CanNotListen, match=f"cannot listen on {host} port 0"):
        asyncio.run(main())


def test_the_address_has_the_real_port():
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as other,
    ):
        assert address_of([one]) == f"http://127.0.0.1:{one.getsockname()[1]}"
        assert address_of([other]) == f"http://[::1]:{other.getsockname()[1]}"


def test_a_journal_that_can_not_be_written_makes_the_server_not_ready(caplog):
    async def scenario(built, clock):
        good = await built.ask("GET", "/readyz")
        await built.journal.close()
        await asyncio.sleep(5)
        return good.status, await built.ask("GET", "/readyz")

    good, bad = run_scenario(scenario)
    assert (good, bad.status) == (200, 503)
    assert bad.json["why"] == "the journal cannot be written"


def test_a_journal_that_does_not_answer_makes_the_server_not_ready(caplog):
    class Stuck(MemoryJournal):
        async def note(self, stream, note):
            await asyncio.Event().wait()

    async def scenario(built, clock):
        return (await built.ask("GET", "/readyz")).status, clock.now()

    status, now = run_scenario(scenario, journal=Stuck())
    assert status == 503
    assert now <= 3


def started(drain, *more, terminal=None):
    process = subprocess.Popen(
        [sys.executable, str(TESTS / "support/http/signalled_server.py"), str(drain), *more],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=None if terminal is None else subprocess.DEVNULL,  # which may be a terminal, too
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent / "src")))},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listens on http://127.0.0.1:")
    return process, int(line.strip().rpartition(":")[2])


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_real_signal_ends_a_real_process_in_good_order(number):
    process, port = started(0)
    with process, socket.create_connection(("127.0.0.1", port)) as reader:
        reader.sendall(b"GET /runs/r1/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        got = reader.recv(65_536)
        process.send_signal(number)
        while piece := reader.recv(65_536):
            got += piece
        out, _ = process.communicate(timeout=100)
        assert got.endswith(b"data: interrupted\n\n\r\n0\r\n\r\n")
        assert out.splitlines() == ["leaving within 0", "done"]
        assert process.returncode == 0


@pytest.mark.process
def test_a_second_real_signal_leaves_at_once():
    process, _ = started(600)
    with process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "leaving within 600\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=100) == 130


@pytest.mark.process
def test_a_late_signal_does_not_kill_a_worker_that_leaves_in_good_order():
    """A terminal and a supervisor send a signal to all processes, and the parent sends one more."""
    process, _ = started(0, "worker")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=100)
    assert (out.splitlines(), process.returncode) == (["leaving within 0", "done"], 0)


@pytest.mark.process
def test_a_terminal_that_was_closed_is_one_wish_however_many_tell_of_it():
    ours, theirs = os.openpty()
    process, port = started(600, terminal=theirs)
    os.close(theirs)
    with process:
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "leaving within 600\n"
        process.send_signal(signal.SIGHUP)
        with socket.create_connection(("127.0.0.1", port)) as asking:
            asking.sendall(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            answer = asking.recv(65_536)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=100) == 130
    assert answer.startswith(b"HTTP/1.1 503 ")
