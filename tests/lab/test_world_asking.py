"""Tasks in which a person is asked, in a world of its own for every fault."""

import asyncio

import pytest
from msgspec.structs import replace
from support.turns.histories import in_pieces
from support.worlds.asking_tasks import ASKING_TASKS, LONG_THOUGHT

from turnbuckle.testing.world.campaign import faults_of, try_every_fault, try_faults
from turnbuckle.testing.world.faults import Fault, Kill, Leave, Pair, StopInQuestion
from turnbuckle.testing.world.invariants import check_run, check_wanted
from turnbuckle.testing.world.people import Says
from turnbuckle.testing.world.run_world import RunWorld
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    RunClaimed,
    RunLeft,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.ids import PROTOCOL_NAMES

NAMED = {task.name: task for task in ASKING_TASKS}
PLACES = [
    pytest.param(task, PROTOCOL_NAMES[at % len(PROTOCOL_NAMES)], id=task.name)
    for at, task in enumerate(ASKING_TASKS)
]


def play(name, fault=None):
    scenario = RunWorld(NAMED[name]) if fault is None else RunWorld(NAMED[name], fault)
    story = asyncio.run(scenario.play())
    assert check_run(story) == ()
    return story


def of(story, kind):
    return [fact for fact in story.facts if isinstance(fact, kind)]


@pytest.mark.requirement("D8", "G6", "E2", "E6")
@pytest.mark.parametrize("task, protocol", PLACES)
def test_no_cut_kill_theft_leave_or_stop_at_any_point_breaks_an_invariant(task, protocol, record_property):
    report = asyncio.run(try_every_fault(task, protocol))
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("A10", "D8")
@in_pieces
def test_every_task_comes_to_its_end_over_the_bytes_of_every_protocol(protocol, record_property):
    for task in ASKING_TASKS:
        story = asyncio.run(RunWorld(task, protocol=protocol, wired=True).play())
        assert check_run(story) == (), task.name
        assert check_wanted(task, story) == (), task.name
    record_property("worlds tried", len(ASKING_TASKS))


@pytest.mark.requirement("D8", "G6")
@pytest.mark.parametrize("name", ["consent", "a question", "consent to what a draft became"])
def test_two_deaths_at_any_two_points_around_a_question_break_no_invariant(name, record_property):
    task = NAMED[name]

    async def all_pairs():
        base = await RunWorld(task).play()
        asked = next(place for place, fact in enumerate(base.facts) if isinstance(fact, ApprovalAsked))
        kills = [fault for fault in faults_of(base) if isinstance(fault, Kill) and fault.append >= asked - 2]
        pairs = []
        for first in kills:
            story = await RunWorld(task, first).play()
            pairs += [
                Pair(first, Kill(append, "after")) for append in range(first.append + 1, story.appends, 2)
            ]
        return await try_faults(task, "openai_chat", pairs)

    report = asyncio.run(all_pairs())
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("D8")
def test_a_restart_while_a_person_is_waited_for_is_no_failed_try():
    """Far more restarts than a run may take without progress: each finds the question, and waits."""
    story = play("consent")
    asked = next(place for place, fact in enumerate(story.facts) if isinstance(fact, ApprovalAsked))
    fault: Fault = Kill(asked, "after")
    for more in range(1, 8):  # each life dies as it has claimed the run
        fault = Pair(fault, Kill(asked + more, "after"))
    story = play("consent", fault)
    assert story.outcome.kind == "completed"
    assert len(of(story, RunClaimed)) == 8
    assert len(of(story, ApprovalAsked)) == 1
    assert [done.name for done in story.done] == ["shell"]


@pytest.mark.requirement("D8", "C7")
def test_the_time_that_people_take_is_not_the_turns():
    story = play("consent")
    assert story.seconds > LONG_THOUGHT > story.policy.limits.seconds
    assert story.turn.tally.seconds_asked == LONG_THOUGHT


@pytest.mark.requirement("D8")
def test_time_in_which_several_people_are_waited_for_is_counted_once():
    story = play("three reads, asked about together")
    asked, answered = of(story, ApprovalAsked), of(story, ApprovalAnswered)
    assert len(asked) == len(answered) == 3
    assert story.turn.tally.seconds_asked == max(fact.at for fact in answered) - min(
        fact.at for fact in asked
    )


@pytest.mark.requirement("D8")
def test_no_answer_in_time_is_told_as_what_it_is():
    story = play("no consent in time")
    assert [fact.verdict for fact in of(story, ApprovalAnswered)] == ["expired"]
    assert of(story, ToolStarted) == []
    (ended,) = of(story, ToolFinished)
    assert ended.outcome.status == "denied"
    assert ended.outcome.text == "Nobody answered in time, so there is no consent."
    (asked,) = of(story, ApprovalAsked)
    assert asked.expires == asked.at + LONG_THOUGHT


@pytest.mark.requirement("D8", "G6")
def test_an_answer_that_came_too_late_while_nobody_ran_the_run_is_no_consent():
    """The process dies as it waits, and the next one comes when the time for an answer is over."""
    base = play("no consent in time")
    asked = next(place for place, fact in enumerate(base.facts) if isinstance(fact, ApprovalAsked))
    story = play("no consent in time", Kill(asked, "after"))
    assert [fact.verdict for fact in of(story, ApprovalAnswered)] == ["expired"]
    assert len(of(story, RunClaimed)) == 1


@pytest.mark.requirement("D8")
def test_nobody_is_asked_where_nobody_is():
    story = play("nobody who could consent")
    assert of(story, ApprovalAsked) == []
    ends = {fact.name: fact.outcome for fact in of(story, ToolFinished)}
    assert ends["shell"].status == "denied"
    assert "nobody can be asked" in ends["shell"].text
    assert ends["ask_user"].status == "failed"
    assert story.done == ()


@pytest.mark.requirement("D8")
def test_a_person_is_not_troubled_with_a_call_that_can_not_run():
    story = play("consent to a call that cannot run")
    assert of(story, ApprovalAsked) == []
    assert [fact.outcome.status for fact in of(story, ToolFinished)] == ["not_started", "not_started"]


@pytest.mark.requirement("D8")
def test_the_consent_to_a_finished_draft_shows_the_whole_call():
    story = play("consent to what a draft became")
    (asked,) = of(story, ApprovalAsked)
    assert (asked.name, asked.arguments) == ("write_file", {"path": "a.txt", "content": story.files["a.txt"]})
    (started,) = of(story, ToolStarted)
    assert (started.call_id, started.arguments) == (asked.call_id, asked.arguments)


@pytest.mark.requirement("D8")
def test_each_pattern_decides_what_it_shows():
    story = play("patterns")
    assert [fact.arguments["command"] for fact in of(story, ApprovalAsked)] == ["git push"]
    assert [fact.arguments["command"] for fact in of(story, ToolStarted)] == ["make all", "git push"]
    assert [fact.outcome.status for fact in of(story, ToolFinished)] == [
        "finished",
        "finished",
        "denied",
        "denied",
    ]


@pytest.mark.requirement("D8")
def test_a_stop_at_the_moment_of_the_answer_withdraws_the_question_or_comes_too_late():
    story = play("consent", StopInQuestion(0))
    assert story.outcome.kind == "cancelled"
    verdicts = [fact.verdict for fact in of(story, ApprovalAnswered)]
    assert len(verdicts) == 1
    assert [done.name for done in story.done] == []


@pytest.mark.requirement("D8", "G6")
def test_a_process_that_lets_go_in_good_order_leaves_the_question_open():
    seen = []

    def answers_the_next_process(asked):
        seen.append(asked)
        return Says("allowed") if len(seen) > 1 else None

    asked = next(place for place, fact in enumerate(play("consent").facts) if isinstance(fact, ApprovalAsked))
    task = replace(NAMED["consent"], person=answers_the_next_process)
    story = asyncio.run(RunWorld(task, Leave(asked)).play())
    assert check_run(story) == ()
    kinds = [type(fact) for fact in story.facts]
    assert kinds[asked : asked + 4] == [ApprovalAsked, RunLeft, RunClaimed, ApprovalAnswered]
    assert story.outcome.kind == "completed"
    assert story.turn.tally.recoveries == 0
