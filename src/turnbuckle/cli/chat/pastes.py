"""Long pastes, folded: the line shows `[pasted 120 lines]`, and what is sent is all of it.

A sign stands for one text, and for nothing else. If a sign was edited, nobody knows what is meant: the line
is refused instead of losing what was pasted.
"""

import re

FOLDED_LINES = 8
"""So many lines, and a paste is folded: fewer can be read and edited in place."""
FOLDED_CHARACTERS = 1_000
MOST = 20
"""Pastes that are remembered; the oldest goes first."""
_SIGN = re.compile(r"\[pasted [\d,]+ \w+")
CHANGED = "a paste was edited in its folded form; delete it (Backspace after it) and paste it again"


class FoldedPastes:
    """Pastes by their signs."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """What stands in the line for a paste: a sign if it is long, else itself."""
        lines = len(text.removesuffix("\n").split("\n"))
        if lines < FOLDED_LINES and len(text) < FOLDED_CHARACTERS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        sign, number = f"[pasted {size}]", 1
        while self._kept.get(sign, text) != text:
            number += 1
            sign = f"[pasted {size} #{number}]"
        self._kept.pop(sign, None)
        self._kept[sign] = text
        while len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]
        return sign

    def unfolded(self, line: str) -> str | None:
        """The line with every paste in its place; None if a sign was edited."""
        if not self._kept:
            return line
        known = re.compile("|".join(map(re.escape, self._kept)))
        if _SIGN.search(known.sub("", line)):
            return None
        return known.sub(lambda sign: self._kept[sign[0]], line)

    def folded(self, text: str) -> str:
        """What was sent, as it stood in the line."""
        for sign, whole in self._kept.items():
            text = text.replace(whole, sign)
        return text

    def sign_before(self, text: str) -> str:
        """The sign at the end of a text, if there is one."""
        return next((sign for sign in self._kept if text.endswith(sign)), "")
