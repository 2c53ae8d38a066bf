"""What a delta or a whole message says, and how a second telling compares with the first. Pure functions."""

from typing import Any

from turnbuckle.wire.openai_chat.frames import ChatDelta
from turnbuckle.wire.payload import whole_text
from turnbuckle.wire.think import Mode, ThinkSplitter

SPELLED = ("reasoning_content", "reasoning", "thinking")
"""The fields of a delta that hold reasoning as text."""


def says(delta: ChatDelta) -> bool:
    """Whether a delta has content of any kind."""
    return bool(
        delta.content
        or delta.reasoning_content
        or delta.reasoning
        or delta.thinking
        or delta.reasoning_details
        or delta.refusal
        or delta.tool_calls
        or delta.function_call
    )


def thought_in(given: object) -> str:
    """The text of a field that holds reasoning."""
    if isinstance(given, dict):
        given = given.get("content") or given.get("text")
    return given if isinstance(given, str) else ""


def text_in(content: str | list[Any] | None) -> str:
    """The text of a content, whether it is a text or a list of parts."""
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "".join(part for part in parts if isinstance(part, str))
    return content or ""


def _visible(content: str, think: Mode) -> str:
    """What a content shows without its reasoning."""
    splitter = ThinkSplitter(think)
    return "".join(text for kind, text in (*splitter.feed(content), *splitter.end()) if kind == "text")


def field(found: object, name: str) -> Any:
    """A field of what should be an object."""
    return found.get(name) if isinstance(found, dict) else None


def untold_content(content: str | list[Any] | None, said: str, think: Mode) -> str | None:
    """What a whole content has more than the pieces of it; None if the two do not fit together."""
    told = text_in(content)
    if told.startswith(said):
        return told[len(said) :]
    told, said = (
        whole_text(told),
        whole_text(said),
    )  # halves of a character in two pieces are one in the whole
    if told.startswith(said):
        return told[len(said) :]
    told, said = _visible(told, think), _visible(said, think)
    if told.strip() == said.strip():
        return ""
    return told[len(said) :] if said and told.startswith(said) else None


def unwrapped(document: object) -> object:
    """A whole answer without the envelope that a router may put around it."""
    if not isinstance(document, dict) or document.get("choices"):
        return document
    inner = document.get("provider")
    return inner if isinstance(inner, dict) else document
