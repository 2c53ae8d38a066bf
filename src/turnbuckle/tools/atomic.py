"""Files that change at once or not at all, and a way to find out after a crash whether they did.

Theory of operation. The new content goes into a file beside the target, is synced, and takes the target's
name by a rename. Before the rename a note with the identity (device and inode) of the new file is synced to
the data folder, under the call's key. So after a crash three cases can be told apart: no note, or the new
file still has its own name: not done. The target is the new file: done. Anything else: somebody replaced it
since, and nobody can know.

The name of the new file follows from the key, so that a call which runs again cleans up after itself.

Whoever changes a file is alone with it (`file_locks`) from the first look to the rename. Right before the
rename the file is looked at once more: if it is not what the change was made from, somebody who knows no
locks was there, and the change is made again from what is there now.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec
from msgspec import Struct

from turnbuckle.tools.changes import (
    NOTHING,
    FileContent,
    compared,
    content_at,
    content_of,
    keep,
    refuse_unseen,
)
from turnbuckle.tools.confine import OpenedPath, open_file, place_of
from turnbuckle.tools.file_locks import folder_locked, locked
from turnbuckle.tools.private import private_folder
from turnbuckle.tools.protected import refuse_change
from turnbuckle.tools.spec import ProbeAnswer, ToolContext, ToolError
from turnbuckle.vocab.file_change import FileChange

MAX_NOTES = 4096
COPY = 1024 * 1024
TRIES = 8
"""How often a change is made again because somebody else was quicker."""
COARSEST_CLOCK = 50_000_000
"""Nanoseconds within which a disk may give two changes the same time. Usual are 4 to 10 million."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EPERM)


class Note(Struct, frozen=True, omit_defaults=True):
    """What the target will be once the change is made, and what that change is, without its diff."""

    device: int
    inode: int
    change: FileChange | None = None

    def is_same_file(self, other: "Note | None") -> bool:
        return other is not None and (self.device, self.inode) == (other.device, other.inode)


Fill = Callable[[int], None]
Source = int | None
"""The file that is to be replaced, open to read; None if there is none."""
Change = Callable[[Source], Fill]
"""Reads what is there, and gives what writes the new content into an open file."""


class Changed(Struct, frozen=True):
    """What a change found and did. `parted`: the file had other names, which keep the old content.
    `disturbed`: somebody else wrote into the old file in the very moment in which the new one took its
    name."""

    before: os.stat_result | None
    parted: bool = False
    disturbed: bool = False

    @property
    def remarks(self) -> str:
        """What a result must say besides what was wanted."""
        said = ""
        if self.parted:
            said += " The file had other names (hard links); they keep the old content."
        if self.disturbed:
            said += (
                " Another program wrote to the file at the same moment, and what it wrote may be "
                "missing: look."
            )
        return said


class _ChangedMeanwhile(Exception):
    pass


def write_file_whole(context: ToolContext, place: OpenedPath, data: bytes) -> Changed:
    """Give a file new content, whatever it holds. Raises ToolError; then nothing was changed."""
    return change_file(context, place, lambda _: lambda opened: write_all(opened, data), reads=False)


def change_file(context: ToolContext, place: OpenedPath, change: Change, *, reads: bool = True) -> Changed:
    """Give a file new content that may follow from the old, if it `reads` that. Nobody in this process
    changes it meanwhile, and if somebody else does, it is tried again from the beginning. Raises ToolError;
    then nothing was changed."""
    if place.name == ".":
        raise ToolError(f"{place.shown} is a folder")
    refuse_change(context, place.shown.split("/"))
    with locked(place, context.stopping):
        for attempt in range(TRIES):
            try:
                with folder_locked(place, context.stopping) if attempt else nullcontext():
                    return _change_once(context, place, change, reads, alone=bool(attempt))
            except _ChangedMeanwhile:
                continue
    raise ToolError(f"{place.shown} is being changed by somebody else again and again; nothing was changed")


def _change_once(
    context: ToolContext, place: OpenedPath, change: Change, reads: bool, *, alone: bool
) -> Changed:
    found = stat_of(place)
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{place.shown} is a folder")
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{place.shown} is not a plain file")
    if found is not None and not found.st_mode & 0o222:
        raise ToolError(f"{place.shown} is read-only")
    source: Source = None
    if found is not None and reads:
        try:
            source = open_file(place)  # as long as it is open no other file has its number
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise _ChangedMeanwhile from None
            raise
    try:
        before = _Before(source, found if source is None else os.fstat(source), _seen(context, place, found))
        return _replace_file(context, place, change(source), before, alone=alone)
    finally:
        if source is not None:
            os.close(source)


def _seen(context: ToolContext, place: OpenedPath, found: os.stat_result | None) -> FileContent:
    """What is there, to be told and kept. A file that can be written and not read has no content here."""
    try:
        content = NOTHING if found is None else content_at(place)
    except ToolError:
        content = FileContent("unread")
    if found is not None and not content.mark:
        raise _ChangedMeanwhile
    refuse_unseen(context, place.shown, content)
    return content


class _Before:
    """The file that a change was made from, and whether that is still the one that has its name."""

    def __init__(self, source: Source, found: os.stat_result | None, content: FileContent) -> None:
        self.found = found
        self.content = content
        self._source = source
        # A file that was written a moment ago may be written again without another time on it.
        recent = found is not None and time.time_ns() - found.st_mtime_ns < COARSEST_CLOCK
        self._sum = _sum_of(source) if recent and source is not None else None

    def check(self, place: OpenedPath) -> None:
        now = stat_of(place)
        if (None if now is None else _marks(now)) != (None if self.found is None else _marks(self.found)):
            raise _ChangedMeanwhile
        if self._sum is not None and self._source is not None and _sum_of(self._source) != self._sum:
            raise _ChangedMeanwhile

    @property
    def disturbed(self) -> bool:
        """Whether the old file was written to although another one has its name now."""
        if self._source is None or self.found is None:
            return False
        now = os.fstat(self._source)
        return (now.st_size, now.st_mtime_ns) != (self.found.st_size, self.found.st_mtime_ns)


def _marks(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink)


def _sum_of(source: int) -> bytes:
    """Over all of the file, wherever it is just read."""
    digest, at = hashlib.blake2b(), 0
    while piece := os.pread(source, COPY, at):
        digest.update(piece)
        at += len(piece)
    return digest.digest()


def _replace_file(
    context: ToolContext, place: OpenedPath, fill: Fill, before: _Before, *, alone: bool
) -> Changed:
    name = _temporary_name(context.key)
    try:
        _remove(place, name)
        # Nobody sees the new content who could not see the old.
        opened = os.open(name, _NEW, 0o666 if before.found is None else 0o600, dir_fd=place.folder)
        try:
            fill(opened)
            if before.found is not None:
                _keep_mode(opened, before.found)
            os.fsync(opened)
            found, after = os.fstat(opened), content_of(opened)
        finally:
            os.close(opened)
        kept = keep(context, before.content, after)
        made = FileChange(place.shown, before.content.mark, after.mark, kept=kept)
        write_note(context, Note(found.st_dev, found.st_ino, made))
        with nullcontext() if alone else folder_locked(place, context.stopping):
            before.check(place)
            if context.stopping.is_set():
                raise ToolError(f"{place.shown}: stopped before the end; nothing was changed")
            os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        _sync_folder(place.folder)
    except OSError as error:
        _remove(place, name)
        raise ToolError(f"{place.shown} could not be written and is as it was: {error.strerror}") from error
    except BaseException:
        _remove(place, name)
        raise
    context.made.add(after.mark)
    context.changed(compared(context, place.shown, before.content, after, kept))
    return Changed(before.found, before.found is not None and before.found.st_nlink > 1, before.disturbed)


def replaced(context: ToolContext, path: str) -> ProbeAnswer:
    """Whether the change that this key stands for was made."""
    note = _read_note(context)
    if note is None:
        return "not_done"
    try:
        with place_of(context, path) as place:
            if note.is_same_file(_identity(place, place.name)):
                return "done"
            unnamed = _identity(place, _temporary_name(context.key))
            return "not_done" if note.is_same_file(unnamed) else "unknown"
    except ToolError:
        return "unknown"


def change_made(context: ToolContext) -> FileChange | None:
    """What the call of this key did, for whoever has found out that it was done."""
    note = _read_note(context)
    return None if note is None else note.change


def stat_of(place: OpenedPath) -> os.stat_result | None:
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


def _remove(place: OpenedPath, name: str) -> None:
    try:
        os.unlink(name, dir_fd=place.folder)
    except OSError:
        # it is not there, which is what was wanted; if it cannot be removed, making it again fails loudly
        return


def _identity(place: OpenedPath, name: str) -> Note | None:
    try:
        found = os.stat(name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return None
    return Note(found.st_dev, found.st_ino)


def _keep_mode(opened: int, before: os.stat_result) -> None:
    """The rights of the old file, but never another user's: new content does not run with them."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    mine = os.fstat(opened)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(opened, before.st_uid, before.st_gid)
        except PermissionError:  # only the superuser can give files away; the content is what was asked for
            mode &= ~0o070 if mine.st_gid != before.st_gid else ~0
    os.fchmod(opened, mode)


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _notes(context: ToolContext) -> Path:
    return context.data / "writes"


def write_note(context: ToolContext, note: Note) -> None:
    folder = _notes(context)
    private_folder(folder, context.data)
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
    for note in sorted((folder / name for name in names), key=_written_at)[: len(names) // 2]:
        note.unlink(missing_ok=True)


def _written_at(note: Path) -> int:
    try:
        return note.stat().st_mtime_ns
    except FileNotFoundError:
        return 0  # another call forgot it already
