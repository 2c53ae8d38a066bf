"""Finding streams by words, in a thread and over a connection of its own: a search takes as long as there are places
where a word stands, and nobody else may wait for that. A search that nobody waits for any more is broken off.

Every word of a question goes to the index by itself, in quotes, so that no sign in it has a meaning there. A stream
fits if each of them finds something in it.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnbuckle.journal.port import Closed, Found, StorageError, StreamRow, Wanted
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.database import Connect, Connection, open_to_read, storage_errors
from turnbuckle.journal.words import asked_words

_SNIPPET_WORDS = 16
_HAS_INDEX = "SELECT 1 FROM sqlite_master WHERE name = 'word_index'"
# CROSS keeps the order: from the places of the word to its stream, never through all streams of a user.
_ONE_WORD = """
SELECT word.stream, max(word.id) AS newest FROM word_index
CROSS JOIN word ON word.id = word_index.rowid CROSS JOIN stream ON stream.id = word.stream
WHERE word_index MATCH ? AND {where} GROUP BY word.stream"""
_ALL_WORDS = """
SELECT {columns}, (SELECT snippet(word_index, 0, '', '', '…', {length}) FROM word_index
                   WHERE word_index MATCH ? AND word_index.rowid = hit.newest)
FROM (SELECT stream, max(newest) AS newest FROM ({each_word})
      GROUP BY stream HAVING count(*) = ? ORDER BY newest DESC LIMIT ?) AS hit
JOIN stream ON stream.id = hit.stream ORDER BY hit.newest DESC"""
_NO_LIMIT = -1


class Search:
    """One search after the other. The connection is opened by the first."""

    def __init__(self, file: Path, connect: Connect) -> None:
        self._file = file
        self._connect = connect
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def find(self, words: str, wanted: Wanted, limit: int) -> list[Found]:
        """As the port says, but `orphaned` means only that somebody claimed the stream and never released it."""
        asked = asked_words(words)
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

    def _find(self, asked: list[str], wanted: Wanted, limit: int) -> list[Found]:
        if self._connection is None:
            self._connection = open_to_read(self._file, self._connect)
        with storage_errors():
            return find(self._connection, asked, wanted, _NO_LIMIT if wanted.orphaned else max(limit, 1))

    async def _break_off(self, job: "asyncio.Future[Any]") -> None:
        self._interrupt()
        while not job.done():  # the connection is nobody else's before that, however often the caller is cancelled
            with suppress(asyncio.CancelledError):
                await asyncio.wait([job])
        job.exception()  # nobody is left to hear of it

    def _interrupt(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the journal is closed")


def find(connection: Connection, asked: list[str], wanted: Wanted, limit: int) -> list[Found]:
    """The streams that have every word. A journal that was only read since an older version has no words yet."""
    if connection.execute(_HAS_INDEX).fetchone() is None:
        return []
    conditions = rows.conditions_of(wanted)
    where = " AND ".join(text for text, _ in conditions) or "1"
    filters = [value for _, some in conditions for value in some]
    matches = ['"' + word.replace('"', '""') + '"' for word in asked]
    matches[-1] += "*"
    one_word = _ONE_WORD.format(where=where)
    columns = ", ".join(f"stream.{name.strip()}" for name in rows.COLUMNS.split(","))
    each_word = " UNION ALL ".join([one_word] * len(matches))
    sql = _ALL_WORDS.format(columns=columns, length=_SNIPPET_WORDS, each_word=each_word)
    values = [" OR ".join(matches), *(value for match in matches for value in (match, *filters)), len(matches), limit]
    return [Found(StreamRow(*row[:-1]), " ".join((row[-1] or "").split())) for row in connection.execute(sql, values)]
