"""Put an object back to what it was, with all that it owns.

Theory of operation. `Snapshot` walks from an object to everything that can change in it: attributes, slots,
lists, dicts, sets. It keeps a shallow copy of each. `restore` writes the copies back into the very same
objects, which costs a fraction of a deep copy, so an enumeration can try many ends of one beginning. `renew`
takes it again a step later, and only copies what is no longer the very same. What is held by a closure, by a
generator or outside of Python is not seen.
"""

from collections import deque
from collections.abc import Iterable
from itertools import chain, compress, repeat
from operator import is_not
from types import BuiltinMethodType, FunctionType, MethodType, NoneType
from typing import Any

from msgspec import Struct

_CONSTANT: set[type] = {str, bytes, int, float, bool, NoneType, type, FunctionType}
_SLOTS: dict[type, tuple[str, ...]] = {}
_UNSET: Any = object()


class Snapshot:
    """All that an object holds at this moment."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._held: list[object] = []  # all that they hold, one thing behind the other
        self._take_all()

    def restore(self) -> None:
        """Make it so again."""
        for thing, copy in self._attributes:
            thing.__dict__ = copy.copy()
        for owner, copy in self._by_key:
            if owner or copy:
                owner.clear()
                owner.update(copy)
        for owner, copy in self._rows:
            if owner or copy:
                owner[:] = copy
        for owner, copy in self._queues:
            owner.clear()
            owner.extend(copy)
        for thing, names, values in self._slots:
            if _UNSET not in values:
                deque(map(setattr, repeat(thing), names, values), maxlen=0)
                continue
            for name, value in zip(names, values, strict=True):
                if value is not _UNSET:
                    setattr(thing, name, value)
                elif hasattr(thing, name):
                    delattr(thing, name)

    def renew(self) -> None:
        """Take it again as it is now. Costs little where little has changed since the last time."""
        held = self._copy_again()
        changed = compress(held, map(is_not, held, self._held))
        beyond = held[len(self._held) :]
        self._held = held
        constant, seen = _CONSTANT, self._seen
        if [
            thing for thing in chain(changed, beyond) if type(thing) not in constant and id(thing) not in seen
        ]:
            self._take_all()  # nobody has looked into these yet

    def _copy_again(self) -> list[object]:
        """Copy what is known, as it is now. All that it holds, one thing behind the other."""
        held: list[object] = []
        for kept in self._attributes:
            kept[1] = copy = kept[0].__dict__.copy()
            held += copy.values()
        for kept in self._by_key:
            if kept[0] or kept[1]:
                kept[1] = copy = kept[0].copy()
                held += copy.values() if type(copy) is dict else copy
        for kept in self._rows:
            if kept[0] or kept[1]:
                kept[1] = copy = kept[0].copy()
                if type(copy) is list:
                    held += copy
        for kept in self._queues:
            kept[1] = list(kept[0])
            held += kept[1]
        for slots in self._slots:
            slots[2] = [getattr(slots[0], name, _UNSET) for name in slots[1]]
            held += slots[2]
        return held

    def _take_all(self) -> None:
        self._attributes: list[list[Any]] = []
        self._by_key: list[list[Any]] = []
        self._rows: list[list[Any]] = []
        self._queues: list[list[Any]] = []
        self._slots: list[list[Any]] = []
        self._seen: dict[int, object] = {id(_UNSET): _UNSET}  # kept alive, so that no other gets its number
        self._walk()
        self._held = self._copy_again()

    def _walk(self) -> None:
        constant, seen = _CONSTANT, self._seen
        left = [self._root]
        while left:
            thing = left.pop()
            kind = type(thing)
            if kind in constant or id(thing) in seen:
                continue
            seen[id(thing)] = thing
            copy: Any
            if kind is list or kind is deque:
                copy = list(thing)  # type: ignore[call-overload]
                (self._rows if kind is list else self._queues).append([thing, copy])
                left += copy
            elif kind is dict or kind is set:
                copy = thing.copy()  # type: ignore[attr-defined]
                self._by_key.append([thing, copy])
                left += copy.values() if kind is dict else copy
            elif kind is bytearray:
                self._rows.append([thing, bytes(thing)])  # type: ignore[call-overload]
            elif kind is tuple or kind is frozenset:
                left += thing  # type: ignore[arg-type]
            elif kind is MethodType or kind is BuiltinMethodType:
                left.append(thing.__self__)  # type: ignore[attr-defined]
            else:
                left += self._keep_fields(thing, kind)

    def _keep_fields(self, thing: Any, kind: type) -> Iterable[object]:
        slots = _SLOTS.get(kind)
        if slots is None:
            slots = _slots_of(kind)
            if isinstance(thing, type) or not (slots or hasattr(thing, "__dict__")):
                _CONSTANT.add(kind)
                return ()
            _SLOTS[kind] = slots
        held: list[object] = []
        if slots:
            held = [getattr(thing, name, _UNSET) for name in slots]
            self._slots.append([thing, slots, held])
        if hasattr(thing, "__dict__"):
            copy = vars(thing).copy()
            self._attributes.append([thing, copy])
            held = [*held, *copy.values()]
        return held


def _slots_of(kind: type) -> tuple[str, ...]:
    """The attributes of a class that stand in no dict. Frozen structs cannot change."""
    if issubclass(kind, Struct):
        return () if kind.__struct_config__.frozen else kind.__struct_fields__
    named = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
    names = [name for names in named for name in ((names,) if isinstance(names, str) else names)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))
