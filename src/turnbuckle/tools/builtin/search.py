"""Search files by a regular expression, in a process of its own (see `workers`): compiling one can take as
long as matching it."""

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from turnbuckle.tools.builtin.files import SKIPPED_FOLDERS, on_one_line
from turnbuckle.tools.confine import MAX_DEPTH, data_identity, open_folder, place_of
from turnbuckle.tools.spec import ToolContext, ToolError, tool
from turnbuckle.tools.workers import worked

SECONDS = 20.0
MOST_FOUND = 200
LARGEST_SEARCHED = 5 * 1024 * 1024
MOST_VISITED = 200_000
LINE_SHOWN = 300
LONGEST_PATTERN = 1000
MEMORY = 512 * 1024 * 1024

_WORKER = Path(__file__).with_name("search_worker.py")


class SearchResult(Struct, frozen=True):
    """What the worker says."""

    lines: list[tuple[str, int, str]] = []
    more: bool = False
    files: int = 0
    skipped: int = 0
    fault: str = ""


@tool(effect="read", timeout=SECONDS, subject="path")
async def search_files(
    pattern: Annotated[str, "A regular expression, looked for in each line."],
    context: ToolContext,
    path: Annotated[str | None, "A folder or a file; the workspace if left out."] = None,
) -> str:
    """Search the text of files, in all folders below a path. Shows path, line number and line."""
    if len(pattern) > LONGEST_PATTERN:
        raise ToolError(f"the pattern has more than {LONGEST_PATTERN:,} characters")
    with place_of(context, path or ".", reading=True) as place:
        is_folder = place.name == "." or _is_folder(place.folder, place.name)
        folder = open_folder(place) if is_folder else os.dup(place.folder)
        only = "" if is_folder else place.name
        prefix = "" if place.shown == "." or not is_folder else f"{place.shown}/"
        if not is_folder:
            prefix = place.shown[: -len(place.name)]
    try:
        found = await _searched(context, folder, {"pattern": pattern, "only": only, "prefix": prefix})
    finally:
        os.close(folder)
    if found.fault:
        raise ToolError(found.fault)
    allowed = [line for line in found.lines if context.may_read(line[0])]
    lines = [
        f"{on_one_line(path)}:{number}: {context.redact(text)[:LINE_SHOWN]}" for path, number, text in allowed
    ]
    notes = [f"[more than {MOST_FOUND} lines fit; narrow the search]"] if found.more else []
    if left_out := len(found.lines) - len(allowed):
        notes.append(f"[{left_out:,} lines are left out: the settings do not allow to read these files]")
    if found.skipped:
        notes.append(f"[{found.skipped:,} files were skipped: not text, or too large]")
    return "\n".join([*(lines or [f"No line fits, in {found.files:,} files."]), *notes])


def _is_folder(parent: int, name: str) -> bool:
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent))
    except OSError:
        return False  # a file, or nothing: the worker says which
    return True


async def _searched(context: ToolContext, folder: int, wish: dict[str, str]) -> SearchResult:
    limits = {
        "most": MOST_FOUND,
        "largest": LARGEST_SEARCHED,
        "visited": MOST_VISITED,
        "shown": LINE_SHOWN + context.redactor.longest,
        "seconds": int(SECONDS) + 1,
        "memory": MEMORY,
        "deepest": MAX_DEPTH,
        "skip": sorted(SKIPPED_FOLDERS),
        "data": list(data_identity(context) or ()),
    }
    answer = await worked(
        _WORKER,
        {**wish, **limits},
        environment=context.child_environment,
        arguments=(str(folder),),
        pass_fds=(folder,),
    )
    if answer is None:
        raise ToolError("the search took too long, or was killed; use a simpler pattern or a smaller folder")
    return msgspec.json.decode(answer, type=SearchResult)
