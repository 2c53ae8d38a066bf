"""What a reader gets of a model's words."""

import pytest

from turnbuckle.runtime.stream_filter import StreamFilter
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import (
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallStarted,
    Cut,
    Ended,
    FinishNoted,
    ReasoningDelta,
    TextDelta,
)
from turnbuckle.vocab.failure import failure

END = (FinishNoted("stop", "stop"), Ended("end"))
CUT = Cut(failure("reset", "gone"))
SHOWN = "The first half of the answer ends "


def heard(events, shown="", size=1):
    """All that comes out, fed in bursts of one size."""
    speech = StreamFilter(shown)
    out = [event for at in range(0, len(events), size) for event in speech.take(list(events[at : at + size]))]
    assert check_stream(out) == ()
    return out


def text(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def words(said, block=0):
    return [TextDelta(block, piece) for piece in said]


def test_plain_words_pass_as_they_come():
    events = [ReasoningDelta(0, "hm"), *words(["Hel", "lo"], 1), BlockClosed(1), *END]
    assert heard(events) == events


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    "continuation",
    ["here, and goes on.", "of the answer ends here, and goes on.", SHOWN + "here, and goes on."],
    ids=["clean", "repeated", "restarted"],
)
def test_a_continuation_is_shown_without_what_is_there_already(continuation, size):
    out = heard([*words(list(continuation)), BlockClosed(0), *END], SHOWN, size)
    assert SHOWN + text(out) == "The first half of the answer ends here, and goes on."


@pytest.mark.parametrize("last", [CUT, *END[1:]], ids=["cut", "ended"])
def test_white_space_alone_is_never_shown(last):
    assert heard([*words(["\n", "\n  "]), BlockClosed(0), last]) == [last]


def test_white_space_in_front_of_words_comes_with_them():
    out = heard([*words(["\n", " ", "Hi", " ", "there"]), *END])
    assert [event.text for event in out if isinstance(event, TextDelta)] == ["\n Hi", " ", "there"]


def test_held_words_come_before_the_call_that_follows_them():
    call = [CallStarted(1, "c", "shell"), CallArgs(1, "{}"), CallClosed(1)]
    out = heard([*words(["The first"]), BlockClosed(0), *call, *END], SHOWN)
    assert [type(event) for event in out[:3]] == [TextDelta, BlockClosed, CallStarted]


def test_held_words_come_before_a_call_also_where_blocks_are_not_closed():
    out = heard([*words(["The first"]), CallStarted(1, "c", "shell"), CallClosed(1), *END], SHOWN)
    assert [type(event) for event in out[:2]] == [TextDelta, CallStarted]


def test_a_block_of_which_nothing_was_shown_is_not_closed_either():
    assert heard([*words(["ends "]), *words([SHOWN[-20:]]), BlockClosed(0), CUT], SHOWN)[-1] == CUT
    out = heard([BlockStarted(0, "text"), *words([" "]), BlockClosed(0), *END])
    assert out == [BlockStarted(0, "text"), BlockClosed(0), *END]


def test_what_comes_behind_the_last_word_is_not_heard():
    speech = StreamFilter()
    assert speech.take([*words(["Hi"]), CUT, *words(["more"]), CUT]) == (*words(["Hi"]), CUT)
    assert speech.over
    assert speech.take(words(["more"])) == ()


def test_going_round_in_circles_is_noticed():
    speech = StreamFilter()
    speech.take(words(["I will write the file for you now. "] * 60))
    assert speech.repeats == "I will write the file for you now."


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("size", [1, 3, 50])
def test_what_is_brought_again_behind_a_prefill_is_shown_once(size):
    speech = StreamFilter("The wav", " wav")
    text = " waves are high."
    events = [TextDelta(0, text[at : at + size]) for at in range(0, len(text), size)]
    said = "".join(event.text for event in speech.take([*events]) if isinstance(event, TextDelta))
    assert said == "es are high."


@pytest.mark.requirement("B13")
@pytest.mark.parametrize(
    ("shown", "said", "told"),
    [
        ("The engine was seen 63 times in t", "", True),
        ("The engine was seen 63 times in t", "seen 63 times in the last year.", False),
        ("I write the file.", "", False),  # a whole sentence in front of a call
    ],
)
def test_a_text_that_stays_unfinished_because_a_call_comes_instead_is_told(shown, said, told):
    speech = StreamFilter(shown, anchor="seen 63 times in t")
    events = [
        *words([said] if said else []),
        CallStarted(1, "c", "ls"),
        CallArgs(1, "{}"),
        CallClosed(1),
        *END,
    ]
    out = [event for event in events for event in speech.take([event])]
    assert [event for event in out if isinstance(event, CallStarted)] != []
    assert bool(speech.take_notice()) is told
