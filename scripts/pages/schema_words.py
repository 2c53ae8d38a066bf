"""A JSON schema in words, short enough for a cell of a table."""

import re
from collections.abc import Iterator
from typing import Any

PAGE_OF = re.compile(r"(Page|NodesPage)_(\w+)_$")
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
}
_LARGE = 2**31 - 1  # bounds that only say how much a number can hold
_MANY = 512  # lengths that only guard the server
_OPENAI = re.compile(r"(Chat|Response|Input|Output|Item)[A-Z]\w*$|Response$")  # OpenAI's own shapes


class Words:
    """Words for the schemas of one document. `named` collects the shapes that were spoken of."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        self.schemas = dict(schemas)  # with one more, which stands for all pages
        self.named: set[str] = set()
        self._usual: set[str] = set()

    def name(self, schema: dict[str, Any]) -> str:
        """The name that a schema points to; empty if it stands there itself."""
        return str(schema.get("$ref", "")).rpartition("/")[2]

    def found(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema itself, behind its name if it has one."""
        name = self.name(schema)
        return self.schemas[name] if name else schema

    def choices(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """All kinds of object that a schema stands for."""
        schema = self.found(schema)
        inner = schema.get("anyOf") or schema.get("oneOf")
        if inner is None:
            yield schema
        for each in inner or ():
            yield from self.choices(each)

    def kind(self, schema: dict[str, Any]) -> str:
        """What a value may be."""
        if name := self.name(schema):
            return self._link(name)
        if "const" in schema:
            return f"`{_plain(schema['const'])}`"
        if "enum" in schema:
            return ", ".join(f"`{_plain(value)}`" for value in schema["enum"] if value is not None)
        if inner := schema.get("anyOf") or schema.get("oneOf"):
            kinds = dict.fromkeys(self.kind(each) for each in inner if each.get("type") != "null")
            return " or ".join(kinds)
        types = schema.get("type", "object")
        return " or ".join(self._typed(kind, schema) for kind in _listed(types) if kind != "null")

    def body(self, schema: dict[str, Any]) -> str:
        """The fields of a request. Those that go without saying come behind the table, by name."""
        needed, usual = schema.get("required", ()), []
        lines = ["| field of the body | may be | |", "|---|---|---|"]
        for name, inner in schema["properties"].items():
            must = "Needed. " if name in needed else ""
            if must or inner.get("description"):
                lines.append(f"| `{name}` | {self.kind(inner)} | {must}{self.sentence(inner)} |")
            else:
                usual.append(f"`{name}`")
        if not usual:
            return "\n".join(lines)
        known = set(usual) <= self._usual
        self._usual.update(usual)
        rest = "those of chat completions" if known else ", ".join(usual)
        return "\n".join(lines) + f"\n\nBesides, with their usual meaning: {rest}."

    def answer(self, schema: dict[str, Any]) -> str:
        """The fields of an answer: a table if there is something to say of them, else a row of names."""
        fields = schema["properties"]
        told = {
            name: self.kind(inner) + (" or null" if _may_be_null(inner) else "")
            for name, inner in fields.items()
        }
        if not any(map(self.sentence, fields.values())):
            return ", ".join(f"`{name}` ({kind})" for name, kind in told.items()) + "."
        rows = [f"| `{name}` | {kind} | {self.sentence(fields[name])} |" for name, kind in told.items()]
        return "\n".join(["| field | is | |", "|---|---|---|", *rows])

    def shape(self, name: str) -> str:
        """What stands under the heading of a shape."""
        schema = self.schemas[name]
        parts = [self.sentence(schema)]
        if "properties" in schema:
            parts.append(self.answer(schema))
        elif inner := schema.get("anyOf") or schema.get("oneOf"):
            parts.append("One of: " + "; ".join(self._one(each) for each in inner) + ".")
        return "\n\n".join(filter(None, parts))

    def sentence(self, schema: dict[str, Any]) -> str:
        """What is said of a schema, on one line."""
        return " ".join(str(schema.get("description", "")).split())

    def _one(self, schema: dict[str, Any]) -> str:
        """One choice of several: its name, or what is said of it."""
        if self.name(schema) or not schema.get("description"):
            return self.kind(schema)
        return self.sentence(schema).rstrip(".")

    def _typed(self, kind: str, schema: dict[str, Any]) -> str:
        if kind == "array":
            return f"list of {self.kind(schema.get('items', {}))}"
        if kind == "object" and schema.get("properties"):
            return "{ " + ", ".join(f"`{name}`" for name in schema["properties"]) + " }"
        return _TYPES[kind] + _bounds(schema)

    def _link(self, name: str) -> str:
        if page := PAGE_OF.match(name):
            kind, things = page.groups()
            self.named.update((kind, things))
            self.schemas.setdefault(kind, _page_of(self.schemas[name]))
            return f"[{kind}](#{kind.lower()}) of {self._link(things)}"
        if _OPENAI.match(name):
            return f"`{name}`"
        self.named.add(name)
        return f"[{name}](#{name.lower()})"


def _page_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Any page, of whatever it is."""
    return {
        **schema,
        "properties": {**schema["properties"], "data": {"type": "array", "items": {"type": "object"}}},
    }


def _listed(types: Any) -> list[str]:
    return types if isinstance(types, list) else [types]


def _may_be_null(schema: dict[str, Any]) -> bool:
    kinds = [*_listed(schema.get("type", "")), *(each.get("type") for each in schema.get("anyOf", ()))]
    return "null" in kinds or None in schema.get("enum", ())


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bounds(schema: dict[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None and most < _LARGE:
        return f" from {least} to {most}"
    if least is not None and least > -_LARGE:
        return f" ≥ {least}"
    longest = schema.get("maxLength", _MANY)
    return f" of at most {longest} characters" if longest < _MANY else ""
