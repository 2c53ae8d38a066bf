"""Events to Responses, in the order that the strictest known client demands (`output.py`).

The terminal event tells the whole output once more, because some clients read nothing else. After a failure
nothing follows.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from turnbuckle.vocab.events import (
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallRewritten,
    CallStarted,
    Cut,
    Ended,
    Event,
    FinishNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
    worse,
)
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyOpaque, ReplyReasoning, ReplyRefusal
from turnbuckle.wire.openai_chat import encode as chat
from turnbuckle.wire.openai_responses.open_item import OpenItem, last_status
from turnbuckle.wire.openai_responses.output import OutputWriter
from turnbuckle.wire.openai_responses.shapes import (
    FOREIGN_ITEMS,
    call_item,
    message_item,
    reasoning_item,
    refusal_content,
    response_body,
    status_of,
    text_content,
)
from turnbuckle.wire.protocol import Encoding
from turnbuckle.wire.sse import frame

_STATUSES = ("completed", "failed", "in_progress", "cancelled", "queued", "incomplete")
_ENDS = ("response.completed", "response.incomplete", "response.failed")

error_body = chat.error_body  # both of OpenAI's wires answer with one error shape


class ResponsesEncoder:
    """`open` once, then `event` for each event; the bytes are whole frames. `echo` are fields of the request
    that the response object repeats."""

    def __init__(
        self,
        reply_id: str,
        model: str,
        created: int,
        *,
        echo: Mapping[str, Any] | None = None,
    ) -> None:
        identity = {"id": reply_id, "object": "response", "created_at": created, "model": model}
        self._writer = OutputWriter({**(echo or {}), **identity})
        self._blocks: dict[int, OpenItem] = {}
        self._finish: FinishNoted | None = None
        self._usage: Usage | None = None

    def open(self) -> bytes:
        return self._writer.open()

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta(block, text):
                return self._delta(block, "text", text)
            case CallArgs(block, text):
                return self._arguments(block, text)
            case ReasoningDelta(block, text):
                return self._delta(block, "reasoning", text)
            case RefusalDelta(block, text):
                return self._delta(block, "refusal", text)
            case BlockStarted(block, kind):
                return b"" if block in self._blocks else self._begin_block(block, kind)
            case CallStarted(block, call_id, name) | CallNamed(block, call_id, name):
                return self._call(block, call_id, name)
            case CallRewritten(block, arguments):
                self._blocks[block].pieces[:] = [arguments]  # the whole is told at the end, and counts
            case StateNoted(block, data):
                return self._state(block, data)
            case OpaqueBlock(_, data):
                return self._writer.item(data) if data.get("type") in FOREIGN_ITEMS else b""
            case BlockClosed(block) | CallClosed(block):
                return self._close(block)
            case FinishNoted():
                self._finish = worse(self._finish, event)
            case UsageNoted(usage):
                self._usage = usage
            case Ended():
                return self._end()
            case Cut(failure):
                written = self._writer.done_items()
                body = response_body(self._writer.base, "failed", written, usage=self._usage, failure=failure)
                return self._writer.write("response.failed", response=body)
            case _:
                pass  # the wire has no word for it
        return b""

    def item(self, item: dict[str, Any]) -> bytes:
        """An item that is whole already, such as what a tool of ours gave back."""
        return self._writer.item(item)

    # Growing

    def _delta(self, block: int, kind: str, text: str) -> bytes:
        known = self._blocks.get(block)
        begun = b""
        if known is None:
            begun = self._begin_block(block, kind)
            known = self._blocks[block]
        if kind == "reasoning" and not known.pieces:
            begun += self._writer.begin(known)
        return begun + self._writer.grow(known, text)

    def _arguments(self, block: int, text: str) -> bytes:
        known = self._blocks[block]
        if not known.begun:
            known.waiting.append(text)
            return b""
        return self._writer.grow(known, text)

    def _begin_block(self, block: int, kind: str) -> bytes:
        known = self._blocks[block] = OpenItem(kind)
        # Reasoning is added with its id, which is noted next, or else with its first text.
        return b"" if kind == "reasoning" else self._writer.begin(known)

    def _state(self, block: int, data: dict[str, Any]) -> bytes:
        known = self._blocks.get(block)
        if known is None:
            known = self._blocks[block] = OpenItem(
                "reasoning"
            )  # only reasoning may consist of nothing but state
        known.state.update(data)
        return self._writer.add(known) if known.kind == "reasoning" else b""

    def _call(self, block: int, call_id: str, name: str) -> bytes:
        known = self._blocks.setdefault(block, OpenItem("call"))
        known.name = name or known.name
        if known.begun or not name:
            return b""
        known.call_id = call_id
        begun = self._writer.add(known)
        waiting, known.waiting = known.waiting, []
        return begun + (self._writer.grow(known, "".join(waiting)) if waiting else b"")

    # Closing

    def _close(self, block: int, status: str = "") -> bytes:
        known = self._blocks.get(block)
        if known is None or known.done or (known.kind == "call" and not known.begun):
            return b""
        added = self._writer.add(known)
        # A call that is closed only because a capped reply is over may be half of one.
        status = status or (status_of(self._finish)[0] if known.kind == "call" else "completed")
        return added + self._writer.whole(known) + self._writer.done(known, status)

    def _end(self) -> bytes:
        status, reason = status_of(self._finish)
        written = b"".join(
            [self._close(block, last_status(known.kind, status)) for block, known in self._blocks.items()]
        )
        output = self._writer.done_items()
        body = response_body(self._writer.base, status, output, usage=self._usage or Usage(), reason=reason)
        return written + self._writer.write(f"response.{status}", response=body)


def answer(reply: Reply, *, created: int) -> dict[str, Any]:
    """A whole reply as a plain answer. A cut one is a response that failed, with what it has."""
    stem = reply.id.removeprefix("resp_")
    finish = (
        FinishNoted(reply.finish, reply.finish_said, reply.finish_detail)
        if reply.finish is not None
        else None
    )
    failure = reply.last.failure if isinstance(reply.last, Cut) else None
    status, reason = status_of(finish) if failure is None else ("failed", "")
    base = {"id": reply.id, "object": "response", "created_at": created, "model": reply.model}
    made = [_plain_item(block, f"{stem}_{at}", status) for at, block in enumerate(reply.blocks)]
    output = [item for item in made if item is not None]
    return response_body(base, status, output, usage=reply.usage, reason=reason, failure=failure)


def _plain_item(block: ReplyBlock, stem: str, status: str) -> dict[str, Any] | None:
    finished = "completed" if block.closed or status == "completed" else "incomplete"
    match block:
        case ReplyCall():
            # Other wires close their calls at any end, so a capped reply vouches for none of them.
            finished = "completed" if block.closed and status == "completed" else "incomplete"
            state = block.state or {}
            return call_item(f"fc_{stem}", finished, block.id, block.name, block.arguments or "{}", state)
        case ReplyReasoning():
            state = block.state or {}
            own_id = state.get("id") if state.get("type") == "reasoning" else None
            return reasoning_item(str(own_id or f"rs_{stem}"), finished, block.text, state)
        case ReplyRefusal():
            return message_item(f"msg_{stem}", finished, [refusal_content(block.text)], {})
        case ReplyOpaque():
            return {"id": f"item_{stem}", **block.data} if block.data.get("type") in FOREIGN_ITEMS else None
        case _:
            state = block.state or {}
            return message_item(f"msg_{stem}", finished, [text_content(block.text, state)], state)


def _relabel(document: dict[str, Any], said: str | None) -> None:
    response = document.get("response", document)
    if "output" not in response:
        return
    if said is None or said in _STATUSES:
        response["status"] = said
        response["incomplete_details"] = None
    else:
        response["status"] = "incomplete"
        response["incomplete_details"] = {"reason": said}
    if document.get("type") in _ENDS and said is not None:
        document["type"] = f"response.{response['status']}"


def _error_frame(said: Failure, shape: str, number: int) -> bytes:
    """The two shapes of an error in a stream that are not a failed response: `flat` and `nested`."""
    error: dict[str, Any] = {"code": said.code or None, "message": said.message, "param": None}
    if shape == "flat":
        event: dict[str, Any] = {"type": "error", **error, "sequence_number": number}
    else:
        event = {"type": "error", "sequence_number": number, "error": {"type": said.kind, **error}}
    return frame(msgspec.json.encode(event), "error")


ENCODING = Encoding(
    stream=ResponsesEncoder,
    answer=answer,
    error_body=error_body,
    relabel=_relabel,
    finish_words={
        "stop": "completed",
        "calls": "completed",
        "length": "max_output_tokens",
        "filtered": "content_filter",
    },
    error_frame=_error_frame,
)
