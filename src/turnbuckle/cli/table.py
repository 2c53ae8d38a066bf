"""Lists of the command line: columns, on a terminal with a header and no wider than it."""

import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence

from turnbuckle.cli.echo import echo
from turnbuckle.vocab.visible import visible_line

LONGEST = 200
"""Characters of a title or a command in a list, where there is room for them."""


def echo_table(headers: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    """Rows in columns, each with its note below it, if it has one. A pipe gets no header, and all of every
    row."""
    if rows:
        room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        echo(*table_lines(headers, rows, notes, room))


def titled_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> list[str]:
    """The lines of a list with its header, of any width; nothing if it is empty."""
    return table_lines(headers, rows, notes, 1 << 20) if rows else []


def table_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str], room: int | None
) -> list[str]:
    """The lines of a list for a terminal with so many columns; None: not for a terminal."""
    cells = [[visible_line(cell) for cell in row] for row in rows]
    shown = cells if room is None else [[header.upper() for header in headers], *cells]
    wide = [max(map(columns_of, column)) for column in zip(*shown, strict=True)]
    lines = []
    for number, row in enumerate(shown, len(cells) - len(shown)):
        padded = (cell + " " * (width - columns_of(cell)) for cell, width in zip(row, wide, strict=True))
        lines.append("  ".join(padded).rstrip())
        if 0 <= number < len(notes) and notes[number]:
            lines.append(f"    {visible_line(notes[number])}")
    return lines if room is None else [fitted(line, room) for line in lines]


def fitted(line: str, room: int) -> str:
    """As much of a line as fits one row of a terminal."""
    if columns_of(line) <= room:
        return line
    used, kept = 1, ""  # the sign for what is left out takes one
    for char in line:
        used += columns_of(char)
        if used > room:
            break
        kept += char
    return f"{kept.rstrip()}…"


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def minute_of(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def day_of(moment: float) -> str:
    """Empty for a moment that nobody noted."""
    return time.strftime("%Y-%m-%d", time.localtime(moment)) if moment else ""
