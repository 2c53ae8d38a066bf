"""The whole server on real sockets, in the test's own loop, over a real journal and in front of the lab's provider.

A test is a scenario: a coroutine that gets the server and does to the server what clients do. What the provider says is
a function of its request; it can wait at a `gate` until the scenario opens it.
"""

import asyncio
import hashlib
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec
from support.http.memory_server import Client, Reply
from support.postgres.server import shared_server

from turnbuckle.call.loop import new_loop
from turnbuckle.config import Loaded, load
from turnbuckle.hosting import open_server
from turnbuckle.lab.clock import RealClock
from turnbuckle.lab.provider import Provider, Received
from turnbuckle.lab.script import Case, LabRequest, ScriptItem, Stall
from turnbuckle.server.http.serving import Service, ShutdownSignal, serve
from turnbuckle.server.keys import FILE as KEYS
from turnbuckle.server.keys import KeyFile

PATIENCE = 100.0
"""Far longer than anything here takes, so that what hangs is told as what it is."""
BESIDE = "beside"
"""The folder of the second node, in that of the first."""
_LOOK = 0.005
_LONGEST_LOOK = 0.1
_FIRST_GATE = 1e6  # seconds; no script pauses for so long

SETTINGS = """
{head}
workspace = "{workspace}"
data = "{data}"
files = "data"

[server]
port = 0
hold_status = {hold}
{server}

[recovery]
stream_retries = 1
patience = {patience}

[[routes]]
name = "lab"
protocol = "{protocol}"
base_url = "{url}/v1"
api_key = "any"
model = "m"
stall = {{ gap = {gap}, first_event = {first_event} }}
{route}

[tools]
{tools}

{more}
"""

Model = Callable[[LabRequest], Iterable[ScriptItem]]


class Gates:
    """A clock for the provider: some of its pauses last until the scenario opens a gate, and all others as long as they
    say."""

    def __init__(self) -> None:
        self._gates: dict[float, asyncio.Event] = {}
        self._real = RealClock()

    def open(self, number: int) -> None:
        self._gate(number).set()

    def now(self) -> float:
        return self._real.now()

    async def sleep(self, seconds: float) -> None:
        if _FIRST_GATE <= seconds < math.inf:
            await self._gate(seconds - _FIRST_GATE).wait()
        else:
            await self._real.sleep(seconds)

    def _gate(self, number: float) -> asyncio.Event:
        return self._gates.setdefault(number, asyncio.Event())


class LabProvider(NamedTuple):
    """The provider behind a server, and its gates."""

    lab: Provider
    gates: Gates

    async def asked(self, count: int) -> Received:
        """Wait until it was asked so often, and give the last of these requests."""
        await eventually(lambda: len(self.lab.requests) >= count)
        return self.lab.requests[count - 1]


def gate(number: int) -> Stall:
    """A step of a script: nothing comes until the scenario opens this gate."""
    return Stall(_FIRST_GATE + number)


async def eventually(holds: Callable[[], Any]) -> None:
    """Wait until something holds that nobody announces."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await _idle(_LOOK)


async def asked_until(
    holds: Callable[[Any], Any], ask: Callable[..., Awaitable[Any]], *given: Any, **more: Any
) -> Any:
    """Ask until the answer is as wanted, and give it: soon again at first, and less often what takes long."""
    pause = _LOOK
    async with asyncio.timeout(PATIENCE):
        while not holds(answer := await ask(*given, **more)):
            await _idle(pause)
            pause = min(2 * pause, _LONGEST_LOOK)
    return answer


async def _idle(seconds: float) -> None:
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


@dataclass
class Frame:
    """One event of a stream, as it stood there."""

    raw: bytes
    id: str = ""
    event: str = ""
    data: bytes = b""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.data)


def frames(body: bytes) -> list[Frame]:
    """The whole events of a body, without comments. What is behind the last blank line is no event."""
    made = []
    for raw in body.split(b"\n\n")[:-1]:
        lines = [line.split(b": ", 1) for line in raw.split(b"\n") if not line.startswith(b":")]
        if lines:
            fields = {name.decode(): value for name, value in lines}
            made.append(
                Frame(
                    raw,
                    fields.get("id", b"").decode(),
                    fields.get("event", b"").decode(),
                    fields.get("data", b""),
                )
            )
    return made


def said_in(events: list[Frame]) -> str:
    """All that the model said, from the events of a run."""
    told = [event for frame in events if frame.event == "streamed" for event in frame.json["events"]]
    return "".join(event["text"] for event in told if event["type"] == "text")


class Listener:
    """A client in the middle of a stream."""

    def __init__(self, client: Client, reply: Reply) -> None:
        self.client = client
        self.reply = reply
        self.body = b""

    @property
    def frames(self) -> list[Frame]:
        return frames(self.body)

    @property
    def run(self) -> str:
        return self.reply.headers["x-turnbuckle-run"]

    async def until(self, holds: Callable[[bytes], Any] | bytes) -> "Listener":
        """Read until the body has a text, or is as wanted."""
        wanted = (lambda body: holds in body) if isinstance(holds, bytes) else holds
        async with asyncio.timeout(PATIENCE):
            while not wanted(self.body):
                piece = await self.client.chunk()
                assert piece, f"the stream ended before that: {self.body!r}"
                self.body += piece
        return self

    async def rest(self) -> list[Frame]:
        """Read to the proper end. Raises IncompleteReadError if there is none."""
        async with asyncio.timeout(PATIENCE):
            while piece := await self.client.chunk():
                self.body += piece
        return self.frames

    def leave(self) -> None:
        """Hang up."""
        self.client.writer.transport.abort()


@dataclass
class ApiClient:
    """Where a server is, and how it is asked. `key` is shown with every request if there is one. With other nodes beside
    it, each request goes to the next of them."""

    port: int
    key: str = ""
    others: tuple[int, ...] = field(default=(), kw_only=True)
    asked: int = field(default=0, kw_only=True)

    def ports(self) -> tuple[int, ...]:
        """All that may be asked."""
        return (self.port, *self.others)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        ports = self.ports()
        port = ports[self.asked % len(ports)]
        self.asked += 1
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        try:
            yield Client(reader, writer, port)
        finally:
            writer.transport.abort()

    async def ask(self, method: str, path: str, json: Any = None, **headers: str) -> Reply:
        """One request with a plain answer."""
        async with asyncio.timeout(PATIENCE), self.client() as client:
            return await client.ask(method, path, body=encoded(json), headers=self._headers(headers))

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, json: Any = None, **headers: str) -> Reply:
        return await self.ask("POST", path, {} if json is None else json, **headers)

    @asynccontextmanager
    async def listen(self, path: str, json: Any = None, **headers: str) -> AsyncIterator[Listener]:
        """A stream, to be read piece by piece."""
        async with self.client() as client:
            method = "GET" if json is None else "POST"
            async with asyncio.timeout(PATIENCE):
                reply = await client.ask(method, path, body=encoded(json), headers=self._headers(headers))
            assert reply.status == 200, (reply.status, reply.body)
            yield Listener(client, reply)

    async def read(self, path: str, json: Any = None, **headers: str) -> list[Frame]:
        """A stream to its proper end."""
        async with self.listen(path, json, **headers) as listener:
            return await listener.rest()

    async def begin(self, text: str = "go", **more: Any) -> str:
        """Begin a run that nobody reads, and give its id."""
        headers = more.pop("headers", {})
        reply = await self.post("/v1/runs", {"input": text, **more}, **headers)
        assert reply.status == 202, reply.body
        return reply.json["id"]

    async def run(self, run: str) -> dict[str, Any]:
        """A run as it stands."""
        return (await self.get(f"/v1/runs/{run}")).json

    async def events(self, run: str, after: int = 0) -> list[Frame]:
        """All events of a run behind one of them, to its end."""
        return await self.read(f"/v1/runs/{run}/events?after={after}")

    async def ended(self, run: str) -> dict[str, Any]:
        """Wait for a run's end, and give it as it stands then."""
        await self.events(run)
        return await self.run(run)

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return {**({"authorization": f"Bearer {self.key}"} if self.key else {}), **named}


@dataclass
class LiveServer(ApiClient):
    """The server, what is behind it and what it works on."""

    behind: LabProvider = field(kw_only=True)
    folder: Path = field(kw_only=True)
    service: Service = field(kw_only=True)

    @property
    def lab(self) -> Provider:
        return self.behind.lab

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def owner(self, name: str) -> "KeyedClient":
        """The same server for somebody with a key of their own."""
        key, token = KeyFile(self.folder / "data").create(name, name, 0.0)
        client = KeyedClient(self.port, token, key.id, self.folder, others=self.others)
        client.tell_other_node()
        return client


@dataclass
class KeyedClient(ApiClient):
    """Somebody with a key."""

    id: str = ""
    folder: Path = Path()

    def revoke(self) -> None:
        KeyFile(self.folder / "data").revoke(self.id, 0.0)
        self.tell_other_node()

    def tell_other_node(self) -> None:
        """The node beside has the same keys."""
        if self.others:
            keys = (self.folder / "data" / KEYS).read_bytes()
            new = self.folder / BESIDE / "data" / f"{KEYS}.new"
            new.write_bytes(keys)
            new.replace(new.with_name(KEYS))


def place_in(folder: Path) -> str:
    """Where the journal of a folder's server is: in the folder, or with TURNBUCKLE_TEST_STORE in a database."""
    if os.environ.get("TURNBUCKLE_TEST_STORE") not in ("postgres", "nodes"):
        return "data"
    return shared_server().url(_schema_of(folder))


def _schema_of(folder: Path) -> str:
    return f"test_{hashlib.sha256(str(folder).encode()).hexdigest()[:24]}"


def settings_text(
    url: str,
    *,
    head: str = "",
    data: str = "data",
    workspace: str = "work",
    server: str = "",
    tools: str = "",
    more: str = "",
    protocol: str = "openai_chat",
    route: str = "",
    gap: float = 60,
    first_event: float = 60,
    hold: float = 0,
    patience: float = 0,
) -> str:
    """The settings of a server in front of a provider."""
    return SETTINGS.format(
        url=url,
        head=head,
        data=data,
        workspace=workspace,
        server=server,
        tools=tools,
        more=more.replace("URL", url),
        protocol=protocol,
        route=route,
        gap=gap,
        first_event=first_event,
        hold=hold,
        patience=patience,
    )


@asynccontextmanager
async def lab_provider(model: Model) -> AsyncIterator["LabProvider"]:
    """A provider that says what the model says."""
    gates = Gates()
    async with Provider(Case("live", "what the scenario wants", ((model,),)), clock=gates) as lab:
        yield LabProvider(lab, gates)


@asynccontextmanager
async def serve_live(folder: Path, behind: LabProvider, **settings: Any) -> AsyncIterator[LiveServer]:
    """A server over a folder, until the block ends. With TURNBUCKLE_TEST_STORE=nodes it is two on one database, which
    are asked in turns."""
    if os.environ.get("TURNBUCKLE_TEST_STORE") == "nodes":
        async with two_nodes(folder, behind, **settings) as (one, other):
            both = one.service, other.service
            counts = (
                ServerCounts([each.heartbeat for each in both]),
                ServerCounts([each.slots for each in both]),
            )
            one.others = (other.port,)

            async def leave(patience: float) -> None:
                await asyncio.gather(*(each.leave(patience) for each in both))

            apart = SimpleNamespace(heartbeat=counts[0], slots=counts[1], leave=leave, app=one.service.app)
            one.service = cast(Service, apart)
            yield one
    else:
        async with serve_one(folder, behind, **settings) as live:
            yield live


class ServerCounts:
    """What several servers count, together."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def dropped(self) -> int:
        return sum(part.dropped for part in self._parts)

    def interrupt_all(self) -> None:
        for part in self._parts:
            part.interrupt_all()


@asynccontextmanager
async def two_nodes(
    folder: Path, behind: LabProvider, **settings: Any
) -> AsyncIterator[tuple[LiveServer, LiveServer]]:
    """Two servers on one database, with one workspace."""
    (folder / "work").mkdir(exist_ok=True)
    beside = folder / BESIDE
    beside.mkdir(exist_ok=True)
    settings["workspace"] = str(folder / "work")
    place = settings.pop("place", "") or shared_server().url(_schema_of(folder))
    async with (
        serve_one(folder, behind, place=place, **settings) as one,
        serve_one(beside, behind, place=place, **settings) as other,
    ):
        yield one, other


@asynccontextmanager
async def serve_one(folder: Path, behind: LabProvider, **settings: Any) -> AsyncIterator[LiveServer]:
    """One server over a folder."""
    (folder / "work").mkdir(exist_ok=True)
    file = folder / "turnbuckle.toml"
    place = settings.pop("place", "") or place_in(folder)
    file.write_text(settings_text(settings.pop("url", behind.lab.url), data=place, **settings))
    stopper = ShutdownSignal(lambda: None)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def read() -> Loaded:
        return load(file, environment={})

    async with open_server(read(), {}, again=read) as service:
        serving = asyncio.create_task(serve(service, stopper, address.set_result, signals=False))
        waits: set[asyncio.Future[Any]] = {serving, address}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
        try:
            yield LiveServer(
                int(address.result().rpartition(":")[2]), behind=behind, folder=folder, service=service
            )
        finally:
            stopper.ask()
            await serving


def run_scenario(
    scenario: Callable[[LiveServer], Awaitable[Any]], folder: Path, model: Model, **settings: Any
) -> Any:
    """Run a scenario with a server of its own, and give what it gives."""
    settings.setdefault("server", "drain = 0")

    async def main() -> Any:
        async with lab_provider(model) as behind, serve_live(folder, behind, **settings) as live:
            return await scenario(live)

    return run(main())


def run(main: Any) -> Any:
    """On the loop that the real server has."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def encoded(value: Any) -> bytes | None:
    """A value as the body of a request."""
    return None if value is None else msgspec.json.encode(value)
