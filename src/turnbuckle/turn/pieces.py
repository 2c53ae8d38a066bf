"""A new call in place of one that was cut: is it the whole, a piece of it, or neither?

A model that was cut may make its call again. Then its text is at least as long as what is kept, and begins
where the file begins. A strong model may also write the text in several calls: the first holds the beginning
of the draft, the others go on behind it, and the draft is settled when all of it was written. What is
shorter, stands somewhere inside the draft, or begins with its end or with our own words, is none of this: it
would put a part in place of the whole. Of a draft that holds nothing but its text nobody knows what it is
about; there a new call simply takes its place.
"""

from typing import Any, Literal

from turnbuckle.reply.draft import TAIL, Draft
from turnbuckle.reply.rest import fault
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.vocab.ids import DraftId

Share = Literal["whole", "piece", "shorter", "tail", "note", "other"]
_TELLING = 8
"""Characters from which on a line says where in a text it stands."""
_MARK = "[Runtime]"
_QUOTES = "\"'`<>… "
WHY: dict[Share, str] = {
    "piece": "it holds only a part of what is kept already",
    "shorter": "it is shorter than what is kept already",
    "tail": "it begins with the end of what is kept, not with its beginning",
    "note": "it begins with words of this runtime",
    "other": "it does not begin like what is kept, or cannot be read as what it is",
}


def share_of(draft: Draft, text: str) -> Share:
    """What a text is beside the draft that it would take the place of."""
    if _MARK in text[:TAIL] and _MARK not in draft.text:
        return "note"
    if text.rstrip() == draft.text.rstrip():
        return "whole"
    if _begins_with_tail(draft.text, text):
        return "tail"
    if len(text) >= len(draft.text):
        return "whole"
    return "piece" if text and draft.text.startswith(text) else "shorter"


def _begins_with_tail(kept: str, text: str) -> bool:
    first, own = _first_line(text), _first_line(kept)
    return bool(first) and first != own and first in kept[-TAIL:]


def _first_line(text: str) -> str:
    """The first line that says something, also of a text that was copied with its quotes and escapes."""
    lines = text.lstrip(_QUOTES).replace("\\n", "\n").split("\n", 3)
    return next((line.strip(_QUOTES) for line in lines if len(line.strip(_QUOTES)) >= _TELLING), "")


def is_about(draft: Draft, arguments: dict[str, Any]) -> bool:
    """Whether a call works on the same thing: it has all that is settled in the draft, and a text like it."""
    return isinstance(arguments.get(draft.argument), str) and all(
        arguments.get(key) == value for key, value in draft.settled.items()
    )


def written(turn: Turn, draft: Draft, tool: str, arguments: dict[str, Any]) -> int:
    """How much of a draft is written once this call has run, in calls behind each other."""
    before = turn.pieces.get(draft.id, 0)
    if not is_about(draft, arguments) or not (draft.settled and (before or tool == draft.tool)):
        return before
    text, left = arguments[draft.argument], draft.text[before:]
    if not before and tool == draft.tool and share_of(draft, text) != "piece":
        return before
    return before + len(text) if text and (left.startswith(text) or text.startswith(left)) else before


def noted(turn: Turn, tool: str, arguments: dict[str, Any]) -> dict[DraftId, int]:
    """The counts behind the start of this call."""
    counts = {draft.id: written(turn, draft, tool, arguments) for draft in turn.drafts.values()}
    return {name: count for name, count in counts.items() if count}


def settles(turn: Turn, draft: Draft, tool: str, arguments: dict[str, Any]) -> bool:
    """Whether this call makes the draft needless: it is the whole, or the last of its pieces."""
    if turn.pieces.get(draft.id) and is_about(draft, arguments):
        return written(turn, draft, tool, arguments) >= len(draft.text)
    if draft.tool != tool or any(arguments.get(key, value) != value for key, value in draft.settled.items()):
        return False
    text = arguments.get(draft.argument)
    return not draft.settled or not isinstance(text, str) or share_of(draft, text) == "whole"


def _is_the_same_file(draft: Draft, text: str) -> bool:
    """A model that is known for slips must begin as it did before, and what it writes must be readable."""
    name = next((value for value in draft.settled.values() if isinstance(value, str) and "." in value), "")
    return _first_line(text) == _first_line(draft.text) and not fault(name, draft.text, text)


def unfit(turn: Turn, call: PendingCall, policy: Policy) -> tuple[Draft, str] | None:
    """The draft whose place this call would take without being the whole, and why it may not. A route that is
    known for models which do not write in pieces may not begin with one either."""
    if call.draft:
        return None  # we made it of the draft ourselves
    careful = turn.ask is not None and policy.route(turn.ask.route).quirks.drafts == "text"
    for draft in turn.drafts.values():
        text = call.arguments.get(draft.argument)
        if draft.tool != call.name or not draft.settled or turn.pieces.get(draft.id):
            continue
        if not is_about(draft, call.arguments):
            continue
        share = share_of(draft, str(text))
        if careful and share == "whole" and not _is_the_same_file(draft, str(text)):
            share = "other"
        if share == "whole" or (share == "piece" and not careful):
            continue
        return draft, WHY[share]
    return None
