"""Tools that the scorecard's model can call: whichever the server offers it, known by their names and
schemas.

An agent has tools of its own, of unknown names: what writes a file and what runs a command is guessed, and
arguments are made that fit the schema. A server that offers none is taken for a relay; then the client brings
tools, and what counts is the call that is handed to it.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from turnbuckle.lab.received import results_of
from turnbuckle.lab.score.facts import SentResult
from turnbuckle.lab.script import LabRequest
from turnbuckle.vocab.messages import text_of
from turnbuckle.wire.registry import PROTOCOLS

Deed = Literal["write", "append", "command"]

_NAMES: dict[Deed, re.Pattern[str]] = {
    "write": re.compile(r"write|create_?file|save|put_?file", re.IGNORECASE),
    "append": re.compile(r"append", re.IGNORECASE),
    "command": re.compile(r"shell|bash|terminal|exec|run_?command|command", re.IGNORECASE),
}
_PATH = re.compile(r"path|file_?name|^file$|title", re.IGNORECASE)
_CONTENT = re.compile(r"content|text|^data$|body", re.IGNORECASE)
_COMMAND = re.compile(r"^(?:command|cmd|script|code|input)$", re.IGNORECASE)
_FILLERS: dict[str, Any] = {
    "string": "score",
    "boolean": False,
    "integer": 1,
    "number": 1,
    "array": [],
    "object": {},
}


class OfferedTool(Struct, frozen=True):
    """A tool as it was offered to the model."""

    name: str
    schema: dict[str, Any]

    @property
    def properties(self) -> dict[str, Any]:
        found = self.schema.get("properties")
        return found if isinstance(found, dict) else {}


class Handle(Struct, frozen=True):
    """A tool that does a deed, and which of its arguments says what. `path` is empty for a command."""

    name: str
    content: str
    path: str = ""
    filled: dict[str, Any] = {}

    def arguments(self, content: str, path: str = "") -> dict[str, Any]:
        """Whole arguments. The content comes last, so that a cut is in it."""
        named = {self.path: path} if self.path else {}
        return {**self.filled, **named, self.content: content}

    def text(self, content: str, path: str = "") -> str:
        return msgspec.json.encode(self.arguments(content, path)).decode()


def _client_tool(name: str, about: str, **arguments: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": words} for key, words in arguments.items()}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


CLIENT_TOOLS: tuple[dict[str, Any], ...] = (
    _client_tool("write_note", "Write a file.", path="Where to.", content="All of it."),
    _client_tool("run_command", "Run a command.", command="For a shell."),
)
"""What the client brings to a server that offers its model no tools."""


def offered(request: LabRequest) -> tuple[OfferedTool, ...]:
    """The tools of a request to the provider, in any protocol."""
    tools = PROTOCOLS[request.protocol].read_request(request.body).tools
    return tuple(OfferedTool(tool.name, tool.parameters) for tool in tools)


def handle(tools: Iterable[OfferedTool], deed: Deed) -> Handle | None:
    """The first tool that seems to do this, if all that it needs can be given."""
    fitting = (_handle(tool, deed) for tool in tools if _NAMES[deed].search(tool.name))
    return next((found for found in fitting if found is not None), None)


def results(request: LabRequest) -> tuple[SentResult, ...]:
    """The tool results of a request, in any protocol."""
    return tuple(SentResult(part.call_id, text_of(part.content)) for part in results_of(request))


def flat_text(value: Any) -> str:
    """All strings of a value made of dicts and sequences, one behind the other."""
    if isinstance(value, str):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return "\n".join(filter(None, map(flat_text, inner)))


def _handle(tool: OfferedTool, deed: Deed) -> Handle | None:
    content = _named(tool, _COMMAND if deed == "command" else _CONTENT)
    path = "" if deed == "command" else _named(tool, _PATH)
    if not content or (deed != "command" and not path):
        return None
    filled = {}
    required = tool.schema.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in (content, path):
            filler = _filler(tool.properties.get(name))
            if filler is None:
                return None
            filled[name] = filler
    return Handle(tool.name, content, path, filled)


def _named(tool: OfferedTool, pattern: re.Pattern[str]) -> str:
    for name, schema in tool.properties.items():
        if pattern.search(name) and isinstance(schema, dict) and schema.get("type", "string") == "string":
            return name
    return ""


def _filler(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return None
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    kind = schema.get("type")
    return _FILLERS.get(kind) if isinstance(kind, str) else None
