"""Finding streams by words, in a thread and over a connection of its own: nobody else may wait for it. A
search that nobody waits for any more is broken off.

Theory of operation. One word of the question leads: places where it stands are looked at from the newest on,
until enough streams are found or the most were looked at. So a search costs what it shows, and a word that
stands everywhere costs no more than a rare one. Whether a stream has all the words is found out from its
texts, by the same rules as everywhere (`words`); the index only says where to look. Every word goes to it in
quotes, so that no sign in it has a meaning there.

Where the only word may be the beginning of one, the index would first collect all places of all words that
begin so. So the newest texts are looked through before it is asked. Scripts without spaces have no words in
the index; there the texts themselves are looked through, as many of the newest as is affordable.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnbuckle.journal.port import Closed, SearchHit, StorageError, StreamQuery, StreamRow
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.database import Connect, SqlConnection, open_to_read, storage_errors
from turnbuckle.journal.words import Question, questions, snippet

MOST_LOOKED = 2000
"""Streams that one search looks at. What stands only in older ones is not found by words that stand
everywhere."""
MOST_NEWEST = 4000
"""Texts that are looked through where a word may be the beginning of one."""
MOST_TEXTS = 50_000
"""The same for scripts without spaces: some 50 MB, a tenth of a second."""
_INDEXED = """
SELECT word.id, word.stream FROM word_index CROSS JOIN word ON word.id = word_index.rowid
WHERE word_index MATCH ? ORDER BY word_index.rowid DESC"""
_LOOKED_THROUGH = """
SELECT id, stream FROM (SELECT id, stream, text FROM word ORDER BY id DESC LIMIT ?)
WHERE text LIKE ? ESCAPE '\\'"""
_TEXTS = "SELECT id, text FROM word WHERE stream = ? ORDER BY id DESC"
_NO_LIMIT = -1


class Search:
    """One search after the other. The connection is opened by the first."""

    def __init__(self, file: Path, connect: Connect) -> None:
        self._file = file
        self._connect = connect
        self._connection: SqlConnection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def find(self, words: str, wanted: StreamQuery, limit: int) -> list[SearchHit]:
        """As the port says, but `orphaned` means only that somebody claimed the stream and never released
        it."""
        asked = questions(words)
        if not asked:
            return []
        async with self._turn:
            self._check_open()
            job = asyncio.get_running_loop().run_in_executor(None, self._find, asked, wanted, limit)
            try:
                return await asyncio.shield(job)
            except asyncio.CancelledError:
                await self._break_off(job)
                raise
            except StorageError:
                self._check_open()  # broken off by the close
                raise

    async def close(self) -> None:
        self._closed = True
        self._interrupt()
        async with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _find(self, asked: list[Question], wanted: StreamQuery, limit: int) -> list[SearchHit]:
        if self._connection is None:
            self._connection = open_to_read(self._file, self._connect)
        with storage_errors():
            return find(self._connection, asked, wanted, _NO_LIMIT if wanted.orphaned else max(limit, 1))

    async def _break_off(self, job: "asyncio.Future[Any]") -> None:
        self._interrupt()
        while (
            not job.done()
        ):  # the connection is nobody else's before that, however often the caller is cancelled
            with suppress(asyncio.CancelledError):
                await asyncio.wait([job])
        job.exception()  # nobody is left to hear of it

    def _interrupt(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the journal is closed")


def find(
    connection: SqlConnection, asked: list[Question], wanted: StreamQuery, limit: int
) -> list[SearchHit]:
    """The streams that have every word."""
    hits: dict[int, tuple[int, SearchHit]] = {}
    looking = _Looking(connection, asked, wanted)
    for places in _places(connection, asked):
        for stream in places:
            if 0 <= limit <= len(hits) or looking.count >= MOST_LOOKED:
                break
            if (hit := looking.at(stream)) is not None:
                hits[stream] = hit
    return [found for _, found in sorted(hits.values(), key=lambda hit: hit[0], reverse=True)]


class _Looking:
    """Looks at streams, each once."""

    def __init__(self, connection: SqlConnection, asked: list[Question], wanted: StreamQuery) -> None:
        self.count = 0
        self._seen: set[int] = set()
        self._connection = connection
        self._asked = asked
        conditions = rows.conditions_of(wanted)
        where = " AND ".join(text for text, _ in conditions) or "1"
        self._sql = f"SELECT {rows.COLUMNS} FROM stream WHERE id = ? AND {where}"
        self._values = [value for _, some in conditions for value in some]

    def at(self, stream: int) -> tuple[int, SearchHit] | None:
        """The newest place of a word in it, and what is shown; None if it does not fit."""
        if stream in self._seen:
            return None
        self._seen.add(stream)
        row = self._connection.execute(self._sql, (stream, *self._values)).fetchone()
        if row is None:
            return None
        self.count += 1
        texts = self._connection.execute(_TEXTS, (stream,)).fetchall()
        places = [next(((at, text) for at, text in texts if one.fits(text)), None) for one in self._asked]
        there = [place for place in places if place is not None]
        if len(there) < len(places):
            return None
        at, text = max(there)
        return at, SearchHit(StreamRow(*row), snippet(text, self._asked))


def _places(connection: SqlConnection, asked: list[Question]) -> Iterator[Iterator[int]]:
    """Streams in which the leading word may stand, from the newest place on; the cheap ways to look come
    first."""
    spaced = [one for one in asked if not one.is_unspaced]
    whole = [one for one in spaced if not one.may_begin]
    lead = max(whole or spaced or asked, key=lambda one: len(one.word))
    if lead.is_unspaced:
        yield _looked_through(connection, lead.word, MOST_TEXTS)
        return
    if lead.may_begin and lead.word.isascii():
        yield _looked_through(connection, lead.phrase[-1], MOST_NEWEST)
    match = '"' + lead.word.replace('"', '""') + '"'
    yield _streams(connection, _INDEXED, (f"{match}*" if lead.may_begin else match,))


def _looked_through(connection: SqlConnection, word: str, most: int) -> Iterator[int]:
    pattern = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return _streams(connection, _LOOKED_THROUGH, (most, f"%{pattern}%"))


def _streams(connection: SqlConnection, sql: str, values: tuple[Any, ...]) -> Iterator[int]:
    cursor = connection.execute(sql, values)
    try:
        for _, stream in cursor:
            yield int(stream)
    finally:
        cursor.close()
