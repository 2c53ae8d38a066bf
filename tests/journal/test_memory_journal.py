"""What the memory journal adds for the lab: the worst that an accident may leave."""

import asyncio

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade, IndexUpdate, first_seq, head_after, next_seq


@pytest.mark.requirement("E3")
def test_a_loss_of_power_leaves_each_stream_up_to_its_last_sure_item():
    async def main():
        journal = MemoryJournal()
        for name in ("a", "b"):
            claim = await journal.claim(name, "one", 60)
            assert isinstance(claim, Claim)
        await journal.append(
            "a", [b"1"], after=0, epoch=0, grade=Grade.SYNCED, note=IndexUpdate(status="running")
        )
        await journal.append("b", [b"1"], after=0, epoch=0, grade=Grade.FLUSHED)
        await journal.append(
            "a", [b"2"], after=1, epoch=0, grade=Grade.FLUSHED, note=IndexUpdate(status="done")
        )
        left = journal.after_power_loss()
        assert [item.data for item in await left.read("a")] == [b"1"]
        assert await left.read("b") == []
        assert {row.name: row.status for row in await left.streams()} == {"a": "running", "b": ""}
        claim = await left.claim("a", "two", 60)
        assert isinstance(claim, Claim)
        assert claim.epoch == 1  # though nothing of the lost items is known any more, their numbers stay used
        assert await left.append("a", [b"new"], after=1, epoch=1, grade=Grade.FLUSHED) == first_seq(1)
        assert [item.data for item in await left.read("a", 2)] == [b"new"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "head, epoch, count, after",
    [
        (0, 0, 1, 1),
        (0, 0, 3, 3),
        (7, 0, 1, 8),
        (7, 0, 0, 7),
        (7, 1, 1, first_seq(1)),
        (7, 1, 2, first_seq(1) + 1),
        (first_seq(1), 1, 1, first_seq(1) + 1),
        (first_seq(1), 5, 1, first_seq(5)),
    ],
)
def test_a_writer_can_tell_the_numbers_beforehand(head, epoch, count, after):
    assert head_after(head, epoch, count) == after
    if count:
        assert next_seq(head, epoch) == after - count + 1
