"""Chunks of a Chat Completions stream, written so that no known client trips over them.

One kind of payload for each chunk, `choices` in every one, the same id and time in all, and the same model
for as long as it is the one that answers. What does not change between chunks is made once, so that a piece
of text costs little more than its own encoding.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from turnbuckle.vocab.events import Usage
from turnbuckle.wire.answer_fields import joined
from turnbuckle.wire.sse import frame
from turnbuckle.wire.usage import usage_to_chat

_json = msgspec.json.encode
_MOST_BESIDE, _SHORT = 40, 200
"""So many fields, and characters of one, go with every chunk."""
_OWN = ("id", "object", "created", "model", "choices")


class ChunkWriter:
    """Whole frames, one for each call. `usage`: the client asked for it, so every chunk has the field."""

    def __init__(self, reply_id: str, model: str, created: int, *, usage: bool) -> None:
        self._base: dict[str, Any] = {
            "id": reply_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._beside: dict[str, Any] = {}
        self._usage = b',"usage":null' if usage else b""
        self._after = b'},"logprobs":null,"finish_reason":null}]' + self._usage + b"}\n\n"
        self.answered_by(model)

    def answered_by(self, model: str) -> None:
        """From here on another model answers."""
        self._base["model"] = model
        self._write_head()

    def beside(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """What a provider says beside every chunk: short values, which all chunks have from here on. The rest
        comes back, and is to be told once."""
        rest = {}
        for name, value in fields.items():
            if name in _OWN:
                continue
            has_room = name in self._base or len(self._base) < _MOST_BESIDE
            if has_room and len(name) <= _SHORT and _is_short(value):
                self._base[name] = value
            else:
                rest[name] = value
                self._base.pop(name, None)
        self._write_head()
        return rest

    def forget(self) -> None:
        """Another provider answers: what the one before said of itself holds no longer."""
        own = {name: value for name, value in self._base.items() if name in _OWN}
        if len(own) < len(self._base):
            self._base = own
            self._write_head()

    def _write_head(self) -> None:
        head = _json({**self._base, "choices": []})[:-2]
        self._before = b"data: " + head + b'{"index":0,"delta":{'
        self._before_text = self._before + b'"content":'
        self._before_reasoning = self._before + b'"reasoning_content":'

    def role(self) -> bytes:
        """The first chunk."""
        return self.delta(b'"role":"assistant","content":""')

    def text(self, text: str) -> bytes:
        return self._before_text + _json(text) + self._after

    def reasoning(self, text: str) -> bytes:
        return self._before_reasoning + _json(text) + self._after

    def refusal(self, text: str) -> bytes:
        return self.delta(b'"refusal":' + _json(text))

    def call(self, index: int, call_id: str, name: str) -> bytes:
        """A call begins: its id and its name, which clients must see once."""
        function = {"name": name, "arguments": ""}
        return self.fragment({"index": index, "id": call_id, "type": "function", "function": function})

    def arguments(self, index: int, text: str) -> bytes:
        return (
            self._before
            + b'"tool_calls":[{"index":%d,"function":{"arguments":' % index
            + _json(text)
            + b"}}]"
            + self._after
        )

    def fragment(self, fragment: Mapping[str, Any]) -> bytes:
        """Any other piece of a call."""
        return self.delta(b'"tool_calls":' + _json([fragment]))

    def delta(self, fields: bytes) -> bytes:
        return self._before + fields + self._after

    def empty(self, **extra: Any) -> bytes:
        """A chunk that changes nothing; what it has to say stands beside the choices, where clients do not
        look."""
        return self._before + self._after[:-3] + _members(extra) + b"}\n\n"

    def finish(self, word: str, **extra: Any) -> bytes:
        """The chunk with the reason to stop."""
        choice = b'},"logprobs":null,"finish_reason":%b}]' % _json(word)
        return self._before + choice + self._usage + _members(extra) + b"}\n\n"

    def fields(self, where: str, data: Mapping[str, Any]) -> bytes:
        """What a provider says beside the choice, or inside the message, and nothing else."""
        choice: dict[str, Any] = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
        if where == "message":
            choice["delta"] = data
        else:
            choice.update({name: value for name, value in data.items() if name not in ("index", "delta")})
        return frame(_json({**self._base, "choices": [choice]}))

    def choice(self, choice: Mapping[str, Any]) -> bytes:
        """More of another choice than the first, as it is."""
        return frame(_json({**self._base, "choices": [choice]}))

    def usage(self, usage: Usage, fields: Mapping[str, Any] | None = None) -> bytes:
        """The count of tokens, in a chunk of its own behind the last one."""
        counted = usage_to_chat(usage)
        return frame(_json({**self._base, "choices": [], "usage": joined(counted, fields or {})}))


def _members(extra: Mapping[str, Any]) -> bytes:
    return b"," + _json(extra)[1:-1] if extra else b""


def _is_short(value: Any) -> bool:
    return len(value) <= _SHORT if isinstance(value, str) else not isinstance(value, (dict, list))
