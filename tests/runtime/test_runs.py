"""Runs by name: started, claimed, taken over, resumed and listed."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from turnbuckle.errors import ClaimLost, RunHeld, RunUnknown
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim
from turnbuckle.runtime.context import opening
from turnbuckle.runtime.rehearsal import Rehearsal
from turnbuckle.runtime.runs import LEASE, Runs, find_run, fold_run
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import Fact, RunClaimed, RunEnded, RunStarted, Streamed, decode
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Cut, Event, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome

POLICY = Policy((RouteFacts(RouteName("r"), "openai_chat", "m"),))


class NoTools:
    def specs(self) -> tuple[ToolSpec, ...]:
        return ()

    async def refuse(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolOutcome | None:
        return ToolOutcome("not_started")

    async def run(
        self,
        call_id: str,
        name: str,
        arguments: dict[str, Any],
        key: str,
        said: Callable[[str], None],
        stop: StopSignal,
    ) -> ToolOutcome:
        return ToolOutcome("finished")

    async def probe(self, name: str, arguments: dict[str, Any], key: str) -> str:
        return "unknown"


class Hangs(Rehearsal):
    """Says a word and then nothing until it is stopped."""

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        yield [TextDelta(0, "word")]
        await stop.wait()
        yield [Cut(failure("cancelled", "stopped"))]


class Stage:
    """A journal, a clock, and processes that share them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.journal = MemoryJournal(monotonic=self.clock.now, wall=self.clock.now)
        self._numbers = itertools.count(1)

    def process(self, name: str, model: Rehearsal | None = None) -> Runs:
        return Runs(
            self.journal,
            POLICY,
            model or Rehearsal(self.clock.sleep),
            lambda run: NoTools(),
            owner=name,
            wall=self.clock.now,
            sleep=self.clock.sleep,
            new_name=lambda kind: f"{kind}{next(self._numbers)}",
            opening=opening("the workspace"),
        )

    async def facts(self, run: RunId) -> list[Fact]:
        return [decode(item.data) for item in await self.journal.read(run)]


def scene(main: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a coroutine over a fresh stage, in virtual time."""

    def test() -> None:
        async def play() -> None:
            await main(Stage())

        VirtualClock().run(play)

    test.__name__ = main.__name__
    test.__doc__ = main.__doc__
    return test


@scene
async def test_a_run_is_a_stream_with_a_session_a_title_and_a_status(stage: Stage) -> None:
    runs = stage.process("a")
    running = await runs.start("  say\n hello ")
    assert (await running.outcome()).kind == "completed"
    (row,) = await stage.journal.streams()
    assert (row.name, row.kind, row.parent, row.title, row.status) == (
        "r2",
        "run",
        "s1",
        "say hello",
        "completed",
    )
    assert row.holder == ""
    facts = await stage.facts(running.run)
    assert isinstance(facts[0], RunStarted)
    assert text_of(facts[0].messages[-1].parts) == "  say\n hello "
    assert isinstance(facts[-1], RunEnded)


async def _hung(stage: Stage, name: str = "a") -> Any:
    """A run that has said its word and hangs."""
    running = await stage.process(name, Hangs()).start("hang")
    await stage.journal.wait(running.run, 2)
    return running


@scene
async def test_stop_ends_a_run_as_cancelled(stage: Stage) -> None:
    running = await _hung(stage)
    running.stop("somebody")
    assert (await running.outcome()).kind == "cancelled"


@scene
async def test_a_run_that_somebody_drives_can_not_be_resumed(stage: Stage) -> None:
    running = await _hung(stage)
    with pytest.raises(RunHeld, match="a drives the run"):
        await stage.process("b").resume(running.run)
    await running.abandon()


@scene
async def test_the_claim_is_renewed_for_as_long_as_the_run_takes(stage: Stage) -> None:
    running = await _hung(stage)
    await stage.clock.advance(LEASE * 20)
    with pytest.raises(RunHeld):
        await stage.process("b").resume(running.run)
    assert not running.done
    await running.abandon()


class LosesClaims(MemoryJournal):
    """A journal in which somebody else takes a claim as soon as it is to be renewed."""

    async def renew(self, claim: Claim, seconds: float) -> bool:
        await self.release(claim)
        await self.claim(claim.stream, "thief", seconds)
        return await super().renew(claim, seconds)


@pytest.mark.requirement("E6")
@scene
async def test_a_driver_whose_claim_was_lost_stops_and_writes_nothing(stage: Stage) -> None:
    stage.journal = LosesClaims(monotonic=stage.clock.now, wall=stage.clock.now)
    running = await _hung(stage)
    before = await stage.facts(running.run)
    waiting = asyncio.create_task(running.outcome())
    await stage.clock.advance(LEASE)
    with pytest.raises(ClaimLost):
        await waiting
    assert await stage.facts(running.run) == before
    (row,) = await stage.journal.streams()
    assert row.holder == "thief"


@scene
async def test_a_run_whose_process_let_go_is_unfinished_and_goes_on_elsewhere(stage: Stage) -> None:
    running = await _hung(stage)
    await running.abandon()
    other = stage.process("b")
    assert [row.name for row in await other.unfinished()] == [running.run]
    resumed = await other.resume(running.run)
    assert (await resumed.outcome()).kind == "completed"
    assert await other.unfinished() == []
    facts = await stage.facts(running.run)
    assert sum(isinstance(fact, RunClaimed) for fact in facts) == 1
    said = [
        event.text
        for fact in facts
        if isinstance(fact, Streamed)
        for event in fact.events
        if isinstance(event, TextDelta)
    ]
    assert said[0] == "word"


@pytest.mark.requirement("G5")
@scene
async def test_exactly_the_runs_without_an_end_are_unfinished(stage: Stage) -> None:
    runs = stage.process("a")
    for _ in range(60):
        await (await runs.start("hello")).outcome()
    hanging = [await _hung(stage, f"p{number}") for number in range(3)]
    for one in hanging:
        await one.abandon()
    assert {row.name for row in await runs.unfinished()} == {one.run for one in hanging}


@scene
async def test_a_full_store_is_waited_for_and_the_run_goes_on_by_itself(stage: Stage) -> None:
    running = await _hung(stage)
    stage.journal.room = 0
    running.stop()
    await stage.clock.advance(LEASE * 3)
    assert not running.done
    trouble = stage.journal.trouble()
    assert trouble is not None
    assert trouble.fault == "full"
    stage.journal.room = 1 << 20
    await stage.clock.advance(10)
    assert (await running.outcome()).kind == "cancelled"
    assert stage.journal.trouble() is None


@scene
async def test_a_session_goes_on_with_its_whole_history(stage: Stage) -> None:
    runs = stage.process("a")
    first = await runs.start("hello")
    await first.outcome()
    latest = await runs.latest()
    assert latest is not None
    second = await runs.start("hello again", SessionId(latest.parent))
    await second.outcome()
    before = (await fold_run(stage.journal, first.run)).messages
    (started, *_) = await stage.facts(second.run)
    assert isinstance(started, RunStarted)
    assert (started.base, len(started.messages)) == (first.run, 1)
    assert await runs.conversations.before(started) == before
    assert second.turn.messages[: len(before)] == before
    assert await runs.history(SessionId("s-other")) == opening("the workspace")


@scene
async def test_a_run_is_found_by_a_part_of_its_id_that_fits_only_one(stage: Stage) -> None:
    runs = stage.process("a")
    for _ in range(6):
        await (await runs.start("hello")).outcome()
    assert await find_run(stage.journal, "r12") == "r12"
    assert await find_run(stage.journal, "10") == "r10"
    with pytest.raises(RunUnknown, match="fits 6 runs"):
        await find_run(stage.journal, "r")
    with pytest.raises(RunUnknown, match="there is no run x"):
        await find_run(stage.journal, "x")
    with pytest.raises(RunUnknown):
        await runs.resume(RunId("x"))
