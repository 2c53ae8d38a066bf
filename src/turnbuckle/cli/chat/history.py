"""What was typed into chats before, in the data folder: for nobody else to read, capped, and without
credentials."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from turnbuckle.vocab.redaction import without_credentials

FILE = "chat_history"
MOST = 1_000  # lines that are kept; nobody searches further back
MOST_BYTES = 1 << 20  # of the file; a thousand lines of the usual length have a twentieth of it
LONGEST = 10_000  # characters of a line that is kept; longer ones are pasted text


class ChatHistory(History):
    """One line of JSON for each entry. Without a folder it lasts as long as the chat."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        self._path = None if folder is None or not folder.is_dir() else folder / FILE

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        kept = self._read()
        if len(kept) > MOST or self._size() > MOST_BYTES:
            kept = kept[-MOST // 2 :]
            self._write(kept)
        return reversed(kept)

    def store_string(self, string: str) -> None:
        if self._path is None or len(string) > LONGEST or without_credentials(string) != string:
            return
        with contextlib.suppress(OSError):  # a full disk must not end a chat
            opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(opened, "wb") as file:
                file.write(msgspec.json.encode(string) + b"\n")

    def _size(self) -> int:
        return self._path.stat().st_size if self._path is not None and self._path.exists() else 0

    def _read(self) -> list[str]:
        """The newest entries; a line that cannot be read is left out."""
        if self._path is None:
            return []
        found: list[str] = []
        try:
            with self._path.open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - MOST_BYTES, 0))
                for line in file:
                    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                        found.append(msgspec.json.decode(line, type=str))
        except OSError:
            return found
        return found

    def _write(self, kept: list[str]) -> None:
        assert self._path is not None
        beside = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(opened, "wb") as file:
                file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in kept))
            beside.replace(self._path)
