"""What every journal must do. Each case gets a bench with a fresh journal, and raises AssertionError if it
fails.

A body takes part by giving a `Bench`: its journal, a clock for the claims, and the accidents that happen to a
store. Items, claims, the index and accidents are here; `journal_reading`, `journal_search`, `journal_merging`
and `journal_changing` have the rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from turnbuckle.journal.port import (
    MAX_ITEM,
    Claim,
    Closed,
    Conflict,
    Fenced,
    Gone,
    Grade,
    Held,
    IndexUpdate,
    Item,
    Journal,
    JournalError,
    StorageFull,
    StreamOrder,
    StreamQuery,
    first_seq,
    head_after,
)
from turnbuckle.journal.tail import read_all

TTL = 10.0


class Bench(Protocol):
    """One fresh journal and what may happen to it."""

    @property
    def journal(self) -> Journal: ...

    def pass_time(self, seconds: float) -> None:
        """Move the clock by which claims run out."""

    async def kill(self) -> None:
        """The process dies, and another one opens the journal."""

    def fill(self) -> None:
        """No item that needs more room than a few bytes can be stored from here on."""

    def make_room(self) -> None:
        """There is room again."""


Case = Callable[[Bench], Awaitable[None]]


async def claimed(bench: Bench, stream: str = "run", owner: str = "one") -> Claim:
    claim = await bench.journal.claim(stream, owner, TTL)
    assert isinstance(claim, Claim), claim
    return claim


async def add(
    bench: Bench, claim: Claim, items: Sequence[bytes], after: int | None = None, grade: Grade = Grade.FLUSHED
) -> int:
    head = await bench.journal.head(claim.stream) if after is None else after
    return await bench.journal.append(claim.stream, items, after=head, epoch=claim.epoch, grade=grade)


async def everything(bench: Bench, stream: str = "run", after: int = 0) -> list[Item]:
    return [item async for page in read_all(bench.journal, stream, after) for item in page]


async def refused(attempt: Awaitable[object], kind: type[JournalError]) -> JournalError:
    try:
        await attempt
    except kind as error:
        return error
    raise AssertionError(f"was not refused with {kind.__name__}")


# Items and numbers


async def items_come_back_as_they_were(bench: Bench) -> None:
    claim = await claimed(bench)
    data = [b"a", b"", b"\x00\xff" * 100, "ä".encode(), b"x" * 300_000]
    assert await add(bench, claim, data[:3]) == 3
    assert await add(bench, claim, data[3:], grade=Grade.SYNCED) == 5
    assert await everything(bench) == [Item(number, some) for number, some in enumerate(data, 1)]
    assert await bench.journal.head("run") == 5


async def a_stream_that_is_not_there_is_empty(bench: Bench) -> None:
    assert await bench.journal.read("none") == []
    assert await bench.journal.head("none") == 0
    assert not await bench.journal.drop("none")


async def any_cursor_gives_the_rest(bench: Bench) -> None:
    claim = await claimed(bench)
    await add(bench, claim, [b"%d" % number for number in range(1, 8)])
    for after in range(10):
        assert [item.seq for item in await everything(bench, after=after)] == list(range(after + 1, 8))
    assert [item.seq for item in await bench.journal.read("run", 2, 3)] == [3, 4, 5]


async def a_page_is_bounded_in_bytes(bench: Bench) -> None:
    claim = await claimed(bench)
    await add(bench, claim, [b"x" * 400_000] * 6)
    page = await bench.journal.read("run")
    assert 1 <= len(page) < 6
    assert len(await everything(bench)) == 6


async def an_item_over_the_cap_is_refused_and_harms_nothing(bench: Bench) -> None:
    claim = await claimed(bench)
    try:
        await add(bench, claim, [b"small", bytes(MAX_ITEM + 1)])
    except ValueError:
        assert await add(bench, claim, [b"after"]) == 1
    else:
        raise AssertionError("was not refused")


async def an_append_of_nothing_changes_nothing(bench: Bench) -> None:
    claim = await claimed(bench)
    assert await add(bench, claim, []) == 0
    assert await add(bench, claim, [b"a"]) == 1
    assert await add(bench, claim, [], grade=Grade.SYNCED) == 1


async def numbers_are_never_given_twice(bench: Bench) -> None:
    first = await claimed(bench)
    assert first.epoch == 0
    await add(bench, first, [b"a", b"b"])
    await bench.journal.release(first)
    second = await claimed(bench)
    assert (second.epoch, second.head) == (1, 2)
    assert await add(bench, second, [b"c", b"d"]) == first_seq(1) + 1
    assert [item.seq for item in await everything(bench)] == [1, 2, first_seq(1), first_seq(1) + 1]
    # a cursor at an item of the first epoch that was lost still works
    assert [item.data for item in await everything(bench, after=9)] == [b"c", b"d"]
    assert first_seq(2**20) < 2**53


async def appends_may_be_sent_without_waiting(bench: Bench) -> None:
    claim = await claimed(bench)
    heads = [0]
    sent = []
    for number in range(20):
        grade = Grade.SYNCED if number % 7 == 3 else Grade.FLUSHED
        sent.append(add(bench, claim, [b"a", b"b"], after=heads[-1], grade=grade))
        heads.append(head_after(heads[-1], claim.epoch, 2))
    assert await asyncio.gather(*sent) == heads[1:]
    assert [item.seq for item in await everything(bench)] == list(range(1, 41))


async def many_writers_do_not_disturb_each_other(bench: Bench) -> None:
    async def write(name: str) -> None:
        claim = await claimed(bench, name)
        for number in range(20):
            grade = Grade.SYNCED if number % 10 == 9 else Grade.FLUSHED
            await add(bench, claim, [f"{name}:{number}".encode()], after=number, grade=grade)

    names = [f"run-{number}" for number in range(20)]
    await asyncio.gather(*map(write, names))
    for name in names:
        assert [item.data.decode() for item in await everything(bench, name)] == [
            f"{name}:{at}" for at in range(20)
        ]


# Claims and fences


async def only_the_holder_may_append(bench: Bench) -> None:
    await refused(bench.journal.append("run", [b"a"], after=0, epoch=0, grade=Grade.FLUSHED), Fenced)
    claim = await claimed(bench)
    await refused(bench.journal.append("run", [b"a"], after=0, epoch=1, grade=Grade.FLUSHED), Fenced)
    await refused(bench.journal.append("run", [b"a"], after=0, epoch=-1, grade=Grade.FLUSHED), Fenced)
    held = await bench.journal.claim("run", "two", TTL)
    assert held == Held("run", "one", TTL)
    assert await bench.journal.claim("run", "one", TTL) == held  # two drivers of one process are still two
    assert await add(bench, claim, [b"a"]) == 1


async def a_wrong_head_is_a_conflict_and_stores_nothing(bench: Bench) -> None:
    claim = await claimed(bench)
    await add(bench, claim, [b"a", b"b"])
    for after in (0, 1, 3):
        error = await refused(add(bench, claim, [b"x"], after=after), Conflict)
        assert isinstance(error, Conflict)
        assert error.head == 2
    assert len(await everything(bench)) == 2


async def a_stalled_owner_is_fenced_when_it_wakes(bench: Bench) -> None:
    stalled = await claimed(bench)
    await add(bench, stalled, [b"a"])
    assert bench.journal.still_mine(stalled)
    bench.pass_time(TTL + 1)
    assert not bench.journal.still_mine(stalled)
    taker = await claimed(bench, owner="two")
    assert (taker.epoch, taker.head) == (1, 1)
    for grade in Grade:
        await refused(add(bench, stalled, [b"zombie"], grade=grade), Fenced)
    await bench.journal.release(stalled)  # means nothing any more
    assert not await bench.journal.renew(stalled, TTL)
    assert bench.journal.still_mine(taker)
    assert [item.data for item in await everything(bench)] == [b"a"]


async def a_claim_lives_as_long_as_it_is_renewed(bench: Bench) -> None:
    claim = await claimed(bench)
    for _ in range(5):
        bench.pass_time(TTL * 0.9)
        assert await bench.journal.renew(claim, TTL)
    assert isinstance(await bench.journal.claim("run", "two", TTL), Held)
    bench.pass_time(TTL + 1)  # it ran out, but nobody took it
    assert not bench.journal.still_mine(claim)
    assert await bench.journal.renew(claim, TTL)
    assert bench.journal.still_mine(claim)


async def of_many_claims_at_once_one_is_given(bench: Bench) -> None:
    for taken in range(5):
        answers = await asyncio.gather(*(bench.journal.claim("run", f"owner-{at}", TTL) for at in range(10)))
        claims = [answer for answer in answers if isinstance(answer, Claim)]
        assert [claim.epoch for claim in claims] == [taken]
        bench.pass_time(TTL + 1)


async def a_released_claim_can_not_be_used(bench: Bench) -> None:
    claim = await claimed(bench)
    await bench.journal.release(claim)
    assert not bench.journal.still_mine(claim)
    assert not await bench.journal.renew(claim, TTL)
    await refused(add(bench, claim, [b"a"], after=0), Fenced)
    assert (await claimed(bench, owner="two")).epoch == 1


# The index


async def notes_make_a_list(bench: Bench) -> None:
    journal = bench.journal
    for number in range(7):
        await journal.note(
            f"s{number}", IndexUpdate(kind="session", title=f"title {number}", user="ann", status="idle")
        )
        bench.pass_time(1)
    await journal.note("r1", IndexUpdate(kind="run", parent="s3"))
    await journal.note("s2", IndexUpdate(status="busy"))
    rows = await journal.streams(StreamQuery(kind="session"))
    assert [row.name for row in rows] == ["s2", "s6", "s5", "s4", "s3", "s1", "s0"]
    assert (rows[0].title, rows[0].status, rows[0].user, rows[0].epoch) == ("title 2", "busy", "ann", -1)
    assert rows[0].created < rows[0].updated
    assert [row.name for row in await journal.streams(StreamQuery(parent="s3"))] == ["r1"]
    assert [row.name for row in await journal.streams(StreamQuery(status="busy", user="ann"))] == ["s2"]
    assert await journal.streams(StreamQuery(user="bob")) == []
    paged, place = [], None
    while page := await journal.streams(StreamQuery(kind="session"), place, 3):
        paged.extend(page)
        place = page[-1].place
    assert paged == rows


async def a_list_in_the_order_of_creation_shows_every_row_once(bench: Bench) -> None:
    journal = bench.journal
    for number in range(6):
        await journal.note(f"r{number}", IndexUpdate(kind="run", parent="s", user="ann"))
        bench.pass_time(number % 2)  # two at the same moment
    shown: dict[StreamOrder, list[str]] = {"oldest": [], "newest": []}
    for order, names in shown.items():
        place = None
        while page := await journal.streams(StreamQuery(kind="run", parent="s", order=order), place, 2):
            names += [row.name for row in page]
            place = page[-1].born
            await journal.note("r0", IndexUpdate(mark="touched"))
            await journal.note("r5", IndexUpdate(status="touched"))
            await journal.note(f"late-{order}-{len(names)}", IndexUpdate(kind="run", parent="other"))
    assert shown["oldest"] == [f"r{number}" for number in range(6)]
    assert shown["newest"] == shown["oldest"][::-1]
    rows = await journal.streams(StreamQuery(user="ann", kind="run", order="newest"), limit=6)
    assert [row.name for row in rows] == shown["newest"]
    assert [row.mark for row in rows] == ["", "", "", "", "", "touched"]


async def a_note_is_stored_with_its_items_or_not_at_all(bench: Bench) -> None:
    claim = await claimed(bench)
    end = IndexUpdate(kind="run", status="completed")
    await bench.journal.append("run", [b"end"], after=0, epoch=0, grade=Grade.SYNCED, note=end)
    await refused(
        bench.journal.append(
            "run", [b"x"], after=0, epoch=0, grade=Grade.SYNCED, note=IndexUpdate(status="failed")
        ),
        Conflict,
    )
    row = (await bench.journal.streams())[0]
    assert (row.status, row.holder, row.epoch) == ("completed", claim.owner, 0)


async def what_a_dead_owner_held_is_listed_as_orphaned(bench: Bench) -> None:
    orphaned = StreamQuery(orphaned=True)
    lapsed = await claimed(bench, "lapsed")
    assert await bench.journal.streams(orphaned) == []
    bench.pass_time(TTL + 1)
    assert [row.name for row in await bench.journal.streams(orphaned)] == [lapsed.stream]
    released = await claimed(bench, "released")
    await bench.journal.release(released)
    await claimed(bench, "flying")
    await bench.kill()
    assert {row.name for row in await bench.journal.streams(orphaned)} == {"lapsed", "flying"}
    taker = await claimed(bench, "flying", "two")
    assert taker.epoch == 1
    assert [row.name for row in await bench.journal.streams(orphaned)] == ["lapsed"]


# Dropping and closing


async def a_dropped_stream_is_gone_and_tells_who_waits(bench: Bench) -> None:
    claim = await claimed(bench)
    await add(bench, claim, [b"x"] * 5000)
    keep = await claimed(bench, "keep")
    await add(bench, keep, [b"k"])
    assert not await bench.journal.drop("run")  # it is claimed
    await bench.journal.release(claim)
    wait = asyncio.ensure_future(bench.journal.wait("run", 5000))
    await asyncio.sleep(0)
    assert await bench.journal.drop("run")
    await refused(wait, Gone)
    assert await everything(bench) == []
    assert [row.name for row in await bench.journal.streams()] == ["keep"]
    assert [item.data for item in await everything(bench, "keep")] == [b"k"]
    await refused(add(bench, claim, [b"a"], after=5000), Fenced)


async def closing_ends_everything(bench: Bench) -> None:
    journal = bench.journal
    claim = await claimed(bench)
    pending = asyncio.ensure_future(add(bench, claim, [b"last"], after=0, grade=Grade.SYNCED))
    wait = asyncio.ensure_future(journal.wait("run", 99))
    await asyncio.sleep(0)
    await journal.close()
    await journal.close()
    assert await pending == 1
    await refused(wait, Closed)
    await refused(journal.append("run", [b"x"], after=1, epoch=0, grade=Grade.FLUSHED), Closed)
    await refused(journal.read("run"), Closed)
    await refused(journal.claim("run", "two", TTL), Closed)
    assert not journal.still_mine(claim)


# Accidents


async def a_killed_process_loses_nothing_that_was_stored(bench: Bench) -> None:
    claim = await claimed(bench)
    await add(bench, claim, [b"sure"], grade=Grade.SYNCED)
    await add(bench, claim, [b"seen"])
    await bench.kill()
    assert [item.data for item in await everything(bench)] == [b"sure", b"seen"]
    await refused(add(bench, claim, [b"zombie"]), Fenced)
    after = await claimed(bench, owner="two")  # at once: a dead process holds nothing
    assert (after.epoch, after.head) == (1, 2)
    assert await add(bench, after, [b"more"]) == first_seq(1)


async def a_full_store_refuses_stores_nothing_and_recovers(bench: Bench) -> None:
    claim = await claimed(bench)
    await add(bench, claim, [b"before"])
    bench.fill()
    big = b"x" * 2_000_000
    for grade in Grade:
        note = IndexUpdate(status="written")
        attempt = bench.journal.append("run", [b"small", big], after=1, epoch=0, grade=grade, note=note)
        await refused(attempt, StorageFull)
    assert [item.data for item in await everything(bench)] == [b"before"]
    assert (await bench.journal.streams())[0].status == ""
    chain = [add(bench, claim, [big], after=1), add(bench, claim, [b"behind it"], after=2)]
    results = await asyncio.gather(*chain, return_exceptions=True)
    assert isinstance(results[0], StorageFull)
    assert isinstance(results[1], JournalError)
    assert await bench.journal.head("run") == 1
    bench.make_room()
    assert await add(bench, claim, [b"small", big]) == 3
    assert [item.data for item in await everything(bench)] == [b"before", b"small", big]


CASES: tuple[Case, ...] = (
    items_come_back_as_they_were,
    a_stream_that_is_not_there_is_empty,
    any_cursor_gives_the_rest,
    a_page_is_bounded_in_bytes,
    an_item_over_the_cap_is_refused_and_harms_nothing,
    an_append_of_nothing_changes_nothing,
    numbers_are_never_given_twice,
    appends_may_be_sent_without_waiting,
    many_writers_do_not_disturb_each_other,
    only_the_holder_may_append,
    a_wrong_head_is_a_conflict_and_stores_nothing,
    a_stalled_owner_is_fenced_when_it_wakes,
    a_claim_lives_as_long_as_it_is_renewed,
    of_many_claims_at_once_one_is_given,
    a_released_claim_can_not_be_used,
    notes_make_a_list,
    a_list_in_the_order_of_creation_shows_every_row_once,
    a_note_is_stored_with_its_items_or_not_at_all,
    what_a_dead_owner_held_is_listed_as_orphaned,
    a_dropped_stream_is_gone_and_tells_who_waits,
    closing_ends_everything,
    a_killed_process_loses_nothing_that_was_stored,
    a_full_store_refuses_stores_nothing_and_recovers,
)
