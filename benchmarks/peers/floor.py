"""The floor for a server in Python that stores every word before it shows it: reads, decodes, stores in
SQLite, encodes and writes, and nothing else. No retries, no clocks, no readers who come back, no checks.

    python benchmarks/peers/floor.py PORT PROVIDER_PORT

It is no server that anybody could use: it believes whatever it is sent.
"""

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BEFORE = (
    b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
)
AFTER = b',"logprobs":null,"finish_reason":null}]}\n\n'
INSERT = "INSERT INTO item(stream, seq, sum, data) VALUES(?, ?, 0, ?)"


class Delta(msgspec.Struct):
    content: str | None = None


class Choice(msgspec.Struct):
    delta: Delta


class Chunk(msgspec.Struct):
    choices: list[Choice]


class Stored(msgspec.Struct):
    at: float
    text: str


decode = msgspec.json.Decoder(Chunk).decode
encode = msgspec.json.Encoder().encode


def opened(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(
        "CREATE TABLE item(stream INTEGER NOT NULL, seq INTEGER NOT NULL, sum INTEGER NOT NULL, "
        "data BLOB NOT NULL, PRIMARY KEY(stream, seq)) WITHOUT ROWID"
    )
    return connection


class Asked(asyncio.Protocol):
    """The provider's end of one stream."""

    def __init__(self, request: bytes, client: asyncio.Transport, number: int, store: Callable[..., object]):
        self.request, self.client, self.number, self.store = request, client, number, store
        self.kept = b""
        self.seq = 0
        self.begun = False
        self.now = asyncio.get_running_loop().time

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        data = self.kept + data
        if not self.begun:
            self.begun = True
            data = data.partition(b"\r\n\r\n")[2]
            self.client.write(HEAD)
        while data:
            size, line_end, rest = data.partition(b"\r\n")
            length = int(size, 16) if line_end else 0
            if not line_end or len(rest) < length + 2:
                break
            if not length or rest[6:12] == b"[DONE]":
                self.client.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
                self.transport.close()
                return
            self.take(rest[6 : length - 2])
            data = rest[length + 2 :]
        self.kept = data

    def take(self, frame: bytes) -> None:
        choices = decode(frame).choices
        text = choices[0].delta.content if choices else None
        if text:
            self.seq += 1
            self.store(INSERT, (self.number, self.seq, encode(Stored(self.now(), text))))
            body = BEFORE + b'{"content":' + encode(text) + b"}" + AFTER
            self.client.write(b"%x\r\n%b\r\n" % (len(body), body))


class Client(asyncio.Protocol):
    """One request on a connection."""

    numbers = 0

    def __init__(self, provider: int, store: Callable[..., object]) -> None:
        self.provider, self.store = provider, store
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, _, body = self.received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if not body or len(body) < length:
            return
        Client.numbers += 1
        request = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (length, body)
        asked = Asked(request, self.transport, Client.numbers, self.store)
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(loop.create_connection(lambda: asked, "127.0.0.1", self.provider))


async def main() -> None:
    port, provider = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="floor-", dir=".") as folder:
        store = opened(Path(folder)).execute
        server = await asyncio.get_running_loop().create_server(
            lambda: Client(provider, store), "127.0.0.1", port, backlog=4096
        )
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
