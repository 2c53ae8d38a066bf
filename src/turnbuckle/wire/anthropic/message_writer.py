"""A Messages answer, written block by block: as a stream, or as the one document that it folds to.

Both take the same verbs, so that a stream and a plain answer cannot differ. One block is open at a time, and
its number is its place in the content, as clients count on. A block comes with its start; what grows
(`grow`) is its text, its thought, or the JSON of its input. What does not change between deltas of a block is
made once, so that a piece of text costs little more than its own encoding.
"""

from typing import Any, Protocol

import msgspec

from turnbuckle.wire.request_parts import object_of
from turnbuckle.wire.sse import frame

_GROWS = {
    "text": b'"text_delta","text":',
    "thinking": b'"thinking_delta","thinking":',
}
_INPUT = b'"input_json_delta","partial_json":'
_BEFORE = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":%b'
_AFTER = b"}}\n\n"
_STOP = ("stop_reason", "stop_sequence", "stop_details")
_json = msgspec.json.encode


class MessageWriter(Protocol):
    """What an answer is made of, in this order: `start`, blocks, and `end` or `fail`. A `ping` may stand
    anywhere."""

    def start(self, model: str, usage: dict[str, Any], beside: dict[str, Any]) -> None: ...

    def begin(self, block: dict[str, Any]) -> None:
        """A block as it stands in a start: empty, or whole where nothing of it grows."""
        ...

    def grow(self, text: str, beside: dict[str, Any] | None = None) -> None:
        """More of the open block, and what a provider says of this piece."""
        ...

    def sign(self, signature: str) -> None:
        """What vouches for the open thought."""
        ...

    def cite(self, citation: Any) -> None: ...

    def stop(self) -> None:
        """The open block is over."""
        ...

    def tell(self, event: dict[str, Any]) -> None:
        """An event of a provider as it came; a delta belongs to the open block."""
        ...

    def ping(self, extra: dict[str, Any]) -> None: ...

    def end(self, stop: dict[str, Any], usage: dict[str, Any], extra: dict[str, Any]) -> None:
        """`stop` stands in the message, `extra` beside it."""
        ...

    def fail(self, error: dict[str, Any], extra: dict[str, Any]) -> None: ...


class MessageStream:
    """The answer as frames."""

    def __init__(self, message_id: str) -> None:
        self._id = message_id
        self._index = -1
        self._before = b""
        self._out: list[bytes] = []

    def written(self) -> bytes:
        """What came since the last time."""
        out = self._out
        written = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return written

    def start(self, model: str, usage: dict[str, Any], beside: dict[str, Any]) -> None:
        self._event("message_start", message={**beside, **empty_message(self._id, model, usage)})

    def begin(self, block: dict[str, Any]) -> None:
        self._index += 1
        self._before = _BEFORE % (self._index, _GROWS.get(block["type"], _INPUT))
        self._event("content_block_start", index=self._index, content_block=block)

    def grow(self, text: str, beside: dict[str, Any] | None = None) -> None:
        more = b"," + _json(beside)[1:-1] if beside else b""
        self._out.append(self._before + _json(text) + more + _AFTER)

    def tell(self, event: dict[str, Any]) -> None:
        fields = {"index": self._index} if event["type"] == "content_block_delta" else {}
        self._event(event["type"], **{**event, **fields})

    def sign(self, signature: str) -> None:
        self._delta(type="signature_delta", signature=signature)

    def cite(self, citation: Any) -> None:
        self._delta(type="citations_delta", citation=citation)

    def stop(self) -> None:
        self._event("content_block_stop", index=self._index)

    def ping(self, extra: dict[str, Any]) -> None:
        self._event("ping", **extra)

    def end(self, stop: dict[str, Any], usage: dict[str, Any], extra: dict[str, Any]) -> None:
        self._event("message_delta", **{**extra, "delta": stop, "usage": usage})
        self._event("message_stop")

    def fail(self, error: dict[str, Any], extra: dict[str, Any]) -> None:
        self._event("error", **{**extra, "error": error})

    def _delta(self, **delta: Any) -> None:
        self._event("content_block_delta", index=self._index, delta=delta)

    def _event(self, kind: str, /, **fields: Any) -> None:
        self._out.append(frame(_json({"type": kind, **fields}), kind))


class WholeMessage:
    """The answer in one piece: `body` is there when it has ended, or failed."""

    def __init__(self, message_id: str) -> None:
        self.body: dict[str, Any] = {}
        self._message = empty_message(message_id, "", {})
        self._block: dict[str, Any] = {}
        self._pieces: list[str] = []

    def start(self, model: str, usage: dict[str, Any], beside: dict[str, Any]) -> None:
        self._message = {**beside, **self._message, "model": model, "usage": usage}

    def begin(self, block: dict[str, Any]) -> None:
        self._block = dict(block)
        self._message["content"].append(self._block)

    def grow(self, text: str, beside: dict[str, Any] | None = None) -> None:
        self._pieces.append(text)

    def tell(self, event: dict[str, Any]) -> None:
        """A whole answer has no place for it, but for texts that grow by it."""
        for name in texts_grown(self._block, event):
            self._block[name] += event["delta"][name]

    def sign(self, signature: str) -> None:
        self._block["signature"] = signature

    def cite(self, citation: Any) -> None:
        self._block.setdefault("citations", []).append(citation)

    def stop(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        kind = self._block["type"]
        if kind in _GROWS:
            self._block[kind] = text
        elif text:
            self._block["input"] = object_of(text)

    def ping(self, extra: dict[str, Any]) -> None:
        pass  # it is over when this is read

    def end(self, stop: dict[str, Any], usage: dict[str, Any], extra: dict[str, Any]) -> None:
        ours = {name: stop[name] for name in _STOP if name in stop}
        self.body = {**extra, **stop, **self._message, **ours, "usage": usage}

    def fail(self, error: dict[str, Any], extra: dict[str, Any]) -> None:
        self.body = {"type": "error", "error": error, **extra}


def texts_grown(block: dict[str, Any], event: dict[str, Any]) -> tuple[str, ...]:
    """The fields of a block that an event about it makes longer."""
    delta = event.get("delta")
    if block.get("type") in _GROWS or not isinstance(delta, dict) or "type" not in block:
        return ()
    told = (name for name in ("text", "thinking") if isinstance(delta.get(name), str))
    return tuple(name for name in told if isinstance(block.get(name), str))


def empty_message(message_id: str, model: str, usage: dict[str, Any]) -> dict[str, Any]:
    """A message before anything is in it."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
