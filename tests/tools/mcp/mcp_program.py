"""A program with an MCP server, to be killed: it says when a call is under way, and waits."""

import asyncio
import os
import sys
from pathlib import Path

from turnbuckle.call.clock import SystemClock
from turnbuckle.tools.mcp.servers import McpPlace, McpServers
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.sandbox.port import NoSandbox


async def main() -> None:
    folder, *words = sys.argv[1:]
    place = McpPlace(Path(folder), dict(os.environ), {}, NoSandbox())
    servers = McpServers({"notes": McpSettings(words[0], tuple(words[1:]))}, place, SystemClock())
    registry = await servers.registry(Registry())
    print(len(registry.names), flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
