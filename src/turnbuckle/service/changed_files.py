"""The files that a run has changed, as they are listed."""

from typing import Literal

from msgspec import Struct

from turnbuckle.runtime.undo import FileUndone
from turnbuckle.vocab.file_change import TouchedFile

ChangeKind = Literal["created", "changed", "as_before"]
"""Of a file: there was none before, it is another one now, or it is as it was."""


class ChangedFile(Struct, frozen=True):
    """A file that a run has changed with its file tools. `calls` is how often. `undone_at`: a person has
    undone it since. `can_undo`: what was there before is kept."""

    path: str
    kind: ChangeKind
    calls: int
    can_undo: bool
    undone_at: float | None = None


def changed_file(file: TouchedFile, undone: tuple[FileUndone, ...] = ()) -> ChangedFile:
    """A file as it is listed."""
    done = [one for one in undone if one.state == "done" and (one.path, one.after) == (file.path, file.after)]
    kind: ChangeKind = (
        "created" if not file.before else "changed" if file.before != file.after else "as_before"
    )
    undoable = file.kept and not done and kind != "as_before"
    return ChangedFile(file.path, kind, file.calls, undoable, done[-1].at if done else None)
