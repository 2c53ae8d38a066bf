"""What a process keeps of what it stored, because the database may still lose it."""

import pytest

from turnbuckle.journal.postgres.unsure import KEPT_SECONDS, MOST_SURE_BYTES, UnsureItems


@pytest.mark.requirement("K6")
def test_a_stream_with_much_that_is_not_sure_is_made_sure():
    kept = UnsureItems(lambda: 0.0, most_bytes=1000)
    kept.add("run", [(1, seq, b"x" * 100) for seq in range(1, 5)])
    assert [seq for _, seq, _ in kept.behind("run", 2)] == [3, 4]
    assert not kept.is_full("run")
    kept.add("run", [(1, 5, b"x" * 100)])
    assert kept.is_full("run")
    kept.sure("run")
    assert (kept.is_full("run"), len(kept.behind("run", 0))) == (False, 5)
    kept.forget("run")
    assert (kept.behind("run", 0), kept.streams()) == ([], [])


@pytest.mark.requirement("K6")
def test_what_is_sure_is_kept_for_a_minute_and_only_as_much_as_fits():
    now = [0.0]
    kept = UnsureItems(lambda: now[0])
    kept.sure("run", [(1, 1, b"x")])
    now[0] = KEPT_SECONDS / 2
    kept.add("run", [(1, 2, b"y")])
    kept.sure("run", [(1, 3, b"z")])
    assert [seq for _, seq, _ in kept.behind("run", 0)] == [1, 2, 3]
    now[0] = KEPT_SECONDS + 1
    assert [seq for _, seq, _ in kept.behind("run", 0)] == [2, 3]
    kept.sure("run", [(1, 4, b"x" * MOST_SURE_BYTES)])
    assert kept.behind("run", 0) == []


@pytest.mark.requirement("K6")
def test_streams_in_which_nothing_happens_keep_nothing():
    now = [0.0]
    kept = UnsureItems(lambda: now[0])
    for at in range(3):
        kept.sure(f"idle {at}", [(at, 1, b"x")])
    kept.add("unsure", [(8, 1, b"x")])
    now[0] = KEPT_SECONDS + 1
    kept.sure("busy", [(9, 1, b"x")])
    assert kept.streams() == ["unsure", "busy"]
