"""Large items of a journal in a store of objects: when it fails, lies, or somebody dies in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.objects.faulty_objects import FaultyObjects

from turnbuckle.errors import ConfigError
from turnbuckle.journal.large_items import (
    MARK,
    RESTS,
    STORE,
    YOUNG,
    LargeItems,
    LargeItemsJournal,
    with_objects,
)
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import (
    READ_BYTES,
    Append,
    Changes,
    Claim,
    Damaged,
    Grade,
    Item,
    JournalError,
    StorageFailed,
    StreamQuery,
)
from turnbuckle.objects.port import StoreAway, StoreRefused, object_key
from turnbuckle.testing.conformance.objects import keys_of

AWAY = StoreAway("it is away")
LARGE = b"x" * 200


class Bench:
    """A journal with a store of which everything over a hundred bytes goes."""

    def __init__(self) -> None:
        self.inner = MemoryJournal()
        self.store = FaultyObjects()
        self.monotonic = 0.0
        self.journal = self.around()

    def around(self) -> LargeItemsJournal:
        return LargeItemsJournal(self.inner, LargeItems(self.store, 100, lambda: self.monotonic))

    async def claim(self, stream: str = "run") -> Claim:
        claim = await self.journal.claim(stream, "me", 60)
        assert isinstance(claim, Claim)
        return claim

    async def append(self, *items: bytes, stream: str = "run") -> int:
        claim = await self.claim(stream)
        head = await self.journal.append(
            stream, items, after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED
        )
        await self.journal.release(claim)
        return head

    async def read(self, stream: str = "run") -> list[bytes]:
        return [item.data for item in await self.journal.read(stream)]

    async def raw(self, stream: str = "run") -> list[bytes]:
        return [item.data for item in await self.inner.read(stream)]

    def forget(self) -> None:
        """As another process sees it, which has nothing in memory."""
        self.journal = self.around()

    async def fault(self, stream: str = "run") -> JournalError | None:
        self.forget()
        try:
            await self.journal.read(stream)
        except JournalError as error:
            return error
        return None


def played(scenario: Callable[[Bench], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        bench = Bench()
        try:
            return await scenario(bench)
        finally:
            bench.store.fault = None
            await bench.journal.close()

    return asyncio.run(asyncio.wait_for(main(), 100))


@pytest.mark.requirement("K8")
def test_what_is_large_is_in_the_store_and_what_is_small_in_the_journal():
    async def scenario(bench: Bench):
        await bench.append(b"small", LARGE)
        small, reference = await bench.raw()
        assert small == b"small"
        assert reference.startswith(MARK)
        assert len(reference) < 250
        assert len(await keys_of(bench.store, "run/")) == 1
        bench.forget()
        return await bench.read()

    assert played(scenario) == [b"small", LARGE]


def test_an_item_that_looks_like_a_reference_is_read_as_it_was():
    async def scenario(bench: Bench):
        strange = [MARK, MARK + b"object {}", MARK + b"plain x", b"\x00"]
        await bench.append(*strange)
        return await bench.read() == strange, bench.store.asked

    assert played(scenario) == (True, 0)


@pytest.mark.requirement("K8")
@pytest.mark.parametrize("fault", [AWAY, StoreRefused("wrong keys")], ids=["away", "refused"])
def test_a_store_that_fails_holds_nothing_up_and_rests(fault):
    async def scenario(bench: Bench):
        bench.store.fault = fault
        await bench.append(LARGE)
        await bench.append(LARGE)
        assert await bench.raw() == [LARGE, LARGE]
        assert bench.store.asked == 1
        bench.store.fault = None
        bench.monotonic += RESTS
        await bench.append(LARGE)
        return (await bench.raw())[2].startswith(MARK), await bench.read()

    assert played(scenario) == (True, [LARGE, LARGE, LARGE])


def test_what_cannot_be_read_now_is_an_error_that_passes():
    async def scenario(bench: Bench):
        await bench.append(LARGE)
        bench.store.fault = AWAY
        error = await bench.fault()
        assert type(error) is StorageFailed
        assert error.passes
        bench.store.fault = None
        return str(error), await bench.fault()

    assert played(scenario) == ("it is away", None)


def test_an_object_that_is_gone_or_another_is_damage_and_told_with_its_place():
    async def scenario(bench: Bench):
        await bench.append(b"a", LARGE)
        bench.store.lie = b"y" * 200
        other = await bench.fault()
        bench.store.lie = b"x" * 100
        half = await bench.fault()
        bench.store.lie = None
        await bench.store.delete(await keys_of(bench.store))
        return other, half, await bench.fault()

    for error in played(scenario):
        assert isinstance(error, Damaged)
        assert (error.stream, error.seq) == ("run", 2)


@pytest.mark.requirement("K8")
def test_what_died_between_upload_and_append_is_swept_when_nobody_can_be_about_to_refer_to_it():
    async def scenario(bench: Bench):
        claim = await bench.claim()
        bench.store.gate = asyncio.Event()
        dying = asyncio.create_task(
            bench.journal.append("run", [LARGE], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED)
        )
        await asyncio.sleep(0)
        bench.store.gate.set()
        await bench.store.put(object_key("run", "items", "orphan"), LARGE)
        await dying
        await bench.store.put(object_key("gone", "items", "old"), LARGE)
        await bench.store.put(object_key("gone", "kept", "shell.txt"), b"1")
        await bench.store.put("somebody-elses", b"1")
        bench.store.now += YOUNG - 1
        young = await bench.journal.sweep()
        bench.store.now += 2
        old = await bench.journal.sweep()
        left = await keys_of(bench.store)
        bench.forget()
        return young, old, len(left), "somebody-elses" in left, await bench.read()

    assert played(scenario) == (0, 3, 2, True, [LARGE])


@pytest.mark.requirement("K8")
@pytest.mark.parametrize("together", [False, True], ids=["alone", "with others"])
def test_what_is_dropped_takes_all_of_its_objects_along(together: bool):
    async def scenario(bench: Bench):
        await bench.append(LARGE, stream="run")
        await bench.append(LARGE, stream="run2")
        await bench.store.put(object_key("run", "kept", "shell.txt"), b"1")
        if together:
            assert await bench.journal.change_all(Changes(drops=["run"]))
        else:
            assert await bench.journal.drop("run")
        await bench.journal.close()
        return {key.split("/")[0] for key in await keys_of(bench.store)}

    assert played(scenario) == {"run2"}


def test_objects_of_a_drop_while_the_store_was_away_are_swept_later():
    async def scenario(bench: Bench):
        await bench.append(LARGE)
        bench.store.fault = AWAY
        assert await bench.journal.drop("run")
        bench.store.fault = None
        bench.store.now += YOUNG + 1
        return await bench.journal.sweep(), await keys_of(bench.store)

    swept, left = played(scenario)
    assert left == []
    assert swept in (0, 1)  # whoever came first


def test_what_is_sent_behind_an_upload_stays_behind_it():
    async def scenario(bench: Bench):
        claim = await bench.claim()
        bench.store.gate = asyncio.Event()
        sent = []
        for at, data in enumerate((LARGE, b"small", LARGE, b"last")):
            append = bench.journal.append("run", [data], after=at, epoch=claim.epoch, grade=Grade.FLUSHED)
            sent.append(asyncio.create_task(append))
            await asyncio.sleep(0)
        soon = bench.journal.append_soon("run", b"soon", after=4, epoch=claim.epoch, landed=lambda *_: None)
        bench.store.gate.set()
        heads = [await one for one in sent]
        return soon, heads, await bench.read()

    assert played(scenario) == (False, [1, 2, 3, 4], [LARGE, b"small", LARGE, b"last"])


def test_whoever_waits_gets_what_is_large_by_reading():
    async def scenario(bench: Bench):
        handed: list[Item] = []

        def take(items) -> bool:
            handed.extend(items)
            return True

        await bench.append(b"first")
        waiting = asyncio.create_task(bench.journal.wait("run", 1, take))
        await asyncio.sleep(0)
        await bench.append(LARGE)
        await waiting
        return [item.data for item in handed], [item.data for item in await bench.journal.read("run", 1)]

    assert played(scenario) == ([], [LARGE])


def test_a_page_of_large_items_is_no_larger_than_any_page():
    async def scenario(bench: Bench):
        data = bytes(READ_BYTES // 2)
        await bench.append(*[data] * 5)
        pages, after = [], 0
        while items := await bench.journal.read("run", after):
            pages.append(len(items))
            after = items[-1].seq
        return pages

    assert played(scenario) == [2, 2, 1]


def test_streams_that_change_together_have_their_large_items_in_the_store():
    async def scenario(bench: Bench):
        one, two = await bench.claim("one"), await bench.claim("two")
        appends = [Append(claim.stream, (LARGE, b"s"), 0, claim.epoch) for claim in (one, two)]
        assert await bench.journal.change_all(Changes(appends=appends))
        return [len(await keys_of(bench.store, f"{name}/")) for name in ("one", "two")], await bench.read(
            "two"
        )

    assert played(scenario) == ([1, 1], [LARGE, b"s"])


@pytest.mark.requirement("K8")
def test_a_journal_with_values_elsewhere_is_not_opened_by_who_cannot_read_them():
    async def scenario(bench: Bench):
        assert await with_objects(bench.inner, None, 100) is bench.inner
        await bench.append(LARGE)
        [row] = await bench.inner.streams(StreamQuery(kind=STORE))
        with pytest.raises(ConfigError, match=r"are in memory, .* set objects\.store"):
            await with_objects(bench.inner, None, 100)
        return row.title

    assert played(scenario) == "memory"


def test_a_server_without_a_store_beside_others_that_have_one_waits_for_somebody_to_set_it():
    async def scenario(bench: Bench):
        beside = await with_objects(bench.inner, None, 100, shared=True)
        await bench.append(b"small", LARGE)
        try:
            await beside.read("run")
        except StorageFailed as error:
            return str(error), error.passes
        return None

    words, passes = played(scenario)
    assert "set objects.store here as elsewhere" in words
    assert passes
