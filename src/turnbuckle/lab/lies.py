"""Small falsehoods, made by changing what an honest encoder wrote: bytes in, bytes out."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import Protocol
from turnbuckle.wire import sse

WORDS: dict[Protocol, dict[str, str]] = {
    "openai_chat": {"calls": "tool_calls", "filtered": "content_filter", "window": "length", "failed": "error"},
    "openai_responses": {
        "stop": "completed",
        "calls": "completed",
        "length": "max_output_tokens",
        "filtered": "content_filter",
    },
    "anthropic": {
        "stop": "end_turn",
        "calls": "tool_use",
        "length": "max_tokens",
        "refused": "refusal",
        "filtered": "refusal",
        "paused": "pause_turn",
        "window": "model_context_window_exceeded",
    },
}
"""Our words for a finish in the protocol's, where they differ. Any other word goes out as it is."""

_RESPONSE_STATUSES = ("completed", "failed", "in_progress", "cancelled", "queued", "incomplete")
_RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CHARACTER = "漢".encode()


def lie_about_finish(protocol: Protocol, data: bytes, said: str | None) -> bytes:
    """Put another word, or none, where the reason to stop stands. Takes a document or frames."""
    change = _CHANGES[protocol]
    if said is not None:
        said = WORDS[protocol].get(said, said)

    if data[:1] == b"{":
        value = msgspec.json.decode(data)
        change(value, said)
        return msgspec.json.encode(value)
    frames = data.split(b"\n\n")
    for place, frame in enumerate(frames):
        head, marker, document = frame.partition(b"data: ")
        if document[:1] == b"{":
            value = msgspec.json.decode(document)
            before = value.get("type", "")
            change(value, said)
            head = head.replace(before.encode(), value.get("type", "").encode())
            frames[place] = head + marker + msgspec.json.encode(value)
    return b"\n\n".join(frames)


def without_terminal(data: bytes) -> bytes:
    """Everything but the last frame."""
    return b"".join(frame + b"\n\n" for frame in data.split(b"\n\n")[:-2])


def half_a_character(frame: bytes) -> bytes:
    """The frame up to the middle of its first character of three bytes."""
    frame = frame.replace(b"\\u6f22", _CHARACTER)
    return frame[: frame.index(_CHARACTER) + 2]


def error_frame(said: Failure, shape: Literal["flat", "nested", "failed"], number: int) -> bytes:
    """The two shapes of an error in a Responses stream that are not a failed response."""
    error: dict[str, Any] = {"code": said.code or None, "message": said.message, "param": None}
    if shape == "flat":
        event: dict[str, Any] = {"type": "error", **error, "sequence_number": number}
    else:
        event = {"type": "error", "sequence_number": number, "error": {"type": said.kind, **error}}
    return sse.frame(msgspec.json.encode(event), "error")


def _change_chat(value: dict[str, Any], said: str | None) -> None:
    for choice in value.get("choices") or ():
        if choice.get("finish_reason") is not None:
            choice["finish_reason"] = said


def _change_anthropic(value: dict[str, Any], said: str | None) -> None:
    holder = value.get("delta", value)
    if "stop_reason" in holder:
        holder["stop_reason"] = said


def _change_responses(value: dict[str, Any], said: str | None) -> None:
    response = value.get("response", value)
    if "output" not in response:
        return
    if said is None or said in _RESPONSE_STATUSES:
        response["status"] = said
        response["incomplete_details"] = None
    else:
        response["status"] = "incomplete"
        response["incomplete_details"] = {"reason": said}
    if value.get("type") in _RESPONSE_ENDS and said is not None:
        value["type"] = f"response.{response['status']}"


_CHANGES: dict[Protocol, Callable[[dict[str, Any], str | None], None]] = {
    "openai_chat": _change_chat,
    "openai_responses": _change_responses,
    "anthropic": _change_anthropic,
}
