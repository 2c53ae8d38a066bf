"""Our request as a Messages body.

The history is taken as it is (`reply.repair` has made it legal); state of other protocols stays at home.
Choices that the protocol leaves to us:

- System messages at the beginning are the system prompt. Later ones go as the user's text in their place:
  only the newest models take a system message there, all take this.
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

from turnbuckle.vocab.arguments import judge
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
    text_of,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, ToolSpec
from turnbuckle.wire.anthropic import caching
from turnbuckle.wire.anthropic.blocks import UNPARSED

CAP_STREAMED = 32_000
CAP_WHOLE = 21_000

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_DATA_URL = re.compile(r"data:([^;,]*);base64,", re.ASCII)
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
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
    if request.tools:
        body["tools"] = [_tool(tool, quirks) for tool in request.tools]
        body["tool_choice"] = _tool_choice(request)
    if quirks.sampling:
        sampling = {"temperature": request.temperature, "top_p": request.top_p}
        body.update({key: value for key, value in sampling.items() if value is not None})
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.effort == "none":
        body["thinking"] = {"type": "disabled"}
    if output := _output_config(request):
        body["output_config"] = output
    body.update(request.extra)
    if request.cache_key and quirks.cache_marks:
        caching.mark(body)
    return body


def object_of(arguments: str) -> dict[str, Any]:
    """A call's arguments as the object that this wire wants; what is none is wrapped into one."""
    value = judge(arguments).value
    return value if value is not None else {"_malformed": arguments}


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


def _split_system(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    texts: list[str] = []
    for at, message in enumerate(messages):
        if message.role != "system":
            return "\n\n".join(texts), messages[at:]
        if text := text_of(message.parts):
            texts.append(text)
    return "\n\n".join(texts), ()


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    toolsets = dict(_toolsets(messages))
    made: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        place = _assistant_block if role == "assistant" else _user_block
        blocks = [block for part in message.parts if (block := place(part, toolsets)) is not None]
        if not blocks:
            continue  # the API refuses empty messages
        if made and made[-1]["role"] == role:
            made[-1]["content"].extend(blocks)
        else:
            made.append({"role": role, "content": blocks})
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
        case TextPart(text, state):
            return _text_block(text, _own(state).get("citations"))
        case ReasoningPart(text, state):
            return _thought(text, _own(state))
        case CallPart(call_id, name, arguments, state):
            call = {"type": "tool_use", "id": _call_id(call_id), "name": name, "input": object_of(arguments)}
            return {**_own(state), **call}
        case RefusalPart(text):
            return _text_block(text)
        case OpaquePart(state):
            block = {key: value for key, value in _own(state).items() if key != UNPARSED}
            return block if "type" in block else None
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
    made: dict[str, Any] = {"type": "tool_result", "tool_use_id": _call_id(part.call_id)}
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
        case TextPart(text):
            return _text_block(text)  # citations would be refused here
        case ImagePart(url, data, media_type):
            return {"type": "image", "source": _source(url, data, media_type or "image/png")}
        case FilePart(_, url, data, media_type) if media_type.startswith("image/"):
            return {"type": "image", "source": _source(url, data, media_type)}
        case FilePart():
            return _document(part)
        case _:
            return None


def _text_block(text: str, citations: list[Any] | None = None) -> dict[str, Any] | None:
    if not text.strip():
        return None  # the API refuses blank text
    return {"type": "text", "text": text, **({"citations": citations} if citations else {})}


def _source(url: str, data: str, media_type: str) -> dict[str, Any]:
    inline = _DATA_URL.match(url)
    if inline:
        return {"type": "base64", "media_type": inline[1] or media_type, "data": url[inline.end() :]}
    if url:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type, "data": data}


def _document(part: FilePart) -> dict[str, Any]:
    if part.file_id:
        source: dict[str, Any] = {"type": "file", "file_id": part.file_id}
    elif part.data and part.media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": _plain_text(part.data)}
    else:
        source = _source(part.url, part.data, part.media_type or "application/pdf")
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _plain_text(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except ValueError:
        return data


# Tools


def _tool(tool: ToolSpec, quirks: Quirks) -> dict[str, Any]:
    made: dict[str, Any] = {"name": tool.name, "input_schema": tool.parameters}
    if tool.description:
        made["description"] = tool.description
    if tool.strict is not None:
        made["strict"] = tool.strict
    if quirks.eager_arguments:
        made["eager_input_streaming"] = True
    return made


def _tool_choice(request: ModelRequest) -> dict[str, Any]:
    choice = request.tool_choice
    made: dict[str, Any] = {"type": "tool" if isinstance(choice, NamedTool) else _CHOICES[choice]}
    if isinstance(choice, NamedTool):
        made["name"] = choice.name
    if request.parallel_calls is False and choice != "none":
        made["disable_parallel_tool_use"] = True
    return made


def _own(state: ProviderState | None) -> dict[str, Any]:
    return state.data if state is not None and state.protocol == "anthropic" else {}


def _call_id(call_id: str) -> str:
    """The id as the API accepts it. A digest keeps ids apart that differ only in what is replaced."""
    if _LEGAL_ID.fullmatch(call_id):
        return call_id
    return f"{_ILLEGAL.sub('_', call_id)}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"
