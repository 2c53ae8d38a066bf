"""A command that may have stopped the server is asked about and not redone: in a world of its own for every fault."""

import asyncio

import pytest
from msgspec.structs import replace
from support.worlds.tasks import DONE, END, task

from turnbuckle.testing.world.brains import PlannedCall, Round, planned
from turnbuckle.testing.world.campaign import try_every_fault, try_faults
from turnbuckle.testing.world.consent_rules import doubts_of
from turnbuckle.testing.world.faults import (
    Fault,
    Kill,
    KillInTool,
    Leave,
    Pair,
    Steal,
    StealInTool,
    StopInQuestion,
)
from turnbuckle.testing.world.invariants import check_run
from turnbuckle.testing.world.people import always
from turnbuckle.testing.world.run_world import RunWorld
from turnbuckle.turn.crash_suspects import NOBODY, QUESTION
from turnbuckle.turn.facts import ApprovalAnswered, RunClaimed, StopAsked, ToolFinished, ToolStarted
from turnbuckle.vocab.ids import PROTOCOL_NAMES

KILLS = PlannedCall("shell", {"command": "sudo kill -9 1234"})
MAKE = PlannedCall("shell", {"command": "make all"})
ASK = {"shell": "ask"}
IN_TOOL = KillInTool(0, "after")
WORLDS = {
    "yes": task("yes", planned(Round("I do it.", (KILLS,)), END), person=always("allowed")),
    "no": task("no", planned(Round("I do it.", (KILLS,)), END), person=always("denied")),
    "nobody": task("nobody", planned(Round("I do it.", (KILLS,)), END), answer_seconds=60.0),
    "unattended": task("unattended", planned(Round("I do it.", (KILLS,)), END), attended=False),
    "consented": task("consented", planned(Round("", (MAKE, KILLS, MAKE)), END), approval=ASK, person=always("allowed")),
}  # fmt: skip


def play(name, fault=IN_TOOL, **changes):
    story = asyncio.run(RunWorld(replace(WORLDS[name], **changes), fault).play())
    assert check_run(story) == ()
    return story


def of(story, kind):
    return [fact for fact in story.facts if isinstance(fact, kind)]


@pytest.mark.requirement("G5", "D8")
@pytest.mark.parametrize("name", WORLDS)
def test_no_fault_at_any_point_breaks_an_invariant(name, record_property):
    report = asyncio.run(try_every_fault(WORLDS[name], "openai_chat"))
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("G5", "G6", "D8")
@pytest.mark.parametrize("first", [IN_TOOL, StealInTool(0, "before")], ids=["killed", "robbed"])
@pytest.mark.parametrize("name", WORLDS)
def test_a_second_fault_at_any_point_behind_the_stop_breaks_no_invariant(name, first, record_property):
    """Every death, theft and departure between the stop in the tool and the end of the run."""

    async def all_of_them():
        story = await RunWorld(WORLDS[name], first).play()
        seconds = [
            fault
            for append in range(story.appends)
            for fault in (
                Kill(append, "before"),
                Kill(append, "after"),
                Kill(append, "after", power=True),
                Steal(append, "after"),
                Leave(append),
            )
        ]
        seconds += [StopInQuestion(question) for question in range(story.questions)]
        return await try_faults(WORLDS[name], PROTOCOL_NAMES[1], [Pair(first, second) for second in seconds])

    report = asyncio.run(all_of_them())
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("G5")
def test_a_yes_lets_the_run_go_on_without_doing_it_again():
    story = play("yes")
    (asked,) = doubts_of(story).values()
    assert (asked.kind, asked.question, asked.arguments) == ("approval", QUESTION, KILLS.arguments)
    assert len(of(story, ToolStarted)) == 1
    (ended,) = of(story, ToolFinished)
    assert ended.outcome.status == "unknown"
    assert "may have been the reason" in ended.outcome.text
    assert (story.outcome.kind, story.turn.shown) == ("completed", DONE)


@pytest.mark.requirement("G5")
@pytest.mark.parametrize("name, by", [("no", "user"), ("nobody", NOBODY)])
def test_a_no_and_no_answer_in_time_end_the_run(name, by):
    story = play(name)
    assert story.outcome.kind == "cancelled"
    assert [fact.by for fact in of(story, StopAsked)] == [by]
    assert [fact.outcome.status for fact in of(story, ToolFinished)] == ["unknown"]
    assert len(story.asked) == 1


@pytest.mark.requirement("G5")
def test_where_nobody_could_answer_the_call_is_settled_like_any_other():
    story = play("unattended")
    assert doubts_of(story) == {}
    assert [fact.outcome.status for fact in of(story, ToolFinished)] == ["unknown"]
    assert story.outcome.kind == "completed"


@pytest.mark.requirement("G5")
def test_a_process_that_let_go_in_good_order_as_it_ran_is_asked_about_too():
    started = next(at for at, fact in enumerate(play("yes").facts) if isinstance(fact, ToolStarted))
    story = play("yes", Leave(started))
    assert len(doubts_of(story)) == 1
    assert story.outcome.kind == "completed"


@pytest.mark.requirement("G5")
def test_nobody_is_asked_about_a_command_that_stops_nothing():
    story = play("yes", brains=(planned(Round("", (MAKE,)), END),))
    assert doubts_of(story) == {}
    assert story.outcome.kind == "completed"


@pytest.mark.requirement("G5", "G6")
def test_the_question_outlives_more_restarts_than_a_run_may_take_without_progress():
    base = play("yes")
    claimed = next(at for at, fact in enumerate(base.facts) if isinstance(fact, RunClaimed))
    fault: Fault = IN_TOOL
    for more in range(7):  # each life behind the first question dies as it has claimed the run
        fault = Pair(fault, Kill(claimed + 1 + more, "after"))
    story = play("yes", fault)
    assert len(of(story, RunClaimed)) == 8
    assert len(doubts_of(story)) == 1
    assert [fact.verdict for fact in of(story, ApprovalAnswered)] == ["allowed"]
    assert story.outcome.kind == "completed"
