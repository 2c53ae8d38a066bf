"""A store of objects belongs to one journal, and no value is deleted or overtaken that somebody needs."""

import asyncio

import pytest
from support.objects.faulty_objects import FaultyObjects

from turnbuckle.journal.large_items import MARK, YOUNG, LargeItemsJournal, with_objects
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade, Journal
from turnbuckle.objects.owned import OWNER
from turnbuckle.objects.port import StoreRefused
from turnbuckle.testing.conformance.objects import keys_of

LARGE = b"x" * 200


async def around(inner: Journal, store: FaultyObjects) -> LargeItemsJournal:
    journal = await with_objects(inner, store, 100)
    assert isinstance(journal, LargeItemsJournal)
    return journal


async def append(journal: Journal, *items: bytes, stream: str = "run") -> None:
    claim = await journal.claim(stream, "me", 60)
    assert isinstance(claim, Claim)
    await journal.append(stream, items, after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED)
    await journal.release(claim)


@pytest.mark.requirement("K8")
def test_a_second_journal_in_the_same_store_takes_nothing_away_and_puts_nothing_there():
    async def main():
        store, others = FaultyObjects(), MemoryJournal()
        first, second = await around(MemoryJournal(), store), await around(others, store)
        await append(first, LARGE)
        before = await keys_of(store)
        await append(second, b"small")
        store.now += YOUNG + 1
        with pytest.raises(StoreRefused, match="belong to another journal"):
            await second.sweep()
        await append(second, LARGE)  # of the same name as the first has
        kept = [item.data for item in await others.read("run")]
        assert await second.drop("run")
        await second.close()
        return before == await keys_of(store), kept, await first.sweep()

    async def deleted_elsewhere():
        store = FaultyObjects()
        first, second = await around(MemoryJournal(), store), await around(MemoryJournal(), store)
        await append(first, LARGE, stream="only here")
        store.now += YOUNG + 1
        with pytest.raises(StoreRefused):
            await second.sweep()
        return len(await keys_of(store))

    assert asyncio.run(deleted_elsewhere()) == 2
    assert asyncio.run(main()) == (True, [b"small", LARGE], 0)


def test_every_node_of_a_journal_and_whoever_opens_it_again_writes_to_its_store():
    async def main():
        store, inner = FaultyObjects(), MemoryJournal()
        nodes = [await around(inner, store) for _ in range(3)]
        for at, node in enumerate(nodes):
            await append(node, LARGE, stream=f"run{at}")
        raw = [(await inner.read(f"run{at}"))[0].data for at in range(3)]
        return all(data.startswith(MARK) for data in raw), OWNER in await keys_of(store)

    assert asyncio.run(main()) == (True, True)


@pytest.mark.requirement("K8")
def test_what_was_dropped_and_begun_again_under_the_same_name_keeps_its_new_values():
    async def main():
        store, inner = FaultyObjects(), MemoryJournal()
        journal = await around(inner, store)
        await append(journal, LARGE)
        assert await journal.drop("run")
        await append(journal, LARGE)  # before anybody came to delete the objects of the old one
        for _ in range(50):
            await asyncio.sleep(0)
        again = await around(inner, store)
        return [item.data for item in await again.read("run")]

    assert asyncio.run(main()) == [LARGE]


def test_who_runs_when_an_upload_has_just_ended_does_not_come_before_it():
    async def main():
        store, inner = FaultyObjects(), MemoryJournal()
        journal = await around(inner, store)
        await append(journal, LARGE, stream="other")  # so that the store is known
        claim = await journal.claim("run", "me", 60)
        assert isinstance(claim, Claim)
        store.gate = asyncio.Event()

        def sent(data: bytes, after: int) -> asyncio.Task[int]:
            return asyncio.create_task(
                journal.append("run", [data], after=after, epoch=claim.epoch, grade=Grade.FLUSHED)
            )

        tasks = [sent(LARGE, 0)]
        await asyncio.sleep(0)
        store.gate.set()  # the upload goes on with the next turn of the loop, and the second one is behind it
        tasks.append(sent(b"2", 1))
        return [await task for task in tasks]

    assert asyncio.run(main()) == [1, 2]
