"""A server as a process of its own, for tests that send it real signals. It drains as long as a run is under way."""

import asyncio
import os
import sys

from support.http.memory_server import memory_service

from turnbuckle.call.loop import run
from turnbuckle.server.http.serving import ShutdownSignal, serve
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
    await serve(service, ShutdownSignal(lambda: os._exit(130)), lambda address: say(f"listens on {address}"))
    say("done")


if __name__ == "__main__":
    run(main())
