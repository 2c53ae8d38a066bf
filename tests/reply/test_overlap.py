"""Echo or habit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.reply.overlap import has_short_period, is_habit, occurrences


@pytest.mark.parametrize(
    "passage, periodic",
    [
        ("", False),
        ("a", False),
        ("aa", True),
        ("ab", False),
        ("aba", False),
        ("abab", True),
        ("ababa", True),
        ("abcab", False),
        ("abcabc", True),
        ("-----", True),
        ("|---|---|", True),
        ("one line\nanother line\n", False),
    ],
)
def test_a_passage_made_of_one_smaller_piece_has_a_short_period(passage: str, periodic: bool) -> None:
    assert has_short_period(passage) is periodic


@given(st.text("ab", max_size=12))
def test_a_short_period_is_what_its_definition_says(passage: str) -> None:
    half = len(passage) // 2
    assert has_short_period(passage) == any(passage[p:] == passage[:-p] for p in range(1, half + 1))


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=3))
def test_occurrences_count_overlaps(text: str, passage: str) -> None:
    every = sum(text.startswith(passage, at) for at in range(len(text)))
    assert occurrences(text, passage, 100) == every
    assert occurrences(text, passage, 2) == min(every, 2)


def test_only_the_last_characters_of_a_text_make_a_habit() -> None:
    assert is_habit("a passage." + "x" * 1_000 + "a passage.", "a passage.")
    assert not is_habit("a passage." + "x" * 2_000 + "a passage.", "a passage.")
