"""A server as a process of its own, for tests that send it real signals. It drains as long as a run is under way."""

import asyncio
import os
import signal
import socket
import sys

from support.http.memory_server import memory_service

from turnbuckle.call.loop import run
from turnbuckle.observe.worker_numbers import NumberSockets
from turnbuckle.server.http.listeners import Loads, open_listeners
from turnbuckle.server.http.serving import Service, ShutdownSignal, WorkerPlace, serve
from turnbuckle.server.settings import ServerSettings


def say(text: str) -> None:
    print(text, flush=True)


async def main() -> None:
    async def leave(server, seconds):
        say(f"leaving within {seconds:g}")
        if seconds:
            await asyncio.Event().wait()

    settings = ServerSettings(port=0, drain=float(sys.argv[1]))
    service, _ = memory_service(settings, leave=leave)
    stopper = ShutdownSignal(lambda: os._exit(130))
    if sys.argv[2:] != ["worker"]:
        await serve(service, stopper, lambda address: say(f"listens on {address}"))
    else:
        await serve_as_worker(service, stopper)
    say("done")


async def serve_as_worker(service: Service, stopper: ShutdownSignal) -> None:
    """The wish to stop comes again when everything is said and the journal is still to be closed."""
    numbers, (_, orders) = NumberSockets(1), socket.socketpair()
    orders.setblocking(False)
    place = WorkerPlace(0, open_listeners("127.0.0.1", 0, 60.0), Loads(1), orders, numbers, "")
    await serve(service, stopper, lambda address: say(f"listens on {address}"), worker=place)
    numbers.close()
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(0)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also if the tests run under `nohup`
    run(main())
