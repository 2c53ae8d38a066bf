"""The rehearsal model calls a tool that somebody brought along when their words speak of it, as models do:
asked for the weather, with `get_weather` at hand, it calls that."""

import re
from collections.abc import Iterable
from typing import Any

from turnbuckle.lab.rehearsal.commands import Plan, Step
from turnbuckle.lab.rehearsal.words import HELP
from turnbuckle.vocab.request import ToolSpec

_SHORTEST = 5
"""Letters of a word that says what a tool is about; `get`, `file` and `run` stand in many names."""
_OWN_TOPICS = frozenset({"files", "process", "output", "recall", "shell", "draft", "question"})
"""What the server's own tools are about: those have commands."""
_PLACES = re.compile(r"\b(?:in|at|for|of|to|from)\s+(.+)", re.IGNORECASE | re.DOTALL)


def with_tools(plan: Plan, task: str, tools: Iterable[ToolSpec]) -> Plan:
    """The plan, or a call of the tool that a task speaks of and that is not a command."""
    if plan.steps != (Step(HELP),) or task.strip().lower() == "help":
        return plan
    spoken = set(re.findall(r"[a-z]+", task.lower()))
    for tool in tools:
        if spoken & _about(tool.name):
            arguments = {name: _value(rule, task) for name, rule in _required(tool.parameters)}
            return Plan((Step(f"I will call {tool.name}.\n", tool=tool.name, arguments=arguments),))
    return plan


def _about(name: str) -> set[str]:
    """The words of a name that say what it is about: not the first, which says what it does, unless it is the
    only one."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return {word for word in (words[1:] or words) if len(word) >= _SHORTEST} - _OWN_TOPICS


def _required(schema: dict[str, Any]) -> list[tuple[str, Any]]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    return [(name, properties.get(name)) for name in required if isinstance(name, str)]


def _value(rule: Any, task: str) -> Any:
    """Something that fits the schema. A text is what the task says behind "in", "for" …"""
    rule = rule if isinstance(rule, dict) else {}
    if isinstance(rule.get("enum"), list) and rule["enum"]:
        return rule["enum"][0]
    match rule.get("type"):
        case "integer" | "number":
            return max(1, rule["minimum"]) if isinstance(rule.get("minimum"), int) else 1
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {name: _value(inner, task) for name, inner in _required(rule)}
        case _:
            found = _PLACES.search(task)
            return (found[1] if found else task).strip(" .!?\n")
