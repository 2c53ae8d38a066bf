"""Anthropic Messages: frames to events.

The terminal event. A stream has ended at `message_stop` and nowhere else. The reason to stop comes before it,
in `message_delta`; a body that ends between the two is cut, since more than one `message_delta` is allowed.
Of several reasons the worse one counts. Blocks without their own stop stay open, whatever the message says.

Holes. An event that cannot be read may have held content: nothing behind it is shown, and the reply is cut.

Second tellings. A whole message behind its blocks (as an event of its own, or in one of the last two) adds
only what they lack; content in the opening event counts only if no block comes. Blocks that start again are
settled in `blocks`.

Which event. The `type` inside the JSON rules, and the name of the SSE event stands in where it is missing;
some gateways send only one of the two, and Bedrock's chunks may have neither. Types that we do not know go
through as they came: the protocol reserves the right to add them.
"""

from typing import Any

from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    Cut,
    Ended,
    Event,
    FieldsNoted,
    FinishNoted,
    LastWord,
    ReasoningDelta,
    Skipped,
    StageNoted,
    Started,
    TextDelta,
    UsageNoted,
    worse,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire import failures
from turnbuckle.wire.answer_fields import is_event_name, shallow
from turnbuckle.wire.anthropic.answer_fields import MessageFields, beside_delta, document_of, strange_delta
from turnbuckle.wire.anthropic.blocks import Blocks
from turnbuckle.wire.anthropic.frames import (
    CONTENT,
    FINISHES,
    FRAME,
    HOLDING,
    PIECE,
    USUAL_FRAME,
    AnthropicDelta,
    AnthropicEvent,
    ArgumentsPiece,
    TextPiece,
)
from turnbuckle.wire.anthropic.whole_message import settle
from turnbuckle.wire.decoder import ALIVE, HOLE, EndKind
from turnbuckle.wire.payload import (
    Unreadable,
    is_keepalive,
    read_any,
    read_what_fits,
    reread,
    sample,
    sample_of,
)
from turnbuckle.wire.sse import Frame as SseFrame
from turnbuckle.wire.think import MAY_BE_WHOLE
from turnbuckle.wire.usage import usage_from_anthropic

_TYPES = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
        "ping",
        "error",
    }
)
_PING = Alive("ping")
_UNKNOWN = Alive("unknown")
_LIFECYCLE = Alive("lifecycle")

_read_piece = PIECE.decode


class AnthropicDecoder:
    """One stream's state. See the module's text for the rules."""

    reads_arrays = False

    def __init__(self, quirks: Quirks = Quirks()) -> None:  # noqa: B008 (a frozen value)
        self.loose = False
        self.end_kind: EndKind = ""
        self._decode = USUAL_FRAME.decode
        self._fields = MessageFields()
        self._quirks = quirks
        self._blocks = blocks = Blocks(quirks.think)
        self._texts, self._thoughts, self._calls = blocks.texts, blocks.thoughts, blocks.calls
        self._model = ""
        self._usage: dict[str, Any] = {}
        self._finish: FinishNoted | None = None
        self._opened_with: list[Any] = []  # content in the opening event
        self._left_out: set[str] = set()

    def frames(self, batch: list[SseFrame], out: list[Event]) -> LastWord | None:
        append = out.append
        texts, calls, thoughts = self._texts, self._calls, self._thoughts
        for name, data in batch:
            if data is None:
                append(ALIVE[name])
                continue
            try:
                event = _read_piece(data)
            except Unreadable:
                pass
            else:
                delta = event.delta
                kind = delta.__class__
                if kind is TextPiece:
                    place, piece = texts.get(event.index), delta.text  # type: ignore[union-attr]
                    if (
                        place is not None
                        and piece
                        and "<" not in piece
                        and "◁" not in piece
                        and "`" not in piece
                    ):
                        place[1](piece)
                        append(TextDelta(place[0], piece))
                        continue
                elif kind is ArgumentsPiece:
                    place, piece = calls.get(event.index), delta.partial_json  # type: ignore[union-attr]
                    if place is not None and piece:
                        place[1](piece)
                        append(CallArgs(place[0], piece))
                        continue
                else:
                    place, piece = thoughts.get(event.index), delta.thinking  # type: ignore[union-attr]
                    if place is not None and piece:
                        place[1](piece)
                        append(ReasoningDelta(place[0], piece))
                        continue
            last = self._take_frame(name, data, out)
            if last is not None:
                return last
        return None

    def _take_frame(self, name: bytes, data: bytes, out: list[Event]) -> LastWord | None:
        """Any event but the usual piece."""
        try:
            frame = self._decode(data)
        except Unreadable as problem:
            frame_or_last = self._read_again(name, data, problem, out)
            if not isinstance(frame_or_last, AnthropicEvent):
                return frame_or_last
            frame = frame_or_last
        return self._rare(frame, name, data, out)

    def answer(self, document: object, out: list[Event]) -> LastWord:
        error = failures.error_in(document)
        if error is not None:
            return Cut(failures.from_error(document))
        content = document.get("content") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(content, list):
            return Cut(failure("garbage", "an answer without content", said=sample_of(document)))
        self._fields.of_message(document, out)
        self._note_start(document, out)
        self._take_content(content, 0, out)
        self._note_finish(read_what_fits(AnthropicDelta, document)[0] or AnthropicDelta(), out)
        return self._over("answer", out)

    def end(self, out: list[Event]) -> LastWord:
        if self._quirks.finishless and not self._blocks.called and not self._blocks.lost:
            return Ended("end of body")  # never with calls: nobody could tell half of them from all
        return Cut(failures.incomplete("the stream ended without message_stop"))

    def cut(self, out: list[Event]) -> None:
        """Nothing: what is held back could have become something else."""

    # All but plain deltas

    def _rare(self, frame: AnthropicEvent, name: bytes, data: bytes, out: list[Event]) -> LastWord | None:
        match _type_of(frame, name):
            case "content_block_delta":
                if not (strange := strange_delta(frame.delta, data)):
                    self._blocks.delta(frame.index, frame.delta, out)
                else:
                    self._blocks.strange(frame.index, strange, out)
            case "content_block_start":
                self._blocks.start(frame.index, frame.content_block, out)
            case "content_block_stop":
                self._blocks.stop(frame.index, out)
            case "message_start":
                self._open(frame.message, out)
            case "message_delta":
                self._settle(frame.message, out)
                self._note_delta(frame, data, out)
            case "message_stop":
                self._settle(frame.message, out)
                self._note_metrics(frame, out)
                if not self._blocks.begun:
                    self._take_content(self._opened_with, 0, out)
                return self._over("message_stop", out)
            case "message":
                return self._whole_message(data, out)
            case "ping":
                out.append(_PING)
            case "error":
                return Cut(failures.from_error(_error_document(name, data)))
            case kind:
                self._note_strange(kind, document_of(data), out)
        return None

    def _note_strange(self, kind: str, event: dict[str, Any], out: list[Event]) -> None:
        """An event of tomorrow. One that names a block by its place means nothing to a reader for whom blocks
        have other places."""
        strange = is_event_name(kind) and "index" not in event and not self._blocks.lost
        out.append(StageNoted("", {**shallow(event), "type": kind}) if strange else _UNKNOWN)

    def _whole_message(self, data: bytes, out: list[Event]) -> LastWord | None:
        """A plain answer, sent as one event: instead of blocks, or behind them."""
        try:
            document = read_any(data)
        except Unreadable as problem:
            self._blocks.lose(str(problem), sample(data), out)
            return None
        content = document.get("content") if isinstance(document, dict) else None
        if not self._blocks.begun or not isinstance(content, list):
            return self.answer(document, out)
        self._note_start(document, out)
        if not self._settle(document, out) and self._blocks.has_open_text:
            return Cut(failures.incomplete("the whole message came before its text was over"))
        self._note_finish(read_what_fits(AnthropicDelta, document)[0] or AnthropicDelta(), out)
        return self._over("message", out)

    def _settle(self, message: dict[str, Any] | None, out: list[Event]) -> bool:
        content = message.get("content") if message else None
        if not isinstance(content, list) or not content or self._blocks.lost:
            return True
        return settle(self._blocks, content, out)

    def _take_content(self, content: list[Any], first: int, out: list[Event]) -> None:
        for place, block in enumerate(content, first):
            self._blocks.start(place, block if isinstance(block, dict) else None, out)
            self._blocks.stop(place, out)

    def _over(self, by: str, out: list[Event]) -> LastWord:
        if self._blocks.lost:
            return Cut(HOLE)
        self._blocks.release_held(out)
        finish = self._finish.finish if self._finish is not None else None
        if finish in MAY_BE_WHOLE and not self._blocks.called:
            self._blocks.give_back(out)
        return Ended(by)

    def _open(self, message: Any, out: list[Event]) -> None:
        message = message if isinstance(message, dict) else {}
        content = message.get("content")
        if isinstance(content, list) and not self._opened_with:
            self._opened_with = content
        self._fields.of_message(message, out)
        self._note_start(message, out)

    def _note_start(self, message: dict[str, Any], out: list[Event]) -> None:
        blocks = self._blocks
        reply_id, model = (
            _text(message.get("id")) or blocks.reply_id,
            _text(message.get("model")) or self._model,
        )
        if (reply_id, model) != (blocks.reply_id, self._model):
            blocks.reply_id, self._model = reply_id, model
            out.append(Started(reply_id, model))
        else:
            out.append(_LIFECYCLE)
        self._note_usage(message.get("usage"), out)

    def _note_delta(self, frame: AnthropicEvent, data: bytes, out: list[Event]) -> None:
        before = len(out)
        self._fields.of_end(data, out)
        if frame.delta is not None:
            self._note_finish(frame.delta, out)
        self._note_usage(frame.usage, out)
        if len(out) == before:
            out.append(_LIFECYCLE)

    def _note_finish(self, delta: AnthropicDelta, out: list[Event]) -> None:
        said = delta.stop_reason
        if isinstance(said, str) and said:
            noted = FinishNoted(FINISHES.get(said, "other"), said, _detail(delta))
            self._finish = worse(self._finish, noted)
            out.append(noted)

    def _note_usage(self, found: object, out: list[Event]) -> None:
        """Counts are totals so far. Those that are left out keep their earlier value."""
        if isinstance(found, dict):
            fresh = {key: value for key, value in found.items() if value is not None}
            if fresh:
                self._usage.update(fresh)
                self._fields.of_usage(self._usage, out)
                out.append(UsageNoted(usage_from_anthropic(self._usage)))

    def _note_metrics(self, frame: AnthropicEvent, out: list[Event]) -> None:
        """Bedrock repeats the counts at the end. They matter only if nothing gave them before."""
        if isinstance(frame.metrics, dict):
            spelled = {"input_tokens": "inputTokenCount", "output_tokens": "outputTokenCount"}
            missing = {
                ours: frame.metrics.get(theirs) for ours, theirs in spelled.items() if ours not in self._usage
            }
            self._note_usage(missing, out)

    # What cannot be read

    def _unusual(self, data: bytes, out: list[Event]) -> AnthropicEvent | None:
        """An event that only has fields which nobody here knows, if it is one."""
        try:
            frame = FRAME.decode(data)
        except Unreadable:
            return None
        words = frame.delta is not None and (frame.delta.text or frame.delta.thinking)
        if words and not self._blocks.lost and (found := beside_delta(data)):
            out.append(FieldsNoted("piece", found))
        return frame

    def _read_again(
        self, name: bytes, data: bytes, problem: Exception, out: list[Event]
    ) -> AnthropicEvent | LastWord | None:
        """Not an event at first sight. An error in an unknown shape still is one; else it is skipped, and
        said so."""
        if data.strip() == b"[DONE]" or name == b"ping":
            out.append(
                _PING if name == b"ping" else _UNKNOWN
            )  # `[DONE]` is other protocols' word and ends nothing
            return None
        if (unusual := self._unusual(data, out)) is not None:
            return unusual
        try:
            found = reread(FRAME, data)
        except Unreadable as again:
            document = _error_document(name, data)
            if _is_error(name, document):
                return Cut(failures.from_error(document))
            why = str(again) or type(again).__name__
            if is_keepalive(data) or name not in HOLDING:
                out.append(Skipped(why, sample(data), harmless=True))
            else:
                self._blocks.lose(why, sample(data), out)
            return None
        self.loose = self.loose or found.loose
        if found.left_out:
            document = _error_document(name, data)
            if _is_error(name, document):
                return Cut(failures.from_error(document))
            why = found.why()
            if found.lost(CONTENT):
                self._blocks.lose(why, sample(data), out)
            elif why not in self._left_out:
                self._left_out.add(why)
                out.append(Skipped(why, sample(data), harmless=True))
        frame: AnthropicEvent | None = found.value
        return frame


def _type_of(frame: AnthropicEvent, name: bytes) -> str:
    """The type in the JSON, else the event's name, else what the fields leave no doubt about."""
    found = frame.type or name.decode("ascii", "replace")
    if found in _TYPES:
        return found
    # llama.cpp sends the bare error object, with its own type, under the name `error`.
    if frame.error or name == b"error" or found.endswith("Exception"):
        return "error"
    if found:
        return found
    if frame.content_block is not None:
        return "content_block_start"
    if frame.message is not None:
        return "message_start"
    if frame.delta is not None:
        return (
            "content_block_delta"
            if frame.delta.stop_reason is None and frame.usage is None
            else "message_delta"
        )
    return ""


def _is_error(name: bytes, document: Any) -> bool:
    """An error in any shape. Bare error objects have a text where events have a message object."""
    if name == b"error" or name.endswith(b"Exception") or failures.error_in(document) is not None:
        return True
    if not isinstance(document, dict) or not isinstance(document.get("message"), str):
        return False
    return _text(document.get("type")).endswith(("error", "Exception"))


def _error_document(name: bytes, data: bytes) -> Any:
    try:
        document = read_any(data)
    except Unreadable:
        return data.decode("utf-8", "replace")
    if name.endswith(b"Exception") and isinstance(document, dict):
        return {"type": name.decode("ascii", "replace"), **document}
    return document


def _detail(delta: AnthropicDelta) -> str:
    """Why it declined, or which stop sequence it met."""
    details = delta.stop_details if isinstance(delta.stop_details, dict) else {}
    words = [_text(details.get(key)) for key in ("category", "explanation")]
    return ": ".join(word for word in words if word) or _text(delta.stop_sequence)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
