"""What is printed cannot command a terminal, and hides nothing."""

import unicodedata
from functools import cache

import msgspec
import pytest

from turnbuckle.vocab.visible import visible_json, visible_line, visible_text

UNSEEN = [
    *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0\ufff0",
    *map(chr, range(0xFE00, 0xFE10)),
    *map(chr, range(0xE0000, 0xE1000)),
]


@cache
def obeyed() -> list[str]:
    """Of all signs that there are, those that a terminal may obey. To find them takes half a second."""
    return [
        sign
        for sign in map(chr, range(0x110000))
        if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


@pytest.mark.requirement("R11")
def test_no_sign_that_is_obeyed_or_unseen_is_left_in_a_line():
    for sign in (*obeyed(), *UNSEEN):
        assert sign not in visible_line(f"a{sign}b"), hex(ord(sign))


@pytest.mark.requirement("R11")
def test_running_text_keeps_its_lines_and_nothing_else_that_is_obeyed():
    kept = {sign for sign in (*obeyed(), *UNSEEN) if sign in visible_text(f"a{sign}b")}
    assert kept == {"\n", "\t"}


@pytest.mark.parametrize(
    "text",
    ["plain", "Grüße, 世界 שלום", "👩‍👩‍👧 and ❤️‍🔥 and 1️⃣", "می‌خواهم", "क्‍ष", "two\nlines\tand a tab"],
)
def test_what_people_write_stays_as_it_is(text: str):
    assert visible_text(text) == text


def test_words_in_pieces_are_shown_as_words_in_one():
    text = "👩‍👩‍👧 ❤️‍🔥 1️⃣ می‌خواهم\x1b[0m"
    for at in range(1, len(text)):
        before, after = text[:at], text[at:]
        joined = visible_text(before) + visible_text(after, before[-1])
        assert joined in (visible_text(text), visible_text(text).replace("1\ufe0f", "1\\ufe0f"))


@pytest.mark.parametrize(
    "hidden",
    ["a\u200db", "👍\ufe0f\ufe0f\ufe0f", "👍\U000e0100\U000e0101", "x\U000e0068\U000e0069", "a\u200c\u200c"],
)
def test_words_cannot_be_hidden_in_signs_that_join(hidden: str):
    assert "\\" in visible_text(hidden)


def test_a_line_end_of_another_system_is_a_line_end_and_a_bare_return_is_shown():
    assert visible_text("a\r\nb") == "a\nb"
    assert visible_text("safe\rrm -rf") == "safe\\rrm -rf"


@pytest.mark.requirement("R11")
def test_json_is_made_visible_and_means_the_same():
    value = {"a\u202e": "\x9b2J\x7f\u2028\U000e0041 ü\n", "b": ["\x1b"]}
    shown = visible_json(msgspec.json.format(msgspec.json.encode(value)).decode())
    assert msgspec.json.decode(shown) == value
    assert all(sign not in shown for sign in (*obeyed(), *UNSEEN) if sign != "\n")
