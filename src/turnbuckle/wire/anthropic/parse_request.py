"""What a client asks by a Messages body.

`request_fields.py` has every field with what becomes of it. Those that we understand become messages and
wishes. All others ride in `wishes.extra` to providers of this protocol, as they came: those that only a
provider knows, and those that nobody here has heard of. Nothing is refused for being unknown: clients drop
their betas one by one when they are refused, and are worse off than before.
"""

import re
from typing import Any

from msgspec import Struct

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import Message, OpaquePart
from turnbuckle.vocab.request import HostedTool, NamedTool, RunOptions, ToolChoice, ToolSpec
from turnbuckle.wire.anthropic.input_blocks import read_messages, read_system
from turnbuckle.wire.anthropic.request_fields import (
    ADDED,
    AS_IT_CAME,
    CHOICES,
    COUNT_FIELDS,
    LONGEST_NAME,
    MESSAGES_FIELDS,
    NEED_BETAS,
    RUN_THERE,
    TOOL_NAME,
)
from turnbuckle.wire.client_tools import MOST_TOOLS, all_different
from turnbuckle.wire.field_table import FieldTable, FieldValues
from turnbuckle.wire.fields import Fields, Refused, open_body
from turnbuckle.wire.kept import KeptFields
from turnbuckle.wire.thinking import budget_in

PROTOCOL: ProtocolName = "anthropic"
_NAME = re.compile(TOOL_NAME)
_ANYTHING: dict[str, Any] = {"type": "object"}
_CHOICES: dict[str, ToolChoice] = {"auto": "auto", "any": "required", "none": "none"}


class MessagesAsked(Struct, frozen=True):
    """One request. `system` is the system prompt, `messages` what was said. `only_here` names what only
    providers of this protocol take, and `unknown` the fields among it that nobody here knows."""

    model: str
    system: tuple[Message, ...]
    messages: tuple[Message, ...]
    wishes: RunOptions
    stream: bool = False
    previous: str = ""
    """The message that it wants to go on behind, with nothing of what was said before."""
    only_here: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Also such as are known only beside a header of the client's."""


def read_message_request(body: bytes) -> MessagesAsked | Failure:
    """The request, or why it is none. Never raises, whatever the bytes."""
    return _read_any(body, MESSAGES_FIELDS)


def read_count_request(body: bytes) -> MessagesAsked | Failure:
    """The same for a request whose tokens are to be counted. Never raises, whatever the bytes."""
    return _read_any(body, COUNT_FIELDS)


def _read_any(body: bytes, table: FieldTable) -> MessagesAsked | Failure:
    try:
        return _read(open_body(body), table)
    except Refused as refused:
        return refused.failure


def _read(body: Fields, table: FieldTable) -> MessagesAsked:
    given = table.read(body)
    kept = KeptFields(PROTOCOL)
    system, messages = read_system(body, kept), read_messages(body, kept)
    tools, hosted = _tools(body, kept)
    choice, parallel, own_choice = _tool_choice(body, tools, kept)
    extra = table.passed(body, given)
    output, effort, form = _output(given)
    extra |= {"output_config": output} if output else {}
    for name, value in extra.items():
        if value is not None:
            kept.name(body, name)
    extra |= {name: body.raw(name) for name in AS_IT_CAME if name in given.values}
    extra |= {"tool_choice": own_choice} if own_choice else {}
    wishes = RunOptions(
        **table.options(given),
        tools=tools,
        tool_choice=choice,
        parallel_calls=parallel,
        effort=effort,
        thinking_budget=budget_in(given.get("thinking")),
        response_format=form,
        extra={PROTOCOL: extra} if extra else {},
        hosted=hosted,
        open_tools=_is_open(hosted, messages),
    )
    return MessagesAsked(
        given.values["model"],
        system,
        messages,
        wishes,
        stream=bool(given.get("stream")),
        previous=given.get("thread", ""),
        only_here=kept.names,
        unknown=(*given.rest, *(name for name in NEED_BETAS if name in given.values)),
    )


def _tools(body: Fields, kept: KeptFields) -> tuple[tuple[ToolSpec, ...], tuple[HostedTool, ...]]:
    made: list[tuple[Fields, ToolSpec]] = []
    hosted: list[HostedTool] = []
    for place, tool in enumerate(body.objects("tools", MOST_TOOLS)):
        kind = (tool.text("type") or "").strip()
        if kind.startswith(RUN_THERE) or (kind and not tool.has("name")):
            kept.name(body, f"tools.{kind[:64]}")
            hosted.append(HostedTool(place, kept.sure(tool.whole())))
        else:
            made.append((tool, _tool(tool, kept)))
    return all_different(made), tuple(hosted)


def _is_open(hosted: tuple[HostedTool, ...], messages: tuple[Message, ...]) -> bool:
    """Whether the client may have tools that `tools` does not name: a set of them that the provider does not
    run by itself, or one that stands in a message."""
    sets = (tool.state.data for tool in hosted)
    if any(not str(one.get("type")).startswith(RUN_THERE) for one in sets if "name" not in one):
        return True
    parts = (part for message in messages for part in message.parts)
    return any(isinstance(part, OpaquePart) and part.state.data.get("type") == ADDED for part in parts)


def _tool(tool: Fields, kept: KeptFields) -> ToolSpec:
    name = tool.need_text("name")
    if not _NAME.fullmatch(name):
        raise tool.refused("name", "must be 1 to 128 letters, digits, underscores, dashes, dots or colons.")
    schema = tool.kept("input_schema") or _ANYTHING
    if schema.get("type", "object") != "object":
        raise tool.refused("input_schema", 'must be a JSON schema of "type": "object".')
    state = kept.state(tool.whole("name", "description", "input_schema", "strict"), tool)
    description, strict = tool.text("description") or "", tool.flag("strict")
    parameters = schema if "type" in schema else {"type": "object", **schema}
    return ToolSpec(name, description, parameters, strict, state=state)


def _tool_choice(
    body: Fields, tools: tuple[ToolSpec, ...], kept: KeptFields
) -> tuple[ToolChoice, bool | None, dict[str, Any] | None]:
    """The choice, whether several calls at once are wanted, and a choice of a tool that the provider runs, as
    it came."""
    given = body.inner("tool_choice")
    if given is None:
        return "auto", None, None
    kind = given.need_text("type")
    if kind not in CHOICES:
        raise given.refused("type", f"is {kind[:64]!r}; known are {', '.join(CHOICES)}.")
    parallel = False if given.flag("disable_parallel_tool_use") else None
    name = given.text("name", most=LONGEST_NAME)
    if kind != "tool":
        if kind == "any" and not tools:
            return "auto", parallel, given.whole()
        return _CHOICES[kind], parallel, None
    if not name:
        raise given.missing("name")
    if all(tool.name != name for tool in tools):
        if not any(tool.raw("name") == name for tool in body.objects("tools", MOST_TOOLS)):
            raise given.refused("name", f"is {name[:128]}, which is not among the tools of the request.")
        return "auto", parallel, given.whole()
    state = kept.state(given.whole("type", "name", "disable_parallel_tool_use"), given)
    return NamedTool(name, state), parallel, None


def _output(given: FieldValues) -> tuple[dict[str, Any], str | None, dict[str, Any] | None]:
    """What the provider alone knows of `output_config`, the effort, and the form of the answer."""
    config = dict(given.get("output_config") or {})
    effort = config.pop("effort", None)
    if effort is not None and not isinstance(effort, str):
        raise Refused("output_config.effort", "output_config.effort must be a string.", "invalid_type")
    form = config.get("format")
    if form is not None and not isinstance(form, dict):
        raise Refused("output_config.format", "output_config.format must be an object.", "invalid_type")
    if form is None or form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
        return config, effort or None, None
    del config["format"]
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": form["schema"]}}
    return config, effort or None, wanted
