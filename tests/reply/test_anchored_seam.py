"""Seams with an anchor: what a model repeats first proves where it goes on, and without that proof nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.reply.anchor import LEAST, MOST, anchor_of
from turnbuckle.reply.anchored_seam import AnchoredSeam

PROSE = (
    "The harbour was quiet when Marta arrived, and the ferry had already left. She counted the steps to the office, "
    "found it locked, and sat down on a bench by the water.\n\nAn hour later a man with a heavy coat came along. "
    '"You are late," he said. "So is the boat," she replied; it was true, as far as anyone knew.'
)
SHOWN = PROSE[:200]
REST = PROSE[200:]
ANCHOR = anchor_of(SHOWN)


def joined(
    shown: str, anchor: str, continuation: str, size: int = 7, *, apart: bool = False
) -> tuple[str, AnchoredSeam]:
    seam = AnchoredSeam(shown, anchor, apart=apart)
    pieces = [seam.feed(continuation[at : at + size]) for at in range(0, len(continuation), size)]
    return "".join((shown, *pieces, seam.close())), seam


@pytest.mark.requirement("B3", "B13")
def test_a_model_that_repeats_the_anchor_goes_on_exactly_at_every_cut() -> None:
    for cut in range(1, len(PROSE)):
        anchor = anchor_of(PROSE[:cut])
        text, seam = joined(PROSE[:cut], anchor, anchor + PROSE[cut:])
        assert (text, seam.notice) == (PROSE, "")
        assert seam.how == ("anchored" if anchor else "clean")


@pytest.mark.requirement("B3", "B13")
def test_a_model_that_goes_straight_on_loses_nothing_at_any_cut() -> None:
    for cut in range(1, len(PROSE)):
        text, seam = joined(PROSE[:cut], anchor_of(PROSE[:cut]), PROSE[cut:])
        assert text == PROSE
        assert seam.dropped == 0


@pytest.mark.requirement("B13")
@pytest.mark.parametrize(
    "form",
    [
        "Sure, continuing:\n\n{}",
        "Here is the rest:\n{}",
        "Continuing: {}",
        "```\n{}\n```",
        "Of course! Here's the continuation:\n```markdown\n{}\n```\n",
        "\n{}",
        '"{}',
        "[Runtime] Going on:\n{}",
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_what_stands_before_the_anchor_is_left_out(form: str, size: int) -> None:
    text, seam = joined(SHOWN, ANCHOR, form.format(ANCHOR + REST), size)
    assert text == PROSE
    assert (seam.how, seam.notice) == ("anchored", "")


@pytest.mark.requirement("B3", "B13")
@pytest.mark.parametrize(
    "shown, continuation, text",
    [
        ("Hello brave and", "and new world", "Hello brave and new world"),
        ("an inter", "international flight", "an international flight"),
        ("it is a", "it is a nice day", "it is a nice day"),
        ("she had ", "had enough", "she had had enough"),
        ("afoo", "foo", "afoofoo"),
        ("100", "100", "100100"),
        ("x\n", "\ny", "x\n\ny"),
        ("if x:\n  ", "  return", "if x:\n    return"),
        ("anything", "", "anything"),
    ],
)
def test_words_are_taken_out_only_where_they_would_be_glued_together(
    shown: str, continuation: str, text: str
) -> None:
    assert joined(shown, "", continuation)[0] == text


@pytest.mark.requirement("B3", "B13")
@pytest.mark.parametrize("size", [1, 9, 1_000])
def test_a_restart_from_the_top_is_shown_once(size: int) -> None:
    text, seam = joined(SHOWN, ANCHOR, PROSE, size)
    assert (text, seam.how, seam.notice) == (PROSE, "restarted", "")
    long = PROSE * 5
    assert joined(long[:1_301], anchor_of(long[:1_301]), long, size)[0] == long


@pytest.mark.requirement("B13")
def test_a_restart_in_other_words_stands_behind_a_break_and_a_notice() -> None:
    text, seam = joined(SHOWN, ANCHOR, SHOWN[:120] + "something else")
    assert text == f"{SHOWN}\n\n{SHOWN[:120]}something else"
    assert seam.how == "new"
    assert seam.notice


OTHER = [
    "I'm sorry, but I can't assist with that.",
    "I apologize for the confusion.",
    "Sure! What would you like to know?",
    "As an AI, I cannot do that.",
    "# A new heading\n\nAnd text",
    "Here is a poem about the sea.",
]


@pytest.mark.requirement("B13")
@pytest.mark.parametrize("answer", OTHER)
@pytest.mark.parametrize("shown", ["The waves", "The waves came in and ", "The waves, the wind,"])
@pytest.mark.parametrize("size", [1, 1_000])
def test_an_answer_to_something_else_stands_behind_a_break_and_a_notice(
    answer: str, shown: str, size: int
) -> None:
    text, seam = joined(shown, anchor_of(shown), answer, size)
    assert text == f"{shown}\n\n{answer}"
    assert seam.how == "new"
    assert seam.notice


@pytest.mark.parametrize("answer", OTHER)
def test_what_only_looks_like_a_new_answer_goes_on_where_a_sentence_may_begin(answer: str) -> None:
    shown = 'She looked at him for a while and said: "'
    assert joined(shown, anchor_of(shown), answer)[0] == shown + answer


@pytest.mark.requirement("B13")
@pytest.mark.parametrize("count", [1, 5])
def test_a_repetition_that_proves_nothing_is_shown_and_told(count: int) -> None:
    cut = PROSE.index("left. ") + 6
    text, seam = joined(PROSE[:cut], anchor_of(PROSE[:cut]), PROSE[cut - count :])
    assert text == PROSE[:cut] + PROSE[cut - count :]
    assert seam.notice


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("count", [24, 40, 90])
def test_a_repetition_that_the_text_itself_could_not_say_is_shown_once(count: int) -> None:
    tried = 0
    for cut in range(100, len(PROSE)):
        text, seam = joined(PROSE[:cut], anchor_of(PROSE[:cut]), PROSE[cut - count :])
        assert text == PROSE or seam.notice
        tried += text == PROSE
    assert tried > 0.3 * (len(PROSE) - 100)


def test_a_preface_in_the_middle_of_a_sentence_is_left_out_and_told() -> None:
    text, seam = joined(
        "The waves came in and the", "", "Sure, continuing where I stopped:\n\n boats went out."
    )
    assert text == "The waves came in and the boats went out."
    assert seam.notice


@pytest.mark.requirement("B3")
@pytest.mark.parametrize(
    "shown, said, text",
    [
        ("I look.", "Now I write.", "I look.\n\nNow I write."),
        ("I look.\n", "Now I write.", "I look.\n\nNow I write."),
        ("I look.", "I look.", "I look."),
        ("I look.", "I look. Now I write.", "I look. Now I write."),
        ("One.\n\nTwo.", "Two. Three.", "One.\n\nTwo. Three."),
        ("I look.", "I wait.", "I look.\n\nI wait."),
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_sentences_around_a_cut_call_are_not_glued_together(
    shown: str, said: str, text: str, size: int
) -> None:
    assert joined(shown, "", said, size, apart=True)[0] == text


@pytest.mark.requirement("B3", "B13")
@pytest.mark.parametrize("held", [ANCHOR[:5], ANCHOR, "Sure, contin", SHOWN[:50], SHOWN])
def test_a_continuation_that_is_cut_in_its_repetition_brought_nothing_new(held: str) -> None:
    seam = AnchoredSeam(SHOWN, ANCHOR)
    assert seam.feed(held) + seam.close(cut=True) == ""


def test_what_is_held_back_is_small_and_a_restart_is_not_kept() -> None:
    shown = PROSE * 20
    seam = AnchoredSeam(shown, anchor_of(shown))
    for at in range(0, len(shown) - 9, 9):
        assert seam.feed(shown[at : at + 9]) == ""
        assert len(seam._head) <= 420
    seam = AnchoredSeam(SHOWN, ANCHOR)
    assert seam.feed("zebra") == "zebra"
    assert seam.holding == 0


@given(st.text("ab \n.A", max_size=120))
def test_an_anchor_ends_the_text_and_never_stands_there_twice_in_a_row(shown: str) -> None:
    anchor = anchor_of(shown)
    assert shown.endswith(anchor)
    assert not anchor or LEAST <= len(anchor) <= MOST or anchor == shown
    assert not anchor or not shown.endswith(anchor * 2)


@given(st.text("ab .\n", max_size=60), st.text("ab .\n", max_size=60), st.integers(1, 30), st.booleans())
def test_every_split_of_the_deltas_gives_the_same(shown: str, rest: str, size: int, repeat: bool) -> None:
    anchor = anchor_of(shown)
    continuation = (anchor if repeat else "") + rest
    whole, seam = joined(shown, anchor, continuation, 1_000)
    pieces, other = joined(shown, anchor, continuation, size)
    assert (pieces, other.how, other.notice) == (whole, seam.how, seam.notice)
    assert whole.startswith(shown)


DOCUMENT = '{"city": "Kiel by the sea", "wind": "a \\"fresh\\" one", "degrees": [7, 8, {"at": "noon"}], "city2": "Kiel"}'


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("size", [1, 5, 1_000])
@pytest.mark.parametrize("how", ["from the top", "from the anchor", "straight on"])
def test_a_document_stays_one_document_however_the_model_goes_on_at_any_cut(how: str, size: int) -> None:
    for cut in range(1, len(DOCUMENT)):
        shown, anchor = DOCUMENT[:cut], anchor_of(DOCUMENT[:cut])
        brought = {
            "from the top": DOCUMENT,
            "from the anchor": anchor + DOCUMENT[cut:],
            "straight on": DOCUMENT[cut:],
        }
        seam = AnchoredSeam(shown, anchor, document=True)
        text = brought[how]
        pieces = [seam.feed(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join((shown, *pieces, seam.close())) == DOCUMENT


@pytest.mark.requirement("C10")
def test_a_document_that_is_cut_again_in_its_second_telling_brings_nothing_twice() -> None:
    for cut in range(2, len(DOCUMENT)):
        for again in range(1, cut):
            seam = AnchoredSeam(DOCUMENT[:cut], anchor_of(DOCUMENT[:cut]), document=True)
            assert seam.feed(DOCUMENT[:again]) + seam.close(cut=True) == ""


@pytest.mark.requirement("B13")
def test_in_rows_that_are_all_alike_the_anchor_reaches_back_to_the_row_before_them():
    """A shorter one would stand there twice, and a model that repeats two rows would look like one that repeats one."""
    row = "10:02 WARN worker-3 started\n"
    shown = "10:01 INFO worker-1 stopped\n" + row * 5 + "10:02 WA"
    anchor = anchor_of(shown)
    assert shown.count(anchor) == 1
    seam = AnchoredSeam(shown, anchor)
    assert seam.feed(anchor + "RN worker-3 started\n" + row) + seam.close() == "RN worker-3 started\n" + row
    assert seam.notice == ""


@pytest.mark.requirement("B13")
def test_a_long_anchor_may_come_in_small_pieces_behind_a_preface():
    shown = "The first row is another one.\n" + "A row that is said again and again.\n" * 14 + "A row that"
    anchor = anchor_of(shown)
    assert len(anchor) > 400
    seam = AnchoredSeam(shown, anchor)
    reply = "Sure, continuing:\n" + anchor + " is said again and again.\nThe end."
    got = "".join(seam.feed(char) for char in reply) + seam.close()
    assert (got, seam.how) == (" is said again and again.\nThe end.", "anchored")


@pytest.mark.requirement("B13")
@pytest.mark.parametrize("size", [1, 7, 500])
@pytest.mark.parametrize(
    ("answer", "shown", "notice"),
    [
        ("The wind pulls the rope, and the rope holds.", " the rope, and the rope holds.", False),
        ("The wind pulls", "", False),
        ("The wi", "", False),
        ("The storm pulls.", "\n\nThe storm pulls.", True),
        ("I'm sorry.", "\n\nI'm sorry.", True),
    ],
)
def test_an_answer_to_the_same_question_is_shown_from_where_the_first_broke_off(answer, shown, notice, size):
    """Said again from its top, the shown part is dropped, however short; anything else is another answer, and told."""
    seam = AnchoredSeam("The wind pulls", "", from_top=True)
    pieces = [seam.feed(answer[at : at + size]) for at in range(0, len(answer), size)]
    assert "".join((*pieces, seam.close())) == shown
    assert bool(seam.notice) is notice
