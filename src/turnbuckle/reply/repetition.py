"""A model that says the same thing for ever is found out, and a table with equal rows is left alone.

The text is cut into units as it comes: sentences and lines, and pieces of a fixed size where neither ends. A passage
counts when it is said again and again without anything else between: one unit, or a short cycle of units. Prose that
runs on needs few rounds. Lines need many, since logs, lists, tables and code repeat by nature, and so do short marks
such as `};`. Each character is looked at once, and what is kept is a handful of units.
"""

import re
from collections import deque

_END = re.compile(r"[.!?…。！？][\s\"')\]]|\n")
_CYCLE = 8
"""The longest cycle, in units, that is looked for."""
_ROUNDS_PROSE = 30
_ROUNDS_LINES = 150
_LONG = 24
"""Characters from which a cycle counts as a passage and not as a mark of layout."""
_UNIT_MOST = 2_000


class RepetitionGuard:
    """`feed` text as it is shown; returns the repeated passage once there is no doubt, else an empty text."""

    def __init__(self) -> None:
        self._pieces: list[str] = []  # of the unit that is not over
        self._size = 0
        self._last = ""  # the last character that was read, which may begin the end of a sentence
        self._units: deque[tuple[str, bool]] = deque(maxlen=_CYCLE + 1)  # with whether it is prose
        self._runs = [0] * (_CYCLE + 1)  # for each cycle length, how many units in a row equal the one that far back

    def feed(self, text: str) -> str:
        if not text:
            return ""
        before = len(self._last)
        probe = self._last + text
        at = before
        for match in _END.finditer(probe):
            found = self._read(probe[at : match.end()]) or self._end_unit(prose=probe[match.end() - 1] != "\n")
            at = match.end()
            if found:
                return found
        self._last = probe[-1]
        return self._read(probe[at:])

    def _read(self, piece: str) -> str:
        while self._size + len(piece) >= _UNIT_MOST:
            room = _UNIT_MOST - self._size
            self._pieces.append(piece[:room])
            piece = piece[room:]
            if found := self._end_unit(prose=True):
                return found
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
        return ""

    def _end_unit(self, *, prose: bool) -> str:
        unit = "".join(self._pieces).strip()
        self._pieces.clear()
        self._size = 0
        if not unit:
            return ""
        units = self._units
        units.append((unit, prose))
        for cycle in range(1, _CYCLE + 1):
            same = len(units) > cycle and units[-1 - cycle][0] == unit
            self._runs[cycle] = self._runs[cycle] + 1 if same else 0
            if self._runs[cycle] >= cycle * _ROUNDS_PROSE and self._runs[cycle] >= cycle * self._rounds(cycle):
                return " ".join(one for one, _ in list(units)[-cycle:])
        return ""

    def _rounds(self, cycle: int) -> int:
        recent = [self._units[-1 - back] for back in range(cycle)]
        runs_on = all(prose for _, prose in recent) and sum(len(unit) for unit, _ in recent) >= _LONG
        return _ROUNDS_PROSE if runs_on else _ROUNDS_LINES
