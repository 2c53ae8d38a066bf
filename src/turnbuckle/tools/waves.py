"""Which calls of one reply may run together.

Calls are kept in their order and cut into waves; a wave begins when the one before it is over. Two calls share a wave
if both only read, or if each tells what it touches and these are different things. A tool that does not tell, such as
the shell, may touch everything.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import Call

C = TypeVar("C", bound=Call)


class _Reach(NamedTuple):
    reads: bool
    touched: frozenset[str] | None


def waves(calls: Sequence[C], registry: Registry) -> tuple[tuple[C, ...], ...]:
    """The calls in their order, in groups that may run side by side."""
    groups: list[list[C]] = []
    reaches: list[_Reach] = []
    for call in calls:
        reach = _reach(call, registry)
        if groups and all(_independent(reach, other) for other in reaches):
            groups[-1].append(call)
            reaches.append(reach)
        else:
            groups.append([call])
            reaches = [reach]
    return tuple(tuple(group) for group in groups)


def _reach(call: Call, registry: Registry) -> _Reach:
    found = registry.get(call.name)
    if found is None:
        return _Reach(True, frozenset())  # it runs nothing
    touched = None if found.touches is None else found.touches(call.arguments)
    return _Reach(found.effect == "read", touched)


def _independent(one: _Reach, other: _Reach) -> bool:
    if one.reads and other.reads:
        return True
    return one.touched is not None and other.touched is not None and not one.touched & other.touched
