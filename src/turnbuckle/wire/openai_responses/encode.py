"""Events to Responses, in the order that the strictest known client demands.

`response.created` first; every item is added before it grows and done before the response is; a content part is added
before its text; every event is numbered from 0. The terminal event tells the whole output once more, because
some clients read nothing else. After a failure nothing follows. `said_finish` is for the lab, which must be able to
lie.
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
)
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyOpaque, ReplyReasoning, ReplyRefusal
from turnbuckle.wire.openai_chat import encode as chat
from turnbuckle.wire.openai_responses.frames import CALLS, TERMINAL
from turnbuckle.wire.openai_responses.open_item import GROWS, PREFIXES, OpenItem, last_status, summary_content
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
from turnbuckle.wire.sse import frame

_json = msgspec.json.encode
error_body = chat.error_body  # both of OpenAI's wires answer with one error shape


class StreamEncoder:
    """`open` once, then `event` for each event; the bytes are whole frames. `echo` are fields of the request that
    the response object repeats."""

    def __init__(
        self,
        reply_id: str,
        model: str,
        created: int,
        *,
        echo: Mapping[str, Any] | None = None,
        said_finish: bool = False,
    ) -> None:
        identity = {"id": reply_id, "object": "response", "created_at": created, "model": model}
        self._base: dict[str, Any] = {**(echo or {}), **identity}
        self._said_finish = said_finish
        self._stem = reply_id.removeprefix("resp_")
        self._sequence = 0
        self._blocks: dict[int, OpenItem] = {}
        self._output: list[dict[str, Any] | None] = []  # finished items in their places
        self._finish: FinishNoted | None = None
        self._usage: Usage | None = None

    def open(self) -> bytes:
        body = response_body(self._base, "in_progress", [])
        return self._write("response.created", response=body) + self._write("response.in_progress", response=body)

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
                return self.item(data) if data.get("type") in FOREIGN_ITEMS else b""
            case BlockClosed(block) | CallClosed(block):
                return self._close(block)
            case FinishNoted():
                self._finish = event
            case UsageNoted(usage):
                self._usage = usage
            case Ended():
                return self._end()
            case Cut(failure):
                written = [item for item in self._output if item is not None]
                body = response_body(self._base, "failed", written, usage=self._usage, failure=failure)
                return self._write("response.failed", response=body)
            case _:
                pass  # the wire has no word for it
        return b""

    def item(self, item: dict[str, Any]) -> bytes:
        """An item that is whole already, such as what a tool of ours gave back."""
        index = self._next_index()
        whole = {"id": f"item_{self._stem}_{index}", **item}
        begun = {**whole, "status": "in_progress"} if "status" in whole else whole
        self._output[index] = whole
        return self._write("response.output_item.added", output_index=index, item=begun) + self._write(
            "response.output_item.done", output_index=index, item=whole
        )

    # Growing

    def _delta(self, block: int, kind: str, text: str) -> bytes:
        known = self._blocks.get(block)
        begun = b""
        if known is None:
            begun = self._begin_block(block, kind)
            known = self._blocks[block]
        if kind == "reasoning" and not known.pieces:
            begun += self._add(known)
            begun += self._part(known, "response.reasoning_summary_part.added", summary_content(""))
        return begun + self._grow(known, text)

    def _grow(self, known: OpenItem, text: str) -> bytes:
        known.pieces.append(text)
        number = self._sequence
        self._sequence = number + 1
        return b'%b%d,"delta":%b}\n\n' % (known.head, number, _json(text))

    def _arguments(self, block: int, text: str) -> bytes:
        known = self._blocks[block]
        if not known.begun:
            known.waiting.append(text)
            return b""
        return self._grow(known, text)

    def _begin_block(self, block: int, kind: str) -> bytes:
        known = self._blocks[block] = OpenItem(kind)
        if kind == "reasoning":
            return b""  # it is added with its id, which is noted next, or else with its first text
        return self._add(known) + self._part(known, "response.content_part.added", known.content(""))

    def _state(self, block: int, data: dict[str, Any]) -> bytes:
        known = self._blocks.get(block)
        if known is None:
            known = self._blocks[block] = OpenItem("reasoning")  # only reasoning may consist of nothing but state
        known.state.update(data)
        return self._add(known) if known.kind == "reasoning" else b""

    def _call(self, block: int, call_id: str, name: str) -> bytes:
        known = self._blocks.setdefault(block, OpenItem("call"))
        known.name = name or known.name
        if known.begun or not name:
            return b""
        known.call_id = call_id
        begun = self._add(known)
        waiting, known.waiting = known.waiting, []
        return begun + (self._grow(known, "".join(waiting)) if waiting else b"")

    def _add(self, known: OpenItem) -> bytes:
        """`output_item.added`, once."""
        if known.begun:
            return b""
        known.begun = True
        known.index = self._next_index()
        known.item_id = f"{PREFIXES[known.kind]}_{self._stem}_{known.index}"
        if known.kind == "reasoning" and known.state.get("type") == "reasoning":
            # Encrypted reasoning is bound to the id under which it was made.
            known.item_id = str(known.state.get("id") or known.item_id)
        name = f"{GROWS[known.kind]}.delta"
        fields = {"type": name, **known.where()}
        if known.kind == "text":
            fields["logprobs"] = []
        known.head = b'event: %b\ndata: %b,"sequence_number":' % (name.encode(), _json(fields)[:-1])
        return self._write(
            "response.output_item.added", output_index=known.index, item=known.item("in_progress", empty=True)
        )

    # Closing

    def _close(self, block: int, status: str = "") -> bytes:
        known = self._blocks.get(block)
        if known is None or known.done or (known.kind == "call" and not known.begun):
            return b""
        added = self._add(known)
        # A call that is closed only because a capped reply is over may be half of one.
        status = status or (status_of(self._finish)[0] if known.kind == "call" else "completed")
        known.done = True
        item = self._output[known.index] = known.item(status)
        return (
            added
            + self._whole(known, item)
            + self._write("response.output_item.done", output_index=known.index, item=item)
        )

    def _whole(self, known: OpenItem, item: dict[str, Any]) -> bytes:
        text = "".join(known.pieces)
        name = f"{GROWS[known.kind]}.done"
        match known.kind:
            case "call":
                return self._write(name, **known.where(), arguments=item[CALLS[item["type"]]], name=known.name)
            case "reasoning":
                if not known.pieces:
                    return b""
                told = self._write(name, **known.where(), text=text)
                return told + self._part(known, "response.reasoning_summary_part.done", summary_content(text))
            case "refusal":
                told = self._write(name, **known.where(), refusal=text)
            case _:
                told = self._write(name, **known.where(), text=text, logprobs=[])
        return told + self._part(known, "response.content_part.done", item["content"][0])

    def _end(self) -> bytes:
        status, reason = status_of(self._finish)
        if self._said_finish and self._finish is not None and self._finish.said in TERMINAL.values():
            status, reason = self._finish.said, self._finish.detail
        written = b"".join(
            [self._close(block, last_status(known.kind, status)) for block, known in self._blocks.items()]
        )
        output = [item for item in self._output if item is not None]
        body = response_body(self._base, status, output, usage=self._usage or Usage(), reason=reason)
        return written + self._write(f"response.{status}", response=body)

    # Frames

    def _part(self, known: OpenItem, name: str, part: dict[str, Any]) -> bytes:
        return self._write(name, **known.where(), part=part)

    def _write(self, name: str, /, **fields: Any) -> bytes:
        number = self._sequence
        self._sequence = number + 1
        return frame(_json({"type": name, "sequence_number": number, **fields}), name)

    def _next_index(self) -> int:
        self._output.append(None)
        return len(self._output) - 1


def answer(reply: Reply, *, created: int) -> dict[str, Any]:
    """A whole reply as a plain answer. A cut one is a response that failed, with what it has."""
    stem = reply.id.removeprefix("resp_")
    finish = FinishNoted(reply.finish, reply.finish_said, reply.finish_detail) if reply.finish is not None else None
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
