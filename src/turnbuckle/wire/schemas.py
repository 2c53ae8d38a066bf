"""JSON schemas as values: what a body may hold, said once for readers, for the document and for its pages."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

_PREFIX = "#/components/schemas/"


class Shape(Struct, frozen=True):
    """A JSON schema with a name. `parts` and `kinds` are the shapes and types that it points to by name."""

    name: str
    schema: dict[str, Any]
    parts: tuple["Shape", ...] = ()
    kinds: tuple[Any, ...] = ()

    @property
    def ref(self) -> dict[str, Any]:
        return reference(self.name)

    def all(self) -> Iterator["Shape"]:
        yield self
        for part in self.parts:
            yield from part.all()


def reference(name: str) -> dict[str, Any]:
    """A pointer to a schema of the document."""
    return {"$ref": f"{_PREFIX}{name}"}


TEXT: dict[str, Any] = {"type": "string"}
SOME_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "\\S"}
WHOLE: dict[str, Any] = {"type": "integer", "minimum": 0}
MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
MAYBE_FLAG: dict[str, Any] = {"type": ["boolean", "null"]}
MAYBE_OBJECT: dict[str, Any] = {"type": ["object", "null"]}
ADDRESS = "^[hH][tT][tT][pP][sS]?://|^[dD][aA][tT][aA]:[^,]*,[\\s\\S]"


def thing(required: str, about: str = "", /, **properties: Any) -> dict[str, Any]:
    """The schema of an object; `required` are names with spaces between them."""
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required.split()
    return {**made, "description": about} if about else made


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    kind = schema.get("type")
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if isinstance(kind, str):
        return {**schema, "type": [kind, "null"]}
    if "anyOf" in schema and len(schema) == 1:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def listed(items: dict[str, Any], most: int | None = None, *, least: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "array", "items": items}
    if least:
        made["minItems"] = least
    return made if most is None else {**made, "maxItems": most}


def kind_of(*words: str) -> dict[str, Any]:
    return {"const": words[0]} if len(words) == 1 else {"enum": list(words)}
