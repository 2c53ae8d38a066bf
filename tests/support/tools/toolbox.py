"""What the tests of tools share: a workspace on disk, and a way to make calls."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnbuckle.lab.clock import RealClock
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import Tool, ToolContext
from turnbuckle.vocab.tooling import ToolOutcome


class Toolbox:
    """A workspace and a data folder, with tools that work there."""

    def __init__(self, folder: Path, tools: Iterable[Tool] = BUILT_IN, **settings: Any) -> None:
        self.workspace = folder / "workspace"
        self.data = folder / "data"
        self.workspace.mkdir()
        self.data.mkdir()
        self.heard: list[str] = []
        self.dispatcher = Dispatcher(Registry(tools))
        given = {
            "clock": RealClock(),
            "run": "run",
            "publish": self.heard.append,
            "environment": {"PATH": "/usr/bin:/bin"},
        }
        self.context = ToolContext(workspace=self.workspace, data=self.data, **{**given, **settings})
        self.calls = 0

    def call(self, name: str, /, **arguments: Any) -> SoundCall:
        self.calls += 1
        return SoundCall(f"call_{self.calls}", name, arguments)

    async def run(self, name: str, /, **arguments: Any) -> ToolOutcome:
        return await self.dispatcher.run(self.call(name, **arguments), self.context)

    def do(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """Run one call to its end, outside any event loop."""
        return asyncio.run(self.run(name, **arguments))

    def with_settings(self, **settings: Any) -> "Toolbox":
        self.context = replace(self.context, **settings)
        return self
