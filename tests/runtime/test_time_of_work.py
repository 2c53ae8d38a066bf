"""Only time in which a run was worked on counts: not a step of the clock, not sleep, not downtime, not people."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.ports import Model, Tools
from turnbuckle.testing.clock import numbered
from turnbuckle.turn import budget
from turnbuckle.turn.consent import written
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ModelAsked,
    RunClaimed,
    RunStarted,
    Streamed,
    Waited,
    decode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts, TurnLimits
from turnbuckle.vocab.events import CallArgs, CallClosed, CallStarted, Cut, Ended, FinishNoted, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.tooling import finished

LIMIT = 100.0
POLICY = Policy(
    (RouteFacts(RouteName("main"), "openai_chat", "m"),),
    {"shell": ToolFacts("write")},
    TurnLimits(seconds=LIMIT),
)
CALL = [
    CallStarted(0, "c", "shell"),
    CallArgs(0, "{}"),
    CallClosed(0),
    FinishNoted("calls", "tool_calls"),
    Ended("end"),
]
DONE = [TextDelta(0, "All "), TextDelta(0, "done."), FinishNoted("stop", "stop"), Ended("end")]
DOWN = [Cut(failure("server", "down"))]
TASK = (Message("user", (TextPart("Do it."),)),)


class Times:
    """Two clocks: what the wall shows, and how long this machine was awake. Something happens once, at a place."""

    def __init__(self, place="", wall=0.0, work=0.0):
        self.wall, self.work = 1_000.0, 0.0
        self.place, self.jump, self.busy = place, wall, work

    def at(self, place):
        self.wall, self.work = self.wall + 1.0, self.work + 1.0
        if place == self.place:
            self.wall, self.work, self.place = self.wall + self.jump, self.work + self.busy, ""


class World(Model, Tools):
    """A model and a tool. The first answer never comes, the second calls the tool, the third ends."""

    def __init__(self, times):
        self.times = times
        self.replies: list[Any] = [DOWN, CALL, DONE]

    async def attempt(self, route, request, stop):
        self.times.at("request")
        for event in self.replies.pop(0):
            self.times.at("stream")
            yield [event]

    async def run(self, call, key, said, stop, seen=None):
        said("a")
        self.times.at("tool")
        return finished("ok")

    async def sleep(self, seconds):
        self.times.at("wait")
        await asyncio.sleep(0)


async def run_process_scenario(times, journal, world, epoch=1, die_in=None):
    claim = await journal.claim("r", f"life {epoch}", 1e9)
    assert isinstance(claim, Claim)
    log = RunLog(journal, claim, TurnFold(POLICY), elapsed=lambda: times.work)
    driver = Driver(log, world, world, Environment("a", lambda: times.wall, world.sleep, numbered()))
    if epoch == 1:
        await driver.begin(RunStarted(times.wall, RunId("r"), SessionId("s"), TASK))
    else:
        await driver.take_up(epoch)
    if die_in == "begin":
        await journal.release(claim)
        return driver
    await driver.go_on()
    return driver


async def folded(journal):
    fold, after = TurnFold(POLICY), 0
    while items := await journal.read("r", after):
        for item in items:
            fold.take(decode(item.data))
        after = items[-1].seq
    return fold.turn


def run_scenario(times):
    async def scenario():
        journal = MemoryJournal()
        driver = await run_process_scenario(times, journal, World(times))
        return driver.turn, await folded(journal)

    return asyncio.run(scenario())


PLACES = ["request", "stream", "tool", "wait"]


@pytest.mark.requirement("C9")
@pytest.mark.parametrize("jump", [86_400.0, -86_400.0], ids=["forward or asleep", "back"])
@pytest.mark.parametrize("place", PLACES)
def test_a_clock_that_is_set_and_a_machine_that_sleeps_cost_a_run_nothing(place, jump):
    turn, again = run_scenario(Times(place, wall=jump))
    assert turn.outcome.kind == "completed"
    assert budget.seconds_used(turn, turn.now) < 30
    assert budget.seconds_used(again, again.now) == pytest.approx(budget.seconds_used(turn, turn.now))


@pytest.mark.requirement("C7", "C9")
@pytest.mark.parametrize("place", PLACES)
def test_time_that_was_worked_counts_whatever_the_wall_shows(place):
    turn, again = run_scenario(Times(place, wall=0.0, work=LIMIT))
    assert turn.outcome.why == "the limit of 100 seconds is reached"
    assert again.outcome == turn.outcome


@pytest.mark.requirement("C9")
def test_downtime_between_two_lives_costs_a_run_nothing():
    async def scenario():
        times, journal = Times(), MemoryJournal()
        world = World(times)
        await run_process_scenario(times, journal, world, die_in="begin")
        times.wall += 86_400.0
        times.work = 5.0  # another machine's clock, that starts fresh
        driver = await run_process_scenario(times, journal, world, epoch=2)
        return driver.turn

    turn = asyncio.run(scenario())
    assert turn.outcome.kind == "completed"
    assert budget.seconds_used(turn, turn.now) < 30


@pytest.mark.requirement("C9")
def test_work_of_a_stream_that_died_with_its_process_is_counted_and_the_downtime_is_not():
    fold = TurnFold(POLICY)
    fold.take(RunStarted(10.0, RunId("r"), SessionId("s"), TASK))
    fold.take(ModelAsked(11.0, 1, RouteName("main"), "openai_chat", "m", "first", worked=1.0))
    fold.take(Streamed(31.0, 1, (TextDelta(0, "One"),), worked=20.0))
    fold.take(Streamed(61.0, 1, (TextDelta(0, " two"),), worked=30.0))
    fold.take(RunClaimed(90_000.0, 2))
    assert budget.seconds_used(fold.turn, fold.turn.now) == 51.0
    fold.take(Streamed(90_001.0, 1, (Cut(failure("reset", "gone")),), worked=1.0))
    assert budget.seconds_used(fold.turn, fold.turn.now) == 52.0


@pytest.mark.requirement("C9")
def test_facts_of_older_runs_are_timed_by_the_wall_but_for_downtime():
    fold = TurnFold(POLICY)
    fold.take(RunStarted(10.0, RunId("r"), SessionId("s"), TASK))
    fold.take(ModelAsked(11.0, 1, RouteName("main"), "openai_chat", "m", "first"))
    fold.take(RunClaimed(5_000.0, 2))
    fold.take(Streamed(5_002.0, 1, (Cut(failure("reset", "gone")),)))
    assert budget.seconds_used(fold.turn, fold.turn.now) == 3.0


@pytest.mark.requirement("C9")
@pytest.mark.parametrize("asks", [False, True], ids=["the model", "a person"])
@pytest.mark.parametrize("places", [(), (20.0,), (20.0, 50.0), (12.0, 30.0, 59.0)], ids=str)
def test_that_a_run_was_waited_for_changes_nothing_of_its_time(places, asks):
    fold = TurnFold(replace(POLICY, consent=written({"shell": "ask"})))
    fold.take(RunStarted(10.0, RunId("r"), SessionId("s"), TASK))
    fold.take(ModelAsked(11.0, 1, RouteName("main"), "openai_chat", "m", "first", worked=1.0))
    at = 11.0
    if asks:
        fold.take(Streamed(at, 1, tuple(CALL), worked=0.0))
        fold.take(ApprovalAsked(at, "a", "c", "shell", {}, worked=0.0))
    for place in places:
        due = fold.due()
        fold.take(Waited(place, worked=place - at))
        assert fold.due() == due
        at = place
    cut = (Cut(failure("reset", "gone")),)
    worked = 61.0 - at
    fold.take(
        ApprovalAnswered(61.0, "a", "allowed", worked=worked)
        if asks
        else Streamed(61.0, 1, cut, worked=worked)
    )
    assert budget.seconds_used(fold.turn, fold.turn.now) == (1.0 if asks else 51.0)
