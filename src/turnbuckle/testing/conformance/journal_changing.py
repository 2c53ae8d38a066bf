"""What every journal must do when several streams change together: all of them, or none."""

import asyncio

from turnbuckle.journal.port import (
    MAX_ITEM,
    Append,
    Changes,
    Conflict,
    Fenced,
    Gone,
    Grade,
    IndexUpdate,
    Journal,
    StorageFull,
    StreamQuery,
    head_after,
)
from turnbuckle.testing.conformance.journal import Bench, Case, add, claimed, everything, refused


async def _names(journal: Journal) -> set[str]:
    return {row.name for row in await journal.streams(limit=100)}


async def _written(bench: Bench, *names: str) -> None:
    """Streams of one item that nobody holds any more."""
    for name in names:
        claim = await claimed(bench, name)
        await add(bench, claim, [name.encode()], grade=Grade.SYNCED)
        await bench.journal.release(claim)


async def streams_change_together(bench: Bench) -> None:
    await _written(bench, "old", "older", "marked")
    one, two = await claimed(bench, "one"), await claimed(bench, "two")
    await add(bench, one, [b"first"])
    appends = (
        Append("one", (b"second", b"third"), 1, one.epoch, IndexUpdate(status="done")),
        Append("two", (b"other",), 0, two.epoch),
    )
    marks = (("marked", IndexUpdate(status="marked")), ("none", IndexUpdate(status="marked")))
    assert await bench.journal.change_all(
        Changes(appends=appends, notes=marks, drops=("old", "older", "never"))
    )
    assert [item.data for item in await everything(bench, "one")] == [b"first", b"second", b"third"]
    assert [item.data for item in await everything(bench, "two")] == [b"other"]
    assert await _names(bench.journal) == {"one", "two", "marked"}
    assert {row.name: row.status for row in await bench.journal.streams()} == {
        "one": "done",
        "two": "",
        "marked": "marked",
    }
    assert await add(bench, one, [b"fourth"], after=3) == 4
    await bench.kill()
    assert await _names(bench.journal) == {"one", "two", "marked"}
    assert await everything(bench, "old") == []


async def nothing_is_dropped_beside_a_stream_that_somebody_holds(bench: Bench) -> None:
    await _written(bench, "free", "marked")
    claim, held = await claimed(bench, "mine"), await claimed(bench, "held", "two")
    appends = (Append("mine", (b"a",), 0, claim.epoch),)
    for drops in (("free", "held"), ("held", "free")):
        marks = (("marked", IndexUpdate(status="marked")),)
        assert not await bench.journal.change_all(Changes(appends=appends, notes=marks, drops=drops))
    assert await _names(bench.journal) == {"free", "marked", "mine", "held"}
    assert [item.data for item in await everything(bench, "free")] == [b"free"]
    assert await everything(bench, "mine") == []
    assert all(row.status == "" for row in await bench.journal.streams())
    await bench.journal.release(held)
    assert await bench.journal.change_all(Changes(appends=appends, drops=("free", "held")))
    assert await _names(bench.journal) == {"marked", "mine"}


async def one_refused_append_refuses_all(bench: Bench) -> None:
    await _written(bench, "old")
    one, two = await claimed(bench, "one"), await claimed(bench, "two")
    good = Append("one", (b"a",), 0, one.epoch, IndexUpdate(status="done"))
    for bad, kind in (
        (Append("two", (b"b",), 7, two.epoch), Conflict),
        (Append("two", (b"b",), 0, two.epoch + 1), Fenced),
        (Append("never", (b"b",), 0, 0), Fenced),
    ):
        for appends in ((good, bad), (bad, good)):
            await refused(bench.journal.change_all(Changes(appends=appends, drops=("old",))), kind)
    for wrong in (
        (good, Append("two", (bytes(MAX_ITEM + 1),), 0, two.epoch)),
        (good, Append("one", (b"again",), 1, one.epoch)),
    ):
        try:
            await bench.journal.change_all(Changes(appends=wrong))
        except ValueError:
            continue
        raise AssertionError("was not refused")
    assert await everything(bench, "one") == await everything(bench, "two") == []
    assert [item.data for item in await everything(bench, "old")] == [b"old"]
    assert (await bench.journal.streams(StreamQuery(name="one")))[0].status == ""
    assert await bench.journal.change_all(Changes(appends=(good,)))


async def a_full_store_changes_none_of_them(bench: Bench) -> None:
    await _written(bench, "old")
    one, two = await claimed(bench, "one"), await claimed(bench, "two")
    await add(bench, one, [b"before"])
    bench.fill()
    appends = (Append("one", (b"small",), 1, one.epoch), Append("two", (b"x" * 2_000_000,), 0, two.epoch))
    await refused(bench.journal.change_all(Changes(appends=appends, drops=("old",))), StorageFull)
    assert [item.data for item in await everything(bench, "one")] == [b"before"]
    assert await everything(bench, "two") == []
    assert [item.data for item in await everything(bench, "old")] == [b"old"]
    bench.make_room()
    assert await bench.journal.change_all(Changes(appends=appends, drops=("old",)))
    assert await bench.journal.head("two") == 1
    assert "old" not in await _names(bench.journal)


async def what_builds_on_a_change_that_failed_fails_too(bench: Bench) -> None:
    one, two = await claimed(bench, "one"), await claimed(bench, "two")
    await add(bench, one, [b"before"])
    bench.fill()
    big = Append("one", (b"x" * 2_000_000,), 1, one.epoch), Append("two", (b"a",), 0, two.epoch)
    sent = [
        bench.journal.change_all(Changes(appends=big)),
        add(bench, two, [b"behind it"], after=head_after(0, two.epoch, 1)),
    ]
    results = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(result, Exception) for result in results), results
    bench.make_room()
    assert await bench.journal.head("two") == 0
    assert await add(bench, two, [b"a"]) == 1
    assert [item.data for item in await everything(bench, "two")] == [b"a"]


async def who_waits_is_told_of_every_stream(bench: Bench) -> None:
    await _written(bench, "old")
    one = await claimed(bench, "one")
    grows = asyncio.ensure_future(bench.journal.wait("one", 0))
    goes = asyncio.ensure_future(bench.journal.wait("old", 1))
    await asyncio.sleep(0)
    assert await bench.journal.change_all(
        Changes(appends=(Append("one", (b"a",), 0, one.epoch),), drops=("old",))
    )
    await grows
    await refused(goes, Gone)


CASES: tuple[Case, ...] = (
    streams_change_together,
    nothing_is_dropped_beside_a_stream_that_somebody_holds,
    one_refused_append_refuses_all,
    a_full_store_changes_none_of_them,
    what_builds_on_a_change_that_failed_fails_too,
    who_waits_is_told_of_every_stream,
)
