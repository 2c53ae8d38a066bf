"""Our request as a Responses body.

The history is taken as it is (`reply.repair` has made it legal); state of other protocols stays at home.
Items that this provider made go back as they came: reasoning whole and in its place, messages and calls with
their ids. Ids are left out where another model made the item, because the provider would look for the
reasoning that belongs to it. What a client of this protocol sent as an item goes as that item; any other
system message at the beginning is the instructions.

Reasoning summaries are not asked for: accounts that may not see them have the whole request refused. A route
that wants them says so in `extra`.
"""

from collections.abc import Iterable
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
    words_of,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, RunOptions, ToolSpec
from turnbuckle.wire.openai_responses.answer_fields import PART_FIELDS
from turnbuckle.wire.openai_responses.frames import CALLS
from turnbuckle.wire.openai_responses.namespaces import in_namespaces, name_in
from turnbuckle.wire.protocol import Counting, Fields, OtherWords
from turnbuckle.wire.request_parts import LOGPROBS, with_hosted
from turnbuckle.wire.thinking import effort_of

_CUSTOM = "custom_tool_call"
_COUNTED = "model input instructions tools tool_choice parallel_tool_calls reasoning text".split()
_ENCRYPTED = "reasoning.encrypted_content"
_SAME_IN_CHAT = (
    "metadata",
    "user",
    "service_tier",
    "safety_identifier",
    "store",
    "prompt_cache_key",
    "prompt_cache_retention",
)


def endpoint(request: ModelRequest) -> str:
    return "/responses"


def unsaid(options: RunOptions, quirks: Quirks) -> Iterable[str]:
    if options.stop:
        yield "stop"


def adopt(fields: Fields, quirks: Quirks, words: OtherWords) -> None:
    for name in _SAME_IN_CHAT:
        if name in fields:
            words.say({name: fields[name]}, name)
    if isinstance(fields.get("verbosity"), str):
        words.say({"text": {"verbosity": fields["verbosity"]}}, "verbosity")
    if fields.get("logprobs") is False:
        words.say({}, "logprobs")
    elif fields.get("logprobs") is True:
        words.say({"include": [LOGPROBS], "top_logprobs": fields.get("top_logprobs", 0)}, "logprobs")
        words.say({}, "top_logprobs")


def build(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The JSON body. Says nothing about what the request leaves open."""
    instructions, messages = _split_instructions(request.messages)
    body: dict[str, Any] = {
        "model": request.model,
        "input": _Items(request, messages, quirks).made,
        "stream": request.stream,
        "store": quirks.stored,
    }
    if not quirks.stored:
        body["include"] = [_ENCRYPTED]
    if request.tools or request.hosted:
        tools = with_hosted([_tool(tool) for tool in request.tools], request.hosted)
        body["tools"] = in_namespaces(tools)
        body["tool_choice"] = _tool_choice(request)
        if request.parallel_calls is not None:
            body["parallel_tool_calls"] = request.parallel_calls
    optional = {
        "instructions": instructions or None,
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning": {"effort": effort} if (effort := effort_of(request)) is not None else None,
        "text": {"format": _format(request.response_format)} if request.response_format is not None else None,
    }
    body.update({key: value for key, value in optional.items() if value is not None})
    if request.cache_key and quirks.prompt_cache_key:
        body["prompt_cache_key"] = request.cache_key
    for key, value in request.extra.items():
        body[key] = _joined(body.get(key), value)
    if "tools" in body and request.tool_choice != "auto":
        body["tool_choice"] = _tool_choice(request)  # finishing a draft goes before any choice
    return body


def counted(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """What a provider is asked to count."""
    body = build(request, quirks)
    return {name: body[name] for name in _COUNTED if name in body}


COUNTING = Counting(lambda model: "/responses/input_tokens", counted, "input_tokens")


def _joined(ours: Any, given: Any) -> Any:
    """What only this protocol knows, beside what we own of the same field."""
    if isinstance(ours, dict) and isinstance(given, dict):
        return {**ours, **given}
    if isinstance(ours, list) and isinstance(given, list) and given:
        return [*given, *(each for each in ours if each not in given)]
    return given


def _split_instructions(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """What the leading system messages say, and the rest of the history."""
    told = (message.role == "system" and not _own(message.state) for message in messages)
    count = next((at for at, is_told in enumerate(told) if not is_told), len(messages))
    return "\n\n".join(words_of(message.parts) for message in messages[:count]), messages[count:]


def input_items(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Messages as the items of an input."""
    return _Items(ModelRequest("", messages), messages, Quirks()).made


class _Items:
    """The history as one list of input items."""

    def __init__(self, request: ModelRequest, messages: tuple[Message, ...], quirks: Quirks) -> None:
        self.made: list[dict[str, Any]] = []
        self._model = request.model
        custom = {tool.name for tool in request.tools if _is_custom(tool)}
        self._custom = {
            part.id
            for message in messages
            for part in message.parts
            if isinstance(part, CallPart)
            and (_own(part.state).get("type") == _CUSTOM or (part.state is None and part.name in custom))
        }
        for message in messages:
            if message.role == "assistant":
                self._assistant(message)
            elif message.role == "tool":
                self.made.extend(self._result(part) for part in message.parts if isinstance(part, ResultPart))
            else:
                role = "user" if message.role == "user" else quirks.system_role
                beside = _own(message.state)
                content = _content(message.parts, "content" in beside)
                self.made.append({"type": "message", "role": role, **beside, "content": content})

    def _assistant(self, message: Message) -> None:
        open_id: str | None = None  # of the message item that the next part of text may belong to
        for part in message.parts:
            if isinstance(part, (TextPart, RefusalPart)):
                open_id = self._say(part, open_id)
                continue
            if isinstance(part, CallPart):
                self.made.append(self._call(part))
            elif isinstance(part, ReasoningPart) and _own(part.state):
                self.made.append({"summary": [], **_without(_own(part.state), "status"), "type": "reasoning"})
            elif isinstance(part, OpaquePart) and _own(part.state).get("type"):
                self.made.append(dict(_own(part.state)))
            else:
                continue
            open_id = None

    def _say(self, part: TextPart | RefusalPart, open_id: str | None) -> str:
        """Add text to the message item that it was a part of, or to one of its own."""
        if isinstance(part, RefusalPart):
            state: dict[str, Any] = {}
            item_id = open_id or ""
            content: dict[str, Any] = {"type": "refusal", "refusal": part.text}
        else:
            state = self._item_state(part.state)
            item_id = str(state.get("id") or "")
            content = {
                "type": "output_text",
                "text": part.text,
                "annotations": state.get("annotations") or [],
            }
            if part.state is not None and not part.state.model:  # a client's own, and no provider's
                content |= state.get(PART_FIELDS) or {}
        if open_id is not None and open_id == item_id:
            self.made[-1]["content"].append(content)
            return item_id
        item = {"type": "message", "role": "assistant", "content": [content]}
        if item_id:
            item["status"] = "completed"  # must be there beside an id; the true one follows if it is known
        item.update(_without(state, "annotations", "logprobs", "type", PART_FIELDS))
        self.made.append(item)
        return item_id

    def _call(self, call: CallPart) -> dict[str, Any]:
        state = self._item_state(call.state)
        kind = _CUSTOM if call.id in self._custom else "function_call"
        arguments = unwrapped(call.arguments) if kind == _CUSTOM else call.arguments.strip() or "{}"
        name = name_in(state.get("namespace"), call.name)
        made = {"type": kind, "call_id": call.id, "name": name, CALLS[kind]: arguments}
        return {**_without(state, "status"), **made}

    def _result(self, result: ResultPart) -> dict[str, Any]:
        kind = "custom_tool_call_output" if result.call_id in self._custom else "function_call_output"
        beside = _own(result.state)
        output = _content(result.content, "output" in beside)
        return {"type": kind, "call_id": result.call_id, **beside, "output": output}

    def _item_state(self, state: ProviderState | None) -> dict[str, Any]:
        data = _own(state)
        made_elsewhere = bool(state and state.model and self._model and state.model != self._model)
        return _without(data, "id") if made_elsewhere else data


def _content(parts: tuple[Part, ...], listed: bool) -> str | list[dict[str, Any]]:
    """The parts. `listed`: the client sent them as a list; else one text goes as it is."""
    if not parts or (not listed and len(parts) == 1 and isinstance(parts[0], TextPart)):
        return [] if listed else words_of(parts)
    return [made for part in parts if (made := _content_part(part)) is not None]


def _content_part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text, state):
            return {"type": "input_text", "text": text, **_own(state)}
        case OpaquePart(state):
            return _own(state) or None
        case ImagePart(url, data, media_type, detail, state):
            address = url or f"data:{media_type or 'image/png'};base64,{data}"
            return {"type": "input_image", "image_url": address, "detail": detail or "auto", **_own(state)}
        case FilePart(name, url, data, media_type, file_id, state):
            named = {"filename": name} if name else {}
            if file_id:
                return {"type": "input_file", "file_id": file_id, **named, **_own(state)}
            if url:
                return {"type": "input_file", "file_url": url, **named, **_own(state)}
            address = f"data:{media_type or 'application/octet-stream'};base64,{data}"
            return {"type": "input_file", "filename": name, "file_data": address, **_own(state)}
        case _:
            return None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    beside = _own(tool.state)
    described = {"description": tool.description} if tool.description else {}
    if _is_custom(tool):
        return {**beside, "name": tool.name, **described}
    # This API tightens a schema that says nothing about strictness, so it is always said.
    return {
        "type": "function",
        "name": tool.name,
        **described,
        "parameters": tool.parameters,
        "strict": bool(tool.strict),
        **beside,
    }


def _is_custom(tool: ToolSpec) -> bool:
    """Whether it is offered as a tool that takes any text: only to where it was brought from."""
    return tool.free_text and _own(tool.state).get("type") == "custom"


def _tool_choice(request: ModelRequest) -> str | dict[str, Any]:
    choice = request.tool_choice
    if not isinstance(choice, NamedTool):
        return choice
    custom = any(tool.name == choice.name and _is_custom(tool) for tool in request.tools)
    return {**_own(choice.state), "type": "custom" if custom else "function", "name": choice.name}


def _format(response_format: dict[str, Any]) -> dict[str, Any]:
    """Chat Completions nests a schema's name and body one level deeper than this wire does."""
    inner = response_format.get("json_schema")
    if response_format.get("type") == "json_schema" and isinstance(inner, dict):
        return {"type": "json_schema", **inner}
    return response_format


def _own(state: ProviderState | None) -> dict[str, Any]:
    return own_data(state, "openai_responses")


def _without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    """What is to be sent back. A null says nothing, and the API refuses some of them."""
    return {key: value for key, value in data.items() if key not in names and value is not None}
