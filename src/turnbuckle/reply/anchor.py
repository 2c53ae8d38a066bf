"""The words that a model repeats first when it goes on in text that was cut.

A continuation that begins with them is proved: both sides mean the same place, and they are taken out again.
The choice must make sure that a model which goes straight on, without repeating anything, cannot be taken
for one that repeats. It would be, if the text itself said the same words again right behind the cut. So the
anchor

- begins in the middle of a line, behind a word, where no row, item or sentence begins that a text would say
  twice;
- has a length that is not a period of the text: the characters before it and before the cut are not the same;
- stands only once in the end of the text and does not end as it begins, so that a model which repeats more
  or less than it can be told apart;
- is short enough to be repeated exactly. It is made longer, up to `LONGEST`, where only that leaves one
  reading: in rows that are all alike it reaches back to the row before them.
"""

from collections.abc import Callable, Iterable, Iterator

from turnbuckle.reply.overlap import WINDOW, has_short_period

LEAST = 16
USUAL = 24
MOST = 72
LONGEST = 600
GLUED = 3
"""Characters from which on a repetition counts."""


def anchor_of(shown: str) -> str:
    """The last words of a shown text that a continuation is to begin with; empty if none would prove
    anything."""
    at = next(_starts(shown), None)
    if at is not None:
        return shown[at:]
    # A beginning of few words: all of them, if what follows could not be glued to them by itself.
    return shown if 3 <= len(shown) <= MOST and shown[-1].isalnum() and not has_short_period(shown) else ""


def _starts(shown: str) -> Iterator[int]:
    """Where an anchor may begin, the best place first."""
    whole = len(shown)
    usual, short, long = (
        range(whole - least, max(whole - most, 0), -1)
        for least, most in ((USUAL, MOST), (LEAST, USUAL), (MOST, LONGEST))
    )
    ways: tuple[tuple[Iterable[int], _Fits], ...] = (
        (usual, _is_behind_a_word),
        (short, _is_behind_a_word),
        ((*short, *usual), _is_inside),
        (long, _is_behind_a_word),
        (long, _is_inside),
    )
    repeated = _longest_repeated_end(shown)
    for places, fits in ways:
        for at in places:
            if whole - at > repeated and fits(shown, at) and not _is_doubtful(shown, at):
                yield at
    # Nothing leaves one reading only.
    for places, fits in ways[:3]:
        yield from (at for at in places if fits(shown, at) and not _may_be_a_period(shown, at))


_Fits = Callable[[str, int], bool]


def _longest_repeated_end(shown: str) -> int:
    """How long the longest end of the text is, up to `LONGEST`, that stands in its last characters twice."""
    window = shown[-WINDOW:]
    least, most = 0, min(LONGEST, len(window))  # an end that stands twice is made of shorter ones that do
    while least < most:
        length = (least + most + 1) // 2
        if window.find(window[-length:]) < len(window) - length:
            least = length
        else:
            most = length - 1
    return least


def _is_doubtful(shown: str, at: int) -> bool:
    return _may_be_a_period(shown, at) or _ends_as_it_begins(shown[at:])


def _is_behind_a_word(shown: str, at: int) -> bool:
    return shown[at - 1] == " " and shown[at - 2 : at - 1].isalnum() and not shown[at].isspace()


def _is_inside(shown: str, at: int) -> bool:
    return shown[at].isalnum() and shown[at - 1] not in "\n\r"


def _ends_as_it_begins(anchor: str) -> bool:
    head = anchor[:GLUED]
    at = anchor.find(head, 1)
    while at > 0:
        if anchor.startswith(anchor[at:]):
            return True
        at = anchor.find(head, at + 1)
    return False


def _may_be_a_period(shown: str, at: int) -> bool:
    """Whether a text that repeats itself could go on behind the cut with just these words."""
    return shown[at - 1] == shown[-1] or has_short_period(shown[at:])
