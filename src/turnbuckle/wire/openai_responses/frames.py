"""The fields that we read of a Responses stream event or answer, as loosely typed as servers are.

One struct serves all event types, so a frame is decoded in one pass. What belongs to one item type only stays
a plain mapping: items go back to the provider as they came. Unknown fields are skipped by the parser without
cost.
"""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from turnbuckle.vocab.events import CallArgs, Event, ReasoningDelta, RefusalDelta, TextDelta


class Response(Struct, gc=False):
    id: Any = None
    model: Any = None
    status: Any = None
    output: Any = None
    usage: Any = None
    error: Any = None
    incomplete_details: Any = None


class StreamEvent(Struct, gc=False):
    type: str | None = None
    delta: Any = None
    item_id: str | int | float | None = None
    output_index: int | str | None = None
    content_index: int | str | None = None
    summary_index: int | str | None = None
    item: Any = None
    part: Any = None
    response: Response | None = None
    error: Any = None
    # The whole of what the deltas gave in pieces, each under its own name
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None


class UsualEvent(StreamEvent, gc=False, forbid_unknown_fields=True):
    """For the hot path: an event with a field that this does not know is read a second time."""

    sequence_number: Any = None
    obfuscation: Any = None
    logprobs: Annotated[list[Any], Meta(max_length=0)] | None = None
    name: Any = None


class ResponsePiece(Struct, gc=False, forbid_unknown_fields=True):
    """The usual piece of a part that grows, and nothing else. Whatever this cannot read is read as any
    event."""

    type: str
    delta: str
    item_id: str | int | float | None = None
    output_index: int | str | None = None
    content_index: int | str | None = None
    summary_index: int | str | None = None
    sequence_number: int | None = None
    obfuscation: Any = None
    logprobs: Annotated[list[Any], Meta(max_length=0)] | None = None


CONTENT = frozenset({"type", "response"})
"""Fields without which an event cannot be read at all: what it is, and how the response ended."""

STREAM_EVENT: msgspec.json.Decoder[StreamEvent] = msgspec.json.Decoder(StreamEvent)
PIECE: msgspec.json.Decoder[ResponsePiece] = msgspec.json.Decoder(ResponsePiece)
USUAL_EVENT: msgspec.json.Decoder[StreamEvent] = msgspec.json.Decoder(UsualEvent)


class Spelling(Struct, frozen=True):
    """How one kind of growing text is spelled: in which item, which event it becomes, where its whole
    stands."""

    item: str
    make: Callable[[int, str], Event]
    whole: str
    part: str = ""


_SPELLINGS = {
    "output_text": Spelling("message", TextDelta, "text", "text"),
    "refusal": Spelling("message", RefusalDelta, "refusal", "refusal"),
    "reasoning_text": Spelling("reasoning", ReasoningDelta, "text", "content"),
    "reasoning": Spelling("reasoning", ReasoningDelta, "text", "content"),  # Open Responses
    "reasoning_summary_text": Spelling("reasoning", ReasoningDelta, "text", "summary"),
    "function_call_arguments": Spelling("function_call", CallArgs, "arguments"),
    "custom_tool_call_input": Spelling("custom_tool_call", CallArgs, "input"),
}
DELTAS = {f"response.{name}.delta": spelling for name, spelling in _SPELLINGS.items()}
WHOLES = {f"response.{name}.done": spelling for name, spelling in _SPELLINGS.items()}
PARTS = {
    "output_text": _SPELLINGS["output_text"],
    "text": _SPELLINGS["output_text"],
    "refusal": _SPELLINGS["refusal"],
}
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Item types that are calls for us to run, and where each keeps its arguments."""

ADDED = "response.output_item.added"
OURS_TO_TELL = frozenset(
    f"response.{stem}.{stage}"
    for stem in ("content_part", "output_item", "reasoning_summary_part", "output_text.annotation")
    for stage in ("added", "done")
)
"""Events about items that we write ourselves: what they say is told in events of our own."""
HOLDING = frozenset(
    {"", "message", *DELTAS, *WHOLES, "response.output_item.added", "response.output_item.done"},
)
"""Names of events that hold content."""
LIFECYCLE = frozenset({"response.created", "response.queued", "response.in_progress"})
TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
