"""Reading one JSON payload that may be damaged.

The fast path is a typed decode. Two kinds of damage do not make a payload unreadable: invalid UTF-8 (replaced,
as the standard says) and half a surrogate pair in an escape (servers that cut text by UTF-16 units send the
other half in the next delta). Whoever reads by the slow path puts a `Mender` behind it, since no reader may
meet a lone half.
"""

import json
from typing import Any, TypeVar

import msgspec

from turnbuckle.vocab.events import (
    BlockClosed,
    CallArgs,
    CallClosed,
    Event,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)

T = TypeVar("T")
_Delta = TextDelta | ReasoningDelta | RefusalDelta | CallArgs

Unreadable = (ValueError, RecursionError)
"""What decoding can raise, whatever the bytes."""

SAMPLE = 300


def reread(decoder: "msgspec.json.Decoder[T]", data: bytes, problem: Exception) -> T:
    """Decode by slower means what the fast path refused. Raises one of `Unreadable`."""
    if isinstance(problem, msgspec.ValidationError):
        raise problem
    return msgspec.convert(_read_loosely(data), decoder.type)


def read_any(data: bytes) -> Any:
    """Decode any JSON document. Raises one of `Unreadable`."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return mend_all(_read_loosely(data))


def mend_all(value: Any) -> Any:
    """A JSON value without lone surrogate halves in any of its texts."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [mend_all(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(key): mend_all(item) for key, item in value.items()}
    return value


def sample(data: bytes) -> str:
    """The beginning of some bytes, for a person to read."""
    return data[:SAMPLE].decode("utf-8", "replace")


def has_half(text: str) -> bool:
    """Whether a text holds half a surrogate pair, which no UTF-8 can carry."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


class Mender:
    """Joins surrogate halves that arrive in neighbouring deltas of one block, and replaces lone ones."""

    def __init__(self) -> None:
        self._held: dict[int, _Delta] = {}  # per block, a delta of one half

    def mend(self, events: list[Event], start: int) -> None:
        """Make the events from `start` on fit to be shown. A half at the end of a delta waits for the next."""
        fresh = events[start:]
        del events[start:]
        for event in fresh:
            if isinstance(event, TextDelta | ReasoningDelta | RefusalDelta | CallArgs):
                text = self._join(event)
                if text:
                    events.append(type(event)(event.block, text))
                continue
            if isinstance(event, BlockClosed | CallClosed) and event.block in self._held:
                half = self._held.pop(event.block)
                events.append(type(half)(half.block, "\ufffd"))
            events.append(_mended(event))

    def _join(self, delta: "_Delta") -> str:
        held = self._held.pop(delta.block, None)
        text = delta.text if held is None else held.text + delta.text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held[delta.block] = type(delta)(delta.block, text[-1])
            text = text[:-1]
        return whole_text(text)


def _mended(event: Event) -> Event:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    changed = {name: mend_all(value) for name, value in fields.items() if isinstance(value, str | dict | list)}
    return msgspec.structs.replace(event, **changed)


def whole_text(text: str) -> str:
    """Pairs joined, lone halves replaced."""
    if not has_half(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read_loosely(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
