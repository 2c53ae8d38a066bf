"""Tools that a client brings, as both OpenAI protocols spell them; they differ only in how deep the function
stands.

Three kinds. A function is run by the client. So is a custom tool, whose input is text of any kind; where a
protocol does not know such tools it is offered as a function with one text. Any other kind is the provider's
own, which runs it by itself: it is kept as it came, for a provider of the client's protocol.
"""

import re
from collections.abc import Iterable
from typing import Any

from turnbuckle.vocab.free_text import INPUT
from turnbuckle.vocab.request import NamedTool, ToolChoice, ToolSpec
from turnbuckle.wire.field_table import FLAG, Field, FieldTable, Kind, text
from turnbuckle.wire.fields import Fields
from turnbuckle.wire.kept import KeptFields
from turnbuckle.wire.schemas import SOME_TEXT, kind_of, thing

MOST_TOOLS = 1024
"""Eight times what the largest host takes; a list of this size is a mistake."""
CUSTOM = "custom"

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")  # hosts differ; this is what the most tolerant of them take
_CHOICES: tuple[ToolChoice, ...] = ("auto", "none", "required")


def _named(function: Fields, field: str) -> str:
    name = function.need_text(field)
    if not _NAME.fullmatch(name):
        raise function.refused(
            field, "must be 1 to 128 letters, digits, underscores, dashes, dots or colons."
        )
    return name


def _parameters(function: Fields, field: str) -> dict[str, Any] | None:
    parameters = function.kept(field)
    if parameters and parameters.get("type", "object") != "object":
        raise function.refused(field, 'must be a JSON schema of "type": "object".')
    return parameters


NAME = Kind(_named, {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"})
_PARAMETERS = Kind(_parameters, {"type": "object", "properties": {"type": {"enum": ["object", None]}}})
FUNCTION = FieldTable(
    Field("name", NAME, required=True),
    Field("description", text()),
    Field("parameters", _PARAMETERS, "A JSON schema of type object."),
    Field("strict", FLAG),
)
CUSTOM_TOOL = FieldTable(Field("name", NAME, required=True), Field("description", text()))


def function_tool(function: Fields, prefix: str = "") -> tuple[ToolSpec, dict[str, Any]]:
    """One function, from the object that holds its name, and what else stands there. `prefix` goes before it
    in the name that is offered."""
    given = FUNCTION.read(function)
    name = prefixed(function, prefix, given.values["name"])
    description, strict = given.get("description", ""), given.get("strict")
    parameters = given.get("parameters")
    if not parameters:
        return ToolSpec(name, description, strict=strict), given.rest
    return ToolSpec(name, description, {"type": "object", **parameters}, strict), given.rest


def prefixed(function: Fields, prefix: str, name: str) -> str:
    """The name that is offered, which must be one, too."""
    if prefix and not _NAME.fullmatch(prefix + name):
        raise function.refused("name", f"is {name} in {prefix}, which together are not a legal name.")
    return prefix + name


def custom_tool(tool: Fields) -> tuple[ToolSpec, dict[str, Any]]:
    """One tool that takes text of any kind, and what else is said of it."""
    given = CUSTOM_TOOL.read(tool)
    spec = ToolSpec(given.values["name"], given.get("description", ""), FREE_TEXT, free_text=True)
    return spec, given.rest


FREE_TEXT = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "The whole input, as plain text."}},
    "required": [INPUT],
}
"""What a custom tool takes where there are only functions."""


def all_different(tools: Iterable[tuple[Fields, ToolSpec]]) -> tuple[ToolSpec, ...]:
    """The tools, if no name is there twice."""
    made: dict[str, ToolSpec] = {}
    for fields, tool in tools:
        if tool.name in made:
            raise fields.refused("name", f"is {tool.name}, as another tool's is; names must differ.")
        made[tool.name] = tool
    return tuple(made.values())


def choice_schema(nested: bool = False) -> dict[str, Any]:
    """The schema of a tool choice; `nested` as below."""
    own = ("function", CUSTOM)
    inner = thing("name", name=SOME_TEXT)
    named = (
        [thing(f"type {kind}", type=kind_of(kind), **{kind: inner}) for kind in own]
        if nested
        else [thing("type name", type=kind_of(*own), name=SOME_TEXT)]
    )
    other = thing("type", type={**SOME_TEXT, "not": {"enum": [*own]}})
    return {"anyOf": [{"enum": list(_CHOICES)}, *named, other]}


def tool_choice(
    body: Fields, tools: tuple[ToolSpec, ...], kept: KeptFields, nested: bool = False, hosted: bool = False
) -> tuple[ToolChoice, Any]:
    """Which tool must be called, and a choice that only the provider knows, as it came. `nested`: the name
    stands in an object of its own, called as the type is. `hosted`: there are tools of the provider's.

    What forces a call needs tools to choose from: those of the client, which wants them called."""
    given = body.raw("tool_choice")
    if given is None:
        return "auto", None
    if isinstance(given, str):
        choice = next((known for known in _CHOICES if known == given), None)
        if choice is None:
            raise body.refused(
                "tool_choice", "must be auto, none, required, or an object that names a function."
            )
        if choice == "required" and not tools and not hosted:
            raise body.refused("tool_choice", "is required, but there are no tools in the request.")
        return choice, None
    fields = body.need_inner("tool_choice")
    kind = fields.need_text("type")
    if kind not in ("function", CUSTOM):
        kept.name(body, "tool_choice")
        return "auto", fields.whole()
    holder = fields.need_inner(kind) if nested else fields
    name = holder.need_text("name")
    if all(tool.name != name for tool in tools):
        raise holder.refused("name", f"is {name[:128]}, which is not among the tools of the request.")
    beside = fields.whole("type", kind if nested else "name")
    within = holder.whole("name") if nested else {}
    for field in within:
        kept.name(holder, field)
    state = kept.state({**beside, kind: within} if within else beside, fields, beside)
    return NamedTool(name, state), None
