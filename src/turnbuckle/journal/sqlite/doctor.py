"""Finding damage, and cutting it out.

`check` reads everything and changes nothing. `mend` writes a new file with all that can be trusted: of every
stream the items before its first bad one, since later ones may stand on what is missing. The old file is kept
beside it, so nothing is ever destroyed. One rename decides: before it the old file is the journal, behind it
the new one, and whoever comes next finishes what is left to do. Both take minutes for very large journals,
and only `mend` needs the folder to itself, as does `vacuum`.
"""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnbuckle.journal.port import Damaged, FormatUnknown
from turnbuckle.journal.report import JournalReport, StreamDamage
from turnbuckle.journal.sqlite.database import (
    FORMAT,
    UNREADABLE,
    SqlConnection,
    open_to_read,
    open_to_write,
    refuse_folder,
    storage_errors,
    transaction,
    version_of,
)
from turnbuckle.journal.sqlite.folder import (
    DATABASE,
    MENDED,
    FolderLock,
    finish_mend,
    finish_mend_if_free,
    sync_path,
)
from turnbuckle.journal.sqlite.looking import TORN, torn
from turnbuckle.journal.sqlite.migrations import MIGRATIONS
from turnbuckle.journal.sqlite.rows import COLUMNS, INSERT_ITEM, ItemRow, fault, index_all_words

_ITEMS = "SELECT stream, seq, sum, data FROM item WHERE stream = ? AND seq > ? ORDER BY seq"
_UNINDEXED = _ITEMS.replace("FROM item", "FROM item NOT INDEXED")
_PLACES = "SELECT stream, seq FROM item NOT INDEXED"
_STREAMS = "SELECT * FROM stream ORDER BY id"
_WORDS = "SELECT id, stream, is_title, text FROM word ORDER BY id"
_LARGE = """SELECT stream.parent, max(length(item.data)) AS size FROM stream
JOIN item ON item.stream = stream.id AND item.seq = 1 WHERE stream.kind = 'run' AND stream.parent != ''
GROUP BY stream.parent HAVING size > ? ORDER BY size DESC LIMIT 10"""
_CHUNK = 1000


def check(folder: Path) -> JournalReport:
    """Look at everything. Works beside a living server. Raises only if there is no journal that could be
    looked at."""
    finish_mend_if_free(folder)
    connection, problem = _opened(folder / DATABASE)
    try:
        return _examine(connection, folder / DATABASE, problem, None)
    finally:
        connection.close()


def mend(folder: Path) -> JournalReport:
    """Cut the damage out. A sound journal is left as it is. Raises `InUse` if a server is running."""
    lock = FolderLock(folder)
    try:
        finish_mend(folder)
        report = check(folder)
        if report.sound:
            return report
        file, fresh = folder / DATABASE, folder / f"{DATABASE}.new"
        _remove(fresh)
        (old, problem), new = _opened(file), open_to_write(fresh)
        try:
            with storage_errors(), transaction(new):
                report = _examine(old, file, problem, new)
            new.execute(
                "PRAGMA journal_mode=DELETE"
            ).fetchall()  # everything into the one file before it is renamed
        finally:
            old.close()
            new.close()
        sync_path(fresh)
        os.replace(fresh, folder / MENDED)  # from here on the new one counts, whoever puts it in its place
        sync_path(folder)
        kept = finish_mend(folder)
        return JournalReport(
            report.format, report.streams, report.items, report.bytes, report.problems, report.structure, kept
        )
    finally:
        lock.release()


def largest_begins(folder: Path, over: int) -> list[tuple[str, int]]:
    """Sessions whose newest runs begin with more than so many bytes, and how many: each begins with all that
    was said before. Raises StorageError."""
    connection = open_to_read(folder / DATABASE)
    try:
        with storage_errors():
            return [(str(name), int(size)) for name, size in connection.execute(_LARGE, (over,))]
    finally:
        connection.close()


def vacuum(folder: Path) -> None:
    """Give the room of what was deleted back to the disk. Needs about as much free room as the journal has.
    Raises `InUse` if a server is running."""
    lock = FolderLock(folder)
    try:
        finish_mend(folder)
        connection = open_to_write(folder / DATABASE)
        try:
            with storage_errors():
                connection.execute("VACUUM").fetchall()
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()
    finally:
        lock.release()


def _opened(file: Path) -> tuple[SqlConnection, str]:
    """To be read, also if its end is missing or its description of itself is damaged; and what is wrong with
    it as a whole."""
    refuse_folder(file)
    problem = torn(file) if file.exists() else ""
    try:
        return open_to_read(file, torn=problem.startswith(TORN)), problem
    except Damaged as error:
        return open_to_read(file, torn=True), problem or str(error)


def _examine(
    connection: SqlConnection, file: Path, problem: str, copy_to: SqlConnection | None
) -> JournalReport:
    with storage_errors():
        version = version_of(connection, file)
    if not version:
        raise FormatUnknown(f"{file} is empty")
    structure = _structure(connection)
    if problem:
        structure.insert(0, problem)
    problems: list[StreamDamage] = []
    keys: set[int] = set()
    items = size = 0
    ends = _ends(connection) if structure else {}
    for row in _safely(connection, _STREAMS, (), problems, ""):
        if copy_to is not None:
            columns = ("id", *COLUMNS)[: len(row)]  # an older file has fewer
            marks = ", ".join("?" * len(row))
            into = f"INSERT INTO stream({', '.join(columns)}) VALUES({marks})"
            if not _copied(copy_to, into, row, str(row[1]), problems):
                continue
        keys.add(row[0])
        for good in _good_rows(connection, row[0], row[1], ends.get(row[0], 0), problems):
            items += len(good)
            size += sum(len(data) for _, _, _, data in good)
            if copy_to is not None:
                copy_to.executemany(INSERT_ITEM, good)
    for word in _safely(connection, _WORDS, (), problems, ""):
        if copy_to is not None and word[1] in keys:
            into = "INSERT INTO word(id, stream, is_title, text) VALUES(?, ?, ?, ?)"
            _copied(copy_to, into, word, "", problems)
    if copy_to is not None:
        index_all_words(copy_to)
        for step in range(version, FORMAT):
            MIGRATIONS[step](copy_to)
    return JournalReport(version, len(keys), items, size, tuple(problems), tuple(structure))


def _copied(
    copy_to: SqlConnection, sql: str, row: tuple[Any, ...], stream: str, problems: list[StreamDamage]
) -> bool:
    """Whether a sound journal can hold this row. In a damaged one a column may be empty, or a key be there
    twice."""
    try:
        copy_to.execute(sql, row)
    except sqlite3.IntegrityError as error:
        problems.append(StreamDamage(stream, None, 0, f"its row cannot be kept: {error}"))
        return False
    return True


def _ends(connection: SqlConnection) -> dict[int, int]:
    """The last number of each stream, as far as it can be found without the index. One that misses the end of
    a stream says nothing of it."""
    ends: dict[int, int] = {}
    for key, seq in _safely(connection, _PLACES, (), [], ""):
        if isinstance(seq, int) and seq > ends.get(key, 0):
            ends[key] = seq
    return ends


def _good_rows(
    connection: SqlConnection, key: int, name: str, end: int, problems: list[StreamDamage]
) -> Iterator[list[ItemRow]]:
    """A stream's items, in portions, up to the first bad one. What only the index hides is found without
    it; `end` is the last number there is to find."""
    known, last = len(problems), 0
    for portion in _sound_rows(connection, _ITEMS, (key, last), name, problems):
        last = portion[-1][1] if portion else last
        yield portion
    if len(problems) > known or end > last:
        hidden: list[StreamDamage] = []
        found = False
        for portion in _sound_rows(connection, _UNINDEXED, (key, last), name, hidden):
            found = found or bool(portion)
            yield portion
        if found:
            problems[known:] = hidden


def _sound_rows(
    connection: SqlConnection, sql: str, behind: tuple[int, int], name: str, problems: list[StreamDamage]
) -> Iterator[list[ItemRow]]:
    """The items behind one of a stream, up to the first bad one."""
    portion: list[ItemRow] = []
    key, last = behind
    rows = _safely(connection, sql, behind, problems, name)
    for row in rows:
        if why := fault(key, last, row[1], row[2], row[3]):
            problems.append(
                StreamDamage(name, row[1] if "checksum" in why else last + 1, 1 + sum(1 for _ in rows), why)
            )
            break
        last = row[1]
        portion.append((key, row[1], row[2], row[3]))  # the index may name another stream
        if len(portion) == _CHUNK:
            yield portion
            portion = []
    yield portion


def _safely(
    connection: SqlConnection, sql: str, values: tuple[object, ...], problems: list[StreamDamage], stream: str
) -> Iterator[tuple[Any, ...]]:
    """The rows of a query until the database itself gives up."""
    try:
        yield from connection.execute(sql, values)
    except UNREADABLE as error:
        problems.append(StreamDamage(stream, None, 0, f"cannot be read further: {error}"))


def _structure(connection: SqlConnection) -> list[str]:
    try:
        said = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    except UNREADABLE as error:
        return [str(error)]
    return [] if said == ["ok"] else said


def _remove(file: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + ending).unlink(missing_ok=True)
