"""The load: many cheap readers in one process of their own, without a framework and without parsing what they
read.

    cd benchmarks && python -m serving.load

One job as a line of JSON on stdin, one result as a line of JSON on stdout. Modes:

- sequence: so many streams, one after the other. crowd: all at once.
- hold: so many streams are opened and kept; the result comes when each has brought its first bytes of a body,
  and the streams stay until stdin is closed.
- unread: the request is sent, and nothing is ever read. text: one stream, whose text is put together.

A stream is whole if its status was 200, and `[DONE]` and the end of the body came. The first text is the
first chunk whose content is not empty.
"""

import asyncio
import json
import re
import sys
import time
from typing import Any, NamedTuple, cast

import uvloop

TEXT = re.compile(rb'"content": ?"[^"]')
END = b"0\r\n\r\n"
DONE = b"[DONE]"
PATIENCE = 600
PATIENCE_TO_HOLD = 90
AT_ONCE = 50  # connects under way while many streams are opened to be held


class Job(NamedTuple):
    port: int
    path: str = "/v1/chat/completions"
    headers: dict[str, str] = {}  # noqa: RUF012
    body: str = ""
    mode: str = "sequence"
    streams: int = 1


class Stream(asyncio.Protocol):
    """One request on a connection of its own."""

    def __init__(self, request: bytes, *, paused: bool, keep: bool) -> None:
        loop = asyncio.get_running_loop()
        self.request, self.paused = request, paused
        self.kept: list[bytes] | None = [] if keep else None
        self.over: asyncio.Future[None] = loop.create_future()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.started = time.perf_counter()
        self.first = self.ended = 0.0
        self.tail = b""
        self.status = 0
        self.done = False
        self.size = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        if self.paused:
            self.transport.pause_reading()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self.kept is not None:
            self.kept.append(data)
        # Markers may be cut by a read, so a little of the last one is looked at again.
        seen = self.tail + data
        if not self.first:
            self.status = self.status or int(seen[9:12])
            if TEXT.search(seen):
                self.first = time.perf_counter()
            if b"\r\n\r\n" in seen and not seen.endswith(b"\r\n\r\n") and not self.begun.done():
                self.begun.set_result(None)
            self.tail = seen[-2048:]
        else:
            self.tail = seen[-256:]
        self.done = self.done or DONE in seen
        if self.tail.endswith(END) or self.status != 200:
            self.finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self.finish()

    def finish(self) -> None:
        if not self.over.done():
            self.ended = time.perf_counter()
            self.over.set_result(None)
            if not self.begun.done():
                self.begun.set_result(None)
        if self.transport:
            self.transport.close()

    @property
    def whole(self) -> bool:
        return self.status == 200 and self.done and self.first > 0


def request_of(job: Job) -> bytes:
    body = job.body.encode()
    method = "POST" if body else "GET"
    lines = [f"{method} {job.path} HTTP/1.1", f"host: 127.0.0.1:{job.port}", "accept: text/event-stream"]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in job.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def opened(job: Job) -> Stream:
    stream = Stream(request_of(job), paused=job.mode == "unread", keep=job.mode == "text")
    try:
        await asyncio.get_running_loop().create_connection(lambda: stream, "127.0.0.1", job.port)
    except OSError:
        stream.finish()
    return stream


async def played(job: Job) -> Stream:
    stream = await opened(job)
    await asyncio.wait([stream.over], timeout=PATIENCE)
    return stream


async def streams_of(job: Job) -> list[Stream]:
    match job.mode:
        case "crowd":
            return list(await asyncio.gather(*(played(job) for _ in range(job.streams))))
        case "hold":
            slots = asyncio.Semaphore(AT_ONCE)

            async def begun() -> Stream:
                async with slots:
                    stream = await opened(job)
                    await asyncio.wait([stream.begun], timeout=PATIENCE_TO_HOLD)
                    return stream

            return list(await asyncio.gather(*(begun() for _ in range(job.streams))))
        case "unread":
            return [await opened(job)]
        case _:
            return [await played(job) for _ in range(job.streams)]


def text_of(received: bytes) -> str:
    """The text of a kept stream; for the proof that a server hands on all of it, never while something is
    measured."""
    head, _, body = received.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        bare, rest = [], body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            bare.append(rest[:length])
            rest = rest[length + 2 :]
        body = b"".join(bare)
    pieces = []
    for line in body.splitlines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:]).get("choices") or ():
                pieces.append(choice.get("delta", {}).get("content") or "")
    return "".join(pieces)


def result(streams: list[Stream], wall: float, cpu: float) -> dict[str, Any]:
    told: dict[str, Any] = {
        "wall": wall,
        "cpu": cpu,
        "first": [stream.first - stream.started for stream in streams if stream.first],
        "whole": sum(stream.whole for stream in streams),
        "status": sorted({stream.status for stream in streams}),
        "bytes": sum(stream.size for stream in streams),
    }
    if streams[0].kept is not None:
        received = b"".join(streams[0].kept)
        told["text"] = text_of(received) if streams[0].status == 200 else ""
        told["begin"] = received[:2000].decode("utf-8", "replace")
    return told


async def main() -> None:
    loop = asyncio.get_running_loop()
    job = Job(**json.loads(sys.stdin.readline()))
    wall, cpu = time.perf_counter(), time.process_time()
    streams = await streams_of(job)
    told = result(streams, time.perf_counter() - wall, time.process_time() - cpu)
    print(json.dumps(told), flush=True)
    if job.mode in ("hold", "unread"):
        await loop.run_in_executor(None, sys.stdin.read)
    for stream in streams:
        if stream.transport:
            stream.transport.abort()


if __name__ == "__main__":
    uvloop.run(main())
