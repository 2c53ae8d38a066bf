"""Tools whose every effect is counted, by the world and not by those who are judged by it."""

import asyncio
from typing import Any, Literal, Protocol

from msgspec import Struct

from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.ports import Publish, Seen, Tools
from turnbuckle.turn.policy import ToolFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.request import ToolSpec
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome, failed, finished, not_started

FACTS: dict[str, ToolFacts] = {
    "read_file": ToolFacts("read", subject="path"),
    "write_file": ToolFacts("write", draftable="content", subject="path"),
    "append_file": ToolFacts("write", draftable="content", subject="path"),
    "set_flag": ToolFacts("idempotent"),
    "shell": ToolFacts("write", subject="command", is_command=True),
    "ask_user": ToolFacts("read", asks=True),
}
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "append_file": ("path", "content"),
    "set_flag": ("name",),
    "shell": ("command",),
    "ask_user": ("question",),
}
_PROBED = ("write_file", "append_file")
_DYING = 4  # turns of the loop that a tool takes to end once it is stopped: the wish is stored before it
_FINISH = ("draft", "after", "rest")
SPECS: tuple[ToolSpec, ...] = tuple(
    ToolSpec(name, "", {"type": "object", "properties": {key: {} for key in keys}, "required": list(keys)})
    for name, keys in (*_ARGUMENTS.items(), (FINISH_CALL, _FINISH))
)


class Done(Struct, frozen=True):
    """One effect: the key under which it was caused, and whether its intent was stored by then."""

    key: str
    name: str
    intended: bool


class Disk:
    """What outlives every process: files, and the record of all that was ever done to them."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.done: list[Done] = []
        self.runs = 0
        self._by_key: set[str] = set()

    def do(self, name: str, arguments: dict[str, Any], key: str, intended: bool) -> ToolOutcome:
        if name == "read_file":
            text = self.files.get(arguments["path"])
            return failed(f"there is no {arguments['path']}") if text is None else finished(text)
        self.done.append(Done(key, name, intended))
        self._by_key.add(key)
        match name:
            case "write_file":
                self.files[arguments["path"]] = arguments["content"]
                return finished(f"{len(arguments['content'])} characters written")
            case "append_file":
                before = self.files.get(arguments["path"], "")
                self.files[arguments["path"]] = before + arguments["content"]
                return finished("appended")
            case "set_flag":
                return finished("set")
            case "ask_user":
                raise AssertionError("a question is for a person, and no tool's work")
        return failed("exit code 1") if "fail" in arguments["command"] else finished("ok")

    def has_done(self, key: str) -> bool:
        return key in self._by_key


class Watcher(Protocol):
    """Sees every tool run; may end the process in the middle of it."""

    async def tool_at(self, run: int, side: Literal["before", "after"]) -> None: ...

    def intended(self, key: str) -> bool: ...


class WorldTools(Tools):
    """The tools of one process."""

    def __init__(self, disk: Disk, watcher: Watcher) -> None:
        self._disk = disk
        self._watcher = watcher

    def specs(self) -> tuple[ToolSpec, ...]:
        return SPECS

    async def refuse(self, call: SoundCall) -> ToolOutcome | None:
        if call.name not in _ARGUMENTS:
            return not_started(f"There is no tool with the name {call.name!r}.")
        wanted = _ARGUMENTS[call.name]
        wrong = [key for key in wanted if not isinstance(call.arguments.get(key), str)]
        wrong += [key for key in call.arguments if key not in wanted]
        return not_started(f"The arguments do not fit: {', '.join(wrong)}.") if wrong else None

    async def run(
        self, call: SoundCall, key: str, publish: Publish, stop: StopSignal, seen: Seen = None
    ) -> ToolOutcome:
        number = self._disk.runs
        self._disk.runs += 1
        await self._watcher.tool_at(number, "before")
        if stop.is_set():
            for _ in range(_DYING):
                await asyncio.sleep(0)
            return ToolOutcome("killed", "stopped")
        if call.name == "shell":
            publish("working\n")
        outcome = self._disk.do(call.name, call.arguments, key, self._watcher.intended(key))
        await self._watcher.tool_at(number, "after")
        return outcome

    async def probe(self, call: SoundCall, key: str) -> str:
        if FACTS[call.name].effect != "write":
            return "again"
        if call.name not in _PROBED:
            return "unknown"
        return "done" if self._disk.has_done(key) else "not_done"
