"""Power cuts for SQLite files, as many as wanted from one run.

Theory of operation. `Recorder` is a file system for SQLite, between the library and the real one. It does what it is
asked, and notes every write, truncation, sync and deletion. A cut is a place in that list. What the disk holds after a
cut is what was synced before it, and of the later changes whatever the disk liked: none, all, or some of them in any
order, the last one torn between two sectors. `left_after` makes those files. Needs the package `apsw`.
"""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

import apsw
from msgspec import Struct

from turnbuckle.journal.sqlite.database import SqlConnection

SECTOR = 512
Mercy = Literal["nothing", "everything", "something"]
MERCIES: tuple[Mercy, ...] = ("nothing", "everything", "something")


class Change(Struct, frozen=True):
    """One thing that was asked of the disk. A truncation has no data."""

    kind: Literal["write", "truncate", "sync", "delete"]
    file: str
    offset: int = 0
    data: bytes = b""


class Recorder(apsw.VFS):
    """A file system that remembers. `connect` opens a database through it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.changes: list[Change] = []
        self.refuses_syncs = False
        """As a disk whose cache takes everything, and that cannot keep it."""

    def connect(self, file: Path, *, read_only: bool = False) -> SqlConnection:
        way = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        return cast(SqlConnection, apsw.Connection(str(file), flags=way, vfs=self.name))

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.changes.append(Change("delete", Path(filename).name))
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, recorder: Recorder, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._recorder = recorder
        self._changes = recorder.changes
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(path).name if path else ""

    def xWrite(self, data: Any, offset: int) -> None:
        self._changes.append(Change("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._changes.append(Change("truncate", self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        if self._recorder.refuses_syncs:
            raise apsw.IOError("disk I/O error")
        super().xSync(flags)
        self._changes.append(Change("sync", self._name))


def left_after(changes: Iterable[Change], mercy: Mercy, chance: random.Random) -> dict[str, bytes]:
    """The files as the disk holds them when the power goes behind these changes."""
    synced: dict[str, bytearray] = {}
    pending: dict[str, list[Change]] = {}
    for change in changes:
        if change.kind == "delete":
            synced.pop(change.file, None)
            pending.pop(change.file, None)
        elif change.kind == "sync":
            _apply(synced.setdefault(change.file, bytearray()), pending.pop(change.file, []))
        else:
            pending.setdefault(change.file, []).append(change)
    for file, waiting in pending.items():
        survived = _survivors(waiting, mercy, chance)
        if survived or file in synced:
            _apply(synced.setdefault(file, bytearray()), survived)
    return {file: bytes(content) for file, content in synced.items() if file}


def _survivors(waiting: list[Change], mercy: Mercy, chance: random.Random) -> list[Change]:
    if mercy == "nothing":
        return []
    if mercy == "everything":
        return waiting
    some = [change for change in waiting if chance.random() < 0.7]
    chance.shuffle(some)
    if some and some[-1].kind == "write" and len(some[-1].data) > SECTOR:
        torn = some.pop()
        keep = SECTOR * chance.randrange(1, len(torn.data) // SECTOR + 1)
        some.append(Change("write", torn.file, torn.offset, torn.data[:keep]))
    return some


def _apply(content: bytearray, changes: list[Change]) -> None:
    for change in changes:
        end = change.offset + len(change.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        if change.kind == "truncate":
            del content[change.offset :]
        else:
            content[change.offset : end] = change.data
