"""Files that change at once or not at all, and a way to find out after a crash whether they did.

Theory of operation. The new content goes into a file beside the target, is synced, and takes the target's name by a
rename. Before the rename a note with the identity (device and inode) of the new file is synced to the data folder,
under the call's key. So after a crash three cases can be told apart: no note, or the new file still has its own name:
not done. The target is the new file: done. Anything else: somebody replaced it since, and nobody can know.

The name of the new file follows from the key, so that a call which runs again cleans up after itself.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from turnbuckle.tools.confine import Place, place_of
from turnbuckle.tools.spec import ProbeAnswer, ToolContext, ToolError

MAX_NOTES = 4096
COPY = 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EPERM)


class Note(Struct, frozen=True):
    """What the target will be once the change is made."""

    device: int
    inode: int


Fill = Callable[[int], None]


def replace_file(context: ToolContext, place: Place, fill: Fill, before: os.stat_result | None) -> None:
    """Give `place` new content, written by `fill` into an open file. `before` is the file that it replaces."""
    if place.name == ".":
        raise ToolError(f"{place.shown} is a folder")
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise ToolError(f"{place.shown} is a folder")
    if before is not None and not before.st_mode & 0o222:
        raise ToolError(f"{place.shown} is read-only")
    name = _temporary_name(context.key)
    try:
        _remove(place, name)
        opened = os.open(name, _NEW, 0o666, dir_fd=place.folder)
        try:
            fill(opened)
            if before is not None:
                _keep_mode(opened, before)
            os.fsync(opened)
            found = os.fstat(opened)
        finally:
            os.close(opened)
        _write_note(context, Note(found.st_dev, found.st_ino))
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        _sync_folder(place.folder)
    except OSError as error:
        _remove(place, name)
        raise ToolError(f"{place.shown} could not be written and is as it was: {error.strerror}") from error
    except BaseException:
        _remove(place, name)
        raise


def replaced(context: ToolContext, path: str) -> ProbeAnswer:
    """Whether the change that this key stands for was made."""
    note = _read_note(context)
    if note is None:
        return "not_done"
    try:
        with place_of(context, path) as place:
            if _identity(place, place.name) == note:
                return "done"
            return "not_done" if _identity(place, _temporary_name(context.key)) == note else "unknown"
    except ToolError:
        return "unknown"


def stat_of(place: Place) -> os.stat_result | None:
    """The file at that place, if there is one."""
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolError(f"{place.shown}: {error.strerror}") from error


def write_all(opened: int, data: bytes) -> None:
    """Write everything, in as many steps as the system wants."""
    view = memoryview(data)
    while view:
        view = view[os.write(opened, view) :]


def copy_all(source: int, target: int) -> None:
    """Copy what is left of an open file behind what was written to another."""
    while piece := os.read(source, COPY):
        write_all(target, piece)


def _temporary_name(key: str) -> str:
    return f".turnbuckle-{_digest(key)}.tmp"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]


def _remove(place: Place, name: str) -> None:
    try:
        os.unlink(name, dir_fd=place.folder)
    except OSError:
        return  # it is not there, which is what was wanted; if it can not be removed, making it anew fails loudly


def _identity(place: Place, name: str) -> Note | None:
    try:
        found = os.stat(name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return None
    return Note(found.st_dev, found.st_ino)


def _keep_mode(opened: int, before: os.stat_result) -> None:
    os.fchmod(opened, stat.S_IMODE(before.st_mode))
    mine = os.fstat(opened)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(opened, before.st_uid, before.st_gid)
        except PermissionError:
            return  # only the superuser can give files away; the content is what was asked for


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _notes(context: ToolContext) -> Path:
    return context.data / "writes"


def _write_note(context: ToolContext, note: Note) -> None:
    folder = _notes(context)
    folder.mkdir(parents=True, exist_ok=True)
    _forget_old_notes(folder)
    path = folder / _digest(context.key)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        write_all(opened, msgspec.json.encode(note))
        os.fsync(opened)
    finally:
        os.close(opened)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync_folder(handle)
    finally:
        os.close(handle)


def _read_note(context: ToolContext) -> Note | None:
    try:
        return msgspec.json.decode((_notes(context) / _digest(context.key)).read_bytes(), type=Note)
    except (FileNotFoundError, msgspec.DecodeError):
        return None  # a torn note is none: it was never synced, so the rename behind it never happened


def _forget_old_notes(folder: Path) -> None:
    """Notes are needed only until the result is in the journal, so the newest ones are plenty."""
    names = os.listdir(folder)
    if len(names) <= MAX_NOTES:
        return
    by_age = sorted((folder / name for name in names), key=lambda note: note.stat().st_mtime_ns)
    for note in by_age[: len(names) // 2]:
        note.unlink(missing_ok=True)
