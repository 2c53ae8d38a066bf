"""What lags behind a commit: the disk and the index of words. Neither for long, and nobody notices."""

import asyncio
import random
import sqlite3
import uuid
from pathlib import Path

import pytest
from support.journals.power_cuts import MERCIES, Recorder, left_after
from support.journals.watched_journal import Bench, run
from support.server.live_server import eventually

from turnbuckle.journal.port import Claim, Grade, IndexUpdate, StreamQuery
from turnbuckle.journal.sqlite import database, rows, search
from turnbuckle.journal.sqlite.doctor import check
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.words import questions

SOON = 0.001
NEVER = 3600.0
TEXTS = (
    "the usual message",
    "Grüße aus Köln",
    "नमस्ते दुनिया",
    "今日は世界",
    "foo_bar baz",
    "Café crème",
    "usually",
)
ASKED = ("usual", "usual message", "köln", "नमस्ते", "世界", "foo_bar", "cafe", "Café", "usu", "gru", "nothing")


def indexed(folder: Path) -> tuple[int, int]:
    """The last text that is in the index, and the last one there is."""
    connection = sqlite3.connect(folder / DATABASE)
    row = connection.execute("SELECT upto, (SELECT coalesce(max(id), 0) FROM word) FROM indexed").fetchone()
    connection.close()
    return row


def index_fits(folder: Path) -> bool:
    """Whether the index holds just what the texts do."""
    connection = sqlite3.connect(folder / DATABASE)
    try:
        connection.execute("INSERT INTO word_index(word_index, rank) VALUES('integrity-check', 1)")
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
    return True


async def begun(journal: SqliteJournal, stream: str, **note: str) -> Claim:
    """A new stream with one item, which is only flushed."""
    claim = await journal.claim(stream, "one", 60, begins=True)
    assert isinstance(claim, Claim)
    await journal.append(
        stream, [b"first"], after=0, epoch=0, grade=Grade.FLUSHED, note=IndexUpdate(kind="run", **note)
    )
    return claim


@pytest.mark.requirement("E1", "E9")
def test_a_stream_that_may_begin_without_the_disk_does_not_wait_for_it(tmp_path):
    async def main():
        bench = Bench(tmp_path, catch_up=NEVER)
        bench.watched.log.clear()
        await begun(bench.journal, "run", title="a title", words="some words", status="running")
        assert not any("FULL" in sql for sql, _ in bench.watched.log)
        assert all(on_loop for _, on_loop in bench.watched.log)
        bench.watched.log.clear()
        await bench.journal.append("run", [b"end"], after=1, epoch=0, grade=Grade.SYNCED)
        assert any("FULL" in sql for sql, _ in bench.watched.log)
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("mercy", MERCIES)
def test_what_was_only_flushed_is_on_the_disk_after_a_catch_up(mercy, tmp_path):
    recorder = Recorder(f"recorder-{uuid.uuid4().hex}")

    async def main() -> int:
        journal = SqliteJournal(tmp_path / "real", connect=recorder.connect, catch_up=SOON)
        await begun(journal, "run", words="sun")
        await journal.append("run", [b"second"], after=1, epoch=0, grade=Grade.FLUSHED)
        await eventually(lambda: recorder.changes[-1].kind == "sync")
        cut = len(recorder.changes)
        await journal.close()
        return cut

    (tmp_path / "real").mkdir()
    cut = asyncio.run(asyncio.wait_for(main(), 100))
    folder = tmp_path / "left"
    folder.mkdir()
    for name, content in left_after(recorder.changes[:cut], mercy, random.Random(1)).items():
        (folder / name).write_bytes(content)

    async def look():
        reader = SqliteReader(folder)
        assert [item.data for item in await reader.read("run")] == [b"first", b"second"]
        assert [hit.row.name for hit in (await reader.search("sun")).hits] == ["run"]
        await reader.close()

    asyncio.run(look())
    assert check(folder).sound


@pytest.mark.requirement("G7")
@pytest.mark.parametrize("question", ASKED)
def test_a_search_finds_the_same_before_and_after_texts_come_into_the_index(question, tmp_path):
    connection = database.open_to_write(tmp_path / DATABASE)
    with database.transaction(connection):
        for key, text in enumerate(TEXTS, 1):
            connection.execute(*rows.make_stream(key, f"run-{key}", 0, float(key)))
            for sql, values in rows.set_note(key, IndexUpdate(kind="run", words=text), float(key)):
                connection.execute(sql, values)

    def names() -> list[str]:
        hits = search.find(connection, questions(question), StreamQuery(kind="run"), 20).hits
        return [hit.row.name for hit in hits]

    before = names()
    answers = [before]
    for _ in TEXTS:  # some of them are in the index, some are not
        connection.execute("UPDATE indexed SET upto = upto + 1")
        upto = connection.execute("SELECT upto FROM indexed").fetchone()[0]
        connection.execute(
            "INSERT INTO word_index(rowid, text) SELECT id, text FROM word WHERE id = ?", (upto,)
        )
        answers.append(names())
    connection.close()
    assert answers == [before] * len(answers)
    assert bool(before) == (question != "nothing")


@pytest.mark.requirement("G7")
def test_texts_come_into_the_index_by_themselves(tmp_path):
    async def main():
        bench = Bench(tmp_path, catch_up=SOON)
        for number in range(200):
            await bench.journal.note(f"run-{number}", IndexUpdate(kind="run", words=f"sun {number}"))
            if number == 100:
                await eventually(lambda: indexed(tmp_path)[0] > 50)
        await eventually(lambda: indexed(tmp_path) == (200, 200))
        bench.watched.log.clear()
        await bench.journal.close()
        return [sql for sql, _ in bench.watched.log if sql.startswith("INSERT INTO word_index")]

    assert asyncio.run(asyncio.wait_for(main(), 100)) == []  # nothing was left for the close
    assert index_fits(tmp_path)


@pytest.mark.requirement("G7")
def test_a_close_leaves_nothing_out_of_the_index(tmp_path):
    async def main():
        bench = Bench(tmp_path, catch_up=NEVER)
        for number in range(150):
            await bench.journal.note("run", IndexUpdate(words=f"sun {number}"))
        assert indexed(tmp_path) == (0, 150)
        await bench.journal.close()
        parts = [sql for sql, _ in bench.watched.log if sql.startswith("INSERT INTO word_index")]
        assert len(parts) == 3  # many at once

    run(main())
    assert indexed(tmp_path) == (150, 150)
    assert index_fits(tmp_path)


@pytest.mark.requirement("G7")
def test_a_text_under_the_number_of_one_that_went_comes_into_the_index(tmp_path):
    """SQLite gives the highest number again when nobody has it any more."""

    async def main():
        journal = SqliteJournal(tmp_path, catch_up=SOON)
        await journal.note("old", IndexUpdate(words="sun"))
        await eventually(lambda: indexed(tmp_path) == (1, 1))
        assert await journal.drop("old")
        assert indexed(tmp_path) == (0, 0)
        await journal.note("new", IndexUpdate(words="moon"))
        assert indexed(tmp_path)[1] == 1
        assert [hit.row.name for hit in (await journal.search("moon")).hits] == ["new"]
        await eventually(lambda: indexed(tmp_path) == (1, 1))
        assert [hit.row.name for hit in (await journal.search("moon")).hits] == ["new"]
        await journal.close()

    run(main())
    assert index_fits(tmp_path)


@pytest.mark.requirement("G7")
def test_a_text_that_goes_before_it_came_into_the_index_is_not_taken_out_of_it(tmp_path):
    async def main():
        journal = SqliteJournal(tmp_path, catch_up=NEVER)
        for number in range(3):
            await journal.note("run", IndexUpdate(title=f"title {number}"))
        await journal.note("run", IndexUpdate(forgotten=True))
        await journal.note("run", IndexUpdate(words="moon"))
        await journal.close()

    run(main())
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("INSERT INTO word_index(word_index, rank) VALUES('integrity-check', 1)")
    connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, word_index, 'row')")
    assert {term for (term,) in connection.execute("SELECT term FROM terms")} >= {"moon"}
    connection.close()


@pytest.mark.requirement("E10")
def test_a_catch_up_that_fails_is_told_and_tried_again(tmp_path):
    async def main():
        bench = Bench(tmp_path, catch_up=SOON)
        await begun(bench.journal, "run", words="sun")
        bench.watched.broken = True
        await eventually(lambda: bench.journal.trouble() is not None)
        bench.watched.broken = False
        await eventually(lambda: indexed(tmp_path) == (1, 1))
        await eventually(lambda: bench.journal.trouble() is None)
        assert [item.data for item in await bench.journal.read("run")] == [b"first"]
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E8", "E10")
def test_a_damaged_index_is_told_and_nobody_elses_work_fails_with_it(tmp_path):
    async def main():
        bench = Bench(tmp_path, catch_up=SOON)
        await begun(bench.journal, "run", words="sun")
        await eventually(lambda: indexed(tmp_path) == (1, 1))
        other = sqlite3.connect(tmp_path / DATABASE)
        with other:
            other.execute("DELETE FROM word_index_data WHERE id <= 10")
        other.close()
        head = 1
        for number in range(30):
            grade = (Grade.FLUSHED, Grade.SYNCED)[number % 2]
            head = await bench.journal.append(
                "run", [b"x"], after=head, epoch=0, grade=grade, note=IndexUpdate(words=f"moon {number}")
            )
        await eventually(lambda: bench.journal.trouble() is not None)
        trouble = bench.journal.trouble()
        assert trouble is not None
        assert trouble.fault == "damaged"
        bench.watched.log.clear()
        await bench.append("run", [b"last"], head, Grade.FLUSHED)
        await eventually(lambda: any("indexed" in sql for sql, _ in bench.watched.log))
        assert not any("INTO word_index" in sql for sql, _ in bench.watched.log)
        await bench.journal.close()

    run(main())


def test_a_store_at_rest_is_left_alone(tmp_path):
    async def main():
        bench = Bench(tmp_path, catch_up=SOON)
        behind = bench.journal._catch_up
        await begun(bench.journal, "run", words="sun")
        assert behind._later is not None
        await eventually(lambda: behind._later is None and not behind._under_way)
        assert indexed(tmp_path) == (1, 1)
        await bench.append("run", [b"more"], 1, Grade.FLUSHED)
        assert behind._later is not None
        await bench.journal.close()
        assert behind._later is None

    run(main())
