"""The beginning of a run and its first question are one append, and nobody outside hears of it before it is stored."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from support.turns.turn_facts import called, said

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade, StorageFailed
from turnbuckle.lab.rehearsal.model import Rehearsal
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.runs import NewRun, RunRules, Runs
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import (
    ModelAsked,
    RunEnded,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
    decode,
)
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.ids import RouteName, RunId
from turnbuckle.vocab.origin import CANCEL, DETACH, SECOND_CHANCE, Origin
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.vocab.tooling import ToolOutcome

POLICY = Policy((RouteFacts(RouteName("r"), "openai_chat", "m"),))
PASSES = 50


class SlowStore(MemoryJournal):
    """Stores the beginning of a run only when the gate is open, or fails then."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None
        self.grades: list[tuple[Grade, int]] = []
        self.when_stored: Callable[[str], Awaitable[None]] | None = None

    async def append(self, stream: str, items: Any, **more: Any) -> int:
        self.reached.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.grades.append((more["grade"], len(items)))
        head = await super().append(stream, items, **more)
        if self.when_stored is not None:
            await self.when_stored(stream)
        return head


class Told(Rehearsal):
    """Notes when it is asked, and when it is left. Calls a tool, and then says that it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.closed = 0
        self.hold: asyncio.Event | None = None
        self.when_sent: Callable[[], None] = lambda: None
        self._replies = iter((called(("c1", "shell", '{"command":"x"}')), said("Done.")))

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        self.asked += 1
        self.when_sent()
        try:
            if self.hold is not None:
                await self.hold.wait()
            yield list(next(self._replies).events)
        finally:
            self.closed += 1


class Tools:
    def __init__(self) -> None:
        self.ran = 0

    async def ready(self) -> None:
        return None

    def specs(self) -> tuple[()]:
        return ()

    async def preview(self, *_: Any) -> tuple[()]:
        return ()

    async def changes(self, *_: Any) -> tuple[()]:
        return ()

    async def refuse(self, *_: Any) -> None:
        return None

    async def run(self, *_: Any) -> ToolOutcome:
        self.ran += 1
        return ToolOutcome("finished", "ok")

    async def probe(self, *_: Any) -> str:
        return "unknown"


class Place:
    """One process on a slow store."""

    def __init__(self, clock: VirtualClock) -> None:
        self.journal, self.model, self.tools = SlowStore(), Told(), Tools()
        self.seen: list[type] = []
        self.runs = Runs(
            self.journal,
            RunRules(POLICY),
            self.model,
            lambda run: self.tools,
            clock.environment("one"),
            watch=lambda run, fact: self.seen.append(type(fact)),
        )

    async def begin(self, origin: Origin) -> Any:
        self.journal.gate.set()
        return await self.runs.begin(NewRun((task_message("do it"),), origin=origin))

    async def begun(self) -> "asyncio.Task[Any]":
        """A run whose beginning is on its way to the store, after as much time as anybody may want."""
        beginning = asyncio.create_task(self.runs.start("do it"))
        await self.journal.reached.wait()
        for _ in range(PASSES):
            await asyncio.sleep(0)
        return beginning

    async def stored(self) -> list[type]:
        rows = await self.journal.streams()
        return [type(decode(item.data)) for row in rows for item in await self.journal.read(row.name)]


@pytest.mark.requirement("E1")
def test_a_beginning_is_one_append_and_no_model_is_asked_before_it_is_stored():
    clock = VirtualClock()

    async def main() -> bool:
        place = Place(clock)
        beginning = await place.begun()
        assert place.model.asked == 0
        assert await place.stored() == place.seen == []
        assert place.tools.ran == 0
        assert place.runs.all_live == ()
        assert not beginning.done()
        place.journal.gate.set()
        running = await beginning
        assert (await place.stored())[:2] == [RunStarted, ModelAsked]
        assert (await running.outcome()).kind == "completed"
        assert place.journal.grades[0] == (Grade.SYNCED, 2)  # both in one append
        facts = await place.stored()
        assert facts == place.seen
        assert (facts[2], facts[-1]) == (Streamed, RunEnded)
        assert (place.tools.ran, facts.count(ToolStarted)) == (1, 1)
        return True

    assert clock.run(main, quiet=0)


@pytest.mark.requirement("E10")
def test_a_beginning_that_cannot_be_stored_is_told_and_its_model_is_never_asked():
    clock = VirtualClock()

    async def main() -> bool:
        place = Place(clock)
        beginning = await place.begun()
        place.journal.error = StorageFailed("disk I/O error")
        place.journal.gate.set()
        with pytest.raises(StorageFailed):
            await beginning
        assert place.model.asked == 0
        assert await place.stored() == place.seen == []
        assert (place.tools.ran, place.runs.all_live) == (0, ())
        assert isinstance(await place.journal.claim("r2", "another", 60), Claim)
        return True

    assert clock.run(main, quiet=0)


@pytest.mark.requirement("E10")
def test_whoever_begins_and_goes_away_before_it_is_stored_leaves_nothing_at_work():
    clock = VirtualClock()

    async def main() -> bool:
        place = Place(clock)
        beginning = await place.begun()
        beginning.cancel()
        await asyncio.wait({beginning})
        assert beginning.cancelled()
        assert (place.model.asked, place.tools.ran, place.runs.all_live) == (0, 0, ())
        place.journal.gate.set()
        assert isinstance(await place.journal.claim(RunId("r2"), "another", 60), Claim)
        return True

    assert clock.run(main, quiet=0)


def test_the_model_is_asked_before_onlookers_hear_of_the_run_and_they_hear_all_in_order():
    clock = VirtualClock()

    async def main() -> bool:
        place = Place(clock)
        heard: list[list[type]] = []
        place.model.when_sent = lambda: heard.append(list(place.seen))
        beginning = await place.begun()
        place.journal.gate.set()
        running = await beginning
        await running.outcome()
        assert heard[0] == []
        assert heard[1][:2] == [RunStarted, ModelAsked]
        assert await place.stored() == place.seen
        return True

    assert clock.run(main, quiet=0)


def test_onlookers_hear_of_a_run_whose_model_says_nothing():
    clock = VirtualClock()

    async def main() -> bool:
        place = Place(clock)
        silent = asyncio.Event()
        place.model.hold = silent
        beginning = await place.begun()
        place.journal.gate.set()
        running = await beginning
        for _ in range(PASSES):
            await asyncio.sleep(0)
        assert place.model.asked == 1
        assert place.seen == [RunStarted, ModelAsked]
        silent.set()
        await running.outcome()
        return True

    assert clock.run(main, quiet=0)


def test_whoever_reads_has_the_last_words_before_anything_is_made_of_them():
    clock = VirtualClock()

    async def main() -> bool:
        place = Place(clock)
        looks: list[type] = []
        onlookers: list[list[type]] = []

        async def read(run: RunId) -> None:
            after = 0
            while not looks or looks[-1] is not RunEnded:
                await place.journal.wait(run, after)
                items = await place.journal.read(run, after)
                after = items[-1].seq
                looks.append(type(decode(items[-1].data)))
                onlookers.append(list(place.seen))

        beginning = await place.begun()
        place.journal.gate.set()
        running = await beginning
        await asyncio.gather(read(running.run), running.outcome())
        assert looks[-2:] == [Streamed, RunEnded]
        assert onlookers[-2][-1] is ModelAsked  # nobody else had made anything of these words
        assert place.seen[-2:] == [Streamed, RunEnded]
        return True

    assert clock.run(main, quiet=0)


ONE_OFF = Origin("chat", on_disconnect=CANCEL, repeatable=True)
ORIGINS = {
    "a plain request": (ONE_OFF, Grade.FLUSHED),
    "with a key or a session": (Origin("chat", on_disconnect=CANCEL), Grade.SYNCED),
    "whose client may come back": (
        Origin("chat", on_disconnect=SECOND_CHANCE, repeatable=True),
        Grade.SYNCED,
    ),
    "that goes on alone": (Origin("responses", on_disconnect=DETACH, repeatable=True), Grade.SYNCED),
    "in the background": (
        Origin("responses", on_disconnect=CANCEL, repeatable=True, background=True),
        Grade.SYNCED,
    ),
    "of the runs API": (Origin(), Grade.SYNCED),
}


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("which", ORIGINS)
def test_only_a_run_that_nobody_can_come_back_for_begins_without_the_disk(which):
    clock = VirtualClock()
    origin, grade = ORIGINS[which]

    async def main() -> bool:
        place = Place(clock)
        running = await place.begin(origin)
        await running.outcome()
        grades = place.journal.grades
        assert grades[0] == (grade, 2)
        assert grades[-1][0] is Grade.SYNCED  # its end waits for the disk, whoever asked
        return True

    assert clock.run(main, quiet=0)


@pytest.mark.requirement("E3", "D2")
def test_a_loss_of_power_leaves_nothing_of_such_a_run_or_all_up_to_its_last_intent_result_or_end():
    clock = VirtualClock()

    async def main() -> list[tuple[int, int]]:
        place = Place(clock)
        left: list[tuple[int, int]] = []

        async def look(stream: str) -> None:
            stored = [type(decode(item.data)) for item in await place.journal.read(stream)]
            survivor = place.journal.after_power_loss()
            kept = [type(decode(item.data)) for item in await survivor.read(stream)]
            assert kept == stored[: len(kept)]
            sure = [at for at, kind in enumerate(stored, 1) if kind in (ToolStarted, ToolFinished, RunEnded)]
            assert len(kept) >= max(sure, default=0)
            left.append((len(stored), len(kept)))

        place.journal.when_stored = look
        running = await place.begin(ONE_OFF)
        await running.outcome()
        return left

    left = clock.run(main, quiet=0)
    assert left[0] == (2, 0)  # nothing of it, not half of it
    assert left[-1][0] == left[-1][1]
