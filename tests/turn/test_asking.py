"""Calls that wait for a person, fact by fact."""

import pytest
from msgspec.structs import replace
from support.turns.turn_facts import MAIN, RESET, START, TOOLS, after, ask, burst, called, recorded

from turnbuckle.turn import approvals as asking
from turnbuckle.turn.budget import seconds_used
from turnbuckle.turn.commands import AskPerson, AwaitAnswer, CallModel, Record, RunTool, SettleTool
from turnbuckle.turn.consent import ConsentRule, written
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    DraftClosed,
    RunClaimed,
    RunEnded,
    RunLeft,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.policy import Policy, ToolFacts, TurnLimits
from turnbuckle.vocab.events import CallArgs, CallStarted
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.tooling import ToolOutcome

OWN = {
    **TOOLS,
    "shell": ToolFacts("write", subject="command", is_command=True),
    "ask_user": ToolFacts("read", asks=True),
}
POLICY = Policy((MAIN,), OWN, consent=written({"shell": "ask", "look": "ask"}), answer_seconds=60.0)
COMMAND = {"command": "make"}
SHELL = called(("c", "shell", '{"command": "make"}'))
ASKED = ApprovalAsked(
    3.0,
    "a1-0",
    "c",
    "shell",
    COMMAND,
    expires=63.0,
    why='the rule "shell" = "ask"',
    always=(ConsentRule("shell", "allow", "make"),),
)
QUESTION = called(("q", "ask_user", '{"question": "Which?"}'))
ASKED_QUESTION = ApprovalAsked(
    3.0, "a1-0", "q", "ask_user", {"question": "Which?"}, "question", "Which?", 63.0
)


def answered(verdict, text="", at=9.0, approval="a1-0"):
    return ApprovalAnswered(at, approval, verdict, "ann", text)


def waiting(*facts, policy=POLICY):
    return after(START, ask(), SHELL, ASKED, *facts, policy=policy)


def told(fold):
    """What the model is told, and whether anything was run: from what is recorded now."""
    (record,) = fold.due()
    assert isinstance(record, Record)
    (finished,) = record.facts
    assert isinstance(finished, ToolFinished)
    return finished.outcome.status, finished.outcome.text


@pytest.mark.requirement("D8")
def test_a_call_under_a_rule_that_asks_is_asked_about_with_its_exact_arguments():
    fold = after(START, ask(), SHELL, policy=POLICY)
    assert fold.due() == (AskPerson(ASKED),)
    fold.take(ASKED)
    assert fold.due() == (AwaitAnswer("a1-0", 63.0),)
    assert fold.due() == fold.due()


@pytest.mark.requirement("D8")
def test_without_a_limit_an_answer_is_waited_for_as_long_as_it_takes():
    fold = after(START, ask(), SHELL, policy=replace(POLICY, answer_seconds=None))
    (due,) = fold.due()
    assert due.asked.expires is None
    fold.take(due.asked)
    assert fold.due() == (AwaitAnswer("a1-0", None),)


@pytest.mark.requirement("D8")
def test_a_call_that_was_allowed_starts_with_the_arguments_that_were_shown():
    assert waiting(answered("allowed")).due() == (RunTool("c", "shell", COMMAND, "r:1:c"),)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "asked",
    [
        replace(ASKED, arguments={"command": "make clean"}),
        replace(ASKED, arguments={}),
        replace(ASKED, name="look"),
    ],
    ids=["other arguments", "no arguments", "another tool"],
)
def test_consent_to_another_call_is_no_consent_to_this_one(asked):
    """X5: consent binds to the exact arguments."""
    fold = after(START, ask(), SHELL, asked, answered("allowed"), policy=POLICY)
    assert told(fold) == ("denied", "This is not the call that the user has allowed.")


@pytest.mark.requirement("D8", "D4")
@pytest.mark.parametrize(
    "answer, status, words",
    [
        (answered("denied"), "denied", "The user said no."),
        (answered("denied", "too risky"), "denied", "The user said no. too risky"),
        (answered("expired"), "denied", "Nobody answered in time, so there is no consent."),
        (answered("withdrawn"), "denied", asking.NOBODY_CONSENTS),
    ],
)
def test_anything_but_a_yes_is_no_consent_and_is_told_as_what_it_was(answer, status, words):
    """X6: what expired is neither approved nor silently denied."""
    fold = waiting(answer)
    assert told(fold) == (status, words)
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    assert "Not allowed, and not run: nothing happened." in str(fold.turn.messages[-1].parts[0])


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("second", ["allowed", "denied", "expired", "withdrawn"])
@pytest.mark.parametrize("first", ["allowed", "denied", "expired", "withdrawn"])
def test_the_first_answer_counts_and_no_other(first, second):
    once, twice = waiting(answered(first)), waiting(answered(first), answered(second))
    assert once.turn == twice.turn
    assert once.due() == twice.due()


@pytest.mark.requirement("D8")
def test_an_answer_to_nothing_changes_nothing():
    before = after(START, ask(), SHELL, policy=POLICY)
    behind = after(START, ask(), SHELL, answered("allowed", at=3.0), policy=POLICY)
    assert before.turn == behind.turn
    assert waiting().due() == waiting(answered("allowed", approval="a9-9")).due()


@pytest.mark.requirement("D8")
def test_a_consent_is_used_up_by_its_call():
    """X8: the same call in the next reply, also under the same id, is asked about again."""
    fold = waiting(answered("allowed"), ToolStarted(10.0, "c", "shell", COMMAND, "k"))
    fold.take(ToolFinished(11.0, "c", "shell", ToolOutcome("finished", "ok")))
    fold.take(ask(2))
    fold.take(called(("c", "shell", '{"command": "make"}'), number=2))
    (due,) = fold.due()
    assert isinstance(due, AskPerson)
    assert due.asked.approval == "a2-0"


@pytest.mark.requirement("D8")
def test_equal_calls_of_one_reply_need_a_consent_each():
    twice = called(("c", "shell", '{"command": "make"}'), ("d", "shell", '{"command": "make"}'))
    fold = after(START, ask(), twice, ASKED, answered("allowed"), policy=POLICY)
    fold.take(ToolStarted(10.0, "c", "shell", COMMAND, "k"))
    fold.take(ToolFinished(11.0, "c", "shell", ToolOutcome("finished", "ok")))
    (due,) = fold.due()
    assert (due.asked.approval, due.asked.call_id) == ("a1-1", "d")


# Questions


@pytest.mark.requirement("D8")
def test_a_question_of_the_model_is_stored_like_a_consent():
    fold = after(START, ask(), QUESTION, policy=POLICY)
    assert fold.due() == (AskPerson(ASKED_QUESTION),)
    fold.take(ASKED_QUESTION)
    assert fold.due() == (AwaitAnswer("a1-0", 63.0),)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "answer, status, words",
    [
        (answered("answered", "blue"), "finished", "blue"),
        (answered("answered", "  "), "finished", "(the user gave an empty answer)"),
        (answered("denied"), "failed", f"The user did not want to answer. {asking.DECIDE}"),
        (answered("denied", "ask me later"), "failed", "The user did not want to answer. ask me later"),
        (answered("expired"), "failed", f"Nobody answered in time. {asking.DECIDE}"),
        (answered("withdrawn"), "failed", asking.NOBODY_ANSWERS),
    ],
)
def test_the_answer_to_a_question_is_the_result_of_its_call(answer, status, words):
    fold = after(START, ask(), QUESTION, ASKED_QUESTION, answer, policy=POLICY)
    assert told(fold) == (status, words)
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    assert fold.turn.tally.tool_runs == 0


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "calls, status, words",
    [(SHELL, "denied", asking.NOBODY_CONSENTS), (QUESTION, "failed", asking.NOBODY_ANSWERS)],
    ids=["consent", "question"],
)
def test_where_nobody_is_nobody_is_asked(calls, status, words):
    fold = after(START, ask(), calls, policy=replace(POLICY, attended=False))
    assert told(fold) == (status, words)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "calls, asked, status, words",
    [
        (SHELL, ASKED, "denied", asking.NOBODY_CONSENTS),
        (QUESTION, ASKED_QUESTION, "failed", asking.NOBODY_ANSWERS),
    ],
    ids=["consent", "question"],
)
def test_a_run_that_is_taken_up_where_nobody_is_does_not_wait_for_anybody(calls, asked, status, words):
    fold = after(START, ask(), calls, asked, RunClaimed(8.0, 2), policy=replace(POLICY, attended=False))
    assert fold.due() == (Record((ApprovalAnswered(8.0, "a1-0", "withdrawn"),)),)
    fold.take(ApprovalAnswered(8.0, "a1-0", "withdrawn"))
    assert told(fold) == (status, words)


def test_a_rule_that_denies_is_told_at_once_and_asks_nobody():
    fold = after(START, ask(), SHELL, policy=replace(POLICY, consent=written({"*": "deny"})))
    assert told(fold) == ("denied", "The settings do not allow this.")


# Several at once


@pytest.mark.requirement("D8", "D6")
def test_reads_that_need_consent_are_asked_about_together_and_those_that_do_not_run_meanwhile():
    policy = replace(POLICY, consent=written({"look": "ask", "look:free": "allow"}), tools={"look": ToolFacts("read", subject="where")})  # fmt: skip
    calls = called(
        ("a", "look", '{"where": "x"}'), ("b", "look", '{"where": "free"}'), ("c", "look", '{"where": "y"}')
    )
    fold = after(START, ask(), calls, policy=policy)
    due = fold.due()
    assert [type(one) for one in due] == [AskPerson, RunTool, AskPerson]
    for one in (due[0], due[2]):
        fold.take(one.asked)
    fold.take(ToolStarted(4.0, "b", "look", {"where": "free"}, "k"))
    fold.take(ToolFinished(5.0, "b", "look", ToolOutcome("finished")))
    assert [one.approval for one in fold.due()] == ["a1-0", "a1-2"]


@pytest.mark.requirement("D8", "C7")
def test_time_spent_on_waiting_for_people_is_nobodys_budget():
    fold = waiting(answered("allowed", at=5_003.0))
    assert fold.turn.tally.seconds_asked == 5_000.0
    assert seconds_used(fold.turn, 5_003.0) == 2.0


@pytest.mark.requirement("D8", "C7")
def test_two_people_who_think_at_the_same_time_do_not_make_it_longer():
    calls = called(("a", "look", "{}"), ("b", "look", "{}"))
    first, second = (ApprovalAsked(3.0 + at, f"a1-{at}", name, "look", {}) for at, name in enumerate("ab"))
    fold = after(START, ask(), calls, first, second, answered("allowed", at=103.0), policy=POLICY)
    assert fold.turn.tally.seconds_asked == 0.0
    fold.take(answered("denied", at=203.0, approval="a1-1"))
    assert fold.turn.tally.seconds_asked == 200.0


@pytest.mark.requirement("D8", "C7")
def test_waits_behind_each_other_are_added_up():
    calls = called(("a", "shell", "{}"), ("b", "shell", "{}"))
    fold = after(START, ask(), calls, policy=POLICY)
    for place, (name, at) in enumerate((("a", 10.0), ("b", 500.0))):
        fold.take(ApprovalAsked(at, f"a1-{place}", name, "shell", {}))
        fold.take(answered("allowed", at=at + 100.0, approval=f"a1-{place}"))
        fold.take(ToolStarted(at + 100.0, name, "shell", {}, name))
        fold.take(ToolFinished(at + 101.0, name, "shell", ToolOutcome("finished")))
    assert fold.turn.tally.seconds_asked == 200.0


# Crashes and stops


@pytest.mark.requirement("D8", "G6")
def test_a_question_outlives_its_process_and_is_not_asked_twice():
    fold = waiting(RunClaimed(8.0, 2))
    assert fold.due() == (AwaitAnswer("a1-0", 63.0),)
    fold.take(answered("allowed"))
    assert fold.due() == (RunTool("c", "shell", COMMAND, "r:1:c"),)


@pytest.mark.requirement("D8", "G6")
def test_an_answer_outlives_its_process_and_its_call_starts_once():
    """S12: the waiter died, and one successor runs the call that was allowed."""
    fold = waiting(answered("allowed"), RunClaimed(10.0, 2))
    assert fold.due() == (RunTool("c", "shell", COMMAND, "r:1:c"),)
    fold.take(ToolStarted(11.0, "c", "shell", COMMAND, "r:1:c"))
    fold.take(RunClaimed(12.0, 3))
    assert fold.due() == (SettleTool("c", "shell", COMMAND, "r:1:c"),)  # never from the start again


@pytest.mark.requirement("D8", "G5")
def test_a_restart_while_somebody_is_waited_for_counts_as_no_recovery():
    fold = waiting(*(RunClaimed(8.0, epoch) for epoch in range(2, 40)))
    assert fold.turn.tally.recoveries == 0
    assert fold.due() == (AwaitAnswer("a1-0", 63.0),)


@pytest.mark.requirement("G5")
def test_a_restart_counts_if_something_else_was_under_way():
    calls = called(("a", "look", "{}"), ("b", "look", "{}"))
    policy = replace(POLICY, max_recoveries=1)
    fold = after(START, ask(), calls, ApprovalAsked(3.0, "a1-0", "a", "look", {}), policy=policy)
    fold.take(ToolStarted(4.0, "b", "look", {}, "k"))
    for epoch in (2, 3):
        fold.take(RunClaimed(5.0, epoch))
    (record,) = fold.due()
    assert [type(fact) for fact in record.facts] == [ApprovalAnswered, ToolFinished, ToolFinished, RunEnded]
    assert record.facts[0].verdict == "withdrawn"
    assert {fact.call_id: fact.outcome.status for fact in record.facts[1:3]} == {
        "a": "not_started",
        "b": "unknown",
    }


@pytest.mark.requirement("G5")
def test_a_process_that_let_go_in_good_order_counts_as_no_recovery_once():
    fold = after(START, RunLeft(2.0, "restart"), RunClaimed(3.0, 2))
    assert fold.turn.tally.recoveries == 0
    fold.take(RunClaimed(4.0, 3))
    assert fold.turn.tally.recoveries == 1


@pytest.mark.requirement("D8")
def test_a_stop_withdraws_the_question_and_nothing_runs():
    fold = waiting(StopAsked(9.0))
    (record,) = fold.due()
    assert record.facts[0] == ApprovalAnswered(9.0, "a1-0", "withdrawn")
    assert record.facts[1].outcome.status == "not_started"
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "cancelled"


@pytest.mark.requirement("D8")
def test_behind_a_wish_to_stop_no_answer_counts():
    assert asking.question(waiting().turn, "a1-0") is not None
    assert asking.question(waiting(StopAsked(9.0)).turn, "a1-0") is None
    assert asking.question(waiting(answered("denied")).turn, "a1-0") is None
    assert asking.question(waiting().turn, "a2-0") is None


@pytest.mark.requirement("C7", "D8")
def test_a_limit_that_is_reached_leaves_no_question_open():
    """Not even if the journal holds one that this version would not have asked."""
    policy = replace(POLICY, limits=TurnLimits(tool_calls=1))
    calls = called(("a", "look", "{}"), ("b", "look", "{}"))
    fold = after(START, ask(), calls, ApprovalAsked(3.0, "a1-0", "a", "look", {}), policy=policy)
    fold.take(ToolStarted(4.0, "b", "look", {}, "k"))
    fold.take(ToolFinished(5.0, "b", "look", ToolOutcome("finished")))
    (record,) = fold.due()
    assert [type(fact) for fact in record.facts] == [ApprovalAnswered, ToolFinished, RunEnded]


# Drafts


def drafted(*facts, consent="write_file"):
    cut = burst(
        CallStarted(0, "c", "write_file"), CallArgs(0, '{"path": "a", "content": "one two three'), RESET
    )
    fold = after(START, ask(), cut, policy=replace(POLICY, consent=written({consent: "ask"})))
    (due,) = recorded(fold)
    fold.take(ask(2, why="finish_draft", notes=due.ask.notes))
    fold.take(
        called(("f", "finish_call", '{"draft": "d1", "after": "two three", "rest": " four"}'), number=2)
    )
    for fact in facts:
        fold.take(fact)
    return fold


WHOLE = {"path": "a", "content": "one two three four"}


@pytest.mark.requirement("D8", "B8")
def test_what_a_draft_became_needs_the_consent_that_a_whole_call_needs():
    (due,) = drafted().due()
    why = 'the rule "write_file" = "ask"'
    assert due == AskPerson(ApprovalAsked(3.0, "a2-0", "f", "write_file", WHOLE, expires=63.0, why=why))
    fold = drafted(due.asked, answered("allowed", approval="a2-0"))
    (run,) = fold.due()
    assert (run.call_id, run.name, run.arguments) == ("f", "write_file", WHOLE)
    assert [(closed.draft, closed.how) for closed in run.closing] == [("d1", "finished")]


@pytest.mark.requirement("D8")
def test_a_rule_for_finish_call_itself_asks_about_nothing():
    (due,) = drafted(consent="finish_call").due()
    assert isinstance(due, RunTool)
    assert due.name == "write_file"


@pytest.mark.requirement("D8", "B9")
def test_a_draft_that_was_not_allowed_to_run_is_kept():
    (due,) = drafted().due()
    fold = drafted(due.asked, answered("denied", approval="a2-0"))
    (record,) = fold.due()
    assert not any(isinstance(fact, DraftClosed) for fact in record.facts)
    recorded(fold)
    assert list(fold.turn.drafts) == ["d1"]
    assert "said no" in text_of(fold.turn.messages[-1].parts[0].content)
