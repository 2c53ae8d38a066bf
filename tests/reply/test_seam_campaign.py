"""Texts that repeat themselves, cut at random places and gone on with: nothing lost, nothing doubled in silence."""

import random

import pytest
from support.drafts.repetitive_texts import CUTS, KINDS

from turnbuckle.reply.anchor import anchor_of
from turnbuckle.reply.anchored_seam import AnchoredSeam

EACH = CUTS // len(KINDS)
ENOUGH = 1_200  # characters of a continuation that are tried; the seam is long settled by then
UNPROVABLE = {"log": 0.03, "blocks": 0.12}
"""Which part of the cuts leaves several readings at most: rows that are all alike from the top on, or blocks longer
than any anchor."""
every_kind = pytest.mark.parametrize("kind", KINDS)


def places(kind: str, count: int, seed: str) -> list[tuple[str, str]]:
    """Texts of this kind, cut in two."""
    rng = random.Random(f"{kind} {seed}")
    texts = [KINDS[kind](rng) for _ in range(25)]
    cuts = [(text, rng.randint(1, len(text) - 1)) for text in texts for _ in range(count // len(texts))]
    return [(text[:at], text[at : at + ENOUGH]) for text, at in cuts]


def joined(shown: str, continuation: str, size: int = 300) -> tuple[str, str]:
    seam = AnchoredSeam(shown, anchor_of(shown))
    pieces = [seam.feed(continuation[at : at + size]) for at in range(0, len(continuation), size)]
    return "".join((shown, *pieces, seam.close())), seam.notice


@pytest.mark.requirement("B3", "B13")
@every_kind
def test_a_model_that_repeats_the_anchor_loses_and_doubles_nothing(kind: str) -> None:
    doubled = doubtful = 0
    for shown, rest in places(kind, EACH, "anchor"):
        text, notice = joined(shown, anchor_of(shown) + rest)
        doubled += text != shown + rest
        doubtful += bool(notice)
        assert text.endswith(rest)
        assert len(text) >= len(shown + rest)
    assert doubled == 0
    assert doubtful <= EACH * UNPROVABLE.get(kind, 0.01), doubtful


@pytest.mark.requirement("B3", "B13")
@every_kind
def test_a_model_that_goes_straight_on_loses_nothing(kind: str) -> None:
    for shown, rest in places(kind, EACH, "straight"):
        text, _ = joined(shown, rest)
        assert text == shown + rest


def begins_the_line_again(rng: random.Random, shown: str, rest: str) -> str:
    return shown[shown.rfind("\n", 0, len(shown) - 1) + 1 :] + rest


STYLES = {
    "repeats some of it": lambda rng, shown, rest: shown[-rng.randint(1, 80) :] + rest,
    "begins the line again": begins_the_line_again,
    "restarts": lambda rng, shown, rest: shown + rest,
    "a preface": lambda rng, shown, rest: "Sure, continuing:\n" + anchor_of(shown) + rest,
    "a fence": lambda rng, shown, rest: "```text\n" + anchor_of(shown) + rest,
    "an ellipsis": lambda rng, shown, rest: "..." + shown[-30:] + rest,
    "quotes": lambda rng, shown, rest: '"' + anchor_of(shown) + rest,
    "half of the anchor": lambda rng, shown, rest: anchor_of(shown)[len(anchor_of(shown)) // 2 :] + rest,
    "another answer": lambda rng, shown, rest: "I'm sorry, but I can't assist with that.",
}


@pytest.mark.requirement("B13")
@every_kind
@pytest.mark.parametrize("style", STYLES)
def test_a_careless_model_loses_nothing_and_what_is_doubled_is_told(kind: str, style: str) -> None:
    rng = random.Random(f"{kind} {style}")
    for shown, rest in places(kind, 75, style):
        if not anchor_of(shown):
            continue  # a few characters at the very top
        continuation = STYLES[style](rng, shown, rest)
        text, notice = joined(
            shown, continuation, rng.choice([1, 40, 5_000]) if len(continuation) < 400 else 97
        )
        if style == "another answer":
            assert text.endswith(continuation)
            assert notice or text == shown + continuation
        else:
            assert text.endswith(rest)
            assert notice or text == shown + rest
