"""A process lets go of its runs in good order: each is marked last of all, has no end, and goes on elsewhere."""

import asyncio

import pytest
from msgspec.structs import replace
from support.runs.approval_runs import (
    HANG,
    HELLO,
    POLICY,
    SHELL,
    CountingTools,
    SlowJournal,
    call,
    new_run,
    run_scenario,
)

from turnbuckle.errors import RunHeld
from turnbuckle.turn.facts import (
    ApprovalAsked,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.policy import ToolFacts
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.tooling import ToolOutcome


class Again(CountingTools):
    """Tools that may simply be run again."""

    async def probe(self, call, key):
        return "again"


def with_effect(effect):
    return replace(POLICY, tools={**POLICY.tools, "look": ToolFacts(effect)})


async def goes_on(harness, run):
    return await harness.process("b").resume(run)


@pytest.mark.requirement("G5", "E6")
@pytest.mark.parametrize("turns", range(0, 40))
def test_the_mark_is_the_last_thing_that_is_written_whenever_the_process_lets_go(turns):
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        for _ in range(turns):
            await asyncio.sleep(0)
        await running.leave("the server stops")
        facts = await harness.facts(running.run)
        if isinstance(facts[-1], RunEnded):
            assert not any(isinstance(fact, RunLeft) for fact in facts)
            return
        assert [isinstance(fact, RunLeft) for fact in facts].count(True) == 1
        assert isinstance(facts[-1], RunLeft)
        assert facts[-1].why == "the server stops"
        (row,) = await harness.journal.streams()
        assert (row.status, row.holder) == ("running", "")
        again = await goes_on(harness, running.run)
        assert (await again.outcome()).kind == "completed"
        facts = await harness.facts(running.run)
        assert isinstance(
            facts[facts.index(next(f for f in facts if isinstance(f, RunLeft))) + 1], RunClaimed
        )
        assert again.turn.tally.recoveries == 0

    run_scenario(scenario, call("look"), HELLO, journal=SlowJournal)


@pytest.mark.requirement("G5")
def test_any_number_of_orderly_restarts_is_no_loop_of_crashes():
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        for number in range(8):
            await harness.until(running.run, ToolStarted, number + 1)
            await running.leave("a new version")
            running = await harness.process(f"p{number}").resume(running.run)
        assert running.turn.tally.recoveries == 0
        running.stop()
        assert (await running.outcome()).kind == "cancelled"

    run_scenario(scenario, call("look"), HELLO, tools=Again(slow=("look",)))


@pytest.mark.requirement("G5", "D4")
@pytest.mark.parametrize("status", ["killed", "finished", "failed", "not_started"])
def test_a_tool_that_is_ended_with_the_process_is_told_as_what_it_said(status):
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        await harness.until(running.run, ToolStarted)
        await running.leave("the server stops")
        assert isinstance((await harness.facts(running.run))[-1], RunLeft)
        again = await goes_on(harness, running.run)
        await again.outcome()
        (finished,) = await harness.of(running.run, ToolFinished)
        assert (finished.outcome.status, finished.outcome.partial_output) == (status, "half")
        assert ("The server was stopped while this ran." in finished.outcome.text) == (status == "killed")
        assert len(harness.tools.ran) == 1

    run_scenario(scenario, call("look"), HELLO, tools=Ending(status), policy=with_effect("write"))


class Ending(CountingTools):
    """Runs until it is stopped, and says then how it ended."""

    def __init__(self, status):
        super().__init__()
        self._status = status

    async def run(self, call, key, said, stop, seen=None):
        self.ran.append((call.name, call.arguments))
        await stop.wait()
        await asyncio.sleep(0)
        return ToolOutcome(self._status, partial_output="half")


class Deaf(CountingTools):
    """Does not hear that it is to stop."""

    async def run(self, call, key, said, stop, seen=None):
        self.ran.append((call.name, call.arguments))
        await asyncio.Event().wait()


@pytest.mark.requirement("G5", "D3", "D4")
def test_a_tool_that_does_not_say_how_it_ended_is_unknown_afterwards():
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        await harness.until(running.run, ToolStarted)
        await running.leave("the server stops")
        harness.tools = CountingTools()
        again = await goes_on(harness, running.run)
        await again.outcome()
        (finished,) = await harness.of(running.run, ToolFinished)
        assert finished.outcome.status == "unknown"
        assert harness.tools.ran == []

    run_scenario(scenario, call("look"), HELLO, tools=Deaf())


@pytest.mark.requirement("D3", "D4")
@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_tool_that_may_run_again_does_so_after_it_was_ended_with_the_process(effect):
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        await harness.until(running.run, ToolStarted)
        await running.leave("the server stops")
        assert await harness.of(running.run, ToolFinished) == []
        harness.tools.slow = ()
        again = await goes_on(harness, running.run)
        await again.outcome()
        (finished,) = await harness.of(running.run, ToolFinished)
        assert finished.outcome.status == "finished"

    run_scenario(scenario, call("look"), HELLO, tools=Again(slow=("look",)), policy=with_effect(effect))


@pytest.mark.requirement("G6", "D8")
def test_a_question_is_still_open_afterwards():
    async def scenario(harness):
        running = await harness.asked()
        await running.leave("the server stops")
        again = await goes_on(harness, running.run)
        assert await again.answer("a1-0", "allowed", "ann")
        assert (await again.outcome()).kind == "completed"
        assert len(await harness.of(running.run, ApprovalAsked)) == 1

    run_scenario(scenario, call(SHELL), HELLO)


def test_a_run_that_has_ended_is_not_marked():
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        await running.outcome()
        before = await harness.facts(running.run)
        await running.leave("the server stops")
        assert await harness.facts(running.run) == before

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("E6")
def test_a_mark_that_can_not_be_made_leaves_the_run_as_a_crash_would():
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        await harness.until(running.run, Streamed)
        harness.journal.room = 0
        await running.leave("the server stops")
        harness.journal.room = 1 << 20
        assert await harness.of(running.run, RunLeft) == []
        again = await goes_on(harness, running.run)
        again.stop()
        await again.outcome()

    run_scenario(scenario, HANG)


@pytest.mark.requirement("E6")
def test_a_run_begins_once():
    async def scenario(harness):
        runs = harness.process()
        running = await runs.begin(new_run(run=RunId("same")))
        with pytest.raises(RunHeld):
            await runs.begin(new_run("Other.", run=RunId("same")))
        await running.outcome()
        with pytest.raises(RunHeld, match="has begun already"):
            await runs.begin(new_run("Other.", run=RunId("same")))
        assert len(await harness.of(running.run, RunStarted)) == 1
        (row,) = await harness.journal.streams()
        assert (row.status, row.holder) == ("completed", "")

    run_scenario(scenario, HELLO)
