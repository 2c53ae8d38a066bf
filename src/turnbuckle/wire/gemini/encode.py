"""Events to Gemini's chunks.

A call is one part, so it waits until it is closed; one that never is does not appear. The reason to stop and
the usage are the last chunk. A failure is an error object, and nothing follows it.
"""

from typing import Any

import msgspec

from turnbuckle.vocab.arguments import judge
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
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyOpaque, ReplyReasoning
from turnbuckle.wire.protocol import Encoding
from turnbuckle.wire.sse import frame
from turnbuckle.wire.usage import usage_to_gemini

_WORDS: dict[Finish, str] = {
    "stop": "STOP",
    "calls": "STOP",
    "length": "MAX_TOKENS",
    "window": "MAX_TOKENS",
    "filtered": "SAFETY",
    "refused": "STOP",
    "malformed": "MALFORMED_FUNCTION_CALL",
    "failed": "OTHER",
    "other": "OTHER",
}
_ERRORS: dict[FailureKind, tuple[int, str]] = {
    "auth": (401, "UNAUTHENTICATED"),
    "permission": (403, "PERMISSION_DENIED"),
    "billing": (402, "FAILED_PRECONDITION"),
    "not_found": (404, "NOT_FOUND"),
    "rate_limited": (429, "RESOURCE_EXHAUSTED"),
    "overloaded": (503, "UNAVAILABLE"),
    "timeout": (504, "DEADLINE_EXCEEDED"),
    "stalled": (504, "DEADLINE_EXCEEDED"),
    "cancelled": (499, "CANCELLED"),
    "too_large": (413, "INVALID_ARGUMENT"),
    "invalid": (400, "INVALID_ARGUMENT"),
    "context": (400, "INVALID_ARGUMENT"),
    "pairing": (400, "INVALID_ARGUMENT"),
    "unsupported": (400, "INVALID_ARGUMENT"),
    "unstreamable": (400, "INVALID_ARGUMENT"),
}
_json = msgspec.json.encode


class _GatheredCall:
    __slots__ = ("call_id", "name", "pieces", "state")

    def __init__(self) -> None:
        self.call_id = self.name = ""
        self.pieces: list[str] = []
        self.state: dict[str, Any] = {}


class GeminiEncoder:
    """`open` once, then `event` for each event; the bytes are whole frames. The wire has no date for
    `created`."""

    def __init__(self, reply_id: str, model: str, created: int = 0) -> None:
        self._named = {"modelVersion": model, "responseId": reply_id}
        self._calls: dict[int, _GatheredCall] = {}
        self._finish: FinishNoted | None = None
        self._usage: Usage | None = None

    def open(self) -> bytes:
        return self._parts({"text": ""})

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta(_, text) | RefusalDelta(_, text):
                return self._parts({"text": text})
            case ReasoningDelta(_, text):
                return self._parts({"text": text, "thought": True})
            case CallStarted(block, call_id, name) | CallNamed(block, call_id, name):
                call = self._calls.setdefault(block, _GatheredCall())
                call.call_id, call.name = call_id, name
            case CallArgs(block, text):
                self._calls.setdefault(block, _GatheredCall()).pieces.append(text)
            case CallRewritten(block, arguments):
                self._calls.setdefault(block, _GatheredCall()).pieces = [arguments]
            case StateNoted(block, data):
                return self._state(block, data)
            case CallClosed(block):
                return self._close(block)
            case OpaqueBlock(_, data):
                return self._parts(data)
            case FinishNoted():
                self._finish = worse(self._finish, event)
            case UsageNoted(usage):
                self._usage = usage
            case Cut(failure):
                return frame(_json(error_body(failure)))
            case Ended():
                return self._end()
            case _:
                pass  # the wire has no word for it
        return b""

    def _state(self, block: int, data: dict[str, Any]) -> bytes:
        if block in self._calls:
            self._calls[block].state.update(data)
            return b""
        signature = data.get("thoughtSignature")
        return self._parts({"text": "", "thoughtSignature": signature}) if signature else b""

    def _close(self, block: int) -> bytes:
        call = self._calls.pop(block, None)
        if call is None or not call.name:
            return b""
        return self._parts(_call_part(call.call_id, call.name, "".join(call.pieces), call.state))

    def _parts(self, *parts: dict[str, Any]) -> bytes:
        content = {"role": "model", "parts": list(parts)}
        return frame(_json({"candidates": [{"content": content, "index": 0}], **self._named}))

    def _end(self) -> bytes:
        content: dict[str, Any] = {"role": "model", "parts": [{"text": ""}]}
        candidate = {"content": content, **_stop(self._finish), "index": 0}
        usage = {"usageMetadata": usage_to_gemini(self._usage)} if self._usage is not None else {}
        return frame(_json({"candidates": [candidate], **usage, **self._named}))


def answer(reply: Reply, *, created: int = 0) -> dict[str, Any]:
    """A whole reply as a plain answer. The wire has no date for `created`."""
    finish = (
        FinishNoted(reply.finish, reply.finish_said, reply.finish_detail)
        if reply.finish is not None
        else None
    )
    content = {"role": "model", "parts": [_plain_part(block) for block in reply.blocks]}
    return {
        "candidates": [{"content": content, **_stop(finish), "index": 0}],
        "usageMetadata": usage_to_gemini(reply.usage or Usage()),
        "modelVersion": reply.model,
        "responseId": reply.id,
    }


def error_body(failure: Failure) -> dict[str, Any]:
    """Google's error shape, in a stream and as a body."""
    code, status = _ERRORS.get(failure.kind, (500, "INTERNAL"))
    error: dict[str, Any] = {"code": failure.status or code, "message": failure.message, "status": status}
    if failure.code:
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": failure.code}
        error["details"] = [reason]
    return {"error": error}


def _stop(finish: FinishNoted | None) -> dict[str, Any]:
    made: dict[str, Any] = {"finishReason": _WORDS.get(finish.finish, "STOP") if finish else "STOP"}
    if finish is not None and finish.detail:
        made["finishMessage"] = finish.detail
    return made


def _plain_part(block: ReplyBlock) -> dict[str, Any]:
    if isinstance(block, ReplyCall):
        return _call_part(block.id, block.name, block.arguments, block.state or {})
    if isinstance(block, ReplyOpaque):
        return block.data
    state = getattr(block, "state", None) or {}
    signed = {"thoughtSignature": state["thoughtSignature"]} if state.get("thoughtSignature") else {}
    thought = {"thought": True} if isinstance(block, ReplyReasoning) else {}
    return {"text": block.text, **thought, **signed}


def _call_part(call_id: str, name: str, arguments: str, state: dict[str, Any]) -> dict[str, Any]:
    """A double sends arguments that are not an object as the text that they are."""
    value = judge(arguments).value
    args = arguments if value is None else value
    made: dict[str, Any] = {"functionCall": {"id": call_id, "name": name, "args": args}}
    if state.get("thoughtSignature"):
        made["thoughtSignature"] = state["thoughtSignature"]
    return made


def _relabel(document: dict[str, Any], said: str | None) -> None:
    for candidate in document.get("candidates") or ():
        if candidate.get("finishReason") is not None:
            candidate["finishReason"] = said


ENCODING = Encoding(
    stream=GeminiEncoder, answer=answer, error_body=error_body, relabel=_relabel, finish_words=_WORDS
)
