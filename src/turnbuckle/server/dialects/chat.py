"""A run as a chat completion: as chunks while it happens, or as one answer when it is over.

The role comes at once. Progress of our own tools, notices and questions ride on chunks with an empty delta, under a
key that clients do not look at; whoever knows them can have tool progress as named events instead, or none of it. A
run that failed ends with an error event and nothing behind it, never with a finish that looks like success.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from turnbuckle.journal.port import Item
from turnbuckle.server.dialects.chat_story import ChatStory
from turnbuckle.server.dialects.tool_lines import Label
from turnbuckle.server.outcomes import Ending, Plain, told
from turnbuckle.turn.facts import HandedCall, decode
from turnbuckle.turn.labels import short_argument
from turnbuckle.turn.waiting import WaitingOn
from turnbuckle.vocab.events import Finish, Usage
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyReasoning, ReplyRefusal, ReplyText
from turnbuckle.wire.openai_chat.chunks import ChunkWriter
from turnbuckle.wire.openai_chat.encode import answer
from turnbuckle.wire.sse import DONE, frame

Events = Literal["chunk", "tools", "hermes", "none"]
"""How tool progress is told: on chunks, as events of our name or of one that frontends know, or not at all."""
EVENTS: tuple[Events, ...] = ("chunk", "tools", "hermes", "none")

ARGUMENTS_PIECE = 8 * 1024  # characters: some clients work on each piece, and some cap a line
KEY = "turnbuckle"
_NAMES = {"tools": "turnbuckle.tool.progress", "hermes": "hermes.tool.progress"}
_FINISHES: dict[str, Finish] = {"length": "length", "content_filter": "filtered"}
_json = msgspec.json.encode


def chat_id(run: RunId) -> str:
    """The id under which a run's chat completion goes."""
    return f"chatcmpl-{run}"


class ChatDialect:
    """The stream. `created` must be the same for every reader of the run: the second in which it started."""

    def __init__(
        self,
        run: RunId,
        *,
        model: str,
        created: int,
        include_usage: bool = False,
        events: Events = "chunk",
        label: Label = short_argument,
        queued: str = "",
    ) -> None:
        """`queued` is what the run had to wait for before it began, in words."""
        self.ended = False
        self._run = run
        self._chunks = ChunkWriter(chat_id(run), model, created, usage=include_usage)
        self._pen = _ChunkPen(run, self._chunks, include_usage, events, model)
        self._story = ChatStory(run, self._pen, label, queued)

    def open(self) -> bytes:
        told, self._pen.out[:] = b"".join(self._pen.out), []
        return self._chunks.role() + told

    def take(self, items: Sequence[Item]) -> bytes:
        story, out = self._story, self._pen.out
        for item in items:
            story.take(decode(item.data))
        self.ended = story.ended
        written = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return written

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        return b"" if self.ended else self._chunks.empty()

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        if self.ended:
            return b""
        said = f"{why[:1].upper()}{why[1:]}." if why else "The server stops."
        message = f"{said} The run is kept and can be followed at GET /v1/runs/{self._run}/events."
        error = {"message": message, "type": "server_error", "param": None, "code": code}
        extra = {} if self._pen.events == "none" else {KEY: {"run": self._run, "resumable": True}}
        return frame(_json({"error": error, **extra}))


class _ChunkPen:
    """Writes chunks. `out` is emptied by whoever sends them."""

    def __init__(self, run: RunId, chunks: ChunkWriter, include_usage: bool, events: Events, model: str) -> None:
        self.out: list[bytes] = []
        self._wanted = self._model = model
        self.events = events
        self._run = run
        self._chunks = chunks
        self._include_usage = include_usage

    def answered_by(self, model: str) -> None:
        model = model or self._wanted
        if model != self._model:
            self._model = model
            self._chunks.answered_by(model)

    def text(self, text: str) -> None:
        self.out.append(self._chunks.text(text))

    def reasoning(self, text: str) -> None:
        self.out.append(self._chunks.reasoning(text))

    def refusal(self, text: str) -> None:
        self.out.append(self._chunks.refusal(text))

    def call(self, index: int, call: HandedCall) -> None:
        self.out.append(self._chunks.call(index, call.id, call.name))
        arguments = call.arguments or "{}"
        for at in range(0, len(arguments), ARGUMENTS_PIECE):
            self.out.append(self._chunks.arguments(index, arguments[at : at + ARGUMENTS_PIECE]))

    def progress(self, progress: dict[str, Any]) -> None:
        if self.events == "chunk":
            self.aside("tool", progress)
        elif self.events != "none":
            self.out.append(frame(_json(progress), _NAMES[self.events]))

    def aside(self, what: str, told: Any) -> None:
        if self.events != "none":
            self.out.append(self._chunks.empty(**{KEY: {what: told}}))

    def end(self, ending: Ending, usage: Usage) -> None:
        extra = {} if self.events == "none" else {KEY: told(ending.outcome, self._run)}
        if ending.trouble is not None:
            self.out.append(frame(_json({**ending.trouble.body(), **extra})))
            return
        self.out.append(self._chunks.finish(ending.finish, **extra))
        if self._include_usage:
            self.out.append(self._chunks.usage(usage))
        self.out.append(DONE)


class PlainChat:
    """The answer in one piece: a reader that waits for the end. `answer` is there when it has `ended`."""

    def __init__(self, run: RunId, *, model: str, created: int, events: Events = "chunk", queued: str = "") -> None:
        self.ended = False
        self._run = run
        self._created = created
        self._model = model
        self._extra = events != "none"
        self._pen = _PagePen()
        self._story = ChatStory(run, self._pen, queued=queued)

    def open(self) -> bytes:
        return b""

    def take(self, items: Sequence[Item]) -> bytes:
        for item in items:
            self._story.take(decode(item.data))
        self.ended = self._story.ended
        return b""

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        return b""

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        return b""

    def answer(self) -> Plain:
        """The whole answer. Raises ValueError before the end."""
        page, ending = self._pen, self._pen.ending
        if ending is None:
            raise ValueError("the run has not ended")
        story = self._story
        noticed: dict[str, Any] = {"notice": story.notice} if story.notice else {}
        noticed |= {"notices": story.notices} if story.notices else {}
        extra = {KEY: {**told(ending.outcome, self._run), **noticed}} if self._extra else {}
        if ending.trouble is not None:
            return Plain(ending.status, {**ending.trouble.body(), **extra}, ending.headers)
        finish = _FINISHES.get(ending.finish)
        model = page.model or self._model
        reply = Reply(tuple(page.blocks()), chat_id(self._run), model, finish, usage=page.usage)
        return Plain(ending.status, {**answer(reply, created=self._created), **extra}, ending.headers)


class _PagePen:
    """Keeps what is said until it is asked for."""

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self.usage = Usage()
        self.model = ""
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[HandedCall] = []

    def answered_by(self, model: str) -> None:
        self.model = model

    def text(self, text: str) -> None:
        self._texts.append(text)

    def reasoning(self, text: str) -> None:
        self._thoughts.append(text)

    def refusal(self, text: str) -> None:
        self._refusals.append(text)

    def call(self, index: int, call: HandedCall) -> None:
        self._calls.append(call)

    def progress(self, progress: dict[str, Any]) -> None:
        pass  # it is over when this is read

    def aside(self, what: str, told: Any) -> None:
        pass

    def end(self, ending: Ending, usage: Usage) -> None:
        self.ending, self.usage = ending, usage

    def blocks(self) -> list[ReplyBlock]:
        return [
            ReplyReasoning("".join(self._thoughts)),
            ReplyText("".join(self._texts)),
            ReplyRefusal("".join(self._refusals)),
            *(ReplyCall(call.id, call.name, call.arguments) for call in self._calls),
        ]
