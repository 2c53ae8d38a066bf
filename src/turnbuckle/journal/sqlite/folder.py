"""The data folder: where the journal's file lies, and the lock that keeps it to one writing process.

The lock is the operating system's, so it ends with the process that holds it, however that ends. A process
that only reads takes no lock; it may look whether somebody holds it.
"""

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from turnbuckle.journal.port import (
    FolderGone,
    InUse,
    OutOfFiles,
    ReadOnly,
    StorageError,
    StorageFailed,
    StorageFull,
)

DATABASE = "journal.db"
MENDED = "journal.db.mended"
"""A whole new journal that is to take the place of the damaged one. Who opens the folder to write finishes
that."""
LOCK = "journal.lock"
USUAL = ".turnbuckle"
_TRIES = 5
_PAUSE = 0.02  # somebody who looks holds the lock for a moment


class FolderLock:
    """The right to write in a folder, until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        is_ours = folder.name == USUAL or not folder.exists()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(folder, error) from error
        if not _try_lock(self._file):
            owner = os.read(self._file, 40).decode("ascii", "replace").strip()
            os.close(self._file)
            who = f"process {owner}" if owner else "another process"
            raise InUse(
                f"{who} already writes to the journal in {folder}; stop it, or use another data folder"
            )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        if is_ours:
            _keep_out_of_git(folder)

    def release(self) -> None:
        if self._file >= 0:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = -1


def _keep_out_of_git(folder: Path) -> None:
    """What was said and done is nobody's source. Only in a folder that is there for nothing else: in another
    one it would hide what is not ours."""
    with suppress(OSError):  # it is there already, or cannot be: that harms nobody
        file = os.open(folder / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as written:
            written.write("*\n")


def make_private(folder: Path) -> None:
    """Close the journal's files to everybody else, also in a folder that was there before. What SQLite makes
    beside the file gets the same rights."""
    with suppress(OSError):  # a folder that cannot be written to says so soon enough, in better words
        os.close(os.open(folder / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for ending in ("", "-wal", "-shm"):
        file = folder / f"{DATABASE}{ending}"
        with suppress(OSError):
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


class FolderMark:
    """Knows the journal's file by what it is, and not by its name."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / DATABASE
        self._path = str(self.file)  # every commit looks, and a `Path` makes a text of itself each time
        self._identity = _identity(self._path)

    def check(self) -> None:
        """Raises FolderGone if the file is not there any more, or is another one."""
        try:
            found = _identity(self._path)
        except OSError as error:
            raise self._gone(f"is not there any more ({error.strerror})") from None
        if found != self._identity:
            raise self._gone("is another one now: somebody replaced it")

    def _gone(self, what: str) -> FolderGone:
        return FolderGone(
            f"the journal {self.file} {what}, so nothing can be kept; put it back, or start the server again"
        )


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _unusable(folder: Path, error: OSError) -> StorageError:
    words = f"the folder {folder} cannot be used: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(words)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OutOfFiles(words)
    return (
        ReadOnly(words) if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else StorageFailed(words)
    )


def holds_journal(folder: Path) -> bool:
    """Whether there is a journal in the folder, also one that was being mended."""
    return (folder / DATABASE).exists() or (folder / MENDED).exists()


def finish_mend(folder: Path) -> str:
    """Put a mended journal in its place, also if whoever mended it died in the middle. Where the old one is
    kept; empty if there was nothing to do. Only for whoever holds the folder's lock."""
    mended, file = folder / MENDED, folder / DATABASE
    if not mended.exists():
        return ""
    number = 1
    while (aside := folder / f"{DATABASE}.damaged-{number}").exists():
        number += 1
    for ending in (
        "-wal",
        "-shm",
        "",
    ):  # the file itself last: as long as it is there, the number is the same
        beside = folder / f"{DATABASE}{ending}"
        if beside.exists():
            os.replace(beside, f"{aside}{ending}")
    sync_path(folder)
    os.replace(mended, file)
    sync_path(folder)
    return str(aside)


def sync_path(path: Path) -> None:
    """Make sure that a file, or the names in a folder, survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def finish_mend_if_free(folder: Path) -> None:
    """The same for somebody who only wants to read: if a process has the folder, it has done that already."""
    if not (folder / MENDED).exists():
        return
    with suppress(StorageError, OSError):
        lock = FolderLock(folder)
        try:
            finish_mend(folder)
        finally:
            lock.release()


def writing_process(folder: Path) -> str:
    """The number of the process that holds the folder's lock; empty if nobody does, or nobody can tell."""
    if not has_writer(folder):
        return ""
    try:
        return (folder / LOCK).read_text("ascii", "replace").strip()
    except OSError:
        return ""


def has_writer(folder: Path) -> bool:
    """Whether a living process holds the folder's lock."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    for attempt in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt < _TRIES - 1:
                time.sleep(_PAUSE)
        else:
            return True
    return False
