"""The fields that we read of a Chat Completions chunk or answer, as loosely typed as servers are.

Unknown fields are skipped by the parser without cost. Unions list what was met in the wild: content as text or
as a list (Mistral), arguments as text or as an object, ids as numbers.
"""

from typing import Any

import msgspec
from msgspec import Struct


class Function(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | list[Any] | None = None


class ToolCall(Struct, gc=False):
    index: int | None = None
    id: str | int | None = None
    function: Function | None = None
    type: str | None = None
    custom: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None
    thoughtSignature: str | None = None


class Delta(Struct, gc=False):
    role: str | None = None
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Any] | None = None
    thinking: str | dict[str, Any] | None = None
    reasoning_details: list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None


class Choice(Struct, gc=False):
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    index: int | None = None


class Chunk(Struct, gc=False):
    choices: list[Choice] | None = None
    id: str | int | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    base_resp: dict[str, Any] | None = None
    x_groq: dict[str, Any] | None = None


CHUNK: msgspec.json.Decoder[Chunk] = msgspec.json.Decoder(Chunk)
