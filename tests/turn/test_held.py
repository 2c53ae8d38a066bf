"""Every call of a cut reply is kept, whole ones and cut ones; they start together, in order, once the reply is whole."""

import json

import pytest
from msgspec.structs import replace

from turnbuckle.reply.draft import Draft
from turnbuckle.turn import drafting, held
from turnbuckle.turn.commands import Record
from turnbuckle.turn.facts import CallsHeld, DraftClosed, DraftKept, HeldCall, ToolFinished
from turnbuckle.turn.policy import ANY_TEXT, Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.messages import CallPart, Message, TextPart
from turnbuckle.vocab.reply import Reply, ReplyCall

POLICY = Policy(
    (RouteFacts(RouteName("main"), "openai_chat", "m"),),
    {
        "write_file": ToolFacts("write", draftable="content", subject="path"),
        "read_file": ToolFacts("read", subject="path"),
        "shell": ToolFacts("write", subject="command"),
        "edit": ToolFacts(draftable=ANY_TEXT, client=True),
    },
)
CUT = Cut(failure("reset", "gone"))
TURN = Turn(attempt=7, now=5.0)
A = '{"path": "a", "content": "all of a"}'
B = '{"path": "b", "content": "one two three fo'
D1, D2 = DraftId("d1"), DraftId("d2")
DRAFT = Draft(D1, "write_file", "content", "one two three four five", {"path": "b"})
SECOND = Draft(D2, "write_file", "content", "six seven eight nine ten", {"path": "c"})
WHOLE = HeldCall("c0", "write_file", A)
OPEN = replace(
    TURN,
    drafts={D1: DRAFT},
    held=(WHOLE, HeldCall("c1", "write_file", draft=D1)),
    messages=(Message("assistant", (TextPart("x"),)),),
)
FINISH = PendingCall("f", "finish_call", {"draft": "d1", "after": "three four five", "rest": " six"})


def reply(*calls, closed=True):
    blocks = tuple(ReplyCall(f"c{at}", *call, closed=closed) for at, call in enumerate(calls))
    return Reply(blocks, last=CUT)


def places(kept):
    (fact,) = [one for one in kept.facts if isinstance(one, CallsHeld)]
    return [(one.name, one.is_whole, one.draft) for one in fact.calls]


@pytest.mark.requirement("B16")
@pytest.mark.parametrize(
    "calls, expected",
    [
        ([("write_file", A), ("write_file", B)], [("write_file", True, ""), ("write_file", False, "d7")]),
        ([("write_file", B), ("write_file", A)], [("write_file", False, "d7"), ("write_file", True, "")]),
        (
            [("write_file", B), ("write_file", B.replace('"b"', '"c"'))],
            [("write_file", False, "d7"), ("write_file", False, "d7c")],
        ),
        (
            [("read_file", '{"path": "a"}'), ("shell", '{"comm')],
            [("read_file", True, ""), ("shell", False, "")],
        ),
        (
            [("shell", '{"comm'), ("read_file", '{"path": "a"}')],
            [("shell", False, ""), ("read_file", True, "")],
        ),
        (
            [("write_file", A), ("write_file", A.replace('"a"', '"z"'))],
            [("write_file", True, ""), ("write_file", False, "d7")],
        ),
        ([("noop", ""), ("write_file", B)], [("noop", True, ""), ("write_file", False, "d7")]),
        (
            [("write_file", A), ("write_file", A), ("write_file", B)],
            [("write_file", True, ""), ("write_file", True, ""), ("write_file", False, "d7")],
        ),
        ([("write_file", A), ("write_file", A)], [("write_file", True, ""), ("write_file", False, "d7")]),
    ],
    ids=[
        "whole, cut",
        "cut, whole",
        "cut, cut",
        "whole, named",
        "named, whole",
        "all whole",
        "empty, cut",
        "twice whole",
        "twice",
    ],
)
def test_every_call_of_a_cut_reply_has_its_place(calls, expected):
    kept = drafting.keep(TURN, reply(*calls), POLICY)
    got = places(kept)
    assert [one[:2] for one in got] == [one[:2] for one in expected]
    assert [bool(one[2]) for one in got] == [bool(one[2]) for one in expected]
    assert drafting.lost(reply(*calls), kept) == sum(
        len(text) for name, text in calls if name == "shell" and text.endswith("comm")
    )


def test_a_call_whose_arguments_have_not_begun_is_not_whole():
    kept = drafting.keep(TURN, reply(("read_file", '{"path": "a"}'), ("noop", ""), closed=False), POLICY)
    assert places(kept) == [("read_file", True, ""), ("noop", False, "")]


@pytest.mark.requirement("B16")
def test_a_whole_long_call_of_any_tool_is_confirmed_and_not_generated_again():
    kept = drafting.keep(TURN, reply(("shell", json.dumps({"command": "echo " + "x" * 900}))), POLICY)
    (fact,) = kept.facts
    assert isinstance(fact, DraftKept)
    assert fact.draft.closed
    assert kept.draft == "d7"


@pytest.mark.requirement("B16")
def test_a_draft_that_is_whole_in_a_reply_that_was_cut_later_is_held_whole():
    turn = replace(OPEN, held=())
    kept = drafting.keep(
        turn, reply(("finish_call", json.dumps(FINISH.arguments)), ("write_file", A[:-4])), POLICY
    )
    first, second, third = kept.facts
    assert first == DraftClosed(5.0, D1, "finished")
    assert isinstance(second, DraftKept)
    assert json.loads(third.calls[0].arguments) == {"path": "b", "content": "one two three four five six"}
    assert kept.draft == second.draft.id


@pytest.mark.requirement("B16")
@pytest.mark.parametrize(
    "made, names, added",
    [
        ((FINISH,), ["c0", "f"], ["c0"]),
        ((PendingCall("r", "write_file", json.loads(A)), FINISH), ["r", "f"], []),
        ((FINISH, PendingCall("r", "write_file", json.loads(A))), ["r", "f"], []),
        ((PendingCall("r", "write_file", {"path": "a", "content": "new"}), FINISH), ["c0", "f", "r"], ["c0"]),
        ((FINISH, PendingCall("r", "shell", {"command": "ls"})), ["c0", "f", "r"], ["c0"]),
        ((PendingCall("n", "write_file", {"path": "b", "content": "x" * 40}),), ["c0", "n"], ["c0"]),
        ((replace(FINISH, id="c0"),), ["c0_2", "c0"], ["c0_2"]),
    ],
    ids=[
        "finished",
        "made again",
        "again behind it",
        "another text",
        "and more",
        "from the top",
        "the same id",
    ],
)
def test_held_calls_start_with_the_reply_that_makes_theirs_whole_in_their_order(made, names, added):
    turn, calls = drafting.made_whole(OPEN, made, POLICY)
    assert [call.id for call in calls] == names
    assert turn.held == ()
    parts = [part.id for part in turn.messages[-1].parts if isinstance(part, CallPart)]
    assert parts == added
    assert turn.messages[-1].parts[0] == TextPart("x")


@pytest.mark.requirement("B16")
@pytest.mark.parametrize(
    "made",
    [
        (replace(FINISH, arguments={**FINISH.arguments, "more": True}),),
        (replace(FINISH, arguments={**FINISH.arguments, "after": "nonsense that was never there"}),),
        (PendingCall("r", "read_file", {"path": "a"}),),
        (PendingCall("s", "shell", {"command": "ls"}),),
    ],
    ids=["more to come", "a wrong anchor", "a look", "something else"],
)
def test_nothing_of_it_starts_while_a_draft_of_it_is_open(made):
    assert drafting.made_whole(OPEN, made, POLICY) == (OPEN, made)


@pytest.mark.requirement("B16")
def test_another_effect_waits_until_the_reply_is_whole_and_a_look_does_not():
    record = drafting.hold_back(OPEN, PendingCall("s", "shell", {"command": "ls"}), POLICY)
    assert isinstance(record, Record)
    (told,) = record.facts
    assert told.outcome.status == "not_started"
    assert "draft `d1`" in told.outcome.text
    assert drafting.hold_back(OPEN, PendingCall("r", "read_file", {"path": "a"}), POLICY) is None
    assert drafting.hold_back(TURN, PendingCall("s", "shell", {"command": "ls"}), POLICY) is None


@pytest.mark.requirement("B16")
def test_two_drafts_of_one_reply_are_finished_one_after_the_other_and_then_run_together():
    turn = replace(
        OPEN,
        drafts={D1: DRAFT, D2: SECOND},
        held=(HeldCall("c0", "write_file", draft=D1), WHOLE, HeldCall("c2", "write_file", draft=D2)),
    )
    record = drafting.finish(turn, FINISH, "key", POLICY)
    closed, kept, told = record.facts
    assert closed == DraftClosed(5.0, D1, "finished")
    assert [one.is_whole for one in kept.calls] == [True, True, False]
    assert isinstance(told, ToolFinished)
    assert told.outcome.ok
    assert "`d2`" in told.outcome.text
    after = replace(turn, drafts={D2: SECOND}, held=kept.calls)
    last = PendingCall("g", "finish_call", {"draft": "d2", "after": "eight nine ten", "rest": "."})
    _, calls = drafting.made_whole(after, (last,), POLICY)
    assert [call.id for call in calls] == ["f", "c0", "g"]


@pytest.mark.requirement("B16")
def test_a_draft_that_is_made_anew_takes_its_place_and_waits_for_the_other():
    turn = replace(
        OPEN,
        drafts={D1: DRAFT, D2: SECOND},
        held=(HeldCall("c0", "write_file", draft=D1), HeldCall("c2", "write_file", draft=D2)),
    )
    anew = PendingCall("n", "write_file", {"path": "c", "content": "quite new, and longer than before"})
    record = drafting.hold_back(turn, anew, POLICY)
    closed, kept, told = record.facts
    assert (closed.draft, closed.how) == (D2, "superseded")
    assert [one.is_whole for one in kept.calls] == [False, True]
    assert told.outcome.status == "not_started"


def test_a_held_call_that_is_made_again_and_cut_again_keeps_its_place():
    kept = drafting.keep(OPEN, reply(("write_file", A[:-6])), POLICY)
    assert (kept.draft, kept.gained) == (D1, 0)
    assert not [fact for fact in kept.facts if isinstance(fact, CallsHeld)]


def test_a_call_is_named_by_its_tool_and_what_it_is_about():
    assert held.named("write_file", {"content": "x" * 500, "path": "a.txt"}, POLICY) == "write_file a.txt"
    assert held.named("edit", {"page": "home", "text": "x" * 500}, POLICY) == "edit home"
    assert held.named("noop", {}, POLICY) == "noop"
