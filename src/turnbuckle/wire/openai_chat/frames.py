"""The fields that we read of a Chat Completions chunk or answer, as loosely typed as servers are.

Unknown fields are skipped by the parser without cost. Unions list what was met in the wild: content as text
or as a list (Mistral), arguments as text or as an object, ids as numbers. `Any` stands where a wrong type
means nothing.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct


class Function(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | list[Any] | None = None


class ToolCall(Struct, gc=False):
    index: int | str | float | None = None
    id: str | int | None = None
    function: Function | None = None
    custom: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None
    thoughtSignature: str | None = None
    beside: dict[str, Any] | None = msgspec.field(default=None, name=" beside")
    """What else it holds, as `answer_fields` found it: nothing of this name comes over the wire."""


class ChatDelta(Struct, gc=False):
    role: Any = None
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Any] | None = None
    thinking: str | dict[str, Any] | None = None
    reasoning_details: list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    extra_content: Any = None


class Choice(Struct, gc=False):
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: Any = None
    native_finish_reason: Any = None
    index: Any = None


class Chunk(Struct, gc=False):
    choices: list[Choice] | None = None
    id: Any = None
    model: Any = None
    usage: Any = None
    error: Any = None
    base_resp: Any = None
    x_groq: Any = None


# The same for the hot path: a field that these do not know, or one that is not null where it always is, makes
# the chunk be read a second time.


class UsualFunction(Function, gc=False, forbid_unknown_fields=True):
    pass


class UsualToolCall(ToolCall, gc=False, forbid_unknown_fields=True):
    function: UsualFunction | None = None
    type: Any = None


class UsualDelta(ChatDelta, gc=False, forbid_unknown_fields=True):
    tool_calls: list[UsualToolCall] | None = None  # type: ignore[assignment]  # it is only narrower
    annotations: None = None
    audio: None = None


class UsualChoice(Choice, gc=False, forbid_unknown_fields=True):
    delta: UsualDelta | None = None
    message: UsualDelta | None = None
    logprobs: None = None


class UsualChunk(Chunk, gc=False, forbid_unknown_fields=True):
    choices: list[UsualChoice] | None = None  # type: ignore[assignment]  # it is only narrower
    object: Literal["chat.completion.chunk"] | None = None  # read without making a text of it
    created: int | None = None
    system_fingerprint: Any = None
    service_tier: Any = None
    provider: Any = None
    obfuscation: Any = None


# The usual piece of text and nothing else. Whatever this cannot read is read as any chunk.


class PieceDelta(Struct, gc=False, forbid_unknown_fields=True):
    content: str
    role: Literal["assistant"] | None = None
    refusal: None = None
    reasoning: None = None
    reasoning_content: None = None
    reasoning_details: None = None
    tool_calls: None = None
    function_call: None = None
    annotations: None = None
    audio: None = None


class PieceChoice(Struct, gc=False, forbid_unknown_fields=True):
    delta: PieceDelta
    index: Any = None
    finish_reason: None = None
    native_finish_reason: None = None
    logprobs: None = None


class PieceChunk(Struct, gc=False, forbid_unknown_fields=True):
    choices: tuple[PieceChoice]
    id: Any = None
    object: Literal["chat.completion.chunk"] | None = None
    created: int | None = None
    model: Any = None
    usage: None = None
    system_fingerprint: Any = None
    service_tier: Any = None
    provider: Any = None
    obfuscation: Any = None


class MoreArguments(Struct, gc=False, forbid_unknown_fields=True):
    arguments: str
    name: Literal[""] | None = None


class MoreOfCall(Struct, gc=False, forbid_unknown_fields=True):
    function: MoreArguments
    index: int
    id: Literal[""] | None = None
    type: Literal["function"] | None = None


class ArgumentsDelta(Struct, gc=False, forbid_unknown_fields=True):
    tool_calls: tuple[MoreOfCall]
    content: None = None
    role: Literal["assistant"] | None = None
    refusal: None = None
    reasoning: None = None
    reasoning_content: None = None


class ArgumentsChoice(PieceChoice, gc=False, forbid_unknown_fields=True):
    delta: ArgumentsDelta  # type: ignore[assignment]  # another piece


class ArgumentsChunk(PieceChunk, gc=False, forbid_unknown_fields=True):
    choices: tuple[ArgumentsChoice]


CONTENT = frozenset(
    "choices delta message content refusal tool_calls function_call function arguments custom".split()
)
"""Fields that hold what a reply says or does. Of another type than they should have they leave a hole."""

CHUNK: msgspec.json.Decoder[Chunk] = msgspec.json.Decoder(Chunk)
ARGUMENTS_PIECE: msgspec.json.Decoder[ArgumentsChunk] = msgspec.json.Decoder(ArgumentsChunk)
TEXT_PIECE: msgspec.json.Decoder[PieceChunk] = msgspec.json.Decoder(PieceChunk)
USUAL_CHUNK: msgspec.json.Decoder[Chunk] = msgspec.json.Decoder(UsualChunk)
