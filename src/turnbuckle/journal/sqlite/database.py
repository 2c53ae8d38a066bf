"""The file's shape, and opening it.

The version of the shape is the database's `user_version`, its kind the `application_id`; both are readable
even when tables are broken. A newer version is refused, an older one is changed by the steps in `migrations`,
all in one transaction. A file without version is empty or not ours.

Writing and checkpointing is done by one connection only. Old SQLite has a race that can damage the file when
two connections do it; and nobody else may hold the log open for long. Readers open read-only and never
checkpoint.
"""

import errno
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from turnbuckle.journal.port import (
    Damaged,
    FormatUnknown,
    JournalError,
    OutOfFiles,
    ReadOnly,
    StorageError,
    StorageFailed,
    StorageFull,
)
from turnbuckle.journal.sqlite.migrations import (
    CHILDREN_IN_ORDER,
    INDEXED_LATER,
    LISTS_IN_ORDER,
    MIGRATIONS,
)

FORMAT = 4
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_FILES = (errno.EMFILE, errno.ENFILE)
_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)
APPLICATION = 0x54424A32
BEFORE = {(0x54424A4C, 3): 1}
"""Files from before the versions were counted from 1 again, and what they count as now."""

_STREAMS = (
    """CREATE TABLE stream( id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, parent TEXT
    NOT NULL, title TEXT NOT NULL, status TEXT NOT NULL, user TEXT NOT NULL, created REAL NOT NULL, updated
    REAL NOT NULL, epoch INTEGER NOT NULL, holder TEXT NOT NULL, mark TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX stream_list ON stream(kind, updated, name)",
    "CREATE INDEX stream_held ON stream(holder) WHERE holder != ''",
    # With the place as its key SQLite would read all of a row that is longer than a page to compare two
    # numbers: a small write beside an item of 2 MB took fifty times as long. Files of before have it so.
    """CREATE TABLE item(
        stream INTEGER NOT NULL, seq INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX item_place ON item(stream, seq)",
    "CREATE TABLE dropped(stream INTEGER PRIMARY KEY)",
)
_LISTS = (
    "CREATE INDEX stream_child ON stream(parent, kind, updated, name) WHERE parent != ''",
    "CREATE INDEX stream_user ON stream(user, kind, updated, name) WHERE user != ''",
    CHILDREN_IN_ORDER,
    *LISTS_IN_ORDER,
)
# What streams are found by, and its index.
_WORDS = (
    """CREATE TABLE word(
        id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, is_title INTEGER NOT NULL, text TEXT NOT NULL)""",
    "CREATE INDEX word_stream ON word(stream, is_title)",
    """CREATE VIRTUAL TABLE word_index USING fts5(
        text, content='word', content_rowid='id', columnsize=0, tokenize='unicode61 remove_diacritics 2')""",
    *INDEXED_LATER,
)
SCHEMA = (*_STREAMS, *_LISTS, *_WORDS)
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What the library raises. It cannot decode its own message if that quotes damaged words."""


class SqlCursor(Protocol):
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def close(self) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """The little of a database connection that is used here, so that a test can hand in another one."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> SqlCursor: ...
    def executemany(self, sql: str, parameters: Sequence[Sequence[Any]], /) -> SqlCursor: ...
    @property
    def in_transaction(self) -> bool: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


class Connect(Protocol):
    def __call__(self, file: Path, *, read_only: bool = False) -> SqlConnection: ...


Migration = Callable[[SqlConnection], None]


def connect(file: Path, *, read_only: bool = False) -> SqlConnection:
    """A connection through the standard library. Transactions are begun by hand."""
    address = f"{file.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=5)


def open_to_write(
    file: Path,
    connect: Connect = connect,
    migrations: Mapping[int, Migration] = MIGRATIONS,
    newest: int = FORMAT,
) -> SqlConnection:
    """The only connection that writes. Makes the file, or brings it to the newest version."""
    refuse_folder(file)
    with storage_errors():
        connection = connect(file)
    try:
        with storage_errors():
            version_of(connection, file, newest)  # before anything is changed
            _check_modules(connection)
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
            connection.execute(
                "PRAGMA wal_autocheckpoint=0"
            ).fetchall()  # they happen off the loop, when asked for
            connection.execute("PRAGMA synchronous=FULL").fetchall()
            if sys.platform == "darwin":
                connection.execute("PRAGMA fullfsync=1").fetchall()
                connection.execute("PRAGMA checkpoint_fullfsync=1").fetchall()
            _bring_up_to_date(connection, file, migrations, newest)
    except JournalError:
        connection.close()
        raise
    return connection


def open_to_read(file: Path, connect: Connect = connect, *, torn: bool = False) -> SqlConnection:
    """A connection that can change nothing, and works beside a living writer. Of a file that is `torn` it
    gives what is left, which the library refuses otherwise."""
    refuse_folder(file)
    if not file.exists():
        raise StorageFailed(f"there is no journal at {file}")
    with storage_errors():
        connection = connect(file, read_only=True)
    try:
        with storage_errors():
            if torn:
                connection.execute("PRAGMA writable_schema=1").fetchall()
            connection.execute("PRAGMA query_only=1").fetchall()
            version_of(connection, file)
    except JournalError:
        connection.close()
        raise
    return connection


def refuse_folder(file: Path) -> None:
    """The library does not say why it cannot open one."""
    if file.is_dir():
        raise FormatUnknown(f"{file} is not a file: move it away, or put a backup in its place")


def _check_modules(connection: SqlConnection) -> None:
    if connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is None:
        raise StorageFailed(
            "the SQLite of this Python was built without FTS5, which the journal needs for its search"
        )


def version_of(connection: SqlConnection, file: Path, newest: int = FORMAT) -> int:
    """The format version of a file; 0 if it is empty. Refuses what this program cannot know."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if (application, version) in BEFORE:
        return BEFORE[application, version]
    if application not in (0, APPLICATION) or (tables and not version):
        raise FormatUnknown(f"{file} is a database, but no journal of this program")
    if version > newest:
        raise FormatUnknown(
            f"{file} has journal format {version}, and this turnbuckle knows formats up to {newest}; use "
            "a newer one"
        )
    return version


def _bring_up_to_date(
    connection: SqlConnection, file: Path, migrations: Mapping[int, Migration], newest: int
) -> None:
    version = version_of(connection, file, newest)
    if version == newest:
        return
    with transaction(connection):
        if version == 0:
            for statement in SCHEMA:
                connection.execute(statement)
        else:
            for step in range(version, newest):
                migrations[step](connection)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={newest}")


@contextmanager
def transaction(connection: SqlConnection) -> Iterator[None]:
    """All or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors have already rolled back
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: SqlConnection) -> Iterator[None]:
    """All reads see one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


@contextmanager
def storage_errors(stream: str = "") -> Iterator[None]:
    """Turn what the library raises into the journal's own errors."""
    try:
        yield
    except (*UNREADABLE, OSError) as error:
        raise translated(error, stream) from error


def translated(error: Exception, stream: str = "") -> StorageError:
    failure = _translated(error, stream)
    failure.__cause__ = error
    return failure


def _no_file_can_be_opened() -> bool:
    """The library only says that it could not open something; this says why."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _NO_FILES
    return False


def _translated(error: Exception, stream: str) -> StorageError:
    primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    number = getattr(error, "errno", None)
    if primary == sqlite3.SQLITE_FULL or number in _NO_ROOM:
        return StorageFull(f"no room for the journal: {error}")
    if number in _NO_FILES or (primary == sqlite3.SQLITE_CANTOPEN and _no_file_can_be_opened()):
        return OutOfFiles(f"this process may open no more files, so the journal cannot be used: {error}")
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or number in _NOT_ALLOWED:
        return ReadOnly(f"the journal cannot be written: {error}")
    if primary == sqlite3.SQLITE_NOTADB:
        return FormatUnknown(
            f"the journal's file is not a database ({error}): move it away, or put a backup in its place"
        )
    if primary == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError):
        return Damaged(stream, None, f"the database is damaged: {error}")
    return StorageFailed(f"{error} ({name})")
