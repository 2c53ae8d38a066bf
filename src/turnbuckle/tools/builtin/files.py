"""Files of the workspace: read, write, append, list."""

import difflib
import os
import stat
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from turnbuckle.tools.atomic import Fill, Source, change_file, copy_all, replaced, write_all, write_file_whole
from turnbuckle.tools.changes import previewed
from turnbuckle.tools.confine import MAX_DEPTH, OpenedPath, data_identity, open_file, open_folder, place_of
from turnbuckle.tools.spec import ProbeAnswer, ToolContext, ToolError, tool
from turnbuckle.vocab.file_change import FileChange

LARGEST_READ = 64 * 1024 * 1024
LARGEST_APPENDED = 256 * 1024 * 1024
SAMPLE = 8192
MOST_NAMES = 1000
MOST_VISITED = 200_000
SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})


def write_was_done(arguments: Mapping[str, Any], context: ToolContext) -> ProbeAnswer:
    """The probe of every tool that replaces one file."""
    return replaced(context, str(arguments["path"]))


def write_preview(arguments: Mapping[str, Any], context: ToolContext) -> FileChange:
    content = str(arguments["content"]).encode("utf-8", "replace")
    return previewed(context, str(arguments["path"]), lambda _: content)


def append_preview(arguments: Mapping[str, Any], context: ToolContext) -> FileChange:
    content = str(arguments["content"]).encode("utf-8", "replace")
    return previewed(context, str(arguments["path"]), lambda before: (before or b"") + content)


@tool(effect="read", subject="path")
def read_file(
    path: Annotated[str, "Relative to the workspace."],
    context: ToolContext,
    start: Annotated[int | None, "The first line to show, from 1."] = None,
    lines: Annotated[int | None, "How many lines to show."] = None,
) -> str:
    """Read a text file, all of it or some of its lines."""
    with place_of(context, path, reading=True) as place:
        data = read_bytes(place, LARGEST_READ)
    if b"\0" in data[:SAMPLE]:
        raise ToolError(f"{path} is not a text: {len(data):,} bytes of something else")
    return _shown(context.redact(data.decode("utf-8", "replace")), start or 1, lines, context.output_cap)


@tool(effect="idempotent", draftable="content", probe=write_was_done, subject="path", preview=write_preview)
def write_file(
    path: Annotated[str, "Relative to the workspace. Folders on the way are made."],
    content: Annotated[str, "The whole new content."],
    context: ToolContext,
) -> str:
    """Write a file, in place of what was there. For large files, write a part and add the rest with
    append_file."""
    data = content.encode("utf-8", "replace")
    with place_of(context, path, make_folders=True) as place:
        changed = write_file_whole(context, place, data)
        did = "Wrote" if changed.before is None else "Replaced"
        return f"{did} {place.shown}: {_measured(content, data)}.{changed.remarks}"


@tool(effect="write", draftable="content", probe=write_was_done, subject="path", preview=append_preview)
def append_file(
    path: Annotated[str, "Relative to the workspace. The file is made if it is not there."],
    content: Annotated[str, "What to put behind its end. No line break is added before it."],
    context: ToolContext,
) -> str:
    """Add text to the end of a file."""
    data = content.encode("utf-8", "replace")
    with place_of(context, path, make_folders=True) as place:
        changed = change_file(context, place, lambda source: _appended(source, path, data))
        return f"Added {_measured(content, data)} to the end of {place.shown}.{changed.remarks}"


@tool(effect="read", subject="path")
def list_files(
    context: ToolContext,
    path: Annotated[str | None, "A folder; the workspace if left out."] = None,
    pattern: Annotated[
        str | None, "Such as *.py or src/**/*.md: looks into all folders below. Left out: one."
    ] = None,
) -> str:
    """List the files of a folder, or all below it whose names fit a pattern."""
    with place_of(context, path or ".", reading=True) as place:
        folder = open_folder(place)
        try:
            inside = "" if place.shown == "." else f"{place.shown}/"
            walk = _matching if pattern else _entries
            found = walk(folder, pattern or "", inside, context)
            names = list(_first(found, MOST_NAMES + 1))
        finally:
            os.close(folder)
    if not names:
        return "No file fits." if pattern else "The folder is empty."
    more = f"\n[there are more than {MOST_NAMES:,}; narrow the search]" if len(names) > MOST_NAMES else ""
    return "\n".join(sorted(names[:MOST_NAMES])) + more


def read_bytes(place: OpenedPath, largest: int) -> bytes:
    """The content of a plain file."""
    try:
        opened = open_file(place)
    except ToolError as error:
        raise missing(place, str(error)) from error
    try:
        return read_open(opened, place, largest)
    finally:
        os.close(opened)


def missing(place: OpenedPath, why: str = "") -> ToolError:
    """For a file that is not there, or not to be read."""
    return ToolError(f"{why or f'{place.shown}: No such file or directory'}{_similar_names(place)}")


def read_open(opened: int, place: OpenedPath, largest: int) -> bytes:
    """The content of an open file, from where it stands."""
    size = os.fstat(opened).st_size
    if size > largest:
        raise ToolError(
            f"{place.shown} has {size:,} bytes, which is too large; read a part of it with the shell"
        )
    with os.fdopen(opened, "rb", closefd=False) as file:
        return file.read(largest + 1)[:largest]


def wanted_folder(parent: int, name: str, data: tuple[int, int] | None) -> bool:
    """Whether a walk over the workspace goes into this folder."""
    if name in SKIPPED_FOLDERS:
        return False
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False  # it went away in the meantime
    return (found.st_dev, found.st_ino) != data


def _appended(source: Source, path: str, data: bytes) -> Fill:
    """Fills a new file with the old content and the new text."""
    size = 0 if source is None else os.fstat(source).st_size
    if size > LARGEST_APPENDED:
        raise ToolError(f"{path} has {size:,} bytes, which is too large for append_file")

    def fill(opened: int) -> None:
        if source is not None:
            copy_all(source, opened)
        write_all(opened, data)

    return fill


def _measured(content: str, data: bytes) -> str:
    lines = content.count("\n") + (1 if content and not content.endswith("\n") else 0)
    return f"{lines:,} {'line' if lines == 1 else 'lines'}, {len(data):,} bytes"


def _shown(text: str, start: int, count: int | None, cap: int) -> str:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if start < 1 or (count is not None and count < 1):
        raise ToolError("start and lines count from 1")
    if start > max(1, len(lines)):
        raise ToolError(f"the file has {len(lines):,} lines; start is {start:,}")
    if not lines:
        return "[the file is empty]"
    last = len(lines) if count is None else min(len(lines), start - 1 + count)
    shown: list[str] = []
    left = cap - 200  # room for the last line, which tells what is missing
    for line in lines[start - 1 : last]:
        if len(line) + 1 > left:
            break
        shown.append(line)
        left -= len(line) + 1
    if not shown:
        line = lines[start - 1]
        return (
            f"{line[:left]}\n[line {start:,} of {len(lines):,} is cut here: it has {len(line):,} characters]"
        )
    end = start - 1 + len(shown)
    if start == 1 and end == len(lines):
        return "\n".join(shown) + ("\n" if text.endswith("\n") else "")
    further = f"; go on with start={end + 1}" if end < len(lines) else ""
    return "\n".join(shown) + f"\n[lines {start:,} to {end:,} of {len(lines):,}{further}]"


def _similar_names(place: OpenedPath) -> str:
    try:
        names = os.listdir(place.folder)
    except OSError:
        return ""
    near = difflib.get_close_matches(place.name, names[:MOST_VISITED], n=3) if place.name not in names else []
    return f". Similar names there: {', '.join(near)}" if near else ""


def _first(names: Iterator[str], count: int) -> Iterator[str]:
    for number, name in enumerate(names):
        if number == count:
            return
        yield name


def _entries(folder: int, _: str, inside: str, context: ToolContext) -> Iterator[str]:
    data = data_identity(context)
    for name in os.listdir(folder):
        if not context.may_read(inside + name):
            continue
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if (found.st_dev, found.st_ino) == data:
            continue
        if stat.S_ISDIR(found.st_mode):
            yield f"{on_one_line(name)}/"
        elif stat.S_ISLNK(found.st_mode):
            yield f"{on_one_line(name)} -> {on_one_line(os.readlink(name, dir_fd=folder))}"
        else:
            yield f"{on_one_line(name)} ({found.st_size:,} bytes)"


def _matching(folder: int, pattern: str, inside: str, context: ToolContext) -> Iterator[str]:
    data = data_identity(context)
    wanted = ["**", pattern] if "/" not in pattern else pattern.lstrip("/").split("/")
    visited = 0
    for at, folders, names, opened in os.fwalk(".", dir_fd=folder):
        folders[:] = sorted(name for name in folders if wanted_folder(opened, name, data))
        steps = [] if at == "." else at[2:].split("/")
        if len(steps) >= MAX_DEPTH:
            folders.clear()
        for name in sorted(names):
            visited += 1
            if visited > MOST_VISITED or context.stopping.is_set():
                yield f"[the search ended early, after {visited:,} files]"
                return
            if _fits([*steps, name], wanted) and context.may_read(inside + "/".join([*steps, name])):
                yield on_one_line("/".join([*steps, name]))


def on_one_line(name: str) -> str:
    """A name as it stands in a list: a line break in it begins no other entry."""
    return name if name.isprintable() else name.encode("unicode_escape").decode()


def _fits(steps: list[str], pattern: list[str]) -> bool:
    """Whether a path fits a pattern in which `**` stands for any number of folders."""
    reached = {0}  # how many steps of the path each beginning of the pattern can take
    for part in pattern:
        if part == "**":
            reached = set(range(min(reached), len(steps) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(steps) and fnmatchcase(steps[at], part)}
    return len(steps) in reached
