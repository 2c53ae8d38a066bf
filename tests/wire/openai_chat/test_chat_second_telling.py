"""What a Chat Completions stream tells a second time is settled against the first."""

import json
from itertools import product
from typing import Any, get_args

import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.verdict import verdict
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import WORST_FIRST, Cut, Event, Finish, FinishNoted, worse
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import Reply
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.openai_chat.spellings import Spellings

TEXT = "It is 4, and so on."
ARGUMENTS = '{"to":"ann","sum":[1,2]}'


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def whole(finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}


def call(arguments: str, call_id: str = "", name: str = "pay", **fields: Any) -> dict[str, Any]:
    return {
        **({"id": call_id} if call_id else {}),
        **fields,
        "function": {"name": name, "arguments": arguments},
    }


def read(*frames: Any, quirks: Quirks | None = None) -> list[Event]:
    decoder = open_answer("openai_chat", quirks=quirks)
    body = b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)
    events = decoder.feed(body + b"data: [DONE]\n\n") + decoder.close()
    assert check_stream(events) == ()
    return events


def calls_of(reply: Reply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in reply.calls]


@pytest.mark.requirement("A13")
def test_a_whole_message_adds_exactly_what_its_pieces_lack() -> None:
    for size in range(len(TEXT) + 1):
        reply = fold(read(chunk({"content": TEXT[:size]}), whole(content=TEXT)))
        assert (reply.text, verdict(reply).kind) == (TEXT, "complete")


@pytest.mark.requirement("A13")
@pytest.mark.parametrize("told_id", ["c1", "c9", ""])
def test_a_call_that_is_told_again_at_any_point_is_one_call(told_id: str) -> None:
    for size in range(len(ARGUMENTS) + 1):
        begun = chunk({"tool_calls": [call(ARGUMENTS[:size], "c1", index=0)]})
        reply = fold(read(begun, whole("tool_calls", tool_calls=[call(ARGUMENTS, told_id)])))
        assert calls_of(reply) == [("pay", ARGUMENTS)], size
        assert len(verdict(reply).calls) == 1


@pytest.mark.requirement("A13")
def test_a_whole_message_brings_the_calls_that_were_not_streamed() -> None:
    told = [call(ARGUMENTS, "z1"), call("{}", "z2", "now")]
    reply = fold(
        read(chunk({"tool_calls": [call(ARGUMENTS, "c1", index=0)]}), whole("tool_calls", tool_calls=told))
    )
    assert calls_of(reply) == [("pay", ARGUMENTS), ("now", "{}")]


@pytest.mark.requirement("A13")
@pytest.mark.parametrize(
    "streamed, told",
    [
        ("<think>a</think>b", "b"),
        ("b", "<think>a</think>b"),
        ("b\n", "b"),
        ("b", "something else"),
        ("b", ""),
    ],
)
def test_a_whole_message_is_never_shown_behind_its_pieces(streamed: str, told: str) -> None:
    assert fold(read(chunk({"content": streamed}), whole(content=told))).text.strip() == "b"


@pytest.mark.requirement("A13")
def test_a_message_that_is_told_three_times_is_shown_once() -> None:
    told = whole("tool_calls", content=TEXT, reasoning_content="Hm.", tool_calls=[call(ARGUMENTS, "c1")])
    reply = fold(read(told, told, told))
    assert (reply.text, reply.reasoning, calls_of(reply)) == (TEXT, "Hm.", [("pay", ARGUMENTS)])


def test_pieces_that_are_called_messages_are_pieces_all_the_same() -> None:
    frames = [
        {**chunk({}), "choices": [{"index": 0, "message": {"content": piece}}]}
        for piece in ("It ", "is ", "4.")
    ]
    assert fold(read(*frames, chunk({}, "stop"))).text == "It is 4."


# Reasons


@pytest.mark.requirement("A14")
def test_every_reason_has_its_place_and_of_any_two_the_worse_one_counts() -> None:
    assert set(WORST_FIRST) == set(get_args(Finish))
    for one, other in product(WORST_FIRST, repeat=2):
        expected = WORST_FIRST[min(WORST_FIRST.index(one), WORST_FIRST.index(other))]
        assert worse(FinishNoted(one, ""), FinishNoted(other, "")).finish == expected


SAID = {
    "stop": "stop",
    "length": "length",
    "calls": "tool_calls",
    "filtered": "content_filter",
    "failed": "error",
}


@pytest.mark.requirement("A14")
@pytest.mark.parametrize("first, second", [pair for pair in product(SAID, repeat=2) if pair[0] != pair[1]])
def test_a_stream_with_two_reasons_ended_as_the_worse_one_says(first: Finish, second: Finish) -> None:
    reply = fold(read(chunk({"content": "One"}), chunk({}, SAID[first]), chunk({}, SAID[second])))
    assert reply.finish == min(first, second, key=WORST_FIRST.index)


@pytest.mark.requirement("A14", "B1")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("delta", [{"content": "One."}, {"tool_calls": [call(ARGUMENTS, "c1", index=0)]}])
def test_an_end_mark_alone_ends_text_where_it_is_known_for_it_and_never_calls(
    known: bool, delta: dict[str, Any]
) -> None:
    events = read(chunk(delta), quirks=Quirks(bare_done=known))
    ends = known and "content" in delta
    assert isinstance(events[-1], Cut) is not ends
    assert verdict(fold(events)).calls == ()


# Fragments


@pytest.mark.requirement("A13")
@pytest.mark.parametrize("sizes", [1, 2, 3, 5])
def test_one_call_under_a_new_id_and_its_name_in_each_fragment_is_one_call(sizes: int) -> None:
    pieces = [ARGUMENTS[at : at + sizes] for at in range(0, len(ARGUMENTS), sizes)]
    frames = [
        chunk({"tool_calls": [call(piece, f"id{at}", index=0)]}) for at, piece in enumerate(["", *pieces])
    ]
    assert calls_of(fold(read(*frames, chunk({}, "tool_calls")))) == [("pay", ARGUMENTS)]


@pytest.mark.requirement("A13")
def test_an_empty_object_before_the_real_one_is_no_call_of_its_own() -> None:
    frames = [chunk({"tool_calls": [call(piece, index=0)]}) for piece in ("{}", '{"to":', '"ann"}')]
    assert calls_of(fold(read(*frames, chunk({}, "tool_calls")))) == [("pay", '{"to":"ann"}')]


# Reasoning under two names


@pytest.mark.parametrize("first", [1, 2, 5, 100])
@pytest.mark.parametrize("second", [1, 3, 100])
def test_a_thought_under_two_names_is_told_once_whoever_is_ahead(first: int, second: int) -> None:
    spellings, thought = Spellings(), "Add them, then look again."
    heard, at = "", {"a": 0, "b": 0}
    while min(at.values()) < len(thought):
        for name, size in (("a", first), ("b", second)):
            piece = thought[at[name] : at[name] + size]
            at[name] += size
            heard += spellings.fresh(name, piece) if piece else ""
    assert heard == thought


def test_another_thought_under_another_name_is_told_too() -> None:
    spellings = Spellings()
    assert spellings.fresh("a", "Add them.") + spellings.fresh("b", "Sum it up.") == "Add them.Sum it up."


def test_what_always_stands_beside_the_thought_is_the_thought_told_otherwise() -> None:
    spellings = Spellings()
    heard = [
        spellings.fresh("a", "Add "),
        spellings.fresh("b", "Add ", beside=True),
        spellings.fresh("a", "them."),
        spellings.fresh("b", "Add them.", beside=True),
    ]
    assert heard == ["Add ", "", "them.", ""]
