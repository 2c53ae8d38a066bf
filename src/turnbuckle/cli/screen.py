"""Where a run is shown: a terminal, or a pipe.

The model's text goes to stdout, everything else to stderr, so a pipe gets the answer and nothing more. If
both are one terminal they share a cursor: a line about a tool does not end up inside a sentence, and a status
line stands below the text and goes away without a trace. What a model or a tool says cannot steer the
terminal, nor hide anything in it: such signs are spelled out there, and the text is left as it is in a pipe.
"""

import io
import os
import shutil
import threading
import unicodedata
from typing import TextIO

from turnbuckle.cli.pieces import Break, Line, Piece, Tone, Words
from turnbuckle.vocab.visible import visible_json, visible_line, visible_text

_COLORS: dict[Tone, str] = {
    "tool": "\x1b[36m",
    "file": "\x1b[36m",
    "notice": "\x1b[33m",
    "quiet": "\x1b[2m",
    "bad": "\x1b[31m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
    "plain": "",
}
_DIM = "\x1b[2m"
_PLAIN = "\x1b[0m"


class Screen:
    """Shows pieces, from any thread, one after another."""

    def __init__(self, out: TextIO, err: TextIO, *, color: bool = True) -> None:
        self._out = out
        self._err = err
        self._turn = threading.RLock()
        self.is_terminal = err.isatty()
        self.live = self.is_terminal and os.environ.get("TERM") != "dumb"
        """Whether a status line can be shown, and taken away again."""
        self._out_terminal = out.isatty()
        self._shared = (self.is_terminal and self._out_terminal) or _same_file(out, err)
        self._color = color
        self._column = 0  # of the text on stdout
        self._last = ""  # character there
        self._ends = 0  # line ends behind the last word there
        self._lined = False  # a line about what happens stands between the last words and the next
        self._status_shown = False
        self._status_below = False

    def show(self, pieces: list[Piece]) -> None:
        """Show pieces, in order, at once."""
        if not pieces:
            return
        with self._turn:
            self.clear_status()
            for piece in pieces:
                self._piece(piece)
            self._out.flush()
            self._err.flush()

    def raw(self, text: str) -> None:
        """JSON for programs, on stdout, or a prompt."""
        with self._turn:
            self._out.write(visible_json(text))
            self._out.flush()

    def status(self, words: str) -> None:
        """What is waited for, on a line that goes away again."""
        if self.live:
            with self._turn:
                self._status(words)

    def clear_status(self) -> None:
        with self._turn:
            if not self._status_shown:
                return
            back = f"\x1b[A\x1b[{self._column % self._width() + 1}G" if self._status_below else ""
            self._err.write(f"\r\x1b[K{back}")
            self._err.flush()
            self._status_shown = self._status_below = False

    def _piece(self, piece: Piece) -> None:
        match piece:
            case Words(text, reasoning, apart):
                if apart:
                    self._paragraph(text)
                self._text(text, reasoning)
            case Break():
                self._new_line()
            case Line(text, tone):
                self._line(text, tone)

    def _status(self, words: str) -> None:
        self.clear_status()
        width = self._width()
        if self._shared and self._column and self._column % width == 0:
            return  # the cursor hangs at the edge, where it cannot be found again
        if self._shared and self._column:
            self._err.write("\n")
            self._status_below = True
        words = self._clean(words)[: width - 1]
        self._err.write(f"\r{_DIM}{words}{_PLAIN}" if self._color else f"\r{words}")
        self._err.flush()
        self._status_shown = True

    def _text(self, text: str, reasoning: bool) -> None:
        if reasoning:
            # Reasoning is for the eyes of a person; a pipe wants the answer alone.
            where = self._out if self._shared else self._err
            shown = visible_text(text) if where.isatty() else text
            where.write(f"{_DIM}{shown}{_PLAIN}" if self._color and where.isatty() else shown)
            if where is self._out:
                self._moved(shown)
            return
        shown = visible_text(text, self._last) if self._out_terminal else text
        self._last = text[-1:] or self._last
        self._out.write(shown)
        self._moved(shown)

    def _moved(self, text: str) -> None:
        bare = text.rstrip("\n")
        self._ends = len(text) - len(bare) + (0 if bare else self._ends)
        self._lined = False
        _, newline, last = text.rpartition("\n")
        wide = sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in last) if last else 0
        self._column = wide if newline else self._column + wide

    def _new_line(self) -> None:
        if self._column:
            self._out.write("\n")
            self._column = 0
            self._ends += 1

    def _paragraph(self, text: str) -> None:
        """A blank line before these words, where no other line parts them from those before."""
        if not self._lined:
            missing = "\n" * (2 - self._ends - (len(text) - len(text.lstrip("\n"))))
            self._out.write(missing)
            self._moved(missing)

    def _line(self, text: str, tone: Tone) -> None:
        if self._shared:
            self._new_line()
            self._lined = True
            self._out.flush()
        shown = self._clean(text)
        self._err.write(f"{_COLORS[tone]}{shown}{_PLAIN}\n" if self._color and self.live else f"{shown}\n")

    def _clean(self, text: str) -> str:
        return visible_line(text.replace("\n", " ").replace("\t", " "))

    def _width(self) -> int:
        return max(shutil.get_terminal_size().columns, 20)


def _same_file(out: TextIO, err: TextIO) -> bool:
    """Whether both go to one place, as after `2>&1`."""
    try:
        return os.path.sameopenfile(out.fileno(), err.fileno())
    except (OSError, io.UnsupportedOperation):
        return False
