"""Named points at which a process kills itself, for tests of what a crash leaves behind.

The environment variable TURNBUCKLE_FAULT names one: `after-append:ToolStarted:1` dies right behind the first
append that holds a ToolStarted. Points are `before-append` and `after-append` with the name of a fact, and
`before-tool`, `in-tool` (at its first output) and `after-tool` with the name of a tool; the number counts
from 1. Without the variable nothing here is part of a run.
"""

import os
import signal
from collections.abc import Sequence
from typing import NoReturn

from msgspec import DecodeError, Struct

from turnbuckle.errors import ConfigError
from turnbuckle.journal.port import Changes, Grade, IndexUpdate, Journal
from turnbuckle.journal.wrapped import WrappedJournal
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.ports import Publish, Seen, Tools
from turnbuckle.turn.facts import decode
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.request import ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome

VARIABLE = "TURNBUCKLE_FAULT"
APPEND_POINTS = ("before-append", "after-append")
TOOL_POINTS = ("before-tool", "in-tool", "after-tool")


class Fault(Struct):
    """One point, and how often it is still to be passed before it strikes."""

    point: str
    name: str
    left: int

    def reached(self, point: str, *names: str) -> None:
        """The process is at this point of all these now."""
        if point == self.point and self.name in names:
            self.left -= 1
            if not self.left:
                _die()


def read_fault(text: str) -> Fault:
    """A point from its text. Raises ConfigError."""
    point, _, rest = text.partition(":")
    name, _, number = rest.partition(":")
    if point not in APPEND_POINTS + TOOL_POINTS or not name or not (number or "1").isdigit():
        raise ConfigError(f"{VARIABLE}={text}: it must be like after-append:ToolStarted:1")
    return Fault(point, name, int(number or "1"))


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit("killed")


class FaultyJournal(WrappedJournal):
    """A journal whose process dies around an append."""

    def __init__(self, journal: Journal, fault: Fault) -> None:
        super().__init__(journal)
        self._fault = fault

    async def append(
        self,
        stream: str,
        items: Sequence[bytes],
        *,
        after: int,
        epoch: int,
        grade: Grade,
        note: IndexUpdate | None = None,
    ) -> int:
        names = {_name(stream, item) for item in items}
        self._fault.reached("before-append", *names)
        head = await self._journal.append(stream, items, after=after, epoch=epoch, grade=grade, note=note)
        self._fault.reached("after-append", *names)
        return head

    async def change_all(self, changes: Changes) -> bool:
        names = {_name(append.stream, item) for append in changes.appends for item in append.items}
        self._fault.reached("before-append", *names)
        changed = await self._journal.change_all(changes)
        if changed:
            self._fault.reached("after-append", *names)
        return changed


def _name(stream: str, item: bytes) -> str:
    """The name of a fact; of anything else, the beginning of its stream's name."""
    try:
        return type(decode(item)).__name__
    except DecodeError:
        return stream.partition(":")[0]


class FaultyTools:
    """Tools whose process dies around or inside a call."""

    def __init__(self, tools: Tools, fault: Fault) -> None:
        self._tools = tools
        self._fault = fault

    async def ready(self) -> None:
        await self._tools.ready()

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._tools.specs()

    async def refuse(self, call: SoundCall) -> ToolOutcome | None:
        return await self._tools.refuse(call)

    async def run(
        self, call: SoundCall, key: str, publish: Publish, stop: StopSignal, seen: Seen = None
    ) -> ToolOutcome:
        def heard(text: str) -> None:
            self._fault.reached("in-tool", call.name)
            publish(text)

        self._fault.reached("before-tool", call.name)
        outcome = await self._tools.run(call, key, heard, stop, seen)
        self._fault.reached("after-tool", call.name)
        return outcome

    async def preview(self, call: SoundCall) -> tuple[FileChange, ...]:
        return await self._tools.preview(call)

    async def changes(self, key: str) -> tuple[FileChange, ...]:
        return await self._tools.changes(key)

    async def probe(self, call: SoundCall, key: str) -> str:
        return await self._tools.probe(call, key)
