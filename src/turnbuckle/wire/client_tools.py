"""Tools that a client brings, as both OpenAI protocols spell them; they differ only in how deep the function
stands."""

import re
from collections.abc import Iterable

from turnbuckle.vocab.request import NamedTool, ToolChoice, ToolSpec
from turnbuckle.vocab.tooling import FINISH_CALL
from turnbuckle.wire.fields import Fields

MOST_TOOLS = 1024
"""Eight times what the largest host takes; a list of this size is a mistake."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")  # hosts differ; this is what the most tolerant of them take
_CHOICES: tuple[ToolChoice, ...] = ("auto", "none", "required")


def function_tool(function: Fields, prefix: str = "") -> ToolSpec:
    """One function, from the object that holds its name. `prefix` goes before it in the name that is
    offered."""
    name = prefix + function.need_text("name")
    if not _NAME.fullmatch(name):
        raise function.refused(
            "name", "must be 1 to 128 letters, digits, underscores, dashes, dots or colons."
        )
    if name == FINISH_CALL:
        raise function.refused(
            "name", f"is {FINISH_CALL}, which this server keeps for itself; choose another name."
        )
    parameters = function.kept("parameters")
    if parameters and parameters.get("type", "object") != "object":
        raise function.refused("parameters", 'must be a JSON schema of "type": "object".')
    description, strict = function.text("description") or "", function.flag("strict")
    if not parameters:
        return ToolSpec(name, description, strict=strict)
    return ToolSpec(name, description, {"type": "object", **parameters}, strict)


def all_different(tools: Iterable[tuple[Fields, ToolSpec]]) -> tuple[ToolSpec, ...]:
    """The tools, if no name is there twice."""
    made: dict[str, ToolSpec] = {}
    for fields, tool in tools:
        if tool.name in made:
            raise fields.refused("name", f"is {tool.name}, as another tool's is; names must differ.")
        made[tool.name] = tool
    return tuple(made.values())


def tool_choice(body: Fields, tools: tuple[ToolSpec, ...], nested: str = "") -> ToolChoice:
    """Which tool must be called. `nested` is the field that holds the name's object, where it is not the
    choice's own.

    What forces a call needs tools to choose from: those of the client, which wants them called."""
    given = body.raw("tool_choice")
    if given is None:
        return "auto"
    if isinstance(given, str):
        choice = next((known for known in _CHOICES if known == given), None)
        if choice is None:
            raise body.refused(
                "tool_choice", "must be auto, none, required, or an object that names a function."
            )
        if choice == "required" and not tools:
            raise body.refused("tool_choice", "is required, but there are no tools in the request.")
        return choice
    fields = body.need_inner("tool_choice")
    kind = fields.need_text("type")
    if kind != "function":
        what = f"is {kind}, which is not supported; use auto, none, required, or a function."
        raise fields.refused("type", what, "unsupported_value")
    holder = fields.need_inner(nested) if nested else fields
    name = holder.need_text("name")
    if all(tool.name != name for tool in tools):
        raise holder.refused("name", f"is {name[:128]}, which is not among the tools of the request.")
    return NamedTool(name)
