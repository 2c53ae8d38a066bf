"""The fields that we read of a `GenerateContentResponse`, which is a chunk and a whole answer alike.

Parts stay loosely typed: what only the provider understands goes back as it came.
"""

from typing import Any

import msgspec
from msgspec import Struct

from turnbuckle.vocab.events import Finish

_WORDS_OF: dict[Finish, str] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "window": "MODEL_CONTEXT_WINDOW_EXCEEDED",  # of relays; the wire has no word for it
    "filtered": "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII LANGUAGE IMAGE_SAFETY "
    "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION",
    "malformed": "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS "
    "MISSING_THOUGHT_SIGNATURE MALFORMED_RESPONSE",
}
FINISHES: dict[str, Finish] = {word: finish for finish, words in _WORDS_OF.items() for word in words.split()}
"""The reasons to stop that the protocol knows. `OTHER` and what is new are other."""
NO_REASON = "FINISH_REASON_UNSPECIFIED"


class GeminiPart(Struct, gc=False):
    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: dict[str, Any] | None = None
    inlineData: Any = None
    fileData: Any = None
    executableCode: Any = None
    codeExecutionResult: Any = None
    toolCall: Any = None
    toolResponse: Any = None


OPAQUE = ("inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
"""Parts that only the provider understands."""


class GeminiContent(Struct, gc=False):
    parts: list[GeminiPart] | None = None


class Candidate(Struct, gc=False):
    content: GeminiContent | None = None
    finishReason: Any = None
    finishMessage: Any = None
    groundingMetadata: Any = None
    index: Any = None


class GeminiChunk(Struct, gc=False):
    candidates: list[Candidate] | None = None
    promptFeedback: Any = None
    usageMetadata: Any = None
    modelVersion: Any = None
    responseId: Any = None
    error: Any = None


CONTENT = frozenset({"candidates", "content", "parts", "text", "functionCall"})
"""Fields that hold what a reply says or does. Of another type than they should have they leave a hole."""

GEMINI_CHUNK: msgspec.json.Decoder[GeminiChunk] = msgspec.json.Decoder(GeminiChunk)
