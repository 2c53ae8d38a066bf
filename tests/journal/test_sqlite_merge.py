"""Several items become one in a file: all of it or nothing, whatever happens, and damage is still found."""

import asyncio
import random
import sqlite3
import uuid

import pytest
from support.journals.power_cuts import MERCIES, Recorder, left_after

from turnbuckle.journal.port import Grade, InUse, Item, Merge
from turnbuckle.journal.sqlite.doctor import check, mend, vacuum
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import read_all

STREAMS = ("a", "b", "c", "d", "e")
ITEMS = 60
MERGES = [Merge(2, Item(40, b"2 to 40 " * 200)), Merge(42, Item(ITEMS, b"42 to the end"))]
AFTER = [1, 40, 41, ITEMS]
CUTS = 120


async def filled(folder, **options):
    journal = SqliteJournal(folder, **options)
    for name in STREAMS:
        claim = await journal.claim(name, "one", 60)
        items = [f"{name}:{number} ".encode() * 20 for number in range(1, ITEMS + 1)]
        await journal.append(name, items, after=0, epoch=0, grade=Grade.SYNCED)
        await journal.release(claim)
    return journal


async def numbers(folder, name):
    reader = SqliteReader(folder)
    found = [item.seq async for page in read_all(reader, name) for item in page]
    await reader.close()
    return found


@pytest.fixture
def folder(tmp_path):
    async def main():
        journal = await filled(tmp_path)
        for name in STREAMS:
            assert await journal.merge(name, MERGES)
        await journal.close()

    asyncio.run(main())
    return tmp_path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What reached the disk while streams were merged, and which merges had returned by then."""
    recorder = Recorder(f"recorder-{uuid.uuid4().hex}")
    done = []

    async def main():
        journal = await filled(
            tmp_path_factory.mktemp("recorded"), connect=recorder.connect, checkpoint_pages=20
        )
        begin = len(recorder.changes)
        for name in STREAMS:
            assert await journal.merge(name, MERGES)
            done.append((len(recorder.changes), name))
        await journal.close()
        return begin

    return recorder, asyncio.run(main()), done


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("mercy", MERCIES)
def test_a_power_cut_leaves_a_stream_as_it_was_or_merged_and_a_merge_that_returned_stays(
    mercy, recorded, tmp_path
):
    recorder, begin, done = recorded
    chance = random.Random(mercy)
    places = range(begin, len(recorder.changes))
    seen = set()
    for cut in sorted(chance.sample(places, min(CUTS, len(places)))):
        folder = tmp_path / str(cut)
        folder.mkdir()
        for name, content in left_after(recorder.changes[:cut], mercy, chance).items():
            (folder / name).write_bytes(content)
        assert check(folder).sound
        for name in STREAMS:
            found = asyncio.run(numbers(folder, name))
            assert found in (list(range(1, ITEMS + 1)), AFTER)
            seen.add(len(found))
            if any(at <= cut and merged == name for at, merged in done):
                assert found == AFTER
    assert seen == {ITEMS, len(AFTER)}


@pytest.mark.requirement("E8")
def test_a_gap_that_a_merge_left_is_no_damage(folder):
    report = check(folder)
    assert report.sound
    assert report.items == len(STREAMS) * len(AFTER)


@pytest.mark.requirement("E8")
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM item WHERE seq = 41",  # beside merged ones
        "DELETE FROM item WHERE seq = 40",  # a merged one
        "UPDATE item SET sum = sum + (1 << 32) WHERE seq = 60",  # stands for more than it should
        "UPDATE item SET sum = sum & 4294967295 WHERE seq = 60",  # for less
        "UPDATE item SET data = x'00' WHERE seq = 40",
        "UPDATE item SET seq = 50 WHERE seq = 60",
    ],
)
def test_damage_in_and_beside_merged_items_is_found_and_cut_out(damage, folder):
    connection = sqlite3.connect(folder / DATABASE)
    with connection:
        connection.execute(f"{damage} AND stream = 1")
    connection.close()
    report = check(folder)
    assert [problem.stream for problem in report.problems] == ["a"]
    assert mend(folder).kept
    assert check(folder).sound
    assert asyncio.run(numbers(folder, "b")) == AFTER


@pytest.mark.requirement("E8")
def test_room_is_given_back_to_the_disk_and_nothing_is_lost(folder):
    async def main():
        journal = SqliteJournal(folder)
        with pytest.raises(InUse):
            vacuum(folder)
        await journal.close()

    asyncio.run(main())
    before = (folder / DATABASE).stat().st_size
    vacuum(folder)
    assert (folder / DATABASE).stat().st_size < before
    assert check(folder).sound
    assert [asyncio.run(numbers(folder, name)) for name in STREAMS] == [AFTER] * len(STREAMS)
