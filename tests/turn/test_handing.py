"""Calls that the caller runs, fact by fact: handed over whole, once, and last."""

import msgspec
import pytest
from msgspec.structs import replace
from support.turns.turn_facts import MAIN, RESET, START, TOOLS, after, ask, burst, called, recorded

from turnbuckle.turn.client_calls import run_of
from turnbuckle.turn.commands import CallModel, Record, RunTool
from turnbuckle.turn.consent import written
from turnbuckle.turn.drafting import WORTH_A_DRAFT
from turnbuckle.turn.facts import (
    CallsHandedOver,
    Continue,
    DraftClosed,
    DraftKept,
    FinishDraft,
    HandedCall,
    RunClaimed,
    RunEnded,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.policy import Policy, TurnLimits
from turnbuckle.vocab.events import CallArgs, CallStarted
from turnbuckle.vocab.messages import CallPart, ResultPart, text_of
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import RunOptions, ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome

POLICY = Policy((MAIN,), TOOLS)
BROUGHT = tuple(ToolSpec(name) for name in ("find", "put"))
AGENT = replace(START, options=RunOptions(tools=BROUGHT))
RELAY = replace(START, options=RunOptions(own_tools=False, tools=BROUGHT))
FIND = ("c", "find", '{"what":  "x"}')
LONG = " ".join(f"word{number}" for number in range(200))


def replied(*calls, start=RELAY, policy=POLICY):
    return after(start, ask(), called(*calls), policy=policy)


def handed(fold):
    """The calls that are handed over now."""
    (record,) = fold.due()
    assert isinstance(record, Record)
    over, ended = record.facts[-2:]
    assert isinstance(over, CallsHandedOver)
    assert isinstance(ended, RunEnded)
    assert ended.outcome.kind == "completed"
    return over.calls


@pytest.mark.requirement("F11")
def test_a_call_of_a_callers_tool_is_handed_over_and_the_run_ends_in_one_write():
    fold = replied(FIND)
    assert fold.due() == (
        Record(
            (
                CallsHandedOver(3.0, (HandedCall("call_r_0", "find", '{"what":  "x"}', "c"),)),
                RunEnded(3.0, Outcome("completed")),
            )
        ),
    )
    assert recorded(fold) == ()
    assert fold.turn.phase == "ended"
    assert fold.turn.handed[0].inner == "c"
    assert [type(part) for part in fold.turn.messages[-1].parts] == [CallPart]


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "given, passed_on",
    [
        ('{"what":  "x"}', '{"what":  "x"}'),
        ('{"what": "\\u00e9\\/"}', '{"what": "\\u00e9\\/"}'),
        ('{"n": 1.0, "m": 12345678901234567890}', '{"n": 1.0, "m": 12345678901234567890}'),
        ("{}", "{}"),
        ("", "{}"),
    ],
)
def test_arguments_are_passed_on_exactly_as_the_model_wrote_them(given, passed_on):
    (call,) = handed(replied(("c", "find", given)))
    assert call.arguments == passed_on


@pytest.mark.requirement("F11")
def test_several_calls_are_handed_over_together_in_their_order():
    calls = handed(replied(FIND, ("d", "put", "{}"), ("e", "find", "{}")))
    assert [(call.id, call.name, call.inner) for call in calls] == [
        ("call_r_0", "find", "c"),
        ("call_r_1", "put", "d"),
        ("call_r_2", "find", "e"),
    ]


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("ids", [("", ""), ("x", "x"), ("x", "")])
def test_calls_without_ids_of_their_own_are_told_apart(ids):
    calls = handed(replied((ids[0], "find", '{"n": 1}'), (ids[1], "find", '{"n": 2}')))
    assert [call.arguments for call in calls] == ['{"n": 1}', '{"n": 2}']
    assert len({call.inner for call in calls}) == 2


@pytest.mark.requirement("F11")
def test_ours_run_first_wherever_they_stand_and_their_results_stay():
    fold = replied(FIND, ("s", "shell", "{}"), ("d", "put", "{}"), ("l", "look", "{}"), start=AGENT)
    for call_id, name in (("s", "shell"), ("l", "look")):
        (due,) = fold.due()
        assert isinstance(due, RunTool)
        assert due.call_id == call_id
        fold.take(ToolStarted(4.0, call_id, name, {}, due.key))
        fold.take(ToolFinished(5.0, call_id, name, ToolOutcome("finished", f"of {name}")))
    assert [call.inner for call in handed(fold)] == ["c", "d"]
    assert recorded(fold) == ()
    results = fold.turn.messages[-1]
    assert results.role == "tool"
    assert [part.call_id for part in results.parts if isinstance(part, ResultPart)] == ["s", "l"]


@pytest.mark.requirement("F11")
def test_a_callers_tool_hides_ours_of_the_same_name():
    start = replace(START, options=RunOptions(tools=(ToolSpec("shell"),)))
    assert [call.name for call in handed(replied(("c", "shell", "{}"), start=start))] == ["shell"]


@pytest.mark.requirement("F11")
def test_rules_of_consent_are_for_what_runs_here():
    policy = replace(POLICY, consent=written({"*": "deny", "find": "ask"}))
    assert [call.name for call in handed(replied(FIND, policy=policy))] == ["find"]


@pytest.mark.requirement("F11", "D1")
@pytest.mark.parametrize("start", [RELAY, AGENT], ids=["relay", "agent"])
def test_a_tool_that_is_not_there_is_answered_and_the_model_asked_again(start):
    fold = replied(("c", "fnid", "{}"), start=start)
    (record,) = fold.due()
    (told,) = record.facts
    assert told.outcome.status == "not_started"
    assert "There is no tool with the name 'fnid'. The tools are: " in told.outcome.text
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    assert due.ask.why == "after_tools"


@pytest.mark.requirement("F11", "D1")
@pytest.mark.parametrize("name", list(TOOLS))
def test_a_pure_relay_runs_none_of_our_tools_whatever_the_model_calls(name):
    (record,) = replied(("c", name, "{}")).due()
    assert [type(fact) for fact in record.facts] == [ToolFinished]
    assert record.facts[0].outcome.status == "not_started"


@pytest.mark.requirement("F11")
def test_a_relay_without_tools_says_that_there_are_none():
    (record,) = replied(("c", "shell", "{}"), start=replace(START, options=RunOptions(own_tools=False))).due()
    assert record.facts[0].outcome.text.endswith("The tools are: none.")


@pytest.mark.requirement("F11")
def test_what_is_handed_over_is_not_counted_as_our_tool_calls():
    policy = replace(POLICY, limits=TurnLimits(tool_calls=0, same_call=0))
    assert len(handed(replied(FIND, policy=policy))) == 1


@pytest.mark.requirement("F11", "E2")
def test_a_crash_before_the_hand_over_changes_nothing_of_it():
    fold = replied(FIND)
    before = handed(fold)
    fold.take(RunClaimed(9.0, 2))
    assert handed(fold) == before


@pytest.mark.requirement("F11")
def test_a_stop_before_the_hand_over_hands_nothing_over():
    fold = replied(FIND)
    fold.take(StopAsked(4.0))
    (record,) = fold.due()
    assert [(fact.call_id, fact.outcome.status) for fact in record.facts] == [("c", "not_started")]
    assert recorded(fold) == ()
    assert (fold.turn.outcome.kind, fold.turn.handed) == ("cancelled", ())


# Cut calls


def cut(text, *, name="put", policy=POLICY, start=RELAY):
    """The decision about a call that was cut behind this much of its arguments."""
    events = (CallStarted(0, "c", name), CallArgs(0, text), RESET)
    fold = after(start, ask(), burst(*events), policy=policy)
    return fold, fold.due()[0].facts


@pytest.mark.requirement("F11", "B8")
@pytest.mark.parametrize("size", [WORTH_A_DRAFT - 1, WORTH_A_DRAFT])
def test_a_cut_call_is_drafted_from_a_size_on_that_is_worth_the_words(size):
    text = f'{{"body": "{LONG}'[:size]
    assert len(text) == size
    _, facts = cut(text)
    if size < WORTH_A_DRAFT:
        assert [type(fact) for fact in facts[:-1]] == []
        assert facts[-1].decision == Continue("call", "put", 1)
    else:
        assert facts[0].draft.text == text.removeprefix('{"body": "')
        assert facts[-1].decision == FinishDraft("d1", 1)


@pytest.mark.requirement("F11", "B8")
def test_a_cut_call_with_many_small_arguments_is_asked_for_again():
    text = "{" + ", ".join(f'"k{number}": {number}' for number in range(60)) + ", "
    assert len(text) > WORTH_A_DRAFT
    _, facts = cut(text)
    assert not any(isinstance(fact, DraftKept) for fact in facts)


def finished(fold, *finishes, number=2):
    """The model finishes a draft."""
    (due,) = recorded(fold)
    fold.take(ask(number, why="finish_draft", notes=due.ask.notes))
    calls = [(f"f{at}", "finish_call", msgspec.json.encode(one).decode()) for at, one in enumerate(finishes)]
    fold.take(called(*calls, number=number))
    return fold


def rest_of(have, whole, **more):
    return {"draft": "d1", "after": whole[:have][-60:], "rest": whole[have:], **more}


@pytest.mark.requirement("F11", "B8")
def test_a_draft_that_is_whole_now_is_handed_over_as_the_call_that_it_was():
    fold, _ = cut(f'{{"path": "a", "body": "{LONG[:900]}')
    (call,) = handed(finished(fold, rest_of(900, LONG)))
    assert (call.name, call.inner) == ("put", "f0")
    assert msgspec.json.decode(call.arguments) == {"path": "a", "body": LONG}
    (record,) = fold.due()
    assert [fact.how for fact in record.facts if isinstance(fact, DraftClosed)] == ["finished"]
    assert record.facts[-1].outcome.drafts == ()


@pytest.mark.requirement("F11", "B8")
def test_a_piece_of_a_draft_is_answered_and_only_the_last_one_hands_it_over():
    fold, _ = cut(f'{{"body": "{LONG[:900]}')
    fold = finished(fold, rest_of(900, LONG[:1_000], more=True))
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    (call,) = handed(finished(fold, rest_of(1_000, LONG), number=3))
    assert msgspec.json.decode(call.arguments) == {"body": LONG}


@pytest.mark.requirement("F11", "B8")
def test_a_draft_that_is_finished_twice_in_one_reply_is_handed_over_once():
    fold, _ = cut(f'{{"body": "{LONG[:900]}')
    fold = finished(fold, rest_of(900, LONG), rest_of(900, LONG), rest_of(900, LONG))
    told = []
    while [type(fact) for fact in fold.due()[0].facts] == [ToolFinished]:
        (fact,) = fold.due()[0].facts
        told.append((fact.call_id, fact.outcome.status))
        fold.take(fact)
    assert told == [("f1", "not_started"), ("f2", "not_started")]
    assert [call.inner for call in handed(fold)] == ["f0"]


@pytest.mark.requirement("F11", "B8")
def test_a_finish_that_does_not_fit_is_answered_with_the_true_end():
    fold, _ = cut(f'{{"body": "{LONG[:900]}')
    fold = finished(fold, {"draft": "d1", "after": "never there", "rest": "x"})
    (record,) = fold.due()
    assert "Not joined" in record.facts[0].outcome.text
    assert list(fold.turn.drafts) == ["d1"]


@pytest.mark.requirement("F11")
def test_a_whole_call_instead_of_the_draft_closes_it():
    fold, _ = cut(f'{{"body": "{LONG[:900]}')
    (due,) = recorded(fold)
    fold.take(ask(2, notes=due.ask.notes))
    fold.take(called(("n", "put", '{"body": "short"}'), number=2))
    (record,) = fold.due()
    assert [(fact.draft, fact.how) for fact in record.facts if isinstance(fact, DraftClosed)] == [
        ("d1", "superseded")
    ]
    assert record.facts[-1].outcome.drafts == ()


@pytest.mark.requirement("F11", "B9")
def test_a_draft_of_something_else_stays_listed():
    fold, _ = cut(f'{{"body": "{LONG[:900]}')
    (due,) = recorded(fold)
    fold.take(ask(2, notes=due.ask.notes))
    fold.take(called(FIND, number=2))
    assert fold.due()[0].facts[-1].outcome.drafts == ("d1",)


@pytest.mark.requirement("F11")
def test_a_caller_that_brings_a_finish_call_of_its_own_gets_its_calls():
    """Another agent with drafts of its own behind our relay: then we keep none, and its tool is like any other."""
    start = replace(START, options=RunOptions(own_tools=False, tools=(*BROUGHT, ToolSpec("finish_call"))))
    (call,) = handed(replied(("c", "finish_call", '{"draft": "d1", "after": "", "rest": "x"}'), start=start))
    assert (call.name, call.inner) == ("finish_call", "c")
    _, facts = cut(f'{{"body": "{LONG[:900]}', start=start)
    assert not any(isinstance(fact, DraftKept) for fact in facts)


# Ids


@pytest.mark.parametrize(
    "call_id, run",
    [
        ("call_r1_0", "r1"),
        ("call_r20261116-010203-abc_12", "r20261116-010203-abc"),
        ("call_a_b_3", "a_b"),
        ("call_r1", ""),
        ("call_r1_", ""),
        ("call__0", ""),
        ("call_r1_x", ""),
        ("toolu_r1_0", ""),
        ("", ""),
        ("call_abcdef0123456789", ""),
    ],
)
def test_an_id_names_the_run_that_made_it(call_id, run):
    assert run_of(call_id) == run


def test_text_before_a_hand_over_stays_in_the_history():
    fold = after(RELAY, ask(), called(FIND, text="I look."), policy=POLICY)
    recorded(fold)
    assert text_of(fold.turn.messages[-1].parts) == "I look."
