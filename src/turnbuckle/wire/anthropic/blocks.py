"""The content blocks of one message: begun, grown and closed, each under a number of our own.

The wire's `index` is the block's place in the final content, and blocks come one after another. Gateways
reuse indexes, leave out starts and stops, or repeat them, so the index only finds the block that is open
there now. The three maps (`texts`, `thoughts`, `calls`: index to number, and where to keep the piece) hold
what takes plain deltas; the dialect reads them itself, because every streamed token passes there. All else
comes through `delta`. A text is in `texts` only while nothing of it is held back and no tag is open in it,
since inline reasoning becomes blocks of its own.

Second tellings. A text or thought that starts again at its index, open or stopped, is held back while it
says the same (`Echo`): equal is dropped and said so, more is added, anything else is a block of its own. So
it goes with deltas behind a start that brought text, if that is more than a short word. Equal text under
another index is kept, since a model may say it twice. Equal calls are put together by the reply.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallStarted,
    Event,
    OpaqueBlock,
    ReasoningDelta,
    Skipped,
    StageNoted,
    StateNoted,
)
from turnbuckle.wire.answer_fields import shallow, unknown_fields
from turnbuckle.wire.anthropic.frames import AnthropicDelta
from turnbuckle.wire.anthropic.retold import Echo, is_telling
from turnbuckle.wire.loose_json import whole_number
from turnbuckle.wire.payload import SAMPLE, mend_all, sample_of, whole_text
from turnbuckle.wire.text_blocks import Speech, TextBlocks
from turnbuckle.wire.think import Mode

UNPARSED = "_unparsed_input"
"""Marks a provider's own call whose input is not JSON. Never sent back."""

_ALIVE = Alive("lifecycle")
_TAKES = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    "call": ("input_json_delta",),
    "opaque": ("input_json_delta", "compaction_delta"),
}
_CONTENT = ("text_delta", "thinking_delta", "input_json_delta")
_TEXT_FIELDS = frozenset({"type", "text", "citations"})
_THOUGHT_FIELDS = frozenset({"type", "thinking", "signature"})
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})
TOLD = {"text": "text", "thinking": "thinking"}  # kinds that are told in words, and the field that has them

Place = tuple[int, Callable[[str], None]]
"""The number of a block, and what keeps its pieces."""


class OpenBlock:
    """A block between its start and its stop. `data` is what will be its state, or all of it if it is
    opaque. A negative number: it may be a second telling, and nobody has heard of it yet."""

    __slots__ = (
        "call_id",
        "citations",
        "data",
        "echo",
        "given",
        "kind",
        "name",
        "number",
        "pieces",
        "spoken",
    )

    def __init__(self, number: int, kind: str, data: dict[str, Any]) -> None:
        self.number = number
        self.kind = kind
        self.data = data
        self.call_id = self.name = ""
        self.given: Any = None  # a call's input that came whole, in its start
        self.pieces: list[str] = []  # text, thought or input as it came
        self.echo: Echo | None = None
        self.citations: list[Any] = []
        self.spoken: TextBlocks | None = None  # of a text


class Blocks:
    """All blocks of one message."""

    def __init__(self, think: Mode = "auto") -> None:
        self.reply_id = ""
        self.called = False  # a call began
        self.begun = 0  # blocks of the provider
        self.lost = False  # something that may have been content: nothing behind it is taken
        self.texts: dict[int | None, Place] = {}
        self.thoughts: dict[int | None, Place] = {}
        self.calls: dict[int | None, Place] = {}
        self.every: list[OpenBlock] = []
        self.open: dict[int, OpenBlock] = {}
        self._closed: dict[int, OpenBlock] = {}  # the last one at each index
        self._speech = Speech(think, self._next_number)
        self._numbers = 0
        self._latest = 0

    @property
    def has_open_text(self) -> bool:
        return any(block.kind == "text" for block in self.open.values())

    def lose(self, why: str, sample: str, out: list[Event]) -> None:
        """Something could not be read that may have been content."""
        out.append(Skipped(why, sample))
        self.lost = True
        self.texts.clear()
        self.thoughts.clear()
        self.calls.clear()

    def give_back(self, out: list[Event]) -> None:
        """The message ended properly: if it has no text, reasoning that was never closed is its text."""
        self._speech.give_back(out)

    # Beginning

    def start(self, given: Any, found: dict[str, Any] | None, out: list[Event]) -> None:
        """A `content_block_start`, or a block of a plain answer."""
        if self.lost:
            out.append(_ALIVE)
            return
        kind = found.get("type") if found else None
        if not found or not isinstance(kind, str):
            if found:
                self.lose("a content block without a type", sample_of(found), out)
            else:
                out.append(Skipped("a content block without a type", "", harmless=True))
            return
        found, index = shallow(found), whole_number(given)
        if index is None:
            index = self._latest + 1 if self._numbers else 0
        if self._is_repeated(index, kind, found, out) or self._may_be_retold(index, kind, found, out):
            out.append(_ALIVE)
            return
        self._start_new(index, kind, found, out)

    def _start_new(self, index: int, kind: str, found: dict[str, Any], out: list[Event]) -> None:
        self._speech.release(out)
        self._forget(index)
        self._latest = index
        match kind:
            case "text":
                self._start_text(index, found, out)
            case "thinking" | "redacted_thinking":
                self._start_thought(index, kind, found, out)
            case "tool_use":
                self._start_call(index, found, out)
            case _:
                block = self._begin(index, "opaque", dict(found))
                out.append(OpaqueBlock(block.number, block.data))

    def _start_text(self, index: int, found: dict[str, Any], out: list[Event]) -> None:
        block = self._begin(index, "text", {})
        spoken = block.spoken = TextBlocks(block.number, self._speech)
        out.append(BlockStarted(block.number, "text"))
        if beside := unknown_fields(found, _TEXT_FIELDS):
            out.append(StateNoted(block.number, beside))
        if text := _text(found.get("text")):
            self._say(index, block, spoken, text, out)
            self._expect_again(index, block, text)
        if isinstance(found.get("citations"), list):
            block.citations.extend(found["citations"])

    def _start_thought(self, index: int, kind: str, found: dict[str, Any], out: list[Event]) -> None:
        block = self._begin(index, "thinking", {name: found[name] for name in found if name != "thinking"})
        self.thoughts[index] = block.number, block.pieces.append
        out.append(BlockStarted(block.number, "reasoning"))
        if kind == "redacted_thinking" or found.get("signature") or unknown_fields(found, _THOUGHT_FIELDS):
            out.append(StateNoted(block.number, block.data))
        if text := _text(found.get("thinking")):
            block.pieces.append(text)
            out.append(ReasoningDelta(block.number, text))
            self._expect_again(index, block, text)

    def _start_call(self, index: int, found: dict[str, Any], out: list[Event]) -> None:
        block = self._begin(index, "call", {name: found[name] for name in found if name not in _CALL_FIELDS})
        self.called = True
        block.call_id, block.name = _text(found.get("id")), _text(found.get("name"))
        call_id = block.call_id or f"call_{self.reply_id or 'reply'}_{block.number}"
        out.append(CallStarted(block.number, call_id, block.name))
        if block.data:
            out.append(StateNoted(block.number, block.data))
        if found.get("input"):
            block.given = found["input"]  # stands only if no delta comes
        else:
            self.calls[index] = block.number, block.pieces.append

    def _begin(self, index: int, kind: str, data: dict[str, Any]) -> OpenBlock:
        self.begun += 1
        block = self.open[index] = OpenBlock(self._next_number(), kind, data)
        self.every.append(block)
        self._closed.pop(index, None)
        return block

    def add(self, found: dict[str, Any], out: list[Event]) -> None:
        """A whole block behind all others."""
        index = max((*self.open, *self._closed, -1)) + 1
        self.start(index, found, out)
        self.stop(index, out)

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers - 1

    # Beginning again

    def _is_repeated(self, index: int, kind: str, found: dict[str, Any], out: list[Event]) -> bool:
        """The same start again, while its block is open. Its deltas may come again from the top."""
        block = self.open.get(index)
        if block is None:
            return False
        match block.kind:
            case "text" | "thinking":
                if kind != block.kind or block.number < 0:
                    return False
                told, known = _text(found.get(kind)), "".join(block.pieces)
                if not told.startswith(known) and told:
                    return False
                block.echo = None
                if more := told[len(known) :]:
                    self.tell(index, block, more, out)
                self._expect_again(index, block, told or known)
                return True
            case "call":
                return kind == "tool_use" and bool(block.call_id) and found.get("id") == block.call_id
        return found == block.data

    def _expect_again(self, index: int, block: OpenBlock, text: str) -> None:
        if is_telling(text):
            block.echo = Echo(text)
            self.texts.pop(index, None)
            self.thoughts.pop(index, None)

    def _may_be_retold(self, index: int, kind: str, found: dict[str, Any], out: list[Event]) -> bool:
        """A text or thought begins where one has stopped: hold it back while it says the same."""
        earlier = self._closed.get(index)
        known = "".join(earlier.pieces) if earlier is not None and earlier.kind == kind in TOLD else ""
        if not known:
            return False
        block = OpenBlock(-1, kind, dict(found))
        block.echo = Echo(known)
        self.open[index] = block
        self._latest = index
        told = _text(found.get(kind))
        if told and (more := block.echo.fresh(told)):
            self._begin_held(index, block, more, out)
        elif block.echo.heard:
            block.echo = Echo(known)  # and its deltas may say it once more
        return True

    def _begin_held(self, index: int, block: OpenBlock, text: str, out: list[Event]) -> None:
        """It was no second telling, or has more than the first."""
        self._start_new(index, block.kind, {**block.data, TOLD[block.kind]: ""}, out)
        self.open[index].citations.extend(block.citations)
        self.tell(index, self.open[index], text, out)

    def end_echo(self, index: int, block: OpenBlock, out: list[Event]) -> None:
        """Nothing follows: half an echo is none."""
        if block.echo is not None and (held := block.echo.held()):
            block.echo = None
            if block.number < 0:
                self._begin_held(index, block, held, out)
            else:
                self.tell(index, block, held, out)

    # Growing

    def delta(self, given: Any, delta: AnthropicDelta | None, out: list[Event]) -> None:
        """A delta that is not plain text, thought or arguments of a block that is open for it."""
        if delta is None or self.lost:
            out.append(_ALIVE)
            return
        index = whole_number(given)
        if index is None:
            index = self._latest
        kind = delta.type or _type_of(delta)
        block = self.open.get(index)
        if block is None and index not in self._closed:
            block = self._start_unannounced(index, kind, delta, out)
        if block is not None and block.kind == "opaque" and kind not in _TAKES["opaque"]:
            self._grow_opaque(block, delta, out)
            return
        if block is None or kind not in _TAKES[block.kind]:
            self._refuse(index, kind, delta, out)
            return
        before = len(out)
        match kind:
            case "text_delta" if delta.text:
                self.tell(index, block, delta.text, out)
            case "thinking_delta" if delta.thinking or delta.signature:
                if delta.thinking:
                    self.tell(index, block, delta.thinking, out)
                if delta.signature:  # some gateways put it here
                    self._sign(self.open[index], delta.signature, out)
            case "input_json_delta" if delta.partial_json:
                self._grow_input(index, block, delta.partial_json, out)
            case "signature_delta" if delta.signature:
                self._sign(block, delta.signature, out)
            case "citations_delta":
                block.citations.append(delta.citation)
            case "compaction_delta":
                block.data = {**block.data, "content": delta.content}
                if delta.encrypted_content is not None:
                    block.data["encrypted_content"] = delta.encrypted_content
        if len(out) == before:
            out.append(_ALIVE)

    def _grow_opaque(self, block: OpenBlock, delta: AnthropicDelta, out: list[Event]) -> None:
        """A delta that we know in a block that we do not: it is the provider's own business."""
        told = {
            name: value for name in delta.__struct_fields__ if (value := getattr(delta, name)) is not None
        }
        for name in ("text", "thinking"):
            if isinstance(told.get(name), str) and isinstance(block.data.get(name), str):
                block.data = {**block.data, name: block.data[name] + told[name]}
        out.append(StageNoted(str(block.number), {"type": "content_block_delta", "delta": told}))

    def strange(self, given: Any, delta: dict[str, Any], out: list[Event]) -> None:
        """A delta of a kind that nobody here knows."""
        index = whole_number(given)
        block = self.open.get(self._latest if index is None else index)
        if block is None or block.number < 0 or self.lost:
            out.append(Alive("unknown"))
            return
        number = block.spoken.text if block.spoken is not None else block.number
        out.append(StageNoted(str(number), {"type": "content_block_delta", "delta": delta}))

    def tell(self, index: int, block: OpenBlock, text: str, out: list[Event]) -> None:
        """More of a text or thought, unless it is an echo."""
        echo = block.echo
        if echo is not None:
            text = echo.fresh(text)
            if echo.heard and block.number >= 0:
                out.append(Skipped(f"block {index} was told again", "", harmless=True))
            if text and block.number < 0:
                self._begin_held(index, block, text, out)
                return
            if block.number >= 0 and (text or echo.heard):
                block.echo = None
            if not text:
                return
        if block.spoken is not None:
            self._say(index, block, block.spoken, text, out)
        else:
            block.pieces.append(text)
            self.thoughts[index] = block.number, block.pieces.append
            out.append(ReasoningDelta(block.number, text))

    def _say(self, index: int, block: OpenBlock, spoken: TextBlocks, text: str, out: list[Event]) -> None:
        block.pieces.append(text)
        spoken.take(text, out)
        if spoken.plain:
            self.texts[index] = spoken.text, block.pieces.append
        else:
            self.texts.pop(index, None)

    def _sign(self, block: OpenBlock, signature: str, out: list[Event]) -> None:
        block.data = {**block.data, "signature": signature}  # the last one counts
        if block.number >= 0:
            out.append(StateNoted(block.number, block.data))

    def _grow_input(self, index: int, block: OpenBlock, text: str, out: list[Event]) -> None:
        block.pieces.append(text)
        if block.kind == "call":
            block.given = None
            self.calls[index] = block.number, block.pieces.append
            out.append(CallArgs(block.number, text))

    def _start_unannounced(
        self, index: int, kind: str, delta: AnthropicDelta, out: list[Event]
    ) -> OpenBlock | None:
        """Text and thoughts can do without their start. A call cannot: its id and name were in it."""
        if kind == "text_delta" and delta.text:
            self.start(index, {"type": "text"}, out)
        elif (kind == "thinking_delta" and delta.thinking) or (kind == "signature_delta" and delta.signature):
            self.start(index, {"type": "thinking"}, out)
        return self.open.get(index)

    def _refuse(self, index: int, kind: str, delta: AnthropicDelta, out: list[Event]) -> None:
        lost = delta.text or delta.thinking or delta.partial_json
        if lost and kind == "thinking_delta":
            out.append(
                Skipped(f"{kind} for block {index}, which is not open for it", lost[:SAMPLE], harmless=True)
            )
        elif lost and kind in _CONTENT:
            self.lose(f"{kind} for block {index}, which is not open for it", lost[:SAMPLE], out)
        else:
            out.append(Alive("unknown"))

    # Closing

    def stop(self, given: Any, out: list[Event]) -> None:
        """A `content_block_stop`, or the end of a block of a plain answer."""
        if self.lost:
            out.append(_ALIVE)
            return
        index = whole_number(given)
        if index is None:
            index = self._latest
        block = self.open.get(index)
        if block is not None:
            self.end_echo(index, block, out)
            block = self.open[index]
        if block is None:
            out.append(_ALIVE)  # a stop that is repeated, or of a block that never began
            return
        self._forget(index)
        if block.number < 0:
            out.append(Skipped(f"block {index} was told again", "", harmless=True))
            return
        self._closed[index] = block
        match block.kind:
            case "call":
                if block.given is not None:
                    block.pieces.append(argument_text(block.given))
                    out.append(CallArgs(block.number, block.pieces[-1]))
                out.append(CallClosed(block.number))
                return
            case "opaque":
                if not self._finish_opaque(block, out):
                    return
            case "text" if block.spoken is not None:
                block.spoken.release(out)
                if block.citations:
                    out.append(StateNoted(block.spoken.text, {"citations": block.citations}))
                block.spoken.close(out)
                return
        out.append(BlockClosed(block.number))

    def release_held(self, out: list[Event]) -> None:
        """The message has ended: what was held back is not a tag. The blocks stay open."""
        for index, block in list(self.open.items()):
            self.end_echo(index, block, out)
        for block in self.open.values():
            if block.spoken is not None:
                block.spoken.release(out)

    def _finish_opaque(self, block: OpenBlock, out: list[Event]) -> bool:
        """Say the block again, now whole. Not so if its input cannot be read: then it stays open."""
        data, whole = block.data, True
        if block.pieces:
            text = whole_text("".join(block.pieces))
            judged = judge(text)
            whole = judged.status == "whole"
            data = {**data, "input": judged.value} if whole else {**data, UNPARSED: text}
        block.data = data
        out.append(OpaqueBlock(block.number, data))
        return whole

    def _forget(self, index: int) -> None:
        self.open.pop(index, None)
        self.texts.pop(index, None)
        self.thoughts.pop(index, None)
        self.calls.pop(index, None)


def _type_of(delta: AnthropicDelta) -> str:
    """What a delta without a type must be, by its fields."""
    if delta.text is not None:
        return "text_delta"
    if delta.partial_json is not None:
        return "input_json_delta"
    return "thinking_delta" if delta.thinking is not None else ""


def argument_text(given: Any) -> str:
    return given if isinstance(given, str) else msgspec.json.encode(mend_all(given)).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
