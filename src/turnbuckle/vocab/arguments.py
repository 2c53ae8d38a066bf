"""What a piece of argument text is: a whole JSON object, one that was cut, or none at all.

A model's arguments are judged once, when they are over, never while they grow. The scanner reads the text a
single time, without recursion, and tells a cut (the text could still become valid) from a fault (it could
not). That difference decides between "finish it" and "say it again".
"""

import json
import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

_BODY = r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+'
_TOKEN = re.compile(
    rf'"{_BODY}"|-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?|true|false|null|[{{}}\[\],:]', re.ASCII
)
_SPACE = re.compile(r"[ \t\n\r]*+")
_OPEN_STRING = re.compile(rf'"{_BODY}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?')
_EXPONENT = r"[eE][+-]?\d*+"
_OPEN_NUMBER = re.compile(rf"-?(?:(?:0|[1-9]\d*+)(?:\.(?:\d++(?:{_EXPONENT})?)?|{_EXPONENT})?)?", re.ASCII)
_WORDS = ("true", "false", "null")


class Member(Struct, frozen=True):
    """One key of the outer object and where its value stands. `end` is None while the value is open."""

    key: str
    start: int
    end: int | None


class ObjectScan(Struct, frozen=True):
    """What one pass over the text found. `at` is the offset behind a whole object, or of the fault."""

    status: Literal["whole", "cut", "malformed"]
    at: int
    members: tuple[Member, ...] = ()


class Judged(Struct, frozen=True):
    """The judgement on one call's arguments; `value` only when they are whole."""

    status: Literal["whole", "cut", "malformed"]
    why: str = ""
    value: dict[str, Any] | None = None


def judge(text: str) -> Judged:
    """Strictly: a JSON object, or nothing at all (which means no arguments), or it may not run."""
    if text.strip(" \t\r\n") in ("", "null"):
        return Judged("whole", value={})
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        return Judged("malformed", "nested too deeply")
    except (msgspec.DecodeError, UnicodeError) as error:
        scan = scan_object(text)
        if scan.status == "cut":
            return Judged("cut", f"the text stops inside the object, after {len(text)} characters")
        return Judged("malformed", _fault(text, scan, error))
    if not isinstance(value, dict):
        return Judged("malformed", f"a JSON object was expected, not {type(value).__name__}")
    if twice := _given_twice(text, value):
        return Judged("malformed", f"{twice[:100]!r} is given twice, with different values")
    return Judged("whole", value=value)


def _given_twice(text: str, value: dict[str, Any]) -> str:
    """A key that has two values: which of them counts would be a guess."""
    if text.count(":") == _count_keys(value):
        return ""  # every key has a colon, and none is left for a second one
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) < len(items):
            found.extend(key for key, value in items if made[key] != value)
        return made

    try:
        json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return ""  # the strict decoder has read it; what the other cannot read has no say here
    return found[0] if found else ""


def _count_keys(value: dict[str, Any]) -> int:
    """The keys of an object and of all objects in it."""
    count = 0
    left: list[object] = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, dict):
            count += len(inner)
            left += inner.values()
        elif isinstance(inner, list):
            left += inner
    return count


def _fault(text: str, scan: ObjectScan, error: Exception) -> str:
    grammatical = scan.status == "whole" and _skip_space(text, scan.at) == len(text)
    if grammatical and not isinstance(error, msgspec.ValidationError):
        return "a string holds half a surrogate pair"  # the decoder's own word for it is "truncated"
    return str(error)


def split_objects(text: str) -> tuple[str, ...]:
    """The whole objects of a text that is nothing but objects behind each other, else nothing."""
    found: list[str] = []
    at = 0
    while at < len(text):
        scan = scan_object(text, at)
        if scan.status != "whole":
            return ()
        found.append(text[at : scan.at].strip(" \t\r\n"))
        at = _skip_space(text, scan.at)
    return tuple(found)


def distinct_objects(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Objects without those that are told again (in any order of keys), and without an empty one before the
    others."""
    found: dict[bytes, str] = {}
    for text in texts:
        found.setdefault(canonical(text), text)
    if len(found) > 1 and next(iter(found)) == b"{}":
        del found[b"{}"]
    return tuple(found.values())


def same_arguments(one: str, other: str) -> bool:
    """Whether two texts say the same, whatever their white space and order of keys."""
    return one == other or canonical(one) == canonical(other)


def canonical(text: str) -> bytes:
    """What a text says, in the one form in which white space and the order of keys make no difference."""
    judged = judge(text)
    if judged.value is None:
        return text.encode("utf-8", "replace")
    return msgspec.json.encode(judged.value, order="sorted")


def scan_object(text: str, start: int = 0) -> ObjectScan:
    """Scan one JSON object from `start`. What stands behind a whole object is not looked at."""
    return _JsonScanner(text, start).run()


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


class _JsonScanner:
    """A push-down automaton over tokens. `expect` says what may come next at the present depth."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.at = start
        self.stack: list[str] = []
        self.expect = "object"
        self.members: list[Member] = []
        self.key = ""
        self.value_start = -1

    def run(self) -> ObjectScan:
        text = self.text
        while True:
            self.at = _skip_space(text, self.at)
            if self.at >= len(text):
                return self._cut()
            match = _TOKEN.match(text, self.at)
            if not match or self._may_go_on(match):
                return self._open_token()
            token = match.group()
            before = self.at
            self.at = match.end()
            if not self._take(token, before):
                return ObjectScan("malformed", before, tuple(self.members))
            if not self.stack:
                return ObjectScan("whole", self.at, tuple(self.members))

    def _may_go_on(self, match: re.Match[str]) -> bool:
        """Whether the text stops inside this number or word, or right behind it. `1.` and `1e` are still
        open, though a shorter number stands in them."""
        text = self.text
        if match.end() == len(text):
            return text[-1] not in '"{}[],:'
        if text[match.end()] not in ".eE" or text[self.at] not in "-0123456789":
            return False
        longer = _OPEN_NUMBER.match(text, self.at)
        return longer is not None and longer.end() == len(text)

    def _take(self, token: str, start: int) -> bool:
        kind = token[0]
        expect = self.expect
        if expect == "colon":
            self.expect = "value"
            return kind == ":"
        if expect in ("key", "key_or_end") and kind == '"':
            if len(self.stack) == 1:
                self.key = _decode_key(token)
            self.expect = "colon"
            return True
        if kind in "}]":
            closes = expect in ("comma_or_end", "key_or_end" if kind == "}" else "value_or_end")
            if not closes or self.stack[-1] != kind:
                return False
            self.stack.pop()
            self._value_done()
            return True
        if kind == ",":
            self.expect = "key" if self.stack and self.stack[-1] == "}" else "value"
            return expect == "comma_or_end"
        if expect not in ("value", "value_or_end", "object") or kind == ":":
            return False
        return self._take_value(kind, start)

    def _take_value(self, kind: str, start: int) -> bool:
        if len(self.stack) == 1:
            self.value_start = start
        if kind == "{":
            self.stack.append("}")
            self.expect = "key_or_end"
        elif self.expect == "object":
            return False
        elif kind == "[":
            self.stack.append("]")
            self.expect = "value_or_end"
        else:
            self._value_done()
        return True

    def _value_done(self) -> None:
        self.expect = "comma_or_end"
        if len(self.stack) == 1:
            self.members.append(Member(self.key, self.value_start, self.at))
            self.value_start = -1

    def _open_token(self) -> ObjectScan:
        rest = self.text[self.at :]
        wants_value = self.expect in ("value", "value_or_end")
        wants_string = wants_value or self.expect in ("key", "key_or_end")
        partial = (rest[0] == '"' and wants_string and _OPEN_STRING.fullmatch(rest)) or (
            wants_value and (_OPEN_NUMBER.fullmatch(rest) or any(word.startswith(rest) for word in _WORDS))
        )
        if not partial:
            return ObjectScan("malformed", self.at, tuple(self.members))
        if wants_value and len(self.stack) == 1:
            self.value_start = self.at
        return self._cut()

    def _cut(self) -> ObjectScan:
        if self.value_start >= 0 and self.stack:
            self.members.append(Member(self.key, self.value_start, None))
        return ObjectScan("cut", len(self.text), tuple(self.members))


def _decode_key(token: str) -> str:
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeError):
        return token[1:-1]  # half a surrogate pair in a key: kept as it stands
