"""What of a run survives a loss of power, and a store that is waited for."""

import asyncio

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Damaged, Grade, StorageFailed, StorageFull
from turnbuckle.runtime.log import RunLog, may_pass, pause
from turnbuckle.runtime.runs import READING
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import ModelAsked, RunStarted, StopAsked, Streamed, UserSpoke, decode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.vocab.events import TextDelta
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart

WORDS = (Message("user", (TextPart("and one more thing"),)),)
STARTED = RunStarted(0.0, RunId("run"), SessionId("s"), WORDS)
ASKED = ModelAsked(1.0, 1, RouteName("r"), "openai_chat", "m", "first")
STREAMED = Streamed(2.0, 1, (TextDelta(0, "seen"),))


async def opened(journal: MemoryJournal, **more) -> RunLog:
    claim = await journal.claim("run", "one", 60)
    assert isinstance(claim, Claim)
    log = RunLog(journal, claim, TurnFold(READING), **more)
    await log.append([STARTED])
    await log.append([ASKED])
    await log.append([STREAMED])
    return log


@pytest.mark.requirement("E3", "G1")
@pytest.mark.parametrize(
    "fact", [UserSpoke(3.0, "m1", WORDS), StopAsked(3.0, "somebody")], ids=lambda fact: type(fact).__name__
)
def test_what_a_person_said_into_a_turn_survives_a_loss_of_power(fact):
    clock = VirtualClock()

    async def main():
        journal = MemoryJournal()
        log = await opened(journal)
        before = len(await journal.after_power_loss().read("run"))
        await log.append([fact])
        left = [decode(item.data) for item in await journal.after_power_loss().read("run")]
        return before, left

    before, left = clock.run(main, quiet=0)
    assert before == 1  # what was streamed is only seen
    assert left == [STARTED, ASKED, STREAMED, fact]


class Unsure(MemoryJournal):
    """Says of one append that it failed, although it is stored."""

    lies = 0

    async def append(self, *args, **named):
        head = await super().append(*args, **named)
        if self.lies:
            self.lies -= 1
            raise StorageFailed("disk I/O error")
        return head


@pytest.mark.requirement("E10")
def test_what_a_store_has_stored_all_the_same_is_not_stored_twice():
    clock = VirtualClock()

    async def main():
        journal = Unsure()
        log = await opened(journal, sleep=clock.sleep)
        journal.lies = 1
        await log.append([StopAsked(3.0, "somebody")])
        return [decode(item.data) for item in await journal.read("run")]

    assert clock.run(main, quiet=0) == [STARTED, ASKED, STREAMED, StopAsked(3.0, "somebody")]


@pytest.mark.requirement("E10")
def test_a_store_is_waited_for_with_growing_pauses_that_stay_short():
    assert [pause(tries) for tries in (0, 1, 2, 3, 4, 100)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert [
        may_pass(error) for error in (StorageFull(""), OSError(), Damaged("", None, ""), RuntimeError())
    ] == [
        True,
        True,
        False,
        False,
    ]


class Later(MemoryJournal):
    """Stores bursts when it is told to, or does not."""

    def __init__(self):
        super().__init__()
        self.landing = None
        self.holds: asyncio.Event | None = None

    async def append(self, *args, **named):
        """Stored, and if it `holds` nobody hears of that."""
        head = await super().append(*args, **named)
        if self.holds is not None:
            self.holds.set()
            await asyncio.Event().wait()
        return head

    def append_soon(self, stream, item, *, after, epoch, landed):
        if self.landing is not None:
            return False

        async def land(error):
            self.landing = None
            head = after
            if error is None:
                head = await self.append(stream, [item], after=after, epoch=epoch, grade=Grade.FLUSHED)
            landed(head, error)

        self.landing = land
        return True


MORE = (TextDelta(0, " and more"),)


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("error", [None, StorageFull("no room")], ids=["stored", "not stored"])
def test_a_burst_is_taken_in_when_it_is_stored_and_whatever_comes_next_stands_behind_it(error):
    clock = VirtualClock()

    async def main():
        journal, watched = Later(), []
        log = await opened(journal, sleep=clock.sleep, watch=lambda run, fact: watched.append(fact))
        watched.clear()
        assert log.append_soon(3.0, 1, MORE)
        assert not log.append_soon(4.0, 1, MORE)  # one at a time
        stop = asyncio.ensure_future(log.append([StopAsked(5.0, "somebody")]))
        settled = asyncio.ensure_future(log.settled())
        await asyncio.sleep(0)
        assert (watched, stop.done(), settled.done()) == ([], False, False)
        await journal.landing(error)
        await asyncio.gather(stop, settled)
        return watched, [decode(item.data) for item in await journal.read("run")][3:]

    watched, stored = clock.run(main, quiet=0)
    assert watched == stored == [Streamed(3.0, 1, MORE), StopAsked(5.0, "somebody")]


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("tries", [1, 2], ids=["at once", "when it was tried again"])
def test_a_burst_that_cannot_be_taken_in_breaks_its_run_and_not_the_store(tries):
    clock = VirtualClock()

    def breaks(run, fact):
        if isinstance(fact, Streamed) and fact.events == MORE:
            raise RuntimeError("a mistake")

    async def main():
        journal = Later()
        log = await opened(journal, watch=breaks, sleep=clock.sleep)
        assert log.append_soon(3.0, 1, MORE)
        await journal.landing(None if tries == 1 else StorageFull("no room"))
        await clock.sleep(pause(0))
        assert not log.append_soon(4.0, 1, MORE)
        with pytest.raises(RuntimeError, match="a mistake"):
            await log.append([StopAsked(5.0, "somebody")])

    clock.run(main, quiet=0)


@pytest.mark.requirement("E1", "E10")
def test_a_burst_that_was_not_stored_is_stored_later_also_if_the_model_says_nothing_more():
    clock = VirtualClock()

    async def main():
        journal, watched = Later(), []
        log = await opened(journal, sleep=clock.sleep, watch=lambda run, fact: watched.append(fact))
        watched.clear()
        assert log.append_soon(3.0, 1, MORE)
        journal.room = 0  # and so it is for a while
        await journal.landing(StorageFull("no room"))
        await clock.sleep(20)
        before = list(watched)
        with pytest.raises(StorageFull):  # whoever can be told need not wait
            await log.append([StopAsked(4.0, "somebody")], waits=False)
        journal.room = 1 << 20
        await clock.sleep(pause(100))
        return before, watched, [decode(item.data) for item in await journal.read("run")][3:]

    before, watched, stored = clock.run(main, quiet=0)
    assert before == []
    assert watched == stored == [Streamed(3.0, 1, MORE)]


@pytest.mark.requirement("E1", "E10")
def test_nobody_stores_a_burst_of_a_run_that_was_let_go_of():
    clock = VirtualClock()

    async def main():
        journal = Later()
        log = await opened(journal, sleep=clock.sleep)
        assert log.append_soon(3.0, 1, MORE)
        await journal.landing(StorageFull("no room"))
        await log.let_go()
        await clock.sleep(100)
        return len(await journal.read("run"))

    assert clock.run(main, quiet=0) == 3


@pytest.mark.requirement("E1", "E2")
@pytest.mark.parametrize("reads", [True, False], ids=["read again", "only appended"])
def test_a_burst_whose_second_try_was_broken_off_and_stored_all_the_same_is_not_stored_twice(reads):
    clock = VirtualClock()

    async def main():
        journal = Later()
        log = await opened(journal)
        assert log.append_soon(3.0, 1, MORE)
        await journal.landing(StorageFull("no room"))
        journal.holds = asyncio.Event()
        stop = asyncio.ensure_future(log.append([StopAsked(4.0, "somebody")]))
        await journal.holds.wait()
        stop.cancel()  # the burst is stored, and nobody heard of it
        await asyncio.wait({stop})
        journal.holds = None
        if reads:
            await log.load()
        await log.append([StopAsked(5.0, "somebody")])
        return [decode(item.data) for item in await journal.read("run")][3:]

    assert clock.run(main, quiet=0) == [Streamed(3.0, 1, MORE), StopAsked(5.0, "somebody")]
