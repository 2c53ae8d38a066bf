"""An object is put back to what it was, in place, with all that it owns."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from turnbuckle.testing.cut_points import try_every_cut
from turnbuckle.testing.rewind import Snapshot
from turnbuckle.vocab.events import Cut, Event
from turnbuckle.vocab.failure import Failure, failure


class Slotted:
    __slots__ = ("later", "pieces")
    later: int

    def __init__(self) -> None:
        self.pieces = ["a"]


class Loose(Struct):
    names: list[str]
    count: int = 0


class Owner:
    def __init__(self) -> None:
        self.text = "first"
        self.by_name: dict[str, list[int]] = {"one": [1]}
        self.seen = {1, 2}
        self.waiting = deque([1, 2])
        self.buffer = bytearray(b"ab")
        self.pair = ([1], "constant")
        self.slotted = Slotted()
        self.loose = Loose(["x"])
        self.alias = self.slotted.pieces
        self.add = self.slotted.pieces.append
        self.myself = self


def spoil(owner: Owner) -> None:
    owner.text = "second"
    owner.by_name["one"].append(2)
    owner.by_name["two"] = []
    owner.seen.add(3)
    owner.waiting.popleft()
    owner.buffer += b"c"
    owner.pair[0].clear()
    owner.add("b")
    owner.slotted.later = 5
    owner.loose.names.append("y")
    owner.loose.count += 1
    owner.new = "attribute"  # type: ignore[attr-defined]


def test_whatever_an_object_owns_is_put_back_as_often_as_one_likes() -> None:
    owner = Owner()
    pieces = owner.slotted.pieces
    before = Snapshot(owner)
    for _ in range(2):
        spoil(owner)
        before.restore()
        assert (owner.text, owner.by_name, owner.seen) == ("first", {"one": [1]}, {1, 2})
        assert (owner.waiting, owner.buffer, owner.pair) == (deque([1, 2]), b"ab", ([1], "constant"))
        assert owner.slotted.pieces is owner.alias is pieces
        assert pieces == ["a"]
        assert owner.loose == Loose(["x"])
        assert not hasattr(owner, "new")
        assert not hasattr(owner.slotted, "later")


def shown(owner: Owner) -> str:
    own = {name: value for name, value in vars(owner).items() if name not in ("slotted", "add", "myself")}
    return repr((own, owner.slotted.pieces, getattr(owner.slotted, "later", None)))


PLACES: dict[str, Callable[[Owner, list[Any]], object]] = {
    "in place of an attribute": lambda owner, new: setattr(owner, "text", new),
    "in place of an equal list": lambda owner, new: setattr(owner, "ones", new),
    "a further attribute": lambda owner, new: setattr(owner, "late", new),
    "under a key": lambda owner, new: owner.by_name.update(new=new),
    "in a list": lambda owner, new: owner.pair[0].append(new),  # type: ignore[arg-type]
    "in a queue": lambda owner, new: owner.waiting.append(new),  # type: ignore[arg-type]
    "in a slot": lambda owner, new: setattr(owner.slotted, "pieces", new),
    "in a struct": lambda owner, new: setattr(owner.loose, "names", new),
}


@pytest.mark.parametrize("place", PLACES)
def test_taken_again_it_is_put_back_to_what_it_was_then_wherever_something_new_is(place: str) -> None:
    owner = Owner()
    owner.ones = [1]  # type: ignore[attr-defined]
    before = Snapshot(owner)
    new = [1]
    PLACES[place](owner, new)
    before.renew()
    then = shown(owner)
    for _ in range(2):
        new.append(2)
        spoil(owner)
        before.restore()
        assert shown(owner) == then


def test_what_is_new_behind_all_else_is_seen_as_well() -> None:
    rows: list[Any] = [1]
    before = Snapshot(rows)
    rows.append([2])
    before.renew()
    rows[1].append(3)
    before.restore()
    assert rows == [1, [2]]


def test_a_decoder_that_cannot_be_put_back_is_found() -> None:
    """Its last word depends on how often anything of its kind was closed, which belongs to nobody."""
    closed = 0

    class Forgetful:
        def feed(self, chunk: bytes) -> list[Event]:
            return []

        def close(self, broken: Failure | None = None) -> list[Event]:
            nonlocal closed
            closed += 1
            return [Cut(failure("incomplete", f"closed {closed} times"))]

    report = try_every_cut(Forgetful, b"x" * 100)
    assert len(report.problems) == 505 // 97
    assert all("in one read" in problem for problem in report.problems)
