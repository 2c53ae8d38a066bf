"""Paths that stay inside the workspace, whatever links there are and whenever they are made.

Theory of operation. A path is never checked first and used later. It is walked: each folder is opened
relative to the one before, without following links, so an open folder is known to be inside. A link is read,
and its target is walked in the same way, from where the link stands or from the root of the workspace; `..`
goes back to the folder that was open before, and nowhere above the first. What comes out is an open folder
and one name in it. Whoever uses the name does so relative to that folder and without following links, so a
link that is put there in the meantime is an error, not a way out.

The data folder is not part of the workspace, even if it lies inside. Only outputs that were kept there can be
read.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from turnbuckle.tools.kept_objects import kept_names
from turnbuckle.tools.protected import refuse_change
from turnbuckle.tools.spec import ToolContext, ToolError
from turnbuckle.turn.consent import rule_for, stricter

MAX_LINKS = 40
LONGEST_NAME = 255  # bytes of one name, on every file system that matters here
MAX_DEPTH = 128
"""Folders inside of each other. Each of them is held open on the way."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Identity = tuple[int, int]


class Outside(ToolError):
    """The path would leave the workspace."""


@dataclass(frozen=True, slots=True)
class OpenedPath:
    """One name in an open folder. `folder` is closed when the walk's `with` block ends. `name` is `.` for the
    root."""

    folder: int
    name: str
    shown: str


@contextmanager
def place_of(
    context: ToolContext, path: str, *, make_folders: bool = False, reading: bool = False
) -> Iterator[OpenedPath]:
    """Walk to a path of the workspace. With `reading`, kept outputs can be reached too."""
    root, parts = _start(context, path, reading=reading)
    data = _identity(context.data)
    walk = _Walk(
        context, root, path, frozenset() if data is None or root == context.kept else frozenset({data})
    )
    try:
        place = walk.to(parts, make_folders=make_folders)
        if root != context.kept:
            _judge(context, path, place.shown)
        yield place
    finally:
        walk.close()


def _judge(context: ToolContext, path: str, leads_to: str) -> None:
    """Rules were asked about the path as it is written. Where it leads, no stricter one may hold."""
    if not context.tool:
        return
    rules = [rule_for(context.consent, context.tool, {"path": each}, "path") for each in (path, leads_to)]
    if rules[1] == "deny" or stricter(rules[1], rules[0]):
        raise ToolError(
            f"{path} leads to {leads_to}, which the settings do not allow"
            if rules[1] == "deny"
            else f"{path} leads to {leads_to}, which needs the consent of a person: name that path"
        )


def data_identity(context: ToolContext) -> Identity | None:
    """What the data folder is on this disk, for those who walk a tree and must leave it out."""
    return _identity(context.data)


def shown_path(context: ToolContext, file: Path) -> str:
    """A path for the model: relative to the workspace where that is possible."""
    real, root = os.path.realpath(file), os.path.realpath(context.workspace)
    return os.path.relpath(real, root) if os.path.commonpath((real, root)) == root else real


def _start(context: ToolContext, path: str, *, reading: bool) -> tuple[Path, list[str]]:
    if "\0" in path:
        raise ToolError("a path cannot hold a NUL character")
    if not path:
        raise ToolError("the path is empty")
    if reading:
        for kept in (Path(os.path.abspath(context.kept)), Path(os.path.realpath(context.kept))):
            absolute = Path(os.path.abspath(os.path.join(os.path.realpath(context.workspace), path)))
            if absolute.is_relative_to(kept) and absolute != kept:
                parts = list(absolute.relative_to(kept).parts)
                if not context.may_read_kept(parts[0]):
                    raise ToolError(f"there is no folder {parts[0]}")  # the same as if there were none
                return context.kept, parts
        for run, name in kept_names(path) if context.objects is not None else ():
            # Another node has its folder elsewhere.
            if context.may_read_kept(run) and (context.kept / run / name).exists():
                return context.kept, [run, name]
    return context.workspace, list(_inside(context.workspace, path))


def _inside(workspace: Path, path: str) -> tuple[str, ...]:
    """The steps from the root of the workspace. An absolute path may name that root in either of its
    forms."""
    pure = PurePosixPath(path)
    if not pure.is_absolute():
        return pure.parts
    for root in (os.path.abspath(workspace), os.path.realpath(workspace)):
        if pure.is_relative_to(root):
            return pure.relative_to(root).parts
    raise Outside(f"{path} is outside the workspace; give a path relative to it")


def _identity(path: Path) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Walk:
    def __init__(self, context: ToolContext, root: Path, path: str, forbidden: frozenset[Identity]) -> None:
        self._context = context
        self._root = os.path.realpath(root)
        self._path = path
        self._forbidden = forbidden
        self._links = 0
        try:
            self._stack = [os.open(self._root, _ROOT)]
        except OSError as error:
            raise ToolError(f"the workspace cannot be opened: {error.strerror}") from error
        self._names: list[str] = []

    def close(self) -> None:
        while self._stack:
            os.close(self._stack.pop())

    def to(self, parts: list[str], *, make_folders: bool) -> OpenedPath:
        if make_folders:
            self._refuse_impossible(parts)
        waiting = list(reversed(parts))
        while waiting:
            step = waiting.pop()
            if step in (".", ""):
                continue
            if step == "..":
                self._up()
                continue
            target = self._link_target(step)
            if target is not None:
                waiting.extend(reversed(self._target_parts(target)))
            elif not any(left not in (".", "") for left in waiting):
                self._refuse_forbidden(step)
                return OpenedPath(self._stack[-1], step, "/".join((*self._names, step)))
            else:
                self._down(step, make_folders=make_folders)
        return OpenedPath(self._stack[-1], ".", "/".join(self._names) or ".")

    def _refuse_impossible(self, parts: list[str]) -> None:
        """What cannot be written is not begun: no folder is left behind."""
        names = [part for part in parts if part not in (".", "", "..")]
        if len(names) > MAX_DEPTH + 1:
            raise ToolError(f"{self._path[:200]} goes through more than {MAX_DEPTH} folders")
        if long := next((name for name in names if len(os.fsencode(name)) > LONGEST_NAME), ""):
            raise ToolError(f"{long[:200]}…: File name too long")

    def _up(self) -> None:
        if len(self._stack) == 1:
            raise Outside(f"{self._path} leads out of the workspace")
        os.close(self._stack.pop())
        self._names.pop()

    def _down(self, name: str, *, make_folders: bool) -> None:
        if len(self._stack) > MAX_DEPTH:
            raise ToolError(f"{self._path[:200]} goes through more than {MAX_DEPTH} folders")
        opened = self._open_folder(name, make_folders=make_folders)
        self._stack.append(opened)
        self._names.append(name)
        found = os.fstat(opened)
        if (found.st_dev, found.st_ino) in self._forbidden:
            raise Outside(f"{self._path} is in the data folder, which is not part of the workspace")

    def _open_folder(self, name: str, *, make_folders: bool) -> int:
        try:
            if make_folders and not _is_folder(name, self._stack[-1]):
                refuse_change(self._context, (*self._names, name))
                with suppress(FileExistsError):  # if what exists is not a folder, opening it says so
                    os.mkdir(name, dir_fd=self._stack[-1])
            return os.open(name, _FOLDER, dir_fd=self._stack[-1])
        except OSError as error:
            at = "/".join((*self._names, name))
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise ToolError(f"{at} is not a folder") from error
            if error.errno == errno.ENOENT:
                raise ToolError(f"there is no folder {at}") from error
            raise ToolError(f"{at}: {error.strerror}") from error

    def _link_target(self, name: str) -> str | None:
        try:
            target = os.readlink(name, dir_fd=self._stack[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise ToolError(f"{self._path}: {error.strerror}") from error
        self._links += 1
        if self._links > MAX_LINKS:
            raise ToolError(f"{self._path} goes through too many links")
        return target

    def _target_parts(self, target: str) -> tuple[str, ...]:
        pure = PurePosixPath(target)
        if not pure.is_absolute():
            return pure.parts
        if not pure.is_relative_to(self._root):
            raise Outside(f"{self._path} goes through a link that leaves the workspace")
        while len(self._stack) > 1:
            self._up()
        return pure.relative_to(self._root).parts

    def _refuse_forbidden(self, name: str) -> None:
        if not self._forbidden:
            return
        try:
            found = os.stat(name, dir_fd=self._stack[-1], follow_symlinks=False)
        except OSError:
            return  # nothing is there, so it is not the data folder
        if (found.st_dev, found.st_ino) in self._forbidden:
            raise Outside(f"{self._path} is the data folder, which is not part of the workspace")


def _is_folder(name: str, parent: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def open_file(place: OpenedPath) -> int:
    """Open a plain file to read. Anything else that has that name is refused, and never waited for."""
    try:
        opened = os.open(
            place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.folder
        )
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ToolError(f"{place.shown} became a link in the meantime") from error
        raise ToolError(f"{place.shown}: {error.strerror}") from error
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        os.close(opened)
        raise ToolError(f"{place.shown} is {'a folder' if stat.S_ISDIR(mode) else 'not a plain file'}")
    return opened


def open_folder(place: OpenedPath) -> int:
    """Open the folder that has that name."""
    try:
        return os.open(place.name, _FOLDER, dir_fd=place.folder)
    except OSError as error:
        raise ToolError(f"{place.shown}: {error.strerror}") from error
