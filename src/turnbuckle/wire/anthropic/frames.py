"""The fields that we read of a Messages event, in one struct for all event types.

Unknown fields are skipped by the parser without cost. Content blocks stay plain dicts: what is in them goes
back to the provider as it came, whether we know it or not.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from turnbuckle.vocab.events import Finish

FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "calls",
    "pause_turn": "paused",
    "refusal": "refused",
    "model_context_window_exceeded": "window",
    "compaction": "compacted",
}
"""The reasons to stop that the protocol knows."""


class AnthropicDelta(Struct, gc=False):
    """Of a content block, or of the message: the two share the name but no field."""

    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: Any = None
    content: Any = None
    encrypted_content: Any = None
    stop_reason: Any = None
    stop_sequence: Any = None
    stop_details: Any = None


class AnthropicEvent(Struct, gc=False):
    type: str | None = None
    index: int | str | float | None = None
    delta: AnthropicDelta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: Any = None
    error: Any = None
    metrics: Any = msgspec.field(default=None, name="amazon-bedrock-invocationMetrics")


class UsualAnthropicDelta(AnthropicDelta, gc=False, forbid_unknown_fields=True):
    """For the hot path: a delta with a field that this does not know is read a second time."""


class UsualAnthropicEvent(AnthropicEvent, gc=False):
    delta: UsualAnthropicDelta | None = None


# The usual piece of an open block and nothing else: fewer fields to fill, and no text made of its types.
# Whatever this cannot read is read as any event.


class TextPiece(Struct, gc=False, tag_field="type", tag="text_delta", forbid_unknown_fields=True):
    text: str


class ArgumentsPiece(Struct, gc=False, tag_field="type", tag="input_json_delta", forbid_unknown_fields=True):
    partial_json: str


class ThoughtPiece(Struct, gc=False, tag_field="type", tag="thinking_delta", forbid_unknown_fields=True):
    thinking: str


class BlockPiece(Struct, gc=False):
    type: Literal["content_block_delta"]
    index: int
    delta: TextPiece | ArgumentsPiece | ThoughtPiece


CONTENT = frozenset({"delta", "content_block", "text", "partial_json"})
"""Fields that hold what a reply says or does. Of another type than they should have they leave a hole."""
HOLDING = frozenset({b"", b"message", b"content_block_start", b"content_block_delta", b"message_delta"})
"""Names of events that hold content, or the reason to stop."""

FRAME: msgspec.json.Decoder[AnthropicEvent] = msgspec.json.Decoder(AnthropicEvent)
PIECE: msgspec.json.Decoder[BlockPiece] = msgspec.json.Decoder(BlockPiece)
USUAL_FRAME: msgspec.json.Decoder[AnthropicEvent] = msgspec.json.Decoder(UsualAnthropicEvent)
