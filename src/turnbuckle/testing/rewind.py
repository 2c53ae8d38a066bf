"""Put an object back to what it was, with all that it owns.

Theory of operation. `Snapshot` walks from an object to everything that can change in it: attributes, slots,
lists, dicts, sets. It keeps a shallow copy of each. `restore` writes the copies back into the very same
objects, which costs a fraction of a deep copy, so an enumeration can try many ends of one beginning. What is
held by a closure, by a generator or outside of Python is not seen.
"""

from collections import deque
from collections.abc import Callable, Iterable
from types import BuiltinMethodType, FunctionType, MethodType, NoneType
from typing import Any

from msgspec import Struct

_CONSTANT: set[type] = {str, bytes, int, float, bool, NoneType, type, FunctionType}
_SLOTS: dict[type, tuple[str, ...]] = {}
_UNSET: Any = object()


class Snapshot:
    """All that an object holds at this moment."""

    def __init__(self, root: object) -> None:
        self._kept: list[tuple[Callable[[Any, Any], None], Any, Any]] = []
        self._walk(root)

    def restore(self) -> None:
        """Make it so again."""
        for put_back, owner, copy in self._kept:
            put_back(owner, copy)

    def _walk(self, root: object) -> None:
        constant, seen, keep = _CONSTANT, set(), self._kept.append
        left = [root]
        while left:
            thing = left.pop()
            kind = type(thing)
            if kind in constant or id(thing) in seen:
                continue
            seen.add(id(thing))
            copy: Any
            if kind is list or kind is deque:
                copy = list(thing)  # type: ignore[call-overload]
                keep((_fill_list, thing, copy))
                left += copy
            elif kind is dict or kind is set:
                copy = thing.copy()  # type: ignore[attr-defined]
                keep((_fill, thing, copy))
                left += copy.values() if kind is dict else copy
            elif kind is bytearray:
                keep((_fill_list, thing, bytes(thing)))  # type: ignore[call-overload]
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
            self._kept.append((_fill_slots, thing, (slots, held)))
        if hasattr(thing, "__dict__"):
            attributes = vars(thing)
            copy = attributes.copy()
            self._kept.append((_fill, attributes, copy))
            held = [*held, *copy.values()]
        return held


def _slots_of(kind: type) -> tuple[str, ...]:
    """The attributes of a class that stand in no dict. Frozen structs cannot change."""
    if issubclass(kind, Struct):
        return () if kind.__struct_config__.frozen else kind.__struct_fields__
    named = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
    names = [name for names in named for name in ((names,) if isinstance(names, str) else names)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _fill_list(owner: Any, copy: Any) -> None:
    if isinstance(owner, deque):
        owner.clear()
        owner.extend(copy)
    else:
        owner[:] = copy


def _fill(owner: Any, copy: Any) -> None:
    owner.clear()
    owner.update(copy)


def _fill_slots(owner: Any, copy: tuple[tuple[str, ...], list[object]]) -> None:
    for name, value in zip(*copy, strict=True):
        if value is not _UNSET:
            setattr(owner, name, value)
        elif hasattr(owner, name):
            delattr(owner, name)
