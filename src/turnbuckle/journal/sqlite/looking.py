"""A quick look at the file as it lies on the disk: what the process itself has in memory may long be
something else.

It costs the same for every size of journal: the beginning of the file, its length, and a few streams by
chance.
"""

import os
import random
import time
from pathlib import Path

from turnbuckle.journal.port import Damaged, Item
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.database import Connect, SqlConnection, open_to_read, storage_errors
from turnbuckle.journal.sqlite.folder import FolderMark
from turnbuckle.journal.sqlite.rows import fault, highest_key

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
TORN = "its end is torn off"
_SAMPLES = 4
_LOOKS = 4
_PAUSE = 0.1
_STREAM = "SELECT id, name FROM stream WHERE id >= ? ORDER BY id LIMIT 1"
_NEWEST = (
    "SELECT seq, sum, data FROM item WHERE stream = ? AND length(data) < 1048576 ORDER BY seq DESC LIMIT 3"
)


def look_at(mark: FolderMark, connect: Connect) -> None:
    """Raises StorageError."""
    mark.check()
    with storage_errors():
        if problem := torn(mark.file):
            raise Damaged("", None, problem)
    connection = open_to_read(mark.file, connect)
    try:
        with storage_errors():
            _sample(connection)
    finally:
        connection.close()


def torn(file: Path) -> str:
    """What is wrong with the beginning or the length of a file; empty if nothing is. What is only in the log
    so far is not missed. Beside a process that is just writing its log into the file one look may be too
    early."""
    for _ in range(_LOOKS - 1):
        if not _torn(file):
            return ""
        time.sleep(_PAUSE)
    return _torn(file)


def _torn(file: Path) -> str:
    with file.open("rb") as opened:
        header = opened.read(_HEADER)
        size = os.fstat(opened.fileno()).st_size
    if not header.startswith(_MAGIC):
        return "the file does not begin like a journal" if header else "the file is empty"
    page = int.from_bytes(header[16:18], "big") or 1
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    if size < pages * page and not _has_log(file):
        return f"{TORN}: {size // page:,} of {pages:,} pages are there"
    return ""


def _has_log(file: Path) -> bool:
    """Whether a log lies beside it. A loss of power may leave the beginning of the file newer than its end;
    what is missing then stands in the log."""
    log = file.with_name(f"{file.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _sample(connection: SqlConnection) -> None:
    highest = highest_key(connection)
    for key in (highest, *(random.randint(1, max(highest, 1)) for _ in range(_SAMPLES))):
        found = connection.execute(_STREAM, (key,)).fetchone()
        if found is None:
            continue
        for seq, stored, data in connection.execute(_NEWEST, (found[0],)).fetchall():
            before = seq - 1 if type(seq) is int else 0
            if why := fault(int(found[0]), before, seq, stored, data):
                raise Damaged(str(found[1]), seq, why)


def read_beside(file: Path, connect: Connect, stream: str, after: int, limit: int) -> list[Item]:
    """By a connection of its own, for a stream that holds large items: to copy and check many megabytes
    holds up whoever does it, and the store reads them even on the way to what lies behind them."""
    connection = open_to_read(file, connect)
    try:
        found = rows.find_stream(connection, stream)
        return [] if found is None else rows.read_items(connection, stream, found[0], after, limit)
    finally:
        connection.close()
