"""The turn, fact by fact: where each one leads, and what is due there."""

import pytest
from support.turns.turn_facts import (
    MAIN,
    OTHER,
    RESET,
    START,
    TWO,
    USER,
    after,
    ask,
    burst,
    called,
    recorded,
    said,
)

from turnbuckle.reply.draft import Draft
from turnbuckle.turn.commands import CallModel, Record, RunTool
from turnbuckle.turn.facts import (
    Decided,
    DraftKept,
    Fallback,
    FinishDraft,
    Reask,
    Retry,
    RunEnded,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import (
    CallArgs,
    CallClosed,
    CallStarted,
    Cut,
    Ended,
    FinishNoted,
    ReasoningDelta,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.messages import Message, TextPart, text_of
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome


def test_nothing_is_due_before_a_run_begins():
    assert after().due() == ()
    assert after().turn == Turn()


def test_a_run_begins_by_asking_the_first_route():
    (due,) = after(START).due()
    assert isinstance(due, CallModel)
    assert (due.attempt, due.ask.route, due.ask.why, due.ask.cap, due.ask.effort) == (
        1,
        "main",
        "first",
        100,
        "high",
    )


def test_nothing_is_due_while_the_model_speaks():
    fold = after(START, ask(), burst(TextDelta(0, "Hel")))
    assert fold.turn.phase == "streaming"
    assert fold.due() == ()


def test_a_whole_answer_ends_the_run_as_completed():
    fold = after(START, ask(), said("Hello."))
    assert fold.due() == (Record((RunEnded(3.0, Outcome("completed")),)),)
    assert recorded(fold) == ()
    assert fold.turn.phase == "ended"
    assert fold.turn.shown == "Hello."
    assert fold.turn.messages[-1] == Message("assistant", (TextPart("Hello."),))


def test_usage_is_added_up():
    usage = UsageNoted(Usage(input=10, output=5, cost=0.5))
    fold = after(START, ask(), burst(TextDelta(0, "Hi"), FinishNoted("stop", ""), usage, Ended("end")))
    spent = fold.turn.tally.spent
    assert (spent.tokens, spent.cost, fold.turn.tally.asks) == (15, 0.5, 1)


@pytest.mark.requirement("D1", "D2")
def test_calls_of_a_whole_reply_become_tools_with_a_key_of_their_own():
    fold = after(START, ask(), called(("c1", "shell", '{"command": "ls"}')))
    assert fold.due() == (RunTool("c1", "shell", {"command": "ls"}, "r:1:c1"),)


def test_reads_in_a_row_run_together_and_anything_else_waits_its_turn():
    calls = called(("a", "look", "{}"), ("b", "look", "{}"), ("c", "shell", "{}"), ("d", "look", "{}"))
    fold = after(START, ask(), calls)
    assert [due.call_id for due in fold.due()] == ["a", "b"]
    for call_id in ("a", "b"):
        fold.take(ToolStarted(4.0, call_id, "look", {}, f"r:1:{call_id}"))
    assert fold.due() == ()
    for call_id in ("b", "a"):
        fold.take(ToolFinished(5.0, call_id, "look", ToolOutcome("finished", call_id)))
    assert [due.call_id for due in fold.due()] == ["c"]


def test_results_go_back_in_the_order_of_the_calls_and_the_model_is_asked_again():
    fold = after(START, ask(), called(("a", "look", "{}"), ("b", "look", "{}"), text="I look."))
    for call_id in ("b", "a"):
        fold.take(ToolFinished(5.0, call_id, "look", ToolOutcome("finished", call_id)))
    assert [part.call_id for part in fold.turn.messages[-1].parts] == ["a", "b"]
    (due,) = fold.due()
    assert (due.attempt, due.ask.why) == (2, "after_tools")
    assert fold.turn.shown == ""


def test_equal_ids_in_one_reply_are_told_apart():
    fold = after(
        START, ask(), called(("x", "shell", '{"n": 1}'), ("x", "shell", '{"n": 2}'), ("", "look", "{}"))
    )
    assert [call.id for call in fold.turn.calls] == ["x", "x_1", "call_2"]
    fold.take(ToolFinished(5.0, "x", "shell", ToolOutcome("finished")))
    assert [due.arguments for due in fold.due()] == [{"n": 2}]


# Broken replies


@pytest.mark.requirement("B1", "D1")
@pytest.mark.parametrize("cut", [RESET, Ended("end")], ids=["no last word", "a last word over a cut call"])
def test_no_call_of_a_cut_reply_is_due_however_whole_the_others_look(cut):
    events = (
        CallStarted(0, "a", "shell"),
        CallArgs(0, "{}"),
        CallClosed(0),
        CallStarted(1, "b", "shell"),
        CallArgs(1, '{"x'),
    )
    fold = after(START, ask(), burst(*events, cut))
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    assert due.ask.why == "continue"
    assert "Nothing of it ran" in text_of(due.ask.notes[0].parts)
    assert all(message.role != "tool" for message in fold.turn.messages)


@pytest.mark.requirement("B2", "C8")
def test_a_reply_that_showed_nothing_leaves_no_trace_but_its_cost():
    fold = after(START, ask(), burst(ReasoningDelta(0, "hm"), RESET, at=5.0))
    (due,) = recorded(fold)
    assert (due.ask.why, due.ask.notes, due.attempt) == ("retry", (), 2)
    assert due.ask.after == pytest.approx(0.5, abs=0.13)
    assert fold.turn.messages == (USER,)
    assert fold.turn.tally.seconds_lost == 3.0


@pytest.mark.requirement("B3")
def test_a_cut_text_stays_and_the_model_goes_on_behind_it():
    fold = after(START, ask(), burst(TextDelta(0, "Hello wor"), RESET))
    (due,) = recorded(fold)
    assert due.ask.why == "continue"
    assert fold.turn.shown == "Hello wor"
    assert fold.turn.messages[-1] == Message("assistant", (TextPart("Hello wor"),), partial=True)
    for fact in (ask(2, why="continue", notes=due.ask.notes), said("ld.", number=2)):
        fold.take(fact)
    assert recorded(fold) == ()
    assert fold.turn.shown == "Hello world."
    assert fold.turn.outcome == Outcome("completed")


def test_an_empty_continuation_says_that_the_text_was_whole():
    fold = after(START, ask(), burst(TextDelta(0, "Hello."), RESET))
    (due,) = recorded(fold)
    fold.take(ask(2, why="continue", notes=due.ask.notes))
    fold.take(burst(FinishNoted("stop", "stop"), Ended("end"), number=2))
    assert recorded(fold) == ()
    assert (fold.turn.outcome, fold.turn.shown) == (Outcome("completed"), "Hello.")


@pytest.mark.requirement("B8")
def test_a_cut_call_of_a_draftable_tool_is_kept_and_asked_for():
    call = (CallStarted(0, "c", "write_file"), CallArgs(0, '{"path": "a", "content": "one two'))
    fold = after(START, ask(), burst(*call, RESET))
    (record,) = fold.due()
    assert [type(fact) for fact in record.facts] == [DraftKept, Decided]
    assert record.facts[0].draft == Draft(DraftId("d1"), "write_file", "content", "one two", {"path": "a"})
    assert record.facts[1].decision == FinishDraft(DraftId("d1"), 1)
    assert (record.facts[1].tool, record.facts[1].gained) == ("write_file", 7)
    (due,) = recorded(fold)
    assert due.ask.why == "finish_draft"
    assert 'draft="d1"' in text_of(due.ask.notes[0].parts)


@pytest.mark.requirement("B6", "B7")
def test_cuts_in_a_row_count_up_also_when_finish_call_itself_is_cut():
    fold = after(
        START,
        ask(),
        burst(CallStarted(0, "c", "write_file"), CallArgs(0, '{"path": "a", "content": "one'), RESET),
    )
    counts = []
    for number in range(2, 6):
        due = recorded(fold)
        if not due:
            break
        fold.take(ask(number, why=due[0].ask.why, notes=due[0].ask.notes, stream=due[0].ask.stream))
        fold.take(
            burst(
                CallStarted(0, "c", "finish_call"), CallArgs(0, '{"draft": "d1", "aft'), RESET, number=number
            )
        )
        counts.append((fold.due()[0].facts[-1].decision, fold.turn.ask.stream))
    assert [getattr(choice, "escalation", "end") for choice, _ in counts] == [2, 3, "end"]
    assert [stream for _, stream in counts] == [True, True, False]
    assert fold.turn.outcome.kind == "partial"
    assert fold.turn.outcome.drafts == ("d1",)


@pytest.mark.requirement("B6")
def test_three_continuations_in_a_row_that_bring_nothing_end_the_run_whatever_was_cut():
    fold = after(START)
    for number in range(1, 9):
        if not (due := recorded(fold)):
            break
        fold.take(ask(number, why=due[0].ask.why, notes=due[0].ask.notes))
        tool = "shell" if number % 2 else "look"
        fold.take(burst(CallStarted(0, "c", tool), CallArgs(0, '{"x'), RESET, number=number))
    assert fold.turn.attempt == 4
    assert fold.turn.outcome.why == "3 tries in a row brought nothing new"


@pytest.mark.requirement("B6")
def test_new_characters_refill_the_small_budget():
    fold = after(
        START,
        ask(),
        burst(CallStarted(0, "c", "write_file"), CallArgs(0, '{"path": "a", "content": "one'), RESET),
    )
    text = "one"
    for number in range(2, 30):
        (due,) = recorded(fold)
        fold.take(ask(number, why="finish_draft", notes=due.ask.notes))
        piece = CallArgs(0, f'{{"draft": "d1", "after": "{text}", "rest": " and {number}')
        fold.take(burst(CallStarted(0, "c", "finish_call"), piece, RESET, number=number))
        text = f"{text} and {number}"
    (due,) = recorded(fold)
    assert due.ask.stream
    assert fold.turn.drafts["d1"].text == text
    assert fold.turn.tally.cuts == 1


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("clock", ["first_event", "gap", "silence"])
def test_a_stall_goes_to_the_next_route_like_any_other_failure(clock):
    fold = after(START, policy=TWO)
    for number in (1, 2, 3):
        fold.take(ask(number))
        fold.take(burst(Cut(failure("stalled", "stalled", clock=clock)), number=number))
        (due,) = recorded(fold)
    assert (due.ask.route, due.ask.why, due.ask.cap) == ("other", "fallback", 50)
    assert fold.turn.failed_routes == ("main",)


def test_a_route_that_failed_is_not_asked_again_in_this_turn():
    fold = after(START, policy=TWO)
    for number, route in ((1, MAIN), (2, OTHER)):
        fold.take(ask(number, route=route))
        fold.take(burst(Cut(failure("auth", "no key")), number=number))
        recorded(fold)
    assert fold.turn.outcome == Outcome("failed", "no key", failure("auth", "no key"))


@pytest.mark.requirement("C2")
def test_thinking_that_used_up_the_cap_gets_more_room_once():
    fold = after(
        START, ask(cap=100), burst(ReasoningDelta(0, "hm"), FinishNoted("length", "length"), Ended("end"))
    )
    decided = fold.due()[0].facts[-1]
    assert decided.notice == "the output limit was used up by thinking: retrying with more room"
    (due,) = recorded(fold)
    assert (due.ask.cap, due.ask.why) == (900, "reask")
    fold.take(ask(2, cap=900))
    fold.take(burst(ReasoningDelta(0, "hm"), FinishNoted("length", "length"), Ended("end"), number=2))
    assert recorded(fold) == ()
    assert fold.turn.outcome == Outcome("failed", "the model used up its output limit by thinking")


@pytest.mark.requirement("C3")
def test_malformed_calls_are_asked_for_three_times_more_and_leave_no_junk():
    fold = after(START)
    for number in range(1, 5):
        due = recorded(fold)
        assert due, number
        fold.take(ask(number, notes=due[0].ask.notes))
        fold.take(called(("c", "shell", "{nope}"), number=number))
        if number < 4:
            assert fold.due()[0].facts[-1].decision == Reask("valid_calls")
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "failed"
    assert fold.turn.messages == (USER,)


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("finish", ["stop", "calls", "length", "other"])
def test_cut_arguments_are_no_matter_of_json_retries_whatever_the_finish_reason(finish):
    events = (CallStarted(0, "c", "shell"), CallArgs(0, '{"command": "rm'), CallClosed(0))
    fold = after(START, ask(cap=None), burst(*events, FinishNoted(finish, finish), Ended("end")))
    assert fold.due()[0].facts[-1].verdict in ("cut_by_transport", "cut_by_length")
    recorded(fold)
    assert fold.turn.tally.malformed == 0


@pytest.mark.requirement("A8")
def test_a_route_that_does_not_stream_is_asked_plainly_and_streams_again_later():
    fold = after(START, ask(), burst(Cut(failure("unstreamable", "no streams"))))
    (due,) = recorded(fold)
    assert not due.ask.stream
    fold.take(ask(2, stream=False))
    fold.take(called(("c", "look", "{}"), number=2))
    fold.take(ToolFinished(5.0, "c", "look", ToolOutcome("finished")))
    (due,) = fold.due()
    assert due.ask.stream


def test_a_decision_is_a_fact_and_is_not_made_again_in_replay():
    fold = after(START, ask(), burst(RESET), Decided(4.0, 1, "cut_by_transport", (), Retry(99.0)))
    (due,) = fold.due()
    assert due.ask.after == 99.0


def test_a_fallback_takes_its_notes_along():
    notes = (Message("user", (TextPart("[Runtime] x"),), note=True),)
    broke = Decided(4.0, 1, "cut_by_transport", (), Fallback(OTHER.name))
    fold = after(START, ask(notes=notes), burst(RESET), broke, policy=TWO)
    (due,) = fold.due()
    assert due.ask.notes == notes
    assert fold.turn.messages == (USER,)
