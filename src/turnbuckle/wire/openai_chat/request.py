"""Our request as a Chat Completions body.

The history is taken as it is (`reply.repair` has made it legal); state of other protocols stays at home.
Content that a client of this protocol sent as a list goes as that list. Any other content that is only text
goes as one string, because some servers split a list into several messages.
"""

import hashlib
from typing import Any

from turnbuckle.vocab.free_text import unwrapped
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
    own_data,
    text_of,
    words_of,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, ToolSpec
from turnbuckle.wire.protocol import Fields, OtherWords
from turnbuckle.wire.request_parts import LOGPROBS, overlay, with_hosted
from turnbuckle.wire.thinking import effort_of

CUSTOM = "custom"
"""The type of a tool, and of a call, that takes text of any kind."""

_SHORT_ID = 9
_SHOWN = (TextPart, ImagePart, FilePart)
_RESULTS_SEEN = "I have the results; their pictures follow."
_NO_SIGNATURE = "skip_thought_signature_validator"


def endpoint(request: ModelRequest) -> str:
    return "/chat/completions"


def adopt(fields: Fields, quirks: Quirks, words: OtherWords) -> None:
    included = fields.get("include")
    wanted = isinstance(included, list) and LOGPROBS in included
    if wanted or fields.get("top_logprobs"):
        most = {"top_logprobs": fields["top_logprobs"]} if fields.get("top_logprobs") else {}
        words.say({"logprobs": True, **most}, "top_logprobs")
        if included == [LOGPROBS]:
            words.say({}, "include")


def build(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The JSON body. Says nothing about what the request leaves open."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _all_messages(request, quirks),
        "stream": request.stream,
    }
    if request.stream and quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools or request.hosted:
        body["tools"] = with_hosted([_tool(tool) for tool in request.tools], request.hosted)
        body["tool_choice"] = _tool_choice(request)
        if request.parallel_calls is not None:
            body["parallel_tool_calls"] = request.parallel_calls
    optional = {
        request.cap_field or quirks.output_cap_field: request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "reasoning_effort": effort_of(request),
        "response_format": request.response_format,
    }
    for key, value in optional.items():
        if value is not None:
            body[key] = value
    if request.cache_key and quirks.prompt_cache_key:
        body["prompt_cache_key"] = request.cache_key
    overlay(body, request.extra)
    if "tools" in body and request.tool_choice != "auto":
        body["tool_choice"] = _tool_choice(request)  # finishing a draft goes before any choice
    if request.prefill:
        _go_on_behind(body, quirks)
    return body


def _all_messages(request: ModelRequest, quirks: Quirks) -> list[dict[str, Any]]:
    custom = {tool.name for tool in request.tools if is_custom(tool, _own(tool.state))}
    made: list[dict[str, Any]] = []
    for message in request.messages:
        made += _messages(message, quirks)
    if not custom:
        return made
    for call in [call for message in made for call in message.get("tool_calls", ())]:
        if call["type"] == "function" and call["function"]["name"] in custom:
            function = call.pop("function")  # it was put together here, out of pieces
            call.update(
                type=CUSTOM, custom={"name": function["name"], "input": unwrapped(function["arguments"])}
            )
    return made


def _go_on_behind(body: dict[str, Any], quirks: Quirks) -> None:
    """Say, as this host wants it said, that the last message is the beginning of the answer."""
    if quirks.prefill == "continue_final_message":
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False
    elif quirks.prefill in ("prefix", "partial"):
        body["messages"][-1][quirks.prefill] = True


def _messages(message: Message, quirks: Quirks) -> list[dict[str, Any]]:
    beside = _own(message.state)
    match message.role:
        case "system":
            return [{"role": quirks.system_role, **beside, "content": _content(message.parts, beside)}]
        case "user":
            return [{"role": "user", **beside, "content": _content(message.parts, beside)}]
        case "assistant":
            return [_assistant(message, beside, quirks)]
        case "tool":
            return _results(message, quirks)


def _assistant(message: Message, beside: dict[str, Any], quirks: Quirks) -> dict[str, Any]:
    calls = [part for part in message.parts if isinstance(part, CallPart)]
    if _was_listed(beside) or any(_is_own(part) for part in message.parts):
        said = tuple(part for part in message.parts if isinstance(part, (TextPart, RefusalPart, OpaquePart)))
        content: Any = _content(said, beside)
        refusals = []
    else:
        nothing = None if calls and beside.get("content") != "" else ""
        content = text_of(message.parts) or nothing
        refusals = [part.text for part in message.parts if isinstance(part, RefusalPart)]
    made: dict[str, Any] = {"role": "assistant", **beside, "content": content}
    if refusals:
        made["refusal"] = "".join(refusals)
    _add_reasoning(made, message, bool(calls), quirks)
    if calls:
        made["tool_calls"] = [_call(call, quirks, first=not at) for at, call in enumerate(calls)]
    return made


def _add_reasoning(made: dict[str, Any], message: Message, has_calls: bool, quirks: Quirks) -> None:
    parts = [part for part in message.parts if isinstance(part, ReasoningPart) and not _is_foreign(part)]
    details = [detail for part in parts for detail in _own(part.state).get("reasoning_details", [])]
    if details:
        made["reasoning_details"] = details
    field = quirks.reasoning_field
    if not field:  # nothing is known of this host: as the client spelled it
        made.update((name, part.text) for part in parts for name in _own(part.state).get("spelled", ()))
    if field in ("reasoning_content", "reasoning"):
        text = "".join(part.text for part in parts)
        if text or (has_calls and quirks.reasoning_with_calls):
            made[field] = text


def _call(call: CallPart, quirks: Quirks, *, first: bool) -> dict[str, Any]:
    state = _own(call.state)
    made: dict[str, Any] = {**state, "id": _call_id(call.id, quirks)}
    within = state.get(CUSTOM if state.get("type") == CUSTOM else "function") or {}
    if state.get("type") == CUSTOM:
        made[CUSTOM] = {**within, "name": call.name, "input": unwrapped(call.arguments)}
        return made
    made["type"] = "function"
    made["function"] = {**within, "name": call.name, "arguments": call.arguments.strip() or "{}"}
    if quirks.signature_fallback and first and "extra_content" not in made:
        made["extra_content"] = {"google": {"thought_signature": _NO_SIGNATURE}}
    return made


def _results(message: Message, quirks: Quirks) -> list[dict[str, Any]]:
    """One tool message per result. This wire takes only text there, so pictures follow as the user's, unless
    a client of this protocol has put them there itself."""
    made: list[dict[str, Any]] = []
    shown: list[Part] = []
    for part in message.parts:
        if isinstance(part, ResultPart):
            beside = _own(part.state)
            if _was_listed(beside):
                content: Any = _content(part.content, beside)
            else:
                content = words_of(part.content)
                shown.extend(item for item in part.content if not isinstance(item, TextPart))
            call_id = _call_id(part.call_id, quirks)
            made.append({"role": "tool", "tool_call_id": call_id, **beside, "content": content})
    if shown and not quirks.text_after_tools:
        made.append({"role": "assistant", "content": _RESULTS_SEEN})
    if shown:
        made.append({"role": "user", "content": _content(tuple(shown), {})})
    return made


def _content(parts: tuple[Part, ...], beside: dict[str, Any]) -> str | list[dict[str, Any]]:
    if not _was_listed(beside):
        parts = tuple([part for part in parts if isinstance(part, _SHOWN) or _is_own(part)])
        if len(parts) == 1 and isinstance(parts[0], TextPart):
            return parts[0].text
        if all(isinstance(part, TextPart) for part in parts):
            return words_of(parts)
    return [made for part in parts if (made := _content_part(part)) is not None]


def _is_own(part: Part) -> bool:
    return isinstance(part, OpaquePart) and bool(_own(part.state))


def _was_listed(beside: dict[str, Any]) -> bool:
    """Whether the client sent the content as a list of parts."""
    return isinstance(beside.get("content"), list)


def _content_part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text, state):
            return {"type": "text", "text": text, **_own(state)}
        case RefusalPart(text):
            return {"type": "refusal", "refusal": text}
        case OpaquePart(state):
            return _own(state) or None
        case ImagePart(url, data, media_type, detail, state):
            beside = _own(state)
            image = {"url": url or f"data:{media_type or 'image/png'};base64,{data}"}
            image |= {"detail": detail} if detail else {}
            return {"type": "image_url", **beside, "image_url": {**image, **beside.get("image_url", {})}}
        case FilePart(name, url, data, media_type, file_id, state):
            beside = _own(state)
            within = beside.get("file", {})
            if file_id:
                named = {"filename": name} if name else {}
                return {"type": "file", **beside, "file": {"file_id": file_id, **named, **within}}
            if (
                url and not data
            ):  # this wire takes no file by its address, but the model may have a tool for it
                return {"type": "text", "text": f"{name}: {url}" if name else url}
            address = f"data:{media_type or 'application/octet-stream'};base64,{data}"
            return {"type": "file", **beside, "file": {"filename": name, "file_data": address, **within}}
        case _:
            return None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    beside = _own(tool.state)
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if is_custom(tool, beside):
        return {**beside, "type": CUSTOM, CUSTOM: {**function, **beside.get(CUSTOM, {})}}
    function["parameters"] = tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", **beside, "function": {**function, **beside.get("function", {})}}


def is_custom(tool: ToolSpec, beside: dict[str, Any]) -> bool:
    """Whether it is offered as a tool that takes any text: only to where it was brought from."""
    return tool.free_text and beside.get("type") == CUSTOM


def _tool_choice(request: ModelRequest) -> str | dict[str, Any]:
    choice = request.tool_choice
    if not isinstance(choice, NamedTool):
        return choice
    named = [tool for tool in request.tools if tool.name == choice.name]
    kind = CUSTOM if any(is_custom(tool, _own(tool.state)) for tool in named) else "function"
    beside = _own(choice.state)
    return {**beside, "type": kind, kind: {**beside.get(kind, {}), "name": choice.name}}


def _is_foreign(part: ReasoningPart) -> bool:
    return part.state is not None and part.state.protocol != "openai_chat"


def _own(state: ProviderState | None) -> dict[str, Any]:
    return own_data(state, "openai_chat")


def _call_id(call_id: str, quirks: Quirks) -> str:
    """The id as this host accepts it. A short one is a digest, so call and result still agree."""
    if not quirks.short_call_ids or (len(call_id) == _SHORT_ID and call_id.isalnum()):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:_SHORT_ID]
