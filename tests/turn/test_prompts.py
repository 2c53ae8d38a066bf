"""The runtime's words to the model: different for different breaks, short, and true."""

import json

import pytest

from turnbuckle.reply.draft import TAIL, Draft, told_length
from turnbuckle.turn import prompts
from turnbuckle.turn.facts import Continue
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.messages import text_of

TEXT = "".join(f"{number} " for number in range(2_000))
DRAFT = Draft(DraftId("d3"), "write_file", "content", TEXT, {"path": "a.txt"})
CLOSED = Draft(DraftId("d3"), "write_file", "content", TEXT, {"path": "a.txt"}, closed=True, lost="mod")


def words(wanted):
    return "".join(text_of(message.parts) for message in prompts.continuation(wanted))


@pytest.mark.requirement("B5")
def test_three_kinds_of_cut_have_three_prompts():
    length, text, call = (
        words(Continue("length")),
        words(Continue("text")),
        words(Continue("call", "shell", 1)),
    )
    assert len({length, text, call}) == 3
    assert "output limit" in length
    assert "connection broke" in text
    assert "shell" in call
    assert "Nothing of it ran" in call
    assert "about 8,000 tokens" in call


@pytest.mark.requirement("B7")
def test_a_second_cut_of_the_same_call_is_asked_for_in_other_words():
    once, again = words(Continue("call", "shell", 1)), words(Continue("call", "shell", 2))
    assert once != again
    assert "2 times in a row" in again
    assert "another way" in again


def test_a_paused_reply_is_sent_back_without_a_word():
    assert prompts.continuation(Continue("paused")) == ()


def test_a_call_that_could_not_be_read_is_not_blamed_on_the_connection():
    assert "could not be read" in words(Continue("unreadable"))
    assert "connection" not in words(Continue("unreadable"))


@pytest.mark.requirement("B5", "B8")
def test_a_draft_is_shown_by_its_end_and_with_both_ways_out():
    text = text_of(prompts.finish_draft(DRAFT, 1).parts)
    assert f"\n{json.dumps(TEXT[: told_length(DRAFT)][-TAIL:])}\n" in text
    assert "<<<" not in text
    assert f"{len(TEXT):,} characters" in text
    assert 'draft="d3"' in text
    assert "smaller call of write_file" in text
    assert "Also received: path." in text


@pytest.mark.requirement("B7")
def test_a_draft_that_was_cut_again_is_asked_for_in_smaller_pieces():
    text = text_of(prompts.finish_draft(DRAFT, 2).parts)
    assert "at most 2,000 characters" in text
    assert text != text_of(prompts.finish_draft(DRAFT, 1).parts)


def test_a_draft_whose_text_is_whole_asks_only_for_what_is_missing():
    text = text_of(prompts.finish_draft(CLOSED, 1, ("mode", "path")).parts)
    assert 'rest=""' in text
    assert "Not received: mode, mod…." in text
    assert "path" not in text.split("Not received")[1].split(".")[0]


def test_no_prompt_is_long():
    texts = [
        words(Continue(kind, "write_file", count))
        for kind in ("length", "text", "call", "unreadable")
        for count in (1, 3)
    ]
    texts += [
        text_of(prompts.finish_draft(draft, count).parts) for draft in (DRAFT, CLOSED) for count in (1, 3)
    ]
    assert max(map(len, texts)) < TAIL + 700


def test_every_prompt_is_marked_as_the_runtimes_own_word():
    notes = [
        *prompts.continuation(Continue("text")),
        prompts.finish_draft(DRAFT, 1),
        prompts.note("[Runtime] x"),
    ]
    assert all(
        note.note and note.role == "user" and text_of(note.parts).startswith("[Runtime]") for note in notes
    )
