"""The words that a model repeats first when it goes on in text that was cut.

A continuation that begins with them is proved: both sides mean the same place, and they are taken out again. The choice
must make sure that a model which goes straight on, without repeating anything, can not be taken for one that repeats.
It would be, if the text itself said the same words again right behind the cut. So the anchor

- begins in the middle of a line, behind a word, where no row, item or sentence begins that a text would say twice;
- has a length that is no period of the text: the characters before it and before the cut are not the same;
- does not end as it begins, so that a model which repeats less of it can be told apart, if that is possible;
- is short enough to be repeated exactly, and stands only once in the end of the text if that is possible.
"""

from turnbuckle.reply.overlap import WINDOW, has_short_period

LEAST = 16
USUAL = 24
MOST = 72


def anchor_of(shown: str) -> str:
    """The last words of a shown text that a continuation is to begin with; empty if none would prove anything."""
    starts = range(len(shown) - LEAST, max(len(shown) - MOST, 0), -1)
    good = [at for at in starts if _is_behind_a_word(shown, at) and not _may_be_a_period(shown, at)]
    window = shown[-WINDOW:]
    usual = [at for at in good if len(shown) - at >= USUAL] or good
    once = [at for at in usual if window.find(shown[at:]) == len(window) - (len(shown) - at)] or usual
    at = next((place for place in once if not _ends_as_it_begins(shown[place:])), once[0] if once else None)
    if at is None:
        inside = [place for place in starts if _is_inside(shown, place) and not _may_be_a_period(shown, place)]
        at = next((place for place in inside if not _ends_as_it_begins(shown[place:])), inside[0] if inside else None)
    if at is not None:
        return shown[at:]
    # A beginning of few words: all of them, if what follows could not be glued to them by itself.
    return shown if 3 <= len(shown) <= MOST and shown[-1].isalnum() and not has_short_period(shown) else ""


def _is_behind_a_word(shown: str, at: int) -> bool:
    return shown[at - 1] == " " and shown[at - 2 : at - 1].isalnum() and not shown[at].isspace()


def _is_inside(shown: str, at: int) -> bool:
    return shown[at].isalnum() and shown[at - 1] not in "\n\r"


def _ends_as_it_begins(anchor: str) -> bool:
    return any(anchor.startswith(anchor[-count:]) for count in range(1, len(anchor)))


def _may_be_a_period(shown: str, at: int) -> bool:
    """Whether a text that repeats itself could go on behind the cut with just these words."""
    return shown[at - 1] == shown[-1] or has_short_period(shown[at:])
