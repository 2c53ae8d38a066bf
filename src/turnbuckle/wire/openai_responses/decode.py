"""Responses: frames to events.

The terminal event is `response.completed` or `response.incomplete`; the second is a clean end of a reply that
is not whole, and its reason says why. `response.failed`, `response.cancelled` and an `error` event (flat, or
with the error nested inside) are cuts. So is the end of the body without any of these. Nothing else ends a
stream: there is no `[DONE]` here, and a gateway that adds one says nothing by it.

`type` in the JSON names the event; the SSE name stands in where it is missing. Progress of what the provider
runs itself (searches, shell, pictures) goes through as it came, and so do events that nobody here knows; such
items become opaque blocks when they are whole.

Holes. An event that cannot be read may have held content. No delta behind it is shown; but items are told
again, whole, when they are done and in the terminal response, and that heals it. Without that the reply is
cut.

A response that somebody cancelled at the provider is not asked for again: the failure is `cancelled`, not
retryable.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from turnbuckle.vocab.events import (
    Alive,
    Cut,
    Ended,
    Event,
    Finish,
    FinishNoted,
    LastWord,
    Skipped,
    StageNoted,
    Started,
    TextDelta,
    UsageNoted,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire import failures
from turnbuckle.wire.answer_fields import is_event_name
from turnbuckle.wire.decoder import ALIVE, HOLE, EndKind
from turnbuckle.wire.openai_responses.answer_fields import ResponseFields, stage_of
from turnbuckle.wire.openai_responses.frames import (
    CONTENT,
    DELTAS,
    HOLDING,
    LIFECYCLE,
    OURS_TO_TELL,
    PIECE,
    STREAM_EVENT,
    TERMINAL,
    USUAL_EVENT,
    WHOLES,
    Response,
    Spelling,
    StreamEvent,
)
from turnbuckle.wire.openai_responses.items import Output
from turnbuckle.wire.payload import (
    Unreadable,
    is_keepalive,
    read_any,
    read_what_fits,
    reread,
    sample,
    sample_of,
)
from turnbuckle.wire.sse import Frame
from turnbuckle.wire.usage import usage_from_openai

_REASONS: dict[str, Finish] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "length": "length",
    "content_filter": "filtered",
    "model_context_window_exceeded": "window",
}
_WORSE = ("incomplete", "failed", "cancelled")
_PING = Alive("ping")
_LIFECYCLE = Alive("lifecycle")
_UNKNOWN = Alive("unknown")


class _HotPart(NamedTuple):
    """What the next delta of a part says if it is the next of the same part, and where it goes."""

    type: str
    item: str | int | float | None
    content: int | str | None
    summary: int | str | None
    grow: Callable[[str], None]
    make: Callable[[int, str], Event]
    block: int


_nowhere: list[str] = []
_NOTHING = _HotPart("", None, None, None, _nowhere.append, TextDelta, -1)

_read_piece = PIECE.decode


class ResponsesDecoder:
    """One stream's state. `_hot` is the part that grew last, so that its next delta is one comparison. A text
    is hot only while nothing of it is held back and no tag is open in it."""

    reads_arrays = False

    def __init__(self, quirks: Quirks = Quirks()) -> None:  # noqa: B008 (a frozen value)
        self.loose = False
        self.end_kind: EndKind = ""
        self.reply_id = ""
        self._decode = USUAL_EVENT.decode
        self._fields = ResponseFields()
        self._model = ""
        self._output = Output(quirks.think)
        self._hot = _NOTHING
        self._left_out: set[str] = set()

    def frames(self, batch: list[Frame], out: list[Event]) -> LastWord | None:
        append = out.append
        hot_type, hot_item, hot_content, hot_summary, grow, make, block = self._hot
        for name, data in batch:
            if data is None:
                append(ALIVE[name])
                continue
            if hot_type:
                try:
                    event = _read_piece(data)
                except Unreadable:
                    pass
                else:
                    piece = event.delta
                    if (
                        piece
                        and event.type == hot_type
                        and event.item_id == hot_item
                        and event.content_index == hot_content
                        and event.summary_index == hot_summary
                        and (
                            make is not TextDelta
                            or ("<" not in piece and "◁" not in piece and "`" not in piece)
                        )
                    ):
                        grow(piece)
                        append(make(block, piece))
                        continue
            last = self._take_frame(name, data, out)
            if last is not None:
                return last
            hot_type, hot_item, hot_content, hot_summary, grow, make, block = self._hot
        return None

    def _take_frame(self, name: bytes, data: bytes, out: list[Event]) -> LastWord | None:
        """Any event but the usual piece of what grew last."""
        try:
            event = self._decode(data)
        except Unreadable as problem:
            event_or_last = self._read_again(name, data, problem, out)
            if not isinstance(event_or_last, StreamEvent):
                return event_or_last
            event = event_or_last
        before = len(out)
        last = self._take(event.type or name.decode("utf-8", "replace"), event, data, out)
        if last is None and len(out) == before:
            out.append(_LIFECYCLE)
        return last

    def answer(self, document: object, out: list[Event]) -> LastWord:
        response, _ = read_what_fits(Response, document)
        if response is None:
            return Cut(failure("garbage", "not a response", said=sample_of(document)))
        status = response.status
        error = failures.error_in(document)
        if error is not None and status not in TERMINAL.values():
            return Cut(failures.from_error(error))
        if not isinstance(response.output, list) and status not in _WORSE:
            return Cut(failure("garbage", "an answer without output", said=sample_of(document)))
        self._note_start(response, out)
        if status in ("queued", "in_progress"):
            return Cut(failures.incomplete(f"the response is {status.replace('_', ' ')} in the background"))
        self._fields.of(document, 0, out)
        return self._terminal(str(status or "completed"), response, "answer", out)

    def end(self, out: list[Event]) -> LastWord:
        return Cut(failures.incomplete("the stream ended without a terminal response event"))

    def cut(self, out: list[Event]) -> None:
        """Nothing: what has not been emitted could have become something else."""

    # Frames

    def _take(self, kind: str, event: StreamEvent, data: bytes, out: list[Event]) -> LastWord | None:
        spelling = DELTAS.get(kind)
        if spelling is not None:
            self._delta(kind, spelling, event, out)
            return None
        self._hot = _NOTHING  # any other event may end or change the part that grew
        if kind in TERMINAL:
            self._fields.of_event(data, out)
            return self._terminal_event(kind, event, out)
        if kind in WHOLES:
            self._output.whole(WHOLES[kind], event, out)
        elif kind == "response.output_item.added":
            self._output.added(event, out)
        elif kind == "response.output_item.done":
            self._output.finished(event, out)
        elif kind == "response.content_part.added":
            self._output.part_added(event, out)
        elif kind == "response.content_part.done":
            self._output.part_done(event, out)
        elif kind in LIFECYCLE:
            if event.response is not None:
                self._note_start(event.response, out)
                self._fields.of_event(data, out)
        elif kind == "response.output_text.annotation.added":
            self._output.annotated(event, data, out)
        elif kind == "error" or (event.error and event.item_id is None and event.output_index is None):
            return Cut(failures.from_error(_document(data)))
        elif kind == "keepalive":
            out.append(_PING)
        elif kind not in OURS_TO_TELL:
            self._stage(kind, event, data, out)
        return None

    def _stage(self, kind: str, event: StreamEvent, data: bytes, out: list[Event]) -> None:
        """How far an item of the provider's own has got, or something of which nobody here knows what it
        is."""
        item = self._output.item_of(event)
        about_none = event.item_id is None and event.output_index is None
        in_message = item is not None and item.kind == "message"
        if self._output.hole or not (about_none or in_message or self._output.is_opaque(event)):
            out.append(_UNKNOWN)
        elif not is_event_name(kind) or (about_none and not kind.startswith("response.")):
            out.append(_UNKNOWN)  # a gateway's own sign of life, or no name at all
        else:
            out.append(StageNoted(item.item_id if item is not None else "", stage_of(kind, data)))

    def _delta(self, kind: str, spelling: Spelling, event: StreamEvent, out: list[Event]) -> None:
        delta = event.delta
        if delta and not isinstance(delta, str):
            self._lose(f"{kind} without a text", msgspec.json.encode(delta), out)
        if not isinstance(delta, str) or not delta or self._output.hole:
            return
        part = self._output.growing(spelling, event, out)
        if part is None:
            why, shown = f"{kind} for a part that cannot grow", delta[:80].encode("utf-8", "replace")
            if self._output.was_told(event):
                out.append(Skipped(why, sample(shown), harmless=True))
            elif spelling.item != "reasoning":
                self._lose(why, shown, out)
            return
        part.pieces.append(delta)
        part.say(delta, out)
        self._hot = _NOTHING
        if event.item_id is not None and part.plain:
            self._hot = _HotPart(
                kind,
                event.item_id,
                event.content_index,
                event.summary_index,
                part.pieces.append,
                part.make,
                part.block,
            )

    def _lose(self, why: str, data: bytes, out: list[Event]) -> None:
        """Something could not be read that may have been content. It can still be told again."""
        out.append(Skipped(why, sample(data), harmless=True))
        self._output.hole = True
        self._hot = _NOTHING

    def _read_again(
        self, name: bytes, data: bytes, problem: Exception, out: list[Event]
    ) -> StreamEvent | LastWord | None:
        """Not an event at first sight. An error in an unknown shape still is one; else it is skipped, and
        said so."""
        if data.strip() == b"[DONE]":
            out.append(_UNKNOWN)
            return None
        if (unusual := self._unusual(data, out)) is not None:
            return unusual
        try:
            found = reread(STREAM_EVENT, data)
        except Unreadable as again:
            problem = again
        else:
            self.loose = self.loose or found.loose
            if not found.left_out:
                event: StreamEvent | None = found.value
                return event
        error = failures.error_in(_document(data))
        if error is not None:
            return Cut(failures.from_error(error))
        why = str(problem) or type(problem).__name__
        named = name.decode("utf-8", "replace")
        if isinstance(problem, msgspec.ValidationError):
            why = found.why()
            if found.value is not None and not found.lost(CONTENT):
                if why not in self._left_out:
                    self._left_out.add(why)
                    out.append(Skipped(why, sample(data), harmless=True))
                return found.value  # type: ignore[no-any-return]
            holds = found.value is not None
        else:
            holds = named in HOLDING and not is_keepalive(data)
        if holds:
            self._lose(why, data, out)
        else:
            out.append(Skipped(why, sample(data), harmless=True))
        return None

    def _unusual(self, data: bytes, out: list[Event]) -> StreamEvent | None:
        """An event that only has fields which nobody here knows, if it is one."""
        try:
            event = STREAM_EVENT.decode(data)
        except Unreadable:
            return None
        if event.type in DELTAS and not self._output.hole:
            self._fields.of_piece(data, out)
        return event

    # Facts about the reply

    def _note_start(self, response: Response, out: list[Event]) -> None:
        reply_id = response.id if isinstance(response.id, str) else ""
        model = response.model if isinstance(response.model, str) else ""
        reply_id, model = reply_id or self.reply_id, model or self._model
        if (reply_id, model) != (self.reply_id, self._model):
            self.reply_id, self._model = reply_id, model
            out.append(Started(reply_id, model))

    # Ends

    def _terminal_event(self, kind: str, event: StreamEvent, out: list[Event]) -> LastWord:
        response = event.response or Response()
        # The event says that it is over; the status may still say that it went worse than that.
        status = response.status if response.status in _WORSE else TERMINAL[kind]
        self._note_start(response, out)
        if status == "failed" and not response.error:
            response.error = event.error
        return self._terminal(status, response, kind, out)

    def _terminal(self, status: str, response: Response, by: str, out: list[Event]) -> LastWord:
        if isinstance(response.usage, dict) and response.usage:
            out.append(UsageNoted(usage_from_openai(response.usage)))
        completed = status == "completed"
        self._output.take_rest(response.output, completed, out)
        if status == "failed":
            return Cut(failures.from_error(response.error or {"message": "the response failed"}))
        if status == "cancelled":
            return Cut(failure("cancelled", "the response was cancelled at the provider"))
        if self._output.hole:
            return Cut(HOLE)
        self._output.release_held(out)
        details = response.incomplete_details
        reason = str(details.get("reason") or "") if isinstance(details, dict) else ""
        if completed and not reason:
            calls = self._output.has_pending_calls()
            out.append(FinishNoted("calls" if calls else "stop", status))
            if not calls:
                self._output.give_back(out)
        else:
            # A reason is worse than the word "completed" above it.
            out.append(FinishNoted(_REASONS.get(reason, "other"), "incomplete", reason))
        return Ended(by)


def _document(data: bytes) -> Any:
    try:
        return read_any(data)
    except Unreadable:
        return sample(data)
