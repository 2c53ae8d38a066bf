"""What one attempt costs per streamed chunk, from the socket to events, beside bare clients.

    python benchmarks/call.py [--chunks 2000] [--rounds 5]

A provider in a process of its own plays the same frames to all contenders, in turn. Times are CPU time of
this process; the best of the rounds counts. "Burst": all frames at once. "Paced": one frame per read, where
the event loop's wake-ups are most of the cost.

- attempt: ours, with its clocks and its stop, on uvloop and on the standard loop.
- bare aiohttp: the library's reads, nothing decoded. SDK: the official package's stream on the standard loop.
"""

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import openai
import streams

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.loop import new_loop
from turnbuckle.call.routes import Route
from turnbuckle.call.transport import Connections
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.request import ModelRequest

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REQUEST = ModelRequest("m", (Message("user", (TextPart("hello"),)),))
QUESTION: Any = [{"role": "user", "content": "hello"}]
PACE = 0.0005
Client = Callable[[str], Awaitable[int]]


def serve(chunks: int, port: "multiprocessing.Queue[int]") -> None:
    """Plays `chunks` frames, all at once under /burst and one by one under /paced."""
    frames = list(streams.TEXT["openai_chat"](streams.words(chunks)))
    parts = [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames]

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            except (asyncio.IncompleteReadError, ConnectionResetError):
                writer.close()
                return
            length = int(head.partition("content-length: ")[2].split("\r\n")[0])
            await reader.readexactly(length)
            writer.write(HEAD)
            if "/burst/" in head:
                writer.write(b"".join(parts))
            else:
                for part in parts:
                    writer.write(part)
                    await asyncio.sleep(PACE)
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def main() -> None:
        server = await asyncio.start_server(play, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def attempt(url: str) -> int:
    route = Route(RouteName("bench"), "openai_chat", url, "m")
    stop = asyncio.Event()
    seen = 0
    async with Connections() as connections:
        async for events in Attempt(route, REQUEST, connections=connections, clock=SystemClock(), stop=stop):
            seen += len(events)
    return seen


async def bare(url: str) -> int:
    seen = 0
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
        session.post(url + "/chat/completions", json={}) as response,
    ):
        async for chunk in response.content.iter_any():
            seen += len(chunk)
    return seen


async def sdk(url: str) -> int:
    async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
        stream: Any = await client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        return len([chunk async for chunk in stream])


CONTENDERS: dict[str, tuple[Client, Callable[[], asyncio.AbstractEventLoop]]] = {
    "bare aiohttp, uvloop": (bare, new_loop),
    "attempt, uvloop": (attempt, new_loop),
    "bare aiohttp, asyncio": (bare, asyncio.new_event_loop),
    "attempt, asyncio": (attempt, asyncio.new_event_loop),
    "SDK stream, asyncio": (sdk, asyncio.new_event_loop),
}


def cost(client: Client, loop: Callable[[], asyncio.AbstractEventLoop], url: str) -> float:
    with asyncio.Runner(loop_factory=loop) as runner:
        started = time.process_time()
        runner.run(_counted(client, url))
        return time.process_time() - started


async def _counted(client: Client, url: str) -> int:
    return await client(url)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    server = context.Process(target=serve, args=(asked.chunks, port), daemon=True)
    server.start()
    try:
        base = f"http://127.0.0.1:{port.get(timeout=30)}"
        print(f"CPU per chunk, {asked.chunks} chunks of text, best of {asked.rounds} rounds\n")
        print(f"{'':<8}{'contender':<24}{'µs/chunk':>10}")
        for how in ("burst", "paced"):
            best = dict.fromkeys(CONTENDERS, float("inf"))
            for _ in range(asked.rounds):
                for name, (client, loop) in CONTENDERS.items():
                    best[name] = min(best[name], cost(client, loop, f"{base}/{how}/v1"))
            for name, seconds in best.items():
                print(f"{how:<8}{name:<24}{seconds / asked.chunks * 1e6:>10.1f}")
            print()
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
