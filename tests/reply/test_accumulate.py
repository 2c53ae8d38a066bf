"""Events become a reply: whole values at any moment, with constant work per event."""

import msgspec
import pytest

from turnbuckle.reply.accumulate import Accumulator, fold
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
    FinishNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    Skipped,
    Started,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.reply import (
    Reply,
    ReplyCall,
    ReplyOpaque,
    ReplyReasoning,
    ReplyRefusal,
    ReplyText,
)

CUT = Cut(failure("reset", "the connection was reset"))
EVENTS: list[Event] = [
    Started("r1", ""),
    Alive("comment"),
    BlockStarted(0, "reasoning"),
    ReasoningDelta(0, "Hm"),
    ReasoningDelta(0, "m."),
    StateNoted(0, {"signature": "s", "n": 1}),
    BlockClosed(0),
    TextDelta(1, "I wi"),
    Started("", "m1"),
    TextDelta(1, "ll."),
    CallStarted(2, "c1", ""),
    CallNamed(2, "c1", "read"),
    CallArgs(2, '{"p":'),
    OpaqueBlock(3, {"type": "web_search_call"}),
    CallArgs(2, '"a"}'),
    StateNoted(2, {"x": 1}),
    StateNoted(0, {"n": 2}),
    CallClosed(2),
    BlockClosed(1),
    OpaqueBlock(3, {"type": "web_search_call", "status": "completed"}),
    RefusalDelta(4, "No"),
    RefusalDelta(4, "pe."),
    Skipped("bad", "x"),
    UsageNoted(Usage(input=1, output=1)),
    UsageNoted(Usage(input=1, output=9)),
    FinishNoted("calls", "tool_calls", "STOP"),
    Ended("[DONE]"),
]
REPLY = Reply(
    blocks=(
        ReplyReasoning("Hmm.", True, {"signature": "s", "n": 2}),
        ReplyText("I will.", True),
        ReplyCall("c1", "read", '{"p":"a"}', True, {"x": 1}),
        ReplyOpaque({"type": "web_search_call", "status": "completed"}),
        ReplyRefusal("Nope."),
    ),
    id="r1",
    model="m1",
    finish="calls",
    finish_said="tool_calls",
    finish_detail="STOP",
    usage=Usage(input=1, output=9),
    skipped=1,
    last=Ended("[DONE]"),
)


@pytest.mark.requirement("A2", "A3", "A4")
def test_all_kinds_of_events_fold_to_one_reply():
    assert fold(EVENTS) == REPLY


def test_folding_twice_gives_the_same_reply():
    assert fold(EVENTS) == fold(EVENTS)


def test_one_by_one_and_all_at_once_are_the_same():
    accumulator = Accumulator()
    for event in EVENTS:
        accumulator.add(event)
    assert accumulator.snapshot() == REPLY


def test_a_snapshot_at_any_moment_changes_nothing():
    accumulator = Accumulator()
    snapshots = []
    for event in EVENTS:
        accumulator.add(event)
        snapshots.append(accumulator.snapshot())
    assert snapshots == [fold(EVENTS[: count + 1]) for count in range(len(EVENTS))]
    assert snapshots[-1] == REPLY


def test_a_snapshot_does_not_change_behind_its_owners_back():
    accumulator = Accumulator().add_all([TextDelta(0, "a"), StateNoted(0, {"n": 1})])
    before = accumulator.snapshot()
    accumulator.add_all([TextDelta(0, "b"), StateNoted(0, {"m": 2})])
    assert before.blocks == (ReplyText("a", state={"n": 1}),)


@pytest.mark.requirement("B1")
def test_a_reply_is_partial_until_its_last_word_is_ended():
    assert not fold(EVENTS[:-1]).ended
    assert fold(EVENTS[:-1]).last is None
    cut = fold([*EVENTS[:-1], CUT])
    assert not cut.ended
    assert cut.text == "I will."


@pytest.mark.parametrize("last", [Ended("x"), CUT])
@pytest.mark.parametrize(
    "late", [TextDelta(0, "b"), CallArgs(1, "}"), FinishNoted("stop", "stop"), Ended("y"), CUT]
)
def test_nothing_is_taken_behind_the_last_word(last, late):
    accumulator = Accumulator().add_all([TextDelta(0, "a"), CallStarted(1, "c", "f"), CallArgs(1, "{"), last])
    with pytest.raises(ValueError, match="after the last word"):
        accumulator.add(late)
    assert accumulator.snapshot().text == "a"


def test_text_blocks_join_in_order():
    reply = fold([TextDelta(0, "a"), CallStarted(1, "c", "f"), TextDelta(2, "b"), TextDelta(0, "!")])
    assert (reply.text, [type(block) for block in reply.blocks]) == ("a!b", [ReplyText, ReplyCall, ReplyText])


def test_rewritten_arguments_replace_the_pieces():
    reply = fold([CallStarted(0, "c", "f"), CallArgs(0, '{"a"'), CallRewritten(0, '{"b":1}'), CallClosed(0)])
    assert reply.calls == (ReplyCall("c", "f", '{"b":1}', True),)
    more = fold([CallStarted(0, "c", "f"), CallRewritten(0, "{"), CallArgs(0, "}")])
    assert more.calls[0].arguments == "{}"


@pytest.mark.requirement("A2")
@pytest.mark.parametrize(
    "arguments, closed, expected",
    [
        ('{"a":1}{"b":2}', True, [("c", '{"a":1}'), ("c_1", '{"b":2}')]),
        ('{"a":1} \n {"b":2} {}', True, [("c", '{"a":1}'), ("c_1", '{"b":2}'), ("c_2", "{}")]),
        ('{"a":1}{"b":2}', False, [("c", '{"a":1}{"b":2}')]),
        ('{"a":1}{"b":', True, [("c", '{"a":1}{"b":')]),
        ('{"a":1}x', True, [("c", '{"a":1}x')]),
        ('{"a":"}{"}', True, [("c", '{"a":"}{"}')]),
        ("", True, [("c", "")]),
    ],
)
def test_whole_objects_behind_each_other_are_several_calls(arguments, closed, expected):
    events = [CallStarted(0, "c", "f"), CallArgs(0, arguments), *([CallClosed(0)] if closed else [])]
    calls = fold(events).calls
    assert [(call.id, call.arguments) for call in calls] == expected
    assert all(call.name == "f" and call.closed == closed for call in calls)


def test_sealed_reasoning_keeps_its_place_and_state():
    reply = fold(
        [BlockStarted(0, "reasoning"), TextDelta(1, "a"), StateNoted(0, {"data": "x"}), BlockClosed(0)]
    )
    assert reply.blocks == (ReplyReasoning("", True, {"data": "x"}), ReplyText("a"))


def test_a_reply_survives_a_trip_through_json():
    reply = fold(EVENTS)
    assert msgspec.json.decode(msgspec.json.encode(reply), type=Reply) == reply


def _called(*calls):
    events = []
    for block, (call_id, name, arguments) in enumerate(calls):
        events += [CallStarted(block, call_id, name), CallArgs(block, arguments), CallClosed(block)]
    return [(call.id, call.arguments) for call in fold(events).calls]


@pytest.mark.requirement("A13")
@pytest.mark.parametrize(
    "arguments, expected",
    [
        ('{"a":1}{"a":1}', ['{"a":1}']),
        ('{"a":1}{"a":1}{"a":1}', ['{"a":1}']),
        ('{"a":1,"b":2} {"b": 2, "a": 1}', ['{"a":1,"b":2}']),
        ('{"a":1}{"a":2}{"a":1}', ['{"a":1}', '{"a":2}']),
        ('{"a":1}{"a":true}{"a":"1"}', ['{"a":1}', '{"a":true}', '{"a":"1"}']),
        ('{}{"a":1}', ['{"a":1}']),
        ('{}{}{"a":1}', ['{"a":1}']),
        ("{}{}", ["{}"]),
        ("null", ["{}"]),
        (" null\n", ["{}"]),
    ],
)
def test_what_is_told_again_in_one_argument_string_is_one_call(arguments, expected):
    assert [text for _, text in _called(("c", "f", arguments))] == expected


@pytest.mark.requirement("A13")
@pytest.mark.parametrize(
    "calls, ids",
    [
        ([("x", "f", '{"a":1}'), ("x", "f", '{ "a": 1 }')], ["x"]),
        ([("x", "f", '{"a":1}'), ("x", "f", '{"a":2}')], ["x", "x_1"]),
        ([("x", "f", '{"a":1}'), ("x", "g", '{"a":1}')], ["x", "x_1"]),
        ([("x", "f", '{"a":1}'), ("x", "f", '{"a":2}'), ("x_1", "f", "{}")], ["x", "x_2", "x_1"]),
        ([("x", "f", '{"a":1}{"a":2}'), ("x_1", "f", "{}")], ["x", "x_2", "x_1"]),
        ([("x", "f", '{"a":1}'), ("y", "f", '{"a":1}')], ["x", "y"]),
    ],
)
def test_each_call_has_an_id_of_its_own_and_the_same_call_is_there_once(calls, ids):
    assert [call_id for call_id, _ in _called(*calls)] == ids
