"""Recorded terminal sessions: commands typed into a real terminal, and what could be read there afterwards.

Each recording runs in a git work tree of its own with the rehearsal model, so it needs no key and no
network. What differs from one time to the next (ids, seconds, guesses at tokens) is not compared, and a
recording that differs in nothing else is left as it is. The scorecard is recorded with them, since it takes
seconds, too.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterable
from pathlib import Path

from pages import scorecard
from pages.parts import ROOT

FOLDER = ROOT / "docs" / "recorded"
SCORECARD = "scorecard.jsonl"
COLUMNS, ROWS = 110, 40
RECORDINGS: dict[str, tuple[str, ...]] = {
    "stall": (
        'turnbuckle run "write notes.md with 300 lines and stall"',
        "wc -l notes.md",
    ),
    "crash": (
        'TURNBUCKLE_FAULT=after-append:ToolStarted:1 turnbuckle run "write plan.md with 20 lines"',
        "turnbuckle runs resume",
        "wc -l plan.md",
    ),
}
_RUN = re.compile(r"\br\d{8}-\d{6}-[0-9a-f]{12}\b")
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? s\b")
_TOKENS = re.compile(r"\babout [\d,]+ tokens\b")  # the prompt names the folder, which is a new one each time
_CONTROL = re.compile(r"\x1b\[(?P<number>\d*)(?P<what>[A-Za-z])|(?P<char>[\r\n\b])|(?P<text>[^\x1b\r\n\b]+)")


class Paper:
    """What a terminal shows in the end: just enough of one for a command that writes lines and takes some
    back."""

    def __init__(self) -> None:
        self._lines = [""]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for found in _CONTROL.finditer(text):
            if found["text"]:
                self._write(found["text"])
            elif found["char"] == "\n":
                self._row += 1
                self._lines += [""] * (self._row + 1 - len(self._lines))
            elif found["char"] == "\r":
                self._column = 0
            elif found["char"] == "\b":
                self._column = max(self._column - 1, 0)
            else:
                self._control(found["what"], found["number"])

    def lines(self) -> list[str]:
        made = [line.rstrip() for line in self._lines]
        while made and not made[-1]:
            made.pop()
        return made

    def _write(self, text: str) -> None:
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
        self._column += len(text)

    def _control(self, what: str, number: str) -> None:
        if what == "K":
            self._lines[self._row] = self._lines[self._row][: self._column]
        elif what == "A":
            self._row = max(self._row - int(number or 1), 0)
        elif what == "G":
            self._column = int(number or 1) - 1


def typed(command: str, folder: Path) -> list[str]:
    """What a terminal shows of one command, its own line first."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TURNBUCKLE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env={**kept, "PATH": path, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        paper = Paper()
        paper.feed(_all_of(ours).decode("utf-8", "replace"))
    os.close(ours)
    shown = [line for line in paper.lines() if "Killed" not in line]
    return [f"$ {command}", *shown, *(["Killed"] if process.returncode in (-9, 137) else [])]


def recorded(commands: Iterable[str]) -> str:
    """All commands of a recording, one behind the other in a new folder. The prompt names it, and a longer
    name is more tokens: it has its place there whatever the usual one is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / ".git").mkdir()  # as in a project, where changes are not asked about
        (Path(folder) / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        lines = [line for command in commands for line in (*typed(command, Path(folder)), "")]
    return "\n".join(lines).rstrip() + "\n"


def alike(text: str) -> str:
    """A recording without what is different each time."""
    return _TOKENS.sub(
        "about 0 tokens", _SECONDS.sub("0.0 s", _RUN.sub("r20260101-090000-0123456789ab", text))
    )


def main() -> None:
    """Record everything again, and write what is not alike."""
    FOLDER.mkdir(exist_ok=True)
    made = {f"{name}.txt": recorded(commands) for name, commands in RECORDINGS.items()}
    made[SCORECARD] = scorecard.lines(row for group in scorecard.GROUPS for row in scorecard.rows_of(group))
    for name, text in made.items():
        file = FOLDER / name
        if not file.exists() or alike(file.read_text("utf-8")) != alike(text):
            file.write_text(text, "utf-8")
            print(f"recorded: {file.relative_to(ROOT)}")


def _all_of(terminal: int) -> bytes:
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # so Linux says that nobody writes to the terminal any more
            return seen
        if not piece:
            return seen
        seen += piece


if __name__ == "__main__":
    main()
