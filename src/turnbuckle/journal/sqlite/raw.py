"""A journal in a folder, to be moved: away from it, or to it (`journal/moving.py`)."""

import os
from collections.abc import Sequence
from pathlib import Path

from turnbuckle.journal.moving import STREAMS_PAGE, WORDS_PAGE, RawItem, RawStream, RawWords
from turnbuckle.journal.port import READ_BYTES, READ_LIMIT, Damaged, StorageFailed, StreamRow
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.checksums import SUM_BITS, checksum
from turnbuckle.journal.sqlite.database import SqlConnection, open_to_write, storage_errors, transaction
from turnbuckle.journal.sqlite.folder import (
    DATABASE,
    FolderLock,
    finish_mend,
    holds_journal,
    sync_path,
)

MOVING = "journal.db.moving"
_STREAMS = f"SELECT * FROM stream WHERE id > ? ORDER BY id LIMIT {STREAMS_PAGE}"
_WORDS = f"SELECT id, stream, is_title, text FROM word WHERE id > ? ORDER BY id LIMIT {WORDS_PAGE}"
_PUT_STREAM = (
    f"INSERT OR REPLACE INTO stream(id, {', '.join(rows.COLUMNS)}) "
    f"VALUES({', '.join('?' * (1 + len(rows.COLUMNS)))})"
)
_PUT_WORDS = "INSERT INTO word(id, stream, is_title, text) VALUES(?, ?, ?, ?)"


class RawSqlite:
    """All of a journal in one file, for whoever holds the folder's lock."""

    def __init__(self, connection: SqlConnection, lock: FolderLock) -> None:
        self._connection = connection
        self._lock = lock

    async def streams(self, after: int) -> Sequence[RawStream]:
        with storage_errors():
            found = self._connection.execute(_STREAMS, (after,)).fetchall()
        return [RawStream(int(row[0]), StreamRow(*row[1:])) for row in found]

    async def items(self, stream: int, after: int) -> Sequence[RawItem]:
        found: list[RawItem] = []
        last, size = after, 0
        with storage_errors():
            cursor = self._connection.execute(rows.SELECT_ITEMS, (stream, after, READ_LIMIT))
            try:
                for seq, stored, data in cursor:
                    if why := rows.fault(stream, last, seq, stored, data):
                        raise Damaged(str(stream), seq, f"{why}; turnbuckle doctor --mend comes first")
                    found.append(RawItem(seq, stored >> SUM_BITS, data))
                    last, size = seq, size + len(data)
                    if size >= READ_BYTES:
                        break
            finally:
                cursor.close()
        return found

    async def words(self, after: int) -> Sequence[RawWords]:
        with storage_errors():
            found = self._connection.execute(_WORDS, (after,)).fetchall()
        return [RawWords(number, stream, bool(is_title), text) for number, stream, is_title, text in found]

    async def close(self) -> None:
        self._connection.close()
        self._lock.release()


class RawSqliteTarget(RawSqlite):
    """The copy in a file beside the journal's own."""

    def __init__(self, folder: Path) -> None:
        lock = FolderLock(folder)
        try:
            finish_mend(folder)
            if holds_journal(folder) and _has_streams(folder / DATABASE):
                raise StorageFailed(f"there is a journal in {folder} already: name an empty folder")
            with storage_errors():
                os.close(os.open(folder / MOVING, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            super().__init__(open_to_write(folder / MOVING), lock)
        except BaseException:
            lock.release()
            raise
        self._folder = folder

    async def put_stream(self, stream: RawStream) -> None:
        row = stream.row
        values = [stream.key, *(getattr(row, name) for name in rows.COLUMNS)]
        self._do([(_PUT_STREAM, tuple(values))])

    async def drop_stream(self, stream: int) -> None:
        self._do([(f"DELETE FROM {table} WHERE {key} = ?", (stream,)) for table, key in _OF_STREAM])

    async def cut_items(self, stream: int, first: int) -> None:
        self._do([("DELETE FROM item WHERE stream = ? AND seq >= ?", (stream, first))])

    async def put_items(self, stream: int, items: Sequence[RawItem]) -> None:
        made = [
            (stream, item.seq, checksum(stream, item.seq, item.data, item.covers), item.data)
            for item in items
        ]
        with storage_errors(), transaction(self._connection):
            self._connection.executemany(rows.INSERT_ITEM, made)

    async def cut_words(self, first: int) -> None:
        self._do([("DELETE FROM word WHERE id >= ?", (first,))])

    async def put_words(self, words: Sequence[RawWords]) -> None:
        made = [(word.number, word.stream, int(word.is_title), word.text) for word in words]
        with storage_errors(), transaction(self._connection):
            self._connection.executemany(_PUT_WORDS, made)

    async def finish(self) -> None:
        with storage_errors():
            with transaction(self._connection):
                rows.index_all_words(self._connection)
            self._connection.execute("PRAGMA journal_mode=DELETE").fetchall()  # everything into the one file
            self._connection.close()
            for ending in ("-wal", "-shm"):
                (self._folder / f"{DATABASE}{ending}").unlink(missing_ok=True)
            os.replace(self._folder / MOVING, self._folder / DATABASE)
            sync_path(self._folder)

    def _do(self, statements: list[rows.Statement]) -> None:
        with storage_errors(), transaction(self._connection):
            for sql, values in statements:
                self._connection.execute(sql, values)


_OF_STREAM = (("item", "stream"), ("stream", "id"))


def open_source(folder: Path) -> RawSqlite:
    """Raises InUse beside a living process, and StorageError."""
    if not holds_journal(folder):
        raise StorageFailed(f"there is no journal in {folder}")
    lock = FolderLock(folder)
    try:
        finish_mend(folder)
        connection = open_to_write(folder / DATABASE)
        with storage_errors():
            rows.finish_drops(connection)
    except BaseException:
        lock.release()
        raise
    return RawSqlite(connection, lock)


def _has_streams(file: Path) -> bool:
    connection = open_to_write(file)
    try:
        with storage_errors():
            return connection.execute("SELECT 1 FROM stream LIMIT 1").fetchone() is not None
    finally:
        connection.close()
