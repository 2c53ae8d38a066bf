"""What a client asks by a Chat Completions body.

Three kinds of fields are taken. Those that we understand become messages and wishes. Those that only a host
knows, and that change what it answers, are checked and ride in `wishes.extra` to hosts of this protocol.
Those that change nothing in the answer end here: they are the client's own labels, or make things quicker.
What would give another answer than the client asked for, because we cannot do it, is refused by its name.
Fields that nobody knows are ignored, as clients expect.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message, text_of
from turnbuckle.vocab.quirks import CAP_FIELDS, CapField
from turnbuckle.vocab.request import RunOptions, ToolSpec
from turnbuckle.wire.client_tools import MOST_TOOLS, all_different, function_tool, tool_choice
from turnbuckle.wire.fields import Fields, Refused, open_body
from turnbuckle.wire.openai_chat.input_messages import read_messages

MOST_STOPS = 16
"""Hosts take 4 to 16."""

_LONGEST_WORD = 512
_INT64 = 2**63
_UNSUPPORTED = {
    "audio": "sound is not produced here",
    "functions": "it was replaced by tools",
    "function_call": "it was replaced by tool_choice",
    "web_search_options": "offer a tool that searches",
    "moderation": "nothing is moderated here",
}
_TASK, _TASK_OUTPUT = "### Task:", "### Output:"


class ChatAsked(Struct, frozen=True):
    """One request. `wants_json`: a program will read the answer. `user` and `metadata` are the client's
    labels."""

    model: str
    messages: tuple[Message, ...]
    wishes: RunOptions
    stream: bool = False
    include_usage: bool = False
    wants_json: bool = False
    user: str = ""
    metadata: dict[str, Any] = {}
    cap_field: CapField | None = None
    """How the client called its output cap."""


def read_chat(body: bytes) -> ChatAsked | Failure:
    """The request, or why it is none. Never raises, whatever the bytes."""
    try:
        return _read(open_body(body))
    except Refused as refused:
        return refused.failure


def _read(body: Fields) -> ChatAsked:
    model = body.need_text("model", most=_LONGEST_WORD)
    _refuse_unsupported(body)
    messages = read_messages(body)
    wishes = _wishes(body)
    options = body.inner("stream_options")
    return ChatAsked(
        model,
        messages,
        wishes,
        stream=bool(body.flag("stream")),
        include_usage=bool(options and options.flag("include_usage")),
        wants_json=wishes.response_format is not None or is_task_for_json(messages),
        user=body.text("user", most=_LONGEST_WORD) or "",
        metadata=body.kept("metadata") or {},
        cap_field=next((name for name in reversed(CAP_FIELDS) if body.count(name, 1) is not None), None),
    )


def _refuse_unsupported(body: Fields) -> None:
    for name, instead in _UNSUPPORTED.items():
        if body.has(name) and body.raw(name) != []:
            raise body.refused(name, f"is not supported: {instead}.", "unsupported_parameter")
    if (body.count("n", 1, _INT64) or 1) > 1:
        raise body.refused("n", "must be 1: one answer is given. Send the request again for another.")
    if any(kind != "text" for kind in body.texts("modalities", MOST_STOPS)):
        raise body.refused(
            "modalities", 'must be ["text"]: nothing else is produced here.', "unsupported_value"
        )
    # These change nothing in the answer; they are looked at so that a mistake in them is told.
    body.flag("store")
    body.flag("logprobs")
    body.count("top_logprobs", 0, 20)
    body.inner("prediction")


def _wishes(body: Fields) -> RunOptions:
    tools = _tools(body)
    cap = body.count("max_completion_tokens", 1)
    older_cap = body.count("max_tokens", 1)
    extra = _extra(body)
    return RunOptions(
        tools=tools,
        tool_choice=tool_choice(body, tools, "function"),
        max_output_tokens=older_cap if cap is None else cap,
        temperature=body.number("temperature", 0, 2),
        top_p=body.number("top_p", 0, 1),
        stop=_stop(body),
        effort=body.text("reasoning_effort", most=_LONGEST_WORD) or None,
        response_format=_response_format(body),
        parallel_calls=body.flag("parallel_tool_calls"),
        extra={"openai_chat": extra} if extra else {},
    )


def _tools(body: Fields) -> tuple[ToolSpec, ...]:
    made: list[tuple[Fields, ToolSpec]] = []
    for tool in body.objects("tools", MOST_TOOLS):
        kind = tool.need_text("type")
        if kind != "function":
            raise tool.refused(
                "type", f"is {kind[:64]!r}; only functions can be offered.", "unsupported_value"
            )
        function = tool.need_inner("function")
        made.append((function, function_tool(function)))
    return all_different(made)


def _stop(body: Fields) -> tuple[str, ...]:
    given = body.raw("stop")
    stops = (given,) if isinstance(given, str) else body.texts("stop", MOST_STOPS)
    if not all(stops):
        raise body.refused("stop", "holds an empty string, which would stop every answer at once.")
    return stops


def _response_format(body: Fields) -> dict[str, Any] | None:
    """As the client wrote it, since requests are built from this spelling for every protocol; plain text is
    no wish."""
    wanted = body.inner("response_format")
    if wanted is None:
        return None
    kind = wanted.need_text("type")
    if kind == "text":
        return None
    if kind == "json_schema":
        named = wanted.need_inner("json_schema")
        named.need_text("name", most=_LONGEST_WORD)
        named.inner("schema")
        named.flag("strict")
    elif kind != "json_object":
        what = f"is {kind[:64]!r}; supported are text, json_object and json_schema."
        raise wanted.refused("type", what, "unsupported_value")
    return wanted.whole()


def is_task_for_json(messages: tuple[Message, ...]) -> bool:
    """Chat frontends ask for titles, tags and follow-ups in plain words, of this form, and parse the
    answer."""
    last = messages[-1]
    text = text_of(last.parts) if last.role == "user" else ""
    return text.lstrip().startswith(_TASK) and "JSON" in text.partition(_TASK_OUTPUT)[2][:400]


# What only hosts of this protocol understand


def _extra(body: Fields) -> dict[str, Any]:
    found = {name: read(body, name) for name, read in _PASSED_ON.items()}
    return {name: value for name, value in found.items() if value is not None}


def _word(body: Fields, name: str) -> str | None:
    return body.text(name, most=_LONGEST_WORD)


def _penalty(body: Fields, name: str) -> float | None:
    return body.number(name, -2, 2)


def _bias(body: Fields, name: str) -> dict[str, Any] | None:
    bias = body.inner(name)
    if bias is None:
        return None
    for token in bias.names():
        bias.number(token, -100, 100)
    return bias.whole()


# The last four are those of open hosts; a client that sends them knows that its model has them.
_PASSED_ON: dict[str, Callable[[Fields, str], Any]] = {
    "seed": lambda body, name: body.count(name, -_INT64, _INT64 - 1),
    "presence_penalty": _penalty,
    "frequency_penalty": _penalty,
    "logit_bias": _bias,
    "service_tier": _word,
    "prompt_cache_key": _word,
    "prompt_cache_retention": _word,
    "safety_identifier": _word,
    "verbosity": _word,
    "top_k": lambda body, name: body.count(name, -1),
    "min_p": lambda body, name: body.number(name, 0, 1),
    "repetition_penalty": lambda body, name: body.number(name, 0, 10),
    "chat_template_kwargs": Fields.kept,
}
