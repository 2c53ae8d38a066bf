"""Files of the workspace for people: the whole diff of a run, undoing it, saving a draft to its path.

Paths are walked as those of the tools are, and the same files are protected. Nothing is overwritten that is
not known: a file that is not as the run left it stays as it is.
"""

import dataclasses
import os

from turnbuckle.objects.port import ObjectStoreError
from turnbuckle.tools.atomic import change_file, write_all, write_file_whole
from turnbuckle.tools.changes import NOTHING, FileContent, compared, content_at, kept_content
from turnbuckle.tools.confine import place_of
from turnbuckle.tools.file_locks import folder_locked, locked
from turnbuckle.tools.protected import refuse_change
from turnbuckle.tools.spec import ToolContext, ToolError
from turnbuckle.vocab.file_change import FileChange, TouchedFile

NOT_KEPT = "what was there before is not kept"


class RunFiles:
    """The files of one run. All of it blocks: call it in a thread. Raises ToolError; then nothing was
    changed."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def whole_diff(self, file: TouchedFile) -> FileChange:
        """From before the run to behind it, of what is kept."""
        try:
            before, after = self._content(file.before), self._content(file.after)
        except ToolError as error:
            return FileChange(file.path, file.before, file.after, note=str(error))
        if before is None or after is None:
            return FileChange(file.path, file.before, file.after, note=NOT_KEPT)
        return compared(self._context, file.path, before, after, True)

    def keeps(self, file: TouchedFile) -> bool:
        """Whether what was there before is here, or in the store."""
        return file.kept and self._content(file.before) is not None

    def undo(self, file: TouchedFile, key: str) -> bool:
        """Make a file what it was before the run, or take it away if there was none. False if it is that
        already."""
        before = self._content(file.before)
        if before is None or not file.kept:
            raise ToolError(f"{file.path}: {NOT_KEPT}, so it cannot be undone")
        context = dataclasses.replace(self._context, key=key, seen=(file.after,), made=set(), tool="")
        with place_of(context, file.path, make_folders=bool(file.before)) as place:
            now = content_at(place)
            if now.mark == file.before:
                return False
            if now.mark != file.after:
                raise ToolError(f"{file.path} has changed since the run, so it is left as it is")
            if before.data is not None:
                write_file_whole(context, place, before.data)
                return True
            refuse_change(context, place.shown.split("/"))
            with locked(place, context.stopping), folder_locked(place, context.stopping):
                if content_at(place).mark != file.after:
                    raise ToolError(f"{file.path} has changed since the run, so it is left as it is")
                try:
                    os.unlink(place.name, dir_fd=place.folder)
                except OSError as error:
                    raise ToolError(f"{file.path} could not be removed: {error.strerror}") from error
        return True

    def save(self, path: str, text: str, key: str) -> bool:
        """Write a new file. False if it is there with this very content; one with another content is left
        alone. The wish of a person answers a rule that asks, and no rule that denies."""
        data = text.encode("utf-8", "replace")
        context = dataclasses.replace(self._context, key=key, seen=("",), made=set(), tool="write_file")
        with place_of(context, path, make_folders=True) as place:
            now = content_at(place)
            if now.data == data and now.mark:
                return False
            if now.mark:
                raise ToolError(f"{path} is there already, with another content; it is left as it is")
            change_file(context, place, lambda _: lambda opened: write_all(opened, data), reads=False)
        return True

    def _content(self, mark: str) -> FileContent | None:
        if not mark:
            return NOTHING
        context = self._context
        data = kept_content(context.data, context.run, mark)
        if data is None and context.objects is not None and mark.isalnum():
            try:
                context.objects.bring_now(context.run, "changes", mark)
            except ObjectStoreError as error:
                raise ToolError(f"what was there before cannot be read now: {error}") from error
            data = kept_content(context.data, context.run, mark)
        return None if data is None else FileContent(mark, data)
