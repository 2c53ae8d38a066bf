"""MCP servers that are reached by HTTP: documents and streams, lost connections, refusals, forgotten sessions."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.processes.reserved_port import reserved_port
from support.tools.toolbox import Toolbox

from turnbuckle.call.clock import SystemClock
from turnbuckle.lab.mcp_server import END, McpDouble
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.toolbox import Toolbox as RunTools
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.mcp.servers import McpPlace, McpServers
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.sandbox.port import NoSandbox
from turnbuckle.vocab.tooling import ToolOutcome

pytestmark = pytest.mark.requirement("M1", "M2")

Run = Callable[..., Awaitable[ToolOutcome]]


@dataclass
class HttpDouble:
    """The lab's double behind HTTP. `streams`: its answers are streams of events."""

    streams: bool = False
    forgets: bool = False
    redirects: str = ""
    status: int = 0
    leave_to: str = ""
    session: str = "s1"
    refuses: str = ""
    lingers: bool = False
    left: asyncio.Event = field(default_factory=asyncio.Event)
    double: McpDouble = field(default_factory=McpDouble)
    headers: list[dict[str, str]] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        self.methods.append(request.method)
        if request.method == "DELETE" and self.leave_to:
            return web.Response(status=307, headers={"location": self.leave_to})
        if request.method == "DELETE":
            return web.Response(status=200)
        line = await request.read()
        if self.redirects:
            return web.Response(status=307, headers={"location": self.redirects})
        is_call = b"tools/call" in line
        if self.forgets and is_call:
            self.forgets = False
            return web.Response(status=404)
        if self.status and is_call:
            return web.Response(status=self.status, text="<html>no</html>")
        if self.refuses and is_call:
            fault = {"jsonrpc": "2.0", "error": {"code": 1, "message": self.refuses}}
            return web.json_response({**fault, "id": json.loads(line)["id"]})
        said = self.double.take(line)
        first = next(said, None)
        if first is None:
            return web.Response(status=202)
        if first == END:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if not self.streams:
            return web.Response(
                body=first, content_type="application/json", headers={"Mcp-Session-Id": self.session}
            )
        answer = web.StreamResponse(
            headers={"content-type": "text/event-stream", "Mcp-Session-Id": self.session}
        )
        await answer.prepare(request)
        await answer.write(b": hello\n\nid: 1\ndata:\n\n")
        for one in chain([first], said):
            if one == END:
                break
            await answer.write(b"event: message\ndata: " + one + b"\n")
        if self.lingers and is_call:
            await self._linger()
        return answer

    async def _linger(self) -> None:
        """Keep a stream open that has said all, until whoever listened goes away."""
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


@asynccontextmanager
async def served(double: HttpDouble):
    app = web.Application()
    app.router.add_route("*", "/mcp", double.handle)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


KEY = "the-key-of-notes"


def asked(folder: Path, double: HttpDouble, use: Callable[[Run], Awaitable[Any]], **settings: Any) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(100), served(double) as url:
            given = {"notes": McpSettings(url=url, **settings)}
            own = {"notes": {"Authorization": f"Bearer {KEY}"}}
            place = McpPlace(folder, {}, own, NoSandbox(), secrets=frozenset({KEY}))
            servers = McpServers(given, place, SystemClock())
            box = Toolbox(folder)
            try:
                box.dispatcher = Dispatcher(await servers.registry(Registry()))
                return await use(box.run)
            finally:
                await servers.close()

    return asyncio.run(main())


@pytest.mark.parametrize("streams", [False, True])
def test_tools_are_listed_and_called_and_the_session_is_ended(tmp_path: Path, streams: bool):
    double = HttpDouble(streams)
    found = asked(tmp_path, double, lambda run: run("mcp__notes__echo", text="hello"))
    assert (found.status, found.text) == ("finished", "hello")
    assert all(one["Authorization"] == "Bearer the-key-of-notes" for one in double.headers)
    assert double.headers[-1]["Mcp-Session-Id"] == "s1"
    assert double.headers[-1]["MCP-Protocol-Version"] == "2025-11-25"
    assert double.methods[-1] == "DELETE"


def test_progress_comes_in_the_stream_of_its_call(tmp_path: Path):
    found = asked(tmp_path, HttpDouble(streams=True), lambda run: run("mcp__notes__progress", text=""))
    assert found.text == "done"


@pytest.mark.parametrize(
    "double, tool, status",
    [
        (HttpDouble(), "die", "unknown"),
        (HttpDouble(streams=True), "half", "unknown"),
        (HttpDouble(status=502), "echo", "unknown"),
        (HttpDouble(status=403), "echo", "failed"),
        (HttpDouble(streams=True), "line", "unknown"),
        (HttpDouble(forgets=True), "echo", "finished"),
    ],
    ids=["closed", "cut", "502", "403", "endless", "forgotten"],
)
def test_a_call_has_the_one_outcome_that_is_true(tmp_path: Path, double: HttpDouble, tool: str, status: str):
    found = asked(tmp_path, double, lambda run: run(f"mcp__notes__{tool}", text="hello"))
    assert found.status == status
    assert double.double.calls.count(tool) <= 1


def test_a_call_that_takes_too_long_is_dropped_and_told_so(tmp_path: Path):
    double = HttpDouble()
    found = asked(tmp_path, double, lambda run: run("mcp__notes__wrong", text=""), call_seconds=0.2)
    assert found.status in ("timed_out", "unknown")


@pytest.mark.requirement("D3", "M2")
def test_after_a_crash_only_what_may_be_repeated_is(tmp_path: Path):
    async def main() -> list[str]:
        async with asyncio.timeout(100), served(HttpDouble()) as url:
            place = McpPlace(tmp_path, {}, {}, NoSandbox())
            servers = McpServers({"notes": McpSettings(url=url)}, place, SystemClock())
            box = Toolbox(tmp_path, ())
            try:
                tools = RunTools(box.dispatcher, box.context, servers=servers)
                names = ("mcp__notes__look", "mcp__notes__set", "mcp__notes__echo", "mcp__notes__gone")
                return [await tools.probe(SoundCall("", name, {"text": ""}), "key") for name in names]
            finally:
                await servers.close()

    assert asyncio.run(main()) == ["again", "again", "unknown", "unknown"]


def test_a_redirect_is_not_followed(tmp_path: Path):
    elsewhere: list[str] = []

    async def main() -> int:
        other = HttpDouble()
        async with served(other) as target:
            double = HttpDouble(redirects=target)
            async with served(double) as url:
                place = McpPlace(tmp_path, {}, {"notes": {"Authorization": "Bearer key"}}, NoSandbox())
                servers = McpServers({"notes": McpSettings(url=url)}, place, SystemClock())
                registry = await servers.registry(Registry())
                await servers.close()
        elsewhere.extend(other.methods)
        return len(registry.names)

    assert asyncio.run(main()) == 0
    assert elsewhere == []


def test_nobody_at_the_address_is_told_as_that(tmp_path: Path):
    async def main() -> str:
        place = McpPlace(tmp_path, {}, {}, NoSandbox())
        with reserved_port() as nobody:
            gone = McpSettings(url=f"http://127.0.0.1:{nobody}/mcp")
            servers = McpServers({"notes": gone}, place, SystemClock())
            (state,) = await servers.states()
            await servers.close()
        return state.why

    assert "no connection" in asyncio.run(main())


@pytest.mark.requirement("R3")
def test_a_farewell_is_not_taken_to_another_address_with_its_keys(tmp_path: Path):
    other = HttpDouble()

    async def main() -> None:
        async with (
            asyncio.timeout(100),
            served(other) as elsewhere,
            served(HttpDouble(leave_to=elsewhere)) as url,
        ):
            own = {"notes": {"X-Api-Key": KEY}}
            servers = McpServers(
                {"notes": McpSettings(url=url)}, McpPlace(tmp_path, {}, own, NoSandbox()), SystemClock()
            )
            await servers.states()
            await servers.close()

    asyncio.run(main())
    assert other.headers == []


def test_a_stream_that_stays_open_behind_its_answer_is_left(tmp_path: Path):
    double = HttpDouble(streams=True, lingers=True)

    async def use(run: Run) -> ToolOutcome:
        found = await run("mcp__notes__echo", text="hello")
        await double.left.wait()
        return found

    assert asked(tmp_path, double, use).text == "hello"


def test_the_name_of_a_session_is_sent_back_whole(tmp_path: Path):
    double = HttpDouble(session="s" * 1000)
    asked(tmp_path, double, lambda run: run("mcp__notes__echo", text="hello"))
    assert double.headers[-1]["Mcp-Session-Id"] == "s" * 1000


@pytest.mark.parametrize("session, key", [("s" * 5000, KEY), ("s1", "two\nlines")], ids=["session", "header"])
def test_what_cannot_be_sent_fails_at_once_and_with_words(tmp_path: Path, session: str, key: str):
    async def main() -> str:
        async with asyncio.timeout(100), served(HttpDouble(session=session)) as url:
            given = {"notes": McpSettings(url=url, start_seconds=1000.0)}
            place = McpPlace(tmp_path, {}, {"notes": {"X-Api-Key": key}}, NoSandbox())
            servers = McpServers(given, place, SystemClock())
            try:
                return (await servers.states())[0].why
            finally:
                await servers.close()

    why = asyncio.run(main())
    assert "cannot be sent back" in why or "header" in why


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("before", [1990, 7990])
def test_a_secret_at_the_place_where_an_error_is_cut_is_not_shown_in_part(tmp_path: Path, before: int):
    double = HttpDouble(refuses="x" * before + KEY)
    found = asked(tmp_path, double, lambda run: run("mcp__notes__echo", text="hello"))
    assert found.status == "failed"
    assert KEY[:6] not in found.text
