"""A client's request, read as far as it can be. The path says which model, and whether to stream."""

import re
from typing import Any

import msgspec

from turnbuckle.vocab.messages import CallPart, Message, Part, ReasoningPart, ResultPart, TextPart
from turnbuckle.wire.loose_json import objects, plain_text, results_first, tool_specs, word
from turnbuckle.wire.protocol import ReceivedRequest

_PATH = re.compile(r"/models/(?P<model>.+):(?P<verb>streamGenerateContent|generateContent)")


def serves(path: str) -> dict[str, Any] | None:
    found = _PATH.fullmatch(path)
    return {"model": found["model"], "stream": found["verb"] == "streamGenerateContent"} if found else None


def read_request(body: dict[str, Any]) -> ReceivedRequest:
    system = body.get("systemInstruction")
    told = plain_text(system.get("parts")) if isinstance(system, dict) else ""
    messages = [Message("system", (TextPart(told),))] if told else []
    for content in objects(body.get("contents")):
        messages += _messages(content)
    declared = [
        found for tool in objects(body.get("tools")) for found in objects(tool.get("functionDeclarations"))
    ]
    tools = (*tool_specs(declared, "parametersJsonSchema"), *tool_specs(declared, "parameters"))
    return ReceivedRequest(tuple(messages), tools)


def _messages(content: dict[str, Any]) -> list[Message]:
    """Results stand in a content of the user."""
    parts = [part for found in objects(content.get("parts")) if (part := _part(found)) is not None]
    return results_first(parts, is_model=content.get("role") == "model")


def _part(found: dict[str, Any]) -> Part | None:
    call, response = found.get("functionCall"), found.get("functionResponse")
    if isinstance(call, dict):
        arguments = msgspec.json.encode(call.get("args", {})).decode()
        return CallPart(word(call.get("id")), word(call.get("name")), arguments)
    if isinstance(response, dict):
        said = response.get("response")
        values = said.values() if isinstance(said, dict) else [said]
        text = "\n".join(value for value in values if isinstance(value, str))
        return ResultPart(word(response.get("id")) or word(response.get("name")), (TextPart(text),))
    text = word(found.get("text"))
    return ReasoningPart(text) if found.get("thought") is True else TextPart(text) if text else None
