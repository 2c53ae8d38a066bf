"""Claims that are renewed, that cannot be renewed, and that run out while the machine sleeps."""

import asyncio
import time

import pytest
from support.turns.turn_facts import POLICY, called, said

from turnbuckle.errors import ClaimLost
from turnbuckle.journal.clock import lease_time
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Held, StorageError, Trouble
from turnbuckle.lab.rehearsal.model import Rehearsal
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.lease import LEASE, RENEWALS, hold, is_held
from turnbuckle.runtime.ports import Tools
from turnbuckle.runtime.runs import RunRules, Runs
from turnbuckle.testing.clock import VirtualClock, numbered
from turnbuckle.turn.facts import ToolStarted, decode
from turnbuckle.vocab.events import Ended, FinishNoted, TextDelta
from turnbuckle.vocab.tooling import ToolOutcome

PERIOD = LEASE / RENEWALS


class Sick(MemoryJournal):
    """A journal whose renewals go wrong from the moment on at which somebody says so."""

    how = "well"
    renewed = 0

    async def renew(self, claim, seconds):
        self.renewed += 1
        if self.how == "fails":
            raise StorageError("no")
        if self.how == "hangs":
            await asyncio.get_running_loop().create_future()
        return await super().renew(claim, seconds)


class Machine:
    """A machine that can sleep: its claims see the time that passes then, its timers do not."""

    def __init__(self):
        self.clock = VirtualClock()
        self.slept = 0.0
        self.journal = Sick(monotonic=self.lease_time, wall=self.lease_time)

    def lease_time(self):
        return self.clock.now() + self.slept

    async def claim(self, stream="r", owner="a"):
        claim = await self.journal.claim(stream, owner, LEASE)
        assert isinstance(claim, Claim)
        return claim


def on_a_machine(story):
    machine = Machine()
    return machine.clock.run(lambda: story(machine))


@pytest.mark.requirement("E6")
def test_leases_are_told_by_a_clock_that_goes_on_while_the_machine_sleeps():
    source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(source)
    assert before <= lease_time() <= time.clock_gettime(source)
    assert MemoryJournal()._monotonic is lease_time


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.parametrize("healthy", [0, 1, 5])
def test_who_can_not_renew_lets_go_while_the_claim_is_still_good(how, healthy):
    async def story(machine):
        claim = await machine.claim()
        holding = asyncio.ensure_future(hold(machine.journal, claim, machine.clock.sleep))
        await asyncio.sleep(healthy * PERIOD + PERIOD / 2)
        assert not holding.done()
        machine.journal.how = how
        await holding
        assert machine.journal.still_mine(claim)
        assert isinstance(await machine.journal.claim("r", "b", LEASE), Held)

    on_a_machine(story)


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_one_renewal_that_goes_wrong_is_made_up_for_by_the_next(how):
    async def story(machine):
        claim = await machine.claim()
        holding = asyncio.ensure_future(hold(machine.journal, claim, machine.clock.sleep))
        for _ in range(5):
            machine.journal.how = how
            count = machine.journal.renewed
            while machine.journal.renewed == count:
                await asyncio.sleep(1)
            machine.journal.how = "well"
            await asyncio.sleep(2 * PERIOD)
            assert machine.journal.still_mine(claim)
        assert not holding.done()
        holding.cancel()

    on_a_machine(story)


@pytest.mark.requirement("E6")
def test_a_claim_that_ran_out_in_a_sleep_is_good_again_only_if_nobody_took_it():
    async def story(machine):
        free, taken = await machine.claim("free"), await machine.claim("taken")
        machine.slept += 10 * LEASE
        assert not machine.journal.still_mine(free)
        await machine.claim("taken", "b")
        assert await is_held(machine.journal, free)
        assert machine.journal.still_mine(free)
        assert not await is_held(machine.journal, taken)

    on_a_machine(story)


class Sleeper(Rehearsal):
    """Calls a tool, and the machine goes to sleep before the call is whole."""

    def __init__(self, machine, meanwhile):
        super().__init__(machine.clock.sleep)
        self._machine = machine
        self._meanwhile = meanwhile
        self._replies = iter((called(("c1", "shell", '{"command":"x"}')), said("Done.")))

    async def attempt(self, route, request, stop):
        reply = next(self._replies)
        self._machine.slept += 10 * LEASE
        await self._meanwhile(self._machine)
        yield list(reply.events)


class Counting(Tools):
    def __init__(self):
        self.ran = 0

    async def run(self, call, key, said, stop, seen=None):
        self.ran += 1
        return ToolOutcome("finished", "ok")


async def nothing(machine):
    pass


async def takeover(machine):
    await machine.claim("r2", "another process")


def runs_on(machine, tools, meanwhile):
    environment = Environment("a", machine.lease_time, machine.clock.sleep, numbered())
    model = Sleeper(machine, meanwhile)
    return Runs(machine.journal, RunRules(POLICY), model, lambda run: tools, environment)


@pytest.mark.requirement("E6", "D3")
def test_a_run_goes_on_after_a_sleep_of_the_machine():
    async def story(machine):
        tools = Counting()
        running = await runs_on(machine, tools, nothing).start("do it")
        assert (await running.outcome()).kind == "completed"
        assert tools.ran == 1

    on_a_machine(story)


@pytest.mark.requirement("E6", "D3")
def test_a_process_that_wakes_after_another_took_its_run_over_starts_and_writes_nothing():
    async def story(machine):
        tools = Counting()
        running = await runs_on(machine, tools, takeover).start("do it")
        with pytest.raises(ClaimLost):
            await running.outcome()
        assert tools.ran == 0
        facts = [decode(item.data) for item in await machine.journal.read(running.run)]
        assert not any(isinstance(fact, ToolStarted) for fact in facts)

    on_a_machine(story)


class Gated(MemoryJournal):
    """A journal that says that a claim is lost when somebody opens the gate."""

    def __init__(self, clock):
        super().__init__(monotonic=clock.now, wall=clock.now)
        self.gate, self.asked = asyncio.Event(), asyncio.Event()

    async def renew(self, claim, seconds):
        if self.asked.is_set():
            return await super().renew(claim, seconds)
        self.asked.set()
        await self.gate.wait()
        return False


class SpeaksWhenAsked(Rehearsal):
    def __init__(self):
        super().__init__()
        self.gate = asyncio.Event()

    async def attempt(self, route, request, stop):
        yield [TextDelta(0, "word")]
        await self.gate.wait()
        yield [FinishNoted("stop", "stop"), Ended("the end")]


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("passes", range(8))
def test_a_claim_that_is_lost_as_its_run_ends_does_not_break_off_who_waits_for_the_end(passes):
    """Given a renewal that fails so many passes of the loop before the last word comes, then the run has its
    end, whichever of the two is heard of first, and nobody is told that it was given up."""
    clock = VirtualClock()

    async def story():
        journal, model = Gated(clock), SpeaksWhenAsked()
        runs = Runs(journal, RunRules(POLICY), model, lambda run: Counting(), clock.environment("a"))
        running = await runs.start("say it")
        await journal.wait(running.run, 2)
        await journal.asked.wait()
        journal.gate.set()
        for _ in range(passes):
            await asyncio.sleep(0)
        model.gate.set()
        assert (await running.outcome()).kind == "completed"
        (row,) = await journal.streams()
        assert (row.status, row.holder) == ("completed", "")

    clock.run(story)


class Away(Sick):
    """Its renewals fail while it is away, and it says so if it `tells`."""

    tells = True

    def trouble(self):
        is_told = self.tells and self.how == "fails"
        return Trouble("away", "it cannot be reached", 0.0) if is_told else None


class SilentAtFirst(Rehearsal):
    """Says nothing until it has been asked so often."""

    def __init__(self, machine, times):
        super().__init__(machine.clock.sleep)
        self.asked, self._times = 0, times

    async def attempt(self, route, request, stop):
        self.asked += 1
        if self.asked < self._times:
            await asyncio.get_running_loop().create_future()
        yield list(said("Done.").events)


@pytest.mark.requirement("K6", "G5")
@pytest.mark.parametrize(
    "tells, end", [(True, "completed"), (False, "failed")], ids=["the store fails", "it crashes"]
)
def test_a_store_that_is_away_again_and_again_is_not_taken_for_a_run_that_crashes(tells, end):
    async def story(machine):
        times = POLICY.max_recoveries + 4
        journal = machine.journal = Away(monotonic=machine.lease_time, wall=machine.lease_time)
        journal.tells = tells
        environment = Environment("a", machine.lease_time, machine.clock.sleep, numbered())
        model = SilentAtFirst(machine, times)
        runs = Runs(journal, RunRules(POLICY), model, lambda run: Counting(), environment)
        running = await runs.start("do it")
        for number in range(1, times):
            while model.asked < number and not running.done:
                await machine.clock.advance(1.0)
            journal.how = "fails"
            await machine.clock.advance(LEASE)
            journal.how = "well"
        assert (await running.outcome()).kind == end

    on_a_machine(story)
