"""The one place from which the command line prints.

What it shows comes from models, tools, files, other people and servers. So every line is made visible:
nothing of it can move the cursor, change colours, or hide. Only what is wanted as a whole (the text of a
draft, an exported session) reaches a pipe as it is; on a terminal that is made visible, too.
"""

import codecs
import io
import os
import sys
import termios
from typing import IO, Any

import msgspec

from turnbuckle.vocab.visible import visible_json, visible_line, visible_text


def echo(*lines: str, err: bool = False) -> None:
    """Lines for a person, on stdout, or with `err` on stderr. Ends of lines within one are spelled out."""
    print("\n".join(map(visible_line, lines)), file=sys.stderr if err else sys.stdout, flush=True)


def echo_text(text: str, *, err: bool = False) -> None:
    """What somebody said, with its own lines."""
    print(visible_text(text), file=sys.stderr if err else sys.stdout, flush=True)


def echo_json(value: Any, *, indented: bool = False) -> None:
    """A value for programs, which means the same to them and does nothing to a terminal."""
    made = msgspec.json.encode(value)
    print(visible_json((msgspec.json.format(made) if indented else made).decode()), flush=True)


def echo_json_lines(text: str) -> None:
    """Lines that are JSON already."""
    sys.stdout.write(visible_json(text))
    sys.stdout.flush()


def echo_whole(text: str) -> None:
    """A text that may be wanted to the byte: a pipe gets it as it is."""
    sys.stdout.write(visible_text(text) if sys.stdout.isatty() else text)


def echo_at_once(line: str) -> None:
    """One last line on stderr, whoever else is in the middle of writing there."""
    os.write(2, f"\n{visible_line(line)}\n".encode())


def prompted(question: str) -> str:
    """The line that somebody types behind a question. Raises EOFError."""
    return input(visible_line(question))


def is_attended() -> bool:
    """Whether somebody sits in front of a terminal, and can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def says_yes(question: str) -> bool:
    """Whether somebody at the terminal agrees, once the question is shown: what was typed before does not
    count."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    sys.stderr.write(f"{visible_line(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def json_bytes_out() -> IO[bytes]:
    """Where JSON goes that comes in bytes: to a program as it is, to a terminal made visible."""
    return io.BufferedWriter(_Terminal()) if sys.stdout.isatty() else sys.stdout.buffer


class _Terminal(io.RawIOBase):
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        echo_json_lines(self._decoder.decode(bytes(data)))
        return len(data)
