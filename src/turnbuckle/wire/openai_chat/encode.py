"""Events to Chat Completions, in the form that no known client trips over.

One kind of payload per chunk; role, id and name exactly once; finish reasons only from the five known words;
a failure is an error event and never a normal finish.
"""

from typing import Any

import msgspec

from turnbuckle.vocab.events import (
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
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
    worse,
)
from turnbuckle.vocab.failure import Failure, FailureKind
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyReasoning
from turnbuckle.wire.openai_chat.chunks import ChunkWriter
from turnbuckle.wire.protocol import Encoding
from turnbuckle.wire.sse import DONE, frame
from turnbuckle.wire.usage import usage_to_chat

_FINISHES: dict[Finish, str] = {
    "stop": "stop",
    "length": "length",
    "calls": "tool_calls",
    "filtered": "content_filter",
    "refused": "content_filter",
    "window": "length",
}
_ERROR_TYPES: dict[FailureKind, str] = {
    "auth": "authentication_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "billing": "insufficient_quota",
    "invalid": "invalid_request_error",
    "context": "invalid_request_error",
    "too_large": "invalid_request_error",
    "pairing": "invalid_request_error",
    "unsupported": "invalid_request_error",
    "filtered": "invalid_request_error",
}
_json = msgspec.json.encode


class _OpenCall:
    __slots__ = ("index", "name", "waiting", "written")

    def __init__(self, index: int) -> None:
        self.index = index
        self.name = ""  # as far as it is written; a call begins with its name
        self.waiting: list[str] = []  # arguments that came before the name
        self.written = False


class ChatEncoder:
    """`open` once, then `event` for each event; the bytes are whole frames."""

    def __init__(self, reply_id: str, model: str, created: int) -> None:
        self._chunks = ChunkWriter(reply_id, model, created, usage=True)
        self._calls: dict[int, _OpenCall] = {}
        self._finish: FinishNoted | None = None
        self._usage: Usage | None = None

    def open(self) -> bytes:
        return self._chunks.role()

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta(_, text):
                return self._chunks.text(text)
            case CallArgs(block, text):
                return self._arguments(block, text)
            case ReasoningDelta(_, text):
                return self._chunks.reasoning(text)
            case RefusalDelta(_, text):
                return self._chunks.refusal(text)
            case CallStarted(block, call_id, name) | CallNamed(block, call_id, name):
                return self._call(block, call_id, name)
            case CallRewritten(block, arguments):
                if self._calls[block].written:
                    raise ValueError("arguments that were written cannot be taken back")
                return self._arguments(block, arguments)
            case CallClosed(block):
                # Clients parse what they joined, and nothing at all is not JSON.
                return b"" if self._calls[block].written else self._arguments(block, "{}")
            case StateNoted(block, data):
                return self._state(block, data)
            case FinishNoted():
                self._finish = worse(self._finish, event)
            case UsageNoted(usage):
                self._usage = usage
            case Ended():
                return self._end()
            case Cut(failure):
                return frame(_json(error_body(failure)))
            case _:
                pass  # the wire has no word for it
        return b""

    def _call(self, block: int, call_id: str, name: str) -> bytes:
        call = self._calls.setdefault(block, _OpenCall(len(self._calls)))
        if call.name:
            return self._rest_of_name(call, name)
        if not name:
            return b""
        call.name = name
        begun = self._chunks.call(call.index, call_id, name)
        waiting, call.waiting = call.waiting, []
        return begun + (self._arguments(block, "".join(waiting)) if waiting else b"")

    def _rest_of_name(self, call: _OpenCall, name: str) -> bytes:
        """More of a name that came in pieces. Clients append it, as they do with arguments."""
        rest = name.removeprefix(call.name) if name.startswith(call.name) else ""
        call.name += rest
        return self._chunks.fragment({"index": call.index, "function": {"name": rest}}) if rest else b""

    def _arguments(self, block: int, text: str) -> bytes:
        call = self._calls[block]
        if not call.name:
            call.waiting.append(text)
            return b""
        call.written = True
        return self._chunks.arguments(call.index, text)

    def _state(self, block: int, data: dict[str, Any]) -> bytes:
        call = self._calls.get(block)
        if call is not None and (kept := _call_state(data)):
            return self._chunks.fragment({"index": call.index, "function": {"arguments": ""}, **kept})
        if "reasoning_details" in data:
            return self._chunks.delta(b'"reasoning_details":' + _json(data["reasoning_details"]))
        return b""

    def _end(self) -> bytes:
        finish = self._finish.finish if self._finish is not None else None
        written = self._chunks.finish(finish_word(finish, bool(self._calls)))
        if self._usage is not None:
            written += self._chunks.usage(self._usage)
        return written + DONE


def finish_word(finish: Finish | None, has_calls: bool) -> str:
    """One of the five words that clients know."""
    if finish in (None, "stop", "calls"):
        return "tool_calls" if has_calls else "stop"
    return _FINISHES.get(finish, "stop")


def answer(reply: Reply, *, created: int) -> dict[str, Any]:
    """A whole reply as a plain answer. Usage is always there: some clients fall over without it."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": reply.refusal or None,
    }
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    details = [
        detail
        for block in reply.blocks
        if isinstance(block, ReplyReasoning) and block.state
        for detail in block.state.get("reasoning_details", [])
    ]
    if details:
        message["reasoning_details"] = details
    if reply.calls:
        message["tool_calls"] = [_plain_call(call) for call in reply.calls]
    elif message["content"] is None and not reply.refusal:
        message["content"] = ""
    word = finish_word(reply.finish, bool(reply.calls))
    return {
        "id": reply.id,
        "object": "chat.completion",
        "created": created,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": word}],
        "usage": usage_to_chat(reply.usage or Usage()),
    }


def _plain_call(call: ReplyCall) -> dict[str, Any]:
    if (call.state or {}).get("type") == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    made: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments or "{}"},
    }
    return {**made, **_call_state(call.state or {})}


def _call_state(data: dict[str, Any]) -> dict[str, Any]:
    """The state of a call that this wire has a place for."""
    return {key: data[key] for key in ("extra_content", "thoughtSignature") if key in data}


def error_body(failure: Failure) -> dict[str, Any]:
    """The OpenAI error shape: also what stands in a stream when it fails after its first byte."""
    return {
        "error": {
            "message": failure.message,
            "type": _ERROR_TYPES.get(failure.kind, "server_error"),
            "param": failure.param or None,
            "code": failure.code or failure.kind,
        }
    }


def _relabel(document: dict[str, Any], said: str | None) -> None:
    for choice in document.get("choices") or ():
        if choice.get("finish_reason") is not None:
            choice["finish_reason"] = said


ENCODING = Encoding(
    stream=ChatEncoder,
    answer=answer,
    error_body=error_body,
    relabel=_relabel,
    finish_words={
        "calls": "tool_calls",
        "filtered": "content_filter",
        "window": "length",
        "failed": "error",
    },
)
