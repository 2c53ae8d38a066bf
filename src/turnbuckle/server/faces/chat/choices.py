"""The other answers of a chat completion with several: each as its provider tells it.

Text goes on as it comes. Calls wait until all is over, since clients run what they have when a choice ends,
and nothing half-received may run. A choice that came to no end says so, as a text that was not finished does.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from turnbuckle.wire.answer_fields import GrowingFields
from turnbuckle.wire.loose_json import objects, whole_number
from turnbuckle.wire.openai_chat.answer_fields import growing
from turnbuckle.wire.openai_chat.content_parts import whole_content

_TEXTS = ("reasoning_content", "reasoning", "refusal")
_LENGTH = "length"
_STOPPED_SHORT = (_LENGTH, "content_filter", "error")
"""The last call of a choice that ended so may be a half one, and a free text does not show it."""
OWN_ENDS = {
    "stop": "stop",
    "length": _LENGTH,
    "window": _LENGTH,
    "filtered": "content_filter",
    "refused": "content_filter",
}
"""How the first of several answers ended, whatever became of the others."""


class OpenChoice:
    """One of them. `take` gives what may be shown of a piece at once."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._spoke = False
        self._finish: Any = None
        self._beside: dict[str, Any] = {}  # what stood beside the reason to stop
        self._calls: dict[int, dict[str, Any]] = {}

    def take(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        told = data.get("delta")
        told = told if isinstance(told, dict) else data.get("message")
        delta = dict(told) if isinstance(told, dict) else {}
        for place, call in enumerate(objects(delta.pop("tool_calls", None))):
            self._call(place, call)
        self._spoke = self._spoke or bool(delta.get("content"))
        beside = {
            name: value
            for name, value in data.items()
            if name not in ("delta", "message", "finish_reason", "index") and value is not None
        }
        if data.get("finish_reason"):
            self._finish, self._beside = data["finish_reason"], beside
            beside = {}
        return {"delta": delta, **beside} if delta or beside else None

    def last(self, note: str) -> Iterator[dict[str, Any]]:
        """What is told of it when all is over. `note` says why it is not finished, if it is not."""
        if self._finish is None:
            words = f"\n\n{note}" if self._spoke and note else note
            if words:
                yield {"delta": {"content": words}}
            yield {"delta": {}, "finish_reason": _LENGTH}
            return
        if self._calls and self._finish not in _STOPPED_SHORT:
            calls = [{"index": at, **_told(call)} for at, call in sorted(self._calls.items())]
            yield {"delta": {"tool_calls": calls}}
        yield {"delta": {}, **self._beside, "finish_reason": self._finish}

    def _call(self, place: int, call: dict[str, Any]) -> None:
        given = whole_number(call.get("index"))
        at = place if given is None else given
        known = self._calls.setdefault(at, {})
        for name, value in call.items():
            if name == "index" or value is None:
                continue
            if name in ("function", "custom") and isinstance(value, dict):
                if not isinstance(known.get(name), GrowingFields):
                    known[name] = GrowingFields("name", "arguments", "input")
                known[name].add({inner: one for inner, one in value.items() if one is not None})
            else:
                known[name] = value


def _told(call: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.whole() if isinstance(value, GrowingFields) else value for name, value in call.items()
    }


class OtherChoices:
    """All of one answer. They are there as soon as something of them came."""

    def __init__(self) -> None:
        self._choices: dict[int, OpenChoice] = {}

    def __bool__(self) -> bool:
        return bool(self._choices)

    def take(self, index: int, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """What may be shown of a piece at once, as a choice of a chunk."""
        choice = self._choices.setdefault(index, OpenChoice(index))
        shown = choice.take(data)
        return None if shown is None else _as_chunk(index, shown)

    def last(self, note: str) -> Iterator[dict[str, Any]]:
        """What is told of all of them at the end."""
        for index, choice in sorted(self._choices.items()):
            yield from (_as_chunk(index, shown) for shown in choice.last(note))


def put_together(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Choices of chunks as the choices of an answer in one piece."""
    made: dict[int, WholeChoice] = {}
    for piece in pieces:
        made.setdefault(piece["index"], WholeChoice()).add(piece)
    return [{"index": index, **made[index].whole()} for index in sorted(made)]


class WholeChoice:
    """One of them. Each piece costs what is new in it."""

    def __init__(self) -> None:
        self._message = growing(*_TEXTS)
        self._message.add({"role": "assistant", "content": None, "refusal": None})
        self._content: list[Any] = []
        self._beside = GrowingFields()
        self._beside.add({"logprobs": None})

    def add(self, piece: Mapping[str, Any]) -> None:
        delta = {name: value for name, value in piece["delta"].items() if value is not None}
        for call in objects(delta.get("tool_calls")):
            call.pop("index", None)
        self._content.append(delta.pop("content", None))
        self._message.add(delta)
        beside = {name: value for name, value in piece.items() if name not in ("index", "delta")}
        self._beside.add({name: value for name, value in beside.items() if value is not None})

    def whole(self) -> dict[str, Any]:
        message = {**self._message.whole(), "content": whole_content(self._content)}
        if message["content"] is None and "tool_calls" not in message:
            message["content"] = ""
        return {"message": message, **self._beside.whole()}


def _as_chunk(index: int, shown: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, "logprobs": None, "finish_reason": None, **shown}
