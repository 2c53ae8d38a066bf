"""Every operation of the store fails once, by every kind of error, while two messages of a session and a run without one
are under way; then the store fails for a while. The process lives on, and everything comes to its end."""

import pytest

from turnbuckle.testing.world.storing import (
    FIRST,
    KINDS,
    NEXT,
    SECOND,
    SOLO,
    Misfortune,
    StoringResult,
    check_storage,
    play,
)
from turnbuckle.vocab.outcome import Outcome

UNTOLD = ("timeout", "unexpected")
"""Errors that do not promise that nothing was stored."""
LONGER = {"full": 30, "gone": 40, "failed": 60, "timeout": 5, "fenced": 4, "damaged": 3, "unexpected": 4}


def tried(misfortunes) -> tuple[int, list[str]]:
    told = [play(misfortune) for misfortune in misfortunes]
    assert sum(bool(one.failed) for one in told) > len(told) // 2, "hardly anything failed"
    assert any("append_soon" in one.failed for one in told), "no burst failed that was on its way"
    return len(told), [f"{one.misfortune}: {problem}" for one in told for problem in check_storage(one)]


@pytest.fixture(scope="module")
def operations() -> int:
    told = play()
    assert tuple(check_storage(told)) == ()
    return told.operations


@pytest.mark.requirement("E10", "D3", "G6")
@pytest.mark.parametrize("kind", KINDS)
def test_no_operation_of_the_store_that_fails_leaves_anybody_without_an_end(
    kind, operations, record_property
):
    sides = ("before", "after") if kind in UNTOLD else ("before",)
    worlds, problems = tried(Misfortune(kind, at, side) for side in sides for at in range(operations))
    record_property("worlds tried", worlds)
    assert problems == []


@pytest.mark.requirement("E10", "D3", "G6")
@pytest.mark.parametrize("kind", LONGER)
def test_nor_does_a_store_that_fails_for_a_while(kind, operations, record_property):
    worlds, problems = tried(Misfortune(kind, at, times=LONGER[kind]) for at in range(0, operations, 4))
    record_property("worlds tried", worlds)
    assert problems == []


def test_the_rules_of_a_failing_store_can_fail():
    done = Outcome("completed")
    good = StoringResult(None, dict.fromkeys((SOLO, FIRST, SECOND, NEXT), done), (), {"a": 1}, (), 9, ())
    assert tuple(check_storage(good)) == ()
    kept = {name: getattr(good, name) for name in StoringResult.__struct_fields__}
    wrong = (
        {"ends": {FIRST: done, SECOND: done, NEXT: done}},
        {"unfinished": (SOLO,)},
        {"done": {"a": 2}},
        {"lost": ("a reader gave up",)},
        {"doubled": (SOLO,)},
        {"ends": {**good.ends, NEXT: Outcome("failed", "words")}},
        {"ends": {**good.ends, FIRST: Outcome("failed")}},
    )
    for change in wrong:
        assert len(tuple(check_storage(StoringResult(**{**kept, **change})))) == 1, change
