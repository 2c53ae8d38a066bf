"""What the runtime writes to a model, a scripted model reads back: every note about drafts and cut calls."""

import pytest

from turnbuckle.reply.draft import DoubtfulRest, Draft, Reading
from turnbuckle.turn import prompts
from turnbuckle.turn.prompt_reading import DraftNote, draft_note, held_calls, times_cut
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.messages import text_of

TEXT = 'a line with "quotes" and a \\ in it\n' * 60
DRAFT = Draft(DraftId("d1"), "write_file", "content", TEXT, {"path": "a.txt"})


def note_of(draft: Draft, escalation: int = 1) -> str:
    return text_of(prompts.finish_draft(draft, escalation, ("path",)).parts)


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("escalation", [1, 2])
@pytest.mark.parametrize("in_front", ["", "Not started: it is shorter (12 characters, 99,999 are kept). "])
def test_a_note_about_a_draft_is_read_back(escalation: int, in_front: str):
    found = draft_note(in_front + note_of(DRAFT, escalation))
    assert found is not None
    assert (found.id, found.count, found.is_whole, found.asks) == ("d1", len(TEXT), False, False)
    assert prompts.quoted(found.tail) == prompts.end_of(DRAFT)


@pytest.mark.requirement("B3")
def test_a_draft_that_is_whole_is_told_apart():
    closed = Draft(DraftId("d1"), "write_file", "content", TEXT, {}, closed=True)
    found = draft_note(note_of(closed))
    assert found is not None
    assert (found.id, found.count, found.is_whole) == ("d1", len(TEXT), True)


@pytest.mark.requirement("B3")
def test_a_question_about_a_rest_is_a_question():
    doubtful = DoubtfulRest("the rest", (Reading(len(TEXT), 0, 0), Reading(len(TEXT) - 5, 0, 0)))
    assert draft_note(prompts.doubt(DRAFT, doubtful, "why")) == DraftNote("d1", asks=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Kept: the draft d7 has 1,234 characters now. Send the next piece with finish_call.",
            DraftNote("d7", 1234, grew=True),
        ),
        (
            'Not joined: it does not fit. The draft d7 has 12 characters and ends with:\n"a\\nb"',
            DraftNote("d7", 12, "a\nb"),
        ),
        ("Wrote a.txt: 3 lines. The draft of the letter has 12 characters.", None),
        ("", None),
    ],
)
def test_results_of_finish_call_are_read_back(text: str, found: DraftNote | None):
    assert draft_note(text) == found


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (prompts.CALL.format(tool="shell"), 1),
        (prompts.CALL_AGAIN.format(tool="shell", times=3), 3),
        (note_of(DRAFT), 0),
        (prompts.GO_ON, 0),
    ],
)
def test_how_often_a_call_was_cut_is_read_back(text: str, times: int):
    assert times_cut(text) == times


def test_calls_that_arrived_whole_are_read_back():
    (note,) = prompts.beside((prompts.note(note_of(DRAFT)),), ("read_file a.txt", "shell make"))
    assert held_calls(text_of(note.parts)) == "read_file a.txt, shell make."
    assert held_calls(note_of(DRAFT)) == ""
