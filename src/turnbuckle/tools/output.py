"""Output with a limit: the beginning and the end are shown, the middle is cut out, and the whole is kept in a
file.

Until the cap is reached, pieces stay in memory. Beyond it they go to the file, and memory holds the head and
a ring of the newest pieces. The file has a cap too; what comes after that is only counted.
"""

import codecs
import hashlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from turnbuckle.tools.private import private_folder

FILE_CAP = 64 * 1024 * 1024
LIVE_CAP = 200_000
LONGEST_LIVE_LINE = 4096
MAX_PIECES = 1024


def kept_path(folder: Path, key: str, name: str) -> Path:
    """Where the whole output of a call is kept: the same place when it runs again."""
    safe = "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name)[:40]
    return folder / f"{safe}-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:12]}.txt"


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which no journal and no provider can take."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Capture:
    """Collects text of any length in constant memory. `close` it when the output is over."""

    def __init__(self, cap: int, file: Path) -> None:
        self._head_size = cap // 2
        self._tail_size = cap - self._head_size
        self._file_path = file
        self._file: IO[str] | None = None
        self._written = 0
        self._fault = ""
        self._head: list[str] = []
        self._head_length = 0
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self.total = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def add(self, text: str) -> None:
        """Take the next piece."""
        fitted = not self.is_cut
        self.total += len(text)
        if self.is_cut:
            if fitted:
                self._open()
            self._keep(text)
        room = self._head_size - self._head_length
        if room > 0:
            self._head.append(text[:room])
            self._head_length += len(self._head[-1])
            text = text[room:]
        if text:
            self._tail.append(text)
            self._tail_length += len(text)
            self._shorten()

    def close(self) -> None:
        if self._file is not None and not self._file.closed:
            try:
                self._file.close()
            except OSError as error:
                self._fault = error.strerror or str(error)

    @property
    def is_cut(self) -> bool:
        """Whether there is more than what is shown."""
        return self.total > self._head_size + self._tail_size

    @property
    def kept_at(self) -> Path | None:
        """Where the whole is, if it is more than what is shown and could be kept."""
        return None if self._file is None or self._fault else self._file_path

    @property
    def text(self) -> str:
        """What is shown."""
        head, tail = "".join(self._head), "".join(self._tail)
        if not self.is_cut:
            return head + tail
        tail = tail[-self._tail_size :]
        lost = f" and could not be kept ({self._fault})" if self._fault else ""
        return f"{head}\n[… {self.total - len(head) - len(tail):,} characters left out{lost} …]\n{tail}"

    def _shorten(self) -> None:
        """Drop pieces from the front of the ring while the rest is enough."""
        while self._tail_length - len(self._tail[0]) >= self._tail_size:
            self._tail_length -= len(self._tail.popleft())
        if len(self._tail) > MAX_PIECES:  # many tiny pieces weigh more than their text
            self._tail = deque(["".join(self._tail)])

    def _open(self) -> None:
        try:
            folder = self._file_path.parent  # of the run, in that of all runs
            private_folder(folder, folder.parent.parent)
            opened = os.open(self._file_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            self._fault = error.strerror or str(error)
            return
        self._file = os.fdopen(opened, "w", encoding="utf-8", errors="replace", newline="")
        for piece in (*self._head, *self._tail):
            self._keep(piece)

    def _keep(self, text: str) -> None:
        if self._file is None or self._fault or self._written >= FILE_CAP:
            return
        piece = text[: FILE_CAP - self._written]
        self._written += len(piece)
        end = f"\n[the file ends here, after {FILE_CAP:,} characters]\n" if self._written >= FILE_CAP else ""
        try:
            self._file.write(piece + end)
        except OSError as error:
            self._fault = error.strerror or str(error)


def capped(text: str, cap: int, file: Path) -> tuple[str, Path | None]:
    """A finished text within the cap, and where the whole is if it was longer."""
    if len(text) <= cap:
        return text, None
    with Capture(cap, file) as capture:
        capture.add(text)
    return capture.text, capture.kept_at


class LiveLines:
    """Hands output on as it comes, by whole lines."""

    def __init__(self, publish: Callable[[str], None]) -> None:
        self._publish = publish
        self._open: list[str] = []
        self._open_length = 0
        self._left = LIVE_CAP

    def add(self, text: str) -> None:
        line_end = text.rfind("\n") + 1
        if line_end or self._open_length + len(text) > LONGEST_LIVE_LINE:
            whole = line_end or len(text)
            self._send("".join((*self._open, text[:whole])))
            self._open, self._open_length, text = [], 0, text[whole:]
        if text:
            self._open.append(text)
            self._open_length += len(text)

    def close(self) -> None:
        self._send("".join(self._open))
        self._open, self._open_length = [], 0

    def _send(self, text: str) -> None:
        if not text or self._left <= 0:
            return
        shown = text[: self._left]
        self._left -= len(text)
        self._publish(shown + ("\n[more is not shown live]\n" if self._left <= 0 else ""))


class Decoded:
    """Bytes to text, piece by piece; what is not UTF-8 shows as the replacement character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def close(self) -> str:
        return self._decoder.decode(b"", final=True)
