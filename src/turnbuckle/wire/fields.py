"""Reading what a client sent: every value by its path, or a refusal that names it.

A client's body is JSON that anybody may have written. The readers of each protocol walk it through `Fields`,
an object that knows where in the body it stands. What does not fit is raised as `Refused`, from any depth,
and becomes a `Failure` again at the reader's own edge: whoever calls a reader gets a value. A null is the
same as nothing, as it is for every server that clients know.

Most of a body is text in known places. What is kept as it came (schemas, provider state, items that only a
provider understands) is walked once by `keepable`, so that it can surely be written again.
"""

import math
from collections.abc import Collection
from typing import Any

import msgspec

from turnbuckle.vocab.failure import Failure
from turnbuckle.wire.payload import Unreadable, read_any

DEEPEST = 64
"""Levels of a value that is kept as it came. Schemas in use have about ten; codecs give up near a
thousand."""

MOST_VALUES = 100_000
"""In a value that is kept as it came. The largest sets of schemas have some thousands; walking these takes 10
ms."""

MOST_PARTS = 50_000
"""Of all messages of a request. Histories that agents keep have some thousands; reading these takes about 0.1
s."""

LARGEST = 2**31 - 1
"""A count beyond any that a model or a host can mean."""

_KINDS: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


class Refused(Exception):
    """The request cannot be taken as it is. `failure` says what is wrong and what to do about it."""

    def __init__(self, param: str, message: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.failure = Failure(
            "invalid",
            message,
            retryable=False,
            status=400,
            code=code,
            type="invalid_request_error",
            param=param,
        )


class Fields:
    """One object of the body. Each reader gives the value, None if there is none, or raises `Refused`."""

    __slots__ = ("_given", "path")

    def __init__(self, given: dict[str, Any], path: str = "") -> None:
        self._given = given
        self.path = path

    def at(self, name: str) -> str:
        """Where a field stands in the whole body."""
        return f"{self.path}.{name}" if self.path else name

    def refused(self, name: str, what: str, code: str = "invalid_value") -> Refused:
        """The refusal of one field; `what` goes on behind its path."""
        return Refused(self.at(name), f"{self.at(name)} {what}", code)

    def raw(self, name: str) -> Any:
        return self._given.get(name)

    def has(self, name: str) -> bool:
        return self._given.get(name) is not None

    def names(self) -> Collection[str]:
        return self._given.keys()

    def items(self) -> Collection[tuple[str, Any]]:
        return self._given.items()

    # Plain values

    def text(self, name: str, *, most: int | None = None) -> str | None:
        """A string of any length, or of at most so many characters."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._mistyped(name, "a string")
        if most is not None and len(value) > most:
            what = f"has {len(value):,} characters; at most {most:,} are allowed."
            raise self.refused(name, what, "string_above_max_length")
        return value

    def need_text(self, name: str, *, most: int | None = None) -> str:
        """A string that must be there and say something."""
        value = self.text(name, most=most)
        if value is None:
            raise self.missing(name)
        if not value.strip():
            raise self.refused(name, "is empty.")
        return value

    def flag(self, name: str) -> bool | None:
        value = self._given.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self._mistyped(name, "a boolean")

    def number(self, name: str, low: float, high: float) -> float | None:
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._mistyped(name, "a number")
        if not low <= value <= high:
            raise self.refused(name, f"must be between {low:g} and {high:g}.")
        return float(value)

    def count(self, name: str, low: int, high: int = LARGEST) -> int | None:
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # some clients write every number with a point
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._mistyped(name, "a whole number")
        if not low <= value <= high:
            raise self.refused(name, f"must be between {low} and {high}.")
        return value

    # Values with more inside

    def inner(self, name: str) -> "Fields | None":
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._mistyped(name, "an object")
        return Fields(value, self.at(name))

    def need_inner(self, name: str) -> "Fields":
        inner = self.inner(name)
        if inner is None:
            raise self.missing(name)
        return inner

    def listed(self, name: str, most: int) -> list[Any]:
        """The elements of an array, as they are; none if it is not there."""
        value = self._given.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._mistyped(name, "an array")
        if len(value) > most:
            what = f"has {len(value):,} elements; at most {most:,} are allowed."
            raise self.refused(name, what, "array_above_max_length")
        return value

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        found = self.listed(name, most)
        for place, value in enumerate(found):
            if not isinstance(value, str):
                raise _mistyped(f"{self.at(name)}[{place}]", "a string", value)
        return tuple(found)

    def objects(self, name: str, most: int) -> list["Fields"]:
        """The elements of an array of objects."""
        return [self.element(name, place, value) for place, value in enumerate(self.listed(name, most))]

    def element(self, name: str, place: int, value: Any) -> "Fields":
        path = f"{self.at(name)}[{place}]"
        if not isinstance(value, dict):
            raise _mistyped(path, "an object", value)
        return Fields(value, path)

    def kept(self, name: str) -> dict[str, Any] | None:
        """An object that is kept as it came."""
        inner = self.inner(name)
        return None if inner is None else inner.whole()

    def whole(self, *but: str) -> dict[str, Any]:
        """All that is in this object, as it came, without some fields and without nulls."""
        found = {key: value for key, value in self._given.items() if value is not None and key not in but}
        keepable(found, self.path)
        return found

    # What is wrong

    def missing(self, name: str) -> Refused:
        return self.refused(name, "is missing.", "missing_required_parameter")

    def _mistyped(self, name: str, wanted: str) -> Refused:
        return _mistyped(self.at(name), wanted, self._given.get(name))


class Room:
    """How many parts the messages of a request may still have: each costs time, however small it is."""

    def __init__(self) -> None:
        self._left = MOST_PARTS

    def objects(self, fields: Fields, name: str) -> list[Fields]:
        """The parts in a field."""
        self._left -= len(fields.listed(name, LARGEST))
        if self._left < 0:
            what = f"is too much: all messages together may have {MOST_PARTS:,} parts."
            raise fields.refused(name, what, "array_above_max_length")
        return fields.objects(name, MOST_PARTS)


def open_body(body: bytes) -> Fields:
    """The body's own object."""
    given = _decode(body)
    if not isinstance(given, dict):
        raise Refused("", f"The body must be a JSON object, not {_kind(given)}.", "invalid_type")
    return Fields(given)


def keepable(value: Any, path: str) -> None:
    """See to it that a value can be written again: not too deep, and no number that JSON does not have."""
    level: list[Any] = [value]
    depth = count = 0
    while level:
        depth += 1
        count += len(level)
        if count > MOST_VALUES:
            raise Refused(path, f"{path} holds more than {MOST_VALUES:,} values.")
        if depth > DEEPEST:
            raise Refused(path, f"{path} is nested more than {DEEPEST} levels deep.")
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
            elif isinstance(one, float) and not math.isfinite(one):
                raise Refused(path, f"{path} holds a number that is out of range.")
        level = below


def _decode(body: bytes) -> Any:
    if not body.strip():
        raise Refused("", "The body is empty; a JSON object is expected.", "invalid_json")
    try:
        return msgspec.json.decode(body)
    except Unreadable:
        return _decode_with_care(body)


def _decode_with_care(body: bytes) -> Any:
    """Half a surrogate pair in an escape is no reason to refuse: clients that cut texts by UTF-16 units send
    it."""
    try:
        body.decode("utf-8")
        return read_any(body)
    except UnicodeDecodeError as problem:
        raise Refused("", f"The body is not valid UTF-8 (byte {problem.start}).", "invalid_json") from None
    except RecursionError:
        raise Refused("", "The body is nested too deeply.", "invalid_json") from None
    except ValueError as problem:
        raise Refused("", f"The body is not valid JSON: {problem}.", "invalid_json") from None


def _mistyped(path: str, wanted: str, value: Any) -> Refused:
    return Refused(path, f"{path} must be {wanted}, not {_kind(value)}.", "invalid_type")


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "something else")
