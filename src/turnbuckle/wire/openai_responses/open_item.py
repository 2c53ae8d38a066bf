"""One output item that our encoder is writing."""

from typing import Any

from turnbuckle.wire.openai_responses.shapes import (
    call_item,
    hosted_call_item,
    message_item,
    reasoning_item,
    refusal_content,
    text_content,
)

PREFIXES = {"text": "msg", "refusal": "msg", "reasoning": "rs", "call": "fc", "custom": "ctc", "ran": "mcp"}
GROWS = {
    "text": "response.output_text",
    "refusal": "response.refusal",
    "reasoning": "response.reasoning_summary_text",
    "call": "response.function_call_arguments",
    "custom": "response.custom_tool_call_input",
    "ran": "response.mcp_call_arguments",
}
CALLED = ("call", "custom", "ran")
"""Items that grow by arguments: calls for the client, also of free text, and calls that are run where the
response is made."""


class OpenItem:
    """One item that is being written. `head` is its delta event up to the sequence number."""

    __slots__ = (
        "begun",
        "call_id",
        "done",
        "head",
        "index",
        "item_id",
        "kind",
        "length",
        "name",
        "pieces",
        "state",
        "type",
        "waiting",
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = -1
        self.item_id = ""
        self.call_id = ""
        self.name = ""
        self.type = "function_call"
        self.head = b""
        self.pieces: list[str] = []
        self.length = 0  # of all pieces
        self.waiting: list[str] = []  # arguments that came before the name
        self.state: dict[str, Any] = {}
        self.begun = False
        self.done = False

    def item(self, status: str, *, empty: bool = False) -> dict[str, Any]:
        text = "" if empty else "".join(self.pieces)
        state = {} if empty else self.state
        if self.kind == "call":
            arguments = text if empty or text else "{}"
            # An item keeps the type under which it was added.
            return call_item(
                self.item_id, status, self.call_id, self.name, arguments, {**state, "type": self.type}
            )
        if self.kind == "custom":
            state = {**state, "type": "custom_tool_call"}
            return call_item(self.item_id, status, self.call_id, self.name, text, state)
        if self.kind == "ran":
            return hosted_call_item(self.item_id, status, self.name, text if empty else text or "{}", state)
        if self.kind == "reasoning":
            return reasoning_item(self.item_id, status, text, state)
        return message_item(self.item_id, status, [] if empty else [self.content(text)], state)

    def content(self, text: str) -> dict[str, Any]:
        return text_content(text, self.state) if self.kind == "text" else refusal_content(text)

    def where(self) -> dict[str, Any]:
        """The fields by which an event names what it changes."""
        where: dict[str, Any] = {"item_id": self.item_id, "output_index": self.index}
        if self.kind not in CALLED:
            where["summary_index" if self.kind == "reasoning" else "content_index"] = 0
        return where


def last_status(kind: str, status: str) -> str:
    """What becomes of an item that is open when the response ends. Nobody vouched for an open call."""
    return "completed" if status == "completed" and kind not in ("call", "custom") else "incomplete"


def summary_content(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}
