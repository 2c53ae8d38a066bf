"""How much of a text a client was told: every seam of every kind."""

import pytest

from turnbuckle.lab.score.model import PIECE
from turnbuckle.lab.score.tale import (
    CUTS,
    LEFT,
    NOTE,
    PIPES,
    SHORT_NOTE,
    TALE,
    WINDOW,
    WRITTEN,
    Coverage,
    told,
)

TEXTS = (TALE, PIPES, WRITTEN, LEFT)
SIZE = len(TALE)


@pytest.mark.parametrize("text", TEXTS)
def test_every_stretch_of_a_text_occurs_once(text: str):
    stretches = [text[start : start + WINDOW] for start in range(len(text) - WINDOW + 1)]
    assert len(set(stretches)) == len(stretches)


def test_no_text_holds_a_stretch_of_another():
    for text in TEXTS:
        assert [other for other in TEXTS if other is not text and told(other, text).reached] == []


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_was_told_is_whole(text: str):
    assert told(text, text) == Coverage(len(text), 0, 0, len(text))
    assert told(text, text).whole


def test_the_beginning_of_a_text_is_known_to_the_character():
    for at in range(WINDOW, SIZE):
        assert told(TALE[:at], TALE) == Coverage(at, 0, 0, SIZE)


@pytest.mark.parametrize("back", [1, 2, 5, 9, 10, 11, 40, 200])
def test_words_that_were_said_again_are_counted(back: int):
    for at in range(back + WINDOW, SIZE - WINDOW):
        assert told(TALE[:at] + TALE[at - back :], TALE) == Coverage(SIZE, 0, back, SIZE)


@pytest.mark.parametrize("hole", [1, 2, 5, 9, 10, 11, 40, 200])
def test_a_hole_is_counted(hole: int):
    for at in range(WINDOW, SIZE - hole - 2 * WINDOW):
        found = told(TALE[:at] + TALE[at + hole :], TALE)
        assert found == Coverage(SIZE, hole, 0, SIZE)
        assert not found.whole


def test_a_text_that_was_told_twice_is_repeated_as_a_whole():
    assert told(TALE + "\n\n" + TALE, TALE) == Coverage(SIZE, 0, SIZE, SIZE)


def test_notes_around_and_between_are_passed_over():
    shown = "Let me see. " + TALE[:200] + "\n[the line broke]\n" + TALE[200:] + " [done]"
    assert told(shown, TALE) == Coverage(SIZE, 0, 0, SIZE)


@pytest.mark.parametrize("shown", ["", "Before", "Something else altogether, and at some length."])
def test_what_is_not_of_the_text_tells_nothing(shown: str):
    assert told(shown, TALE) == Coverage(size=SIZE)


def test_the_places_to_cut_are_what_they_are_called():
    word, end, space = (TALE[: CUTS[name]] for name in ("word", "end", "space"))
    assert word[-1].isalpha()
    assert TALE[len(word)].isalpha()
    assert end.endswith(".")
    assert space.endswith(". ")


def test_the_notes_have_the_size_that_the_trials_tell():
    assert 13_000 < len(NOTE) < 14_000
    assert NOTE.startswith(SHORT_NOTE)
    assert len(SHORT_NOTE) > 300
    assert all(NOTE[end - 1] == "\n" for end in range(PIECE, len(NOTE), PIECE)), "pieces are whole lines"
