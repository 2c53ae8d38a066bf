"""That a run waits is stored once for all its readers, by whoever drives it, and the more seldom the longer a person takes."""

import itertools

import pytest
from msgspec.structs import replace
from support.runs.approval_runs import HANG, HELLO, POLICY, SHELL, SlowJournal, call, run_scenario

from turnbuckle.runtime.silence import LONGEST, Silence, pause
from turnbuckle.turn.facts import RunEnded, RunLeft, Streamed, Waited
from turnbuckle.vocab.ids import RunId

EVERY = 30.0
DAY = 86_400
PATIENT = replace(POLICY, answer_seconds=None)


@pytest.mark.requirement("F2", "F4")
@pytest.mark.parametrize(
    "every, times, person, seconds",
    [
        (30.0, 0, False, 30.0),
        (30.0, 1_000, False, 30.0),
        (30.0, 0, True, 30.0),
        (30.0, 1, True, 60.0),
        (30.0, 2, True, 120.0),
        (30.0, 3, True, 240.0),
        (30.0, 100_000, True, 240.0),
        (100.0, 2, True, 200.0),
        (7.0, 9, True, 238.0),
        (500.0, 7, True, 500.0),
    ],
)
def test_a_person_is_waited_for_ever_more_quietly_and_anything_else_as_often_as_it_is_set(
    every, times, person, seconds
):
    assert pause(every, times, person=person) == seconds


class Readers:
    """So many readers of one run, of whom each tells at every look for how long it got nothing."""

    def __init__(self, harness, silence, run, count=3):
        self.harness, self.silence, self.run, self.count = harness, silence, run, count
        self.seen, self.framed = 0, harness.clock.now()

    async def look(self):
        for _ in range(self.count):
            self.silence.tell(self.run, self.harness.clock.now() - self.framed, self.harness.clock.now())
        await self.silence.settled()
        waits = len(await self.harness.of(self.run, Waited))
        if waits > self.seen:
            self.seen, self.framed = waits, self.harness.clock.now()

    async def watch(self, seconds, each=10.0):
        for _ in range(int(seconds // each)):
            await self.harness.clock.advance(each)
            await self.look()
        return await self.harness.of(self.run, Waited)


def silence_of(harness, runs):
    return Silence(runs.live, every=EVERY, wall=harness.clock.now)


@pytest.mark.requirement("F2", "F4")
@pytest.mark.parametrize("readers", [1, 3, 20])
def test_all_readers_of_a_silent_model_share_one_fact_in_each_interval(readers):
    async def scenario(harness):
        runs = harness.process()
        running = await runs.start("Do it.")
        await harness.until(running.run, Streamed)
        waits = await Readers(harness, silence_of(harness, runs), running.run, readers).watch(300)
        running.stop()
        await running.outcome()
        assert [later.at - one.at for one, later in itertools.pairwise(waits)] == [EVERY] * 9

    run_scenario(scenario, HANG, journal=SlowJournal)


@pytest.mark.requirement("D8", "F2", "F4")
def test_a_day_of_waiting_for_a_person_is_a_few_hundred_facts_of_which_no_two_are_too_far_apart():
    async def scenario(harness):
        runs = harness.process()
        running = await harness.asked(runs)
        waits = await Readers(harness, silence_of(harness, runs), running.run).watch(DAY, each=30.0)
        gaps = [later.at - one.at for one, later in itertools.pairwise(waits)]
        assert gaps[:3] == [60.0, 120.0, 240.0]
        assert max(gaps) <= LONGEST
        assert len(waits) <= DAY / LONGEST + 4
        assert await running.answer("a1-0", "allowed", "ann")
        assert (await running.outcome()).kind == "completed"

    run_scenario(scenario, call(SHELL), HELLO, policy=PATIENT)


@pytest.mark.requirement("F4")
def test_a_run_that_is_not_driven_here_is_left_alone():
    async def scenario(harness):
        runs, other = harness.process(), harness.process("b")
        running = await harness.asked(runs)
        readers = Readers(harness, silence_of(harness, other), running.run)
        assert await readers.watch(600) == []
        silence_of(harness, other).tell(RunId("unknown"), 100.0, 100.0)
        running.stop()
        await running.outcome()

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("E1", "F4")
@pytest.mark.parametrize("how", ["left", "ended"])
def test_nothing_is_noted_behind_the_last_word_of_a_run(how):
    async def scenario(harness):
        running = await harness.asked()
        await (running.leave("the server stops") if how == "left" else _stopped(running))
        assert not await running.note_wait(harness.clock.now())
        facts = await harness.facts(running.run)
        assert isinstance(facts[-1], RunLeft if how == "left" else RunEnded)

    run_scenario(scenario, call(SHELL), HELLO)


async def _stopped(running):
    running.stop()
    await running.outcome()


@pytest.mark.requirement("E5", "F4")
def test_a_store_without_room_costs_the_run_nothing_but_the_note():
    async def scenario(harness):
        runs = harness.process()
        running = await harness.asked(runs)
        harness.journal.full = 1
        readers = Readers(harness, silence_of(harness, runs), running.run)
        waits = await readers.watch(100)
        assert len(waits) == 1
        assert await running.answer("a1-0", "allowed", "ann")
        assert (await running.outcome()).kind == "completed"

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)
