"""Is a repeated passage an echo, or the habit of the text?

A model that goes on behind a cut may first repeat what is already there. Removing the repeat is right for an echo
and wrong for text that repeats itself: table rules, equal rows, closing tags. The two look alike, so a repeat is
only taken for an echo when the text has no such habit: the passage stands once in its last characters, and is not
itself made of one smaller piece again and again. In doubt nothing is removed: a doubled line can be seen, a lost
one can not.
"""

WINDOW = 2_000
"""How far back a text is searched."""


def is_habit(text: str, passage: str) -> bool:
    """Whether `passage`, which ends `text`, is something that this text says more than once by itself."""
    passage = passage[-WINDOW:]
    return has_short_period(passage) or occurrences(text[-WINDOW:], passage, 2) > 1


def has_short_period(passage: str) -> bool:
    """Whether the passage is one piece, at most half as long, repeated (the last time perhaps in part)."""
    border = 0  # the longest proper prefix that is also a suffix, of what was read so far
    borders = [0]
    for at in range(1, len(passage)):
        while border and passage[border] != passage[at]:
            border = borders[border - 1]
        if passage[border] == passage[at]:
            border += 1
        borders.append(border)
    return len(passage) > 1 and 2 * (len(passage) - border) <= len(passage)


def occurrences(text: str, passage: str, enough: int) -> int:
    """How often `passage` stands in `text`, overlaps included; counting stops at `enough`."""
    count = 0
    at = text.find(passage)
    while at >= 0 and count < enough:
        count += 1
        at = text.find(passage, at + 1)
    return count
