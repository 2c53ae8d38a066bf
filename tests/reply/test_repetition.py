"""Going round in circles is told from text that repeats by nature."""

import random

import pytest

from turnbuckle.reply.repetition import BLOCK, LONGEST, RepetitionGuard, bar

SENTENCE = "I will now write the file for you. "


def first_alarm(text, size, where="text"):
    """The passage that was found, and how much was read until then, in pieces of one size."""
    guard = RepetitionGuard(where)
    for at in range(0, len(text), size):
        if found := guard.feed(text[at : at + size]):
            return found, at + size
    return "", len(text)


CIRCLES = {
    "one sentence": (SENTENCE * 300, SENTENCE.strip()),
    "one sentence in lines": ("The same line once more.\n" * 300, "The same line once more."),
    "two sentences": ("First I look at it. Then I look again at it. " * 150, "First I look at it. Then I look again at it."),
    "a paragraph": ("One of these. Two of those. Three of them!\n\n" * 300, "One of these. Two of those. Three of them!"),
    "a short word": ("Yes! " * 300, "Yes!"),
    "without any end": ("abcdefgh" * 20_000, "abcdefgh"),
    "behind an honest beginning": ("Here is what I found out. " + "It goes on and on like this. " * 200, "It goes on and on like this."),
}  # fmt: skip


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("text, passage", CIRCLES.values(), ids=CIRCLES.keys())
def test_the_same_passage_for_ever_is_found_out(text, passage):
    found, _ = first_alarm(text, 7)
    assert found.replace("  ", " ") in (passage, *_turned(passage))


def _turned(passage):
    """The same cycle, begun elsewhere."""
    words = passage.split(" ")
    return [" ".join(words[at:] + words[:at]) for at in range(len(words))]


HONEST = {
    "a table of equal rows": "| 0 | 0 | 0 | nothing |\n" * 140,
    "a rule between rows": "".join(f"| {n} | {n * n} |\n|---|---|\n" for n in range(400)),
    "a log": "[info] the health of the service was checked and is good\n" * 140,
    "a log with times": "".join(f"{n:04} the health of the service was checked.\n" for n in range(2_000)),
    "code": "    }\n" * 140 + "".join(f"    if x == {n}:\n        return None\n" for n in range(400)),
    "a list": "- the same thing, once more for the list\n" * 100,
    "a refrain": "".join(f"Verse {n} is not like the others. And so say all of us. " for n in range(300)),
    "laughter": "Ha! " * 100,
    "a long number": "".join(str(n * n) for n in range(30_000)),
    "nothing at all": "",
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST.keys())
def test_text_that_repeats_by_nature_is_left_alone(text):
    assert first_alarm(text, 11)[0] == ""


@pytest.mark.parametrize("text", [circle for circle, _ in CIRCLES.values()], ids=CIRCLES.keys())
def test_every_split_gives_the_same_alarm_at_the_same_place(text):
    text = text[: 150_000 if len(text) > 20_000 else None]
    found, exact = first_alarm(text, 1)
    assert found
    for size in (2, 3, 5, 8, 13, 34, 89, 1_000, 1_999, 2_000, 2_001):
        again, at = first_alarm(text, size)
        assert (again, -(-exact // size) * size) == (found, at), size


def test_what_is_kept_does_not_grow_with_the_text():
    guard = RepetitionGuard()
    for number in range(200_000):
        assert guard.feed(f"{number} ") == ""
    assert guard._size < BLOCK
    assert len(guard._window) <= LONGEST + 2 * BLOCK


def prose(size, seed=1):
    """So many characters that do not repeat."""
    chance = random.Random(seed)
    return "".join(chance.choice("abcdefghij klmnop qrstu") for _ in range(size))


@pytest.mark.requirement("B15")
@pytest.mark.parametrize("where", ["text", "reasoning", "arguments"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 24, 41, 97, 127, 128, 129, 400, 1_000, 2_345, 4_000])
def test_any_period_is_found_within_some_thousand_characters_of_its_bar(size, where):
    period = prose(size)
    assert "\n" not in period
    found, at = first_alarm(prose(5_000, 2) + period * (80_000 // size), 17, where)
    assert found
    assert at - 5_000 <= bar(period, where) + 3 * size + 4 * BLOCK
    assert bar(period, where) <= {"text": 16_000, "reasoning": 16_000, "arguments": 24_000}[where]


@pytest.mark.requirement("B15")
@pytest.mark.parametrize("blank", [" ", "\n", "\t", " \n", "\\n", "\\n    ", "\r\n"], ids=repr)
@pytest.mark.parametrize("where", ["text", "reasoning", "arguments"])
def test_blanks_for_ever_are_found_out_everywhere(blank, where):
    found, at = first_alarm('{"path": "a.txt",' + blank * 9_000, 5, where)
    assert found == "nothing but blanks"
    assert at < 3_000


def test_a_passage_with_equal_lines_inside_is_found_by_its_whole_length():
    passage = "| 0 | 0 | 0 |\n" * 60 + prose(300) + "\n"
    found, at = first_alarm(passage * 40, 23)
    assert found
    assert at < 14_000


WANTED = {
    "three thousand equal lines": "0,0,0,0,0,0,0\\n" * 3_000,
    "a thousand longer ones": "    - { name: nothing, value: 0, unit: none, note: none }\\n" * 1_000,
    "zeros in base64": "A" * 20_000,
    "an array of zeros": "0, " * 7_000,
    "a test with equal cases": "assert check(0) == 0; " * 300,
}


@pytest.mark.requirement("B15")
@pytest.mark.parametrize("text", WANTED.values(), ids=WANTED.keys())
def test_a_file_of_equal_lines_may_be_what_is_wanted(text):
    assert first_alarm(text, 19, "arguments")[0] == ""


@pytest.mark.requirement("B15")
def test_a_file_of_equal_lines_is_not_wanted_for_ever():
    found, at = first_alarm("the same line\\n" * 9_000, 19, "arguments")
    assert found == "the same line"
    assert 48_000 <= at <= 49_000
