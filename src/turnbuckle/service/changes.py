"""What runs did to files: listed, shown whole, and undone; and drafts that are saved to their paths.

Only tools that change files themselves are seen. What a command does to files is not known here.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import ChangeUnknown, DraftUnknown, FileNotAsLeft, InvalidValue, RunActive
from turnbuckle.runtime.idempotency import Turns
from turnbuckle.runtime.runs import RUNNING
from turnbuckle.runtime.undo import FileUndone, UndoLog, undo_name, undone_in
from turnbuckle.service.anywhere import NodeDesk
from turnbuckle.service.changed_files import ChangedFile, ChangeKind, changed_file
from turnbuckle.service.owners import Owner
from turnbuckle.service.runs import RunService
from turnbuckle.service.stores import Stores
from turnbuckle.tools.restore import NOT_KEPT, RunFiles
from turnbuckle.tools.spec import ToolError
from turnbuckle.tools.threads import in_thread
from turnbuckle.vocab.file_change import TouchedFile
from turnbuckle.vocab.ids import RunId

Files = Callable[[RunId], Awaitable[RunFiles]]


class FileDiff(Struct, frozen=True):
    """A changed file with its whole diff, from before the run to behind it. `note` says why there is none,
    or that it is cut."""

    path: str
    kind: ChangeKind
    calls: int
    can_undo: bool
    undone_at: float | None
    diff: str
    added: int
    removed: int
    note: str


class SavedDraft(Struct, frozen=True):
    """Where a draft was written to. `written` is false if the content was already there."""

    draft: str
    path: str
    characters: int
    written: bool


class ChangeService:
    """`files` gives the files of a run; None where there is no workspace."""

    def __init__(self, stores: Stores, runs: RunService, files: Files | None) -> None:
        self._stores = stores
        self._runs = runs
        self._files = files
        self._turns = Turns()

    @property
    def desk(self) -> NodeDesk | None:
        """The other nodes, if there may be any. Contents are kept by the one that changed the file, unless
        all nodes share a store."""
        return self._stores.desk

    async def known(self, run: str, owner: Owner) -> None:
        """Raises RunUnknown."""
        await self._runs.find(run, owner)

    async def diffs(self, run: str, owner: Owner) -> list[FileDiff]:
        """Each file that a run has changed, with its whole diff. Raises RunUnknown."""
        found = (await self._runs.find(run, owner)).run
        made = await self._diffs_here(found)
        if self.desk is None or all(one.note != NOT_KEPT for one in made):
            return made
        elsewhere = await self.desk.from_all(self, ChangeService._diffs_here, found)
        kept = {one.path: one for each in elsewhere.given for one in each if one.note != NOT_KEPT}
        missing = f"{NOT_KEPT} here, and did not come from {', '.join(elsewhere.missing)}: try again"
        note = missing if elsewhere.missing else NOT_KEPT
        return [kept.get(one.path, replace(one, note=note)) if one.note == NOT_KEPT else one for one in made]

    async def _diffs_here(self, found: RunId) -> list[FileDiff]:
        touched = (await self._runs.fold(found)).touched
        undone = await undone_in(self._stores.journal, found) if touched else ()
        made: list[FileDiff] = []
        for file in touched:
            files, shown = await self._of(found), changed_file(file, undone)
            change = await in_thread(lambda files=files, file=file: files.whole_diff(file))  # type: ignore[misc]
            named = (shown.path, shown.kind, shown.calls, shown.can_undo, shown.undone_at)
            made.append(FileDiff(*named, change.diff, change.added, change.removed, change.note))
        return made

    async def undo(self, run: str, path: str, owner: Owner, by: str) -> ChangedFile:
        """Make a file what it was before a run that has ended. Once: what was undone is not undone again.
        Raises RunUnknown, RunActive, ChangeUnknown, and FileNotAsLeft, whose words say what is in the way."""
        found = (await self._runs.find(run, owner)).run
        row = await self._runs.row(found, owner)
        if row.status == RUNNING:
            raise RunActive(f"the run {found} is under way; stop it first")
        done = await self._undo_here(found, path, by, row.parent)
        if done is None and self.desk is not None:
            done = await self.desk.from_whoever(self, ChangeService._undo_here, found, path, by, row.parent)
        if done is None:
            raise FileNotAsLeft(f"{path}: {NOT_KEPT}, so it cannot be undone")
        return done

    async def _undo_here(self, found: RunId, path: str, by: str, session: str) -> ChangedFile | None:
        """None if what was there before is not kept here."""
        async with self._turns.of(found):
            file = next((one for one in (await self._runs.fold(found)).touched if one.path == path), None)
            if file is None:
                raise ChangeUnknown.named(path)
            undone = await undone_in(self._stores.journal, found)
            if changed_file(file, undone).undone_at is not None:
                raise FileNotAsLeft(f"{path} was undone already")
            files = await self._of(found)
            if not await in_thread(lambda: files.keeps(file)):
                return None
            done = await self._undo(files, found, session, file, by)
            return changed_file(file, (*undone, done))

    async def _undo(
        self, files: RunFiles, run: RunId, session: str, file: TouchedFile, by: str
    ) -> FileUndone:
        async with UndoLog(self._stores.journal, self._stores.environment, run, session) as log:
            await log.write(file.path, file.after, "asked", by)
            try:
                await in_thread(lambda: files.undo(file, f"{undo_name(run)}:{file.path}:{file.after}"))
            except ToolError as error:
                await log.write(file.path, file.after, "refused", by, str(error))
                raise FileNotAsLeft(str(error)) from None
            return await log.write(file.path, file.after, "done", by)

    async def save_draft(self, run: str, draft: str, path: str, owner: Owner) -> SavedDraft:
        """Write what is kept of a cut call to its path, or to another one. A file that is there is left
        alone. Raises RunUnknown, DraftUnknown, RunActive, InvalidValue and FileNotAsLeft."""
        found = (await self._runs.find(run, owner)).run
        kept = (await self._runs.fold(found)).drafts.get(draft)
        if kept is None:
            raise DraftUnknown.named(draft)
        if (await self._runs.row(found, owner)).status == RUNNING:
            raise RunActive(f"the run {found} is under way, and may finish its draft itself")
        settled = kept.settled.get("path")
        target = path or (settled if isinstance(settled, str) else "")
        if not target:
            raise InvalidValue("the draft does not say where it belongs: give a path", "path")
        files = await self._of(found)
        try:
            saved = await in_thread(lambda: files.save(target, kept.text, f"{found}:draft:{draft}:{target}"))
        except ToolError as error:
            raise FileNotAsLeft(str(error)) from None
        return SavedDraft(draft, target, len(kept.text), saved)

    async def _of(self, run: RunId) -> RunFiles:
        if self._files is None:
            raise InvalidValue("there is no workspace here")
        try:
            return await self._files(run)
        except ToolError as error:
            raise FileNotAsLeft(str(error)) from None
