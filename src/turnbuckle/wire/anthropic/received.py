"""A client's request, read as far as it can be."""

from typing import Any

import msgspec

from turnbuckle.vocab.messages import CallPart, Message, Part, ReasoningPart, ResultPart, TextPart
from turnbuckle.wire.loose_json import objects, plain_text, results_first, tool_specs, word
from turnbuckle.wire.protocol import ReceivedRequest


def read_request(body: dict[str, Any]) -> ReceivedRequest:
    system = plain_text(body.get("system"))
    messages = [Message("system", (TextPart(system),))] if system else []
    for item in objects(body.get("messages")):
        messages += _messages(item)
    return ReceivedRequest(tuple(messages), tool_specs(body.get("tools"), "input_schema"))


def _messages(item: dict[str, Any]) -> list[Message]:
    """Results stand in a user's message here, in front of what the user says."""
    content = item.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    parts = [part for block in blocks if (part := _part(block)) is not None]
    return results_first(parts, is_model=item.get("role") == "assistant")


def _part(block: dict[str, Any]) -> Part | None:
    match block.get("type"):
        case "text":
            return TextPart(word(block.get("text")))
        case "tool_use":
            arguments = msgspec.json.encode(block.get("input")).decode()
            return CallPart(word(block.get("id")), word(block.get("name")), arguments)
        case "tool_result":
            return ResultPart(word(block.get("tool_use_id")), (TextPart(plain_text(block.get("content"))),))
        case "thinking" | "redacted_thinking":
            return ReasoningPart(word(block.get("thinking")))
    return None
