"""Scripts become actions: what is sent when, in the protocol of the request.

Theory of operation. A `ScriptPlayer` walks the steps of a script for one request and yields actions, lazily,
since a script may go on forever. Content steps become the events of `vocab`, which the protocol's own
encoder writes; so the lab speaks each protocol exactly as our server does. A streamed reply goes out event by
event; a plain one is folded and goes out as one document when the script finishes, or as half of one where it
is cut. Modifiers live in the player: they change how later steps are sent. There is no input or output here;
`lab.provider` performs it.
"""

import math
from collections.abc import Iterable, Iterator

import msgspec

from turnbuckle.lab import script as steps
from turnbuckle.lab.actions import Action, End, SendHead, Wait, Write
from turnbuckle.lab.garbage import garbage_body
from turnbuckle.lab.lies import half_a_character, lie_about_finish, without_terminal
from turnbuckle.lab.script import Ending, LabRequest, Script, ScriptItem
from turnbuckle.lab.speaking import ContentStep, Speaker
from turnbuckle.reply.accumulate import Accumulator
from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    Cut,
    Ended,
    Event,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    Usage,
)
from turnbuckle.vocab.failure import RETRYABLE, Failure
from turnbuckle.wire import failures, sse
from turnbuckle.wire.registry import PROTOCOLS

CREATED = 1_767_225_600
"""When every reply of the lab was made, so that the same request gets the same bytes."""

_CHARACTERS_PER_TOKEN = 4
_Delta = TextDelta | ReasoningDelta | RefusalDelta | CallArgs
_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class ScriptPlayer:
    """Plays one script for one request. Use it once."""

    def __init__(self, request: LabRequest, *, reply_id: str = "lab-1") -> None:
        self._request = request
        self._reply_id = reply_id
        self._encoding = PROTOCOLS[request.protocol].encoding
        self._encoder = self._encoding.stream(reply_id, request.model, CREATED)
        self._plain = not request.stream
        self._headers = {"content-type": "application/json"} if self._plain else dict(_STREAM_HEADERS)
        self._more_headers: dict[str, str] = {}
        self._folded = Accumulator().add_all([Started(reply_id, request.model)])
        self._head_sent = self._opened = self._over = False
        self._frames = 0
        self._speaker = Speaker(f"call_{reply_id}_")
        self._pace: steps.Pace | None = None
        self._dribble: steps.Dribble | None = None
        self._kill: steps.KillAfter | None = None

    def play(self, script: Script) -> Iterator[Action]:
        """All actions of the script, up to exactly one `End`, which is the last."""
        yield from self._items(script)
        if not self._over:
            yield from self._cut(steps.CutOff("tidy"))

    def _items(self, items: Iterable[ScriptItem]) -> Iterator[Action]:
        for item in items:
            if self._over:
                return
            if callable(item):
                yield from self._items(item(self._request))
            elif isinstance(item, steps.When):
                yield from self._items(item.steps if self._request.fits(item.condition) else item.otherwise)
            else:
                yield from self._step(item)

    def _step(self, step: steps.Step) -> Iterator[Action]:
        match step:
            case steps.Say() | steps.Reason() | steps.Refuse() | steps.Call() | steps.More():
                yield from self._content(step)
            case steps.Finish():
                yield from self._finish(step)
            case steps.Stall():
                yield Wait(_seconds(step.seconds))
            case steps.Comments():
                yield from self._comments(step)
            case steps.CutOff():
                yield from self._cut(step)
            case steps.Error():
                yield from self._error(step)
            case steps.Status() | steps.Garbage():
                yield from self._instead(step)
            case steps.Open():
                yield from self._open()
            case steps.Raw():
                data = step.data.encode() if isinstance(step.data, str) else step.data
                yield from self._send(data)
            case steps.Frame():
                yield from self._frame(step)
            case _:
                self._modify(step)

    def _modify(self, step: steps.Step) -> None:
        match step:
            case steps.Pace():
                self._pace, self._speaker.pieces = step, step.pieces
            case steps.Dribble():
                self._dribble = step if step.bytes else None
            case steps.KillAfter():
                self._kill = step
            case steps.Plain() if not self._head_sent:
                self._plain = True
                self._headers = {"content-type": step.content_type}
            case steps.Headers():
                self._more_headers |= step.headers
            case _:
                pass

    # Content

    def _content(self, step: ContentStep) -> Iterator[Action]:
        self._speaker.kill = None if self._plain else self._kill  # a plain answer is not killed
        for event in self._speaker.content(step):
            yield from self._emit(event)
            if self._speaker.is_killed and self._kill is not None:
                yield from self._end(self._kill.how)
            elif self._pace and self._pace.every and isinstance(event, _Delta):
                yield Wait(self._pace.every)

    # The end

    def _finish(self, step: steps.Finish) -> Iterator[Action]:
        for event in self._speaker.finish(step, self._honest_usage()):
            yield from self._emit(event)
        if self._plain:
            self._folded.add(Ended("lab"))
            yield from self._send(self._document(step))
        else:
            yield from self._open()
            data = self._encoder.event(Ended("lab"))
            if step.said or step.reason == "none":
                data = lie_about_finish(self._encoding, data, step.said or None)
            yield from self._send(data if step.terminal else without_terminal(data))
        yield from self._end("tidy")

    def _document(self, step: steps.Finish) -> bytes:
        document = msgspec.json.encode(self._encoding.answer(self._folded.snapshot(), created=CREATED))
        if step.said or step.reason == "none":
            document = lie_about_finish(self._encoding, document, step.said or None)
        return document

    def _honest_usage(self) -> Usage:
        asked = len(msgspec.json.encode(self._request.body))
        sent = self._speaker.sent
        reasoning = sent["reasoning"] // _CHARACTERS_PER_TOKEN
        output = sum(sent.values()) // _CHARACTERS_PER_TOKEN + 1
        return Usage(input=asked // _CHARACTERS_PER_TOKEN + 1, output=output, reasoning=reasoning)

    def _cut(self, step: steps.CutOff) -> Iterator[Action]:
        if self._plain and not self._head_sent and self._speaker.blocks:
            whole = msgspec.json.encode(self._encoding.answer(self._folded.snapshot(), created=CREATED))
            yield from self._send(whole[: len(whole) // 2])
        elif step.inside and not self._plain:
            block = self._speaker.open_block()
            yield from self._open()
            text = "漢字" if step.inside == "character" else "half"
            frame = self._encoder.event(TextDelta(block, text))
            yield from self._send(
                half_a_character(frame) if step.inside == "character" else frame[: len(frame) // 2]
            )
        elif step.how == "tidy" and not self._head_sent:
            yield from self._send_head()
        yield from self._end(step.how)

    def _error(self, step: steps.Error) -> Iterator[Action]:
        said = Failure(step.kind, step.message, step.kind in RETRYABLE, code=step.code)
        if self._plain:
            yield from self._send(msgspec.json.encode(self._encoding.error_body(said)))
            yield from self._end("tidy")
            return
        yield from self._open()
        if self._encoding.error_frame is not None and step.shape != "failed":
            yield from self._send(self._encoding.error_frame(said, step.shape, self._frames))
        else:
            yield from self._emit(Cut(said))

    def _instead(self, step: steps.Status | steps.Garbage) -> Iterator[Action]:
        """Another answer in place of a reply; once a reply has begun it is too late for one."""
        if self._head_sent:
            yield from self._end("fin")
            return
        if isinstance(step, steps.Status):
            status, headers, body = step.code, dict(step.headers), self._error_document(step)
            headers.setdefault("content-type", "application/json")
        else:
            status = step.status
            content_type, body = garbage_body(step)
            headers = {"content-type": content_type}
        self._head_sent = True
        yield SendHead(status, {**headers, **self._more_headers}, len(body))
        yield from self._dribbled(body)
        yield from self._end("tidy")

    def _error_document(self, step: steps.Status) -> bytes:
        if step.body is not None:
            return step.body.encode()
        error = {"message": step.message, "code": step.error_code}
        said = msgspec.structs.replace(failures.from_error(error, status=step.code), code=step.error_code)
        return msgspec.json.encode(self._encoding.error_body(said))

    def _end(self, how: Ending) -> Iterator[Action]:
        self._over = True
        yield End(how)

    # The wire

    def _emit(self, event: Event) -> Iterator[Action]:
        if self._plain:
            self._folded.add(event)
            return
        yield from self._open()
        data = self._encoder.event(event)
        self._frames += data.count(b"\n\n")
        if data:
            yield from self._send(data)

    def _open(self) -> Iterator[Action]:
        if not self._opened and not self._plain:
            self._opened = True
            data = self._encoder.open()
            self._frames += data.count(b"\n\n")
            yield from self._send_head()
            if data:
                yield from self._send(data)

    def _send_head(self) -> Iterator[Action]:
        if not self._head_sent:
            self._head_sent = True
            ids = {"x-request-id": self._reply_id, "request-id": self._reply_id}
            yield SendHead(200, {**self._headers, **ids, **self._more_headers})

    def _send(self, data: bytes) -> Iterator[Action]:
        yield from self._send_head()
        yield from self._dribbled(data)

    def _dribbled(self, data: bytes) -> Iterator[Action]:
        dribble = self._dribble
        size = dribble.bytes if dribble else len(data) or 1
        for start in range(0, len(data), size):
            yield Write(data[start : start + size])
            if dribble and dribble.every:
                yield Wait(dribble.every)

    def _frame(self, step: steps.Frame) -> Iterator[Action]:
        if not self._plain:  # a plain answer has no frames
            yield from self._open()
            self._frames += 1
            yield from self._send(sse.frame(msgspec.json.encode(step.data), step.name))

    def _comments(self, step: steps.Comments) -> Iterator[Action]:
        left = _seconds(step.seconds)
        while left > 0:
            yield Wait(min(step.every, left))
            left -= step.every
            if self._plain:
                yield from self._send(b"\n")  # some hosts keep a plain answer alive by blank lines
                continue
            ping = self._encoder.event(Alive("ping")) if step.kind == "ping" else b""
            self._frames += ping.count(b"\n\n")
            yield from self._send(ping or sse.comment())  # Chat Completions has no ping


def _seconds(value: steps.Seconds) -> float:
    return math.inf if value == "forever" else value
