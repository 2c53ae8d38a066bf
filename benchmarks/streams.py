"""Long, realistic streams in each protocol, made of frames as the real providers send them."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from turnbuckle.vocab.ids import ProtocolName

WORDS = (
    "the quick brown fox jumps over a lazy dog while seven wizards box and zebras quietly watch them go "
).split()


def words(count: int) -> list[str]:
    """Always the same ones, in an order that does not repeat itself: a model that goes round in circles is
    stopped."""
    chosen = random.Random(1).choices(WORDS, k=count)
    return [word + (". " if at % 17 == 16 else " ") for at, word in enumerate(chosen)]


def argument_pieces(characters: int) -> list[str]:
    """The argument text of one `write_file`, in pieces of about four characters, as models stream it."""
    content = "".join(words(characters // 5 + 1))[:characters]
    text = json.dumps({"path": "notes/report.md", "content": content})
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def _data(payload: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def _named(payload: dict[str, Any]) -> bytes:
    return b"event: " + str(payload["type"]).encode() + b"\n" + _data(payload)


def _chat(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _data(
        {
            "id": "chatcmpl-CkQv3mJ5l1oXh2",
            "object": "chat.completion.chunk",
            "created": 1794000000,
            "model": "gpt-5.4-2026-03-05",
            "service_tier": "default",
            "system_fingerprint": "fp_4c2851f862",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
            "usage": None,
            "obfuscation": "k3ZxQp",
        }
    )


def chat_text(pieces: Iterable[str]) -> Iterator[bytes]:
    yield _chat({"role": "assistant", "content": "", "refusal": None})
    for piece in pieces:
        yield _chat({"content": piece})
    yield _chat({}, "stop")
    yield b"data: [DONE]\n\n"


def chat_arguments(pieces: Iterable[str]) -> Iterator[bytes]:
    function = {"name": "write_file", "arguments": ""}
    call = {"index": 0, "id": "call_u1", "type": "function", "function": function}
    yield _chat({"role": "assistant", "content": None, "tool_calls": [call]})
    for piece in pieces:
        yield _chat({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield _chat({}, "tool_calls")
    yield b"data: [DONE]\n\n"


def _anthropic(blocks: dict[str, Any], deltas: Iterable[dict[str, Any]], stop: str) -> Iterator[bytes]:
    usage = {
        "input_tokens": 25,
        "output_tokens": 1,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    message: dict[str, Any] = {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield _named({"type": "message_start", "message": message})
    yield _named({"type": "content_block_start", "index": 0, "content_block": blocks})
    for delta in deltas:
        yield _named({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _named({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": stop, "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": 2000}})
    yield _named({"type": "message_stop"})


def anthropic_text(pieces: Iterable[str]) -> Iterator[bytes]:
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return _anthropic({"type": "text", "text": ""}, deltas, "end_turn")


def anthropic_arguments(pieces: Iterable[str]) -> Iterator[bytes]:
    block = {"type": "tool_use", "id": "toolu_01A", "name": "write_file", "input": {}}
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return _anthropic(block, deltas, "tool_use")


class _Responses:
    """Numbers the events; the response object grows to what strict clients check."""

    def __init__(self) -> None:
        self.sequence = -1

    def event(self, kind: str, **fields: Any) -> bytes:
        self.sequence += 1
        return _named({"type": kind, "sequence_number": self.sequence, **fields})

    def response(self, status: str, output: list[Any]) -> dict[str, Any]:
        usage = {
            "input_tokens": 25,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 2000,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2025,
        }
        return {
            "id": "resp_68a1",
            "object": "response",
            "created_at": 1794000000,
            "status": status,
            "model": "gpt-5.4-2026-03-05",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage if status == "completed" else None,
        }


def responses_text(pieces: Iterable[str]) -> Iterator[bytes]:
    made = _Responses()
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
    item |= {"status": "in_progress", "content": []}
    yield made.event("response.created", response=made.response("in_progress", []))
    yield made.event("response.in_progress", response=made.response("in_progress", []))
    yield made.event("response.output_item.added", output_index=0, item=item)
    yield made.event("response.content_part.added", **where, part=part)
    kept = []
    for piece in pieces:
        kept.append(piece)
        yield made.event(
            "response.output_text.delta", **where, delta=piece, logprobs=[], obfuscation="k3ZxQp"
        )
    part = {**part, "text": "".join(kept)}
    item = {**item, "status": "completed", "content": [part]}
    yield made.event("response.output_text.done", **where, text=part["text"], logprobs=[])
    yield made.event("response.content_part.done", **where, part=part)
    yield made.event("response.output_item.done", output_index=0, item=item)
    yield made.event("response.completed", response=made.response("completed", [item]))


def responses_arguments(pieces: Iterable[str]) -> Iterator[bytes]:
    made = _Responses()
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "write_file", "arguments": ""}
    yield made.event("response.created", response=made.response("in_progress", []))
    yield made.event("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
    kept = []
    for piece in pieces:
        kept.append(piece)
        yield made.event(
            "response.function_call_arguments.delta",
            item_id="fc_1",
            output_index=0,
            delta=piece,
            obfuscation="k3ZxQp",
        )
    item = {**item, "arguments": "".join(kept), "status": "completed"}
    yield made.event(
        "response.function_call_arguments.done", item_id="fc_1", output_index=0, arguments=item["arguments"]
    )
    yield made.event("response.output_item.done", output_index=0, item=item)
    yield made.event("response.completed", response=made.response("completed", [item]))


def gemini_text(pieces: Iterable[str]) -> Iterator[bytes]:
    named = {"modelVersion": "gemini-3-flash", "responseId": "r1"}
    for piece in pieces:
        content = {"parts": [{"text": piece}], "role": "model"}
        usage = {"promptTokenCount": 9, "totalTokenCount": 9}
        yield _data({"candidates": [{"content": content, "index": 0}], "usageMetadata": usage, **named})
    yield _data({"candidates": [{"finishReason": "STOP", "index": 0}], **named})


TEXT: dict[ProtocolName, Callable[[Iterable[str]], Iterator[bytes]]] = {
    "openai_chat": chat_text,
    "openai_responses": responses_text,
    "anthropic": anthropic_text,
    "gemini": gemini_text,
}
ARGUMENTS: dict[ProtocolName, Callable[[Iterable[str]], Iterator[bytes]]] = {
    "openai_chat": chat_arguments,
    "openai_responses": responses_arguments,
    "anthropic": anthropic_arguments,
}
