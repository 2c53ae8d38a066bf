"""Markdown as it streams: text in, finished blocks out.

A block is handed out once nothing can change it any more: a paragraph at its blank line, a heading at its
line's end, one item of a list when the next one begins, a table when a line is not a row. Code is handed out
line by line, since no line of it depends on another. So what was printed is never printed again, whatever
comes.

Pieces of text are kept in a list and looked at once, when their line is whole: the work per piece does not
grow with the block. A block that has no end is cut at `LONGEST`, between two words where there are any.
"""

import re
from typing import Literal

from msgspec import Struct

BlockKind = Literal["paragraph", "heading", "item", "table", "rule", "code_begin", "code", "code_end"]
LONGEST = 8_000  # characters of an open block: about three screens of text; real paragraphs are far shorter
_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})\s*([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_ITEM = re.compile(r"( {0,3})(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_RULE = re.compile(r" {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")


class Block(Struct, frozen=True):
    """A piece that is done. `text` has no line end behind it; of `code_begin` it is the language. `apart`: a
    blank line stood before it."""

    kind: BlockKind
    text: str = ""
    apart: bool = True


class BlockSplitter:
    """`feed` text, get blocks; `close` ends what is open."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._piece: list[str] = []  # of the line that is not whole yet
        self._piece_size = 0
        self._kind: BlockKind | None = None
        self._fence = ""
        self._indent = 0
        self._blank = True  # the last whole line was blank
        self._apart = True
        self._out: list[Block] = []

    @property
    def is_open(self) -> bool:
        """Whether something was taken in that is in no block yet, or code is open."""
        return bool(self._kind or self._piece_size)

    def feed(self, text: str) -> list[Block]:
        first, *others = text.split("\n")
        self._keep(first)
        for part in others:
            line = "".join(self._piece)
            self._piece, self._piece_size = [], 0
            self._line(line)
            self._keep(part)
        if self._piece_size + self._size > LONGEST:
            self._cut()
        return self._taken()

    def close(self) -> list[Block]:
        """What is open is over. Code without its last line ends here."""
        line = "".join(self._piece)
        self._piece, self._piece_size = [], 0
        if line:
            self._line(line)
        if self._fence:
            self._end_code()
        self._end()
        self._blank = self._apart = True
        return self._taken()

    def tail(self, characters: int) -> str:
        """The end of what is open, at most so many characters of it."""
        found, size = [], 0
        for piece in reversed(self._piece):
            found.append(piece)
            size += len(piece)
            if size >= characters:
                break
        else:
            for line in reversed(self._lines):
                found.append(f"{line}\n")
                size += len(line) + 1
                if size >= characters:
                    break
        return "".join(reversed(found))[-characters:]

    def _keep(self, piece: str) -> None:
        if piece:
            self._piece.append(piece)
            self._piece_size += len(piece)

    def _taken(self) -> list[Block]:
        made, self._out = self._out, []
        return made

    def _line(self, line: str) -> None:
        if self._fence:
            self._code_line(line)
        elif not line.strip():
            self._blank_line()
        elif fence := _FENCE.match(line):
            self._end()
            self._fence, self._indent, self._kind = fence[2], len(fence[1]), "code"
            self._out.append(Block("code_begin", fence[3].strip()))
        else:
            self._text_line(line)
            self._blank = False

    def _code_line(self, line: str) -> None:
        plain = line.strip()
        if plain and set(plain) == {self._fence[0]} and len(plain) >= len(self._fence):
            self._end_code()
            return
        lead = len(line) - len(line.lstrip(" "))
        self._out.append(Block("code", line[min(self._indent, lead) :], apart=False))

    def _end_code(self) -> None:
        self._fence, self._indent, self._kind, self._blank = "", 0, None, False
        self._out.append(Block("code_end", apart=False))

    def _blank_line(self) -> None:
        if self._kind != "item":  # more of an item may come behind a blank line
            self._end()
        elif self._lines and not self._blank:
            self._add("")
        self._blank = True

    def _text_line(self, line: str) -> None:
        if self._kind == "item" and self._goes_on(line):
            self._add(line)
            return
        if _HEADING.match(line):
            self._alone("heading", line)
        elif self._kind != "paragraph" and _RULE.match(line):
            self._alone("rule", line)
        elif _ITEM.match(line):
            follows = self._kind == "item" and not self._blank
            self._end()
            self._kind, self._apart = "item", not follows
            self._add(line)
        else:
            kind: BlockKind = "table" if line.lstrip().startswith("|") else "paragraph"
            if self._kind not in (None, kind):
                self._end()
            if self._kind is None:
                self._kind, self._apart = kind, True
            self._add(line)

    def _goes_on(self, line: str) -> bool:
        """Whether a line belongs to the item that is open: it is indented, or goes on with its text right
        behind it."""
        if line.startswith(("  ", "\t")):
            return True
        return not self._blank and not _ITEM.match(line) and not _HEADING.match(line) and line[0] != "|"

    def _alone(self, kind: BlockKind, line: str) -> None:
        self._end()
        self._out.append(Block(kind, line))

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _end(self) -> None:
        if self._kind is not None and self._lines:
            text = "\n".join(self._lines).rstrip("\n")
            self._out.append(Block(self._kind, text, self._apart))
        self._lines, self._size, self._kind = [], 0, None

    def _cut(self) -> None:
        """Hand out what there is of a block that is too long. What comes behind it follows without a blank
        line."""
        line = "".join(self._piece)
        self._piece, self._piece_size = [], 0
        if self._fence:
            self._out.append(Block("code", line, apart=False))
            return
        whole, space, rest = line.rpartition(" ")
        if not space:
            whole, rest = line, ""
        kind = self._kind or "paragraph"
        if whole.strip():
            self._kind = kind
            self._add(whole)
        self._end()
        self._kind, self._apart = "paragraph" if kind == "item" else kind, False
        self._keep(rest)
