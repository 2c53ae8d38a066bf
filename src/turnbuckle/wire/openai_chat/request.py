"""Our request as a Chat Completions body.

The history is taken as it is (`reply.repair` has made it legal); state of other protocols stays at home.
Content that is only text goes as one string, because some servers split a list into several messages.
"""

import hashlib
from typing import Any

from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
    text_of,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, ToolSpec

_SHORT_ID = 9
_RESULTS_SEEN = "I have the results; their pictures follow."
_NO_SIGNATURE = "skip_thought_signature_validator"


def endpoint(request: ModelRequest) -> str:
    return "/chat/completions"


def headers(api_key: str, quirks: Quirks) -> dict[str, str]:
    made = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    if api_key:
        made["authorization"] = f"Bearer {api_key}"
    return made


def build(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The JSON body. Says nothing about what the request leaves open."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [made for message in request.messages for made in _messages(message, quirks)],
        "stream": request.stream,
    }
    if request.stream and quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tool_choice"] = _tool_choice(request)
        if request.parallel_calls is not None:
            body["parallel_tool_calls"] = request.parallel_calls
    optional = {
        request.cap_field or quirks.output_cap_field: request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "reasoning_effort": request.effort,
        "response_format": request.response_format,
    }
    body.update({key: value for key, value in optional.items() if value is not None})
    body.update(request.extra)
    if request.prefill:
        _go_on_behind(body, quirks)
    return body


def _go_on_behind(body: dict[str, Any], quirks: Quirks) -> None:
    """Say, as this host wants it said, that the last message is the beginning of the answer."""
    if quirks.prefill == "continue_final_message":
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False
    elif quirks.prefill in ("prefix", "partial"):
        body["messages"][-1][quirks.prefill] = True


def _messages(message: Message, quirks: Quirks) -> list[dict[str, Any]]:
    match message.role:
        case "system":
            return [{"role": quirks.system_role, "content": text_of(message.parts), **_speaker(message)}]
        case "user":
            return [{"role": "user", "content": _content(message.parts), **_speaker(message)}]
        case "assistant":
            return [_assistant(message, quirks)]
        case "tool":
            return _results(message, quirks)


def _assistant(message: Message, quirks: Quirks) -> dict[str, Any]:
    calls = [part for part in message.parts if isinstance(part, CallPart)]
    refusals = [part.text for part in message.parts if isinstance(part, RefusalPart)]
    content = text_of(message.parts) or (None if calls else "")
    made: dict[str, Any] = {"role": "assistant", "content": content, **_speaker(message)}
    if refusals:
        made["refusal"] = "".join(refusals)
    _add_reasoning(made, message, bool(calls), quirks)
    if calls:
        made["tool_calls"] = [_call(call, quirks, first=not at) for at, call in enumerate(calls)]
    return made


def _speaker(message: Message) -> dict[str, str]:
    """The name that a client gave to who speaks (`input_messages.py` keeps it with the text)."""
    names = [_own_state(part).get("name") for part in message.parts if isinstance(part, TextPart)]
    return next(({"name": name} for name in names if isinstance(name, str)), {})


def _add_reasoning(made: dict[str, Any], message: Message, has_calls: bool, quirks: Quirks) -> None:
    parts = [part for part in message.parts if isinstance(part, ReasoningPart) and not _is_foreign(part)]
    details = [detail for part in parts for detail in _own_state(part).get("reasoning_details", [])]
    if details:
        made["reasoning_details"] = details
    field = quirks.reasoning_field
    if field in ("reasoning_content", "reasoning"):
        text = "".join(part.text for part in parts)
        if text or (has_calls and quirks.reasoning_with_calls):
            made[field] = text


def _call(call: CallPart, quirks: Quirks, *, first: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        **_own_state(call),
        "id": _call_id(call.id, quirks),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments.strip() or "{}"},
    }
    if quirks.signature_fallback and first and "extra_content" not in made:
        made["extra_content"] = {"google": {"thought_signature": _NO_SIGNATURE}}
    return made


def _results(message: Message, quirks: Quirks) -> list[dict[str, Any]]:
    """One tool message per result. This wire takes only text there, so pictures follow as the user's."""
    made: list[dict[str, Any]] = []
    shown: list[Part] = []
    for part in message.parts:
        if isinstance(part, ResultPart):
            call_id = _call_id(part.call_id, quirks)
            made.append({"role": "tool", "tool_call_id": call_id, "content": text_of(part.content)})
            shown.extend(item for item in part.content if not isinstance(item, TextPart))
    if shown and not quirks.text_after_tools:
        made.append({"role": "assistant", "content": _RESULTS_SEEN})
    if shown:
        made.append({"role": "user", "content": _content(tuple(shown))})
    return made


def _content(parts: tuple[Part, ...]) -> str | list[dict[str, Any]]:
    if all(isinstance(part, TextPart) for part in parts):
        return text_of(parts)
    return [made for part in parts if (made := _content_part(part)) is not None]


def _content_part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart(url, data, media_type, detail):
            image = {"url": url or f"data:{media_type or 'image/png'};base64,{data}"}
            return {"type": "image_url", "image_url": {**image, "detail": detail} if detail else image}
        case FilePart(name, url, data, media_type, file_id):
            if file_id:
                return {"type": "file", "file": {"file_id": file_id}}
            if (
                url and not data
            ):  # this wire takes no file by its address, but the model may have a tool for it
                return {"type": "text", "text": f"{name}: {url}" if name else url}
            address = f"data:{media_type or 'application/octet-stream'};base64,{data}"
            return {"type": "file", "file": {"filename": name, "file_data": address}}
        case _:
            return None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_choice(request: ModelRequest) -> str | dict[str, Any]:
    choice = request.tool_choice
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _is_foreign(part: CallPart | ReasoningPart | TextPart) -> bool:
    return part.state is not None and part.state.protocol != "openai_chat"


def _own_state(part: CallPart | ReasoningPart | TextPart) -> dict[str, Any]:
    return {} if part.state is None or _is_foreign(part) else part.state.data


def _call_id(call_id: str, quirks: Quirks) -> str:
    """The id as this host accepts it. A short one is a digest, so call and result still agree."""
    if not quirks.short_call_ids or (len(call_id) == _SHORT_ID and call_id.isalnum()):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:_SHORT_ID]
