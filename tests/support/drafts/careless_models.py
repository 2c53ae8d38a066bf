"""Models that finish a draft in ways that nobody asked for. Each is a function of the text that it has in mind and of
the place up to which it knows that it was received; it gives `after` and `rest`."""

import random
from collections.abc import Callable

Sent = tuple[str, str]
Style = Callable[[random.Random, str, int], Sent]


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, max(at - 1, 0)) + 1


def repeats_the_tail(rng: random.Random, text: str, at: int) -> Sent:
    return text[:at][-60:], text[max(at - rng.randint(1, 80), 0) :]


def begins_the_line_again(rng: random.Random, text: str, at: int) -> Sent:
    return text[:at][-60:], text[_line_start(text, at) :]


def drops_trailing_space(rng: random.Random, text: str, at: int) -> Sent:
    return text[:at][-60:].rstrip(), text[at:]


def drops_the_last_word(rng: random.Random, text: str, at: int) -> Sent:
    words = text[:at][-60:].rstrip().rpartition(" ")
    return words[0] + rng.choice(["", words[1]]), text[at:]


def puts_a_fence_around(rng: random.Random, text: str, at: int) -> Sent:
    kind = rng.choice(["", "python", "text"])
    return text[:at][-60:], f"```{kind}\n{text[at:]}{rng.choice(['', chr(10)])}```"


def says_something_first(rng: random.Random, text: str, at: int) -> Sent:
    words = [
        "Continuing:\n",
        "Continuing: ",
        "Here is the rest:\n\n",
        "Sure, here's the rest of the file:\n",
        "[Runtime] ",
    ]
    return text[:at][-60:], rng.choice(words[:4]) + text[at:]


def copies_marks(rng: random.Random, text: str, at: int) -> Sent:
    tail = text[:at][-60:]
    return rng.choice([f"<<<{tail}>>>", f"{tail}>>>", f'"{tail}"']), rng.choice(["", ">>>", "<<<"]) + text[
        at:
    ]


def anchors_at_the_beginning(rng: random.Random, text: str, at: int) -> Sent:
    return text[:at][:60], text[at:]


def restarts(rng: random.Random, text: str, at: int) -> Sent:
    return text[:at][-60:], text


def restarts_behind_its_anchor(rng: random.Random, text: str, at: int) -> Sent:
    return text[:at][:60], text[min(at, 60) :]


def anchors_some_way_back(rng: random.Random, text: str, at: int) -> Sent:
    back = max(at - rng.randint(1, 300), 0)
    return text[max(back - 60, 0) : back], rng.choice([text[at:], text[back:]])


STYLES: dict[str, Style] = {
    style.__name__: style
    for style in (
        repeats_the_tail,
        begins_the_line_again,
        drops_trailing_space,
        drops_the_last_word,
        puts_a_fence_around,
        says_something_first,
        copies_marks,
        anchors_at_the_beginning,
        restarts,
        restarts_behind_its_anchor,
        anchors_some_way_back,
    )
}
