"""How full the window is, and when that is too much."""

import pytest

from turnbuckle.turn.compaction import Measure
from turnbuckle.turn.window import (
    corrected,
    estimate,
    expected,
    room_of,
    tokens_of_part,
    tokens_of_text,
    told,
    unsure,
)
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    ProviderState,
    ResultPart,
    TextPart,
)


def said(text, role="user"):
    return Message(role, (TextPart(text),))


@pytest.mark.parametrize(
    "text, tokens", [("", 0), ("a", 1), ("word" * 10, 10), ("漢字" * 4, 6), ("é" * 8, 4)]
)
def test_a_text_is_a_quarter_of_its_bytes(text, tokens):
    assert tokens_of_text(text) == tokens


@pytest.mark.requirement("I1")
def test_everything_that_is_sent_is_estimated():
    call = CallPart("c1", "read_file", '{"path": "a"}')
    plain = estimate([said("x" * 400)])
    assert plain == 104
    assert estimate([Message("assistant", (call,))]) > 12
    assert estimate([Message("tool", (ResultPart("c1", (TextPart("y" * 400),)),))]) > 100
    assert estimate([Message("user", (ImagePart(url="u"),))]) > 1_000


MEGABYTES = "QUJD" * 1_000_000  # base64 of 3 MB


@pytest.mark.requirement("I1")
@pytest.mark.parametrize(
    "part, least, most",
    [
        (ImagePart(data=MEGABYTES), 1_000, 2_000),
        (ImagePart(data=MEGABYTES, detail="low"), 85, 200),
        (FilePart(name="a.pdf", data=MEGABYTES, media_type="application/pdf"), 30_000, 110_000),
        (FilePart(name="a.pdf", data=MEGABYTES * 10, media_type="application/pdf"), 90_000, 110_000),
        (FilePart(name="a.txt", data="QUJD" * 1_000, media_type="text/plain"), 700, 800),
        (FilePart(file_id="f1"), 1_000, 2_000),
        (OpaquePart(ProviderState("gemini", "m", {"inlineData": {"data": MEGABYTES}})), 1_000, 2_000),
        (OpaquePart(ProviderState("anthropic", "m", {"text": "some words " * 4_000})), 11_000, 11_100),
        (ResultPart("c", (TextPart("x" * 400), ImagePart(data=MEGABYTES))), 1_100, 2_000),
    ],
    ids=["picture", "small picture", "document", "long document", "text", "by id", "opaque picture", "opaque words", "result"],
)  # fmt: skip
def test_a_picture_weighs_what_providers_count_and_not_its_bytes(part, least, most):
    assert least <= tokens_of_part(part) <= most


def test_how_much_of_an_estimate_is_a_guess_is_known():
    shown = Message("tool", (ResultPart("c", (TextPart("x" * 400), ImagePart(url="u"))),))
    assert unsure([said("x" * 4_000)]) == 0
    assert unsure([shown, Message("user", (ImagePart(url="u"),))]) == 2 * tokens_of_part(ImagePart(url="u"))


@pytest.mark.requirement("I1")
@pytest.mark.parametrize(
    "measure, tokens",
    [
        (None, 208 + 50),
        (Measure(1_000, 1), 1_000 + 104),
        (Measure(1_000, 1, 1.5), 1_000 + 156),
        (Measure(1_000, 0), 1_000),
        (Measure(1_000, 1, 2.0, "another"), (208 + 50) * 2),
    ],
    ids=["nobody counted", "one is new", "corrected", "nothing is new", "another model counts otherwise"],
)
def test_the_next_request_is_what_was_counted_and_an_estimate_for_what_is_new(measure, tokens):
    history = (said("x" * 400), said("y" * 400))

    assert expected(estimate(history) + 50, history, measure, "model") == tokens


@pytest.mark.parametrize(
    "reported, guessed, ratio", [(150, 100, 1.5), (1, 100, 0.4), (10**6, 100, 4.0), (5, 0, 1.0)]
)
def test_a_correction_stays_within_reason(reported, guessed, ratio):
    assert corrected(reported, guessed) == ratio


@pytest.mark.requirement("I1", "I2")
@pytest.mark.parametrize(
    "window, refused, cap, limit",
    [
        (10_000, 0, None, 8_000),
        (10_000, 0, 4_000, 6_000),
        (10_000, 0, 9_000, 5_000),
        (10_000, 5_000, None, 3_600),
        (None, 10_000, None, 7_200),
    ],
    ids=[
        "threshold",
        "room for the answer",
        "half at most for it",
        "a smaller one was refused",
        "nobody knows it",
    ],
)
def test_the_limit_leaves_room_for_the_answer_and_believes_a_refusal(window, refused, cap, limit):
    room = room_of(window, refused, 0.8, cap)

    assert room is not None
    assert room.limit == limit
    assert room.goal < room.limit


def test_without_a_window_and_a_refusal_there_is_no_limit():
    assert room_of(None, 0, 0.8, None) is None


def test_people_are_told_used_and_window():
    assert told(64_000, 128_000) == "64,000 of 128,000 tokens (50 %)"
    assert told(64_000, None) == "64,000 tokens, of how many is not known"
