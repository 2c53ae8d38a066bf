"""All settings and all presets, as tables made from the types in the code."""

import inspect
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from turnbuckle.call.presets import PRESETS
from turnbuckle.settings import RouteSettings, Settings, is_reloaded
from turnbuckle.tools.mcp.settings import McpSettings

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): ""}


class Row(Struct, frozen=True):
    """One setting: its key, what it may be, what it is if nobody says, and its sentence."""

    key: str
    kind: str
    default: str
    about: str
    variable: str


def tables() -> str:
    """Every table of settings, in the order of the code."""
    return "\n\n".join(f"### {head}\n\n{words}{_drawn(rows)}" for head, words, rows in _sections())


def rows() -> list[Row]:
    """Every setting."""
    return [row for _, _, rows in _sections() for row in rows]


def _sections() -> Iterator[tuple[str, str, list[Row]]]:
    """The heading of each table, what is said of it, and its rows. What stands in no table comes first."""
    fields = [(field, _table(field[1])) for field in _fields(Settings)]
    yield "Outside any table", "", [_row("", *field) for field, kind in fields if kind is None]
    for (name, _, _), kind in fields:
        if kind is not None:
            head, prefix = (f"[[{name}]]", f"{name}.0") if kind is RouteSettings else (f"[{name}]", name)
            yield (
                head,
                " ".join((inspect.getdoc(kind) or "").split()) + "\n\n",
                [_row(prefix, *field) for field in _fields(kind)],
            )
    words = " ".join((inspect.getdoc(McpSettings) or "").split()) + "\n\n"
    yield "[tools.mcp.NAME]", words, [_row("tools.mcp.NAME", *field) for field in _fields(McpSettings)]


def presets() -> str:
    """Every provider that has a name of its own. Addresses stand there without their scheme, as nobody opens
    them."""
    lines = ["| preset | speaks | where | key |", "|---|---|---|---|"]
    for name, preset in PRESETS.items():
        where = preset.base_url.partition("://")[2] or "give `base_url`"
        place = f"`{where}`" if preset.base_url else where
        lines.append(f"| `{name}` | `{preset.protocol}` | {place} | `{preset.key}` |")
    return "\n".join(lines)


def _drawn(rows: list[Row]) -> str:
    head = ["| key, and its variable | default | may be | what it is |", "|---|---|---|---|"]
    lines = (
        f"| `{row.key}`<br>`{row.variable}` | `{row.default}` | {row.kind} | {_told(row)} |" for row in rows
    )
    return "\n".join([*head, *lines])


def _told(row: Row) -> str:
    return f"{row.about} ↻" if is_reloaded(row.key) else row.about


def _row(prefix: str, name: str, annotation: Any, default: Any) -> Row:
    path = f"{prefix}.{name}" if prefix else name
    variable = "TURNBUCKLE_" + path.upper().replace(".", "__")
    key = path.replace(".0.", ".")
    return Row(key, kind_of(annotation), msgspec.json.encode(default).decode(), about(annotation), variable)


def _fields(kind: type[Struct]) -> Iterator[tuple[str, Any, Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    empty = kind()
    return ((name, hints[name], getattr(empty, name)) for name in kind.__struct_fields__)


def _table(annotation: Any) -> type[Struct] | None:
    """The struct behind a field that is a table of its own, or a list of them."""
    inner = typing.get_args(annotation)
    kind = inner[0] if typing.get_origin(annotation) is tuple and inner else annotation
    return kind if isinstance(kind, type) and issubclass(kind, Struct) else None


def about(annotation: Any) -> str:
    """The sentence of a field."""
    return next((meta.description for meta in _metas(annotation) if meta.description), "")


def kind_of(annotation: Any) -> str:
    """What a field may be, in words: its type and its bounds."""
    if typing.get_origin(annotation) is Annotated:
        inner, *_ = typing.get_args(annotation)
        bounds = "".join(_bounds(meta) for meta in _metas(annotation))
        return kind_of(inner) + bounds
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(filter(None, map(kind_of, inner)))
    if origin is tuple:
        return f"list of {kind_of(inner[0])}"
    if origin is dict:
        if isinstance(inner[1], type) and issubclass(inner[1], Struct):
            return "tables"
        return "table" if inner[1] is Any else f"table of {kind_of(inner[1])}"
    return _WORDS[annotation]


def _metas(annotation: Any) -> list[Meta]:
    extra = getattr(annotation, "__metadata__", ())
    return [meta for meta in extra if isinstance(meta, Meta)]


def _bounds(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    if meta.ge is not None:
        return f" ≥ {meta.ge}"
    return f" > {meta.gt}" if meta.gt is not None else ""
