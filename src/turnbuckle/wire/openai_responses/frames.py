"""The fields that we read of a Responses stream event or answer, as loosely typed as servers are.

One struct serves all event types, so a frame is decoded in one pass. What belongs to one item type only stays
a plain mapping: items go back to the provider as they came. Unknown fields are skipped by the parser without
cost.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

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


CONTENT = frozenset({"type", "response"})
"""Fields without which an event cannot be read at all: what it is, and how the response ended."""

STREAM_EVENT: msgspec.json.Decoder[StreamEvent] = msgspec.json.Decoder(StreamEvent)


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

# Progress of what arrives whole with its item, or is no content at all: the stem, then its stages.
_STAGES = {
    "added delta done": """content_part output_item reasoning_summary_part output_text.annotation audio
        audio.transcript mcp_call_arguments code_interpreter_call_code shell_call_command
        shell_call_output_content
        apply_patch_call_operation_diff""",
    "in_progress completed failed": """mcp_call mcp_list_tools web_search_call file_search_call
        code_interpreter_call image_generation_call""",
    "searching": "web_search_call file_search_call",
    "interpreting": "code_interpreter_call",
    "generating partial_image": "image_generation_call",
    "compacting": "compaction",
}
PROGRESS = frozenset(
    f"response.{stem}.{stage}"
    for stages, stems in _STAGES.items()
    for stem in stems.split()
    for stage in stages.split()
)
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
