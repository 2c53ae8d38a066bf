"""Our request as a Messages body.

The history is taken as it is (`reply.repair` has made it legal); state of other protocols stays at home. What
a client of this protocol wrote goes as it came: blocks as blocks, and what stood beside them beside them.
Choices that the protocol leaves to us:

- System messages at the beginning are the system prompt. Later ones go as the user's text in their place:
  only the newest models take a system message there, all take this. One that a client has put there stays.
- Neighbours of one role become one message, with results first, as the API would join them anyway. So a note
  behind results stands in their message; whoever writes notes must know that models learn to answer it with
  nothing.
- `eager_input_streaming` is set whether this request streams or not, since thinking is bound to the exact
  tools.
- `max_tokens` must be given. Where the request leaves it open it is large, and smaller for an answer in one
  piece, which hosts give up on after ten minutes.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from typing import Any

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
    words_of,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, RunOptions, ToolSpec
from turnbuckle.wire.anthropic import caching
from turnbuckle.wire.anthropic.blocks import UNPARSED
from turnbuckle.wire.protocol import Counting, Fields, OtherWords
from turnbuckle.wire.request_parts import fits_elsewhere, inline_data, object_of, overlay, with_hosted

CAP_STREAMED = 32_000
CAP_WHOLE = 21_000

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
BLOCK = "_block"
"""In state: the whole block that a text stands for, or that a system prompt came as blocks."""
IN_PLACE = "_role"
"""In state: the role of a message that stays where its client has put it."""

_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_LONGEST_USER = 256
_NO_ANSWER = "The call failed without a message."


def endpoint(request: ModelRequest) -> str:
    return "/messages"


def headers(api_key: str, quirks: Quirks) -> dict[str, str]:
    made = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "anthropic-version": quirks.anthropic_version,
    }
    # Never both: the API would take the old one.
    if api_key and quirks.anthropic_auth == "x-api-key":
        made["x-api-key"] = api_key
    elif api_key:
        made["authorization"] = f"Bearer {api_key}"
    return made


def adopt(fields: Fields, quirks: Quirks, words: OtherWords) -> None:
    for name in ("safety_identifier", "user"):  # the older name, if both are there and differ, is left out
        user = fields.get(name)
        fits = isinstance(user, str) and 0 < len(user) <= _LONGEST_USER
        if fits and words.setdefault("metadata", {"user_id": user}) == {"user_id": user}:
            words.say({}, name)
    if quirks.sampling and fits_elsewhere("top_k", fields.get("top_k")):
        words.say({"top_k": fields["top_k"]}, "top_k")


def build(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The JSON body. Says nothing about what the request leaves open, but for the cap."""
    system, rest = _split_system(request.messages)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": _cap(request),
        "messages": _messages(rest),
        "stream": request.stream,
    }
    if system:
        body["system"] = system
    if request.tools or request.hosted:
        tools = with_hosted([_tool(tool, quirks) for tool in request.tools], request.hosted)
        body["tools"] = [dict(tool) for tool in tools]
        if choice := _tool_choice(request):
            body["tool_choice"] = choice
    if quirks.sampling:
        sampling = {"temperature": request.temperature, "top_p": request.top_p}
        body.update({key: value for key, value in sampling.items() if value is not None})
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.effort == "none":
        body["thinking"] = {"type": "disabled"}
    if output := _output_config(request):
        body["output_config"] = output
    overlay(body, request.extra)
    if request.tools and request.tool_choice != "auto":
        body["tool_choice"] = _tool_choice(request)  # finishing a draft goes before any choice
    if request.cache_key and quirks.cache_marks:
        caching.mark(body)
    return body


def unsaid(options: RunOptions, quirks: Quirks) -> Iterable[str]:
    if not quirks.sampling:
        yield from (name for name in ("temperature", "top_p") if getattr(options, name) is not None)
    if (options.response_format or {}).get("type") == "json_object":
        yield "response_format"


def counted(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """What a provider is asked to count: the request, without what is about the answer."""
    body = build(request, quirks)
    return {name: value for name, value in body.items() if name not in ("max_tokens", "stream")}


COUNTING = Counting(lambda model: "/messages/count_tokens", counted, "input_tokens")


def _cap(request: ModelRequest) -> int:
    if request.max_output_tokens is not None:
        return request.max_output_tokens
    return CAP_STREAMED if request.stream else CAP_WHOLE


def _output_config(request: ModelRequest) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if request.effort and request.effort != "none":
        made["effort"] = "low" if request.effort == "minimal" else request.effort
    wanted = request.response_format or {}
    if wanted.get("type") == "json_schema":
        named = wanted.get("json_schema")
        schema = named.get("schema") if isinstance(named, dict) else wanted.get("schema")
        if schema is not None:
            made["format"] = {"type": "json_schema", "schema": schema}
    return made


# Messages


def _split_system(messages: tuple[Message, ...]) -> tuple[str | list[dict[str, Any]], tuple[Message, ...]]:
    """The system prompt, and what is behind it. It is one text, unless a client wrote it as blocks."""
    leading: list[Message] = []
    for message in messages:
        if message.role != "system" or IN_PLACE in _own(message.state):
            break
        leading.append(message)
    rest = messages[len(leading) :]
    parts = [part for message in leading for part in message.parts]
    if any(BLOCK in _own(message.state) for message in leading) or any(map(_is_marked, parts)):
        return [block for part in parts if (block := _content_block(part)) is not None], rest
    return "\n\n".join(text for message in leading if (text := words_of(message.parts))), rest


def _is_marked(part: Part) -> bool:
    return isinstance(part, TextPart) and "cache_control" in _own(part.state)


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    toolsets = dict(_toolsets(messages))
    made: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        if message.role == "system":
            role = _own(message.state).get(IN_PLACE, role)
        place = _assistant_block if role == "assistant" else _user_block
        blocks = [block for part in message.parts if (block := place(part, toolsets)) is not None]
        if not blocks:
            continue  # the API refuses empty messages
        beside = {name: value for name, value in _own(message.state).items() if name not in (BLOCK, IN_PLACE)}
        if made and made[-1]["role"] == role:
            made[-1]["content"].extend(blocks)
            made[-1].update(beside)
        else:
            made.append({"role": role, **beside, "content": blocks})
    for message_made in made:
        message_made["content"].sort(key=_results_first)
    return made


def _results_first(block: dict[str, Any]) -> bool:
    return bool(block["type"] != "tool_result")


def _toolsets(messages: tuple[Message, ...]) -> Iterable[tuple[str, str]]:
    """Results of a toolset's tools must name it as their calls did."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, CallPart) and (toolset := _own(part.state).get("toolset_name")):
                yield part.id, toolset


def _assistant_block(part: Part, toolsets: dict[str, str]) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return _text_block(part)
        case ReasoningPart(text, state):
            return _thought(text, _own(state))
        case CallPart(call_id, name, arguments, state):
            call = {"type": "tool_use", "id": _call_id(call_id), "name": name, "input": object_of(arguments)}
            return {**_own(state), **call}
        case RefusalPart(text):
            return _text_block(TextPart(text))
        case OpaquePart():
            return _opaque(part)
        case _:
            return None  # pictures and files are not accepted from an assistant


def _thought(text: str, state: dict[str, Any]) -> dict[str, Any] | None:
    """Only what the provider vouched for. A thought without text goes back like any other."""
    if state.get("type") == "redacted_thinking":
        return state
    if not state.get("signature"):
        return None
    return {"type": "thinking", "thinking": text, **state}


def _user_block(part: Part, toolsets: dict[str, str]) -> dict[str, Any] | None:
    if isinstance(part, ResultPart):
        return _result(part, toolsets)
    return _content_block(part)


def _result(part: ResultPart, toolsets: dict[str, str]) -> dict[str, Any]:
    content = [block for item in part.content if (block := _content_block(item)) is not None]
    made: dict[str, Any] = {**_own(part.state), "type": "tool_result"}
    made["tool_use_id"] = _call_id(part.call_id)
    if part.failed:
        content = content or [{"type": "text", "text": _NO_ANSWER}]
        made["is_error"] = True
    if content:
        made["content"] = content
    if part.call_id in toolsets:
        made["toolset_name"] = toolsets[part.call_id]
    return made


def _content_block(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return _text_block(part, but="citations")  # they would be refused here
        case ImagePart(url, data, media_type):
            return _media("image", _source(url, data, media_type or "image/png"), part)
        case FilePart(_, url, data, media_type) if media_type.startswith("image/"):
            return _media("image", _source(url, data, media_type), part)
        case FilePart():
            return _media("document", _document_source(part), part)
        case OpaquePart():
            return _opaque(part)
        case _:
            return None


def _text_block(part: TextPart, but: str = "") -> dict[str, Any] | None:
    beside = {key: value for key, value in _own(part.state).items() if key != but}
    if BLOCK in beside:
        return dict(beside[BLOCK])
    if not part.text.strip():
        return None  # the API refuses blank text
    return {"type": "text", "text": part.text, **beside}


def _opaque(part: OpaquePart) -> dict[str, Any] | None:
    block = {key: value for key, value in _own(part.state).items() if key != UNPARSED}
    return block if "type" in block else None


def _source(url: str, data: str, media_type: str) -> dict[str, Any]:
    if inline := inline_data(url, media_type):
        return {"type": "base64", "media_type": inline[0], "data": inline[1]}
    if url:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type, "data": data}


def _media(kind: str, source: dict[str, Any], part: ImagePart | FilePart) -> dict[str, Any]:
    beside = _own(part.state)
    titled = {"title": part.name} if kind == "document" and isinstance(part, FilePart) and part.name else {}
    return {"type": kind, **titled, **beside, "source": {**source, **beside.get("source", {})}}


def _document_source(part: FilePart) -> dict[str, Any]:
    if part.file_id:
        return {"type": "file", "file_id": part.file_id}
    if part.data and part.media_type.startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _plain_text(part.data)}
    return _source(part.url, part.data, part.media_type or "application/pdf")


def _plain_text(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except ValueError:
        return data


# Tools


def _tool(tool: ToolSpec, quirks: Quirks) -> dict[str, Any]:
    beside = _own(tool.state) or caching.mark_of(tool.state)
    made: dict[str, Any] = {"name": tool.name}
    if tool.description:
        made["description"] = tool.description
    if beside.get("type", "custom") != "custom":
        return {**made, **beside}  # a tool that the provider knows by its type
    made["input_schema"] = tool.parameters
    if tool.strict is not None:
        made["strict"] = tool.strict
    if quirks.eager_arguments:
        made["eager_input_streaming"] = True
    return {**made, **beside}


def _tool_choice(request: ModelRequest) -> dict[str, Any]:
    """Nothing, if it is as the provider would do anyway."""
    choice, one_by_one = request.tool_choice, request.parallel_calls is False
    if choice == "auto" and not one_by_one:
        return {}
    made: dict[str, Any] = {"type": "tool" if isinstance(choice, NamedTool) else _CHOICES[choice]}
    if isinstance(choice, NamedTool):
        made = {**_own(choice.state), **made, "name": choice.name}
    if one_by_one and choice != "none":
        made["disable_parallel_tool_use"] = True
    return made


def _own(state: ProviderState | None) -> dict[str, Any]:
    return own_data(state, "anthropic")


def _call_id(call_id: str) -> str:
    """The id as the API accepts it. A digest keeps ids apart that differ only in what is replaced."""
    if _LEGAL_ID.fullmatch(call_id):
        return call_id
    return f"{_ILLEGAL.sub('_', call_id)}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"
