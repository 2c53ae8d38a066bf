"""Reading what others wrote without refusing anything: wrong types are as good as nothing."""

from typing import Any

from turnbuckle.vocab.messages import Message, Part, ResultPart
from turnbuckle.vocab.request import ToolSpec


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def word(value: object) -> str:
    return value if isinstance(value, str) else ""


def whole_number(value: object) -> int | None:
    """An index, also where it is told as text. Nobody counts as far as ten digits."""
    if value.__class__ is int:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def plain_text(content: object) -> str:
    """The text of a content, whether it is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(word(part.get("text")) for part in objects(content))


def results_first(parts: list[Part], *, is_model: bool) -> list[Message]:
    """The messages of a turn in which results stand beside what was said."""
    results = tuple(part for part in parts if isinstance(part, ResultPart))
    others = tuple(part for part in parts if not isinstance(part, ResultPart))
    said = [Message("assistant" if is_model else "user", others)] if others or not results else []
    return [Message("tool", results), *said] if results else said


def tool_specs(listed: object, schema: str) -> tuple[ToolSpec, ...]:
    """Tools as they stand in a request, under `function` or bare; `schema` names the field of their
    parameters."""
    inner = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in objects(listed)]
    return tuple(
        ToolSpec(tool["name"], word(tool.get("description")), tool[schema])
        for tool in inner
        if isinstance(tool.get("name"), str) and isinstance(tool.get(schema), dict)
    )
