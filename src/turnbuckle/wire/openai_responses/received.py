"""A client's request, read as far as it can be. `parse_request.py` is the strict reader of our own server."""

from typing import Any

from turnbuckle.vocab.messages import CallPart, Message, ReasoningPart, ResultPart, Role, TextPart
from turnbuckle.wire.loose_json import objects, plain_text, tool_specs, word
from turnbuckle.wire.protocol import ReceivedRequest

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant"}


def read_request(body: dict[str, Any]) -> ReceivedRequest:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
    return ReceivedRequest(tuple(map(_message, items)), tool_specs(body.get("tools"), "parameters"))


def _message(item: dict[str, Any]) -> Message:
    match item.get("type"):
        case "function_call" | "custom_tool_call":
            arguments = word(item.get("arguments", item.get("input")))
            return Message(
                "assistant", (CallPart(word(item.get("call_id")), word(item.get("name")), arguments),)
            )
        case "function_call_output" | "custom_tool_call_output":
            output = TextPart(plain_text(item.get("output")))
            return Message("tool", (ResultPart(word(item.get("call_id")), (output,)),))
        case "reasoning":
            return Message("assistant", (ReasoningPart(plain_text(item.get("summary"))),))
    text = plain_text(item.get("content"))
    return Message(_ROLES.get(word(item.get("role")), "user"), (TextPart(text),) if text else ())
