"""Where a session stands is folded once; later only what was added is read."""

import asyncio

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade
from turnbuckle.runtime.session_log import SessionStates
from turnbuckle.session.facts import (
    BegunAnew,
    MessageAccepted,
    MessageInjected,
    SessionFact,
    SessionMade,
    encode,
)
from turnbuckle.session.state import fold
from turnbuckle.vocab.ids import RunId, SessionId

HERE = SessionId("s")


class Counting(MemoryJournal):
    """Counts the items that are read."""

    items = 0

    async def read(self, stream, after=0, limit=500):
        found = await super().read(stream, after, limit)
        self.items += len(found)
        return found


def turns(first: int, count: int, name: str = "r") -> list[SessionFact]:
    made: list[SessionFact] = []
    for number in range(first, first + count):
        message, run = f"m-{name}{number}", RunId(f"{name}{number}")
        made += [MessageAccepted(1.0, message, run, ()), MessageInjected(2.0, message, run, "task")]
    return made


async def put(journal: MemoryJournal, facts: list[SessionFact], stream: str = HERE) -> None:
    claim = await journal.claim(stream, "somebody", 60)
    assert isinstance(claim, Claim)
    items = [encode(fact) for fact in facts]
    head = await journal.head(stream)
    await journal.append(stream, items, after=head, epoch=claim.epoch, grade=Grade.SYNCED)
    await journal.release(claim)


@pytest.mark.requirement("E11")
def test_only_what_was_added_is_read_again():
    async def main():
        journal = Counting()
        states, said = SessionStates(journal), [SessionMade(0.0), *turns(0, 700)]
        await put(journal, said)
        before = await states.of(HERE)
        read, seen = [journal.items], [before == fold(tuple(said))]
        for number in (700, 701, None):
            journal.items = 0
            if number is not None:
                said += turns(number, 1)
                await put(journal, said[-2:])
            seen.append(await states.of(HERE) == fold(tuple(said)))
            read.append(journal.items)
        return read, seen

    read, seen = asyncio.run(main())
    assert all(seen)
    assert read == [1401, 3, 3, 1]


@pytest.mark.requirement("E11", "E12")
@pytest.mark.parametrize("again", [1, 5, 9])
def test_a_session_that_was_made_anew_under_the_same_name_is_read_anew(again):
    async def main():
        journal = MemoryJournal(wall=lambda: 1.0)
        states = SessionStates(journal)
        await put(journal, [SessionMade(0.0), *turns(0, 5)])
        await states.of(HERE)
        await journal.drop(HERE)
        gone = await states.of(HERE)
        fresh = [SessionMade(0.0), *turns(0, again, "other")]
        await put(journal, fresh)
        return gone.runs, await states.of(HERE) == fold(tuple(fresh))

    assert asyncio.run(main()) == ((), True)


def test_only_so_many_are_kept():
    async def main():
        journal = Counting()
        states = SessionStates(journal, most=2)
        for name in ("a", "b", "c"):
            await put(journal, [SessionMade(0.0), *turns(0, 3)], name)
            await states.of(SessionId(name))
        costs = []
        for name in ("c", "b", "a"):
            journal.items = 0
            await states.of(SessionId(name))
            costs.append(journal.items)
        return costs

    assert asyncio.run(main()) == [1, 1, 7]


@pytest.mark.requirement("E12")
def test_a_session_of_which_something_was_deleted_is_read_anew_whatever_it_ends_with():
    async def main():
        journal = MemoryJournal(wall=lambda: 1.0)
        states, end = SessionStates(journal), BegunAnew(3.0, "new")
        await put(journal, [SessionMade(0.0), *turns(0, 1), end])
        await states.of(HERE)
        await journal.drop(HERE)
        states.forget(HERE)
        fresh = [SessionMade(0.0), *turns(0, 1, "other"), end]
        await put(journal, fresh)
        return await states.of(HERE) == fold(tuple(fresh))

    assert asyncio.run(main())
