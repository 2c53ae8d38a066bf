"""Every scripted task, in a world of its own for every fault."""

import asyncio

import pytest
from support.worlds.tasks import TASKS

from turnbuckle.testing.world.brains import Round, planned
from turnbuckle.testing.world.campaign import faults_of, try_every_fault, try_faults
from turnbuckle.testing.world.faults import (
    CutReply,
    Fault,
    Kill,
    KillInTool,
    Pair,
    Steal,
    StopInReply,
    StopInTool,
)
from turnbuckle.testing.world.invariants import check_run, check_wanted
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.turn.facts import Decided, RunClaimed
from turnbuckle.vocab.ids import PROTOCOL_NAMES
from turnbuckle.vocab.messages import text_of

NAMED = {task.name: task for task in TASKS}
UNSPEAKABLE = {
    "openai_chat": ("a pause",),
    "anthropic": ("a filter, another route", "a refusal"),
    "gemini": (
        "a pause",
        "a refusal",
        # A call is there whole or not at all, so there is nothing to make a draft of.
        "a draft, finished at once",
        "a draft, finished in pieces",
        "a wrong anchor, then the right one",
        "anchors that never fit",
        "smaller calls instead of drafts",
        "neither drafts nor smaller calls",
        "a call over the cap",
    ),
}
"""What a protocol has no word for."""


def speakers(task):
    """The protocols that have words for all of a task."""
    return [name for name in PROTOCOL_NAMES if task.name not in UNSPEAKABLE.get(name, ())]


PLACES = [
    pytest.param(task, speakers(task)[at % len(speakers(task))], id=task.name)
    for at, task in enumerate(TASKS)
]


def test_there_are_tasks_of_every_temper():
    assert len(TASKS) >= 25
    assert len(NAMED) == len(TASKS)


@pytest.mark.requirement("B1", "B2", "B3", "B8", "B12", "C5", "C6", "C7", "D1", "D2", "D3", "E1", "E2", "E6")
@pytest.mark.parametrize("task, protocol", PLACES)
def test_no_cut_kill_theft_or_stop_at_any_point_breaks_an_invariant(task, protocol, record_property):
    report = asyncio.run(try_every_fault(task, protocol))
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("A10", "C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_every_task_comes_to_its_end_over_the_bytes_of_every_protocol(protocol, record_property):
    tasks = [task for task in TASKS if task.name not in UNSPEAKABLE.get(protocol, ())]
    for task in tasks:
        story = asyncio.run(RunWorld(task, protocol=protocol, wired=True).play())
        assert check_run(story) == (), task.name
        assert check_wanted(task, story) == (), task.name
    record_property("worlds tried", len(tasks))


@pytest.mark.requirement("B8", "D3", "E2")
@pytest.mark.parametrize("name", ["a plain answer", "one tool", "a draft, finished at once"])
def test_a_cut_and_then_a_kill_at_every_point_break_no_invariant(name, record_property):
    task = NAMED[name]

    async def all_pairs():
        base = await RunWorld(task).play()
        pairs = []
        for cut in faults_of(base):
            if isinstance(cut, CutReply) and cut.end == "reset" and cut.after % 3 == 1:
                story = await RunWorld(task, cut).play()
                pairs += [Pair(cut, Kill(append, "after")) for append in range(story.appends)]
                pairs += [Pair(cut, KillInTool(run, "before")) for run in range(story.tool_runs)]
        return await try_faults(task, "openai_chat", pairs)

    report = asyncio.run(all_pairs())
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


@pytest.mark.requirement("D3", "E2", "E6")
@pytest.mark.parametrize("name", ["a plain answer", "a tool that fails"])
def test_two_deaths_at_any_two_points_break_no_invariant(name, record_property):
    task = NAMED[name]

    async def all_pairs():
        base = await RunWorld(task).play()
        firsts = [fault for fault in faults_of(base) if isinstance(fault, Kill | KillInTool | Steal)]
        pairs = []
        for first in firsts[::2]:
            story = await RunWorld(task, first).play()
            pairs += [Pair(first, Kill(append, "after")) for append in range(0, story.appends, 2)]
        return await try_faults(task, "anthropic", pairs)

    report = asyncio.run(all_pairs())
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


@pytest.mark.requirement("C6", "D3", "E2")
@pytest.mark.parametrize("name", ["one tool", "a tool that fails", "a flag and a command"])
def test_a_stop_and_then_a_kill_at_every_point_break_no_invariant(name, record_property):
    task = NAMED[name]

    async def all_pairs():
        base = await RunWorld(task).play()
        pairs = []
        for stop in faults_of(base):
            if isinstance(stop, StopInTool) or (isinstance(stop, StopInReply) and stop.after % 4 == 2):
                story = await RunWorld(task, stop).play()
                pairs += [Pair(stop, Kill(append, "after")) for append in range(story.appends)]
                pairs += [Pair(stop, KillInTool(run, "before")) for run in range(story.tool_runs)]
        return await try_faults(task, "openai_responses", pairs)

    report = asyncio.run(all_pairs())
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


@pytest.mark.requirement("C5")
def test_a_paused_reply_is_sent_back_as_it_is():
    story = asyncio.run(RunWorld(NAMED["a pause"], protocol="anthropic").play())
    sent = story.asked[1].request.messages
    assert [message.role for message in sent] == ["user", "assistant"]
    assert text_of(sent[-1].parts) == "Searching for it,"


@pytest.mark.requirement("G5")
def test_a_run_that_dies_again_and_again_without_progress_is_given_up():
    fault = Pair(Kill(0, "after"), Pair(Kill(1, "after"), Kill(2, "after")))
    story = asyncio.run(RunWorld(NAMED["a plain answer"], fault).play())
    assert check_run(story) == ()
    assert story.outcome.kind == "failed"
    assert "came back 3 times" in story.outcome.why
    assert sum(isinstance(fact, RunClaimed) for fact in story.facts) == 3


@pytest.mark.requirement("G5", "D3")
def test_a_tool_that_kills_its_process_each_time_does_not_run_for_ever():
    fault: Fault = KillInTool(0, "before")
    for run in range(1, 10):
        fault = Pair(fault, KillInTool(run, "before"))
    story = asyncio.run(RunWorld(NAMED["one tool"], fault).play())
    assert check_run(story) == ()
    assert story.outcome.kind == "partial"
    assert story.tool_runs == 3


@pytest.mark.requirement("B2")
def test_a_cut_before_the_first_word_is_silent():
    story = asyncio.run(RunWorld(NAMED["a plain answer"], CutReply(0, 1, "reset")).play())
    decided = [fact for fact in story.facts if isinstance(fact, Decided)]
    assert [fact.notice for fact in decided] == [""]
    assert len(story.asked) == 2


@pytest.mark.requirement("B4")
def test_a_cut_inside_a_call_is_told_with_the_name_of_its_tool():
    task = NAMED["write, then read"]
    story = asyncio.run(RunWorld(task, CutReply(0, 12, "stall")).play())
    notices = [fact.notice for fact in story.facts if isinstance(fact, Decided)]
    assert len(notices) == 1
    assert notices[0].startswith("stream stalled 30 s in write_file, ")
    assert "characters kept, finishing the draft" in notices[0]


@pytest.mark.requirement("C8")
def test_what_a_cut_wasted_is_counted_with_its_cause():
    story = asyncio.run(RunWorld(NAMED["a tool that fails"], CutReply(0, 3, "reset")).play())
    decided = [fact for fact in story.facts if isinstance(fact, Decided)]
    assert [fact.failure.kind for fact in decided] == ["reset"]
    assert story.turn.tally.lost == decided[0].lost > 0


def test_the_world_itself_notices_a_model_that_does_not_do_its_task():
    task = Task("wrong", (planned(Round("Something else.")),), answer="What was wanted.")
    story = asyncio.run(RunWorld(task).play())
    assert check_run(story) == ()
    assert check_wanted(task, story) == ("the user saw 'Something else.', not 'What was wanted.'",)
