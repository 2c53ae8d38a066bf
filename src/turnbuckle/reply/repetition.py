"""A model that says the same thing forever is found out, and a table with equal rows is left alone.

Theory of operation. What comes is looked at in blocks of a fixed size, so that it does not matter how it was
split. Behind a bounded window the question is always the same: is each character the one that stood `period`
before it? While a period holds, a block costs one comparison. When it does not, the block is looked for in
the window: its nearest earlier place says which period to try next. So any period up to the window's size is
found, with or without sentences and lines, at a cost per character that does not depend on how much came
before.

How much of it is too much depends on what repeats. Prose that runs on needs little. Lines need more, since
logs, lists, tables and code repeat by nature. In a call's arguments a file of thousands of equal lines may be
what is wanted, so the bar is far higher there; only blanks have a low one everywhere.
"""

import re
from typing import Literal

Where = Literal["text", "reasoning", "arguments"]

BLOCK = 128
LONGEST = 4_000
"""Characters of the longest period that is looked for."""
_WINDOW = LONGEST + BLOCK
_MARK = 24
"""Characters below which a period is a mark or a word, and not a passage."""
_ROUNDS_PROSE = 30
_ROUNDS_LINES = 150
_BLANKS = re.compile(r"(?:\s|\\[nrt])+")
_LINE_END = re.compile(r"(?:\n|\\n)+")
_SENTENCE_END = re.compile(r"[.!?…。！？][\s\"')\]]+")
_EDGES = re.compile(r"\A(?:\s|\\[nrt])+|(?:\s|\\[nrt])+\Z")
_SPACE = re.compile(r"\s+")


class RepetitionGuard:
    """`feed` what comes; returns the repeated passage once there is no doubt, else an empty text."""

    def __init__(self, where: Where = "text") -> None:
        self._where = where
        self._pieces: list[str] = []  # of the block that is not full
        self._size = 0
        self._window = ""
        self._period = 0
        self._run = 0  # characters in a row that equal the one a period before
        self._bar = 0

    def feed(self, text: str) -> str:
        at = 0
        while len(text) - at >= BLOCK - self._size:
            end = at + BLOCK - self._size
            self._pieces.append(text[at:end])
            block = "".join(self._pieces)
            self._pieces.clear()
            self._size, at = 0, end
            if found := self._take(block):
                return found
        if at < len(text):
            self._pieces.append(text[at:])
            self._size += len(text) - at
        return ""

    def _take(self, block: str) -> str:
        window = self._window = self._window[-_WINDOW:] + block
        period = self._period
        if period and window.startswith(block, len(window) - BLOCK - period):
            self._run += BLOCK
            return _told(window[-period:]) if self._run >= self._bar else ""
        self._look_for(block)
        return ""

    def _look_for(self, block: str) -> None:
        """The nearest place where this block stood before says what to watch for from here on."""
        window = self._window
        before = window.rfind(block, 0, len(window) - 1)
        self._period = len(window) - BLOCK - before if before >= 0 else 0
        self._run = BLOCK
        self._bar = bar(window[-self._period :], self._where) if self._period else 0


def bar(period: str, where: Where) -> int:
    """How many characters of a passage in a row, beyond its first time, are too many."""
    size, period = len(period), _aligned(period)
    if _BLANKS.fullmatch(period):
        return 2_000
    lines = _LINE_END.search(period) is not None
    if where == "arguments":
        if lines or size <= 4:
            return min(max(24_000, 3_200 * size), 64_000)
        return max(8_000, 4 * size)
    if lines or (3 <= size < _MARK):
        return min(max(_ROUNDS_LINES * size, 1_000), max(9_000, 4 * size))
    if size < _MARK:
        return 4_000  # a ruler, dots, zeros
    return min(_ROUNDS_PROSE * size, max(2_400, 4 * size))


def _aligned(period: str) -> str:
    """The same passage, not begun in the middle of an escape."""
    return f"\\{period[:-1]}" if period.endswith("\\") else period


def _told(period: str) -> str:
    """The passage, begun where a person would begin it."""
    period = _aligned(period)
    for end in (_LINE_END, _SENTENCE_END, _SPACE):
        ends = list(end.finditer(period))
        if ends:
            turned = period[ends[-1].end() :] + period[: ends[-1].end()]
            return _EDGES.sub("", turned) or "nothing but blanks"
    return period
