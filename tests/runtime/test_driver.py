"""The one loop, where the world is slow, late, full or rude."""

import asyncio
from typing import Any

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, StorageFull
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.ports import Model, Tools
from turnbuckle.testing.clock import numbered
from turnbuckle.turn.facts import (
    ModelAsked,
    RunEnded,
    RunStarted,
    StopAsked,
    ToolFinished,
    ToolSaid,
    ToolStarted,
    decode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts, TurnLimits
from turnbuckle.vocab.events import CallArgs, CallClosed, CallStarted, Cut, Ended, FinishNoted, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.tooling import ToolOutcome, finished

TOOLS = {"look": ToolFacts("read"), "shell": ToolFacts("write")}
POLICY = Policy((RouteFacts(RouteName("main"), "openai_chat", "m"),), TOOLS)
HELLO = [TextDelta(0, "Hello."), FinishNoted("stop", "stop"), Ended("end")]
DOWN = [Cut(failure("server", "down"))]


def call(*names):
    events = []
    for block, name in enumerate(names):
        events += [CallStarted(block, f"c{block}", name), CallArgs(block, "{}"), CallClosed(block)]
    return [*events, FinishNoted("calls", "tool_calls"), Ended("end")]


class SlowJournal(MemoryJournal):
    """Every append takes a few turns of the loop, as a real one does. `full` appends fail first."""

    full = 0

    async def append(self, *args, **named):
        for _ in range(3):
            await asyncio.sleep(0)
        if self.full:
            self.full -= 1
            raise StorageFull("no room")
        return await super().append(*args, **named)


class Replies(Model):
    """Gives one reply after the other; the last one again and again."""

    def __init__(self, *replies, linger=False):
        self.replies = list(replies)
        self.linger = linger
        self.closed = 0
        self.noted = []

    async def attempt(self, route, request, stop):
        events = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        try:
            for event in events:
                yield [event]
            if self.linger:
                await stop.wait()
                yield [Cut(failure("cancelled", "stopped"))]
        finally:
            self.closed += 1

    def note(self, route, events):
        self.noted.append(events[-1])


class ActingTools(Tools):
    """Runs what `acts` says; anything else is done at once."""

    def __init__(self, **acts):
        self.acts = acts
        self.ran = []

    async def run(self, call, key, said, stop, seen=None):
        self.ran.append(call.id)
        act = self.acts.get(call.name)
        return await act(said, stop) if act is not None else finished("ok")


class Harness:
    def __init__(self, model, tools=None, policy=POLICY, journal=None):
        self.now = 0.0
        self.journal = journal or SlowJournal()
        self.model = model
        self.tools = tools or ActingTools()
        self.policy = policy
        self.slept = []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def driver(self):
        claim = await self.journal.claim("run", "me", 1e9)
        assert isinstance(claim, Claim)
        log = RunLog(self.journal, claim, TurnFold(self.policy))
        environment = Environment("me", lambda: self.now, self.sleep, numbered())
        return Driver(log, self.model, self.tools, environment)

    async def start(self, driver):
        said = Message("user", (TextPart("Do it."),))
        return await driver.start(RunStarted(self.now, RunId("r"), SessionId("s"), (said,)))

    async def facts(self):
        return [decode(item.data) for item in await self.journal.read("run")]


def play(model, tools=None, policy=POLICY, journal=None, stop_when=None):
    """A whole run. `stop_when` waits for its moment and then the run is asked to stop."""

    async def run():
        harness = Harness(model, tools, policy, journal)
        driver = await harness.driver()

        async def stopper():
            await stop_when(harness, driver)
            driver.stop.ask()

        asking = asyncio.create_task(stopper()) if stop_when is not None else None
        async with asyncio.timeout(100):
            outcome = await harness.start(driver)
        if asking is not None:
            asking.cancel()
        return harness, outcome, await harness.facts()

    return asyncio.run(run())


def test_a_run_over_a_slow_journal_ends():
    _, outcome, facts = play(Replies(call("look", "look", "shell"), HELLO))
    assert outcome.kind == "completed"
    assert isinstance(facts[-1], RunEnded)


@pytest.mark.requirement("C6")
def test_a_stop_in_a_wait_between_two_tries_ends_the_run_without_a_spin():
    async def in_the_wait(harness, driver):
        never = asyncio.get_running_loop().create_future()

        async def sleep(seconds):
            harness.slept.append(seconds)
            await never

        driver._sleep = sleep
        while not harness.slept:
            await asyncio.sleep(0)

    _, outcome, facts = play(Replies(DOWN), stop_when=in_the_wait)
    assert outcome.kind == "cancelled"
    assert [type(fact) for fact in facts[-2:]] == [StopAsked, RunEnded]
    assert sum(isinstance(fact, ModelAsked) for fact in facts) == 1


@pytest.mark.parametrize("turns", range(0, 60, 1))
def test_a_stop_at_any_turn_of_the_loop_ends_the_run_once_and_in_order(turns):
    async def later(harness, driver):
        for _ in range(turns):
            await asyncio.sleep(0)

    _, outcome, facts = play(Replies(DOWN, call("look", "shell"), HELLO), stop_when=later)
    assert outcome.kind in ("cancelled", "completed")
    assert [isinstance(fact, RunEnded) for fact in facts].count(True) == 1
    assert isinstance(facts[-1], RunEnded)
    behind = next((place for place, fact in enumerate(facts) if isinstance(fact, StopAsked)), len(facts))
    assert not any(isinstance(fact, ModelAsked | ToolStarted) for fact in facts[behind:])
    started = {fact.call_id for fact in facts if isinstance(fact, ToolStarted)}
    assert started <= {fact.call_id for fact in facts if isinstance(fact, ToolFinished)}


def test_a_stop_while_the_model_speaks_reaches_it():
    async def after_a_word(harness, driver):
        while not driver.turn.attempt:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)

    harness, outcome, _ = play(Replies([TextDelta(0, "Hel")], linger=True), stop_when=after_a_word)
    assert outcome.kind == "cancelled"
    assert harness.model.closed == 1


def test_an_attempt_without_a_last_word_is_a_cut_one():
    harness, outcome, _ = play(Replies([TextDelta(0, "Hello")], [TextDelta(0, " you."), *HELLO[1:]]))
    assert outcome.kind == "completed"
    assert isinstance(harness.model.noted[0], Cut)


def test_what_follows_the_last_word_is_not_stored_and_the_attempt_is_closed():
    harness, outcome, facts = play(Replies([*HELLO, TextDelta(0, "more"), Ended("again")]))
    assert outcome.kind == "completed"
    assert harness.model.closed == 1
    assert "more" not in str(facts)


@pytest.mark.requirement("D6", "E1")
def test_what_a_tool_prints_is_stored_in_order_and_before_its_result():
    async def chatty(said, stop):
        for number in range(5):
            said(f"{number} ")
            if number % 2:
                await asyncio.sleep(0)
        said("")
        return finished("done")

    _, _, facts = play(Replies(call("shell"), HELLO), ActingTools(shell=chatty))
    assert "".join(fact.text for fact in facts if isinstance(fact, ToolSaid)) == "0 1 2 3 4 "
    last_said = max(place for place, fact in enumerate(facts) if isinstance(fact, ToolSaid))
    assert last_said < next(place for place, fact in enumerate(facts) if isinstance(fact, ToolFinished))


@pytest.mark.requirement("D6")
def test_reads_run_together_and_each_end_is_stored_when_it_happens():
    gate: dict[Any, Any] = {}

    async def meet(said, stop):
        gate["here"] = gate.get("here", 0) + 1
        first = gate["here"] == 1
        while gate["here"] < 2:
            await asyncio.sleep(0)
        for _ in range(0 if first else 50):
            await asyncio.sleep(0)
        return finished("first" if first else "second")

    _, outcome, facts = play(Replies(call("look", "look"), HELLO), ActingTools(look=meet))
    assert outcome.kind == "completed"
    assert [fact.outcome.text for fact in facts if isinstance(fact, ToolFinished)] == ["first", "second"]


@pytest.mark.requirement("D2")
def test_a_result_that_finds_no_room_is_stored_when_there_is_room_again():
    journal = SlowJournal()

    async def fills_the_disk(said, stop):
        journal.full = 3
        return finished("done")

    harness, outcome, facts = play(
        Replies(call("shell"), HELLO), ActingTools(shell=fills_the_disk), journal=journal
    )
    assert outcome.kind == "completed"
    assert harness.tools.ran == ["c0"]
    assert len(harness.slept) == 3
    assert [fact.outcome.text for fact in facts if isinstance(fact, ToolFinished)] == ["done"]


@pytest.mark.requirement("D2")
def test_an_intent_that_finds_no_room_keeps_its_tool_from_starting():
    journal = SlowJournal()
    tools = ActingTools()

    class FullAtTheIntent(Replies):
        def note(self, route, events):
            journal.full = 1

    with pytest.raises(StorageFull):
        play(FullAtTheIntent(call("shell")), tools, journal=journal)
    assert tools.ran == []


def test_an_attempt_is_closed_when_the_journal_fails_in_the_middle_of_it():
    journal = SlowJournal()
    model = Replies(HELLO)

    async def fill(harness, driver):
        while not driver.turn.attempt:
            await asyncio.sleep(0)
        journal.full = 1
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StorageFull):
        play(model, journal=journal, stop_when=fill)
    assert model.closed == 1


@pytest.mark.requirement("C7")
def test_a_stream_that_outlasts_the_time_of_the_turn_is_ended():
    class Slow(Replies):
        async def attempt(self, route, request, stop):
            while not stop.is_set():
                stage_time[0].now += 30.0
                yield [TextDelta(0, "and ")]
            yield [Cut(failure("cancelled", "stopped"))]

    stage_time = []

    async def run():
        harness = Harness(Slow(HELLO), policy=Policy(POLICY.routes, TOOLS, TurnLimits(seconds=100.0)))
        stage_time.append(harness)
        async with asyncio.timeout(100):
            return harness, await harness.start(await harness.driver())

    harness, outcome = asyncio.run(run())
    assert outcome.kind == "partial"
    assert "100 seconds" in outcome.why
    assert harness.now < 250


@pytest.mark.requirement("E2")
def test_a_run_that_has_ended_stays_as_it_is():
    async def run():
        harness = Harness(Replies(HELLO))
        await harness.start(await harness.driver())
        before = await harness.facts()
        harness.journal = harness.journal.after_kill()
        driver = await harness.driver()
        outcome = await driver.resume(2)
        return outcome, before, await harness.facts()

    outcome, before, after = asyncio.run(run())
    assert outcome.kind == "completed"
    assert before == after


@pytest.mark.requirement("D4")
def test_a_stop_during_a_tool_tells_killed_from_never_started():
    async def waits(said, stop):
        await stop.wait()
        return ToolOutcome("killed", "stopped")

    async def in_the_tool(harness, driver):
        while not harness.tools.ran:
            await asyncio.sleep(0)

    _, outcome, facts = play(Replies(call("shell", "shell")), ActingTools(shell=waits), stop_when=in_the_tool)
    ends = {fact.call_id: fact.outcome.status for fact in facts if isinstance(fact, ToolFinished)}
    assert ends == {"c0": "killed", "c1": "not_started"}
    assert outcome.kind == "cancelled"


class Resting(Replies):
    """A model whose health book rests some routes: one that is fit is taken instead, the last of all if none is."""

    def __init__(self, reply, order, resting):
        super().__init__(reply)
        self.order = order
        self.resting = resting

    def choose(self, wanted):
        start = self.order.index(wanted)
        turned = self.order[start:] + self.order[:start]
        return next((name for name in turned if name not in self.resting), self.order[-1])


def routes_asked(names, resting):
    model = Resting(DOWN, names, resting)
    policy = Policy(tuple(RouteFacts(RouteName(name), "openai_chat", "m") for name in names), TOOLS)
    _, outcome, facts = play(model, policy=policy)
    assert outcome.kind == "failed"
    return [fact.route for fact in facts if isinstance(fact, ModelAsked)]


@pytest.mark.requirement("B2")
@pytest.mark.parametrize("resting", [(), ("a",), ("b",), ("a", "b")])
def test_two_dead_routes_do_not_hand_a_turn_to_each_other_for_ever(resting):
    asked = routes_asked(["a", "b"], resting)
    assert sorted(asked) == ["a", "a", "a", "b", "b", "b"]


@pytest.mark.requirement("B2")
def test_a_route_that_rests_is_asked_behind_those_that_do_not():
    assert routes_asked(["a", "b", "c"], ("a",)) == ["b", "b", "b", "c", "c", "c", "a", "a", "a"]
