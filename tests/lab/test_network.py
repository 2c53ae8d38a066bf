"""A line that fails as networks do, with real sockets on both sides."""

import asyncio
from contextlib import suppress

import pytest

from turnbuckle.lab.network import NetworkProxy
from turnbuckle.testing.clock import VirtualClock

HANGS = 100.0


def played(scene, **more):
    """Play a scene over a line to a server that repeats what it hears, and see whether that server heard the end."""

    async def main():
        ended = asyncio.Event()

        async def echo(reader, writer):
            with suppress(ConnectionError):
                while data := await reader.read(100):
                    writer.write(data)
            ended.set()
            writer.close()

        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with NetworkProxy(f"127.0.0.1:{port}", **more) as line, asyncio.timeout(HANGS):
                clients = []

                async def said(data):
                    reader, writer = await asyncio.open_connection(line.host, line.port)
                    clients.append(writer)
                    writer.write(data)
                    return reader, writer

                try:
                    return await scene(line, said, ended)
                finally:
                    for writer in clients:
                        writer.transport.abort()

    return asyncio.run(main())


async def is_silent(reading):
    """Whether nothing comes, however often everybody else has had their turn."""
    for _ in range(50):
        await asyncio.sleep(0)
    return not reading.done()


def test_a_line_that_is_well_hands_everything_on_and_the_end_too():
    async def scene(line, said, ended):
        reader, writer = await said(b"a" * 200_000)
        writer.write_eof()
        back = await reader.read()
        await ended.wait()
        return back

    assert played(scene) == b"a" * 200_000


def test_what_is_said_over_a_stalled_line_comes_when_it_is_well():
    async def scene(line, said, _):
        reader, writer = await said(b"one")
        first = await reader.readexactly(3)
        line.stall()
        writer.write(b"two")
        reading = asyncio.ensure_future(reader.readexactly(3))
        silent = await is_silent(reading)
        line.heal()
        return first, silent, await reading

    assert played(scene) == (b"one", True, b"two")


def test_a_line_that_is_cut_is_told_to_both_sides_and_the_next_connection_is_well():
    async def scene(line, said, ended):
        reader, _ = await said(b"one")
        await reader.readexactly(3)
        line.cut()
        with pytest.raises(ConnectionError):
            await reader.read()
        await ended.wait()
        again, _ = await said(b"two")
        return await again.readexactly(3)

    assert played(scene) == b"two"


def test_of_a_connection_that_is_swallowed_neither_side_hears_again():
    async def scene(line, said, ended):
        reader, writer = await said(b"one")
        await reader.readexactly(3)
        line.swallow()
        writer.write(b"two")
        await line.swallowed.wait()
        reading = asyncio.ensure_future(reader.read())
        silent = await is_silent(reading)
        reading.cancel()
        writer.transport.abort()
        again, _ = await said(b"new")
        return silent, ended.is_set(), await again.readexactly(3)

    assert played(scene) == (True, False, b"new")


def test_of_a_connection_that_is_half_open_the_server_is_told_only_when_it_is_cut():
    async def scene(line, said, ended):
        reader, _ = await said(b"one")
        await reader.readexactly(3)
        line.half_open()
        with pytest.raises(ConnectionError):
            await reader.read()
        again, _ = await said(b"new")
        fresh = await again.readexactly(3)
        told = ended.is_set()
        line.cut()
        await ended.wait()
        return fresh, told

    assert played(scene) == (b"new", False)


def test_answers_can_be_lost_and_changed_and_connections_refused():
    async def scene(line, said, _):
        reader, writer = await said(b"one")
        changed = await reader.readexactly(3)
        line.lose_answers()
        writer.write(b"two")
        await line.swallowed.wait()
        line.heal()
        writer.write(b"six")
        third = await reader.readexactly(3)
        line.refuses = True
        refused, _ = await said(b"x")
        try:
            told = await refused.read()
        except ConnectionError:
            told = b""
        return changed, third, told

    assert played(scene, changed=bytes.upper) == (b"ONE", b"SIX", b"")


def test_a_slow_line_takes_its_time_each_way():
    clock = VirtualClock()

    async def scene(line, said, _):
        line.delay = 0.5
        reader, _ = await said(b"one")
        reading = asyncio.ensure_future(reader.readexactly(3))
        for _ in range(2):
            while not clock.sleepers:
                await asyncio.sleep(0)
            assert not reading.done()
            await clock.advance(0.5)
        return await reading

    assert played(scene, clock=clock) == b"one"
