"""The tools as the driver sees them: `tools/` behind the driver's own port."""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Awaitable, Callable
from typing import cast

from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.ports import Publish, Seen
from turnbuckle.tools.atomic import change_made
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.mcp.servers import McpServers
from turnbuckle.tools.spec import Denied, RunnableCall, ToolContext, ToolError
from turnbuckle.tools.threads import in_thread
from turnbuckle.turn.policy import ToolFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.request import ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome, not_started


class Toolbox:
    """The tools of one run. `decide` says no by a rule or a person; it is asked once, before anything is
    started."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        context: ToolContext | Callable[[], ToolContext],
        decide: Callable[[RunnableCall], Awaitable[Denied | None]] | None = None,
        servers: McpServers | None = None,
        place: Callable[[ToolContext], Awaitable[ToolContext]] | None = None,
    ) -> None:
        """`place` puts the context where the tools are to work. It is asked before the first of them, and may
        raise ToolError."""
        self._place = place
        self._dispatcher = dispatcher
        self._given = context
        self._decide = decide
        self._servers = servers

    @functools.cached_property
    def _context(self) -> ToolContext:
        """Made when a tool is called: most runs of a relay call none."""
        return self._given() if callable(self._given) else self._given

    async def ready(self) -> None:
        if self._servers is not None:
            registry = await self._servers.registry(self._dispatcher.registry)
            self._dispatcher, self._servers = Dispatcher(registry), None

    async def _placed(self) -> ToolContext:
        if self._place is not None:
            self._context, self._place = await self._place(self._context), None
        return self._context

    async def _ready_for(self, name: str) -> None:
        if self._servers is not None and name.startswith(self._servers.prefixes):
            await self.ready()

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._dispatcher.registry.specs

    async def refuse(self, call: SoundCall) -> ToolOutcome | None:
        await self._ready_for(call.name)
        faults = self._dispatcher.faults(call)
        if faults is not None:
            return not_started(faults)
        denied = None if self._decide is None else await self._decide(call)
        return None if denied is None else ToolOutcome("denied", denied.why)

    async def run(
        self, call: SoundCall, key: str, publish: Publish, stop: StopSignal, seen: Seen = None
    ) -> ToolOutcome:
        # A stopper is asked and waited for, never set, so any object with these two verbs is as good as an
        # event.
        signal = cast(asyncio.Event, stop)
        try:
            placed = await self._placed()
        except ToolError as error:
            return not_started(str(error))
        context = dataclasses.replace(placed, key=key, publish=publish, stop=signal, seen=seen)
        return await self._dispatcher.run(call, context)

    async def preview(self, call: SoundCall) -> tuple[FileChange, ...]:
        with contextlib.suppress(ToolError):  # the call itself will say so
            change = await self._dispatcher.preview(call, await self._placed())
            return () if change is None else (change,)
        return ()

    async def changes(self, key: str) -> tuple[FileChange, ...]:
        try:
            mine = dataclasses.replace(await self._placed(), key=key)
        except ToolError:  # nothing can be found out there
            return ()
        change = await in_thread(lambda: change_made(mine))
        return () if change is None else (change,)

    async def probe(self, call: SoundCall, key: str) -> str:
        """A tool that has a probe is asked, also if it might run again: what is done already need not be done
        twice, and what somebody changed since must not be undone."""
        await self._ready_for(call.name)
        tool = self._dispatcher.registry.get(call.name)
        if tool is None:
            return "unknown"
        if tool.probe is None:
            return "unknown" if tool.effect == "write" else "again"
        try:
            context = dataclasses.replace(await self._placed(), key=key)
        except ToolError:
            return "unknown"
        return await self._dispatcher.probe(call, context)


def facts_of(dispatcher: Dispatcher) -> dict[str, ToolFacts]:
    """What the turn must know of the tools."""
    registry = dispatcher.registry
    tools = {name: registry.get(name) for name in registry.names}
    return {
        name: ToolFacts(
            tool.effect,
            tool.draftable or "",
            tuple(sorted(tool.guarded)),
            subject=tool.subject,
            is_command=tool.is_command,
            widens=tool.widens,
            asks=tool.asks,
        )
        for name, tool in tools.items()
        if tool is not None
    }
