"""An item of many megabytes is read beside the loop, and in its place among the others."""

import asyncio

import pytest

from turnbuckle.journal.port import Claim, Damaged, Grade
from turnbuckle.journal.sqlite.database import connect
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal

LARGE = b"x" * (3 << 20)
ITEMS = [b"one", b"two", LARGE, b"three", LARGE, LARGE, b"four"]


async def written(folder):
    journal = SqliteJournal(folder)
    claim = await journal.claim("run", "one", 60)
    assert isinstance(claim, Claim)
    await journal.append("run", ITEMS, after=0, epoch=claim.epoch, grade=Grade.SYNCED)
    await journal.release(claim)
    return journal


async def pages(journal, after=0):
    found = []
    while items := await journal.read("run", after):
        found.append([item.data for item in items])
        after = items[-1].seq
    return found


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("again", [False, True])
def test_large_items_come_in_pages_of_their_own_and_in_their_order(tmp_path, again):
    async def main():
        journal = await written(tmp_path)
        try:
            if again:  # by a process that has not written it
                await journal.close()
                journal = SqliteJournal(tmp_path)
            return await pages(journal), await journal.read("run", 2, 1)
        finally:
            await journal.close()

    found, one = asyncio.run(main())
    assert [data for page in found for data in page] == ITEMS
    assert all(sum(map(len, page)) < 2 * len(LARGE) for page in found)
    assert [item.data for item in one] == [LARGE]


@pytest.mark.requirement("E5")
def test_a_large_item_that_is_not_what_was_written_is_told(tmp_path):
    async def main():
        journal = await written(tmp_path)
        await journal.close()
        connection = connect(tmp_path / DATABASE)
        connection.execute("UPDATE item SET data = ? WHERE length(data) > 1000000", (LARGE[:-1] + b"y",))
        connection.close()
        journal = SqliteJournal(tmp_path)
        try:
            assert [item.data for item in await journal.read("run")] == [b"one", b"two"]
            with pytest.raises(Damaged, match="checksum"):
                await journal.read("run", 2)
            trouble = journal.trouble()
            assert trouble is not None
        finally:
            await journal.close()

    asyncio.run(main())
