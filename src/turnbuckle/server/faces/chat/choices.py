"""The other answers of a chat completion with several: each as its provider tells it.

Text goes on as it comes. Calls wait until all is over, since clients run what they have when a choice ends,
and nothing half-received may run. A choice that came to no end says so, as a text that was not finished does.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from turnbuckle.wire.answer_fields import joined
from turnbuckle.wire.loose_json import objects, whole_number
from turnbuckle.wire.openai_chat.answer_fields import grown
from turnbuckle.wire.openai_chat.content_parts import grown_content

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
            calls = [{"index": at, **call} for at, call in sorted(self._calls.items())]
            yield {"delta": {"tool_calls": calls}}
        yield {"delta": {}, **self._beside, "finish_reason": self._finish}

    def _call(self, place: int, call: dict[str, Any]) -> None:
        given = whole_number(call.get("index"))
        at = place if given is None else given
        known = self._calls.setdefault(at, {})
        fresh = {name: value for name, value in call.items() if name != "index" and value is not None}
        for name in ("function", "custom"):
            if isinstance(fresh.get(name), dict) and isinstance(known.get(name), dict):
                fresh[name] = _grown(known[name], fresh[name], ("name", "arguments", "input"))
        known.update(fresh)


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
    made: dict[int, dict[str, Any]] = {}
    for piece in _in_longer_pieces(pieces):
        message = {"role": "assistant", "content": None, "refusal": None}
        whole = made.setdefault(
            piece["index"], {"index": piece["index"], "message": message, "logprobs": None}
        )
        delta = dict(piece["delta"])
        for call in objects(delta.get("tool_calls")):
            call.pop("index", None)
        content = grown_content(whole["message"]["content"], delta.get("content"))
        whole["message"] = {**_grown(whole["message"], delta, _TEXTS), "content": content}
        beside = {name: value for name, value in piece.items() if name not in ("index", "delta")}
        whole.update(joined(whole, {name: value for name, value in beside.items() if value is not None}))
    for whole in made.values():
        if whole["message"]["content"] is None and "tool_calls" not in whole["message"]:
            whole["message"]["content"] = ""
    return [made[index] for index in sorted(made)]


def _in_longer_pieces(pieces: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The pieces of each choice with those in a row as one that only go on with the same text: putting each
    behind all that came before would cost more with every piece."""
    held: dict[int, tuple[dict[str, Any], str, list[str]]] = {}
    for piece in pieces:
        index, name = piece["index"], _goes_on_with(piece)
        before = held.get(index)
        if before is not None and name == before[1]:
            before[2].append(piece["delta"][name])
            continue
        if before is not None:
            yield _with_words(*held.pop(index))
        if name:
            held[index] = (piece, name, [piece["delta"][name]])
        else:
            yield piece
    yield from (_with_words(*one) for one in held.values())


def _goes_on_with(piece: dict[str, Any]) -> str:
    """The name of the text that is all there is in a piece; empty if there is anything else."""
    delta = piece["delta"]
    name = next(iter(delta)) if len(delta) == 1 else ""
    is_text = name in ("content", *_TEXTS) and isinstance(delta[name], str)
    alone = all(value is None for key, value in piece.items() if key not in ("index", "delta"))
    return name if is_text and alone else ""


def _with_words(piece: dict[str, Any], name: str, words: list[str]) -> dict[str, Any]:
    return {**piece, "delta": {name: "".join(words)}}


def _as_chunk(index: int, shown: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, "logprobs": None, "finish_reason": None, **shown}


def _grown(before: dict[str, Any], more: dict[str, Any], texts: tuple[str, ...]) -> dict[str, Any]:
    """An object with more of it: these texts go on, of all else the later one counts."""
    made = grown(before, {name: value for name, value in more.items() if value is not None})
    for name in texts:
        old, new = before.get(name), more.get(name)
        if isinstance(old, str) and isinstance(new, str):
            made[name] = old + new
    return made
