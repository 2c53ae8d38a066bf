"""Events to Messages, in the form that no known client trips over.

A call is started as soon as it has a name, since clients show it; state that is noted later has no place on
this wire. A thought waits for its first delta, state or close, because a secret one begins differently, and a
block that only its provider understands waits until it is whole; the next block's beginning ends the wait, so
that starts are in the order of their indexes. A call is stopped only by `CallClosed`; text and thoughts also
by the end of the reply. A failure is an error event and never a normal end. Refusals go as text: their own
word here is the reason to stop.
"""

from typing import Any

import msgspec

from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallRewritten,
    CallStarted,
    Cut,
    Ended,
    Event,
    Finish,
    FinishNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
    worse,
)
from turnbuckle.vocab.failure import Failure, FailureKind
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyOpaque, ReplyReasoning, ReplyText
from turnbuckle.wire.anthropic.frames import FINISHES
from turnbuckle.wire.protocol import Encoding
from turnbuckle.wire.request_parts import object_of
from turnbuckle.wire.sse import frame
from turnbuckle.wire.usage import usage_to_anthropic

_WORDS: dict[Finish, str] = {**{finish: word for word, finish in FINISHES.items()}, "filtered": "refusal"}
_ERROR_TYPES: dict[FailureKind, str] = {
    "auth": "authentication_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "billing": "billing_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
    "stalled": "timeout_error",
    "too_large": "request_too_large",
    "invalid": "invalid_request_error",
    "context": "invalid_request_error",
    "pairing": "invalid_request_error",
    "unsupported": "invalid_request_error",
    "filtered": "invalid_request_error",
    "unstreamable": "invalid_request_error",
}
CALL_STATE = ("caller", "toolset_name")
"""What a call carries beside its name and input."""
_DELTAS = {
    "text": b'"text_delta","text":',
    "thinking": b'"thinking_delta","thinking":',
    "call": b'"input_json_delta","partial_json":',
}
_BEFORE = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":%b'
_json = msgspec.json.encode


class _WrittenBlock:
    __slots__ = ("closed", "data", "index", "kind", "waiting")

    def __init__(self, kind: str, data: dict[str, Any]) -> None:
        self.kind = kind
        self.data = data  # of its start
        self.index = -1  # not started
        self.waiting: list[str] = []  # arguments that came before the name
        self.closed = False


class AnthropicEncoder:
    """`open` once, then `event` for each event; the bytes are whole frames. The wire has no date for
    `created`."""

    def __init__(self, reply_id: str, model: str, created: int = 0) -> None:
        self._reply_id = reply_id
        self._model = model
        self._blocks: dict[int, _WrittenBlock] = {}
        self._begun: dict[int, bytes] = {}  # what precedes a text of a block that has started
        self._bare: set[int] = set()  # calls that have started, without arguments so far
        self._starts = 0
        self._finish: FinishNoted | None = None
        self._usage: Usage | None = None

    def open(self) -> bytes:
        message: dict[str, Any] = {
            "id": self._reply_id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_to_anthropic(Usage()),
        }
        return _event("message_start", {"message": message})

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta(block, text):
                prefix = self._begun.get(block)
                return prefix + _json(text) + b"}}\n\n" if prefix else self._first_delta(block, "text", text)
            case CallArgs(block, text):
                self._bare.discard(block)
                prefix = self._begun.get(block)
                return prefix + _json(text) + b"}}\n\n" if prefix else self._first_delta(block, "call", text)
            case ReasoningDelta(block, text):
                prefix = self._begun.get(block)
                return (
                    prefix + _json(text) + b"}}\n\n" if prefix else self._first_delta(block, "thinking", text)
                )
            case FinishNoted():
                self._finish = worse(self._finish, event)
            case UsageNoted(usage):
                self._usage = usage
            case Alive("ping"):
                return _event("ping", {})
            case Ended():
                return self._end()
            case Cut(failure):
                return frame(_json(error_body(failure)), "error")
            case _:
                return self._block_event(event)
        return b""

    # Blocks

    def _block_event(self, event: Event) -> bytes:
        match event:
            case BlockStarted(block, kind):
                if kind == "reasoning":
                    return self._announce(block, "thinking")
                return self._announce(block, "text") + self._start(block)
            case RefusalDelta(block, text):
                prefix = self._begun.get(block)
                return prefix + _json(text) + b"}}\n\n" if prefix else self._first_delta(block, "text", text)
            case CallStarted(block, call_id, name) | CallNamed(block, call_id, name):
                return self._call(block, call_id, name)
            case CallRewritten(block, arguments):
                return self._rewrite(block, arguments)
            case StateNoted(block, data):
                return self._state(block, data)
            case OpaqueBlock(block, data):
                return self._opaque(block, data)
            case BlockClosed(block) | CallClosed(block):
                return self._close(block)
            case _:
                return b""  # the wire has no word for it

    def _announce(self, number: int, kind: str) -> bytes:
        """A block is known; it waits for its facts. Those before it have waited long enough."""
        if number in self._blocks:
            return b""
        written = self._start_waiting()
        self._blocks[number] = _WrittenBlock(kind, _start_of(kind))
        return written

    def _start_waiting(self) -> bytes:
        waiting = [number for number, block in self._blocks.items() if block.index < 0]
        return b"".join(self._start(number) for number in waiting)

    def _start(self, number: int) -> bytes:
        block = self._blocks[number]
        if block.index >= 0 or (block.kind == "call" and not block.data["name"]):
            return b""
        block.index = self._starts
        self._starts += 1
        written = _event("content_block_start", {"index": block.index, "content_block": block.data})
        if block.kind in _DELTAS:
            prefix = self._begun[number] = _BEFORE % (block.index, _DELTAS[block.kind])
            if block.waiting:
                written += prefix + _json("".join(block.waiting)) + b"}}\n\n"
                block.waiting = []
            elif block.kind == "call":
                self._bare.add(number)
        return written

    def _first_delta(self, number: int, kind: str, text: str) -> bytes:
        written = self._announce(number, kind)
        block = self._blocks[number]
        block.waiting.append(text)
        return written + self._start(number)

    def _call(self, number: int, call_id: str, name: str) -> bytes:
        written = self._announce(number, "call")
        block = self._blocks[number]
        if block.index < 0:
            block.data = {**block.data, "id": call_id, "name": name}
        return written + self._start(number)

    def _rewrite(self, number: int, arguments: str) -> bytes:
        block = self._blocks[number]
        if block.index < 0:
            block.waiting = [arguments]
            return b""
        if number not in self._bare:
            raise ValueError("arguments that were written cannot be taken back")
        return self.event(CallArgs(number, arguments))

    def _state(self, number: int, data: dict[str, Any]) -> bytes:
        written = self._announce(number, "thinking")
        block = self._blocks[number]
        match block.kind:
            case "thinking" if data.get("type") == "redacted_thinking" and block.index < 0:
                block.data = data
            case "thinking" if data.get("signature"):
                written += self._start(number)
                written += self._rare_delta(
                    block, {"type": "signature_delta", "signature": data["signature"]}
                )
            case "text" if data.get("citations"):
                written += self._start(number)
                for citation in data["citations"]:
                    written += self._rare_delta(block, {"type": "citations_delta", "citation": citation})
        return written

    def _rare_delta(self, block: _WrittenBlock, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", {"index": block.index, "delta": delta})

    def _opaque(self, number: int, data: dict[str, Any]) -> bytes:
        written = self._announce(number, "opaque")
        self._blocks[number].data = data
        return written

    def _close(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None or block.closed:
            return b""
        written = self._start(number)
        if block.index < 0:
            return b""  # a call that never got a name
        block.closed = True
        self._begun.pop(number, None)
        return written + _event("content_block_stop", {"index": block.index})

    # Ends

    def _end(self) -> bytes:
        written = self._start_waiting()
        written += b"".join(
            self._close(number)
            for number, block in self._blocks.items()
            if block.kind in ("text", "thinking")
        )
        has_calls = any(block.kind == "call" for block in self._blocks.values())
        usage = usage_to_anthropic(self._usage or Usage())
        written += _event("message_delta", {"delta": _stop(self._finish, has_calls), "usage": usage})
        return written + _event("message_stop", {})


def finish_word(finish: Finish | None, said: str, has_calls: bool) -> str:
    """One of the reasons that clients know."""
    if finish not in (None, "stop", "calls"):
        return _WORDS.get(finish, "end_turn")
    if has_calls:
        return "tool_use"
    return "stop_sequence" if said == "stop_sequence" else "end_turn"


def answer(reply: Reply, *, created: int = 0) -> dict[str, Any]:
    """A whole reply as a plain answer. The wire has no date for `created`."""
    finish = (
        FinishNoted(reply.finish, reply.finish_said, reply.finish_detail)
        if reply.finish is not None
        else None
    )
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [_plain_block(block) for block in reply.blocks],
        **_stop(finish, bool(reply.calls)),
        "usage": usage_to_anthropic(reply.usage or Usage()),
    }


def error_body(failure: Failure) -> dict[str, Any]:
    """The Messages error shape: also what stands in a stream when it fails after its first byte."""
    error = {"type": _ERROR_TYPES.get(failure.kind, "api_error"), "message": failure.message}
    return {"type": "error", "error": error, "request_id": failure.request_id or None}


def _stop(finish: FinishNoted | None, has_calls: bool) -> dict[str, Any]:
    said, detail = (finish.said, finish.detail) if finish is not None else ("", "")
    word = finish_word(finish.finish if finish is not None else None, said, has_calls)
    made: dict[str, Any] = {"stop_reason": word, "stop_sequence": None}
    if word == "stop_sequence":
        made["stop_sequence"] = detail or None
    elif word == "refusal":
        made["stop_details"] = {"type": "refusal", "category": None, "explanation": detail or None}
    return made


def _plain_block(block: ReplyBlock) -> dict[str, Any]:
    match block:
        case ReplyText(text, _, state):
            citations = (state or {}).get("citations")
            return {"type": "text", "text": text, **({"citations": citations} if citations else {})}
        case ReplyReasoning(text, _, state):
            state = state or {}
            if state.get("type") == "redacted_thinking":
                return state
            return {"type": "thinking", "thinking": text, "signature": state.get("signature", "")}
        case ReplyCall(call_id, name, arguments, _, state):
            call = {"type": "tool_use", "id": call_id, "name": name, "input": object_of(arguments)}
            return call | {key: state[key] for key in CALL_STATE if state and key in state}
        case ReplyOpaque(data):
            return data
        case _:
            return {"type": "text", "text": block.text}


def _start_of(kind: str) -> dict[str, Any]:
    match kind:
        case "text":
            return {"type": "text", "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case _:
            return {"type": "tool_use", "id": "", "name": "", "input": {}}


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return frame(_json({"type": kind, **fields}), kind)


def _relabel(document: dict[str, Any], said: str | None) -> None:
    holder = document.get("delta", document)
    if "stop_reason" in holder:
        holder["stop_reason"] = said


ENCODING = Encoding(
    stream=AnthropicEncoder,
    answer=answer,
    error_body=error_body,
    relabel=_relabel,
    finish_words={**_WORDS, "stop": "end_turn"},
)
