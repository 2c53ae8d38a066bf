"""Fields of a provider's answer that mean nothing here: found beside those that do, and put together
again."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

LARGEST = 1 << 20
"""Characters of one reply's fields that are kept; more is content in the wrong place."""
_DEEPEST = 100
"""Levels of a value that are passed on. Every part of it is written and read again with other things around
it, so what can just be read is too deep."""
_LONGEST_NAME = 80
_INNER = (dict, list)
_NO_NAMES = ("thought", "thoughtSignature", "text")
"""Fields of a part without a type that do not say what it is."""


def is_event_name(kind: str) -> bool:
    """Whether a stranger's name of an event can stand in a line of its own."""
    return 0 < len(kind) <= _LONGEST_NAME and kind.isprintable()


def is_too_deep(value: Any) -> bool:
    """Whether a value has more levels than are passed on."""
    if type(value) not in _INNER:
        return False
    level = [value]
    for _ in range(_DEEPEST):
        if not level:
            return False
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) in _INNER
        ]
    return True


def shallow(place: dict[str, Any]) -> dict[str, Any]:
    """An object without the fields that are too deep."""
    if not any(map(is_too_deep, place.values())):
        return place
    return {name: value for name, value in place.items() if not is_too_deep(value)}


def unknown_fields(place: Any, known: AbstractSet[str]) -> dict[str, Any]:
    """The fields of an object that are not known here. A null says nothing."""
    if not isinstance(place, dict) or place.keys() <= known:
        return {}
    return shallow({name: value for name, value in place.items() if name not in known and value is not None})


def unknown_usage(
    usage: Any, known: AbstractSet[str], nested: Mapping[str, AbstractSet[str]]
) -> dict[str, Any]:
    """What is counted beside the counts that we read, also inside their details."""
    if not isinstance(usage, dict) or usage.keys() <= known:
        return {}
    found = unknown_fields(usage, known | nested.keys())
    for name, inner in nested.items():
        if more := unknown_fields(usage.get(name), inner):
            found[name] = more
    return found


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two tellings of the same object as one: lists go on, objects are joined, else the later one counts."""
    made = dict(one)
    for name, value in other.items():
        before = made.get(name)
        if isinstance(before, list) and isinstance(value, list):
            made[name] = [*before, *value]
        elif isinstance(before, dict) and isinstance(value, dict):
            made[name] = joined(before, value)
        else:
            made[name] = value
    return made


class _Words(list[str]):
    """A text that goes on."""


class GrowingFields:
    """Tellings of one object, each at the cost of what is new in it: lists go on, objects are joined, and of
    all else the later one counts. `texts` are the names of texts that go on, `inner` those inside of
    objects."""

    def __init__(self, *texts: str, inner: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._texts = texts
        self._inner = inner or {}
        self._values: dict[str, Any] = {}

    def add(self, told: Mapping[str, Any]) -> None:
        values = self._values
        for name, value in told.items():
            before = values.get(name)
            if isinstance(value, list):
                if type(before) is list:
                    before.extend(value)
                else:
                    values[name] = list(value)
            elif isinstance(value, dict):
                if not isinstance(before, GrowingFields):
                    before = values[name] = GrowingFields(*self._inner.get(name, ()))
                before.add(value)
            elif isinstance(value, str) and name in self._texts:
                if isinstance(before, _Words):
                    before.append(value)
                else:
                    values[name] = _Words([value])
            elif value is None:  # it says nothing
                values.setdefault(name, None)
            else:
                values[name] = value

    def whole(self) -> dict[str, Any]:
        return {name: _whole(value) for name, value in self._values.items()}


def _whole(value: Any) -> Any:
    if isinstance(value, GrowingFields):
        return value.whole()
    if isinstance(value, _Words):
        return "".join(value)
    return list(value) if isinstance(value, list) else value  # its own goes on


def _summed(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of two calls as one: numbers are added, and of all else the later one counts."""
    made = joined(one, other)
    for name, value in other.items():
        before = one.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            made[name] = _summed(before, value)
        elif _is_number(before) and _is_number(value):
            made[name] = round(before + value, 12)
    return made


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class CountedFields:
    """What providers count that means nothing here, over all calls of one answer. `once` are names of which
    the first call's count stands, as it does for the prompt."""

    def __init__(self, *once: str) -> None:
        self._once = once
        self._before: dict[str, Any] = {}
        self._now: dict[str, Any] = {}

    def note(self, counted: Mapping[str, Any]) -> None:
        """What a call has counted so far."""
        self._now |= counted

    def next_call(self) -> None:
        if self._now:
            self._before, self._now = self.total(), {}

    def total(self) -> dict[str, Any]:
        first = {name: self._before[name] for name in self._once if name in self._before}
        return _summed(self._before, self._now) | first


class FreshFields:
    """One reply's fields beside the whole of it: told again only if they have changed."""

    def __init__(self, known: AbstractSet[str]) -> None:
        self.told: dict[str, Any] = {}
        self._names = known
        self._room = LARGEST

    def of(self, place: Any, size: int) -> dict[str, Any]:
        """What is new. `size` is how long all of it was."""
        if self._room < 0:
            return {}
        fresh = {
            name: value
            for name, value in unknown_fields(place, self._names).items()
            if self.told.get(name) != value
        }
        if fresh:
            self._room -= size
            self.told.update(fresh)
        return fresh


def item_name(data: Mapping[str, Any]) -> str:
    """What an item, block or part is, by its type; of a message, by what it holds; of what has no type, by
    the name of what it holds."""
    kind, content = data.get("type"), data.get("content")
    if kind == "message" and isinstance(content, list) and content and isinstance(content[0], dict):
        kind = content[0].get("type")
    if isinstance(kind, str) and kind:
        return kind
    return next((name for name in data if name not in _NO_NAMES), "unknown")
