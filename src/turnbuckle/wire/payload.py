"""Reading one JSON payload that may be damaged.

The fast path is a typed decode. Two kinds of damage do not make a payload unreadable: invalid UTF-8
(replaced, as the standard says) and half a surrogate pair in an escape (servers that cut text by UTF-16 units
send the other half in the next delta). Whoever reads by the slow path puts a `Mender` behind it, since no
reader may meet a lone half.

A field of another type than it should have costs that field and no other: `read_what_fits` says which were
left out, and the dialect knows whether one of them could have held content. Words that are no JSON at all are
a keepalive if they are known as one; anything else that cannot be read may have been content.
"""

import json
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

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
_KEEPALIVES = frozenset({b"ping", b"pong", b"keepalive", b"keep-alive", b"heartbeat", b"undefined", b"none"})


class Reread(NamedTuple):
    """A payload that the fast path refused. `left_out`: the fields that did not fit, by their path, and their
    values. `value` is None if it is JSON of another shape, which holds nothing of ours."""

    value: Any
    loose: bool  # its texts may hold surrogate halves
    left_out: tuple[tuple[str, Any], ...] = ()

    def lost(self, content: frozenset[str]) -> bool:
        """Whether a field that was left out could have held content."""
        return lost(self.left_out, content)

    def why(self) -> str:
        """The fields that were left out, in words."""
        paths = ", ".join(path or "the frame" for path, _ in self.left_out)
        return f"{paths}: not of the type that it should have"


def lost(left_out: tuple[tuple[str, Any], ...], content: frozenset[str]) -> bool:
    """Whether a field that was left out could have held content; `content` has the names of such fields."""
    names = ((path.rpartition(".")[2].partition("[")[0], value) for path, value in left_out)
    return any(name in content and bool(value) for name, value in names)


def reread(decoder: "msgspec.json.Decoder[T]", data: bytes) -> Reread:
    """Decode by slower means what the fast path refused. Raises one of `Unreadable` if it is not JSON."""
    loose = False
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        document, loose = _read_loosely(data), True
    value, left_out = read_what_fits(decoder.type, document)
    return Reread(value, loose, left_out)


def read_what_fits(kind: type[T], document: Any) -> tuple[T | None, tuple[tuple[str, Any], ...]]:
    """A struct from whatever fits its fields, and what did not: paths and values. None if it is not an
    object at all."""
    left_out: list[tuple[str, Any]] = []
    found = _fitting(kind, document, "", left_out)
    return found, tuple(left_out)


def _fitting(kind: Any, value: Any, path: str, left_out: list[tuple[str, Any]]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except Unreadable:
        pass
    inner, many = _struct_in(kind)
    if inner is not None and many and isinstance(value, list):
        made = (_fitting(inner, item, f"{path}[{place}]", left_out) for place, item in enumerate(value))
        return [item for item in made if item is not None]
    if inner is not None and isinstance(value, dict):
        fields = {}
        for field in msgspec.structs.fields(inner):
            if field.encode_name in value:
                where = f"{path}.{field.encode_name}" if path else field.encode_name
                fields[field.name] = _fitting(field.type, value[field.encode_name], where, left_out)
        return [inner(**fields)] if many else inner(**fields)
    left_out.append((path, value))
    return None


def _struct_in(kind: Any) -> tuple[Any, bool]:
    """The struct that a type is made of, and whether it is a list of them."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind, False
    many = get_origin(kind) is list
    for part in get_args(kind):
        inner, deeper = _struct_in(part)
        if inner is not None:
            return inner, many or deeper
    return None, False


def is_keepalive(data: bytes) -> bool:
    """Whether a payload that is not JSON is one of the words by which servers say that they are alive."""
    return data.strip().lower() in _KEEPALIVES


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


def sample_of(document: object) -> str:
    """The beginning of a document, for a person to read."""
    try:
        return sample(msgspec.json.encode(mend_all(document)))
    except Unreadable:
        return ""


def has_half(text: str) -> bool:
    """Whether a text holds half a surrogate pair, which no UTF-8 can carry."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


class Mender:
    """Joins surrogate halves that arrive in neighbouring deltas of one block, and replaces lone ones."""

    def __init__(self) -> None:
        self._held: dict[int, _Delta] = {}  # per block, a delta of one half

    def mend(self, events: list[Event], start: int) -> None:
        """Make the events from `start` on fit to be shown. A half at the end of a delta waits for the
        next."""
        fresh = events[start:]
        del events[start:]
        for event in fresh:
            if isinstance(event, (TextDelta, ReasoningDelta, RefusalDelta, CallArgs)):
                text = self._join(event)
                if text:
                    events.append(type(event)(event.block, text))
                continue
            if isinstance(event, (BlockClosed, CallClosed)) and event.block in self._held:
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
    changed = {
        name: mend_all(value) for name, value in fields.items() if isinstance(value, (str, dict, list))
    }
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
