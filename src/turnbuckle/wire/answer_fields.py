"""Fields of a provider's answer that mean nothing here: found beside those that do, and put together
again."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

LARGEST = 1 << 20
"""Characters of one reply's fields that are kept; more is content in the wrong place."""


def unknown_fields(place: Any, known: AbstractSet[str]) -> dict[str, Any]:
    """The fields of an object that are not known here. A null says nothing."""
    if not isinstance(place, dict):
        return {}
    return {name: value for name, value in place.items() if name not in known and value is not None}


def unknown_usage(
    usage: Any, known: AbstractSet[str], nested: Mapping[str, AbstractSet[str]]
) -> dict[str, Any]:
    """What is counted beside the counts that we read, also inside their details."""
    found = unknown_fields(usage, known | nested.keys())
    for name, inner in nested.items():
        if isinstance(usage, dict) and (more := unknown_fields(usage.get(name), inner)):
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


class FreshFields:
    """One reply's fields beside the whole of it: told again only if they have changed."""

    def __init__(self, known: AbstractSet[str]) -> None:
        self._names = known
        self._known: dict[str, Any] = {}
        self._room = LARGEST

    def of(self, place: Any, size: int) -> dict[str, Any]:
        """What is new. `size` is how long all of it was."""
        if self._room < 0:
            return {}
        fresh = {
            name: value
            for name, value in unknown_fields(place, self._names).items()
            if self._known.get(name) != value
        }
        if fresh:
            self._room -= size
            self._known.update(fresh)
        return fresh
