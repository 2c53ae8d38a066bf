"""What tools do to files: seen before somebody allows it, told when it is done, and kept to be undone.

The contents before and after lie in the data folder, with a folder for each run, under the marks of what they
are. They go when the run does. The model cannot read them. What is too large is told and not kept.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnbuckle.tools.confine import OpenedPath, open_file, place_of
from turnbuckle.tools.private import private_folder
from turnbuckle.tools.spec import ToolContext, ToolError
from turnbuckle.vocab.file_change import LARGEST, FileChange, diff_of, mark_of

FOLDER = "changes"
MOST_KEPT = 64 * 1024 * 1024
"""Bytes of contents that are kept of one run."""
TOO_LARGE = "too large to be compared and kept, or not readable"


@dataclass(frozen=True, slots=True)
class FileContent:
    """A content of a file, by its mark. `data` is None if there is no file, or if it is too large."""

    mark: str = ""
    data: bytes | None = None

    @property
    def is_large(self) -> bool:
        return bool(self.mark) and self.data is None


NOTHING = FileContent()


def content_of(opened: int) -> FileContent:
    """Of an open file, wherever it is just read. One that is too large has a mark of what the disk knows of
    it."""
    found = os.fstat(opened)
    if found.st_size <= LARGEST:
        data = b""
        while len(data) <= LARGEST and (piece := os.pread(opened, LARGEST + 1 - len(data), len(data))):
            data += piece
        if len(data) <= LARGEST:
            return FileContent(mark_of(data), data)
    return FileContent(f"disk:{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}")


def content_at(place: OpenedPath) -> FileContent:
    """Of the file that has that name now. Raises ToolError if it cannot be read."""
    try:
        opened = open_file(place)
    except ToolError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return NOTHING
        raise
    try:
        return content_of(opened)
    finally:
        os.close(opened)


def compared(
    context: ToolContext, path: str, before: FileContent, after: FileContent, kept: bool
) -> FileChange:
    """A change as it is told, without the secrets of the settings."""
    if before.is_large or after.is_large:
        return FileChange(path, before.mark, after.mark, note=TOO_LARGE)
    diff = diff_of(before.data, after.data)
    shown = context.redact(diff.text)
    return FileChange(path, before.mark, after.mark, shown, diff.added, diff.removed, diff.note, kept)


def previewed(context: ToolContext, path: str, changed: Callable[[bytes | None], bytes]) -> FileChange:
    """What a call would do to a file as it is now; `changed` makes the new content of the old. What would
    make it fail is a note. Nothing is changed, and no folder is made."""
    before, shown = NOTHING, str(PurePosixPath(path))
    try:
        try:
            with place_of(context, path) as place:
                before, shown = content_at(place), place.shown
        except ToolError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
        if before.is_large:
            return FileChange(shown, before.mark, note=TOO_LARGE)
        data = changed(before.data)
    except ToolError as error:
        return FileChange(shown, before.mark, note=f"it would fail: {error}")
    after = FileContent(mark_of(data), data) if len(data) <= LARGEST else FileContent("large")
    return compared(context, shown, before, after, False)


def refuse_unseen(context: ToolContext, path: str, before: FileContent) -> None:
    """Raises ToolError if a person allowed this for a file that is another one by now."""
    if context.seen is not None and before.mark not in (*context.seen, *context.made):
        raise ToolError(
            f"{path} has changed since the user allowed this, so nothing was written. Read it, and ask again."
        )


def keep(context: ToolContext, before: FileContent, after: FileContent) -> bool:
    """Keep both contents for this run. False if that is too much, or the disk does not want to: then the
    change can be made, and not be undone."""
    if not context.run or before.is_large or after.is_large:
        return False
    folder = kept_in(context.data, context.run)
    try:
        private_folder(folder, context.data)
        there = {entry.name: entry.stat().st_size for entry in os.scandir(folder)}
        wanted = {one.mark: one.data for one in (before, after) if one.data is not None}
        missing = {mark: data for mark, data in wanted.items() if there.get(mark) != len(data)}
        if sum(there.values()) + sum(map(len, missing.values())) > MOST_KEPT:
            return False
        for mark, data in missing.items():
            _write(folder / mark, data)
    except OSError:
        return False
    return True


def kept_in(data: Path, run: str) -> Path:
    """Where the contents of a run are kept."""
    return data / FOLDER / run


def kept_content(data: Path, run: str, mark: str) -> bytes | None:
    """A content that was kept, if it is there and is what its mark says."""
    if not mark.isalnum():
        return None
    try:
        found = (kept_in(data, run) / mark).read_bytes()
    except OSError:
        return None
    return found if mark_of(found) == mark else None


def _write(file: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
        opened.write(data)
