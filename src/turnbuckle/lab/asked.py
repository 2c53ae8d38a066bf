"""What a script's function may want to know about a request, whatever its protocol."""

import json
import re
from typing import Any

from msgspec import Struct

from turnbuckle.lab.script import LabRequest

_DRAFT = re.compile(r'as draft `(?P<id>[^`]+)`.*?\n(?P<tail>"(?:[^"\\]|\\.)*")(?:\n|\Z)', re.DOTALL)
_QUESTION = re.compile(r'draft="(?P<id>[^"]+)".*letter as reading', re.DOTALL)
_RESULT_TYPES = ("function_call_output", "custom_tool_call_output", "tool_result")


def brings_results(request: LabRequest) -> bool:
    """Whether tool results came since the model last spoke."""
    for item in reversed(_items(request)):
        if _is_result(item):
            return True
        if item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning"):
            return False
    return False


def results_brought(request: LabRequest) -> int:
    """How many tool results there are in the whole history."""
    return sum(_results_in(item) for item in _items(request))


def last_user_text(request: LabRequest) -> str:
    """The newest text of the user."""
    if isinstance(plain := request.body.get("input"), str):
        return plain
    for item in reversed(_items(request)):
        if item.get("role") == "user" and (text := _text(item.get("content"))):
            return text
    return ""


def last_result(request: LabRequest) -> str:
    """The text of the newest tool result."""
    for item in reversed(_items(request)):
        if item.get("role") == "tool" or item.get("type") in _RESULT_TYPES:
            return _text(item.get("content", item.get("output")))
        content = item.get("content")
        for part in reversed(content if isinstance(content, list) else []):
            if isinstance(part, dict) and part.get("type") in _RESULT_TYPES:
                return _text(part.get("content", part.get("output")))
    return ""


class ShownDraft(Struct, frozen=True):
    """A draft that the model is asked to finish, and the end of it."""

    id: str
    tail: str


def shown_draft(text: str) -> ShownDraft | None:
    """The draft that the runtime's words speak of."""
    found = _DRAFT.search(text)
    return None if found is None else ShownDraft(found["id"], json.loads(found["tail"]))


def asked_reading(text: str) -> str:
    """The draft about which the runtime asks how a rest belongs to it; empty if it asks nothing."""
    found = _QUESTION.search(text)
    return "" if found is None else found["id"]


def last_role(request: LabRequest) -> str:
    """Who has the last word in the history; an item of a call or a result has the role of its maker."""
    items = _items(request)
    last = items[-1] if items else {}
    if last.get("type") in ("function_call", "reasoning"):
        return "assistant"
    return "tool" if _is_result(last) else str(last.get("role", "user"))


def _items(request: LabRequest) -> list[dict[str, Any]]:
    items = request.body.get("input" if request.protocol == "openai_responses" else "messages")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _is_result(item: dict[str, Any]) -> bool:
    return _results_in(item) > 0


def _results_in(item: dict[str, Any]) -> int:
    if item.get("role") == "tool" or item.get("type") in _RESULT_TYPES:
        return 1
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return sum(isinstance(part, dict) and part.get("type") in _RESULT_TYPES for part in parts)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))
