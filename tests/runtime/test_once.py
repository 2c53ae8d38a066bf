"""A request that is sent again is the same request: at the same moment, after any crash, after a restart."""

import asyncio
import functools
import itertools
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.errors import RunHeld
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade, IndexUpdate, StorageFull, StreamQuery
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.idempotency import (
    KIND,
    LEASE,
    MAX_KEY,
    PATIENCE,
    IdempotencyStore,
    KeyConflict,
    New,
    Replay,
    key_fault,
    stream_of,
)
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import RunId

DAY = 24 * 3600.0


class Killed(BaseException):
    """The process is no more."""


class Mortal:
    """A journal whose process dies before or after its call of this number."""

    def __init__(self, journal, call: int, side: str) -> None:
        self._journal = journal
        self._left = call
        self._side = side

    def __getattr__(self, name):
        inner = getattr(self._journal, name)

        async def call(*args, **kwargs):
            self._left -= 1
            if self._left < 0 or (self._left == 0 and self._side == "before"):
                raise Killed
            answer = await inner(*args, **kwargs)
            if self._left == 0:
                raise Killed
            return answer

        return call


class Slow:
    """A journal that gives way before and after each call, as a store does."""

    def __init__(self, journal, passes: int = 1) -> None:
        self._journal = journal
        self._passes = passes

    def __getattr__(self, name):
        async def call(*args, **kwargs):
            await self._give_way()
            answer = await getattr(self._journal, name)(*args, **kwargs)
            await self._give_way()
            return answer

        return call

    async def _give_way(self) -> None:
        for _ in range(self._passes):
            await asyncio.sleep(0)


class Harness:
    """A clock, a journal and the processes that share them."""

    def __init__(self) -> None:
        self.clock = VirtualClock(1000.0)
        self.journal = MemoryJournal(monotonic=self.clock.now, wall=self.clock.now)

    def process(self, name: str = "one", journal=None) -> IdempotencyStore:
        return IdempotencyStore(journal or self.journal, self.clock.environment(name))

    def run(self, scenario):
        return self.clock.run(scenario, quiet=0)


async def begin(journal, run: RunId) -> None:
    """What the runtime does to start a run: claim it and store its first fact."""
    claim = await journal.claim(run, "driver", 30)
    if not isinstance(claim, Claim):
        raise RunHeld(run)
    await asyncio.sleep(0)
    note = IndexUpdate(kind="run")
    await journal.append(
        run, [b"started"], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED, note=note
    )


@pytest.mark.requirement("F6")
def test_a_key_gives_one_run_and_another_request_with_it_is_told_so():
    harness = Harness()

    async def scenario():
        once = harness.process()
        assert await once.reserve("ann", "k", "body") == New(RunId("r1"))
        assert await once.reserve("ann", "k", "body") == Replay(RunId("r1"))
        assert await once.reserve("ann", "k", "another body") == KeyConflict()
        assert await once.reserve("ann", "k2", "body") == New(RunId("r2"))
        assert await once.reserve("bob", "k", "body") == New(RunId("r3"))  # keys belong to their user
        assert await once.reserve("ann", "k", "body") == Replay(RunId("r1"))
        restarted = harness.process("two", harness.journal.after_power_loss())
        assert await restarted.reserve("ann", "k", "body") == Replay(RunId("r1"))
        assert await restarted.reserve("bob", "k", "other") == KeyConflict()

    harness.run(scenario)


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("body", ["memory", "sqlite"])
def test_of_many_at_one_moment_one_is_the_first_and_one_starts(body, tmp_path: Path):
    async def main():
        journal = MemoryJournal() if body == "memory" else SqliteJournal(tmp_path)
        once = IdempotencyStore(journal, VirtualClock().environment("one"))
        started: list[RunId] = []

        async def request(key: str):
            reserved = await once.reserve("ann", key, "body")
            assert isinstance(reserved, New | Replay)
            async with once.starting(reserved.run) as fresh:
                if fresh:
                    started.append(reserved.run)
                    await begin(journal, reserved.run)
            return reserved

        answers = await asyncio.gather(*(request(f"key-{number % 3}") for number in range(60)))
        assert sum(isinstance(answer, New) for answer in answers) == 3
        assert len({answer.run for answer in answers}) == len(started) == len(set(started)) == 3
        for number in range(3):
            assert len({answer.run for answer in answers[number::3]}) == 1
        assert len(once._turns) == 0
        await journal.close()

    asyncio.run(asyncio.wait_for(main(), 100))


@pytest.mark.requirement("F6")
def test_a_restart_gives_the_same_run_from_the_file(tmp_path):
    async def life(number: int):
        journal = SqliteJournal(tmp_path)
        clock = VirtualClock(5.0)
        once = IdempotencyStore(
            journal, Environment(f"process {number}", clock.now, clock.sleep, lambda kind: f"{kind}{number}")
        )
        answer = await once.reserve("ann", "k", "body")
        assert [row.kind for row in await journal.streams()] == [KIND]
        assert await journal.streams(StreamQuery(kind="run")) == []  # a record is no run
        await journal.close()
        return answer

    run = RunId("r1")
    assert [asyncio.run(life(number)) for number in (1, 2, 3)] == [New(run), Replay(run), Replay(run)]


async def request(once: IdempotencyStore, journal) -> RunId:
    """What a server does with a request. Returns the run that the client is told of."""
    reserved = await once.reserve("ann", "k", "body")
    assert isinstance(reserved, New | Replay)
    async with once.starting(reserved.run) as fresh:
        if fresh:
            await begin(journal, reserved.run)
    return reserved.run


async def crash(harness: Harness, call: int, side: str, power_lost: bool) -> bool:
    """The process dies at this call. Whether it lived to the end, because there is no such call."""
    mortal = Mortal(harness.journal, call, side)
    told: list[RunId] = []
    try:
        told.append(await request(harness.process("one", mortal), mortal))
    except Killed:
        survived = False
    else:
        survived = True
    left = harness.journal.after_power_loss() if power_lost else harness.journal.after_kill()
    claimed = [row for row in await left.streams() if row.name.startswith("once:") and row.epoch >= 0]
    assert all(row.kind == KIND for row in claimed)  # so that whatever is left is swept one day
    told += [await request(harness.process(name, left), left) for name in ("two", "three")]
    assert len(set(told)) == 1
    assert [row.name for row in await left.streams(StreamQuery(kind="run"))] == told[:1]
    assert [item.data for item in await left.read(told[0])] == [b"started"]
    assert len(await left.streams()) == 2  # the run and its record, and nothing of an unknown kind
    return survived


@pytest.mark.requirement("F6", "E2")
@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_crash_at_any_point_leaves_one_run_that_is_started_once(side, power_lost):
    for call in itertools.count(1):
        harness = Harness()
        if harness.run(functools.partial(crash, harness, call, side, power_lost)):
            break
    assert call > 8


@pytest.mark.requirement("F6", "E3")
def test_a_run_that_was_told_to_anybody_survives_a_loss_of_power():
    harness = Harness()

    async def scenario():
        reserved = await harness.process().reserve("ann", "k", "body")
        left = harness.process("two", harness.journal.after_power_loss())
        assert await left.reserve("ann", "k", "body") == Replay(reserved.run)

    harness.run(scenario)


async def cancel(harness: Harness, passes: int) -> bool:
    """The first of two is cancelled after so many passes of the loop. Whether it was done by then."""
    once = harness.process("one", Slow(harness.journal))
    first = asyncio.create_task(once.reserve("ann", "k", "body"))
    second = asyncio.create_task(once.reserve("ann", "k", "body"))
    for _ in range(passes):
        await asyncio.sleep(0)
    finished = first.done()
    first.cancel()
    await asyncio.wait([first])
    answer = await second
    assert isinstance(answer, New | Replay)
    assert await once.reserve("ann", "k", "body") == Replay(answer.run)
    assert harness.clock.now() == 1000.0  # nobody had to wait for a claim to run out
    assert len(once._turns) == 0
    return finished


@pytest.mark.requirement("F6")
def test_whoever_is_cancelled_at_any_point_stands_in_nobodys_way():
    for passes in itertools.count():
        harness = Harness()
        if harness.run(functools.partial(cancel, harness, passes)):
            break
    assert passes > 8


@pytest.mark.requirement("F6")
def test_when_the_first_finds_no_room_the_second_need_not_wait():
    harness = Harness()

    async def scenario():
        harness.journal.room = 0
        once = harness.process("one", Slow(harness.journal))
        first = asyncio.create_task(once.reserve("ann", "k", "body"))
        second = asyncio.create_task(once.reserve("ann", "k", "body"))
        with pytest.raises(StorageFull):
            await first
        harness.journal.room = 1000
        assert isinstance(await second, New)
        assert harness.clock.now() == 1000.0

    harness.run(scenario)


async def meet(harness: Harness, late: int, slow: int, met: list) -> None:
    """Two processes, of which one comes later by so many passes of the loop, and takes longer. `met` gets both answers
    and how many records there are."""
    first = asyncio.create_task(harness.process("one", Slow(harness.journal)).reserve("ann", "k", "body"))
    for _ in range(late):
        await asyncio.sleep(0)
    second = asyncio.create_task(
        harness.process("two", Slow(harness.journal, slow)).reserve("ann", "k", "body")
    )
    answers = await asyncio.gather(first, second)
    met.append((answers, len(await harness.journal.read(stream_of("ann", "k")))))


@pytest.mark.requirement("F6", "E6")
def test_two_processes_that_write_the_same_record_agree():
    met: list[Any] = []
    for late, slow in itertools.product(range(12), range(1, 8)):
        harness = Harness()
        harness.run(functools.partial(meet, harness, late, slow, met))
    assert len(met) == 12 * 7
    for answers, records in met:
        assert {type(answer) for answer in answers} == {New, Replay}
        assert len({answer.run for answer in answers}) == 1
        assert records == 1


@pytest.mark.requirement("F6", "E6")
def test_a_process_that_is_stuck_with_a_record_is_passed_by():
    harness = Harness()

    async def scenario():
        slow = Slow(harness.journal)
        stuck = await harness.journal.claim(stream_of("ann", "k"), "a process that is stuck", LEASE)
        waiting = [
            asyncio.create_task(harness.process(f"p{n}", slow).reserve("ann", "k", "body")) for n in range(3)
        ]
        answers = await asyncio.gather(*waiting)
        assert len({answer.run for answer in answers}) == 1
        assert sum(isinstance(answer, New) for answer in answers) == 1
        assert not harness.journal.still_mine(stuck)
        assert harness.clock.now() < 1000.0 + 3 * LEASE

    harness.run(scenario)


@pytest.mark.requirement("F6", "E6")
def test_a_process_that_loses_its_claim_before_it_wrote_takes_what_the_other_wrote():
    harness = Harness()

    class Robbed(Slow):
        async def append(self, stream, items, **claim):
            await asyncio.sleep(LEASE + 1)  # stalled; meanwhile somebody else comes
            return await self._journal.append(stream, items, **claim)

    async def scenario():
        stalled = asyncio.create_task(
            harness.process("one", Robbed(harness.journal)).reserve("ann", "k", "body")
        )
        await asyncio.sleep(LEASE + 0.5)
        other = await harness.process("two").reserve("ann", "k", "body")
        assert isinstance(other, New)
        assert await stalled == Replay(other.run)

    harness.run(scenario)


@pytest.mark.requirement("F6")
def test_a_record_that_another_process_is_writing_is_taken_as_soon_as_it_is_there():
    harness = Harness()

    async def scenario():
        journal, name = harness.journal, stream_of("ann", "k")
        claim = await journal.claim(name, "the other", LEASE)
        mine = asyncio.create_task(harness.process().reserve("ann", "k", "body"))
        for _ in range(5):
            await asyncio.sleep(0)
        record = b'{"fingerprint":"body","run":"theirs","at":1.0}'
        await journal.append(name, [record], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
        assert await mine == Replay(RunId("theirs"))
        assert harness.clock.now() == 1000.0

    harness.run(scenario)


async def refuse(once: IdempotencyStore, run: RunId) -> None:
    async with once.starting(run) as fresh:
        assert fresh
        raise StorageFull("no room for another run")


@pytest.mark.requirement("F6")
def test_a_run_that_was_reserved_and_not_started_may_be_started_later():
    harness = Harness()

    async def scenario():
        once = harness.process()
        reserved = await once.reserve("ann", "k", "body")
        with pytest.raises(StorageFull):
            await refuse(once, reserved.run)
        async with once.starting(reserved.run) as fresh:
            assert fresh  # and leaves without starting it
        assert harness.clock.now() == 1000.0
        async with once.starting(reserved.run) as fresh:
            assert fresh
            await harness.journal.claim(reserved.run, "driver", 3600)  # its first fact never comes
        assert harness.clock.now() == 1000.0 + PATIENCE
        async with once.starting(reserved.run) as fresh:
            assert fresh

    harness.run(scenario)


@pytest.mark.requirement("F6")
def test_the_next_one_is_let_in_when_the_first_fact_is_stored():
    harness = Harness()

    async def scenario():
        once = harness.process()
        run = (await once.reserve("ann", "k", "body")).run
        driver = None
        async with once.starting(run) as fresh:
            assert fresh
            driver = asyncio.create_task(begin(harness.journal, run))
            await asyncio.sleep(0)
            assert await harness.journal.head(run) == 0
        assert await harness.journal.head(run) == 1
        async with once.starting(run) as fresh:
            assert not fresh
        await driver
        assert harness.clock.now() == 1000.0

    harness.run(scenario)


@pytest.mark.requirement("F6")
def test_a_deleted_run_is_not_started_again_by_its_key():
    harness = Harness()

    async def scenario():
        once = harness.process()
        run = (await once.reserve("ann", "k", "body")).run
        async with once.starting(run):
            claim = await harness.journal.claim(run, "driver", 30)
            await harness.journal.append(run, [b"x"], after=0, epoch=0, grade=Grade.SYNCED)
            await harness.journal.release(claim)
        await once.deleted(run)
        assert await harness.journal.drop(run)
        later = harness.process("two", harness.journal.after_kill())
        assert await later.reserve("ann", "k", "body") == Replay(run)
        async with later.starting(run) as fresh:
            assert not fresh

    harness.run(scenario)


@pytest.mark.requirement("F6")
def test_old_records_are_swept_and_their_keys_are_new_again():
    harness = Harness()

    async def scenario():
        once = harness.process()
        await harness.journal.note("session", IndexUpdate(kind="session"))
        for number in range(120):
            await once.reserve("ann", f"old {number}", "body")
        held = await harness.journal.claim(stream_of("ann", "old 7"), "somebody", 10 * DAY)
        await asyncio.sleep(DAY)
        await once.reserve("ann", "young", "body")
        assert await once.sweep(2 * DAY) == 0
        await asyncio.sleep(DAY + 1)
        assert await once.sweep(2 * DAY) == 119
        names = {row.name for row in await harness.journal.streams(limit=500)}
        assert names == {"session", held.stream, stream_of("ann", "young")}
        assert isinstance(await once.reserve("ann", "young", "body"), Replay)
        assert isinstance(await once.reserve("ann", "old 1", "another body"), New)
        assert len(once._turns) == 0

    harness.run(scenario)


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("key", ["", "x" * (MAX_KEY + 1), "ä", "a\nb", "a\0b", "\x7f", "\t", "\ud800"])
def test_a_key_that_is_none_is_refused_with_a_reason(key):
    assert key_fault(key).startswith("The Idempotency-Key")
    harness = Harness()
    with pytest.raises(ValueError, match="Idempotency-Key"):
        harness.run(lambda: harness.process().reserve("ann", key, "body"))
    assert harness.run(harness.journal.streams) == []


@pytest.mark.parametrize("key", ["x", "x" * MAX_KEY, '"8e03978e-40d5"', "a b~!", "../..;--"])
def test_any_printable_key_will_do_and_none_shows_in_a_name(key):
    assert key_fault(key) == ""
    name = stream_of("ann", key)
    assert name.startswith("once:")
    assert len(name) == len("once:") + 64
    assert name not in (stream_of("an", "n" + key), stream_of("bob", key), stream_of("", key))
