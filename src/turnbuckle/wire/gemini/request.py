"""What is asked of a model, as a Gemini request.

- The model and whether to stream are in the path, not in the body.
- Results of one turn stand in one content, as many as there were calls, and nothing else beside them: what
  people say behind them is a content of its own, and so are pictures.
- A result is known by its tool's name; by an id only where the provider gave one.
- A signature goes back on the part on which it came. Calls of other models have none: where the quirk
  `signature_fallback` is set, the first of a turn says that none is to be checked.
"""

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
from turnbuckle.wire.protocol import Counting, Fields, OtherWords
from turnbuckle.wire.request_parts import fits_elsewhere, inline_data, object_of
from turnbuckle.wire.thinking import BUDGETS, word_for

_SAMPLING = {
    "seed": "seed",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_NO_SIGNATURE = "skip_thought_signature_validator"
_BUDGETED = re.compile(r"gemini-[12]\b")
_MOST = 24_576  # tokens of thought that every model with a budget takes
_LEAST_OF_PRO = 128  # it cannot do without thinking


def endpoint(request: ModelRequest) -> str:
    model = request.model.removeprefix("models/")
    return f"/models/{model}:" + ("streamGenerateContent?alt=sse" if request.stream else "generateContent")


def headers(api_key: str, quirks: Quirks) -> dict[str, str]:
    made = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    if api_key:
        made["x-goog-api-key"] = api_key
    return made


def adopt(fields: Fields, quirks: Quirks, words: OtherWords) -> None:
    names = [name for name in _SAMPLING if name in fields and fits_elsewhere(name, fields[name])]
    if names:
        words.say({"generationConfig": {_SAMPLING[name]: fields[name] for name in names}}, *names)


def build(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """The JSON body. Says nothing about what the request leaves open."""
    system, messages = _split_system(request.messages)
    body: dict[str, Any] = {"contents": _contents(messages, quirks)}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _tool_choice(request)}
    config = _generation(request)
    extra = dict(request.extra)
    config.update(extra.pop("generationConfig", None) or {})
    if config:
        body["generationConfig"] = config
    body.update(extra)
    return body


def unsaid(options: RunOptions, quirks: Quirks) -> Iterable[str]:
    if options.parallel_calls is False:
        yield "parallel_calls"
    if any(tool.strict for tool in options.tools):
        yield "strict"


def counted(request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
    """What a provider is asked to count."""
    model = request.model.removeprefix("models/")
    return {"generateContentRequest": {"model": f"models/{model}", **build(request, quirks)}}


COUNTING = Counting(
    lambda model: f"/models/{model.removeprefix('models/')}:countTokens", counted, "totalTokens"
)


def _generation(request: ModelRequest) -> dict[str, Any]:
    wanted = request.response_format or {}
    named = wanted.get("json_schema")
    schema = named.get("schema") if isinstance(named, dict) else wanted.get("schema")
    is_json = wanted.get("type") in ("json_schema", "json_object")
    optional = {
        "maxOutputTokens": request.max_output_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "stopSequences": list(request.stop) or None,
        "responseMimeType": "application/json" if is_json else None,
        "responseJsonSchema": schema if wanted.get("type") == "json_schema" else None,
        "thinkingConfig": _thinking(request.model, request.effort, request.thinking_budget),
    }
    return {key: value for key, value in optional.items() if value is not None}


def _thinking(model: str, effort: str | None, budget: int | None) -> dict[str, Any] | None:
    """Models up to 2.5 are given a budget of tokens, later ones a level. Not to think goes before any word of
    how much."""
    if effort is None and budget is None:
        return None
    if _BUDGETED.search(model):
        if effort == "none" or budget == 0:
            return {"thinkingBudget": _LEAST_OF_PRO if "pro" in model else 0}
        wanted = BUDGETS.get(effort, _MOST) if effort is not None else budget
        return {"thinkingBudget": min(wanted or _MOST, _MOST), "includeThoughts": True}
    if effort == "none" or budget == 0:
        return {"thinkingLevel": "minimal"}
    level = word_for(budget) if effort is None and budget else effort
    return {"thinkingLevel": level if level in BUDGETS else "high", "includeThoughts": True}


# Contents


def _split_system(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    texts: list[str] = []
    for at, message in enumerate(messages):
        if message.role != "system":
            return "\n\n".join(texts), messages[at:]
        if text := words_of(message.parts):
            texts.append(text)
    return "\n\n".join(texts), ()


def _contents(messages: tuple[Message, ...], quirks: Quirks) -> list[dict[str, Any]]:
    calls = {part.id: part for message in messages for part in message.parts if isinstance(part, CallPart)}
    made: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []  # pictures of results, which follow as the user's
    before = ""
    for message in messages:
        if message.role != "tool" and shown:
            made.append({"role": "user", "parts": shown})
            shown, before = [], ""
        parts = [found for part in message.parts if (found := _part(message, part, calls)) is not None]
        shown += [
            found for part in message.parts if isinstance(part, ResultPart) for found in _pictures(part)
        ]
        if parts and made and message.role == before and before in ("assistant", "tool"):
            made[-1]["parts"] += parts
        elif parts:
            made.append({"role": "model" if message.role == "assistant" else "user", "parts": parts})
        before = message.role if parts else before
    if shown:
        made.append({"role": "user", "parts": shown})
    if quirks.signature_fallback:
        for content in made:
            _sign_first_call(content["parts"])
    return made


def _part(message: Message, part: Part, calls: dict[str, CallPart]) -> dict[str, Any] | None:
    if isinstance(part, ResultPart):
        return _result(part, calls)
    return _model_part(part) if message.role == "assistant" else _user_part(part)


def _pictures(result: ResultPart) -> list[dict[str, Any]]:
    others = [item for item in result.content if not isinstance(item, TextPart)]
    return [found for item in others if (found := _user_part(item)) is not None]


def _sign_first_call(parts: list[dict[str, Any]]) -> None:
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and "thoughtSignature" not in first:
        first["thoughtSignature"] = _NO_SIGNATURE


def _model_part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text, state):
            signed = _signature(state)
            return {"text": text, **signed} if text or signed else None
        case RefusalPart(text):
            return {"text": text} if text else None
        case ReasoningPart(text, state):
            signed = _signature(state)
            return {"text": text, "thought": True, **signed} if signed else None
        case CallPart(call_id, name, arguments, state):
            call = {"name": name, "args": object_of(arguments)}
            if "id" in _own(state):
                call["id"] = call_id
            return {"functionCall": call, **_signature(state)}
        case OpaquePart(state):
            return _own(state) or None
        case _:
            return None  # pictures and files are not accepted from a model


def _result(part: ResultPart, calls: dict[str, CallPart]) -> dict[str, Any]:
    call = calls.get(part.call_id)
    made: dict[str, Any] = {
        "name": call.name if call is not None else part.call_id,
        "response": {"error" if part.failed else "output": words_of(part.content)},
    }
    if call is not None and "id" in _own(call.state):
        made["id"] = part.call_id
    return {"functionResponse": made}


def _user_part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text):
            return {"text": text} if text else None
        case ImagePart(url, data, media_type):
            return _media(url, data, media_type or "image/png")
        case FilePart(_, url, data, media_type, file_id):
            return _media(url or file_id, data, media_type or "application/pdf")
        case _:
            return None


def _media(url: str, data: str, media_type: str) -> dict[str, Any]:
    if inline := inline_data(url, media_type):
        return {"inlineData": {"mimeType": inline[0], "data": inline[1]}}
    if url:
        return {"fileData": {"mimeType": media_type, "fileUri": url}}
    return {"inlineData": {"mimeType": media_type, "data": data}}


# Tools


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def _tool_choice(request: ModelRequest) -> dict[str, Any]:
    choice = request.tool_choice
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": _MODES[choice]}


def _own(state: ProviderState | None) -> dict[str, Any]:
    return own_data(state, "gemini")


def _signature(state: ProviderState | None) -> dict[str, Any]:
    signature = _own(state).get("thoughtSignature")
    return {"thoughtSignature": signature} if signature else {}
