"""Finishing drafts: verified joints, refusals that say why, pieces that are cut again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from turnbuckle.reply.draft import MAX_TEXT, Draft, NoDraft, draft_of, grown, tail, told_length
from turnbuckle.reply.splice import (
    Extended,
    Spliced,
    SpliceRefused,
    choose,
    extend_by_cut,
    letters_of,
    splice,
)
from turnbuckle.vocab.ids import DraftId

D1 = DraftId("d1")
LINES = "".join(
    f"{number:05d} the quick brown fox jumps over line {number * 7919 % 1000}\n" for number in range(700)
)
ROWS = "| ok | ok | ok |\n" * 60


def a_draft(text: str, **known: Any) -> Draft:
    return Draft(D1, "write_file", "content", text, {"path": "a.txt"}, **known)


def finish(**members: Any) -> str:
    return json.dumps(members)


@pytest.mark.requirement("B8")
def test_a_long_file_gets_through_in_pieces_exactly() -> None:
    content = LINES[:30_000]
    arguments = json.dumps({"path": "a.txt", "content": content})
    draft = draft_of("write_file", arguments[:4_000], "content", D1)
    assert isinstance(draft, Draft)
    steps: list[tuple[int, str]] = []
    first = draft
    while len(draft.text) < len(content) - 4_000:
        piece = content[len(draft.text) :][:4_000]
        longer = splice(draft, tail(draft, 60), piece, True)
        assert isinstance(longer, Extended)
        steps.append((longer.kept, longer.added))
        draft = longer.draft
    done = splice(draft, tail(draft, 60), content[len(draft.text) :], False)
    assert isinstance(done, Spliced)
    assert done.arguments == {"path": "a.txt", "content": content}
    assert json.loads(done.arguments_text) == done.arguments
    assert len(steps) == 6
    for kept, added in steps:
        first = grown(first, kept, added)
    assert first == draft


@pytest.mark.requirement("B8")
def test_a_long_file_gets_through_when_every_piece_is_cut_again() -> None:
    content = LINES[:30_000]
    draft: Draft | NoDraft = a_draft("")
    assert isinstance(draft, Draft)
    tries = 0
    while len(draft.text) < len(content):
        tries += 1
        whole = finish(draft="d1", after=tail(draft, 80), rest=content[len(draft.text) :], more=False)
        longer = extend_by_cut(draft, whole[:4_000])
        if isinstance(longer, SpliceRefused):  # the last piece fits into one answer
            break
        assert content.startswith(longer.draft.text)
        assert len(longer.draft.text) > len(draft.text)
        draft = longer.draft
    assert tries == 8
    done = splice(draft, tail(draft, 80), content[len(draft.text) :], False)
    assert isinstance(done, Spliced)
    assert done.arguments["content"] == content


@pytest.mark.requirement("B8")
@pytest.mark.parametrize(
    "text, after, rest, whole",
    [
        ("", "", "all of it", "all of it"),
        ("abc", "abc", "def", "abcdef"),  # short, but all of the draft
        ("x", "x", "y", "xy"),
        ("line 1\nli", "li", "ne 2", None),  # stands twice
        ("line 1\nline 2\nlin", "2\nlin", "e 3", "line 1\nline 2\nline 3"),  # short, but only once
        ("a\nb\nc\n", "\n", "d", None),
        ("alpha beta gamma delta", "gamma delta", " epsilon", "alpha beta gamma delta epsilon"),
        ("alpha beta gamma delta", "alpha beta", " GAMMA", None),  # nothing that was received is thrown away
        ("alpha beta gamma delta", "beta", " GAMMA", None),  # too little proof to throw text away
        ("alpha beta, alpha beta. The end", "alpha beta", "!", None),
        ("alpha beta gamma delta", "gamma Delta", "!", None),
        ("alpha beta gamma delta", "", "!", None),
        ("", "something", "!", None),
        ("aaaaaaaaaaaaaaaa", "aaaaaaaa", "b", "aaaaaaaaaaaaaaaab"),  # at the end, so the place is sure
        ("abc", "zabc", "def", None),
    ],
)
def test_the_anchor_proves_the_place_or_the_join_is_refused(
    text: str, after: str, rest: str, whole: str | None
) -> None:
    draft = a_draft(text)
    done = splice(draft, after, rest, False)
    if whole is None:
        assert isinstance(done, SpliceRefused)
        assert done.kind in ("no_anchor", "wrong_anchor", "unsure_anchor", "doubtful")
        assert done.why
        assert done.true_tail == text
    else:
        assert isinstance(done, Spliced)
        assert done.arguments == {"path": "a.txt", "content": whole}


def test_an_anchor_further_back_than_the_window_is_refused() -> None:
    for length, joined in ((1_987, Spliced), (1_988, SpliceRefused)):
        behind = LINES[:length]
        done = splice(a_draft("a rare anchor" + behind), "a rare anchor", behind + "and on", False)
        assert isinstance(done, joined)


def test_an_anchor_may_be_longer_than_the_window() -> None:
    done = splice(a_draft(LINES), LINES[-5_000:], "end", False)
    assert isinstance(done, Spliced)
    assert done.arguments["content"] == LINES + "end"


def answered(draft: Draft, asked: SpliceRefused, letter: str) -> str:
    """The text when the model has answered the question about its rest."""
    assert asked.doubtful is not None
    done = choose(replace(draft, doubtful=asked.doubtful), letter)
    assert isinstance(done, Spliced)
    return str(done.arguments["content"])


REPEATS = {
    "a long echo": (LINES, LINES[-45:], LINES[-400:] + "and on", LINES + "and on"),
    "all of it": (LINES, LINES[-45:], LINES + "and on", LINES + "and on"),
    "one character": ("the end of a w", "end of a w", "wave", "the end of a wave"),
    "a line": ("one line\nhalf of th", "line\nhalf of th", "half of the line", "one line\nhalf of the line"),
    "a blank line": ("one and more\n\n", "one and more\n\n", "\n\ntwo", "one and more\n\ntwo"),
    "a row": (ROWS, ROWS[-34:], ROWS[:17] + "end", ROWS + "end"),
    "a rule": ("Head\n" + "-" * 30, "Head\n" + "-" * 30, "-" * 30 + "\n", "Head\n" + "-" * 30 + "\n"),
    "the only line": (LINES[:52], LINES[:52], LINES[:52] + "x", LINES[:52] + "x"),
}


@pytest.mark.requirement("B8", "B13")
@pytest.mark.parametrize("text, after, rest, without", REPEATS.values(), ids=REPEATS.keys())
def test_a_rest_that_begins_with_what_ends_the_draft_is_asked_about_and_either_answer_holds(
    text: str, after: str, rest: str, without: str
) -> None:
    draft = a_draft(text)
    asked = splice(draft, after, rest, False)
    assert isinstance(asked, SpliceRefused)
    assert asked.kind == "doubtful"
    assert asked.doubtful is not None
    results = [answered(draft, asked, letter) for letter in letters_of(asked.doubtful)]
    assert results[0] == text + rest
    assert without in results[1:]


@pytest.mark.requirement("B13")
def test_a_question_is_answered_by_one_of_its_letters_and_only_while_it_is_open() -> None:
    asked = splice(a_draft(ROWS), ROWS[-34:], ROWS, True, {"mode": 1})
    assert isinstance(asked, SpliceRefused)
    doubtful = replace(a_draft(ROWS), doubtful=asked.doubtful)
    for wrong in ("", "z", "ab", "none"):
        refused = choose(doubtful, wrong)
        assert isinstance(refused, SpliceRefused)
        assert refused.doubtful == asked.doubtful
    longer = choose(doubtful, " A ")
    assert isinstance(longer, Extended)
    assert longer.draft == a_draft(ROWS + ROWS)
    refused = choose(longer.draft, "a")
    assert isinstance(refused, SpliceRefused)
    assert refused.doubtful is None


@pytest.mark.requirement("B13")
@pytest.mark.parametrize("copies", [3, 8])
@pytest.mark.parametrize("size", [70, 1_500])
def test_no_block_is_lost_where_it_stands_several_times_in_a_row(copies: int, size: int) -> None:
    block = LINES[:size]
    whole = block * copies
    for cut in range(size + 1, 2 * size, max(size // 40, 1)):
        draft = a_draft(whole[:cut])
        asked = splice(draft, whole[cut - 60 : cut], whole[cut:], False)
        assert isinstance(asked, SpliceRefused)
        assert answered(draft, asked, "a") == whole


@pytest.mark.requirement("B13")
@pytest.mark.parametrize(
    "after, rest",
    [
        ("the wave and the rope", "  slack"),  # it left out the white space
        ("the wave and the", "  slack"),  # and the last word
        ("the wave and the ", "rope, slack"),
        ("the wave", " and the rope"),  # it ends before the draft does
    ],
)
def test_nothing_that_was_received_is_thrown_away_in_silence(after: str, rest: str) -> None:
    draft = a_draft("Here are the wave and the rope  ")
    refused = splice(draft, after, rest, False)
    assert isinstance(refused, SpliceRefused)
    assert refused.true_tail == draft.text


@pytest.mark.requirement("B13")
def test_a_rest_that_goes_back_and_brings_again_what_stands_there_proves_its_place() -> None:
    draft = a_draft("A head.\nThe wave and the rope hold the boat in the wi")
    done = splice(draft, "A head.\nThe wave and", " the rope hold the boat in the wind.", False)
    assert isinstance(done, Spliced)
    assert done.arguments["content"] == "A head.\nThe wave and the rope hold the boat in the wind."
    assert done.kept == len(draft.text)


WRAPPED = {
    "a fence": "```python\n{}\n```",
    "an open fence": "```\n{}",
    "a preface": "Continuing:\n{}",
    "a polite preface": "Sure, here is the rest of the file:\n\n{}",
    "both": "Here's the rest:\n```text\n{}\n```\n",
    "a mark": ">>>{}",
}


@pytest.mark.requirement("B13")
@pytest.mark.parametrize("form", WRAPPED.values(), ids=WRAPPED.keys())
def test_what_stands_around_a_rest_is_asked_about_and_never_lands_in_the_file_unseen(form: str) -> None:
    draft = a_draft(LINES[:1_000])
    rest = LINES[1_000:2_000]
    asked = splice(draft, LINES[940:1_000], form.format(rest), False)
    assert isinstance(asked, SpliceRefused)
    assert asked.doubtful is not None
    results = [answered(draft, asked, letter) for letter in letters_of(asked.doubtful)]
    assert results[0] == draft.text + form.format(rest)
    assert LINES[:2_000] in results


@pytest.mark.requirement("B13")
@pytest.mark.parametrize("form", ["{}", "{}```", "```\n{}", "Continuing:\n{}", "\n\n{}"])
def test_words_that_were_kept_back_prove_the_place_without_a_question(form: str) -> None:
    draft = a_draft(LINES[:1_000])
    told = told_length(draft)
    assert 8 <= 1_000 - told <= 60
    done = splice(draft, LINES[told - 40 : told], form.format(LINES[told:2_000]), True, told=told)
    assert isinstance(done, Extended | SpliceRefused)
    if form in ("{}", "```\n{}", "Continuing:\n{}"):
        assert isinstance(done, Extended)
        assert done.draft.text == LINES[:2_000]


@pytest.mark.requirement("B13")
def test_other_words_in_place_of_those_that_were_kept_back_are_taken() -> None:
    draft = a_draft(LINES[:1_000])
    told = told_length(draft)
    done = splice(draft, LINES[told - 40 : told], "quite other words", False, told=told)
    assert isinstance(done, Spliced)
    assert done.arguments["content"] == LINES[:told] + "quite other words"
    unknowing = splice(draft, LINES[told - 40 : told], "quite other words", False)
    assert isinstance(unknowing, SpliceRefused)


@pytest.mark.parametrize("mark", ['"{}"', "<<<{}>>>", "{}>>>", "`{}`", "\u201c{}\u201d"])
def test_marks_around_an_anchor_are_taken_off(mark: str) -> None:
    done = splice(a_draft("one\ntwo three four"), mark.format("two three four"), " five", False)
    assert isinstance(done, Spliced)
    assert done.arguments["content"] == "one\ntwo three four five"
    escaped = splice(a_draft("one\ntwo three four"), "one\\ntwo three four", " five", False)
    assert isinstance(escaped, Spliced)


@pytest.mark.requirement("B8")
@pytest.mark.parametrize("cut", range(0, 3_000, 97))
@pytest.mark.parametrize("after", [1, 8, 21, 400, 2_500])
def test_the_true_rest_always_gives_the_true_text(cut: int, after: int) -> None:
    content = LINES[:1_000] + ROWS + "\n\n" + "    }\n" * 30 + LINES[1_000:1_400]
    cut %= len(content)
    draft = a_draft(content[:cut])
    done = splice(draft, content[:cut][-after:], content[cut:], False)
    if isinstance(done, SpliceRefused) and done.doubtful is not None:
        assert answered(draft, done, "a") == content
    elif isinstance(done, SpliceRefused):
        assert after < 8
        assert done.kind == "unsure_anchor"
    else:
        assert isinstance(done, Spliced)
        assert done.arguments["content"] == content


@pytest.mark.requirement("B8")
@pytest.mark.parametrize(
    "lost, also, guarded, kind",
    [
        (None, {}, (), ""),
        (None, {}, ("overwrite",), "missing"),
        (None, {"overwrite": False}, ("overwrite",), ""),
        (None, {}, ("path", "content"), ""),
        ("overwrite", {}, (), "missing"),
        ("overwrite", {"mode": 1}, (), "missing"),
        ("overwrite", {"overwrite": True}, (), ""),
        ("over", {"overwrite": True}, (), ""),
        ("", {}, (), "missing"),
        ("", {"anything": 1}, (), ""),
        (None, {"path": "b.txt"}, (), "conflict"),
        (None, {"path": "a.txt"}, (), ""),
        (None, {"content": "other"}, (), "conflict"),
    ],
)
def test_what_the_cut_took_must_be_said_again_and_what_arrived_stands(
    lost: str | None, also: dict[str, Any], guarded: tuple[str, ...], kind: str
) -> None:
    done = splice(a_draft("the text", closed=True, lost=lost), "the text", "", False, also, guarded)
    if kind:
        assert isinstance(done, SpliceRefused)
        assert done.kind == kind
        assert done.missing
    else:
        assert isinstance(done, Spliced)
        assert done.arguments == {**also, "path": "a.txt", "content": "the text"}


def test_a_guarded_flag_is_also_asked_for_when_the_text_itself_was_open() -> None:
    refused = splice(a_draft("the text"), "the text", " goes on", False, guarded=("overwrite",))
    assert isinstance(refused, SpliceRefused)
    assert refused.missing == ("overwrite",)
    assert isinstance(
        splice(a_draft("the text"), "the text", " goes on", True, guarded=("overwrite",)), Extended
    )


def test_what_arrived_is_not_replaced_by_something_that_only_looks_equal() -> None:
    draft = Draft(D1, "write_file", "content", "text", {"overwrite": True})
    done = splice(draft, "text", "", False, {"overwrite": 1})
    assert isinstance(done, Spliced)
    assert done.arguments_text == '{"overwrite":true,"content":"text"}'


@pytest.mark.parametrize("rest, more", [("more", False), ("", True), ("more", True)])
def test_a_text_that_was_complete_takes_no_more(rest: str, more: bool) -> None:
    refused = splice(a_draft("the text", closed=True), "the text", rest, more)
    assert isinstance(refused, SpliceRefused)
    assert refused.kind == "closed"


def test_what_can_not_be_written_is_refused() -> None:
    refused = splice(a_draft("the text"), "the text", "\ud83d", False)
    assert isinstance(refused, SpliceRefused)
    assert refused.kind == "malformed"
    refused = splice(a_draft("the text"), "the text", "", False, {"\ud83d": 1})
    assert isinstance(refused, SpliceRefused)
    assert refused.kind == "malformed"


def test_a_draft_does_not_grow_without_end() -> None:
    draft = a_draft("x" * MAX_TEXT)
    refused = splice(draft, "x" * 100, "y", True)
    assert isinstance(refused, SpliceRefused)
    assert refused.kind == "too_large"
    assert len(refused.true_tail) == 400


@pytest.mark.requirement("B8")
def test_a_finish_call_cut_at_every_character_extends_the_draft_by_what_is_certain() -> None:
    rest = 'fox 🦊 jumps "over"\nthe lazy dog \\ end'
    draft = a_draft("Once upon a time, the quick brown ")
    after = tail(draft, 25)
    for text in (
        finish(draft="d1", after=after, rest=rest, more=False),
        json.dumps({"after": after, "more": True, "draft": "d1", "rest": rest}, ensure_ascii=False, indent=1),
    ):
        longest = 0
        for length in range(len(text)):
            longer = extend_by_cut(draft, text[:length])
            if isinstance(longer, SpliceRefused):
                assert not longest
                assert longer.true_tail == draft.text
                continue
            assert (draft.text + rest).startswith(longer.draft.text)
            assert longer.draft == grown(draft, longer.kept, longer.added)
            assert len(longer.draft.text) >= longest
            longest = len(longer.draft.text)
        assert longest == len(draft.text + rest)


@pytest.mark.requirement("B8")
@pytest.mark.parametrize(
    "received, kind",
    [
        ("", "other_draft"),
        ('{"draft":"d1', "other_draft"),
        ('{"draft":"d2","after":"brown fox","rest":" jumps', "other_draft"),
        ('{"after":"brown fox","rest":" jumps', "other_draft"),
        ('{"draft":7,"after":"brown fox","rest":" jumps', "other_draft"),
        ('{"draft":"d1"', "no_anchor"),
        ('{"draft":"d1","after":"brown', "no_anchor"),
        ('{"draft":"d1","rest":" jumps', "no_anchor"),
        ('{"draft":"d1","rest":" jumps","after":"brown', "no_anchor"),
        ('{"draft":"d1","after":"","rest":" jumps', "no_anchor"),
        ('{"draft":"d1","after":"brown fox"', "nothing_new"),
        ('{"draft":"d1","after":"brown fox","rest":"', "nothing_new"),
        ('{"draft":"d1","after":"brown fox","rest":7', "nothing_new"),
        ('{"draft":"d1","after":7,"rest":" jumps', "nothing_new"),
        ('{"draft":"d1","after":"quick brown","rest":" f', "nothing_new"),  # goes back, and was cut too early
        ('{"draft":"d1","after":"brown cat","rest":" jumps', "wrong_anchor"),
        ('{"draft":"d1","after":"brown fox","rest":" jumps"}', "malformed"),
        ('{"draft":"d1","after":"brown fox","rest" " jumps', "malformed"),
    ],
)
def test_a_cut_piece_that_proves_nothing_leaves_the_draft_as_it_was(received: str, kind: str) -> None:
    refused = extend_by_cut(a_draft("the quick brown fox"), received)
    assert isinstance(refused, SpliceRefused)
    assert refused.kind == kind
    assert refused.true_tail == "the quick brown fox"


def test_a_cut_piece_that_goes_back_takes_nothing_away() -> None:
    draft = a_draft("the quick brown fox")
    refused = extend_by_cut(draft, '{"draft":"d1","after":"the quick","rest":" red fox jumps over')
    assert isinstance(refused, SpliceRefused)
    again = (
        '{"draft":"d1","after":"the quick","rest":" brown fox jumps over the lazy dog, and then comes home'
    )
    asked = extend_by_cut(draft, again)
    assert isinstance(asked, SpliceRefused)
    assert asked.doubtful is not None
    assert asked.doubtful.more


def test_a_cut_piece_does_not_extend_a_complete_text() -> None:
    refused = extend_by_cut(a_draft("the text", closed=True), '{"draft":"d1","after":"the text","rest":"x')
    assert isinstance(refused, SpliceRefused)
    assert refused.kind == "closed"


@pytest.mark.requirement("B8", "B13")
@pytest.mark.parametrize("echo", [60, 400, len(LINES)])
def test_an_echo_that_is_cut_at_any_point_is_never_doubled(echo: int) -> None:
    draft = a_draft(LINES)
    text = finish(draft="d1", after=LINES[-60:], rest=LINES[-echo:] + "and on")
    for length in range(text.index('"rest"'), len(text), 1 if echo < 1_000 else 501):
        assert isinstance(extend_by_cut(draft, text[:length]), SpliceRefused)
    asked = extend_by_cut(draft, text[:-1])
    assert isinstance(asked, SpliceRefused)
    longer = choose(replace(draft, doubtful=asked.doubtful), "b")
    assert isinstance(longer, Extended)
    assert longer.draft.text == LINES + "and on"


@pytest.mark.requirement("B8", "B13")
def test_a_repetitive_file_still_makes_progress_when_its_pieces_are_cut() -> None:
    draft = a_draft(ROWS)
    asked = extend_by_cut(draft, finish(draft="d1", after=ROWS[-100:], rest=ROWS)[:-20])
    assert isinstance(asked, SpliceRefused)
    longer = choose(replace(draft, doubtful=asked.doubtful), "a")
    assert isinstance(longer, Extended)
    assert longer.draft.text.startswith(ROWS + ROWS[:500])


@pytest.mark.parametrize("rest", ["Contin", "Sure, here", "```", "```pyth", ">>", "I'll contin"])
def test_a_cut_piece_that_may_become_a_preface_is_not_taken(rest: str) -> None:
    refused = extend_by_cut(a_draft(LINES), finish(draft="d1", after=LINES[-60:], rest=rest)[:-2])
    assert isinstance(refused, SpliceRefused)
    assert refused.kind == "nothing_new"


@given(
    st.text("ab\n", max_size=30), st.text("ab\n", max_size=12), st.text("ab\n", max_size=30), st.booleans()
)
def test_whatever_the_model_sends_the_result_is_a_beginning_of_the_draft_and_an_end_of_the_rest(
    text: str, after: str, rest: str, more: bool
) -> None:
    draft = a_draft(text)
    done = splice(draft, after, rest, more)
    if isinstance(done, SpliceRefused):
        assert done.true_tail == text
        return
    assert done.added == rest[done.echoed :]
    assert done.kept == len(text)
    result = done.draft.text if isinstance(done, Extended) else done.arguments["content"]
    assert result == text[: done.kept] + done.added
