"""A Chat Completions provider that costs little: bytes made beforehand, one timer for each paced chunk, no
framework.

    cd benchmarks && python -m serving.provider

It prints its port and plays what `script.py` says until it is killed. Every stream keeps its own time from
its own start, so that the streams of a crowd are spread as real ones are, and a late chunk does not make all
later ones late.
"""

import asyncio
from functools import cache
from typing import cast

import streams
import uvloop

from serving.script import Script, find

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
USAGE = (
    b'data: {"id":"chatcmpl-CkQv3mJ5l1oXh2","object":"chat.completion.chunk","created":1794000000,'
    b'"model":"gpt-5.4-2026-03-05","choices":[],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}\n\n'
)
PLAIN = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1794000000,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"the"},"logprobs":null,"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}'
)
MODELS = b'{"object":"list","data":[{"id":"bench","object":"model","created":1794000000,"owned_by":"lab"}]}'


def framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


@cache
def parts_of(script: Script) -> list[bytes]:
    """One part for each chunk of text, of which the first carries the role too, and one for the finish."""
    role, *texts, finish, _ = [framed(frame) for frame in streams.chat_text(streams.words(script.chunks))]
    texts[0] = role + texts[0]
    return texts if script.end == "hold" else [*texts, finish]


@cache
def whole(script: Script) -> bytes:
    return b"".join(parts_of(script))


class Play(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = bytearray()
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.received[:end]).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if len(self.received) < end + 4 + length:
            return
        body = bytes(self.received[end + 4 : end + 4 + length])
        del self.received[: end + 4 + length]
        self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        if not head.startswith(b"post "):
            self.plain(MODELS)
        elif b'"stream":true' not in body and b'"stream": true' not in body:
            self.plain(PLAIN)
        else:
            usage = b"include_usage" in body
            self.play(find(body), framed(USAGE) if usage else b"")

    def plain(self, body: bytes) -> None:
        assert self.transport
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)

    def play(self, script: Script, usage: bytes) -> None:
        assert self.transport
        end = b"" if script.end == "hold" else usage + framed(b"data: [DONE]\n\n") + LAST
        if not script.gap:
            self.transport.write(HEAD + whole(script) + end)
            return
        parts = parts_of(script)
        loop = asyncio.get_running_loop()
        started, gap = loop.time(), script.gap / 1000
        at = 0

        def go_on() -> None:
            nonlocal at
            if self.transport is None:
                return
            at += 1
            if at < len(parts):
                self.transport.write(parts[at])
                self.timer = loop.call_at(started + (at + 1) * gap, go_on)
            else:
                self.transport.write(end)

        self.transport.write(HEAD + parts[0])
        self.timer = loop.call_at(started + gap, go_on)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Play, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
