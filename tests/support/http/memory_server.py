"""A server of real sockets over a journal in memory, with a plain dialect, and a client that sees every byte.

Everything lives in one event loop. In a virtual clock's loop the hours of a silent stream take a moment.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade, Item
from turnbuckle.server.api.health import Readiness, health_endpoints
from turnbuckle.server.api.models_list import model_endpoints
from turnbuckle.server.http.asgi import Served, Server
from turnbuckle.server.http.auth import Auth
from turnbuckle.server.http.endpoints import Endpoint, with_document
from turnbuckle.server.http.exchange import Answer, Exchange, Streaming, json_answer
from turnbuckle.server.http.openapi import Given, Operation, Parameter
from turnbuckle.server.http.origins import Origins
from turnbuckle.server.http.serving import Service, ShutdownSignal, serve
from turnbuckle.server.keys import KeyFile
from turnbuckle.server.settings import ServerSettings
from turnbuckle.server.streaming.disconnect import DisconnectPolicy
from turnbuckle.server.streaming.heartbeat import Heartbeat
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.service.catalog import Catalog
from turnbuckle.service.limits import Rates, Slots
from turnbuckle.vocab.ids import RouteName, RunId

RUN = RunId("r1")
END = b"END"
CATALOG = Catalog([(RouteName("main"), "m", "openai_chat"), (RouteName("meta/llama"), "n", "openai_chat")])
NOWHERE = Path("/nonexistent")


async def _numbers() -> bytes:
    return b"turnbuckle_up 1\n"


class Lines:
    """A dialect: each item is one frame, and the item END is the last one. Some items say nothing."""

    def __init__(self) -> None:
        self.ended = False

    def open(self) -> bytes:
        return b"data: open\n\n"

    def take(self, items: Sequence[Item]) -> bytes:
        frames = []
        for item in items:
            if item.data == END:
                self.ended = True
                frames.append(b"data: [DONE]\n\n")
            elif item.data != b"silent":
                frames.append(b"data: " + item.data + b"\n\n")
        return b"".join(frames)

    def beat(self, now: float, waits: object = None) -> bytes:
        return b"data: beat\n\n"

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        return b"data: interrupted\n\n"


class Quiet(Lines):
    """A dialect without frames that say nothing."""

    asked = 0

    def beat(self, now: float, waits: object = None) -> bytes:
        self.asked += 1
        return b""


class Broken(Lines):
    """A dialect that fails in the middle."""

    def take(self, items: Sequence[Item]) -> bytes:
        raise RuntimeError("a secret of the dialect")


class Asked(msgspec.Struct, frozen=True):
    """The body of the sample endpoint."""

    text: str
    number: int = 0


@dataclass
class MemoryServer:
    """A running server and what is behind it."""

    journal: MemoryJournal
    stopper: ShutdownSignal
    pulse: Heartbeat
    attendance: DisconnectPolicy
    slots: Slots
    port: int = 0
    stopped: list[tuple[str, str]] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    claims: dict[str, tuple[Claim, int]] = field(default_factory=dict)
    serving: "asyncio.Task[None] | None" = None
    asked: bool = False

    def stop(self) -> None:
        """What a signal does."""
        self.asked = True
        self.stopper.ask()

    async def say(self, *items: bytes, run: str = RUN) -> None:
        """Append to a run's journal."""
        if run not in self.claims:
            claim = await self.journal.claim(run, "test", 1e9)
            assert isinstance(claim, Claim)
            self.claims[run] = (claim, claim.head)
        claim, head = self.claims[run]
        head = await self.journal.append(run, items, after=head, epoch=claim.epoch, grade=Grade.FLUSHED)
        self.claims[run] = (claim, head)

    @asynccontextmanager
    async def client(self) -> AsyncIterator["Client"]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer, self.port)
        finally:
            writer.close()

    async def ask(
        self, method: str, path: str, *, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> "Reply":
        """One request on a connection of its own, with a whole answer."""
        async with self.client() as client:
            return await client.ask(method, path, body=body, headers=headers)


class Reply(msgspec.Struct, frozen=True):
    """The head of an answer, and its body if that is plain."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> dict:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> dict:
        return self.json["error"]

    @property
    def code(self) -> str:
        """What went wrong, for programs, in the shape of either protocol."""
        return self.error["details"]["error_code"] if "details" in self.error else self.error["code"]


class Client:
    """One connection, with HTTP/1.1 written by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader = reader
        self.writer = writer
        self._port = port

    async def ask(
        self, method: str, path: str, *, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send a request and read its answer; of a stream only the head."""
        await self.send(method, path, body=body, headers=headers)
        return await self.reply(with_body=method != "HEAD")

    async def send(
        self, method: str, path: str, *, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> None:
        sent = {"host": f"127.0.0.1:{self._port}", **(headers or {})}
        if body is not None:
            sent = {"content-type": "application/json", "content-length": str(len(body)), **sent}
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value is not None)
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b""))
        await self.writer.drain()

    async def reply(self, *, with_body: bool = True) -> Reply:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            headers[name] = value
        size = int(headers.get("content-length", "0")) if with_body else 0
        return Reply(int(first.split(" ")[1]), headers, await self.reader.readexactly(size))

    async def stream(self, path: str, *, headers: dict[str, str] | None = None) -> Reply:
        """Begin to read a run."""
        return await self.ask("GET", path, headers=headers)

    async def chunk(self) -> bytes:
        """One piece of a chunked body as it was sent; empty at its proper end."""
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """All pieces to the proper end. Raises IncompleteReadError if there is none."""
        pieces = []
        while piece := await self.chunk():
            pieces.append(piece)
        return b"".join(pieces)

    async def until(self, text: bytes) -> bytes:
        """Pieces until one holds a text."""
        seen = b""
        while text not in seen:
            piece = await self.chunk()
            assert piece, f"the stream ended without {text!r}: {seen!r}"
            seen += piece
        return seen


def sample_endpoints(
    tailing: Callable[[], RunStreamer], dialect: Callable[[], Lines]
) -> tuple[Endpoint, ...]:
    """Endpoints that do in small what the real ones do."""

    async def read(exchange: Exchange) -> Streaming:
        policy = exchange.headers.get("x-turnbuckle-on-disconnect", "detach")
        run, after = RunId(exchange.params["run"]), exchange.query.integer("after", 0)
        return Streaming(run, dialect(), after, (("x-turnbuckle-run", run),), policy)

    async def whole(exchange: Exchange) -> Answer:
        fold = Fold()
        policy = exchange.headers.get("x-turnbuckle-on-disconnect", "detach")
        await tailing().collect(RunId(exchange.params["run"]), fold, exchange.line, on_disconnect=policy)
        return json_answer({"items": fold.items})

    async def echo(exchange: Exchange) -> Answer:
        asked = await exchange.read(Asked)
        return json_answer({"text": asked.text, "number": asked.number, "owner": exchange.caller.owner})

    async def fail(exchange: Exchange) -> Answer:
        raise RuntimeError("a secret of the handler")

    name = Parameter("run", "The run.", "path")
    events = {200: (Given("Events.", None, "text/event-stream"),)}
    return (
        Endpoint(
            "GET", "/runs/{run}/events", read, Operation("read", "Read", "sample", (name,), answers=events)
        ),
        Endpoint("GET", "/runs/{run}/whole", whole, Operation("whole", "Whole", "sample", (name,))),
        Endpoint("POST", "/echo", echo, Operation("echo", "Echo", "sample", body=Asked)),
        Endpoint("GET", "/fail", fail, Operation("fail", "Fail", "sample")),
    )


class Fold:
    """All items of a run, for a plain answer."""

    def __init__(self) -> None:
        self.ended = False
        self.items: list[str] = []

    def take(self, items: Sequence[Item]) -> None:
        self.items += [item.data.decode() for item in items if item.data != END]
        self.ended = self.ended or items[-1].data == END


Leave = Callable[[MemoryServer, float], Awaitable[object]]


def memory_service(
    settings: ServerSettings = ServerSettings(port=0),
    *,
    keys: Sequence[str] = (),
    folder: Path = NOWHERE,
    dialect: Callable[[], Lines] = Lines,
    endpoints: Iterable[Endpoint] = (),
    journal: MemoryJournal | None = None,
    leave: Leave | None = None,
    at_once: Callable[[], None] = lambda: None,
) -> tuple[Service, MemoryServer]:
    """All parts of a server, put together."""
    auth = Auth(keys, KeyFile(folder), settings.host)
    pulse = Heartbeat(keepalive=settings.keepalive, noop=settings.noop, wall=lambda: 0.0)
    stopped: list[tuple[str, str]] = []
    attendance = DisconnectPolicy(lambda run, why: stopped.append((run, why)))
    made = MemoryServer(
        journal or MemoryJournal(),
        ShutdownSignal(at_once),
        pulse,
        attendance,
        Slots(settings.max_runs, settings.max_runs_per_owner),
        stopped=stopped,
    )
    tailing = RunStreamer(made.journal, pulse, attendance)
    readiness = Readiness(made.journal, lambda: made.slots.closing)
    rows = (
        *sample_endpoints(lambda: tailing, dialect),
        *health_endpoints(readiness, _numbers),
        *model_endpoints(CATALOG, 1_700_000_000),
        *endpoints,
    )
    app = Server(
        with_document(rows, "1"),
        auth=auth,
        origins=Origins(settings.origins, settings.host, needs_key=auth.needs_key),
        rates=Rates(settings.requests_per_minute, asyncio.get_running_loop().time),
        streamer=tailing,
        max_body=settings.max_body,
        seen=made.served.append,
    )

    async def let_go(seconds: float) -> None:
        made.left.append(seconds)
        if leave is not None:
            await leave(made, seconds)

    limits = (settings.host, settings.port, settings.send_timeout, settings.max_connections, settings.drain)
    return Service(app, pulse, made.slots, *limits, let_go), made


@asynccontextmanager
async def memory_server(
    settings: ServerSettings = ServerSettings(port=0), **parts: Any
) -> AsyncIterator[MemoryServer]:
    """A server that listens on a port of its own until the block ends."""
    service, made = memory_service(settings, **parts)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(service, made.stopper, address.set_result, signals=False))
    waits: set[asyncio.Future[Any]] = {serving, address}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    made.port = int(address.result().rpartition(":")[2])
    made.serving = serving
    try:
        yield made
    finally:
        if not made.asked:
            made.stop()
        await serving


async def settled(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    while not holds():
        await asyncio.sleep(0)
