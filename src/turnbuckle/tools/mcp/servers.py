"""All MCP servers of a program, and their tools among the others."""

import asyncio
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from turnbuckle.errors import ConfigError
from turnbuckle.tools.mcp.http import HttpLink
from turnbuckle.tools.mcp.listing import MOST_TOOLS, SERVER_NAME, ListedTool, prefix_of
from turnbuckle.tools.mcp.server import Connect, McpServer, ServerState
from turnbuckle.tools.mcp.session import McpSession
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.tools.mcp.stdio import StdioLink, open_at
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.sandbox.port import Sandbox, SandboxJob
from turnbuckle.tools.schema import ForeignShape
from turnbuckle.tools.spec import Tool, ToolContext
from turnbuckle.tools.threads import in_thread
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.redaction import redactor_of
from turnbuckle.vocab.tooling import ToolOutcome

log = logging.getLogger("turnbuckle.mcp")


class McpPlace(Struct, frozen=True):
    """Where servers run. `environment` holds no secrets; `own` holds the variables or the headers of each
    server, looked up."""

    workspace: Path
    environment: Mapping[str, str]
    own: Mapping[str, Mapping[str, str]]
    sandbox: Sandbox
    client: str = ""
    secrets: frozenset[str] = frozenset()
    """What nothing that a server says may show."""


def check_servers(servers: Mapping[str, McpSettings]) -> None:
    """Raises ConfigError."""
    for name, server in servers.items():
        key = f"tools.mcp.{name}"
        if not SERVER_NAME.fullmatch(name):
            raise ConfigError(
                f"{key}: a name has letters, digits, - and single _, at most 24, since tools are called by it"
            )
        if bool(server.command) == bool(server.url):
            raise ConfigError(f"{key}: it needs a command to start, or the url of a server that runs")
        if server.url and not re.match(r"https?://[^/@\s]+(/|$)", server.url):
            raise ConfigError(f"{key}.url: an address such as https://host/mcp is wanted, without a password")
        if server.url and (server.args or server.env or server.cwd or server.network):
            raise ConfigError(f"{key}: args, env, cwd and network are for a server that is started here")
        if server.command and server.headers:
            raise ConfigError(f"{key}: headers are for a server with a url; a started one has env")


class McpServers:
    """Servers in the order of the settings. Nothing is started before somebody wants their tools."""

    def __init__(self, settings: Mapping[str, McpSettings], place: McpPlace, clock: Clock) -> None:
        self._seconds = {name: one.call_seconds for name, one in settings.items()}
        self._made: tuple[tuple[ListedTool, ...], Registry] | None = None
        self.servers = tuple(
            McpServer(
                name,
                _starter(name, one, place, clock),
                clock,
                wanted=one.tools,
                start_seconds=one.start_seconds,
                client=place.client,
                redactor=redactor_of(place.secrets),
            )
            for name, one in settings.items()
        )

    @property
    def prefixes(self) -> tuple[str, ...]:
        """How the names of their tools begin."""
        return tuple(prefix_of(server.name) for server in self.servers)

    async def registry(self, own: Registry) -> Registry:
        """These tools, with those of all servers behind them. It is the same value while they are the
        same."""
        listed = await asyncio.gather(*(server.tools() for server in self.servers))
        found = tuple(tool for tools in listed for tool in tools)[:MOST_TOOLS]
        if self._made is None or self._made[0] != found:
            by_name = dict(zip([server.name for server in self.servers], listed, strict=True))
            tools = [
                made
                for server in self.servers
                for tool in by_name[server.name]
                if tool in found and (made := self._tool(server, tool)) is not None
            ]
            self._made = (found, own.extended(tools))
        return self._made[1]

    async def states(self) -> tuple[ServerState, ...]:
        """Start all that do not run, and tell how each of them is."""
        await asyncio.gather(*(server.tools() for server in self.servers))
        return tuple(server.state for server in self.servers)

    async def close(self) -> None:
        """End them all, side by side."""
        await asyncio.gather(*(server.close() for server in self.servers))

    def _tool(self, server: McpServer, listed: ListedTool) -> Tool | None:
        try:
            shape = ForeignShape(listed.checked, told=listed.told)
        except ValueError as error:
            log.warning("%s is not offered, since its schema is wrong: %s", listed.offered, str(error)[:300])
            return None

        async def call(arguments: dict[str, object], context: ToolContext) -> ToolOutcome:
            return await server.call(listed, arguments, context)

        return Tool(
            listed.offered,
            listed.description,
            shape,
            call,
            blocking=False,
            effect=listed.effect,
            timeout=self._seconds[server.name],
        )


def _starter(name: str, settings: McpSettings, place: McpPlace, clock: Clock) -> Connect:
    async def reach(session: McpSession) -> None:
        session.link = HttpLink(session, settings.url, place.own.get(name, {}))

    if settings.url:
        return reach

    async def connect(session: McpSession) -> None:
        where = os.path.realpath(settings.cwd or place.workspace)
        environment = {**place.environment, "PWD": where}
        job = SandboxJob(
            (settings.command, *settings.args),
            where,
            environment,
            network=settings.network,
            session=f"mcp {name}",
        )
        launch = await in_thread(lambda: place.sandbox.launch(job))
        folder = open_at(where)
        try:
            given = {**launch.environment, **place.own.get(name, {})}
            session.link = StdioLink(session, launch.argv, folder, given, launch.plan, clock)
        finally:
            os.close(folder)

    return connect
