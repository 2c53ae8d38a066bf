"""The process that searches. It gets an open folder and a wish as JSON, and answers with one JSON object.

It follows no links, so it cannot leave the folder that it was given. It needs only the standard library.
"""

import contextlib
import json
import os
import re
import resource
import stat
import sys
from collections.abc import Iterator
from typing import Any

SAMPLE = 8192
LONGEST_LINE = 10_000


class Worker:
    """One search."""

    def __init__(self, wish: dict[str, Any]) -> None:
        self.wish = wish
        self.pattern = re.compile("")
        self.lines: list[tuple[str, int, str]] = []
        self.more = False
        self.files = 0
        self.skipped = 0
        self.fault = ""

    def run(self, folder: int) -> None:
        try:
            self.pattern = re.compile(self.wish["pattern"])
        except (re.error, RecursionError, OverflowError) as error:
            self.fault = f"the pattern is not a regular expression: {error}"
            return
        for parent, name, shown in self._candidates(folder):
            if self.more or self.files + self.skipped >= self.wish["visited"]:
                self.more = True
                return
            self._search(parent, name, self.wish["prefix"] + shown)

    def _candidates(self, folder: int) -> Iterator[tuple[int, str, str]]:
        if self.wish["only"]:
            yield folder, self.wish["only"], self.wish["only"]
            return
        for at, folders, names, opened in os.fwalk(".", dir_fd=folder):
            folders[:] = sorted(name for name in folders if self._wanted(opened, name))
            inside = "" if at == "." else at[2:] + "/"
            if inside.count("/") >= self.wish["deepest"]:
                folders.clear()
            for name in sorted(names):
                yield opened, name, inside + name

    def _wanted(self, parent: int, name: str) -> bool:
        if name in self.wish["skip"]:
            return False
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return False  # it went away in the meantime
        return bool([found.st_dev, found.st_ino] != self.wish["data"])

    def _search(self, parent: int, name: str, shown: str) -> None:
        try:
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
        except OSError as error:
            self.skipped += 1
            if self.wish["only"]:
                self.fault = f"the search failed: {shown}: {error.strerror}"
            return
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode) or found.st_size > self.wish["largest"]:
                self.skipped += 1
                return
            data = file.read(self.wish["largest"])
        if b"\0" in data[:SAMPLE]:
            self.skipped += 1
            return
        self.files += 1
        self._match(data.decode("utf-8", "replace"), shown)

    def _match(self, text: str, shown: str) -> None:
        for number, line in enumerate(text.split("\n"), 1):
            if not self.pattern.search(line[:LONGEST_LINE]):
                continue
            if len(self.lines) >= self.wish["most"]:
                self.more = True
                return
            self.lines.append((shown, number, line.rstrip()[: self.wish["shown"]]))


def main() -> None:
    wish = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (wish["seconds"], wish["seconds"] + 1))
    with contextlib.suppress(ValueError, OSError):  # some systems cannot limit memory in this way
        resource.setrlimit(resource.RLIMIT_AS, (wish["memory"], wish["memory"]))
    worker = Worker(wish)
    worker.run(int(sys.argv[1]))
    answer = {"lines": worker.lines, "more": worker.more, "files": worker.files, "skipped": worker.skipped}
    text = json.dumps({**answer, "fault": worker.fault})
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
