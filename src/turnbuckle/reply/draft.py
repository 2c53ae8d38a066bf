"""What a cut call leaves behind: the part of its long text argument that did arrive.

A draft is not a call. Nothing here can run: it becomes arguments again only by a verified join (`splice`),
and then the caller still checks them against the tool's schema. So these things are kept apart:

- `text`: the decoded beginning of the draftable string. An escape that was cut, or the first half of a
  surrogate pair, is not part of it: the model sends that character again, whole.
- `settled`: the other members whose values are known to the end. A number or a word that touches the cut is
  not settled, since `1` may have been the beginning of `10`.
- `closed`: the string itself was complete, and the cut came later. Then no text is missing but members may
  be.
- `lost`: the name, as far as it arrived, of the member that the cut took away behind a closed string. The
  model wanted to say something there, so the draft cannot be finished without it. None when nothing is known
  to be lost.

What else the model would have written is unknown. By finishing the draft it confirms that there was nothing
more; flags whose defaults are not harmless can be guarded (see `splice`), so that silence never stands for
consent.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from turnbuckle.reply.overlap import is_habit
from turnbuckle.vocab.arguments import Member, ObjectScan, scan_object
from turnbuckle.vocab.ids import DraftId

TAIL = 400
"""How much of a draft's end is shown to the model."""
MAX_TEXT = 16 * 1024 * 1024
"""Characters that one draft may hold."""
_KEPT_BACK_FROM = 200
"""A draft of which less arrived is told whole."""
_KEPT_BACK_LEAST = 8
_KEPT_BACK_MOST = 60
_BEGUN = 8
"""Characters from which on the end of a text shows where it is to go on."""

_STRING_SO_FAR = re.compile(r'"((?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+)')
_BLANK = " \t\r\n"


class Reading(Struct, frozen=True):
    """One way to join a rest: the draft's first `kept` characters, then the rest without its first `skip` and
    its last `end` characters."""

    kept: int
    skip: int = 0
    end: int = 0


class DoubtfulRest(Struct, frozen=True):
    """A rest that could be joined in several ways. It is kept until the model has said which one is right;
    then it counts as if it had come with `more` and `also` just now."""

    rest: str
    readings: tuple[Reading, ...]
    more: bool = False
    also: dict[str, Any] = {}


class Draft(Struct, frozen=True):
    """A cut call's long argument, as far as it arrived, and what is known around it. A `doubtful` rest waits
    beside it for an answer."""

    id: DraftId
    tool: str
    argument: str
    text: str
    settled: dict[str, Any] = {}
    closed: bool = False
    lost: str | None = None
    doubtful: DoubtfulRest | None = None


class NoDraft(Struct, frozen=True):
    """Why nothing can be kept. `why` is a plain sentence for the model and the user."""

    kind: Literal["whole", "malformed", "not_begun", "not_text", "too_large"]
    why: str


def draft_of(call_name: str, arguments: str, draftable: str, draft_id: DraftId) -> Draft | NoDraft:
    """The draft that a cut call leaves. `draftable` names the tool's long text argument."""
    scan = scan_object(arguments)
    if scan.status == "whole" and not arguments[scan.at :].strip(_BLANK):
        return NoDraft("whole", f"the arguments of {call_name} are complete")
    if scan.status != "cut":
        return NoDraft("malformed", f"the arguments of {call_name} are not JSON, from character {scan.at} on")
    lost, named = _lost_member(arguments, scan, draftable)
    found = last_member(scan, draftable)
    if found is None or (named and lost == draftable):
        return NoDraft("not_begun", f"the stream broke before {draftable} began")
    if arguments[found.start] != '"':
        return NoDraft("not_text", f"{draftable} is not a text")
    text = string_at(arguments, found)
    settled = _settled_members(arguments, scan, {draftable, lost if named else None})
    if text is None or settled is None:
        return NoDraft("malformed", f"the arguments of {call_name} hold a value that cannot be read")
    if len(text) > MAX_TEXT:
        return NoDraft("too_large", f"{draftable} has more than {MAX_TEXT} characters")
    return Draft(draft_id, call_name, draftable, text, settled, found.end is not None, lost)


def text_argument(arguments: str) -> str:
    """The argument to keep of cut arguments whose tool names none: the text that was being written, so that
    it goes on growing; or the longest, if that text has hardly begun. Empty if there is no text."""
    scan = scan_object(arguments)
    texts = {
        member.key: (member.end or len(arguments)) - member.start
        for member in scan.members
        if arguments[member.start : member.start + 1] == '"'
    }
    last = scan.members[-1] if scan.members else None
    if last is not None and last.end is None and texts.get(last.key, 0) > _BEGUN:
        return last.key
    return max(texts, key=lambda name: texts[name], default="")


def grown(draft: Draft, kept: int, added: str) -> Draft:
    """The draft cut back to its first `kept` characters, with `added` behind them. A journal that holds the
    first draft and these two values per step can build the newest one again. A doubtful rest is settled by
    that."""
    return msgspec.structs.replace(draft, text=draft.text[:kept] + added, doubtful=None)


def told_length(draft: Draft) -> int:
    """How many characters of a draft the model is told of. The last words are kept back, if possible such as
    stand nowhere else: the model brings them again, which proves that both sides mean the same place, and it
    goes on at the beginning of a word. A text that is short, or was received to its end, is told whole."""
    text = draft.text
    if draft.closed or len(text) < _KEPT_BACK_FROM:
        return len(text)
    ends = range(len(text) - _KEPT_BACK_LEAST, len(text) - _KEPT_BACK_MOST, -1)
    words = [at for at in ends if text[at - 1].isspace() and not text[at].isspace()]
    usual = words[0] if words else len(text) - _KEPT_BACK_MOST // 2
    return next((at for at in words if not is_habit(text, text[at:])), usual)


def tail(draft: Draft, n: int = TAIL) -> str:
    """The last characters of a draft, to show to the model."""
    return draft.text[-n:] if n > 0 else ""


def absent(draft: Draft, names: Mapping[str, Any]) -> tuple[str, ...]:
    """Which of a tool's arguments did not arrive, in the tool's own order: what to name in the prompt."""
    return tuple(name for name in names if name != draft.argument and name not in draft.settled)


def last_member(scan: ObjectScan, key: str) -> Member | None:
    """The member of that name. Of several the last one counts, as it does in a whole object."""
    return next((member for member in reversed(scan.members) if member.key == key), None)


def string_at(text: str, member: Member) -> str | None:
    """The string value of a member, as far as it is certain. None if it is not a string that can be kept."""
    match = _STRING_SO_FAR.match(text, member.start)
    return None if match is None else _decoded(match.group(1), may_be_cut=member.end is None)


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8 at all: half a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(body: str, *, may_be_cut: bool) -> str | None:
    decoded: str = json.loads(f'"{body}"')  # reads half a surrogate pair, unlike msgspec
    if may_be_cut and "\ud800" <= decoded[-1:] <= "\udbff":
        decoded = decoded[:-1]
    return decoded if is_encodable(decoded) else None


def _settled_members(text: str, scan: ObjectScan, but: set[str | None]) -> dict[str, Any] | None:
    """The members with whole values. They are read together, as the object that they would have been."""
    ends = [member.end for member in scan.members if member.end is not None]
    if not ends:
        return {}
    try:
        settled: dict[str, Any] = msgspec.json.decode("".join((text[: ends[-1]], "}")))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return {key: value for key, value in settled.items() if key not in but}


def _lost_member(text: str, scan: ObjectScan, draftable: str) -> tuple[str | None, bool]:
    """The name of the last member if the cut took its value, and whether the name is whole."""
    if not scan.members:
        return None, False
    last = scan.members[-1]
    if last.end is None:
        return (None, False) if last.key == draftable else (last.key, True)
    rest = text[last.end :].lstrip(_BLANK)
    if not rest:
        return None, False
    name = _STRING_SO_FAR.match(rest[1:].lstrip(_BLANK))  # behind the comma
    if name is None:
        return "", False
    return _decoded(name.group(1), may_be_cut=True) or "", name.end() < len(name.string)
