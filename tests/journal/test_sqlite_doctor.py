"""Damage is found, told, and cut out without touching what is sound."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from turnbuckle.journal.port import Claim, Damaged, Grade, IndexUpdate, InUse, StorageError, first_seq
from turnbuckle.journal.sqlite.doctor import check, mend
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader

ITEMS = 400


def content(stream: str, number: int) -> bytes:
    return f"{stream}:{number}:".encode() * 12


async def fill(folder: Path) -> None:
    journal = SqliteJournal(folder)
    for stream in ("first", "second", "third"):
        claim = await journal.claim(stream, "one", 60)
        assert isinstance(claim, Claim)
        items = [content(stream, number) for number in range(1, ITEMS + 1)]
        await journal.append(stream, items, after=0, epoch=0, grade=Grade.SYNCED)
        await journal.release(claim)
    await journal.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(fill(tmp_path))
    return tmp_path


def change(folder: Path, sql: str) -> None:
    connection = sqlite3.connect(folder / DATABASE)
    with connection:
        connection.execute(sql)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def write_words(folder: Path) -> None:
    journal = SqliteJournal(folder)
    await journal.note("first", IndexUpdate(title="Green boats", words="the sun"))
    await journal.note("third", IndexUpdate(words="the moon"))
    await journal.close()


async def read_words(folder: Path) -> None:
    journal = SqliteJournal(folder)
    for words, names in {"the": ["third", "first"], "green sun": ["first"], "moon": ["third"]}.items():
        assert [found.row.name for found in (await journal.search(words)).hits] == names
    await journal.note("third", IndexUpdate(words="more"))
    assert await journal.drop("third")
    assert [found.row.name for found in (await journal.search("the")).hits] == ["first"]
    await journal.close()


async def numbers(folder: Path, stream: str) -> list[int]:
    """All that can be read, up to the end or the damage."""
    reader = SqliteReader(folder)
    seen: list[int] = []
    try:
        while page := await reader.read(stream, seen[-1] if seen else 0, 90):
            seen.extend(item.seq for item in page)
    finally:
        await reader.close()
    return seen


DAMAGE = {
    "a changed byte": (
        "UPDATE item SET data = replace(data, ':200:', ':2O0:') WHERE stream = 2 AND seq = 200",
        200,
    ),
    "a missing row": ("DELETE FROM item WHERE stream = 2 AND seq = 200", 200),
    "a row in the wrong place": (
        "UPDATE item SET data = (SELECT data FROM item WHERE stream = 1 AND seq = 9) WHERE stream = 2 AND seq = 200",
        200,
    ),
    "a row of another type": ("UPDATE item SET data = 'text' WHERE stream = 2 AND seq = 200", 200),
    "a missing start": ("DELETE FROM item WHERE stream = 2 AND seq < 5", 1),
}


@pytest.mark.requirement("E8")
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_told_and_cut(name, folder):
    sql, bad = DAMAGE[name]
    assert check(folder).sound
    change(folder, sql)

    with pytest.raises(Damaged) as told:
        asyncio.run(numbers(folder, "second"))
    assert told.value.stream == "second"
    assert asyncio.run(numbers(folder, "third")) == list(range(1, ITEMS + 1))

    found = check(folder)
    assert [(problem.stream, problem.seq) for problem in found.problems] == [("second", bad)]
    assert found.problems[0].lost >= ITEMS - bad - 4

    mended = mend(folder)
    assert mended.problems == found.problems
    assert Path(mended.kept).exists()
    assert check(folder).sound
    assert asyncio.run(numbers(folder, "second")) == list(range(1, bad))
    assert asyncio.run(numbers(folder, "first")) == list(range(1, ITEMS + 1))
    asyncio.run(go_on(folder, "second", bad - 1))


async def go_on(folder: Path, stream: str, head: int) -> None:
    journal = SqliteJournal(folder)
    claim = await journal.claim(stream, "two", 60)
    assert isinstance(claim, Claim)
    assert (claim.epoch, claim.head) == (1, head)
    assert await journal.append(stream, [b"on"], after=head, epoch=1, grade=Grade.SYNCED) == first_seq(1)
    assert [item.data for item in await journal.read(stream, head)] == [b"on"]
    await journal.close()


@pytest.mark.requirement("E8")
def test_a_sound_journal_is_left_as_it_is(folder):
    before = (folder / DATABASE).read_bytes()
    report = mend(folder)
    assert (report.sound, report.kept, report.streams, report.items) == (True, "", 3, 3 * ITEMS)
    assert (folder / DATABASE).read_bytes() == before


@pytest.mark.requirement("E8")
def test_any_page_may_be_ruined_and_nothing_false_is_read(folder):
    """Every page of the file in turn is overwritten. What is still read is true; what is lost is told."""
    sound = (folder / DATABASE).read_bytes()
    page_size = 4096
    told = 0
    for at in range(0, len(sound), page_size):
        ruined = folder / f"page-{at // page_size}"
        ruined.mkdir()
        (ruined / DATABASE).write_bytes(sound[:at] + b"\xa5" * page_size + sound[at + page_size :])
        try:
            report = mend(ruined)
        except StorageError:
            told += 1
            continue
        told += not report.sound
        for stream in ("first", "second", "third"):
            seen = asyncio.run(numbers(ruined, stream))
            assert seen == list(range(1, len(seen) + 1))
        assert check(ruined).sound
    assert told == len(sound) // page_size


@pytest.mark.requirement("E8")
def test_a_mended_journal_is_sound_whichever_byte_of_the_index_was_changed(folder):
    """An entry of the index may name another stream than the one that it is found for, and that its checksum
    fits to."""
    sound = (folder / DATABASE).read_bytes()
    entry = bytes((8, 4, 1, 1, 2, 2, 72))  # of item 72 of the second stream
    place = sound.index(entry)
    for at in range(len(entry) + 2):
        for bits in (0xFF, 0x01, 0x80):
            ruined = folder / f"byte-{at}-{bits}"
            ruined.mkdir()
            changed = bytearray(sound)
            changed[place + at] ^= bits
            (ruined / DATABASE).write_bytes(changed)
            mend(ruined)
            assert check(ruined).sound, (at, bits)


@pytest.mark.requirement("E8")
@pytest.mark.parametrize("place", [b"INTEGER PRIMARY KEY", b"name TEXT", b"INDEX item_place", b"word_stream"])
def test_a_journal_whose_own_description_is_damaged_is_mended(place, folder):
    """The library refuses such a file at first, and cannot always say why."""
    asyncio.run(write_words(folder))
    sound = (folder / DATABASE).read_bytes()
    at = sound.index(place)
    for number in range(len(place)):
        ruined = folder / f"byte-{number}"
        ruined.mkdir()
        changed = bytearray(sound)
        changed[at + number] ^= 0x80
        (ruined / DATABASE).write_bytes(changed)
        mend(ruined)
        assert check(ruined).sound


@pytest.mark.requirement("E8")
def test_a_row_that_no_journal_can_hold_is_left_out_and_told(folder):
    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
    (whole,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'stream'").fetchone()
    rewrite(connection, whole.replace("title TEXT NOT NULL", "title TEXT"), "stream")
    connection.close()
    change(folder, "UPDATE stream SET title = NULL WHERE id = 2")
    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
    rewrite(connection, whole, "stream")
    connection.close()
    assert any("cannot be kept" in problem.why for problem in mend(folder).problems)
    report = check(folder)
    assert (report.sound, report.streams, report.items) == (True, 2, 2 * ITEMS)


@pytest.mark.requirement("E8", "G7")
def test_mending_keeps_the_words_and_makes_their_index_anew(folder):
    asyncio.run(write_words(folder))
    change(folder, "DELETE FROM item WHERE stream = 2 AND seq = 200")
    change(folder, "DELETE FROM word_index_data WHERE id > 10")
    assert not mend(folder).sound
    asyncio.run(read_words(folder))
    assert check(folder).sound


@pytest.mark.requirement("E8")
def test_a_torn_log_is_cut_at_its_last_whole_commit(tmp_path: Path):
    async def write() -> bytes:
        journal = SqliteJournal(tmp_path / "living")
        claim = await journal.claim("run", "one", 60)
        assert isinstance(claim, Claim)
        for number in range(30):
            await journal.append("run", [content("run", number)], after=number, epoch=0, grade=Grade.SYNCED)
        log = (tmp_path / "living" / f"{DATABASE}-wal").read_bytes()
        (tmp_path / "copy").write_bytes((tmp_path / "living" / DATABASE).read_bytes())
        await journal.close()
        return log

    log = asyncio.run(write())
    lengths = set()
    for cut in range(len(log), len(log) - 9 * 1024, -997):
        torn = tmp_path / f"torn-{cut}"
        torn.mkdir()
        (torn / DATABASE).write_bytes((tmp_path / "copy").read_bytes())
        (torn / f"{DATABASE}-wal").write_bytes(log[:cut] + b"\xff" * 100)
        seen = asyncio.run(numbers(torn, "run"))
        assert seen == list(range(1, len(seen) + 1))
        assert check(torn).sound
        lengths.add(len(seen))
    assert max(lengths) == 30
    assert len(lengths) > 1


@pytest.mark.requirement("E8")
def test_only_mending_needs_the_folder_to_itself(folder):
    async def main() -> None:
        journal = SqliteJournal(folder)
        assert check(folder).sound
        with pytest.raises(InUse):
            mend(folder)
        await journal.close()

    asyncio.run(main())


def test_an_index_of_items_that_is_ruined_costs_no_item(folder):
    file = folder / DATABASE
    connection = sqlite3.connect(file)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'item_place'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with file.open("r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(bytes(size))
    assert not check(folder).sound
    mend(folder)
    assert check(folder).sound
    for stream in ("first", "second", "third"):
        assert asyncio.run(numbers(folder, stream)) == [first_seq(0) + place for place in range(ITEMS)]


def test_a_place_is_found_without_reading_the_items_around_it(folder):
    """A row whose key is the place would be read whole to be compared, however long it is."""
    connection = sqlite3.connect(folder / DATABASE)
    plan = connection.execute("EXPLAIN QUERY PLAN SELECT max(seq) FROM item WHERE stream = 1").fetchall()
    connection.close()
    assert "COVERING INDEX item_place" in str(plan)


def test_items_that_are_missing_in_the_index_alone_are_kept_also_at_the_end_of_a_stream(folder):
    """Such an index gives no gap and no error: the stream just ends too early, or is empty."""
    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
    rows = connection.execute("SELECT * FROM item").fetchall()
    (whole,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'item_place'").fetchone()
    connection.execute("DELETE FROM item")
    rewrite(connection, f"{whole} WHERE stream = 1 OR (stream = 2 AND seq % 1000 < 300)")
    connection.close()
    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO item VALUES(?, ?, ?, ?)", rows)
    connection.execute("COMMIT")
    rewrite(connection, whole)
    connection.close()
    report = check(folder)
    assert not report.sound
    assert report.items == 3 * ITEMS
    mend(folder)
    assert check(folder).sound
    for stream in ("first", "second", "third"):
        assert asyncio.run(numbers(folder, stream)) == [first_seq(0) + place for place in range(ITEMS)]


@pytest.mark.requirement("E8", "E10")
def test_a_stream_is_deleted_also_where_its_index_leads_nowhere(folder):
    """Entries of the index that no row belongs to cannot be deleted, however often that is tried."""
    sound = (folder / DATABASE).read_bytes()
    entry = bytes((8, 4, 1, 1, 2, 2, 72))  # of item 72 of the second stream
    place = sound.index(entry)

    async def delete(ruined: Path) -> None:
        journal = SqliteJournal(ruined)
        try:
            async with asyncio.timeout(100):
                assert await journal.drop("second")
        except StorageError:
            return
        finally:
            await journal.close()

    for at in range(len(entry) + 2):
        for bits in (0xFF, 0x01, 0x80):
            ruined = folder / f"byte-{at}-{bits}"
            ruined.mkdir()
            changed = bytearray(sound)
            changed[place + at] ^= bits
            (ruined / DATABASE).write_bytes(changed)
            asyncio.run(delete(ruined))


def rewrite(connection: sqlite3.Connection, sql: str, name: str = "item_place") -> None:
    """Say something else of the index of items, or of a table, without changing it."""
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, name))
    connection.execute("PRAGMA writable_schema=OFF")
