"""What the runtime's own notes say, read back: for scripted models, which have no language to read them with.

`prompts` and `drafting` write these sentences; a test reads each of them back. Nothing else is understood.
"""

import msgspec
from msgspec import Struct

_CUT = "Your call of "
_ASKS = "the letter as reading"
_WHOLE = "is kept whole"
_ENDS_WITH = ("ends with:\n", "end with:\n")
_ID_BETWEEN = (('draft="', '"'), ("draft `", "`"), ("the draft ", " has "), ("The draft ", " has "))
_HELD = ("arrived whole and run together", ": ")


class DraftNote(Struct, frozen=True):
    """What a note says of a draft: how many characters are kept, and their end where it is shown.
    `is_whole`: its text is complete and something else is missing. `asks`: the runtime wants to know how a
    rest belongs to it. `grew`: a piece of a rest was kept, and the next one is wanted."""

    id: str
    count: int = 0
    tail: str = ""
    is_whole: bool = False
    asks: bool = False
    grew: bool = False


def draft_note(text: str) -> DraftNote | None:
    """The draft that a note or a result of `finish_call` speaks of; None if it speaks of none."""
    if "finish_call" not in text and "Not joined" not in text:
        return None
    name = next((found for before, after in _ID_BETWEEN if (found := _between(text, before, after))), "")
    if not name:
        return None
    if _ASKS in text:
        return DraftNote(name, asks=True)
    return DraftNote(name, _count(text), _tail(text), _WHOLE in text, grew=text.startswith("Kept: "))


def times_cut(text: str) -> int:
    """How often in a row a call was cut of which nothing is kept, as a note says it; 0 if it says no such
    thing."""
    if _CUT not in text or draft_note(text) is not None:
        return 0
    times = _between(text, " was cut again (", " times")
    return int(times) if times else int(" was cut on its way" in text)


def held_calls(text: str) -> str:
    """The calls that a note says need not be made again, in its own words."""
    about, _, behind = text.partition(_HELD[0])
    return behind.partition(_HELD[1])[2].partition("\n")[0] if about != text else ""


def _between(text: str, before: str, after: str) -> str:
    parts = text.partition(before)[2].partition(after)
    return parts[0] if parts[1] else ""


def _count(text: str) -> int:
    for before in (" the first ", " has ", "` ("):
        number = _between(text, before, " characters").replace(",", "")
        if number.isdigit():
            return int(number)
    return 0


def _tail(text: str) -> str:
    line = next((text.partition(words)[2].partition("\n")[0] for words in _ENDS_WITH if words in text), "")
    try:
        return msgspec.json.decode(line, type=str) if line else ""
    except msgspec.DecodeError:
        return ""
