"""The file's format: old files stay readable, and what is not ours or too new is left alone."""

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.agents import open_agent

from turnbuckle.journal.port import Claim, FormatUnknown, Grade, StorageFailed, first_seq
from turnbuckle.journal.sqlite.database import FORMAT, connect, open_to_write
from turnbuckle.journal.sqlite.doctor import check, mend
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import read_all
from turnbuckle.session.facts import MessageAccepted
from turnbuckle.session.facts import decode as decode_session
from turnbuckle.turn.base import opening_of
from turnbuckle.turn.facts import RunEnded, RunStarted, decode
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.request import RunOptions

KEPT = Path(__file__).parent.parent / "journals"
VERSIONS = sorted(folder.name for folder in KEPT.iterdir())
QUESTIONS = ["Say one.", "write hello.txt with hi there", "Say three.", "Say four."]


def kept_copy(version: str, folder: Path) -> Path:
    shutil.copy(KEPT / version / DATABASE, folder / DATABASE)
    return folder


async def facts_of(journal, stream, decode):
    return [decode(item.data) async for page in read_all(journal, stream) for item in page]


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_journal_of_every_format_is_read_as_the_newest_one(version, tmp_path):
    async def main():
        journal = SqliteJournal(kept_copy(version, tmp_path))
        rows = {row.name: row for row in await journal.streams()}
        runs = [row for row in rows.values() if row.kind == "run"]
        started = {}
        for row in runs:
            first, *_, last = await facts_of(journal, row.name, decode)
            assert isinstance(first, RunStarted)
            assert (type(last), last.outcome.kind, row.status) == (RunEnded, "completed", "completed")
            started[row.title] = first
        assert len(started) == len(runs) == 6
        assert started["Say four."].options == RunOptions(max_output_tokens=900)
        assert started["Say five."].options == RunOptions(temperature=0.5)
        assert started["Say three."].origin.surface == "runs"
        accepted = [
            fact
            for fact in await facts_of(journal, "chat", decode_session)
            if isinstance(fact, MessageAccepted)
        ]
        assert [text_of(fact.messages[0].parts) for fact in accepted] == QUESTIONS
        assert accepted[-1].options == RunOptions(max_output_tokens=900)
        assert [hit.row.title for hit in (await journal.search("four")).hits] == ["Say four."]
        later = (await journal.search("lighthouse")).hits  # noted last, and not in the index yet
        assert len(later) == (version == "v4")
        claim = await journal.claim(runs[0].name, "new", 60)
        assert isinstance(claim, Claim)
        head = await journal.append(
            claim.stream, [b"on"], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED
        )
        assert head == first_seq(claim.epoch)
        await journal.close()
        assert check(tmp_path).sound

    asyncio.run(main())


@pytest.mark.requirement("E2", "C5")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_of_a_kept_journal_goes_on_with_all_that_was_said(version, tmp_path):
    async def scenario(agent):
        await agent.run("Say seven.", session="branch")
        await agent.run("Say eight.", session="chat")
        told = {name: await agent.sessions.messages(name) for name in ("chat", "branch")}
        work = agent._work
        history = await work.sessions._sessions.history(SessionId("branch"))
        return told, history

    told, history = open_agent.run_scenario(tmp_path, scenario, data=kept_copy(version, tmp_path))
    asked = {
        name: [text_of(one.message.parts) for one in some if one.message.role == "user"]
        for name, some in told.items()
    }
    assert asked == {"chat": [*QUESTIONS, "Say eight."], "branch": [*QUESTIONS, "Say six.", "Say seven."]}
    assert [text_of(one.parts) for one in history if one.role == "user"] == asked["branch"]
    assert [one.role for one in history].count("system") == len(opening_of(history)) > 0


@pytest.mark.requirement("E2", "E11")
def test_what_was_taken_back_in_an_older_journal_stays_so(tmp_path):
    async def undo(agent):
        return await agent.sessions.undo("chat"), await agent.sessions.messages("chat")

    undone, told = open_agent.run_scenario(tmp_path, undo, data=kept_copy("v2", tmp_path))
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("UPDATE stream SET mark = ''")
        connection.execute("ALTER TABLE stream DROP COLUMN mark")
        connection.execute("PRAGMA user_version=2")
    connection.close()

    async def read(agent):
        return await agent.sessions.messages("chat")

    assert open_agent.run_scenario(tmp_path, read, data=tmp_path) == told
    assert undone
    assert undone not in [one.run for one in told]


@pytest.mark.requirement("E8")
def test_a_journal_of_an_older_format_is_mended_to_one_of_the_newest(tmp_path):
    mended = mend(kept_copy("v1", tmp_path))
    assert mended.kept is not None

    async def main():
        journal = SqliteJournal(tmp_path)
        (row,) = [row for row in await journal.streams() if row.title == "Say five."]
        first, *_ = await facts_of(journal, row.name, decode)
        assert first.options == RunOptions(temperature=0.5)
        await journal.close()

    asyncio.run(main())
    assert check(tmp_path).sound


def test_every_format_up_to_the_newest_has_a_kept_journal():
    assert [f"v{number}" for number in range(1, FORMAT + 1)] == VERSIONS


@pytest.mark.requirement("E8")
def test_a_newer_format_is_refused_and_nothing_is_changed(tmp_path):
    file = kept_copy("v2", tmp_path) / DATABASE
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
    with pytest.raises(StorageFailed, match="cannot be used"):
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
        SqliteJournal(
            tmp_path, connect=lambda file, read_only=False: NoModules(connect(file, read_only=read_only))
        )
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
