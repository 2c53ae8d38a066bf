"""Several processes on one socket: whoever has least to do takes the next connection, and nobody waits for one that
hangs. Here the processes are listeners in one loop; real ones are in `live/test_live_workers.py`."""

import asyncio
import socket

import pytest

from turnbuckle.call.loop import new_loop
from turnbuckle.server.http.listeners import Loads, SharedListener, open_listeners


class Taken(asyncio.Protocol):
    """A connection that says which worker has it."""

    def __init__(self, worker, taken):
        self.worker, self.taken = worker, taken

    def connection_made(self, transport):
        self.taken.append(self.worker)
        transport.write(str(self.worker).encode())


def played(scenario):
    async def main():
        (listening,) = open_listeners("127.0.0.1", 0, 60.0)
        loads = Loads(3)
        taken: list[int] = []

        def join(worker, extra=0):
            def load():
                return taken.count(worker) + extra

            return SharedListener(listening.dup(), lambda: Taken(worker, taken), loads, worker, load)

        async def connect():
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            async with asyncio.timeout(100):
                await reader.readexactly(1)
            writer.close()

        try:
            return await scenario(loads, join, connect, taken)
        finally:
            listening.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main())


def test_connections_that_come_at_once_are_shared():
    async def scenario(loads, join, connect, taken):
        joined = [join(worker) for worker in range(3)]
        await asyncio.gather(*(connect() for _ in range(60)))
        for each in joined:
            each.close()
        return [taken.count(worker) for worker in range(3)]

    counts = played(scenario)
    assert sum(counts) == 60
    assert min(counts) >= 5  # a listener that takes all that wait leaves nothing to the others


def test_one_with_less_to_do_goes_first():
    async def scenario(loads, join, connect, taken):
        busy, idle = join(0, extra=100), join(1)
        for _ in range(10):
            await connect()
        busy.close()
        idle.close()
        return taken

    assert played(scenario).count(1) >= 5  # a machine that is busy may give the other one a turn


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "hangs"])
def test_nobody_waits_for_one_that_does_not_come(is_gone):
    async def scenario(loads, join, connect, taken):
        idle = join(1)
        if is_gone:
            idle.close()
        else:  # it has least to do, and takes nobody
            idle._loop.remove_reader(idle._socket)
        busy = join(0, extra=100)
        await connect()
        busy.close()
        if not is_gone:
            idle.close()
        return taken

    assert played(scenario) == [0]


def test_the_kernel_watches_over_the_very_first_connection():
    """It may come before anything else is done with the socket."""
    (listening,) = open_listeners("127.0.0.1", 0, 7.0)
    with listening, socket.create_connection(listening.getsockname()), listening.accept()[0] as peer:
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 7000
