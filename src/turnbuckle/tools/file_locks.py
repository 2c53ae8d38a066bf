"""One writer at a time for each file of the workspace.

Theory of operation. A change of a file is read, change, write, and whoever comes between the first and the
last would be overwritten. So each holds a lock of this process over all three. A file has one lock, whatever
path leads to it: it is named by its folder, as the disk knows it, and by its name there without regard to
case. A call holds one lock and never waits for a second, so nobody waits in a circle; a lock that nobody
wants is gone.

Other processes of this program are kept out by a lock on the folder, which the system takes back when a
process dies. It is held for the moment of the rename, or over the whole change once there was a collision.
All others know nothing of locks; whether they wrote meanwhile is looked at right before the rename
(`atomic`).
"""

import errno
import fcntl
import os
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from turnbuckle.tools.confine import OpenedPath
from turnbuckle.tools.spec import ToolError

PATIENCE = 20.0
"""Seconds that a writer waits for others. A change takes milliseconds; a third of a tool's time is left to
make it."""
_LOOK_AROUND = 0.05
_POLL = 0.002
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)

Key = tuple[int, int, str]


class _Lock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


_locks: dict[Key, _Lock] = {}
_locks_lock = threading.Lock()


def key_of(place: OpenedPath) -> Key:
    """What is the same for every path to a file, also while the file itself is replaced by another."""
    folder = os.fstat(place.folder)
    return folder.st_dev, folder.st_ino, unicodedata.normalize("NFC", place.name).casefold()


def in_use(*, waiting: bool = False) -> int:
    """How many locks there are; with `waiting`, how many hold one or wait for one."""
    with _locks_lock:
        return sum(one.users for one in _locks.values()) if waiting else len(_locks)


@contextmanager
def locked(place: OpenedPath, stopping: threading.Event) -> Iterator[None]:
    """Be the only one in this process who changes that file. Raises ToolError if others do not come to an
    end."""
    key = key_of(place)
    with _locks_lock:
        mine = _locks.setdefault(key, _Lock())
        mine.users += 1
    try:
        _acquire(mine.lock, place, stopping)
        try:
            yield
        finally:
            mine.lock.release()
    finally:
        with _locks_lock:
            mine.users -= 1
            if not mine.users:
                del _locks[key]


def _acquire(lock: threading.Lock, place: OpenedPath, stopping: threading.Event) -> None:
    until = time.monotonic() + PATIENCE
    while not lock.acquire(timeout=_LOOK_AROUND):
        if stopping.is_set():
            raise ToolError(f"{place.shown}: stopped before its turn came; nothing was changed")
        if time.monotonic() >= until:
            raise ToolError(
                f"{place.shown} is being changed by another call, which does not end; nothing was changed"
            )


@contextmanager
def folder_locked(place: OpenedPath, stopping: threading.Event) -> Iterator[None]:
    """Be the only process of this program that changes files of that folder. Not inside of itself."""
    until = time.monotonic() + PATIENCE
    while not _taken(place.folder):
        if stopping.is_set():
            raise ToolError(f"{place.shown}: stopped before its turn came; nothing was changed")
        if time.monotonic() >= until:
            raise ToolError(f"the folder of {place.shown} is locked by another program; nothing was changed")
        time.sleep(_POLL)
    try:
        yield
    finally:
        _give_back(place.folder)


def _taken(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return True  # some network disks have no such locks; the look before the rename is left
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise
    return True


def _give_back(folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_UN)
    except OSError:
        return  # it goes with the open folder
