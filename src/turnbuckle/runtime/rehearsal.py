"""The rehearsal model: a small script that answers in the place of a model, so that everything can be tried without a
key or a network. It says what it is, and it can break on purpose.

It looks at the newest words of the user and at what came since. A reply follows from the task alone, so when it was
cut it can go on from where it stands, and it finishes drafts as a good model does.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from turnbuckle.runtime.ports import Stopper
from turnbuckle.vocab.events import (
    BlockClosed,
    CallArgs,
    CallClosed,
    CallStarted,
    Cut,
    Ended,
    Event,
    FinishNoted,
    Started,
    TextDelta,
)
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message, ResultPart, TextPart, text_of
from turnbuckle.vocab.request import ModelRequest

NAME = "rehearsal"
WHO = "I am the rehearsal model: a script, not a language model. "
HELP = (
    "I understand `write FILE`, `write FILE with N lines`, `read FILE`, `list` and `run COMMAND`. Add `and cut` or "
    "`and stall` to a write, and the stream breaks on the way, as real ones do. For a real model, put a route into "
    "turnbuckle.toml."
)
_PIECE = 24
_MOST_PIECES = 200
_STALL = 2.0
_WRITE = re.compile(r"\bwrite (?:a file |the file )?(?P<path>[^\s,]+)(?: with (?P<count>\d{1,5}) lines?)?", re.I)
_READ = re.compile(r"\bread (?:the file )?(?P<path>[^\s,]+)", re.I)
_RUN = re.compile(r"\brun `?(?P<command>[^`]+)`?", re.I)
_LIST = re.compile(r"\blist\b", re.I)
_BREAK = re.compile(r"\b(?P<how>cut|stall)\b", re.I)
_DRAFT = re.compile(r"kept (?:whole )?as draft `(?P<id>[^`]+)`.*?<<<(?P<tail>.*)>>>", re.S)


class _Reply(Struct, frozen=True):
    """One reply: text, then at most one call. `breaks` is how it ends before it is whole."""

    text: str
    tool: str = ""
    arguments: dict[str, Any] = {}
    breaks: Failure | None = None
    waits: float = 0.0


class Rehearsal:
    """A model that is a script. `pace` is how long each piece of a reply takes."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, pace: float = 0.0) -> None:
        self._sleep = sleep
        self._pace = pace

    async def attempt(self, route: RouteName, request: ModelRequest, stop: Stopper) -> AsyncIterator[list[Event]]:
        reply = _reply_to(request)
        broken = reply.breaks
        for event in _events(reply, len(request.messages)):
            if stop.is_set():
                yield [Cut(failure("cancelled", "stopped"))]
                return
            yield [event]
            if self._pace:
                await self._sleep(self._pace)
        if broken is not None:
            if reply.waits:
                await self._sleep(reply.waits)
            yield [Cut(broken)]

    def choose(self, wanted: RouteName) -> RouteName:
        return wanted

    def streams(self, route: RouteName) -> bool:
        return True

    def note(self, route: RouteName, events: list[Event]) -> None:
        return None


def _events(reply: _Reply, number: int) -> Iterator[Event]:
    yield Started(f"rehearsal-{number}", NAME)
    yield from (TextDelta(0, piece) for piece in _pieces(reply.text))
    if reply.text:
        yield BlockClosed(0)
    if reply.tool:
        text = msgspec.json.encode(reply.arguments).decode()
        yield CallStarted(1, f"call_{number}", reply.tool)
        cut = len(text) * 2 // 3 if reply.breaks else len(text)
        yield from (CallArgs(1, piece) for piece in _pieces(text[:cut]))
        if not reply.breaks:
            yield CallClosed(1)
    if not reply.breaks:
        yield FinishNoted("calls" if reply.tool else "stop", "")
        yield Ended(NAME)


def _pieces(text: str) -> Iterator[str]:
    size = max(_PIECE, len(text) // _MOST_PIECES)
    return (text[start : start + size] for start in range(0, len(text), size))


def _reply_to(request: ModelRequest) -> _Reply:
    at = next((n for n in range(len(request.messages) - 1, -1, -1) if _is_task(request.messages[n])), -1)
    task = text_of(request.messages[at].parts) if at >= 0 else ""
    since = request.messages[at + 1 :]
    if results := _results(since):
        return _Reply(_told(results[-1]))
    note = next((text_of(message.parts) for message in reversed(since) if message.note), "")
    if found := _DRAFT.search(note):
        rest = _content(task).partition(found["tail"])[2]
        return _Reply("", "finish_call", {"draft": found["id"], "after": found["tail"][-60:], "rest": rest})
    reply = _first_reply(task, {tool.name for tool in request.tools})
    said = "".join(text_of(message.parts) for message in since if message.role == "assistant")
    if note:  # the first try was broken; from here on nothing is
        rest = reply.text.removeprefix(said) if reply.text.startswith(said) else reply.text
        return msgspec.structs.replace(reply, text=rest, breaks=None, waits=0.0)
    return reply


def _first_reply(task: str, tools: set[str]) -> _Reply:
    reply = _wanted(task)
    if reply.tool and reply.tool not in tools:
        return _Reply(f"{WHO}I would call {reply.tool}, but that tool is not enabled.")
    return reply


def _wanted(task: str) -> _Reply:
    if found := _WRITE.search(task):
        broken, waits = _break(task)
        arguments = {"path": found["path"].rstrip(".;:!`"), "content": _content(task)}
        return _Reply(f"{WHO}I will write {arguments['path']}.\n", "write_file", arguments, broken, waits)
    if found := _READ.search(task):
        path = found["path"].rstrip(".;:!`")
        return _Reply(f"{WHO}I will read {path}.\n", "read_file", {"path": path})
    if found := _RUN.search(task):
        command = found["command"].strip()
        return _Reply(f"{WHO}I will run a command.\n", "shell", {"command": command})
    if _LIST.search(task):
        return _Reply(f"{WHO}I will look at the files.\n", "list_files", {})
    return _Reply(WHO + HELP)


def _break(task: str) -> tuple[Failure | None, float]:
    found = _BREAK.search(task)
    if found is None:
        return None, 0.0
    if found["how"].lower() == "cut":
        return failure("reset", "the rehearsal was asked to cut the stream"), 0.0
    return failure("stalled", f"stream stalled {_STALL:.0f} s", clock="gap"), _STALL


def _content(task: str) -> str:
    found = _WRITE.search(task)
    count = int(found["count"] or 1) if found is not None else 1
    return "".join(f"line {number} of {count}, written by the rehearsal model\n" for number in range(1, count + 1))


def _is_task(message: Message) -> bool:
    return message.role == "user" and not message.note


def _results(messages: tuple[Message, ...]) -> list[ResultPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ResultPart)]


def _told(result: ResultPart) -> str:
    text = "".join(part.text for part in result.content if isinstance(part, TextPart)).strip()
    how = "That did not work" if result.failed else "Done"
    return f"{how}. The tool says:\n{text}\n"
