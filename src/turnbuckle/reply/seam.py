"""Joining a continuation to text that was already shown, as it streams.

What was shown cannot be unshown, and what comes may be any of these:

- `repeated`: it first says the end of the shown text again. The repeat is dropped.
- `restarted`: it says everything from the top again, and goes on. Everything shown is dropped from it.
- `diverged`: it starts again from the top but says something else before it reaches the end. Both versions
  cannot become one text, so the new one is given whole, behind a paragraph break. `how` is known before
  anything of it is given out: who would rather ask again can still do so.
- `clean`: anything else. It is given exactly as it came.

What counts as a repeat. The longest overlap is looked at, and only that one. It needs `SURE` characters and
must be no habit of the text (`overlap`). Shorter ones count in two cases. One: they are all of the shown
text, from `WHOLE` characters on. Two: they begin with a word of the shown text and both sides would be glued
to a word that nobody wrote ("brave and" + "and new", "inter" + "international"). A short repeat behind a
space ("the " + "the end") is kept, since "had had" is as good a reading. A repeat may follow an ellipsis,
which is then dropped with it.

Spaces. Nothing is ever added inside a line: whether "and" + "new" is one word cannot be known. One space is
dropped where two meet between words of plain prose; indents, aligned columns, tables and fenced code stay as
they are.

A top that says the same again and again (equal rows) is not a sign of a restart, so such text is not held for
long.

How it works. Two matchers read the continuation character by character while it is undecided. One compares
with the top, by index alone. The other finds the longest end of the shown text that begins the continuation,
in the way of Knuth, Morris and Pratt: the work is linear, and no more text is kept than the window is long.
When neither can match any more, the choice is made, and from then on every delta passes through untouched.
"""

from typing import Literal

from msgspec import Struct

from turnbuckle.reply.overlap import WINDOW, has_short_period, is_habit

SURE = 12
WHOLE = 6
GLUED = 3
_ELLIPSES = ("…", "… ", "...", "... ")
_LONGEST_ELLIPSIS = 4
_FAR = WINDOW + _LONGEST_ELLIPSIS  # from here on only the top can still match
_RESTART_LEAST = 40
_RESTART_ENOUGH = 200  # or half of what was shown, if that is less

How = Literal["held", "clean", "repeated", "restarted", "diverged", "anchored", "new", "apart"]


class Joined(Struct, frozen=True):
    """A whole continuation, joined. `dropped` characters of it were already there."""

    text: str
    how: How
    dropped: int


def join(shown: str, continuation: str) -> Joined:
    """Join a continuation that is already complete."""
    seam = Seam(shown)
    first = seam.feed(continuation)
    return Joined("".join((shown, first, seam.close())), seam.how, seam.dropped)


class Seam:
    """`feed` deltas, get what is new and may be shown now; `close` once. `how` tells what was found."""

    def __init__(self, shown: str) -> None:
        self.how: How = "held" if shown else "clean"
        self.dropped = 0
        self._shown = shown
        self._no_second_space = _takes_no_second_space(shown)
        self._top = TopMatch(shown)
        self._tails = [_TailMatch(shown, 0)]
        self._held: list[str] = []  # empty again when it can only be the top of the shown text
        self._count = 0

    @property
    def holding(self) -> int:
        """How many characters are held back now."""
        return self._count if self.how == "held" else 0

    @property
    def is_behind_all(self) -> bool:
        """Whether the continuation has said all of the repeat that it began with."""
        return self.how == "repeated" or (self.how == "restarted" and self.dropped >= len(self._shown))

    def feed(self, delta: str) -> str:
        """What may be shown now."""
        if self.how != "held":
            return delta
        read = self._read(delta)
        if self._is_open():
            return ""
        return "".join((self._decide(), delta[read:]))

    def close(self, cut: bool = False) -> str:
        """What is still held. If the continuation was cut as well, a held repeat brought nothing new and is
        dropped; if it ended, what is held is all that the model wanted to say."""
        if self.how != "held":
            return ""
        if cut and self._top.open and self._count >= SURE and not self._top.is_periodic():
            return self._drop("restarted", self._count)
        if cut and any(tail.open and self._is_echo(tail.passage) for tail in self._tails):
            return self._drop("repeated", self._count)
        return self._decide()

    def _read(self, delta: str) -> int:
        """Read until it is decided. Returns how many characters were read."""
        for at, char in enumerate(delta):
            if self._count >= _FAR:
                if self._held and self._top.is_periodic():
                    self._top.open = False
                    return at
                self._held.clear()
                read = self._top.take_many(delta, at)
                self._count += read
                return at + read
            if 0 < self._count <= _LONGEST_ELLIPSIS and "".join(self._held) in _ELLIPSES:
                self._tails.append(_TailMatch(self._shown, self._count))
            self._top.take_many(char, 0)
            for tail in self._tails:
                tail.take(char)
            self._held.append(char)
            self._count += 1
            if not self._is_open():
                return at + 1
        return len(delta)

    def _is_open(self) -> bool:
        if self._top.open or any(tail.open for tail in self._tails):
            return True
        if self._count > _LONGEST_ELLIPSIS:
            return False
        head = "".join(self._held)
        return (head == " " and self._no_second_space) or any(one.startswith(head) for one in _ELLIPSES)

    def _decide(self) -> str:
        whole = len(self._shown)
        if self._top.matched == whole and self._is_repeat(whole):
            return self._drop("restarted", whole)
        for tail in self._tails:
            if not tail.open and self._is_repeat(tail.matched, tail.skip > 0):
                return self._drop(
                    "restarted" if tail.matched == whole else "repeated", tail.skip + tail.matched
                )
        if self._is_restart():
            return "".join((paragraph_break(self._shown), self._drop("diverged", 0)))
        held = self._drop("clean", 0)
        if self._no_second_space and held[:1] == " " and held[1:2].isalpha():
            self.dropped = 1
            return held[1:]
        return held

    def _drop(self, how: How, count: int) -> str:
        """Settle it, and give out what is held but for its first characters."""
        held = "".join(self._held) if self._held else self._shown[: self._count]
        self.how = how
        self.dropped = count
        self._held.clear()
        self._tails.clear()
        return held[count:]

    def _is_restart(self) -> bool:
        """Whether the continuation began from the top for too long to be chance, and then left it."""
        whole, matched = len(self._shown), self._top.matched
        enough = max(_RESTART_LEAST, min(_RESTART_ENOUGH, whole // 2))
        return enough <= matched < whole and not self._top.is_periodic()

    def _is_repeat(self, length: int, behind_ellipsis: bool = False) -> bool:
        passage = self._shown[-length:] if length else ""
        if length >= SURE:
            return not is_habit(self._shown, passage)
        if length < GLUED or has_short_period(passage):
            return False
        if length == len(self._shown) and length >= WHOLE:
            return True
        if behind_ellipsis:
            return False  # nothing is glued there
        before = self._shown[-length - 1 : -length]
        return passage[0].isalpha() and passage[-1].isalpha() and not (before.isalnum() or before == "_")

    def _is_echo(self, passage: str) -> bool:
        return len(passage) >= SURE and not is_habit(self._shown, passage)


class TopMatch:
    """How much of the continuation equals the shown text from its first character on."""

    def __init__(self, shown: str) -> None:
        self.matched = 0
        self.open = bool(shown)
        self._shown = shown

    def is_periodic(self) -> bool:
        """Whether what matched is one piece again and again, which tells nothing about the top."""
        return has_short_period(self._shown[: self.matched][-WINDOW:])

    def take_many(self, delta: str, at: int) -> int:
        """How many characters of `delta` from `at` on still match."""
        if not self.open:
            return 0
        length = min(len(delta) - at, len(self._shown) - self.matched)
        theirs, ours = delta[at : at + length], self._shown[self.matched : self.matched + length]
        if theirs != ours:
            length = next(i for i, pair in enumerate(zip(theirs, ours, strict=True)) if pair[0] != pair[1])
        self.matched += length
        self.open = theirs == ours and self.matched < len(self._shown)
        return length


class _TailMatch:
    """The longest end of the shown text that the continuation begins with, from its character `skip` on.

    While open, `matched` characters (all that were read) stand in the window right before `_at`. Closed,
    `matched` is the overlap: the window ended behind it.
    """

    def __init__(self, shown: str, skip: int) -> None:
        self.skip = skip
        self.matched = 0
        self.open = True
        self._window = shown[-WINDOW:]
        self._at = 0
        self._read: list[str] = []
        self._borders: list[int] = []

    @property
    def passage(self) -> str:
        return "".join(self._read)

    def take(self, char: str) -> None:
        if not self.open:
            return
        self._note(char)
        window, read = self._window, self._read
        while self.matched < len(read) and self._at < len(window):
            if window[self._at] == read[self.matched]:
                self._at += 1
                self.matched += 1
            elif self.matched:
                self.matched = self._borders[self.matched - 1]
            else:
                self._at += 1
        self.open = self._at < len(window)

    def _note(self, char: str) -> None:
        """Keep the table of borders: where to go on in what was read after a mismatch."""
        read, borders = self._read, self._borders
        border = borders[-1] if borders else 0
        while border and read[border] != char:
            border = borders[border - 1]
        if read and read[border] == char:
            border += 1
        read.append(char)
        borders.append(border)


def paragraph_break(shown: str) -> str:
    """What makes a blank line behind a text."""
    return "\n" * max(0, 2 - (len(shown[-2:]) - len(shown[-2:].rstrip("\n"))))


def _takes_no_second_space(shown: str) -> bool:
    """Whether the shown text ends in plain prose with one space, where a second one can only be a slip."""
    if shown[-1:] != " " or not (shown[-2:-1].isalnum() or shown[-2:-1] in tuple(".,;:!?)")):
        return False
    line = shown[shown.rfind("\n") + 1 :]
    aligned = line[0] == " " or any(mark in line for mark in ("  ", "\t", "|"))
    return not aligned and shown.count("```") % 2 == 0
