"""Drafts of texts that repeat themselves, finished at random places: exactly, or with a question, and never wrong in
silence."""

import json
import random

import pytest
from msgspec.structs import replace
from support.drafts.careless_models import STYLES
from support.drafts.repetitive_texts import CUTS, KINDS

from turnbuckle.reply.draft import Draft, told_length
from turnbuckle.reply.splice import Extended, Spliced, SpliceRefused, choose, extend_by_cut, splice
from turnbuckle.vocab.ids import DraftId

EACH = CUTS // len(KINDS)
TEXTS = 25
every_kind = pytest.mark.parametrize("kind", KINDS)


def places(kind: str, count: int, seed: str = "") -> list[tuple[str, int]]:
    """Texts of this kind, each with a place to cut it."""
    rng = random.Random(f"{kind} {seed}")
    texts = [KINDS[kind](rng) for _ in range(min(TEXTS, count))]
    return [(text, rng.randint(1, len(text) - 1)) for text in texts for _ in range(count // len(texts))]


def a_draft(text: str) -> Draft:
    return Draft(DraftId("d1"), "write_file", "content", text, {"path": "a"})


def made(draft: Draft, found: Spliced | Extended | SpliceRefused, letter: str = "a") -> str:
    """The text that comes of it; a question is answered."""
    if isinstance(found, SpliceRefused) and found.doubtful is not None:
        found = choose(replace(draft, doubtful=found.doubtful), letter)
    if isinstance(found, Spliced):
        return str(found.arguments["content"])
    return found.draft.text if isinstance(found, Extended) else ""


@pytest.mark.requirement("B8", "B13")
@every_kind
def test_a_model_that_does_as_it_is_told_loses_and_doubles_nothing(kind: str) -> None:
    asked = 0
    for text, cut in places(kind, EACH):
        draft = a_draft(text[:cut])
        told = told_length(draft)
        done = splice(draft, text[:told][-40:], text[told:], False, told=told)
        asked += isinstance(done, SpliceRefused)
        assert made(draft, done) == text
    assert asked < {"blocks": 0.7, "log": 0.4}.get(kind, 0.3) * EACH


@pytest.mark.requirement("B13")
@every_kind
def test_a_model_that_knows_the_true_end_loses_and_doubles_nothing(kind: str) -> None:
    for text, cut in places(kind, 800, "exactly"):
        draft = a_draft(text[:cut])
        done = splice(draft, text[:cut][-60:], text[cut:], False)
        assert made(draft, done) == text


@pytest.mark.requirement("B13")
@every_kind
def test_a_piece_that_is_cut_again_anywhere_loses_and_doubles_nothing(kind: str) -> None:
    for text, cut in places(kind, 800, "cut again"):
        draft = a_draft(text[:cut])
        told = told_length(draft)
        sent = json.dumps({"draft": "d1", "after": text[:told][-40:], "rest": text[told:]})
        longer = extend_by_cut(draft, sent[: random.Random(cut).randint(60, len(sent) - 1)], told=told)
        assert isinstance(longer, SpliceRefused) or text.startswith(longer.draft.text)
        assert text.startswith(made(draft, longer))


@pytest.mark.requirement("B13")
@every_kind
@pytest.mark.parametrize("style", STYLES)
def test_a_careless_model_is_asked_or_refused_and_never_wrong_in_silence(kind: str, style: str) -> None:
    rng = random.Random(f"{kind} {style}")
    settled = 0
    for text, cut in places(kind, 50, style):
        draft = a_draft(text[:cut])
        for told in (told_length(draft), None):
            after, rest = STYLES[style](rng, text, cut if told is None else told)
            done = splice(draft, after, rest, False, told=told)
            settled += isinstance(done, Spliced)
            assert isinstance(done, SpliceRefused) or made(draft, done) == text
            sent = json.dumps({"draft": "d1", "after": after, "rest": rest})
            cut_again = extend_by_cut(draft, sent[: rng.randint(len(sent) // 2, len(sent) - 1)], told=told)
            assert isinstance(cut_again, SpliceRefused) or text.startswith(cut_again.draft.text)
            assert len(draft.text) <= len(getattr(cut_again, "draft", draft).text)
    assert settled <= 100
