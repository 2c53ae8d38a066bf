"""Is a repeated passage an echo, or the habit of the text?

A model that goes on behind a cut may first repeat what is already there. Removing the repeat is right for an
echo and wrong for text that repeats itself: table rules, equal rows, closing tags. The two look alike, so a
repeat is only taken for an echo when the text has no such habit: the passage stands once in its last
characters, and is not itself made of one smaller piece again and again. In doubt nothing is removed: a
doubled line can be seen, a lost one cannot.
"""

WINDOW = 2_000
"""How far back a text is searched."""
_FAR = 20_000
"""How long a repetition may be that is found without being the whole of a text."""
_HEAD = 8
_MOST = 64  # repeats of one text that are told apart


def is_habit(text: str, passage: str) -> bool:
    """Whether `passage`, which ends `text`, is something that this text says more than once by itself."""
    passage = passage[-WINDOW:]
    return has_short_period(passage) or occurrences(text[-WINDOW:], passage, 2) > 1


def has_short_period(passage: str) -> bool:
    """Whether the passage is one piece, at most half as long, repeated (the last time perhaps in part)."""
    # Moved by one such piece, the passage lies on itself, and so does its first half. Only the first place
    # where that half stands again counts: a longer piece is made of the one that ends there (Fine and Wilf).
    half = passage[: len(passage) - len(passage) // 2]
    again = passage.find(half, 1)
    return again > 0 and passage.startswith(passage[again:])


def occurrences(text: str, passage: str, enough: int) -> int:
    """How often `passage` stands in `text`, overlaps included; counting stops at `enough`."""
    count = 0
    at = text.find(passage)
    while at >= 0 and count < enough:
        count += 1
        at = text.find(passage, at + 1)
    return count


def ends_of(text: str, passage: str) -> tuple[int, ...]:
    """Where `passage` ends in the last characters of `text`, the last place first."""
    found = [len(text)] if text.endswith(passage) else []
    start = max(len(text) - WINDOW, 0)
    at = text.rfind(passage, start)
    while at >= 0 and len(found) <= WINDOW:
        if at + len(passage) != len(text):
            found.append(at + len(passage))
        at = text.rfind(passage, start, at + len(passage) - 1)
    return tuple(found)


def overlaps(text: str, rest: str, *, open_end: bool = False) -> list[int]:
    """How many characters of `rest` repeat the end of `text`: every count that is possible, the least first.
    With `open_end` more may follow `rest`, and a `rest` that so far only repeats something further back
    counts whole."""
    found = {
        count for count in range(1, min(_HEAD, len(text) + 1, len(rest) + 1)) if text.endswith(rest[:count])
    }
    head = rest[:_HEAD]
    start = max(len(text) - _FAR, 0)
    at = text.find(head, start) if head and (len(head) == _HEAD or open_end) else -1
    while at >= 0 and len(found) < _MOST:
        if rest.startswith(text[at:]):
            found.add(len(text) - at)
        elif open_end and text.startswith(rest, at):
            found.add(len(rest))
        at = text.find(head, at + 1)
    if start and (rest.startswith(text) or (open_end and text.startswith(rest))):
        found.add(min(len(text), len(rest)))
    return sorted(found)
