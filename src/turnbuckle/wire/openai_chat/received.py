"""A client's request, read as far as it can be. `parse_request.py` is the strict reader of our own server."""

from typing import Any

from turnbuckle.vocab.messages import CallPart, Message, Part, ResultPart, Role, TextPart
from turnbuckle.wire.loose_json import objects, plain_text, tool_specs, word
from turnbuckle.wire.protocol import ReceivedRequest

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant"}


def read_request(body: dict[str, Any]) -> ReceivedRequest:
    messages = tuple(_message(item) for item in objects(body.get("messages")))
    return ReceivedRequest(messages, tool_specs(body.get("tools"), "parameters"))


def _message(item: dict[str, Any]) -> Message:
    text = plain_text(item.get("content"))
    if item.get("role") == "tool":
        return Message("tool", (ResultPart(word(item.get("tool_call_id")), (TextPart(text),)),))
    parts: list[Part] = [TextPart(text)] if text else []
    for call in objects(item.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            arguments = word(function.get("arguments"))
            parts.append(CallPart(word(call.get("id")), word(function.get("name")), arguments))
    return Message(_ROLES.get(word(item.get("role")), "user"), tuple(parts))
