"""What a client asks by a Chat Completions body.

`request_fields.py` has every field with what becomes of it. Those that we understand become messages and
wishes. All others ride in `wishes.extra` to hosts of this protocol, as they came: those that only a host
knows, and those that nobody here has heard of. What would give another answer than the client asked for,
because we cannot do it, is refused by its name.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import Message, words_of
from turnbuckle.vocab.quirks import CAP_FIELDS, CapField
from turnbuckle.vocab.request import HostedTool, RunOptions, ToolSpec
from turnbuckle.wire.client_tools import (
    CUSTOM,
    MOST_TOOLS,
    all_different,
    custom_tool,
    function_tool,
    tool_choice,
)
from turnbuckle.wire.fields import Fields, Refused, open_body
from turnbuckle.wire.kept import KeptFields
from turnbuckle.wire.openai_chat.input_messages import read_messages
from turnbuckle.wire.openai_chat.request_fields import CHAT_FIELDS

PROTOCOL: ProtocolName = "openai_chat"
_TASK, _TASK_OUTPUT = "### Task:", "### Output:"


class ChatAsked(Struct, frozen=True):
    """One request. `wants_json`: a program will read the answer. `only_here` names what only hosts of this
    protocol take, and `unknown` the fields among it that nobody here knows."""

    model: str
    messages: tuple[Message, ...]
    wishes: RunOptions
    stream: bool = False
    include_usage: bool = False
    wants_json: bool = False
    cap_field: CapField | None = None
    """How the client called its output cap."""
    only_here: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def read_chat(body: bytes) -> ChatAsked | Failure:
    """The request, or why it is none. Never raises, whatever the bytes."""
    try:
        return _read(open_body(body))
    except Refused as refused:
        return refused.failure


def _read(body: Fields) -> ChatAsked:
    given = CHAT_FIELDS.read(body)
    kept = KeptFields(PROTOCOL)
    messages = read_messages(body, kept)
    tools, hosted = _tools(body, kept)
    choice, own_choice = tool_choice(body, tools, kept, nested=True, hosted=bool(hosted))
    extra = CHAT_FIELDS.passed(body, given)
    for name, value in extra.items():
        if value is not None:
            kept.name(body, name)
    if asked_format := body.kept("response_format"):
        for name in asked_format.keys() - {"type", "json_schema"}:
            kept.name(body, f"response_format.{name}")
    if own_choice is not None:
        extra["tool_choice"] = own_choice
    wishes = RunOptions(
        **CHAT_FIELDS.options(given),
        tools=tools,
        tool_choice=choice,
        extra={PROTOCOL: extra} if extra else {},
        hosted=hosted,
        choices=given.get("n") or 1,
    )
    options = given.get("stream_options")
    return ChatAsked(
        given.values["model"],
        messages,
        wishes,
        stream=bool(given.get("stream")),
        include_usage=bool(options and options.get("include_usage")),
        wants_json=wishes.response_format is not None or is_task_for_json(messages),
        cap_field=next((name for name in reversed(CAP_FIELDS) if name in given.values), None),
        only_here=kept.names,
        unknown=tuple(given.rest),
    )


def _tools(body: Fields, kept: KeptFields) -> tuple[tuple[ToolSpec, ...], tuple[HostedTool, ...]]:
    if not body.has("tools"):
        return (), ()
    made: list[tuple[Fields, ToolSpec]] = []
    hosted: list[HostedTool] = []
    for place, tool in enumerate(body.objects("tools", MOST_TOOLS)):
        kind = tool.need_text("type")
        if kind not in ("function", CUSTOM):
            kept.name(body, f"tools.{kind[:64]}")
            hosted.append(HostedTool(place, kept.sure(tool.whole())))
            continue
        inner = tool.need_inner(kind)
        spec, within = function_tool(inner) if kind == "function" else custom_tool(inner)
        data: dict[str, Any] = tool.whole("type", kind)
        named = {**data, **within}
        if within:
            data[kind] = within
        if kind == CUSTOM:
            data["type"] = CUSTOM
        made.append((inner, replace(spec, state=kept.state(data, tool, named))))
    return all_different(made), tuple(hosted)


def is_task_for_json(messages: tuple[Message, ...]) -> bool:
    """Chat frontends ask for titles, tags and follow-ups in plain words, of this form, and parse the
    answer."""
    last = messages[-1]
    text = words_of(last.parts) if last.role == "user" else ""
    return text.lstrip().startswith(_TASK) and "JSON" in text.partition(_TASK_OUTPUT)[2][:400]
