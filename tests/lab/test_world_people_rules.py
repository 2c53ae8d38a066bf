"""The invariants of consent and hand-over find what they are there to find: each story here was spoilt in one way."""

import asyncio

import pytest
from msgspec.structs import replace
from support.worlds.asking_tasks import ASKING_TASKS
from support.worlds.relay_tasks import RELAY_TASKS

from turnbuckle.testing.world.consent_rules import CONSENT_RULES
from turnbuckle.testing.world.faults import Leave
from turnbuckle.testing.world.handover_rules import HANDOVER_RULES
from turnbuckle.testing.world.invariants import check_run, check_wanted
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.testing.world.tools import Done
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    RunClaimed,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome

NAMED = {task.name: task for task in (*ASKING_TASKS, *RELAY_TASKS)}


def story_of(name, fault=None):
    scenario = RunWorld(NAMED[name]) if fault is None else RunWorld(NAMED[name], fault)
    story = asyncio.run(scenario.play())
    assert check_run(story) == ()
    return story


CONSENT = story_of("consent")
EXPIRED = story_of("no consent in time")
DENIED = story_of("no consent")
QUESTION = story_of("a question")
HANDED = story_of("two calls for the caller")


def found(story):
    rules = (*CONSENT_RULES, *HANDOVER_RULES)
    return {rule.__name__.strip("_") for rule in rules if list(rule(story))}


def place(story, kind):
    return next(at for at, fact in enumerate(story.facts) if isinstance(fact, kind))


def without(story, kind):
    return replace(story, facts=tuple(fact for fact in story.facts if not isinstance(fact, kind)))


def changed(story, kind, **changes):
    at = place(story, kind)
    return replace(
        story, facts=(*story.facts[:at], replace(story.facts[at], **changes), *story.facts[at + 1 :])
    )


def inserted(story, at, *facts):
    return replace(story, facts=(*story.facts[:at], *facts, *story.facts[at:]))


def test_sound_stories_have_no_problem():
    assert [found(story) for story in (CONSENT, EXPIRED, DENIED, QUESTION, HANDED)] == [set()] * 5


def test_a_second_answer_is_found():
    answered = CONSENT.facts[place(CONSENT, ApprovalAnswered)]
    assert "one_answer_each" in found(inserted(CONSENT, len(CONSENT.facts) - 1, answered))


def test_a_question_that_was_asked_twice_is_found():
    at = place(CONSENT, ApprovalAsked)
    assert "one_answer_each" in found(inserted(CONSENT, at, CONSENT.facts[at]))


def test_a_question_that_was_never_answered_is_found():
    assert "one_answer_each" in found(without(DENIED, ApprovalAnswered))


def test_an_answer_to_nothing_is_found():
    assert "one_answer_each" in found(without(DENIED, ApprovalAsked))


def test_a_start_before_the_answer_is_found():
    at = place(CONSENT, ApprovalAnswered)
    start = CONSENT.facts[place(CONSENT, ToolStarted)]
    assert "no_start_without_consent" in found(inserted(CONSENT, at, start))


@pytest.mark.parametrize("verdict", ["denied", "expired", "withdrawn"])
def test_a_start_after_anything_but_a_yes_is_found(verdict):
    assert "no_start_without_consent" in found(changed(CONSENT, ApprovalAnswered, verdict=verdict))


def test_a_start_with_other_arguments_is_found():
    assert "no_start_without_consent" in found(changed(CONSENT, ToolStarted, arguments={"command": "rm"}))


def test_a_start_that_nobody_was_asked_about_is_found():
    assert "no_start_without_consent" in found(without(CONSENT, ApprovalAsked | ApprovalAnswered))


def test_a_question_that_ran_as_a_tool_is_found():
    start = ToolStarted(0.0, "other", "ask_user", {}, "k")
    assert "no_start_without_consent" in found(inserted(QUESTION, place(QUESTION, ToolFinished), start))


@pytest.mark.parametrize(
    "story, told",
    [
        (EXPIRED, ToolOutcome("denied", "The user said no.")),
        (EXPIRED, ToolOutcome("finished", "in time")),
        (DENIED, ToolOutcome("finished", "done")),
        (QUESTION, ToolOutcome("finished", "something else")),
    ],
    ids=["expired as a no", "expired as done", "a no as done", "another answer"],
)
def test_an_end_that_is_not_what_people_said_is_found(story, told):
    assert "told_truly" in found(changed(story, ToolFinished, outcome=told))


def test_an_end_before_the_answer_is_found():
    at, finished = place(DENIED, ApprovalAnswered), DENIED.facts[place(DENIED, ToolFinished)]
    assert "told_truly" in found(inserted(DENIED, at, finished))


def test_words_behind_the_mark_of_a_process_that_had_let_go_are_found():
    story = story_of("consent", Leave(3))
    assert "left_in_good_order" in found(without(story, RunClaimed))


def test_a_callers_tool_that_ran_here_is_found():
    start = ToolStarted(0.0, "c", "find", {}, "k")
    assert "callers_tools_run_nowhere" in found(inserted(HANDED, len(HANDED.facts) - 2, start))
    finished = ToolFinished(0.0, "c", "find", ToolOutcome("finished"))
    assert "callers_tools_run_nowhere" in found(inserted(HANDED, len(HANDED.facts) - 2, finished))
    assert "callers_tools_run_nowhere" in found(replace(HANDED, done=(Done("k", "find", True),)))


def test_a_tool_that_was_never_offered_and_ran_is_found():
    start = ToolStarted(0.0, "c", "shell", {"command": "make"}, "k")
    assert "callers_tools_run_nowhere" in found(inserted(HANDED, len(HANDED.facts) - 2, start))


def test_calls_that_nobody_got_are_found():
    assert "handed_over_once_and_last" in found(without(HANDED, CallsHandedOver))


def test_a_second_hand_over_is_found():
    at = place(HANDED, CallsHandedOver)
    assert "handed_over_once_and_last" in found(inserted(HANDED, at, HANDED.facts[at]))


def test_a_hand_over_that_is_not_last_is_found():
    assert "handed_over_once_and_last" in found(inserted(HANDED, len(HANDED.facts) - 1, StopAsked(0.0)))


def test_a_hand_over_in_a_run_that_did_not_complete_is_found():
    assert "handed_over_once_and_last" in found(replace(HANDED, outcome=Outcome("partial")))


def calls_changed(**changes):
    over = HANDED.facts[place(HANDED, CallsHandedOver)]
    return changed(HANDED, CallsHandedOver, calls=(replace(over.calls[0], **changes), over.calls[1]))


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": '{"what": "th'},
        {"arguments": "{}"},
        {"name": "put"},
        {"inner": "other"},
        {"id": "call_x_0"},
    ],
    ids=["cut", "other arguments", "another tool", "no call of the reply", "another id"],
)
def test_a_call_that_is_not_handed_over_as_it_was_made_is_found(changes):
    assert "handed_over_whole" in found(calls_changed(**changes))


def test_a_call_that_is_handed_over_twice_is_found():
    over = HANDED.facts[place(HANDED, CallsHandedOver)]
    twice = tuple(replace(over.calls[0], id=call.id) for call in over.calls)
    assert "handed_over_whole" in found(changed(HANDED, CallsHandedOver, calls=twice))


def test_a_task_whose_calls_did_not_arrive_is_found():
    task = NAMED["two calls for the caller"]
    spoilt = replace(HANDED, driven=replace(HANDED.driven, handed=HANDED.driven.handed[:1]))
    assert any("handed over was" in problem for problem in check_wanted(task, spoilt))


def test_a_task_that_asks_and_has_nobody_is_a_task_of_its_own():
    """The double of a person is told from nobody: without one, only time answers."""
    task = Task("nobody", NAMED["consent"].brains, approval={"shell": "ask"}, answer_seconds=5.0)
    story = asyncio.run(RunWorld(task).play())
    assert [fact.verdict for fact in story.facts if isinstance(fact, ApprovalAnswered)] == ["expired"]
