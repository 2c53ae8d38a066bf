"""Seams: a continuation joined to shown text, for every cut and every split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.reply.overlap import WINDOW, is_habit
from turnbuckle.reply.seam import How, Seam, join

PROSE = (
    "The harbour was quiet when Marta arrived, and the ferry had already left. She counted the steps to the office, "
    "found it locked, and sat down on a bench by the water.\n\nAn hour later a man with a heavy coat came along. "
    '"You are late," he said. "So is the boat," she replied; it was true, as far as anyone knew. They waited '
    "together until the lights of the second ferry came round the point, small at first and then very bright."
)
CODE = '''def read(path: str) -> list[str]:
    """Read the lines of a file."""
    lines = []
    with open(path) as file:
        for line in file:
            if line.strip():
                lines.append(line.rstrip("\\n"))
            else:
                lines.append("")
    return lines


class Reader:
    def __init__(self, path):
        self.path = path
        self.lines = read(path)

    def __len__(self):
        return len(self.lines)
'''
TABLE = """Results:

| name     | passed | failed |
|----------|--------|--------|
| decoder  |     12 |      0 |
| encoder  |      9 |      1 |
| splice   |     31 |      0 |
| seam     |     27 |      2 |

--------------------------------------------------

1. first
2. second
3. third
"""
UNICODE = (
    "Grüße aus Köln! 今日はいい天気ですね。明日も晴れるでしょう。 Привет, мир — это проверка. "
    "שלום עולם، مرحبا بالعالم. Ζωή και ελπίδα; fin."
)
EMOJI = (
    "Launch 🚀🚀🚀 done 😀! Family: 👨‍👩‍👧‍👦, flags 🇩🇪🇫🇷🇯🇵, thumbs 👍🏽👍🏿. Party 🎉 at 🕗, bring 🍕 and 🍰."
)
TEXTS = {"prose": PROSE, "code": CODE, "table": TABLE, "unicode": UNICODE, "emoji": EMOJI}
LONG = "".join(f"Sentence number {n} tells us about item {n * 7919 % 1009}. " for n in range(120))
EQUAL_ROWS = "| ok | ok | ok |\n" * 40
every_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())


@pytest.mark.requirement("B3")
@every_text
def test_a_clean_continuation_joins_exactly_at_every_cut(text: str) -> None:
    for cut in range(len(text) + 1):
        joined = join(text[:cut], text[cut:])
        assert joined.text == text
        assert joined.how == "clean"


@pytest.mark.requirement("B3")
@every_text
@pytest.mark.parametrize("repeated", [24, 40, 60, 90])
def test_a_repeated_tail_is_shown_once_at_every_cut(text: str, repeated: int) -> None:
    tried = 0
    cuts = range(repeated + 1, len(text) + 1)
    for cut in cuts:
        if is_habit(text[:cut], text[cut - repeated : cut]):
            continue  # a rule of dashes, or a line of code that stands there twice: what was meant cannot be known
        joined = join(text[:cut], text[cut - repeated :])
        assert joined.text == text
        assert (joined.how, joined.dropped) == ("repeated", repeated)
        tried += 1
    assert tried > 0.8 * len(cuts)


@pytest.mark.requirement("B3")
@every_text
def test_a_restart_from_the_top_is_shown_once_at_every_cut(text: str) -> None:
    for cut in range(12, len(text) + 1):
        joined = join(text[:cut], text)
        assert joined.text == text
        assert (joined.how, joined.dropped) == ("restarted", cut)


@pytest.mark.requirement("B3")
def test_the_last_two_hundred_characters_are_shown_once() -> None:
    shown = LONG[:3_000]
    assert join(shown, LONG[2_800:]).text == LONG


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("cut", [2_003, 2_004, 2_005, 2_500, 4_999])
def test_a_restart_is_found_however_much_was_shown(cut: int) -> None:
    joined = join(LONG[:cut], LONG)
    assert joined.text == LONG
    assert (joined.how, joined.dropped) == ("restarted", cut)


@pytest.mark.requirement("B3")
@pytest.mark.parametrize(
    "shown, continuation, text",
    [
        # A word that was broken or said again, glued to itself
        ("Hello brave and", "and new world", "Hello brave and new world"),
        ("an inter", "international flight", "an international flight"),
        ("it is a", "it is a nice day", "it is a nice day"),
        ("return value", "value + 1", "return value + 1"),
        # The same, but it may be meant
        ("the ", "the end", "the the end"),
        ("she had ", "had enough", "she had had enough"),
        ("ha", "ha ha", "haha ha"),
        ("x = haha", "haha", "x = hahahaha"),
        ("go to", "to", "go toto"),
        ("100", "100", "100100"),
        ("a_foo", "foo", "a_foofoo"),
        ("afoo", "foo", "afoofoo"),
        # All of a short text again
        ("Sure! ", "Sure! Here it is", "Sure! Here it is"),
        ("# T ", "# T ", "# T # T "),
        # Nothing is added and nothing is taken inside a line
        ("interna", "tional", "international"),
        ("brave and", "new", "brave andnew"),
        ("brave and", " new", "brave and new"),
        ("x\n", "\ny", "x\n\ny"),
        ("if x:\n  ", "  return", "if x:\n    return"),
        ("#", "# Title", "## Title"),
        ("", "anything", "anything"),
        ("anything", "", "anything"),
    ],
)
def test_words_are_neither_doubled_nor_lost_as_far_as_it_can_be_known(
    shown: str, continuation: str, text: str
) -> None:
    assert join(shown, continuation).text == text


@pytest.mark.requirement("B3")
@pytest.mark.parametrize(
    "shown, continuation, dropped",
    [
        ("Hello ", " world", 1),
        ("Hello, ", " world", 1),
        ("```\nx\n```\nHello ", " world", 1),
        ("Hello ", "  world", 0),  # not one space
        ("Hello  ", " world", 0),
        ("name  age ", " town", 0),  # columns
        ("| a ", " b |", 0),
        ("a\tb ", " c", 0),
        ("  indented ", " text", 0),
        ("- ", " item", 0),
        ("```\nx = 1 ", " y", 0),  # inside a fence
        ("x ", " = 1", 0),
        (" ", " x", 0),
        ("Hello ", " ", 0),
        ("Hello", " world", 0),
    ],
)
def test_a_second_space_is_dropped_only_in_plain_prose(shown: str, continuation: str, dropped: int) -> None:
    joined = join(shown, continuation)
    assert joined.text == shown + continuation[dropped:]
    assert (joined.how, joined.dropped) == ("clean", dropped)


@pytest.mark.parametrize(
    "shown, continuation, text",
    [
        ("The quick brown fox", "...quick brown fox jumps", "The quick brown fox jumps"),
        ("The quick brown fox", "... quick brown fox jumps", "The quick brown fox jumps"),
        ("The quick brown fox", "…quick brown fox jumps", "The quick brown fox jumps"),
        ("The quick brown fox", "… quick brown fox jumps", "The quick brown fox jumps"),
        ("The quick brown fox", "… brown fox jumps", "The quick brown fox… brown fox jumps"),
        ("The quick brown fox", "... The quick brown fox jumps", "The quick brown fox jumps"),
        ("The quick brown fox", "... and jumps", "The quick brown fox... and jumps"),
        ("The quick brown fox", "...", "The quick brown fox..."),
        ("The quick brown fox", ". Then", "The quick brown fox. Then"),
        ("The quick brown fox", "..quick brown fox jumps", "The quick brown fox..quick brown fox jumps"),
        ("Wait for it...", "... and done", "Wait for it...... and done"),
    ],
)
def test_an_ellipsis_is_dropped_only_before_a_repeat(shown: str, continuation: str, text: str) -> None:
    assert join(shown, continuation).text == text


@pytest.mark.requirement("B3")
def test_a_text_that_repeats_itself_loses_no_row_once_two_of_them_were_shown() -> None:
    for text in (EQUAL_ROWS + "the end", EQUAL_ROWS, "Rows:\n" + EQUAL_ROWS + "the end"):
        for cut in range(text.index("|") + 34, len(text) + 1):
            assert join(text[:cut], text[cut:]).text == text


@pytest.mark.requirement("B3")
def test_a_text_that_repeats_itself_is_not_held_for_long() -> None:
    seam = Seam(EQUAL_ROWS * 20)
    given_out: list[str] = []
    for at in range(0, len(EQUAL_ROWS) * 5, 17):
        given_out.append(seam.feed(EQUAL_ROWS[:17]))
        assert seam.holding <= WINDOW + 4
        assert len("".join(given_out)) + seam.holding == at + 17
    assert seam.how == "clean"


@pytest.mark.requirement("B3")
@pytest.mark.parametrize(
    "shown, broken",
    [(PROSE[:300], "\n\n"), (PROSE[:300] + "\n", "\n"), (PROSE[:300] + ".\n\n", ""), (LONG, "\n\n")],
)
def test_a_restart_that_says_something_else_is_given_whole_behind_a_paragraph_break(
    shown: str, broken: str
) -> None:
    again = shown[:250] + "@ another story"
    seam = Seam(shown)
    assert seam.feed(again[:250]) == ""
    assert seam.how == "held"
    given_out = seam.feed(again[250:])
    assert seam.how == "diverged"
    assert given_out == broken + again


@pytest.mark.parametrize("same", [5, 39])
def test_a_beginning_that_only_looks_like_the_top_is_clean(same: int) -> None:
    joined = join(PROSE[:300], PROSE[:same] + "@ goes on")
    assert (joined.how, joined.text) == ("clean", PROSE[:300] + PROSE[:same] + "@ goes on")


def test_a_repeat_of_the_tail_wins_over_a_restart_that_diverges() -> None:
    head = "A header of some length that stands at the top.\n"
    shown = head + LONG[:2_500] + head
    joined = join(shown, head + "and new text")
    assert (joined.how, joined.text) == ("repeated", shown + "and new text")


@pytest.mark.requirement("B3")
@pytest.mark.parametrize(
    "shown, held, how, cut_gives",
    [
        (PROSE, PROSE[:100], "restarted", ""),
        (PROSE, PROSE[200:300], "repeated", ""),
        (LONG, LONG[:3_000], "restarted", ""),
        (PROSE, PROSE[:8], "clean", PROSE[:8]),
        (PROSE, PROSE[200:208], "clean", PROSE[200:208]),
        (EQUAL_ROWS + "x", EQUAL_ROWS[17:80], "clean", EQUAL_ROWS[17:80]),
        (PROSE, "..", "clean", ".."),
        ("Hello ", " ", "clean", " "),
    ],
)
def test_a_continuation_that_is_cut_while_it_repeats_brought_nothing_new(
    shown: str, held: str, how: How, cut_gives: str
) -> None:
    seam = Seam(shown)
    assert seam.feed(held) == ""
    assert seam.holding == len(held)
    assert seam.close(cut=True) == cut_gives
    assert seam.how == how
    assert seam.holding == 0
    assert seam.feed("more") == "more"
    assert seam.close() == ""


@pytest.mark.parametrize("held", [PROSE[200:300], PROSE[:30], "..", "…", "... "])
def test_a_continuation_that_ended_while_held_is_given_out(held: str) -> None:
    seam = Seam(PROSE)
    assert seam.feed(held) == ""
    assert seam.close() == held
    assert seam.how == "clean"


def test_a_whole_reply_that_only_begins_like_the_shown_text_is_another_version() -> None:
    joined = join(LONG, LONG[:3_000])
    assert (joined.how, joined.text) == ("diverged", LONG + "\n\n" + LONG[:3_000])


@pytest.mark.requirement("B3")
def test_nothing_is_held_longer_than_it_can_match() -> None:
    seam = Seam(PROSE)
    assert seam.feed("@") == "@"
    seam = Seam(PROSE)
    assert seam.feed("The har") == ""
    assert seam.feed("p") == "The harp"
    assert seam.feed("bour was quiet") == "bour was quiet"


def test_a_text_without_anything_shown_is_never_held() -> None:
    seam = Seam("")
    assert (seam.feed(" "), seam.feed("..."), seam.close(), seam.how) == (" ", "...", "", "clean")


@pytest.mark.requirement("B3")
@given(st.text(max_size=60), st.text(max_size=60))
def test_a_continuation_that_begins_with_something_new_is_untouched(shown: str, rest: str) -> None:
    continuation = "\u2603" + rest
    shown = shown.replace("\u2603", "")
    seam = Seam(shown)
    assert [seam.feed(char) for char in continuation] == list(continuation)
    assert seam.how == "clean"


SMALL = st.text("ab .\n", max_size=24)


@pytest.mark.requirement("B3")
@given(SMALL, SMALL, st.integers(0, 24), st.lists(st.integers(0, 40), max_size=6), st.booleans())
def test_every_split_of_the_deltas_gives_the_same(
    shown: str, rest: str, repeated: int, cuts: list[int], cut: bool
) -> None:
    continuation = shown[len(shown) - min(repeated, len(shown)) :] + rest
    whole = Seam(shown)
    expected = whole.feed(continuation) + whole.close(cut)
    ends = sorted({min(at, len(continuation)) for at in cuts} | {len(continuation)})
    for points in (ends, range(1, len(continuation) + 1)):
        seam = Seam(shown)
        given_out: list[str] = []
        before = 0
        for end in points:
            given_out.append(seam.feed(continuation[before:end]))
            before = end
        given_out.append(seam.close(cut))
        assert "".join(given_out) == expected
        assert (seam.how, seam.dropped) == (whole.how, whole.dropped)


@pytest.mark.requirement("B3")
@given(SMALL, SMALL)
def test_only_a_passage_that_is_there_is_ever_dropped(shown: str, continuation: str) -> None:
    joined = join(shown, continuation)
    added = joined.text[len(shown) :].removeprefix("\n\n" if joined.how == "diverged" else "")
    assert added == continuation[joined.dropped :]
    assert shown.endswith(continuation[: joined.dropped].lstrip(". ")) or joined.how == "clean"


@pytest.mark.parametrize("size", [1, 7, 1_000, 10_000])
@pytest.mark.parametrize("differs_at", [2_000, 2_003, 2_004, 2_005, 3_000, None])
def test_long_restarts_are_the_same_in_pieces_of_any_size(size: int, differs_at: int | None) -> None:
    shown = LONG[:4_000]
    continuation = LONG if differs_at is None else LONG[:differs_at] + "@" + LONG[:500]
    seam = Seam(shown)
    given_out = [seam.feed(continuation[at : at + size]) for at in range(0, len(continuation), size)]
    given_out.append(seam.close())
    expected = LONG[4_000:] if differs_at is None else "\n\n" + continuation
    assert "".join(given_out) == expected


@pytest.mark.parametrize("unit", ["a", "ab", "aab", "a" * 500 + "b"])
def test_the_work_is_linear_and_the_hold_is_bounded_by_the_window(unit: str) -> None:
    shown = "x" + unit * (6_000 // len(unit))
    seam = Seam(shown)
    for at, char in enumerate(unit * (6_000 // len(unit))):
        seam.feed(char)
        assert seam.holding <= min(at + 1, WINDOW)
    assert seam.how == "clean"


def test_a_restart_keeps_no_copy_of_what_it_repeats() -> None:
    seam = Seam(LONG)
    for at in range(0, len(LONG) - 7, 7):
        assert seam.feed(LONG[at : at + 7]) == ""
        assert sum(map(len, seam._held)) <= WINDOW + 4
    assert seam.holding > WINDOW + 1_000
