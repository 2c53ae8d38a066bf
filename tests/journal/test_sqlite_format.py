"""The file's format: old files stay readable, and what is not ours or too new is left alone."""

import asyncio
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest

from turnbuckle.journal.port import Claim, FormatUnknown, Grade, Note, StorageFailed, first_seq
from turnbuckle.journal.sqlite.database import FORMAT, connect, open_to_write
from turnbuckle.journal.sqlite.doctor import check
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import read_all

KEPT = Path(__file__).parent.parent / "journals"
VERSIONS = sorted(folder.name for folder in KEPT.iterdir())
TITLES = {"poem": ["run-1"], "wiz": ["session-1"], "seven wizards": ["session-1"], "kings": []}
FOUND = {  # what streams of a kept journal are found by; in the first format only titles were written
    "v1": {**TITLES, "roses": []},
    "v2": {
        **TITLES,
        "roses": ["run-1"],
        "facade poem": ["run-1"],
        "snow_white": ["run-1"],
        "second": ["run-2"],
        "thrown": [],
        "nobody": [],
    },
}
FOUND["v3"] = FOUND["v2"]  # the same journal, some of whose items have become one


async def everything(journal, streams) -> dict[str, list[list[object]]]:
    return {
        name: [[item.seq, item.data.decode()] async for page in read_all(journal, name) for item in page]
        for name in streams
    }


async def found(journal, questions) -> dict[str, list[str]]:
    return {words: [each.row.name for each in await journal.search(words)] for words in questions}


def expected(version: str) -> dict[str, dict[str, object]]:
    lines = (KEPT / version / "expected.jsonl").read_bytes().splitlines()
    return {line["name"]: line for line in map(msgspec.json.decode, lines)}


def kept_copy(version: str, folder: Path) -> Path:
    shutil.copy(KEPT / version / DATABASE, folder / DATABASE)
    return folder


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_journal_of_every_format_is_read_and_can_go_on(version, tmp_path):
    async def main():
        journal = SqliteJournal(kept_copy(version, tmp_path))
        want = expected(version)
        rows = {row.name: row for row in await journal.streams()}
        assert await everything(journal, want) == {name: line["items"] for name, line in want.items()}
        for name, line in want.items():
            row = rows[name]
            assert [row.kind, row.parent, row.title, row.status, row.user, row.epoch, row.holder] == line["row"]
        assert await found(journal, FOUND[version]) == FOUND[version]
        claim = await journal.claim("run-1", "new", 60)
        assert isinstance(claim, Claim)
        assert claim.epoch == 2
        head = await journal.append("run-1", [b"on"], after=claim.head, epoch=2, grade=Grade.SURE)
        assert head == first_seq(2)
        await journal.close()
        assert check(tmp_path).sound

    asyncio.run(main())


@pytest.mark.requirement("G7")
def test_a_reader_of_an_old_journal_finds_nothing_until_it_was_brought_up_to_date(tmp_path):
    async def main():
        reader = SqliteReader(kept_copy("v1", tmp_path))
        assert await found(reader, ["poem"]) == {"poem": []}
        assert len(await reader.read("run-1")) > 0
        journal = SqliteJournal(tmp_path)
        assert await found(reader, TITLES) == TITLES
        await journal.note("run-2", Note(words="a new poem"))
        assert await found(reader, ["poem"]) == {"poem": ["run-2", "run-1"]}
        assert await journal.drop("session-1")
        assert await found(reader, ["wizards"]) == {"wizards": []}
        await journal.close()
        await reader.close()

    asyncio.run(main())


def test_every_format_up_to_the_newest_has_a_kept_journal():
    assert [f"v{number}" for number in range(1, FORMAT + 1)] == VERSIONS


@pytest.mark.requirement("E8")
def test_a_newer_format_is_refused_and_nothing_is_changed(tmp_path):
    file = kept_copy("v1", tmp_path) / DATABASE
    with sqlite3.connect(file) as connection:
        connection.execute(f"PRAGMA user_version={FORMAT + 1}")
    connection.close()
    before = file.read_bytes()
    for body in (SqliteJournal, SqliteReader, check):
        with pytest.raises(FormatUnknown, match=f"has journal format {FORMAT + 1}.*use a newer one"):
            body(tmp_path)
    assert file.read_bytes() == before
    (tmp_path / DATABASE).unlink()
    asyncio.run(SqliteJournal(tmp_path).close())  # the lock was given back


@pytest.mark.requirement("E8")
def test_a_foreign_database_and_a_foreign_file_are_refused(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with sqlite3.connect(foreign / DATABASE) as connection:
        connection.execute("CREATE TABLE song(title)")
    connection.close()
    letter = tmp_path / "letter"
    letter.mkdir()
    (letter / DATABASE).write_bytes(b"Dear Sir or Madam, " * 300)
    for folder in (foreign, letter):
        before = (folder / DATABASE).read_bytes()
        with pytest.raises(FormatUnknown):
            SqliteJournal(folder)
        with pytest.raises(FormatUnknown):
            check(folder)
        assert (folder / DATABASE).read_bytes() == before


def test_a_folder_without_journal_or_that_can_not_be_made_is_told(tmp_path):
    with pytest.raises(StorageFailed, match="there is no journal"):
        SqliteReader(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match="can not be used"):
        SqliteJournal(tmp_path / "file" / "data")


class NoModules:
    """A connection of a SQLite that was built without any module."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def execute(self, sql, parameters=()):
        return self.inner.execute("SELECT 1 WHERE 0" if "module_list" in sql else sql, parameters)


def test_a_sqlite_without_full_text_search_is_told_before_anything_is_changed(tmp_path):
    file = kept_copy("v1", tmp_path) / DATABASE
    before = file.read_bytes()
    with pytest.raises(StorageFailed, match="without FTS5"):
        SqliteJournal(tmp_path, connect=lambda file, read_only=False: NoModules(connect(file, read_only=read_only)))
    assert file.read_bytes() == before


def test_a_migration_happens_whole_or_not_at_all(tmp_path):
    file = kept_copy("v1", tmp_path) / DATABASE

    def add(connection):
        connection.execute("ALTER TABLE stream ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")

    def break_off(connection):
        connection.execute("ALTER TABLE stream ADD COLUMN sound TEXT")
        connection.execute("this is no SQL")

    with pytest.raises(StorageFailed):
        open_to_write(file, migrations={1: add, 2: break_off}, newest=3)
    connection = open_to_write(file, migrations={1: add}, newest=2)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT DISTINCT colour FROM stream").fetchall() == [("red",)]
    connection.close()
