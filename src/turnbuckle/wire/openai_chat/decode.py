"""Chat Completions: frames to events.

The terminal event. A stream has ended when a finish reason arrived and the body then ends tidily or says
`[DONE]`. Of several reasons the worse one counts. `[DONE]` alone is a cut, since relays that lost their
upstream send exactly that; so is a tidy end of the body with neither. Where a host is known to give no reason
(`bare_done`), or neither (`finishless`), that ends a reply of text, but never one with calls: nobody could
tell half of them from all.

Holes. A frame that cannot be read may have held content. Nothing behind it is shown, and the reply is cut,
unless a whole message comes in the end and heals it. Usage and reasons are read on. What had come to its
reason has no hole.

Second tellings. Some hosts end a stream with the whole message. It is settled against what was streamed: what
it has more is added, what is known is not repeated.

Blocks. The wire has none, so they are made here: a new block begins when the kind of content changes. Calls
are closed only at the end, because fragments of parallel calls interleave and some servers send the last of
them behind the finish reason.
"""

import re
from typing import Any

from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    CallClosed,
    Cut,
    Ended,
    Event,
    FieldsNoted,
    FinishNoted,
    LastWord,
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
from turnbuckle.wire.decoder import ALIVE, HOLE, EndKind
from turnbuckle.wire.openai_chat.answer_fields import UnknownFields, note_calls
from turnbuckle.wire.openai_chat.calls import CallMerger
from turnbuckle.wire.openai_chat.chunk_parts import MainChoice, error_of
from turnbuckle.wire.openai_chat.content_parts import read_part, strange_parts
from turnbuckle.wire.openai_chat.details import ReasoningDetails
from turnbuckle.wire.openai_chat.finishes import bare_end, failed_by, finish_of
from turnbuckle.wire.openai_chat.frames import (
    ARGUMENTS_PIECE,
    CHUNK,
    CONTENT,
    TEXT_PIECE,
    USUAL_CHUNK,
    ChatDelta,
    Choice,
    Chunk,
    ToolCall,
)
from turnbuckle.wire.openai_chat.open_blocks import OpenBlocks
from turnbuckle.wire.openai_chat.spellings import Spellings
from turnbuckle.wire.openai_chat.told import (
    SPELLED,
    field,
    says,
    text_in,
    thought_in,
    untold_content,
    unwrapped,
)
from turnbuckle.wire.payload import (
    Unreadable,
    is_keepalive,
    lost,
    read_any,
    read_what_fits,
    reread,
    sample,
    sample_of,
)
from turnbuckle.wire.sse import Frame
from turnbuckle.wire.think import MAY_BE_WHOLE, Piece, ThinkSplitter
from turnbuckle.wire.usage import usage_from_openai

_WHOLE_OBJECT = re.compile(rb'"object"\s*:\s*"chat\.completion"')
_PING = Alive("ping")
_LIFECYCLE = Alive("lifecycle")

_read_text, _read_arguments, _read_usual = TEXT_PIECE.decode, ARGUMENTS_PIECE.decode, USUAL_CHUNK.decode


class ChatDecoder:
    """One stream's state. See the module's text for the rules."""

    reads_arrays = False

    def __init__(self, quirks: Quirks = Quirks()) -> None:  # noqa: B008 (a frozen value)
        self.loose = False
        self.end_kind: EndKind = ""
        self._fields = UnknownFields()
        self._model = ""
        self._quirks = quirks
        self._think = ThinkSplitter(quirks.think)
        self._details = ReasoningDetails()
        self._open = OpenBlocks()
        # By no method of our own: in a cycle, all that a reply said would lie around until it is looked for.
        self._merger = CallMerger(self._open.number_call)
        self._details_block = -1
        self._spellings = Spellings()
        self._said: list[str] = []  # content as it was received
        self._arguing = False  # the last chunk was a piece of a call's arguments, and nothing else
        self._looked_at = 0  # how much of it the splitter knows
        self._by_delta = False
        self._extra: dict[str, Any] | None = None  # state of the delta itself that has found no call yet
        self._choices = MainChoice()
        self._hole = False
        self._left_out: set[str] = set()
        self._names: set[bytes] = set()  # under which chunks came
        self._finish: FinishNoted | None = None
        self._native = ""

    def frames(self, batch: list[Frame], out: list[Event]) -> LastWord | None:
        append, keep, known = out.append, self._said.append, self._merger.at_index
        text, main = self._plain_text(), self._choices.number
        for name, data in batch:
            if data is None:
                append(ALIVE[name])
                continue
            if self._arguing:
                # The same for one more piece of a call's arguments.
                try:
                    (choice,) = _read_arguments(data).choices
                except Unreadable:
                    self._arguing = False
                else:
                    (more,) = choice.delta.tool_calls
                    call, piece = known.get(more.index), more.function.arguments
                    if call is not None and piece and (choice.index == main or choice.index is None):
                        call.pieces.append(piece)
                        append(CallArgs(call.block, piece))
                        continue
            elif text >= 0:
                # The token's way: one more piece of the open text, and nothing else.
                try:
                    (said,) = _read_text(data).choices
                except Unreadable:
                    pass
                else:
                    piece = said.delta.content
                    if (
                        piece
                        and "<" not in piece
                        and "◁" not in piece
                        and (said.index == main or said.index is None)
                    ):
                        keep(piece)
                        append(TextDelta(text, piece))
                        continue
            last = self._take_frame(name, data, out)
            if last is not None:
                return last
            text, main = self._plain_text(), self._choices.number
        return None

    def _take_frame(self, name: bytes, data: bytes, out: list[Event]) -> LastWord | None:
        """Any chunk but the usual piece of text."""
        if data == b"[DONE]":
            return self._ended(out, "[DONE]")
        chunk: Chunk
        try:
            chunk = _read_usual(data)
        except Unreadable as problem:
            chunk_or_last = self._read_again(name, data, problem, out)
            if not isinstance(chunk_or_last, Chunk):
                return chunk_or_last
            chunk = chunk_or_last
        choices = chunk.choices
        if choices is not None and len(choices) == 1 and chunk.usage is None and chunk.error is None:
            choice = choices[0]
            delta = choice.delta
            if (
                delta is not None
                and delta.tool_calls is not None
                and not delta.content
                and choice.finish_reason is None
                and (choice.index == self._choices.number or choice.index is None)
                and self._merger.goes_on(delta, delta.tool_calls, out)
            ):
                self._arguing = True
                return None
        return self._take_chunk(name, chunk, data, out)

    def _plain_text(self) -> int:
        """The block that plain text goes to without another look; -1 if there is none at present."""
        plain = self._open.reasoning < 0 and self._think.plain and self._model and not self._hole
        return self._open.text if plain else -1

    def _take_chunk(self, name: bytes, chunk: Chunk, data: bytes, out: list[Event]) -> LastWord | None:
        choices = chunk.choices
        if chunk.usage or not choices or choices[0].finish_reason or not self._model:
            self._fields.look(chunk, data, self._choices.number, out)
        before = len(out)
        if not (self._open.reply_id and self._model) and (chunk.id is not None or chunk.model):
            self._note_start(chunk, out)
        if choices:
            self._names.add(name)
            for choice in self._choices.heard(choices):
                self._take_choice(choice, data, out)
        if chunk.usage or chunk.x_groq:
            self._note_usage(chunk, out)
        if chunk.error or chunk.base_resp or chunk.x_groq or choices is None or name == b"error":
            last = error_of(name, chunk, data)
            if last is not None:
                return last
        if len(out) == before:
            out.append(_PING if choices else _LIFECYCLE)
        return None

    def answer(self, document: object, out: list[Event]) -> LastWord:
        error = failures.error_in(document)
        if error is not None:
            return Cut(failures.from_error(error))
        document = unwrapped(document)
        answer, left_out = read_what_fits(Chunk, document)
        if answer is None or lost(left_out, CONTENT):
            return Cut(failure("garbage", "not a chat completion", said=sample_of(document)))
        note_calls(answer, document)
        choice = next(iter(self._choices.heard(answer.choices or [])), None)
        message = (choice.message or choice.delta) if choice is not None else None
        if choice is None or message is None:
            return Cut(failure("garbage", "an answer without choices", said=sample_of(document)))
        self._note_start(answer, out)
        self._fields.note(document, self._choices.number, 0, out)
        self._take_delta(message, out)
        self._note_finish(choice, out)
        self._note_usage(answer, out)
        return self._ended(out, "answer")

    def end(self, out: list[Event]) -> LastWord:
        if self._finish is not None:
            return self._ended(out, "finish_reason")
        if self._quirks.finishless and not self._merger.calls and not self._hole:
            return Ended("end of body")  # but nothing says that a block, or what is held back, is whole
        return Cut(failures.incomplete("the stream ended without a finish reason and without [DONE]"))

    def cut(self, out: list[Event]) -> None:
        """Nothing: what is held back could have become something else."""

    def _take_choice(self, choice: Choice, data: bytes, out: list[Event]) -> None:
        delta, message = choice.delta, choice.message
        if message is not None and (delta is None or not says(delta)):
            if self._by_delta or _WHOLE_OBJECT.search(data):
                self._settle(message, out)
            else:
                self._take_delta(message, out)  # some hosts have no other name for a delta
        elif delta is not None:
            if choice.finish_reason and says(delta) and _WHOLE_OBJECT.search(data):
                self._settle(delta, out)
            else:
                self._by_delta = self._by_delta or says(delta)
                self._take_delta(delta, out)
        if choice.finish_reason or choice.native_finish_reason:
            self._note_finish(choice, out)

    def _take_delta(self, delta: ChatDelta, out: list[Event]) -> None:
        if delta.role == "tool" or self._hole:
            return  # what a provider's own tool found (MiniMax's search); not the model's words
        content = delta.content
        if delta.reasoning_content or delta.reasoning or delta.thinking or delta.reasoning_details:
            self._take_reasoning(delta, out)
            if content:
                self._take_content(content, out, beside=True)
        elif content:
            self._take_content(content, out)
        if delta.tool_calls:
            self._release_held(out)  # no tag goes on behind a call, and the order is kept
            self._open.leave()
            for place, found in enumerate(delta.tool_calls):
                self._merger.fragment(found, place, out)
        if delta.function_call is not None:
            self._merger.fragment(ToolCall(index=0, function=delta.function_call), 0, out)
        if delta.extra_content or self._extra:
            self._sign(delta.extra_content, out)
        if delta.refusal:
            self._open.refuse(delta.refusal, out)

    def _take_content(self, content: str | list[Any], out: list[Event], *, beside: bool = False) -> None:
        if not isinstance(content, str):
            self._take_parts(content, out)
            return
        think = self._think
        self._said.append(content)
        if think.plain and "<" not in content and "◁" not in content:
            self._open.say(content, out, beside=beside)
            return
        for passed in self._said[self._looked_at : -1]:
            think.count_code(passed)  # it did not come this way
        self._looked_at = len(self._said)
        self._take_split(think.feed(content), out, beside)

    def _take_split(self, pieces: list[Piece], out: list[Event], beside: bool) -> None:
        for kind, text in pieces:
            if kind == "text":
                self._open.say(text, out, beside=beside)
            else:
                self._open.think(self._spellings.fresh("tags", text), out, beside=beside)

    def _take_parts(self, parts: list[Any], out: list[Event]) -> None:
        for part in parts:
            kind, text, beside = read_part(part)
            if kind == "thought":
                self._open.think(self._spellings.fresh("parts", text), out, beside=False)
                if beside:
                    out.append(FieldsNoted("message", {"content": [beside]}))
            elif kind == "refusal":
                self._open.refuse(text, out)
            elif kind == "strange":
                self._take_strange(beside, out)
            elif text:
                self._take_marked(text, beside, out)

    def _take_marked(self, text: str, beside: dict[str, Any], out: list[Event]) -> None:
        """Words, and what stands beside them in their part."""
        cited = beside.pop("annotations", None)
        if beside:
            self._release_held(out)
            out.append(FieldsNoted("piece", beside))
        self._take_content(text, out)
        if beside:
            self._release_held(out)
            out.append(FieldsNoted("piece", {}))  # what follows is another part
        if cited is not None:
            out.append(FieldsNoted("message", {"annotations": cited}))

    def _take_strange(self, part: dict[str, Any], out: list[Event]) -> None:
        self._release_held(out)
        self._open.put(part, out)

    def _take_reasoning(self, delta: ChatDelta, out: list[Event]) -> None:
        told = {name: text for name in SPELLED if (text := thought_in(getattr(delta, name)))}
        if delta.reasoning_details and (text := self._details.add(delta.reasoning_details)):
            told["reasoning_details"] = text
        # The same text often stands in several places; it is one reasoning.
        spellings, beside = self._spellings, bool(delta.content)
        lead = spellings.lead if spellings.lead in told else next(iter(told), "")
        for name in sorted(told, key=lambda name: name != lead):
            fresh = spellings.fresh(name, told[name], beside=name != lead)
            self._open.think(fresh, out, beside=beside)
        if self._details and self._details_block < 0:
            self._details_block = self._open.begin_thought(out)

    def _release_held(self, out: list[Event]) -> None:
        self._take_split(self._think.end(), out, beside=False)

    def _sign(self, found: Any, out: list[Event]) -> None:
        """Gemini's signature on the delta itself: it belongs to the first call that has none, now or
        later."""
        if isinstance(found, dict) and found:
            self._extra = {**(self._extra or {}), **found}
        call = next((call for call in self._merger.calls if not call.signed), None)
        if self._extra and call is not None:
            self._merger.sign(call, {"extra_content": self._extra}, out)
            self._extra = None

    # A second telling

    def _settle(self, message: ChatDelta, out: list[Event]) -> None:
        """The whole message, behind what was streamed of it or instead of that."""
        known = self._open
        if not (self._said or known.thoughts or self._merger.calls or known.refusal >= 0 or known.strange):
            self._hole = False
            self._take_delta(message, out)
            return
        if message.role == "tool":
            return
        had_hole, self._hole = self._hole, False
        reasoning = next((text for name in SPELLED if (text := thought_in(getattr(message, name)))), "")
        more = reasoning.removeprefix("".join(known.thoughts))
        rest = untold_content(message.content, "".join(self._said), self._quirks.think)
        if rest is None and message.content:
            told = sample(text_in(message.content).encode("utf-8", "replace"))
            out.append(Skipped("the whole message differs from its pieces", told, harmless=True))
        self._hole = had_hole and rest is None
        untold = ChatDelta(
            content=rest,
            reasoning_content=more if len(more) < len(reasoning) or not known.thoughts else None,
            reasoning_details=None if self._details else message.reasoning_details,
            refusal=message.refusal if known.refusal < 0 else None,
            extra_content=message.extra_content,
        )
        strange = [] if self._hole else list(strange_parts(message.content))[known.strange :]
        self._take_delta(untold, out)
        for part in strange:
            self._take_strange(part, out)
        if message.tool_calls and not self._hole:
            self._release_held(out)
            self._open.leave()
            self._merger.settle(message.tool_calls, out)
            self._sign(None, out)

    # Facts about the reply

    def _note_start(self, chunk: Chunk, out: list[Event]) -> None:
        known = self._open.reply_id
        reply_id = known or (str(chunk.id or "") if isinstance(chunk.id, (str, int)) else "")
        model = self._model or (chunk.model if isinstance(chunk.model, str) else "")
        if (reply_id, model) != (known, self._model):
            self._open.reply_id, self._model = reply_id, model
            out.append(Started(reply_id, model))

    def _note_finish(self, choice: Choice, out: list[Event]) -> None:
        noted, self._native = finish_of(choice, self._native)
        if noted is not None:
            self._finish = worse(self._finish, noted)
            out.append(noted)

    def _note_usage(self, chunk: Chunk, out: list[Event]) -> None:
        found = chunk.usage or field(chunk.x_groq, "usage")
        if isinstance(found, dict) and found:
            out.append(UsageNoted(usage_from_openai(found)))

    # Ends

    def _ended(self, out: list[Event], by: str) -> LastWord:
        finish = self._finish.finish if self._finish is not None else None
        if finish == "failed":
            return Cut(failed_by(self._finish))
        if by == "[DONE]" and finish is None:
            known = self._quirks.bare_done or self._quirks.finishless
            if not self._merger.calls and not self._hole:
                self.end_kind = bare_end(self._said)
            if self._merger.calls or not known:
                return Cut(failure("no_reason", "the stream ended by [DONE] alone, without a finish reason"))
        elif finish is not None:
            self.end_kind = "reason"
        if self._hole:
            return Cut(HOLE)
        self._release_held(out)
        if finish in MAY_BE_WHOLE and not self._merger.calls and self._open.refusal < 0:
            answer = self._think.unclosed  # then there is no other text
            if answer.strip():
                self._open.say(answer, out, beside=False)
        if self._extra and self._open.text >= 0:
            out.append(StateNoted(self._open.text, {"extra_content": self._extra}))
        if self._details:
            out.append(StateNoted(self._details_block, {"reasoning_details": self._details.whole()}))
        self._open.close(out)
        # A reason to stop does not close an open object: it may lie, and some servers send the rest behind
        # it.
        for call in self._merger.calls:
            if not call.is_cut():
                out.append(CallClosed(call.block))
        return Ended(by)

    def _read_again(
        self, name: bytes, data: bytes, problem: Exception, out: list[Event]
    ) -> Chunk | LastWord | None:
        """Not a chunk at first sight: the end mark, an error in an unknown shape, or something to skip and
        say so."""
        if data.strip() == b"[DONE]":
            return self._ended(out, "[DONE]")
        if (unusual := self._fields.unusual(data, self._choices.number, out)) is not None:
            return unusual
        try:
            found = reread(CHUNK, data)
        except Unreadable as again:
            if name == b"error":
                return Cut(failures.from_error(sample(data)))
            self._skip(
                str(again) or type(again).__name__, data, out, harmless=self._holds_nothing(name, data)
            )
            return None
        self.loose = self.loose or found.loose
        if found.left_out:
            error = failures.error_in(read_any(data))
            if error is not None or (name == b"error" and found.value is None):
                return Cut(failures.from_error(error or sample(data)))
            why = found.why()
            if found.lost(CONTENT) or why not in self._left_out:
                self._left_out.add(why)  # once for each field, since some hosts get it wrong in every chunk
                self._skip(why, data, out, harmless=not found.lost(CONTENT))
        chunk: Chunk | None = found.value
        return chunk

    def _skip(self, why: str, data: bytes, out: list[Event], *, harmless: bool) -> None:
        harmless = harmless or (self._finish is not None and not self._merger.calls)
        out.append(Skipped(why, sample(data), harmless))
        if not harmless:
            self._hole = True
            self._merger.at_index.clear()  # so that no fragment takes the short way

    def _holds_nothing(self, name: bytes, data: bytes) -> bool:
        """Whether what cannot be read is surely none of our chunks: a keepalive, or an event of another
        name."""
        return is_keepalive(data) or name not in (b"", b"message", *self._names)
