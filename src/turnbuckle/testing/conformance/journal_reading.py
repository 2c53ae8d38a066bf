"""What every journal must do for its readers: after a cursor, then live, and no waiting for what cannot
come.

The bench and the tools are those of `journal`.
"""

import asyncio

from turnbuckle.journal.port import Conflict, Gone, Grade, IndexUpdate, Item
from turnbuckle.journal.tail import tail
from turnbuckle.testing.conformance.journal import TTL, Bench, Case, add, claimed, everything, refused


async def a_wait_ends_when_something_came(bench: Bench) -> None:
    claim = await claimed(bench)
    waits = [asyncio.ensure_future(bench.journal.wait("run", after)) for after in (0, 0, 1)]
    await asyncio.sleep(0)
    assert not any(wait.done() for wait in waits)
    await add(bench, claim, [b"a"])
    await asyncio.gather(*waits[:2])
    assert not waits[2].done()
    await add(bench, claim, [b"b"], grade=Grade.SYNCED)
    await waits[2]
    await bench.journal.wait("run", 0)  # already there


async def a_reader_may_be_there_before_the_stream(bench: Bench) -> None:
    wait = asyncio.ensure_future(bench.journal.wait("run", 0))
    await asyncio.sleep(0)
    await add(bench, await claimed(bench), [b"a"])
    await wait


async def a_cancelled_wait_leaves_the_others_alone(bench: Bench) -> None:
    claim = await claimed(bench)
    waits = [asyncio.ensure_future(bench.journal.wait("run", 0)) for _ in range(3)]
    await asyncio.sleep(0)
    waits[1].cancel()
    await asyncio.sleep(0)
    await add(bench, claim, [b"a"])
    await asyncio.gather(waits[0], waits[2])
    assert waits[1].cancelled()


async def a_cancelled_append_leaves_the_stream_sound(bench: Bench) -> None:
    claim = await claimed(bench)
    first = asyncio.ensure_future(add(bench, claim, [b"a"], after=0, grade=Grade.SYNCED))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await bench.journal.note("other", IndexUpdate(title="whatever was on its way is stored now"))
    error_or_head = await asyncio.gather(add(bench, claim, [b"b"], after=0), return_exceptions=True)
    head = await bench.journal.head("run")
    after = 1 if isinstance(error_or_head[0], Conflict) else head
    assert await add(bench, claim, [b"c"], after=after) == after + 1
    assert [item.seq for item in await everything(bench)] == list(range(1, after + 2))


async def readers_at_any_cursor_see_the_same_suffix_live(bench: Bench) -> None:
    total = 60

    async def follow(after: int) -> list[int]:
        seen: list[int] = []
        reading = tail(bench.journal, "run", after, limit=7)
        async for page in reading:
            seen.extend(item.seq for item in page)
            if seen[-1] == total:
                break
        await reading.aclose()
        return seen

    claim = await claimed(bench)
    readers = [asyncio.ensure_future(follow(after)) for after in range(0, total, 6)]
    for number in range(0, total, 3):
        await add(
            bench, claim, [b"x"] * 3, after=number, grade=Grade.SYNCED if number % 15 == 0 else Grade.FLUSHED
        )
        if number % 4 == 0:
            await asyncio.sleep(0)
    for after, reader in zip(range(0, total, 6), readers, strict=True):
        assert await reader == list(range(after + 1, total + 1))


async def the_newest_items_are_read_like_all_others(bench: Bench) -> None:
    """While they are written, when they change hands, and when nobody writes any more."""
    written: list[Item] = []

    async def check() -> None:
        for after in {0, -1, 7, *(item.seq for item in written), *(item.seq + 1 for item in written)}:
            rest = [item for item in written if item.seq > after]
            for limit in (1, 3, 500):
                assert await bench.journal.read("run", after, limit) == rest[:limit]

    for epoch in range(3):
        claim = await claimed(bench)
        for burst in range(4):
            items = [b"%d %d %d" % (epoch, burst, at) for at in range(burst + 1)]
            grade = Grade.SYNCED if burst % 2 else Grade.FLUSHED
            head = await add(bench, claim, items, grade=grade)
            first = head - len(items) + 1
            written.extend(Item(first + at, data) for at, data in enumerate(items))
            await check()
        if epoch:
            await bench.journal.release(claim)
        else:
            bench.pass_time(TTL + 1)  # the next one takes it over
        await check()


async def what_is_on_its_way_when_the_claim_is_given_back_is_read(bench: Bench) -> None:
    claim, other = await claimed(bench), await claimed(bench, "other")
    await add(bench, claim, [b"a"])
    reading = tail(bench.journal, "run")
    assert [item.data for item in await anext(reading)] == [b"a"]
    last = asyncio.ensure_future(add(bench, claim, [b"b"], after=1, grade=Grade.SYNCED))
    await asyncio.sleep(0)
    release = bench.journal.release(claim)
    behind = add(bench, other, [b"x"], after=0, grade=Grade.SYNCED)  # so that the release takes a while
    page, _, _ = await asyncio.gather(anext(reading), release, behind)
    assert await last == 2
    assert [item.data for item in page] == [b"b"]
    await reading.aclose()


async def a_reader_who_was_busy_learns_that_its_stream_was_dropped(bench: Bench) -> None:
    claim = await claimed(bench)
    await add(bench, claim, [b"x"] * 3)
    reading = tail(bench.journal, "run", limit=2)
    assert len(await anext(reading)) == 2
    await bench.journal.release(claim)
    assert await bench.journal.drop("run")
    await refused(anext(reading), Gone)
    await refused(bench.journal.wait("run", 3), Gone)


CASES: tuple[Case, ...] = (
    a_wait_ends_when_something_came,
    a_reader_may_be_there_before_the_stream,
    a_cancelled_wait_leaves_the_others_alone,
    a_cancelled_append_leaves_the_stream_sound,
    readers_at_any_cursor_see_the_same_suffix_live,
    the_newest_items_are_read_like_all_others,
    what_is_on_its_way_when_the_claim_is_given_back_is_read,
    a_reader_who_was_busy_learns_that_its_stream_was_dropped,
)
