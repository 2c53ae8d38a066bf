"""MCP servers for tests: the lab's double inside of this process, by virtual time, and as a real program."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from turnbuckle.lab import mcp_server
from turnbuckle.lab.mcp_server import END, McpDouble
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.tools.mcp.listing import ListedTool
from turnbuckle.tools.mcp.messages import LineSplitter, Unreadable
from turnbuckle.tools.mcp.server import McpServer
from turnbuckle.tools.mcp.session import McpSession
from turnbuckle.tools.spec import ToolContext
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.tooling import ToolOutcome

T = TypeVar("T")

PROGRAM = (sys.executable, "-I", "-S", str(Path(mcp_server.__file__)))


class DoubleLink:
    """A server in this process. It has no other way to end than to be closed or to die."""

    def __init__(self, session: McpSession, double: McpDouble) -> None:
        self.double = double
        self.closed = 0
        self.takes_nothing = False
        self._session = session
        self._lines = LineSplitter()
        self._given = 0
        self._playing: set[asyncio.Task[None]] = set()

    @property
    def unsent(self) -> int:
        return 0

    def send(self, message: bytes) -> int:
        self._given += 1
        if not self.takes_nothing:
            task = asyncio.ensure_future(self._play(message))
            self._playing.add(task)
            task.add_done_callback(self._playing.discard)
        return self._given

    def has_sent(self, mark: int) -> bool:
        return not self.takes_nothing

    def drop(self, mark: int) -> None:
        return

    async def close(self) -> str:
        self.closed += 1
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)
        return "closed"

    async def _play(self, message: bytes) -> None:
        for said in self.double.take(message):
            if self._session.over.is_set():
                return
            if said == END:
                self._session.end("it ended with exit code 3")
                return
            try:
                for line in self._lines.add(said):
                    self._session.heard(line)
            except Unreadable as error:
                self._session.end(str(error))
            await asyncio.sleep(0)


class Bench:
    """One server, its lives, and a way to call its tools."""

    def __init__(self, folder: Path, clock: Clock, start: str = "well", **given: Any) -> None:
        self.clock = clock
        self.starts = [start]
        self.links: list[DoubleLink] = []
        self.refuses = ""
        self.extra: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.server = McpServer("notes", self._connect, clock, **given)
        self.context = ToolContext(
            workspace=folder / "workspace",
            data=folder / "data",
            clock=clock,
            run="run",
            key="run:call",
            publish=self.said.append,
            environment={},
        )

    async def _connect(self, session: McpSession) -> None:
        if self.refuses:
            raise OSError(self.refuses)
        start = self.starts[min(len(self.links), len(self.starts) - 1)]
        double = McpDouble(start, len(self.links))
        double.extra = self.extra
        link = DoubleLink(session, double)
        self.links.append(link)
        session.link = link

    @property
    def calls(self) -> list[str]:
        """What was carried out, over all lives."""
        return [call for link in self.links for call in link.double.calls]

    async def tool(self, name: str) -> ListedTool:
        return next(tool for tool in await self.server.tools() if tool.name == name)

    async def call(self, name: str, text: str = "hello") -> ToolOutcome:
        return await self.server.call(await self.tool(name), {"text": text}, self.context)

    def in_folder(self, folder: Path) -> None:
        self.context = replace(self.context, data=folder)


def played(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run this by virtual time."""
    clock = VirtualClock()
    return clock.run(lambda: main(clock), quiet=0.0)
