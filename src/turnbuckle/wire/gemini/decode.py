"""Gemini: chunks to events.

The terminal event. There is none but the reason to stop: a stream has ended when one arrived (or the prompt
was blocked) and the body then ends tidily. Some models give a reason in every chunk, so nothing ends before
the body does. Of several reasons the worse one counts. A body that ends without one is cut.

Blocks. The wire has only parts. Texts behind each other are one block, thoughts likewise. A part with a
signature is a block of its own, since it must go back exactly as it came, neither joined nor split; a
signature on an empty text is a block without words. A call is one part, whole or not there at all.

Second tellings. Some relays end a stream with one chunk that holds the whole reply. It is settled against
what was streamed. A call that comes again under its id is the same call.

Holes. A chunk that cannot be read may have held content: nothing behind it is shown, and the reply is cut.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallStarted,
    Cut,
    Ended,
    Event,
    FieldsNoted,
    FinishNoted,
    LastWord,
    OpaqueBlock,
    ReasoningDelta,
    Skipped,
    Started,
    StateNoted,
    TextDelta,
    UsageNoted,
    worse,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire import failures
from turnbuckle.wire.answer_fields import shallow, unknown_fields
from turnbuckle.wire.decoder import ALIVE, HOLE, EndKind
from turnbuckle.wire.gemini.frames import (
    CONTENT,
    FINISHES,
    GEMINI_CHUNK,
    NO_REASON,
    OPAQUE,
    Candidate,
    GeminiChunk,
    GeminiPart,
)
from turnbuckle.wire.gemini.grounding import grounding_pages
from turnbuckle.wire.loose_json import whole_number, word
from turnbuckle.wire.payload import (
    Unreadable,
    is_keepalive,
    lost,
    mend_all,
    read_any,
    read_what_fits,
    reread,
    sample,
    sample_of,
)
from turnbuckle.wire.sse import Frame
from turnbuckle.wire.usage import usage_from_gemini

_PING = Alive("ping")
_LIFECYCLE = Alive("lifecycle")
_UNKNOWN = Alive("unknown")
_NAMES = (b"", b"message")
_UNREAD = GeminiPart()
_WORTH = 20
"""Characters from which a text that comes twice is the same text."""


class GeminiDecoder:
    """One stream's state. See the module's text for the rules."""

    reads_arrays = True

    def __init__(self, quirks: Quirks = Quirks()) -> None:  # noqa: B008 (a frozen value)
        self.loose = False
        self.end_kind: EndKind = ""
        self._decode = GEMINI_CHUNK.decode
        self._quirks = quirks
        self._reply_id = self._model = ""
        self._blocks = 0
        self._text = self._thought = -1  # the open block of each kind; at most one is open
        self._told: list[tuple[str, list[str]]] = []  # kinds and pieces of what came so far
        self._told_size = 0
        self._chunks = 0  # that held content
        self._call_ids: set[str] = set()
        self._called = self._hole = False
        self._main: int | None = None  # the number of the candidate that is heard
        self._left_out: set[str] = set()
        self._finish: FinishNoted | None = None

    def frames(self, batch: list[Frame], out: list[Event]) -> LastWord | None:
        decode, append = self._decode, out.append
        for name, data in batch:
            if data is None:
                append(ALIVE[name])
                continue
            try:
                chunk = decode(data)
            except Unreadable:
                chunk_or_last = self._read_again(name, data, out)
                if chunk_or_last is None:
                    continue
                if not isinstance(chunk_or_last, GeminiChunk):
                    return chunk_or_last
                chunk = chunk_or_last
            last = self._take_chunk(name, chunk, data, out)
            if last is not None:
                return last
        return None

    def answer(self, document: object, out: list[Event]) -> LastWord:
        if failures.error_in(document) is not None:
            return Cut(failures.from_error(document))
        chunk, left_out = read_what_fits(GeminiChunk, document)
        if chunk is None or lost(left_out, CONTENT):
            return Cut(failure("garbage", "not an answer of this protocol", said=sample_of(document)))
        if not chunk.candidates and not _block_reason(chunk):
            return Cut(failure("garbage", "an answer without candidates", said=sample_of(document)))
        self._take_facts(chunk, document, out)
        return self._over("answer", out)

    def end(self, out: list[Event]) -> LastWord:
        if self._finish is not None:
            return self._over("finishReason", out)
        if self._quirks.finishless and not self._called and not self._hole:
            return Ended("end of body")  # never with calls: nobody could tell half of them from all
        return Cut(failures.incomplete("the stream ended without a finishReason"))

    def cut(self, out: list[Event]) -> None:
        """Nothing: what is open stays open."""

    # Chunks

    def _take_chunk(self, name: bytes, chunk: GeminiChunk, data: bytes, out: list[Event]) -> LastWord | None:
        before = len(out)
        if chunk.error or name == b"error":
            return Cut(failures.from_error(_document(data)))
        self._take_facts(chunk, data, out)
        if len(out) == before:
            out.append(_PING if chunk.candidates else _LIFECYCLE)
        return None

    def _take_facts(self, chunk: GeminiChunk, told: object, out: list[Event]) -> None:
        """`told` is the chunk as it came."""
        self._note_start(chunk, out)
        for candidate in self._main_candidates(chunk.candidates or []):
            parts = candidate.content.parts if candidate.content is not None else None
            if parts and not self._hole and not self._is_told_again(parts, candidate):
                self._chunks += 1
                given: Any = None
                for place, part in enumerate(parts):
                    self._take_part(part, out)
                    if part == _UNREAD:
                        given = given or _parts_as_told(told, _place(candidate, chunk.candidates))
                        self._take_strange(_entry(given, place), out)
            if candidate.groundingMetadata and not self._hole:
                self._note_pages(candidate.groundingMetadata, out)
            self._note_finish(candidate, out)
        if reason := _block_reason(chunk):
            detail = word(chunk.promptFeedback.get("blockReasonMessage"))
            self._note(FinishNoted("filtered", reason, detail), out)
        if isinstance(chunk.usageMetadata, dict) and chunk.usageMetadata:
            out.append(UsageNoted(usage_from_gemini(chunk.usageMetadata)))

    def _main_candidates(self, candidates: list[Candidate]) -> list[Candidate]:
        """Requests ask for one candidate; of several the first is heard, whatever its number. This wire
        leaves out a number that is 0; one that is not a number does not lose what the candidate says."""
        if candidates and self._main is None:
            self._main = whole_number(candidates[0].index) or 0
        return [candidate for candidate in candidates if self._number(candidate) == self._main]

    def _number(self, candidate: Candidate) -> int | None:
        given = candidate.index
        if given is None:
            return 0
        number = whole_number(given)
        return self._main if number is None else number

    # Parts

    def _take_part(self, part: GeminiPart, out: list[Event]) -> None:
        if part.functionCall is not None:
            self._take_call(part, part.functionCall, out)
        elif any(getattr(part, name) is not None for name in OPAQUE):
            self._close(out)
            given = msgspec.structs.asdict(part)
            data = {name: mend_all(value) for name, value in given.items() if value is not None}
            out.append(OpaqueBlock(self._next_block(), data))
        elif part.thoughtSignature:
            self._take_signed(part, part.thoughtSignature, out)
        elif part.text:
            self._take_words(part.text, bool(part.thought), out)

    def _take_strange(self, given: object, out: list[Event]) -> None:
        """A part with nothing in it that anybody here knows, as it came."""
        if isinstance(given, dict) and (data := shallow(mend_all(unknown_fields(given, frozenset())))):
            self._close(out)
            out.append(OpaqueBlock(self._next_block(), data))

    def _take_words(self, text: str, thought: bool, out: list[Event]) -> None:
        self._tell("thought" if thought else "text", text)
        if thought:
            if self._thought < 0:
                self._close(out)
                self._thought = self._next_block()
                out.append(BlockStarted(self._thought, "reasoning"))
            out.append(ReasoningDelta(self._thought, text))
            return
        if self._text < 0:
            self._close(out)
            self._text = self._next_block()
            out.append(BlockStarted(self._text, "text"))
        out.append(TextDelta(self._text, text))

    def _take_signed(self, part: GeminiPart, signature: str, out: list[Event]) -> None:
        self._close(out)
        block, text = self._next_block(), part.text or ""
        out.append(BlockStarted(block, "reasoning" if part.thought else "text"))
        if text:
            self._tell("thought" if part.thought else "text", text)
            out.append(ReasoningDelta(block, text) if part.thought else TextDelta(block, text))
        out.append(StateNoted(block, {"thoughtSignature": signature}))
        out.append(BlockClosed(block))

    def _take_call(self, part: GeminiPart, call: dict[str, Any], out: list[Event]) -> None:
        given = word(call.get("id"))
        if call.get("partialArgs") or call.get("willContinue"):
            # Arguments in pieces come only to who asks for them, and we do not: half a call is not a call.
            self._lose("a call in pieces", sample_of(call), out)
            return
        if given and given in self._call_ids:
            out.append(_LIFECYCLE)  # told again
            return
        self._close(out)
        self._called = True
        block = self._next_block()
        arguments = _argument_text(call.get("args"))
        self._tell(*_meaning(part))
        if given:
            self._call_ids.add(given)
        call_id = given or f"call_{self._reply_id or 'reply'}_{block}"
        out.append(CallStarted(block, call_id, word(call.get("name"))))
        signature = part.thoughtSignature or word(call.get("thoughtSignature"))
        state = {**({"id": given} if given else {}), **({"thoughtSignature": signature} if signature else {})}
        if state:
            out.append(StateNoted(block, state))
        out.append(CallArgs(block, arguments))
        out.append(CallClosed(block))

    def _tell(self, kind: str, text: str) -> None:
        self._told_size += len(text)
        if kind == "call" or not self._told or self._told[-1][0] != kind:
            self._told.append((kind, []))
        self._told[-1][1].append(text)

    def _is_told_again(self, parts: list[GeminiPart], candidate: Candidate) -> bool:
        """Whether a last chunk holds all that was told before it, and nothing else. A short word may simply
        have been said twice."""
        if not candidate.finishReason or not self._told or (self._chunks < 2 and self._told_size < _WORTH):
            return False
        whole: list[tuple[str, str]] = []
        for part in parts:
            kind, text = _meaning(part)
            if kind != "call" and whole and whole[-1][0] == kind:
                whole[-1] = (kind, whole[-1][1] + text)
            elif text:
                whole.append((kind, text))
        if sum(len(text) for _, text in whole) != self._told_size:
            return False
        return whole == [(kind, "".join(pieces)) for kind, pieces in self._told]

    def _close(self, out: list[Event]) -> None:
        """Something else begins: what is open is over."""
        for block in (self._text, self._thought):
            if block >= 0:
                out.append(BlockClosed(block))
        self._text = self._thought = -1

    def _next_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    # Facts about the reply

    def _note_start(self, chunk: GeminiChunk, out: list[Event]) -> None:
        named = (self._reply_id or word(chunk.responseId), self._model or word(chunk.modelVersion))
        if named != (self._reply_id, self._model):
            self._reply_id, self._model = named
            out.append(Started(*named))

    def _note_pages(self, found: Any, out: list[Event]) -> None:
        """What it searched for, as it came, and the pages that its text refers to."""
        out.append(FieldsNoted("choice", {"groundingMetadata": mend_all(found)}))
        texts = ["".join(pieces) for kind, pieces in self._told if kind == "text"]
        if len(texts) == 1 and self._text >= 0 and (pages := grounding_pages(found, texts[0])):
            out.append(StateNoted(self._text, {"annotations": pages}))

    def _note_finish(self, candidate: Candidate, out: list[Event]) -> None:
        said = word(candidate.finishReason)
        if said and said != NO_REASON:
            finish = FINISHES.get(said.upper(), "other")
            if finish == "stop" and self._called:
                finish = "calls"  # this wire has no word of its own for it
            self._note(FinishNoted(finish, said, word(candidate.finishMessage)), out)

    def _note(self, noted: FinishNoted, out: list[Event]) -> None:
        self._finish = worse(self._finish, noted)
        out.append(noted)

    def _over(self, by: str, out: list[Event]) -> LastWord:
        if self._finish is not None:
            self.end_kind = "reason"
        if self._hole:
            return Cut(HOLE)
        self._close(out)
        return Ended(by)

    # What cannot be read

    def _read_again(self, name: bytes, data: bytes, out: list[Event]) -> GeminiChunk | LastWord | None:
        """Not a chunk at first sight: an error in an unknown shape, or something to skip and say so."""
        if data.strip() == b"[DONE]":
            out.append(_UNKNOWN)  # other protocols' word; it ends nothing
            return None
        try:
            found = reread(GEMINI_CHUNK, data)
        except Unreadable as problem:
            if name == b"error":
                return Cut(failures.from_error(sample(data)))
            why = str(problem) or type(problem).__name__
            if is_keepalive(data) or name not in _NAMES:
                out.append(Skipped(why, sample(data), harmless=True))
            else:
                self._lose(why, sample(data), out)
            return None
        self.loose = self.loose or found.loose
        if found.left_out:
            document = _document(data)
            if failures.error_in(document) is not None or name == b"error":
                return Cut(failures.from_error(document))
            why = found.why()
            if found.lost(CONTENT):
                self._lose(why, sample(data), out)
            elif why not in self._left_out:
                self._left_out.add(why)
                out.append(Skipped(why, sample(data), harmless=True))
        chunk: GeminiChunk | None = found.value
        return chunk

    def _lose(self, why: str, shown: str, out: list[Event]) -> None:
        """Something could not be read that may have been content."""
        out.append(Skipped(why, shown))
        self._hole = True


def _meaning(part: GeminiPart) -> tuple[str, str]:
    """What a part says, to be compared with a second telling."""
    if part.functionCall is not None:
        return (
            "call",
            f"{word(part.functionCall.get('name'))} {_argument_text(part.functionCall.get('args'))}",
        )
    return "thought" if part.thought else "text", part.text or ""


def _parts_as_told(told: object, candidate: int) -> Any:
    """The parts of a candidate as they came: read once for all of them."""
    document = _document(told) if isinstance(told, bytes) else told
    return _entry(_entry(_entry(_entry(document, "candidates"), candidate), "content"), "parts")


def _place(one: object, listed: Sequence[object] | None) -> int:
    return next(place for place, other in enumerate(listed or ()) if other is one)


def _entry(found: object, name: str | int) -> Any:
    """A field of what should be an object, or a place of what should be a list."""
    if isinstance(name, int):
        return found[name] if isinstance(found, list) and name < len(found) else None
    return found.get(name) if isinstance(found, dict) else None


def _block_reason(chunk: GeminiChunk) -> str:
    """Why the prompt itself was refused."""
    feedback = chunk.promptFeedback
    return word(feedback.get("blockReason")) if isinstance(feedback, dict) else ""


def _argument_text(given: Any) -> str:
    """Arguments are an object here; some relays send them as text."""
    if isinstance(given, str):
        return given
    return msgspec.json.encode(mend_all(given)).decode() if given is not None else "{}"


def _document(data: bytes) -> Any:
    try:
        return read_any(data)
    except Unreadable:
        return data.decode("utf-8", "replace")
