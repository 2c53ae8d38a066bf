"""A session whose history cannot be stored or read: the message is refused with words, and the session goes on."""

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Damaged, StorageFailed, TooLarge
from turnbuckle.runtime.conversation import fold_run
from turnbuckle.runtime.runs import READING
from turnbuckle.runtime.session_messages import IncomingMessage
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.sessions import SESSION, Plot, SessionWorld, message
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message, TextPart, text_of

MOST = 40_000
MOST_OF_A_RUN = 12_000
LONG = " ".join(f"w{number * 7919 % 100_000}" for number in range(2300))


class Narrow(MemoryJournal):
    """Takes smaller items than others do, and has lost a stream to damage."""

    damaged = ""
    fails = ""
    times = 1

    async def append(self, stream, items, **more):
        largest = max(map(len, items), default=0)
        if largest > (MOST if stream == SESSION else MOST_OF_A_RUN):
            raise TooLarge(largest)
        if stream == self.fails and self.times:
            self.times -= 1
            raise StorageFailed("the connection is gone")
        return await super().append(stream, items, **more)

    async def read(self, stream, after=0, limit=500):
        if stream == self.damaged:
            raise Damaged(stream, 1, "the checksum does not fit")
        return await super().read(stream, after, limit)


def staged(story):
    clock = VirtualClock()

    async def main():
        world = SessionWorld(Plot(()), clock)
        world.journal = Narrow(monotonic=clock.now, wall=clock.now)
        await world.start()
        try:
            return await story(world)
        finally:
            await world.end()

    return clock.run(main, quiet=0)


async def say(world, text, run, busy=None, instructions=""):
    first = (Message("system", (TextPart(instructions),)),) if instructions else ()
    said = IncomingMessage((message(text),), busy, first=first, anew=bool(first), run=RunId(run))
    return await world.in_worker(lambda worker: worker.say(said))


async def in_line(worker):
    return [message.run for message in worker.state.waiting]


async def outcome(world, run):
    await world.pass_time(60)
    return (await fold_run(world.journal, RunId(run), READING)).outcome


@pytest.mark.requirement("E10")
def test_what_is_too_large_to_be_stored_is_refused_with_words_and_does_not_hold_up_the_next():
    async def story(world):
        await say(world, "short", "r1")
        await world.pass_time(60)
        with pytest.raises(TooLarge):
            await say(world, "short", "r2", instructions=LONG)
        refused = await outcome(world, "r2")
        await say(world, "short", "r3")
        third = await outcome(world, "r3")
        await world.in_worker(lambda worker: worker.begin_anew("new", "somebody"))
        await say(world, "short", "r4")
        return refused, third, await outcome(world, "r4")

    refused, third, anew = staged(story)
    assert refused.kind == "failed"
    assert "too large to be stored" in refused.why
    assert "/new" in refused.why
    assert (third.kind, anew.kind) == ("completed", "completed")


@pytest.mark.requirement("E10")
def test_so_is_one_that_waits_in_the_queue():
    async def story(world):
        await say(world, "short", "r1")
        await say(world, "short", "r2", "queue", LONG)
        await say(world, "short", "r3", "queue")
        return [await outcome(world, run) for run in ("r1", "r2", "r3")]

    first, second, third = staged(story)
    assert (first.kind, second.kind, third.kind) == ("completed", "failed", "completed")
    assert "too large to be stored" in second.why


@pytest.mark.requirement("G1", "K2")
def test_the_run_of_a_message_that_is_taken_back_is_known_also_if_the_store_fails_for_a_moment():
    async def story(world):
        await say(world, "short", "r1")
        await say(world, "short", "r2", "queue")
        world.journal.fails = "r2"
        taken = await world.in_worker(lambda worker: worker.withdraw(RunId("r2"), "taken back"))
        return taken, (await fold_run(world.journal, RunId("r2"), READING)).outcome.kind

    assert staged(story) == (True, "cancelled")


@pytest.mark.requirement("G1", "K2")
@pytest.mark.parametrize("way", ["withdraw", "stop", "new"])
def test_no_message_is_taken_back_while_its_run_cannot_be_stored(way):
    """The session would say so, and whoever follows the run would hear that there is none."""
    ways = {
        "withdraw": lambda worker: worker.withdraw(RunId("r2"), "taken back"),
        "stop": lambda worker: worker.stop("somebody"),
        "new": lambda worker: worker.begin_anew("new", "somebody"),
    }

    async def story(world):
        await say(world, "short", "r1")
        await say(world, "short", "r2", "queue")
        world.journal.fails, world.journal.times = "r2", 2
        with pytest.raises(StorageFailed):
            await world.in_worker(ways[way])
        waiting = await world.in_worker(in_line)
        await world.in_worker(ways[way])
        return waiting, (await fold_run(world.journal, RunId("r2"), READING)).outcome.kind

    assert staged(story) == (["r2"], "cancelled")


@pytest.mark.requirement("G1", "K2")
def test_what_can_never_begin_is_refused_as_soon_as_that_can_be_stored():
    async def story(world):
        await say(world, "short", "r1")
        await world.pass_time(60)
        world.journal.fails, world.journal.times = "r2", 2
        with pytest.raises(TooLarge):
            await say(world, "short", "r2", instructions=LONG)
        return await outcome(world, "r2")

    assert "too large to be stored" in staged(story).why


@pytest.mark.requirement("E9")
def test_a_conversation_may_become_larger_than_anything_that_is_stored_in_one_piece():
    words = LONG[: MOST_OF_A_RUN // 2]

    async def story(world):
        for number in range(9):
            await say(world, words, f"r{number}")
            await world.pass_time(60)
        last = await world.service.started(RunId("r8"))
        return (await world.runs.conversations.before(last)).messages, await outcome(world, "r8")

    before, last = staged(story)
    assert last.kind == "completed"
    assert sum(text_of(one.parts) == words for one in before) == 8
    assert 8 * len(words) > MOST


@pytest.mark.requirement("E10")
def test_damage_in_the_last_run_is_told_for_every_message_until_a_new_conversation_begins():
    async def story(world):
        await say(world, "hello", "r1")
        await world.pass_time(60)
        world.journal.damaged = "r1"
        told = []
        for run in ("r2", "r3"):
            with pytest.raises(Damaged):
                await say(world, "and now?", run)
            told.append(await outcome(world, run))
        await world.in_worker(lambda worker: worker.begin_anew("new", "somebody"))
        await say(world, "hello again", "r4")
        return told, await outcome(world, "r4"), world.manager.of(SESSION)

    told, anew, _ = staged(story)
    assert [one.kind for one in told] == ["failed", "failed"]
    assert all("cannot be read" in one.why and "/new" in one.why for one in told)
    assert anew.kind == "completed"
