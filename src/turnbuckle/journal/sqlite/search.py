"""Finding streams by words, in a thread and over a connection of its own: nobody else may wait for it. A
search that nobody waits for any more is broken off.

Theory of operation. One word of the question leads: texts in which it stands are looked at from the newest
on, until enough streams are found or the most were looked at; the number of the last text is where the next
page begins. So a page costs what it shows, and a word that stands everywhere costs no more than a rare one. A
stream belongs to the newest text in which the leading word stands, among those that were there when the first
page was asked for: so it is on one page, whatever is noted meanwhile. Whether it has all the words is found
out from its texts, by the same rules as everywhere (`words`); the index only says where to look. Every word
goes to it in quotes, so that no sign in it has a meaning there.

A text comes into the index some time after it was stored (`rows.index_words`). What is newer than the index
is looked through, so nobody notices.

Where the only word may be the beginning of one, the index would first collect all places of all words that
begin so. So the newest texts are looked through before it is asked. Scripts without spaces have no words in
the index; there the texts themselves are looked through. Of a family, which is one stream or the children of
one, the texts are few, and looked at without the index.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnbuckle.journal.finding import (
    MOST_LOOKED,
    MOST_PLACES,
    MOST_TEXTS,
    StreamFinder,
    like_pattern,
)
from turnbuckle.journal.port import (
    Closed,
    SearchHit,
    SearchPage,
    SearchPlace,
    StorageError,
    StreamQuery,
    StreamRow,
)
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.database import Connect, SqlConnection, open_to_read, storage_errors
from turnbuckle.journal.words import Question, plain_text, questions

MOST_NEWEST = 4000
"""Texts that are looked through before the index is asked for the beginning of a word."""
_NEWEST = "SELECT coalesce(max(id), 0) FROM word"
_IS_INDEXED_LATER = "SELECT 1 FROM sqlite_master WHERE name = 'indexed'"
_UPTO = "SELECT upto FROM indexed"
_ALL = "SELECT id, stream FROM word WHERE id >= ? AND id < ? ORDER BY id DESC"
_INDEXED = """
SELECT word.id, word.stream FROM word_index CROSS JOIN word ON word.id = word_index.rowid
WHERE word_index MATCH ? AND word_index.rowid < ? ORDER BY word_index.rowid DESC"""
_LOOKED_THROUGH = """
SELECT id, stream FROM word WHERE id >= ? AND id < ? AND text LIKE ? ESCAPE '\\' ORDER BY id DESC"""
_NEWEST_TEXTS = """
SELECT id, stream, text FROM word WHERE id >= ? AND id < ?
AND (text LIKE ? ESCAPE '\\' OR length(text) <> length(CAST(text AS BLOB))) ORDER BY id DESC"""
_FAMILY = """
SELECT word.id, word.stream FROM stream CROSS JOIN word ON word.stream = stream.id
WHERE {where} AND word.id < ? ORDER BY word.id DESC"""
_TEXTS = "SELECT id, text FROM word WHERE stream = ? AND id <= ? ORDER BY id DESC"


class Search:
    """One search after the other. The connection is opened by the first."""

    def __init__(self, file: Path, connect: Connect) -> None:
        self._file = file
        self._connect = connect
        self._connection: SqlConnection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def find(
        self, words: str, wanted: StreamQuery, limit: int, after: SearchPlace | None
    ) -> SearchPage:
        """As the port says, but `orphaned` means only that somebody claimed the stream and never released
        it."""
        asked = questions(words)
        if not asked:
            return SearchPage([])
        async with self._turn:
            self._check_open()
            job = asyncio.get_running_loop().run_in_executor(None, self._find, asked, wanted, limit, after)
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

    def _find(
        self, asked: list[Question], wanted: StreamQuery, limit: int, after: SearchPlace | None
    ) -> SearchPage:
        if self._connection is None:
            self._connection = open_to_read(self._file, self._connect)
        with storage_errors():
            return find(self._connection, asked, wanted, max(limit, 1), after)

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
    connection: SqlConnection,
    asked: list[Question],
    wanted: StreamQuery,
    limit: int,
    after: SearchPlace | None = None,
) -> SearchPage:
    """The streams that have every word."""
    if after is None:
        newest = int(connection.execute(_NEWEST).fetchone()[0])
        after = SearchPlace(newest + 1, newest)
    looking = _SqliteFinder(connection, asked, wanted, after)
    hits: list[SearchHit] = []
    for count, (place, stream) in enumerate(looking.places(), 1):
        if (hit := looking.at(place, stream)) is not None:
            hits.append(hit)
        if len(hits) >= limit or looking.count >= MOST_LOOKED or count >= MOST_PLACES:
            return SearchPage(hits, SearchPlace(place, after.newest))
    return SearchPage(hits, looking.rest)


class _SqliteFinder(StreamFinder):
    def __init__(
        self, connection: SqlConnection, asked: list[Question], wanted: StreamQuery, after: SearchPlace
    ) -> None:
        super().__init__(asked, after)
        self._connection = connection
        self._is_family = bool(wanted.name or wanted.parent)
        conditions = rows.conditions_of(wanted)
        self._where = " AND ".join(text for text, _ in conditions) or "1"
        self._values = [value for _, some in conditions for value in some]
        self._sql = f"SELECT * FROM stream WHERE id = ? AND {self._where}"

    def _row(self, stream: int) -> StreamRow | None:
        row = self._connection.execute(self._sql, (stream, *self._values)).fetchone()
        return None if row is None else StreamRow(*row[1:])

    def _texts(self, stream: int) -> list[tuple[int, str]]:
        return self._connection.execute(_TEXTS, (stream, self._after.newest)).fetchall()

    def places(self) -> Iterator[tuple[int, int]]:
        """Texts in which the leading word may stand and their streams, from the newest on; the cheap ways to
        look come first."""
        lead, below = self._lead, self._after.below
        if self._is_family:
            yield from self._rows(_FAMILY.format(where=self._where), (*self._values, below))
            return
        if lead.is_unspaced:
            lowest = max(below - MOST_TEXTS, 0)
            yield from self._rows(_LOOKED_THROUGH, (lowest, below, like_pattern(lead.word)))
            self.rest = SearchPlace(lowest, self._after.newest) if lowest else None
            return
        lowest = min(self._upto() + 1, below)
        if not lead.word.isascii():
            yield from self._rows(_ALL, (lowest, below))
        else:
            if lead.may_begin:
                lowest = min(lowest, max(below - MOST_NEWEST, 0))
            yield from self._newest(lead.phrase[-1], lowest, below)
        below = lowest
        match = '"' + lead.word.replace('"', '""') + '"'
        if below:
            yield from self._rows(_INDEXED, (f"{match}*" if lead.may_begin else match, below))

    def _upto(self) -> int:
        """The last text that is in the index. In a file of an older format that is every one."""
        if self._connection.execute(_IS_INDEXED_LATER).fetchone() is None:
            return self._after.below
        row = self._connection.execute(_UPTO).fetchone()
        return 0 if row is None else int(row[0])

    def _newest(self, word: str, lowest: int, below: int) -> Iterator[tuple[int, int]]:
        """What the store calls equal has the same accents: where there are any it is looked at here."""
        cursor = self._connection.execute(_NEWEST_TEXTS, (lowest, below, like_pattern(word)))
        try:
            for place, stream, text in cursor:
                if text.isascii() or word in plain_text(text):
                    yield int(place), int(stream)
        finally:
            cursor.close()

    def _rows(self, sql: str, values: tuple[Any, ...]) -> Iterator[tuple[int, int]]:
        cursor = self._connection.execute(sql, values)
        try:
            for place, stream in cursor:
                yield int(place), int(stream)
        finally:
            cursor.close()
