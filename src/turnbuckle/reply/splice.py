"""Finishing a draft: the model's next piece is joined to it, and the joint is verified.

The model sends `finish_call(draft, after, rest, more, also)`. `after` repeats the end of the draft and proves that both
sides mean the same place:

- It equals the last characters of the draft, and has at least `SURE` characters, or is all of the draft, or stands
  only once in the draft's last 2,000 characters. Then `rest` goes behind the draft.
- Or it stands elsewhere in those 2,000 characters, exactly once, with at least `SURE` characters. Then the draft is cut
  back to there first. A shorter one is too little proof for throwing text away.
- An empty `after` fits only an empty draft. Everything else is refused, with the true end of the draft to show.

`rest` may begin by echoing what is already there. The echo is removed only if it is exact, holds all of `after`, has at
least `ECHO` characters and is no habit of the text (`overlap`); shorter repeats such as a blank line or a list
mark are as likely meant. Two equal passages of that length on both sides of a cut would be taken for an
echo: a long `after` makes that all but impossible, since the echo must hold the whole of it.

`more` keeps the draft open. Without it the arguments are built, and then nothing may be missing that matters: the
member that the cut took away (`Draft.lost`) and every `guarded` one must have arrived or stand in `also`. What did
arrive is never changed by `also`. A text that the model had closed takes no `rest`.

Values in `also` count only in the piece that finishes the draft.

A `finish_call` that is itself cut extends the draft by as much of its `rest` as is certain. It never finishes the
draft, nor makes it shorter: a piece that goes back and was cut before it caught up is dropped.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from turnbuckle.reply.draft import MAX_TEXT, TAIL, Draft, grown, is_encodable, last_member, string_at, tail
from turnbuckle.reply.overlap import WINDOW, is_habit, occurrences
from turnbuckle.vocab.arguments import scan_object

SURE = 8
ECHO = 20

RefusalKind = Literal[
    "no_anchor",  # `after` is empty, or was not received
    "wrong_anchor",  # it is not in the draft's last characters
    "unsure_anchor",  # it fits, but could mean another place
    "closed",  # the text was complete already
    "missing",  # members that must be given were not
    "conflict",  # `also` says something else than what arrived
    "other_draft",
    "nothing_new",  # a cut piece that holds nothing certain
    "malformed",
    "too_large",
]


class Refused(Struct, frozen=True):
    """The join was not made and the draft is as it was. `true_tail` is what to show to the model."""

    kind: RefusalKind
    why: str
    true_tail: str
    missing: tuple[str, ...] = ()


class Extended(Struct, frozen=True):
    """The draft grew and stays open. `kept` and `added` are the whole change (see `grown`)."""

    draft: Draft
    kept: int
    added: str
    echoed: int = 0


class Spliced(Struct, frozen=True):
    """The whole arguments, also as strict JSON, ready for the schema check. `echoed` characters were removed."""

    arguments: dict[str, Any]
    arguments_text: str
    kept: int
    added: str
    echoed: int = 0


def splice(
    draft: Draft,
    after: str,
    rest: str,
    more: bool,
    also: Mapping[str, Any] | None = None,
    guarded: Collection[str] = (),
) -> Spliced | Extended | Refused:
    """Join a whole `finish_call` to its draft. `guarded` names arguments whose default must not be assumed."""
    if draft.closed and (rest or more):
        return _refuse(draft, "closed", f"{draft.argument} was received to its end: send an empty rest and more=false")
    joined = _joined(draft, after, rest, cut=False)
    if isinstance(joined, Refused) or more:
        return joined
    faults = _member_faults(draft, also or {}, guarded)
    if faults is not None:
        return faults
    arguments = {**(also or {}), **draft.settled, draft.argument: joined.draft.text}
    try:
        text = msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError) as error:
        return _refuse(draft, "malformed", f"the arguments can not be written as JSON: {error}")
    return Spliced(arguments, text, joined.kept, joined.added, joined.echoed)


def extend_by_cut(draft: Draft, finish_arguments: str) -> Extended | Refused:
    """Extend a draft by a `finish_call` whose own arguments were cut."""
    scan = scan_object(finish_arguments)
    if scan.status != "cut":
        why = "the arguments of finish_call are complete" if scan.status == "whole" else "they are not JSON"
        return _refuse(draft, "malformed", why)
    named, after, rest = (last_member(scan, key) for key in ("draft", "after", "rest"))
    named_text = string_at(finish_arguments, named) if named is not None and named.end is not None else None
    if named_text != draft.id:
        return _refuse(draft, "other_draft", f"the piece does not name the draft {draft.id}")
    if after is None or after.end is None:
        return _refuse(draft, "no_anchor", "the stream broke before `after` was complete, so nothing can be verified")
    after_text = string_at(finish_arguments, after)
    rest_text = None if rest is None else string_at(finish_arguments, rest)
    if after_text is None or rest_text is None:
        return _refuse(draft, "nothing_new", "no readable piece of `rest` was received")
    if draft.closed:
        return _refuse(draft, "closed", f"{draft.argument} was received to its end")
    joined = _joined(draft, after_text, rest_text, cut=rest is not None and rest.end is None)
    if isinstance(joined, Extended) and len(joined.draft.text) <= len(draft.text):
        return _refuse(draft, "nothing_new", "the piece holds nothing that the draft does not have")
    return joined


def _joined(draft: Draft, after: str, rest: str, *, cut: bool) -> Extended | Refused:
    kept = _anchored_at(draft, after)
    if isinstance(kept, Refused):
        return kept
    if not is_encodable(rest):
        return _refuse(draft, "malformed", "rest holds half a surrogate pair")
    text = draft.text[:kept]
    if cut and _may_be_echo(text, after, rest):
        return Extended(draft, len(draft.text), "")
    echoed = _echo(text, after, rest)
    added = rest[echoed:]
    if kept + len(added) > MAX_TEXT:
        return _refuse(draft, "too_large", f"{draft.argument} would have more than {MAX_TEXT} characters")
    return Extended(grown(draft, kept, added), kept, added, echoed)


def _anchored_at(draft: Draft, after: str) -> int | Refused:
    """How many characters of the draft stand before the joint."""
    text = draft.text
    if not after:
        return _refuse(draft, "no_anchor", "after is empty: repeat the last characters of the draft") if text else 0
    window = text[-WINDOW:]
    at_end = text.endswith(after)
    if at_end and (len(after) >= SURE or len(after) == len(text)):
        return len(text)
    count = occurrences(window, after, 2)
    if not count:
        return _refuse(draft, "wrong_anchor", "after does not occur at the end of the draft: repeat it exactly")
    if count > 1:
        return _refuse(draft, "unsure_anchor", "after fits more than one place: repeat more of the draft's end")
    if at_end:
        return len(text)
    if len(after) < SURE:
        return _refuse(draft, "unsure_anchor", "after is short and not the draft's end: repeat more of the end")
    return len(text) - len(window) + window.find(after) + len(after)


def _echo(text: str, after: str, rest: str) -> int:
    """How many characters at the beginning of `rest` only repeat the end of `text`."""
    least = max(ECHO, len(after))
    lengths = [len(text)] if len(text) >= least else []
    found = rest.rfind(after, 0, max(WINDOW, least)) if after else -1
    while found >= 0:
        if found + len(after) >= least:
            lengths.append(found + len(after))
        found = rest.rfind(after, 0, found + len(after) - 1)
    for length in lengths:  # the longest first
        if text.endswith(rest[:length]) and len(rest) >= length:
            return 0 if is_habit(text, rest[:length]) else length
    return 0


def _may_be_echo(text: str, after: str, rest: str) -> bool:
    """Whether an open `rest` is so far the beginning of an echo: of `after`, of the shown tail, or of everything.
    It is not taken then; if it was meant, little is lost, and a doubled passage would never be found again."""
    least = max(ECHO, len(after))
    passages = (text[-length:] for length in (len(after), TAIL, len(text)) if least <= length <= len(text))
    return any(len(rest) < len(one) and one.startswith(rest) and not is_habit(text, one) for one in passages)


def _member_faults(draft: Draft, also: Mapping[str, Any], guarded: Collection[str]) -> Refused | None:
    changed = tuple(
        name for name, value in also.items() if name == draft.argument or draft.settled.get(name, value) != value
    )
    if changed:
        return _refuse(draft, "conflict", f"already received, and can not be changed: {', '.join(changed)}", changed)
    missing = tuple(sorted(set(guarded) - set(draft.settled) - set(also) - {draft.argument}))
    if missing:
        why = f"lost in the cut, and without a safe default: {', '.join(missing)}; send them in also"
        return _refuse(draft, "missing", why, missing)
    if draft.lost is not None and not any(name.startswith(draft.lost) for name in also):
        what = f"beginning with {draft.lost!r} " if draft.lost else ""
        return _refuse(draft, "missing", f"an argument {what}was cut off: send it in also", (draft.lost,))
    return None


def _refuse(draft: Draft, kind: RefusalKind, why: str, missing: tuple[str, ...] = ()) -> Refused:
    return Refused(kind, why, tail(draft), missing)
