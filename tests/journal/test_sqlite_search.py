"""Searching the file: off the loop, broken off when nobody waits, beside a living writer, and lists that look at few rows."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.journal.port import Closed, IndexUpdate, StreamQuery
from turnbuckle.journal.sqlite import database, rows, search
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.words import questions


class Held:
    """A connection on which a search takes until it is let go or interrupted."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.begun = threading.Event()
        self.go = threading.Event()
        self.threads: set[str] = set()
        self.interrupts = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def execute(self, sql, parameters=()):
        if "LIKE" in sql:
            self.threads.add(threading.current_thread().name)
            self.begun.set()
            assert self.go.wait(100)
            if self.interrupts:
                self.interrupts = 0
                raise sqlite3.OperationalError("interrupted")
        return self.inner.execute(sql, parameters)

    def interrupt(self) -> None:
        self.interrupts += 1
        self.go.set()


class Bench:
    def __init__(self, folder: Path) -> None:
        self.held: list[Held] = []
        self.journal = SqliteJournal(folder, connect=self._connect)

    def _connect(self, file: Path, *, read_only: bool = False):
        inner = database.connect(file, read_only=read_only)
        if not read_only:
            return inner
        self.held.append(Held(inner))
        return self.held[-1]

    async def search(self) -> "tuple[asyncio.Task, Held]":
        """A search that is under way."""
        task = asyncio.create_task(self.journal.search("sun"))
        while len(self.held) < 2 or not self.held[1].begun.is_set():
            await asyncio.sleep(0)
        return task, self.held[1]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 100))


def names(found) -> list[str]:
    return [each.row.name for each in found.hits]


@pytest.mark.requirement("G7")
def test_a_search_holds_nobody_up_and_is_broken_off_when_nobody_waits(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.journal.note("a", IndexUpdate(words="sun"))
        task, held = await bench.search()
        claim = await bench.journal.claim("run", "one", 60)  # others go on meanwhile
        await bench.journal.release(claim)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert held.go.is_set()
        assert threading.current_thread().name not in held.threads
        assert names(await bench.journal.search("sun")) == ["a"]  # the next one is not hurt by it
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("G7")
def test_closing_ends_a_search(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.journal.note("a", IndexUpdate(words="sun"))
        task, _ = await bench.search()
        await bench.journal.close()
        with pytest.raises(Closed):
            await task

    run(main())


@pytest.mark.requirement("E4", "G7")
def test_a_reader_beside_a_living_writer_finds_what_was_just_noted(tmp_path):
    async def main():
        journal = SqliteJournal(tmp_path)
        reader = SqliteReader(tmp_path)
        for number in range(5):
            await journal.note(f"run-{number}", IndexUpdate(kind="run", words=f"sun {number}"))
            assert names(await reader.search("sun", limit=2)) == names(await journal.search("sun", limit=2))
        assert names(await reader.search("sun", StreamQuery(orphaned=True))) == []
        await journal.claim("run-1", "one", 60)
        await journal.close()
        assert names(await reader.search("sun", StreamQuery(orphaned=True))) == ["run-1"]
        await reader.close()
        with pytest.raises(Closed):
            await reader.search("sun")

    run(main())


@pytest.mark.requirement("G7")
def test_dropping_takes_every_word_out_of_the_index(tmp_path):
    async def main():
        journal = SqliteJournal(tmp_path)
        for number in range(130):
            await journal.note("a", IndexUpdate(title=f"title {number}", words=f"sun {number}"))
        await journal.note("b", IndexUpdate(words="moon"))
        assert await journal.drop("a")
        await journal.close()

    run(main())
    connection = sqlite3.connect(tmp_path / DATABASE)
    assert connection.execute("SELECT text FROM word").fetchall() == [("moon",)]
    connection.execute("INSERT INTO word_index(word_index, rank) VALUES('integrity-check', 1)")
    connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, word_index, 'row')")
    assert connection.execute("SELECT term FROM terms").fetchall() == [("moon",)]
    connection.close()


def test_a_list_for_one_parent_or_user_does_not_look_at_the_others(tmp_path):
    async def main():
        journal = SqliteJournal(tmp_path)
        notes = (
            IndexUpdate(kind="run", parent=f"s{number % 500}", user=f"u{number % 400}")
            for number in range(2000)
        )
        await asyncio.gather(*(journal.note(f"run-{number}", note) for number, note in enumerate(notes)))
        await journal.note("alone", IndexUpdate(kind="run", parent="s-new", user="u1"))
        await journal.close()

    run(main())
    connection = sqlite3.connect(tmp_path / DATABASE)
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.set_progress_handler(count, 100)
    wanted = {
        StreamQuery(kind="run", parent="s-new"): 1,
        StreamQuery(kind="run", parent="s-new", user="u1"): 1,
        StreamQuery(kind="run", parent="none"): 0,
        StreamQuery(kind="run", user="u7"): 5,
        StreamQuery(kind="run", name="run-1000"): 1,
        StreamQuery(kind="run", parent="s7", status="x"): 0,
        StreamQuery(kind="run", status="x"): 0,
        StreamQuery(kind="run", user="u7", status="x"): 0,
        StreamQuery(kind="run", user="u7", order="newest"): 5,
        StreamQuery(kind="run", parent="s7", order="oldest"): 4,
    }
    for each, number in wanted.items():
        assert len(rows.list_streams(connection, each, None, 50)) == number
    assert steps < 20  # hundreds of instructions; a look at everything would take tens of thousands
    assert len(rows.list_streams(connection, StreamQuery(kind="run", order="oldest"), None, 5)) == 5
    assert steps < 20
    rows.list_streams(connection, StreamQuery(status="x"), None, 50)
    assert steps > 20  # the count can fail
    connection.close()


def filled(folder: Path, streams: int) -> Path:
    """A journal in which every stream has a word that all have, and one that begins as all others do."""
    file = folder / DATABASE
    connection = database.open_to_write(file)
    with database.transaction(connection):
        for key in range(1, streams + 1):
            name, statement = f"run-{key}", rows.make_stream(key, f"run-{key}", 0, float(key))
            connection.execute(*statement)
            text = f"the usual message about session{key}x and nothing else"
            for sql, values in rows.set_note(
                key, IndexUpdate(kind="run", user="ann", title=name, words=text), float(key)
            ):
                connection.execute(sql, values)
        rows.index_all_words(connection)
    connection.close()
    return file


@pytest.mark.requirement("E11", "G7")
@pytest.mark.parametrize(
    "question", ["session", "s", "usual", "usual message", "the session", "session17x", "message sess"]
)
def test_a_search_looks_at_as_much_as_it_shows_however_many_streams_there_are(tmp_path, question):
    looked = {}
    for streams in (200, 4000):
        folder = tmp_path / str(streams)
        folder.mkdir()
        connection: Any = database.open_to_read(filled(folder, streams))
        statements = 0

        class Counted:
            def __getattr__(self, name):
                return getattr(connection, name)  # noqa: B023

            def execute(self, sql, parameters=()):
                nonlocal statements
                statements += 1
                return connection.execute(sql, parameters)  # noqa: B023

        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        connection.set_progress_handler(count, 10)
        found = search.find(Counted(), questions(question), StreamQuery(kind="run", user="ann"), 20).hits
        looked[streams] = (len(found), statements, steps)
        newest = [int(one.row.name.removeprefix("run-")) for one in found]
        assert newest == sorted(newest, reverse=True)
        connection.close()
    few, many = looked[200], looked[4000]
    assert few[0] == many[0] == (1 if "17" in question else 20)
    assert many[1] <= few[1] + 2
    assert many[2] <= 2 * few[2] + (4000 if "17" in question else 100)


NEWEST = {
    "session": ["run-2", "run-3", "run-1"],
    "usual": ["run-2", "run-3", "run-1"],
    "message session": ["run-3", "run-2", "run-1"],
    "usual 北京": ["run-2"],
    "北京": ["run-2"],
}


@pytest.mark.requirement("E11", "G7")
@pytest.mark.parametrize("question", NEWEST)
def test_a_page_of_a_search_is_bounded_and_leads_on_to_what_stands_behind_the_bound(
    tmp_path, question, monkeypatch
):
    for bound in ("MOST_LOOKED", "MOST_PLACES", "MOST_NEWEST", "MOST_TEXTS"):
        monkeypatch.setattr(search, bound, 10)
    connection = database.open_to_write(filled(tmp_path, 60))
    with database.transaction(connection):
        connection.execute("UPDATE stream SET user = 'bob' WHERE id > 3")
        connection.execute("DELETE FROM word WHERE id % 7 = 0 AND id > 6")
        for key in (2, 40):
            connection.execute(*rows.set_note(key, IndexUpdate(words="the usual session in 北京"), 1.0)[1])
    shown: list[str] = []
    place, pages = None, 0
    while True:
        page = search.find(connection, questions(question), StreamQuery(kind="run", user="ann"), 20, place)
        shown, pages, place = [*shown, *names(page)], pages + 1, page.next
        if place is None:
            break
    assert shown == (NEWEST[question])
    assert pages > 1 or "北京" in question
    connection.close()
