"""Runs by name: started, claimed, taken over, resumed and listed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from turnbuckle.errors import ClaimLost, RunHeld, RunUnknown
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim
from turnbuckle.lab.rehearsal.model import Rehearsal
from turnbuckle.narrate.questions import title_of
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.context import opening
from turnbuckle.runtime.conversation import fold_run
from turnbuckle.runtime.find_run import find_run
from turnbuckle.runtime.lease import LEASE
from turnbuckle.runtime.ports import Publish, Seen, Tools
from turnbuckle.runtime.runs import READING, NewRun, RunRules, Runs
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import Fact, RunClaimed, RunEnded, RunLeft, RunStarted, StopAsked, Streamed, decode
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Cut, Ended, Event, FinishNoted, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart, text_of, title_words
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.vocab.tooling import ToolOutcome

POLICY = Policy((RouteFacts(RouteName("r"), "openai_chat", "m"),))


class NoTools(Tools):
    async def refuse(self, call: SoundCall) -> ToolOutcome | None:
        return ToolOutcome("not_started")

    async def run(
        self, call: SoundCall, key: str, publish: Publish, stop: StopSignal, seen: Seen = None
    ) -> ToolOutcome:
        return ToolOutcome("finished")


class Hangs(Rehearsal):
    """Says a word and then nothing until it is stopped."""

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        yield [TextDelta(0, "word")]
        await stop.wait()
        yield [Cut(failure("cancelled", "stopped"))]


class Harness:
    """A journal, a clock, and processes that share them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.journal = MemoryJournal(monotonic=self.clock.now, wall=self.clock.now)

    def process(self, name: str, model: Rehearsal | None = None) -> Runs:
        return Runs(
            self.journal,
            RunRules(POLICY, opening("the workspace")),
            model or Rehearsal(self.clock.sleep),
            lambda run: NoTools(),
            self.clock.environment(name),
        )

    async def facts(self, run: RunId) -> list[Fact]:
        return [decode(item.data) for item in await self.journal.read(run)]


def scenario(main: Callable[[Harness], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a coroutine over a fresh harness, in virtual time."""

    def test() -> None:
        async def play() -> bool:
            await main(Harness())
            return True

        assert VirtualClock().run(play)  # what does not hold is told by the coroutine, which raises

    test.__name__ = main.__name__
    test.__doc__ = main.__doc__
    return test


@scenario
async def test_a_run_is_a_stream_with_a_session_a_title_and_a_status(harness: Harness) -> None:
    runs = harness.process("a")
    running = await runs.start("  say\n hello ")
    assert (await running.outcome()).kind == "completed"
    (row,) = await harness.journal.streams()
    assert (row.name, row.kind, row.parent, row.title, row.status) == (
        "r2",
        "run",
        "s1",
        "say hello",
        "completed",
    )
    assert row.holder == ""
    facts = await harness.facts(running.run)
    assert isinstance(facts[0], RunStarted)
    assert text_of(facts[0].messages[-1].parts) == "  say\n hello "
    assert isinstance(facts[-1], RunEnded)


async def _hung(harness: Harness, name: str = "a") -> Any:
    """A run that has said its word and hangs."""
    running = await harness.process(name, Hangs()).start("hang")
    await harness.journal.wait(running.run, 2)
    return running


@scenario
async def test_stop_ends_a_run_as_cancelled(harness: Harness) -> None:
    running = await _hung(harness)
    running.stop("somebody")
    assert (await running.outcome()).kind == "cancelled"


@scenario
async def test_a_run_that_somebody_drives_can_not_be_resumed(harness: Harness) -> None:
    running = await _hung(harness)
    with pytest.raises(RunHeld, match="a drives the run"):
        await harness.process("b").resume(running.run)
    await running.abandon()


@scenario
async def test_the_claim_is_renewed_for_as_long_as_the_run_takes(harness: Harness) -> None:
    running = await _hung(harness)
    await harness.clock.advance(LEASE * 20)
    with pytest.raises(RunHeld):
        await harness.process("b").resume(running.run)
    assert not running.done
    await running.abandon()


class LosesClaims(MemoryJournal):
    """A journal in which somebody else takes a claim as soon as it is to be renewed."""

    async def renew(self, claim: Claim, seconds: float) -> bool:
        await self.release(claim)
        await self.claim(claim.stream, "thief", seconds)
        return await super().renew(claim, seconds)


@pytest.mark.requirement("E6")
@scenario
async def test_a_driver_whose_claim_was_lost_stops_and_writes_nothing(harness: Harness) -> None:
    harness.journal = LosesClaims(monotonic=harness.clock.now, wall=harness.clock.now)
    running = await _hung(harness)
    before = await harness.facts(running.run)
    waiting = asyncio.create_task(running.outcome())
    await harness.clock.advance(LEASE)
    with pytest.raises(ClaimLost):
        await waiting
    assert await harness.facts(running.run) == before
    (row,) = await harness.journal.streams()
    assert row.holder == "thief"


@scenario
async def test_a_run_whose_process_let_go_is_unfinished_and_goes_on_elsewhere(harness: Harness) -> None:
    running = await _hung(harness)
    await running.abandon()
    other = harness.process("b")
    assert [row.name for row in await other.unfinished()] == [running.run]
    resumed = await other.resume(running.run)
    assert (await resumed.outcome()).kind == "completed"
    assert await other.unfinished() == []
    facts = await harness.facts(running.run)
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
@scenario
async def test_exactly_the_runs_without_an_end_are_unfinished(harness: Harness) -> None:
    runs = harness.process("a")
    for _ in range(60):
        await (await runs.start("hello")).outcome()
    hanging = [await _hung(harness, f"p{number}") for number in range(3)]
    for one in hanging:
        await one.abandon()
    assert {row.name for row in await runs.unfinished()} == {one.run for one in hanging}


@scenario
async def test_a_full_store_is_waited_for_and_the_run_goes_on_by_itself(harness: Harness) -> None:
    running = await _hung(harness)
    harness.journal.room = 0
    running.stop("ann", keeps=True)
    await harness.clock.advance(LEASE * 3)
    assert not running.done
    trouble = harness.journal.trouble()
    assert trouble is not None
    assert trouble.fault == "full"
    harness.journal.room = 1 << 20
    await harness.clock.advance(10)
    assert (await running.outcome()).kind == "cancelled"
    assert harness.journal.trouble() is None
    wishes = [fact for fact in await harness.facts(running.run) if isinstance(fact, StopAsked)]
    assert [(wish.by, wish.keeps) for wish in wishes] == [("ann", True)]  # it is still an interrupt


@scenario
async def test_a_session_goes_on_with_its_whole_history(harness: Harness) -> None:
    runs = harness.process("a")
    first = await runs.start("hello")
    await first.outcome()
    latest = await runs.latest()
    assert latest is not None
    second = await runs.start("hello again", SessionId(latest.parent))
    await second.outcome()
    before = (await fold_run(harness.journal, first.run, READING)).messages
    (started, *_) = await harness.facts(second.run)
    assert isinstance(started, RunStarted)
    assert (started.base, len(started.messages)) == (first.run, 1)
    assert (await runs.conversations.before(started)).messages == before
    assert second.turn.messages[: len(before)] == before


@scenario
async def test_a_run_is_found_by_a_part_of_its_id_that_fits_only_one(harness: Harness) -> None:
    runs = harness.process("a")
    for _ in range(6):
        await (await runs.start("hello")).outcome()
    assert await find_run(harness.journal, "r12") == "r12"
    assert await find_run(harness.journal, "10") == "r10"
    with pytest.raises(RunUnknown, match="fits 6 runs"):
        await find_run(harness.journal, "r")
    with pytest.raises(RunUnknown, match="there is no run x"):
        await find_run(harness.journal, "x")
    with pytest.raises(RunUnknown):
        await runs.resume(RunId("x"))


def test_a_title_has_no_text_of_attached_files_and_a_search_finds_both() -> None:
    said = (Message("user", (TextPart("say hello"), TextPart("notes.txt:\n```\na note\n```"))),)
    assert NewRun(said).title == title_of(said) == "say hello"
    assert "hello\n\nnotes" in NewRun(said).words
    assert "a note" in NewRun(said).words


@pytest.mark.parametrize(
    "text, title",
    [
        ("mend this:\n\n~~~ python\nx = 1\n~~~\nsoon", "mend this:"),
        ("read a.txt\n\na.txt:\n````\n```\n````", "read a.txt a.txt:"),
        ("```\nx = 1\n```", "``` x = 1 ```"),  # better than no title
        ("say `a` and ```b```", "say `a` and ```b```"),
    ],
)
def test_a_title_ends_before_a_block_of_code(text: str, title: str) -> None:
    said = (Message("user", (TextPart(text),)),)
    assert NewRun(said).title == title_of(said) == title


@pytest.mark.requirement("R1")
def test_a_title_is_looked_for_at_the_beginning_of_a_message_however_long_it_is() -> None:
    parts = (TextPart(" \n"), TextPart("\n  Look. " + "x" * 1_000_000 + "\n```\ncode\n```"))
    assert title_words(parts) == "Look. " + "x" * 9_994


class BreaksWhenCancelled(Hangs):
    """Code that makes another error of being cancelled, as code of others does at times. The second time it
    says a word, so that whoever goes on with it comes to an end."""

    asked = 0

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        self.asked += 1
        yield [TextDelta(0, "word")]
        if self.asked == 1:
            try:
                await stop.wait()
            except asyncio.CancelledError:
                raise RuntimeError("the connection broke") from None
        yield [FinishNoted("stop", "stop"), Ended("the end")]


@scenario
async def test_a_run_that_is_let_go_of_does_not_go_on_because_something_broke_meanwhile(
    harness: Harness,
) -> None:
    model = BreaksWhenCancelled()
    runs = harness.process("a", model)
    running = await runs.start("hang")
    await harness.journal.wait(running.run, 2)
    await running.leave("the server was stopped")
    assert (model.asked, runs.live(running.run)) == (1, None)
    (row,) = await harness.journal.streams()
    assert (row.status, row.holder) == ("running", "")
    assert isinstance((await harness.facts(running.run))[-1], RunLeft)
