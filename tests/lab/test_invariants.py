"""The invariants themselves must be able to fail."""

import pytest

from turnbuckle.testing.stream_invariants import check_cut, check_stream
from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallRewritten,
    CallStarted,
    Cut,
    Ended,
    Event,
    OpaqueBlock,
    ReasoningDelta,
    StateNoted,
    TextDelta,
)
from turnbuckle.vocab.failure import failure

END = Ended("[DONE]")
CUT = Cut(failure("reset", "gone"))

SOUND: dict[str, list[Event]] = {
    "only a last word": [CUT],
    "text": [TextDelta(0, "a"), Alive("comment"), TextDelta(0, "b"), BlockClosed(0), END],
    "a named block without text": [BlockStarted(0, "text"), BlockClosed(0), END],
    "reasoning, then a call": [
        ReasoningDelta(0, "hm"),
        BlockClosed(0),
        StateNoted(0, {"signature": "s"}),
        CallStarted(1, "", ""),
        CallNamed(1, "c", "f"),
        CallArgs(1, "{}"),
        CallRewritten(1, "{ }"),
        CallClosed(1),
        END,
    ],
    "parallel calls, mixed": [
        CallStarted(0, "a", "f"),
        CallStarted(1, "b", "f"),
        CallArgs(1, "{"),
        CallArgs(0, "{}"),
        CallArgs(1, "}"),
        CallClosed(0),
        CallClosed(1),
        END,
    ],
    "secret reasoning": [StateNoted(0, {"data": "x"}), BlockClosed(0), TextDelta(1, "a"), CUT],
    "state before the start": [StateNoted(0, {"id": "r"}), BlockStarted(0, "reasoning"), BlockClosed(0), END],
    "opaque": [OpaqueBlock(0, {"a": 1}), OpaqueBlock(0, {"a": 2}), BlockClosed(0), END],
}

BROKEN: dict[str, tuple[list[Event], str]] = {
    "no events": ([], "no last word"),
    "no last word": ([TextDelta(0, "a")], "no last word"),
    "two last words": ([END, CUT], "2 last words"),
    "something behind it": ([END, TextDelta(0, "a")], "TextDelta follows the last word"),
    "arguments of no call": ([CallArgs(0, "{"), CUT], "has not begun"),
    "arguments for text": ([TextDelta(0, "a"), CallArgs(0, "{"), CUT], "names a block of text"),
    "arguments after the close": (
        [CallStarted(0, "c", "f"), CallClosed(0), CallArgs(0, "{"), CUT],
        "after its block was closed",
    ),
    "closed twice": (
        [CallStarted(0, "c", "f"), CallClosed(0), CallClosed(0), CUT],
        "after its block was closed",
    ),
    "text after the close": (
        [TextDelta(0, "a"), BlockClosed(0), TextDelta(0, "b"), CUT],
        "after its block was closed",
    ),
    "a block closed twice": ([TextDelta(0, "a"), BlockClosed(0), BlockClosed(0), CUT], "was closed"),
    "a call closed as a block": ([CallStarted(0, "c", "f"), BlockClosed(0), CUT], "only CallClosed may"),
    "a call begun twice": ([CallStarted(0, "c", "f"), CallStarted(0, "c", "f"), CUT], "had begun"),
    "a block begun twice": ([BlockStarted(0, "text"), BlockStarted(0, "text"), CUT], "had begun"),
    "a reasoning's state for text": (
        [StateNoted(0, {}), BlockStarted(0, "text"), CUT],
        "names a block of reasoning",
    ),
    "a close of nothing": ([BlockClosed(4), CUT], "has not begun"),
    "blocks out of order": ([TextDelta(1, "a"), TextDelta(0, "b"), CUT], "behind a later one"),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_stream_has_no_problems(name: str) -> None:
    assert check_stream(SOUND[name]) == ()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_is_told_what_is_wrong(name: str) -> None:
    events, expected = BROKEN[name]
    assert any(expected in problem for problem in check_stream(events)), check_stream(events)


WHOLE: list[Event] = [
    ReasoningDelta(0, "think"),
    TextDelta(1, "hello "),
    TextDelta(1, "world"),
    CallStarted(2, "c", "f"),
    CallArgs(2, '{"a":'),
    CallArgs(2, "1}"),
    CallClosed(2),
    END,
]


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_every_beginning_of_a_stream_is_a_fair_cut_of_it(length: int) -> None:
    assert check_cut(WHOLE, [*WHOLE[:length], CUT]) == ()


@pytest.mark.parametrize(
    "events, expected",
    [
        ([TextDelta(1, "hallo"), CUT], "not how the whole text begins"),
        ([ReasoningDelta(0, "thinking"), CUT], "not how the whole reasoning begins"),
        ([CallStarted(2, "c", "f"), CallArgs(2, '{"a":'), CallClosed(2), CUT], "not a call of the whole"),
        ([CallStarted(2, "c", "g"), CallArgs(2, '{"a":1}'), CallClosed(2), CUT], "not a call of the whole"),
        ([TextDelta(1, "hello "), END], "less than the whole"),
    ],
)
def test_a_cut_that_shows_what_was_never_sent_is_found(events: list[Event], expected: str) -> None:
    assert any(expected in problem for problem in check_cut(WHOLE, events)), check_cut(WHOLE, events)


def test_a_cut_may_not_end_a_stream_that_did_not_end() -> None:
    assert "the cut stream ended, the whole one did not" in check_cut([TextDelta(0, "a"), CUT], [END])


def test_where_a_tidy_end_is_terminal_an_early_end_is_no_problem() -> None:
    assert check_cut(WHOLE, [TextDelta(1, "hello "), END], end_is_terminal=True) == ()
