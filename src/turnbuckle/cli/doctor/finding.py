"""One thing that was found out about a set-up, in words: how it is, and what to do if it is not well."""

from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import wrap
from typing import Literal

from msgspec import Struct

Level = Literal["ok", "note", "wrong"]
_MARKS: dict[Level, str] = {"ok": "ok", "note": "note", "wrong": "WRONG"}
_INDENT = " " * 9
_WIDEST = 96  # a line that is longer is hard to read


class Finding(Struct, frozen=True):
    """`about` is what was looked at. A note is worth knowing, and nothing has to be done about it."""

    level: Level
    about: str
    what: str
    fix: str = ""

    def lines(self) -> list[str]:
        """For a person: how it is, and below it what to do."""
        width = min(get_terminal_size().columns, _WIDEST)
        mark = f"  {_MARKS[self.level]:<5}  "
        told = wrap(f"{self.about}: {self.what}", width, initial_indent=mark, subsequent_indent=_INDENT)
        fix = wrap(self.fix, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False)
        return [*told, *fix]


def all_well(findings: Iterable[Finding]) -> bool:
    """Whether nothing is wrong."""
    return all(finding.level != "wrong" for finding in findings)
