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
def test_a_burst_that_cannot_be_taken_in_breaks_its_run_and_not_the_store():
    clock = VirtualClock()

    def breaks(run, fact):
        if isinstance(fact, Streamed) and fact.events == MORE:
            raise RuntimeError("a mistake")

    async def main():
        journal = Later()
        log = await opened(journal, watch=breaks)
        assert log.append_soon(3.0, 1, MORE)
        await journal.landing(None)
        assert not log.append_soon(4.0, 1, MORE)
        with pytest.raises(RuntimeError, match="a mistake"):
            await log.append([StopAsked(5.0, "somebody")])

    clock.run(main, quiet=0)
