"""The tools that a server names, made safe to offer. Pure.

Names, descriptions and schemas are a stranger's words that models read. Each is checked and capped, and what
cannot be offered is left out with a reason. A schema is written out whole, without references: so its size is
the work of checking arguments, no chain of references can make that endless, and every provider takes it.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from turnbuckle.tools.mcp.messages import Unreadable
from turnbuckle.vocab.tooling import Effect
from turnbuckle.vocab.visible import visible_line, visible_text

PREFIX = "mcp__"
SERVER_NAME = re.compile(r"(?!.*__)[A-Za-z0-9-][A-Za-z0-9_-]{0,23}(?<!_)")
MOST_TOOLS = 100
"""Tools of all servers together: providers take 128 in all."""
MOST_PAGES = 50
DESCRIPTION_CAP = 4000
SCHEMA_CAP = 32_000
"""Bytes of one schema."""
ALL_SCHEMAS_CAP = 400_000
DEEPEST = 24
MOST_NODES = 2000
_LONGEST_NAME = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_AT_TOP = frozenset(
    {"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$schema", "$id"}
)
"""What providers refuse at the top of a schema. Arguments are checked by all of it."""

_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names of arguments that every provider takes. One other name, and a provider refuses the whole request."""
_ALSO_NAMES = frozenset(
    {
        *("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "dependencies"),
        *("dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"),
    }
)
"""Beside `properties` and `required`, these may speak of arguments by their names."""

_DROPPED = frozenset({"$defs", "definitions", "$dynamicRef", "$recursiveRef"})
_NAMES = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Below these, keys are names of arguments."""


class ToolHints(Struct, frozen=True, gc=False):
    """What a server says of its own tool. Nobody has to believe it."""

    readOnlyHint: bool = False
    idempotentHint: bool = False


class _Listed(Struct, frozen=True, gc=False):
    name: str
    description: str = ""
    inputSchema: Raw = Raw(b"{}")
    annotations: ToolHints | None = None


class _Page(Struct, frozen=True, gc=False):
    tools: list[Raw]
    nextCursor: str | None = None


class ListedTool(Struct, frozen=True):
    """A tool that can be offered. `name` is the server's own, `offered` the one that models see. `checked` is
    the schema for arguments, `told` what providers are told of it. `renamed` are arguments that the server
    calls otherwise."""

    name: str
    offered: str
    description: str
    checked: dict[str, Any]
    told: dict[str, Any]
    effect: Effect = "write"
    renamed: dict[str, str] = {}

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """What a model gave, under the server's own names."""
        return {self.renamed.get(name, name): value for name, value in given.items()}


class Listing(Struct, frozen=True):
    """What a server offers, and why some of it is not."""

    tools: tuple[ListedTool, ...] = ()
    left_out: tuple[str, ...] = ()


def prefix_of(server: str) -> str:
    """How the names of a server's tools begin."""
    return f"{PREFIX}{server}__"


def read_page(result: bytes) -> tuple[list[Raw], str | None]:
    """The tools of one page, unread, and the cursor of the next. Raises Unreadable."""
    try:
        page = msgspec.json.decode(result, type=_Page)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"its list of tools cannot be read: {error}") from None
    return page.tools, page.nextCursor


def listing_of(server: str, written: Sequence[Raw], wanted: Sequence[str] = ()) -> Listing:
    """The tools that can be offered, in the server's order. `wanted` names some of them, or none for all."""
    found: dict[str, ListedTool] = {}
    out: list[str] = []
    size = 0
    for one in written[: 10 * MOST_TOOLS]:
        try:
            listed = msgspec.json.decode(one, type=_Listed)
            if wanted and listed.name not in wanted:
                continue
            made = _tool(server, listed, found)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Unreadable) as error:
            out.append(visible_line(str(error))[:200])
            continue
        size += len(listed.inputSchema) + len(made.description)
        if size > ALL_SCHEMAS_CAP or len(found) >= MOST_TOOLS:
            out.append(f"{made.offered}: there are too many tools; choose some with tools.mcp.{server}.tools")
            break
        found[made.offered] = made
    known = {tool.name for tool in found.values()}
    out += [f"there is no tool {name!r}" for name in wanted if name not in known and len(out) < 20]
    return Listing(tuple(found.values()), tuple(out[:20]))


def _tool(server: str, listed: _Listed, taken: dict[str, ListedTool]) -> ListedTool:
    about = visible_line(listed.name[:80])
    if not listed.name or len(listed.name) > 500:
        raise Unreadable(f"{about!r} is not a name for a tool")
    if any(listed.name == other.name for other in taken.values()):
        raise Unreadable(f"{about}: it is named twice")
    if len(listed.inputSchema) > SCHEMA_CAP:
        raise Unreadable(f"{about}: its schema has more than {SCHEMA_CAP:,} bytes")
    schema = msgspec.json.decode(listed.inputSchema)
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise Unreadable(f"{about}: its schema is not one of an object")
    try:
        whole, names = renamed(written_out({"type": "object", "properties": {}, **schema}))
    except Unreadable as error:
        raise Unreadable(f"{about}: {error}") from None
    text = visible_text(listed.description[:DESCRIPTION_CAP])
    if len(listed.description) > DESCRIPTION_CAP:
        text += " […]"
    hints = listed.annotations or ToolHints()
    effect: Effect = "read" if hints.readOnlyHint else "idempotent" if hints.idempotentHint else "write"
    told = with_items({key: value for key, value in whole.items() if key not in _AT_TOP})
    return ListedTool(
        listed.name, offered_name(server, listed.name, taken), text or about, whole, told, effect, names
    )


def offered_name(server: str, name: str, taken: Sequence[str] | dict[str, Any] = ()) -> str:
    """A name that every provider takes, and that no other tool has."""
    plain = prefix_of(server) + _ILLEGAL.sub("_", name)
    if len(plain) <= _LONGEST_NAME and plain not in taken:
        return plain
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{plain[: _LONGEST_NAME - 9]}_{mark}"


def written_out(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without references. What refers to itself is anything there. Raises Unreadable if it is too
    deep or too large."""
    left = [MOST_NODES]

    def walk(node: Any, depth: int, within: tuple[str, ...], *, named: bool = False) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth > DEEPEST:
            raise Unreadable("its schema is too large or too deep")
        if isinstance(node, list):
            return [walk(one, depth + 1, within) for one in node]
        if not isinstance(node, dict):
            return node
        reference = None if named else node.get("$ref")
        if isinstance(reference, str):
            rest = {key: value for key, value in node.items() if key not in ("$ref", *_DROPPED)}
            target = {} if reference in within else _target(schema, reference)
            inner = walk(target, depth + 1, (*within, reference))
            more = walk(rest, depth + 1, within)
            return {**inner, **more} if isinstance(inner, dict) else inner
        return {
            key: visible_text(value[:DESCRIPTION_CAP])
            if key in ("description", "title") and isinstance(value, str)
            else walk(value, depth + 1, within, named=key in _NAMES and not named)
            for key, value in node.items()
            if named or key not in _DROPPED
        }

    made = walk(schema, 0, ())
    assert isinstance(made, dict)
    return made


def renamed(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A schema whose arguments have names that every provider takes, and what the server calls those that had
    others. Raises Unreadable if that cannot be done by their names alone."""
    properties, required = schema["properties"], schema.get("required", [])
    if not isinstance(properties, dict) or all(map(_ARGUMENT.fullmatch, properties)):
        return schema, {}
    if _ALSO_NAMES & schema.keys() or not isinstance(required, list):
        raise Unreadable("providers refuse the names of its arguments")
    names: dict[str, str] = {}
    for name in properties:
        if _ARGUMENT.fullmatch(name):
            continue
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:55]
        if not plain or plain in properties or plain in names:
            plain += "_" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        names[plain] = name
    new = {old: plain for plain, old in names.items()}
    made = {
        **schema,
        "properties": {new.get(name, name): value for name, value in properties.items()},
    }
    if required:
        made["required"] = [new.get(name, name) if isinstance(name, str) else name for name in required]
    return made, names


def with_items(schema: Any) -> Any:
    """A schema in which every list says what is in it, be it anything: some providers refuse one without."""
    if isinstance(schema, list):
        return [with_items(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: with_items(value) for key, value in schema.items()}
    kind = schema.get("type")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        made.setdefault("items", {})
    return made


def _target(schema: dict[str, Any], reference: str) -> Any:
    """What a reference leads to, inside of the same schema. Raises Unreadable."""
    if not reference.startswith("#"):
        raise Unreadable("its schema refers to another place")
    at: Any = schema
    for step in filter(None, reference[1:].split("/")):
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, dict) or key not in at:
            raise Unreadable(f"its schema refers to {visible_line(reference[:80])}, which is not there")
        at = at[key]
    return at
