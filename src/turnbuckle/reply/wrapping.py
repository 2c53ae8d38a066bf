"""What models put around a continuation although nobody asked for it: a code fence, a preface, marks.

None of it can be told for sure from text that begins in such a way, so whoever finds it needs a proof, or
asks.
"""

import json
import re
from collections.abc import Iterator

from msgspec import Struct

from turnbuckle.reply.overlap import overlaps

_FENCE = re.compile(r"[ \t\r\n]*(?P<ticks>`{3,}|~{3,})(?P<kind>[\w+#.-]*)[ \t]*\r?\n")
_CLOSING = re.compile(r"(?:`{3,}|~{3,})[ \t\r\n]*\Z")
_HALF_CLOSING = re.compile(r"\n?[`~]*[ \t\r\n]*\Z")
_LINE_OF_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE)
_OPENING = (
    r"sure|certainly|of course|okay|ok|alright|great|got "
    r"it|understood|absolutely|yes|continu\w+|resum\w+|going on|"
    r"picking up|here(?: is|'s|\u2019s| are| comes| goes)|the "
    r"(?:rest|remaining|continuation|following)|rest of|"
    r"(?:i'll|i\u2019ll|i will|let me|i'm|i am) (?:continu|go on|resum|pick)\w*|apologies|sorry|my apologies|"
    r"\[runtime\]|\[continu\w*\]"
)
_PREFACE = re.compile(
    rf"[ \t\r\n]*(?:\*\*)?(?-i:(?=[A-Z\[]))(?:{_OPENING})(?!\w)[^\n:`]{{0,100}}?"
    r"(?::(?:\*\*)?[ \t]*(?:\r?\n)*|\.{3}[ \t]*(?:\r?\n)+|\u2026[ \t]*(?:\r?\n)+|[.!]?[ \t]*\r?\n(?:\r?\n)+)",
    re.IGNORECASE,
)
_BEGUN = re.compile(rf"(?:\*\*)?(?:{_OPENING})(?!\w)")
_WORDS_OF_OPENING = (
    *(
        "sure",
        "certainly",
        "of course",
        "okay",
        "alright",
        "great",
        "got it",
        "understood",
        "absolutely",
        "yes",
    ),
    *(
        "continuing",
        "continuation",
        "resuming",
        "going on",
        "picking up",
        "here is",
        "here's",
        "here\u2019s",
        "here are",
    ),
    *(
        "the rest",
        "the remaining",
        "the continuation",
        "the following",
        "rest of",
        "i'll continue",
        "i will continue",
    ),
    *("let me continue", "apologies", "sorry", "my apologies", "[runtime]", "[continu"),
)
_LONGEST_PREFACE = 120
_MARKS = re.compile(r"[ \t\r\n]*(?:<<<|>>>)")
_ELLIPSIS = re.compile(r"(?:\.{3}|\u2026) ?")
_SURE = 8  # characters behind an ellipsis that make it one
_QUOTES = ('"', "'", "`", "\u201c", "\u201d")


class Wrapping(Struct, frozen=True):
    """The first `skip` and the last characters look like no part of the text; `what` they look like. `ends`
    are the counts of last characters that may be meant: a fence is closed on a line of its own, and whether
    the line break before it belongs to the text nobody knows."""

    skip: int
    what: str
    ends: tuple[int, ...] = (0,)


def wrapping(text: str, rest: str, *, cut: bool = False) -> Wrapping | None:
    """What seems to be put around `rest`, which goes on behind `text`. One that was cut may end in a part of
    it."""
    head = rest[:400]
    preface = _PREFACE.match(head)
    skip = preface.end() if preface is not None else 0
    fence = _FENCE.match(rest, skip, skip + 100)
    if fence is not None and (preface is not None or _is_around(text, rest, fence)):
        return Wrapping(fence.end(), "a code fence", _ends(rest, fence.end(), cut=cut))
    if preface is not None:
        return Wrapping(skip, "words about itself")
    if (marks := _MARKS.match(head)) is not None:
        return Wrapping(marks.end(), "a mark")
    dots = _ELLIPSIS.match(head)
    if dots is not None and max(overlaps(text, rest[dots.end() :]), default=0) >= _SURE:
        return Wrapping(dots.end(), "an ellipsis")
    return None


def may_become_wrapping(rest: str) -> bool:
    """Whether a `rest` that was cut is so short that it may be the beginning of something around it."""
    head = rest.lstrip()
    if len(rest) > _LONGEST_PREFACE or "\n" in head:
        return False
    if any(
        one.startswith(head) or head.startswith(one) for one in ("```", "~~~", "<<<", ">>>", "...", "\u2026")
    ):
        return True
    if not head[:1].isupper() and head[:1] != "[":
        return not head
    return (
        any(one.startswith(head.lower()) for one in _WORDS_OF_OPENING)
        or _BEGUN.match(head.lower()) is not None
    )


def _ends(rest: str, start: int, *, cut: bool) -> tuple[int, ...]:
    if cut:
        half = _HALF_CLOSING.search(rest, max(start, len(rest) - 40))
        return (len(rest) - half.start() if half is not None else 0,)
    closing = _CLOSING.search(rest, max(start, len(rest) - 40))
    if closing is None:
        return (0,)
    end = len(rest) - closing.start()
    return (end, end + 1) if rest[closing.start() - 1] == "\n" else (end,)


def _is_around(text: str, rest: str, fence: re.Match[str]) -> bool:
    """A fence that the text has open may be closed by the first line; one with a language, or with another
    fence at the very end, stands around the rest."""
    is_open = len(_LINE_OF_FENCE.findall(text)) % 2 == 1
    return (
        not is_open
        or bool(fence["kind"])
        or _CLOSING.search(rest, max(fence.end(), len(rest) - 40)) is not None
    )


def unmarked(after: str) -> Iterator[str]:
    """An anchor as it came, and as it may have been meant: without marks or quotes, or with its escapes
    read."""
    yield after
    bare = after
    for mark in ("<<<", *_QUOTES):
        bare = bare.removeprefix(mark)
    for mark in (">>>", *_QUOTES):
        bare = bare.removesuffix(mark)
    yield bare
    if "\\" in bare:
        try:
            read = json.loads(f'"{bare}"')
        except ValueError:
            return
        yield str(read)
