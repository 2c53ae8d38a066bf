"""Change one place of a file, if it is certain which."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

from turnbuckle.tools.atomic import Fill, Source, change_file, write_all
from turnbuckle.tools.builtin.files import missing, read_open, write_was_done
from turnbuckle.tools.changes import previewed
from turnbuckle.tools.confine import place_of
from turnbuckle.tools.spec import ToolContext, ToolError, tool
from turnbuckle.vocab.file_change import FileChange

LARGEST_EDIT = 16 * 1024 * 1024
MOST_COMPARED = 5_000
MOST_PLACES = 5
LINE_SHOWN = 160


def edit_preview(arguments: Mapping[str, Any], context: ToolContext) -> FileChange:
    path, old, new = (str(arguments[name]) for name in ("path", "old", "new"))

    def changed(before: bytes | None) -> bytes:
        if before is None:
            raise ToolError(f"there is no file {path}")
        _refuse_empty(old, new)
        return _replaced(before, old, new, path)[0]

    return previewed(context, path, changed)


@tool(effect="write", probe=write_was_done, subject="path", preview=edit_preview)
def edit_file(
    path: Annotated[str, "Relative to the workspace."],
    old: Annotated[
        str, "The text to replace, exactly as it stands in the file. It must occur there exactly once."
    ],
    new: Annotated[str, "What to put in its place."],
    context: ToolContext,
) -> str:
    """Replace one piece of a text file by another."""
    _refuse_empty(old, new)
    line = 0

    def change(source: Source) -> Fill:
        nonlocal line
        if source is None:
            raise missing(place)
        data, line = _replaced(read_open(source, place, LARGEST_EDIT), old, new, path)
        return lambda opened: write_all(opened, data)

    with place_of(context, path) as place:
        changed = change_file(context, place, change)
        return f"Changed {place.shown}, line {line}.{changed.remarks}"


def _refuse_empty(old: str, new: str) -> None:
    if not old:
        raise ToolError("old is empty; use write_file or append_file")
    if old == new:
        raise ToolError("old and new are the same; nothing was changed")


def _replaced(content: bytes, old: str, new: str, path: str) -> tuple[bytes, int]:
    """The new content, and the line in which it differs."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8 text; nothing was changed") from error
    at, there, instead = _found(text, old, new, path)
    data = "".join((text[:at], instead, text[at + len(there) :])).encode("utf-8", "replace")
    return data, _line(text, at)


def _found(text: str, old: str, new: str, path: str) -> tuple[int, str, str]:
    """Where the one place is. Models write plain line breaks, also for files that have the others."""
    if old not in text and "\r\n" in text and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    count = text.count(old)
    if count == 0:
        raise ToolError(f"old does not occur in {path}; nothing was changed.{_nearest(text, old)}")
    at = text.find(old)
    if text.find(old, at + 1) >= 0:
        raise ToolError(
            f"old occurs {max(count, 2)} times in {path} (lines {_lines(text, old)}); nothing was changed. "
            "Take in more of the text around the place that is meant."
        )
    return at, old, new


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _lines(text: str, old: str) -> str:
    found: list[str] = []
    at = text.find(old)
    while at >= 0 and len(found) < MOST_PLACES:
        found.append(str(_line(text, at)))
        at = text.find(old, at + 1)
    return ", ".join(found) + (", …" if at >= 0 else "")


def _nearest(text: str, old: str) -> str:
    """The lines that look most like the first line that was looked for."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:LINE_SHOWN]
    lines = text.split("\n")
    stripped = ((number, line.strip()[:LINE_SHOWN]) for number, line in enumerate(lines[:MOST_COMPARED], 1))
    by_text = {line: number for number, line in stripped if line}
    near = difflib.get_close_matches(wanted, by_text, n=3, cutoff=0.5) if wanted else []
    shown = "".join(f"\n{by_text[line]}: {lines[by_text[line] - 1][:LINE_SHOWN]}" for line in near)
    return f" The nearest lines are:{shown}" if shown else ""
