"""Finishing a draft: the model's next piece is joined to it, and the joint is proved or asked about.

The model sends `finish_call(draft, after, rest, more, also)`. `after` repeats the end of what it was shown,
so that both sides mean the same place. A join is made only where one reading is left:

- `after` ends the draft, and `rest` does not begin with what ends the draft: then `rest` is taken exactly as
  it is.
- `after` stands further back, and `rest` begins with exactly what follows it there: `SURE_REPEAT` characters
  or more that are not a habit of the text. Nothing that was received is thrown away.
- The note kept the draft's last words back (`told_length`), `after` ends where the note ended, and `rest`
  brings those words again. That proves the place, and shows where a repetition, a code fence or a preface in
  front of them ends. A `rest` that brings other words takes their place: nobody was shown the old ones.

Everything else that could be right is a question (`SpliceRefused` with `readings`): a repetition at the joint
looks like a text that repeats itself, a fence around the rest like a fence that was meant. The rest is kept
beside the draft (`DoubtfulRest`), and the model answers with a letter (`choose`); nothing is generated again.
What cannot be right is refused, with the true end of the draft to show. Marks and quotes around `after` are
taken off where it fits only without them.

`more` keeps the draft open. Without it the arguments are built, and then nothing may be missing that matters:
the member that the cut took away (`Draft.lost`) and every `guarded` one must have arrived or stand in `also`.
What did arrive is never changed by `also`. A text that the model had closed takes no `rest`.

Values in `also` count only in the piece that finishes the draft.

A `finish_call` that is itself cut extends the draft by as much of its `rest` as is certain, by the same
rules. It never finishes the draft, nor makes it shorter.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from turnbuckle.reply.draft import (
    MAX_TEXT,
    DoubtfulRest,
    Draft,
    Reading,
    grown,
    is_encodable,
    last_member,
    string_at,
    tail,
)
from turnbuckle.reply.overlap import ends_of, is_habit, overlaps
from turnbuckle.reply.wrapping import may_become_wrapping, unmarked, wrapping
from turnbuckle.vocab.arguments import scan_object

SURE = 8
"""Characters of `after` from which on it proves a place."""
SURE_REPEAT = 20
"""Characters that `rest` must repeat, exactly, to prove a place further back."""
_NEAR = 80
"""How far in front of the draft's end `after` may stop and still be meant as its end."""
_MOST_READINGS = 5

RefusalKind = Literal[
    "no_anchor",  # `after` is empty, or was not received
    "wrong_anchor",  # it is not the draft's end
    "unsure_anchor",  # it fits, but could mean another place
    "doubtful",  # there are several readings: the model is asked which one is right
    "closed",  # the text was complete already
    "missing",  # members that must be given were not
    "conflict",  # `also` says something else than what arrived
    "other_draft",
    "nothing_new",  # a cut piece that holds nothing certain
    "malformed",
    "too_large",
]


class SpliceRefused(Struct, frozen=True):
    """The join was not made and the draft is as it was. `true_tail` is what to show to the model. With
    `readings` it is a question: `doubtful` is the rest, to be kept until the model has said which of them is
    right."""

    kind: RefusalKind
    why: str
    true_tail: str
    missing: tuple[str, ...] = ()
    doubtful: DoubtfulRest | None = None

    @property
    def readings(self) -> tuple[Reading, ...]:
        return self.doubtful.readings if self.doubtful is not None else ()


class Extended(Struct, frozen=True):
    """The draft grew and stays open. `kept` and `added` are the whole change (see `grown`). The first
    `echoed` characters of the rest were there already, or were no part of the text."""

    draft: Draft
    kept: int
    added: str
    echoed: int = 0


class Spliced(Struct, frozen=True):
    """The whole arguments, also as strict JSON, ready for the schema check. `echoed` as in `Extended`."""

    arguments: dict[str, Any]
    arguments_text: str
    kept: int
    added: str
    echoed: int = 0


class _Doubt(Struct, frozen=True):
    why: str
    readings: tuple[Reading, ...]


def splice(
    draft: Draft,
    after: str,
    rest: str,
    more: bool,
    also: Mapping[str, Any] | None = None,
    guarded: Collection[str] = (),
    *,
    told: int | None = None,
) -> Spliced | Extended | SpliceRefused:
    """Join a whole `finish_call` to its draft. `guarded` names arguments whose default must not be assumed.
    `told` is how much of the draft the model was told of, if that was not all."""
    if draft.closed and (rest or more):
        return _refuse(
            draft, "closed", f"{draft.argument} was received to its end: send an empty rest and more=false"
        )
    if not is_encodable(rest):
        return _refuse(draft, "malformed", "rest holds half a surrogate pair")
    found = _judge(draft, after, rest, told, cut=False)
    if isinstance(found, _Doubt):
        doubtful = DoubtfulRest(rest, found.readings, more, dict(also or {}))
        return SpliceRefused("doubtful", found.why, tail(draft), (), doubtful)
    return found if isinstance(found, SpliceRefused) else _made(draft, rest, found, more, also or {}, guarded)


def choose(
    draft: Draft, reading: str, also: Mapping[str, Any] | None = None, guarded: Collection[str] = ()
) -> Spliced | Extended | SpliceRefused:
    """Join the rest that is kept beside the draft, in the reading that the model chose by its letter."""
    doubtful = draft.doubtful
    if doubtful is None:
        return _refuse(draft, "malformed", "no question about this draft is open: send after and rest")
    letters = letters_of(doubtful)
    place = letters.find(reading.strip().lower()) if len(reading.strip()) == 1 else -1
    if place < 0:
        return SpliceRefused("doubtful", f"reading is one of {', '.join(letters)}", tail(draft), (), doubtful)
    chosen = doubtful.readings[place]
    return _made(draft, doubtful.rest, chosen, doubtful.more, {**doubtful.also, **(also or {})}, guarded)


def letters_of(doubtful: DoubtfulRest) -> str:
    """The letters by which the model chooses, one for each reading."""
    return "abcdefgh"[: len(doubtful.readings)]


def extend_by_cut(
    draft: Draft, finish_arguments: str, *, told: int | None = None
) -> Extended | SpliceRefused:
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
        return _refuse(
            draft, "no_anchor", "the stream broke before `after` was complete, so nothing can be verified"
        )
    after_text = string_at(finish_arguments, after)
    rest_text = None if rest is None else string_at(finish_arguments, rest)
    if after_text is None or rest_text is None:
        return _refuse(draft, "nothing_new", "no readable piece of `rest` was received")
    if draft.closed:
        return _refuse(draft, "closed", f"{draft.argument} was received to its end")
    found = _judge(draft, after_text, rest_text, told, cut=rest is not None and rest.end is None)
    if isinstance(found, _Doubt):
        if not rest_text:
            return _refuse(draft, "nothing_new", "nothing of `rest` was received")
        return SpliceRefused(
            "doubtful", found.why, tail(draft), (), DoubtfulRest(rest_text, found.readings, True)
        )
    if isinstance(found, SpliceRefused):
        return found
    joined = _joined(draft, rest_text, found)
    if isinstance(joined, Extended) and len(joined.draft.text) <= len(draft.text):
        return _refuse(draft, "nothing_new", "the piece holds nothing that the draft does not have")
    return joined


# Where the rest belongs


def _judge(
    draft: Draft, after: str, rest: str, told: int | None, *, cut: bool
) -> Reading | _Doubt | SpliceRefused:
    text = draft.text
    if not after:
        if text:
            return _refuse(draft, "no_anchor", "after is empty: repeat the last characters of the draft")
        return _behind(text, rest, cut=cut)
    after = next((one for one in unmarked(after) if ends_of(text, one)), after)
    places = ends_of(text, after)
    if not places:
        return _refuse(
            draft, "wrong_anchor", "after does not occur at the end of the draft: repeat it exactly"
        )
    if len(after) < SURE and after != text and (len(places) > 1 or places[0] != len(text)):
        return _refuse(
            draft, "unsure_anchor", "after fits more than one place: repeat more of the draft's end"
        )
    if len(text) in places:
        found = _behind(text, rest, cut=cut)
        if told in places[1:] and isinstance(found, _Doubt) and rest.startswith(text[told:]):
            brought_again = Reading(len(text), len(text) - told)  # what the model was asked for
            return _Doubt(found.why, tuple(dict.fromkeys((brought_again, *found.readings)))[:_MOST_READINGS])
        return found
    if told is not None and told in places:
        return _behind_told(text, told, rest, cut=cut)
    return _behind_earlier(draft, places, rest, told, cut=cut)


def _behind(text: str, rest: str, *, cut: bool) -> Reading | _Doubt:
    """`after` is the end of the text, so only the beginning of `rest` can be in doubt."""
    whole = len(text)
    repeats = overlaps(text, rest, open_end=cut)
    found = wrapping(text, rest, cut=cut)
    if cut and found is None and may_become_wrapping(rest):
        return Reading(whole, len(rest))
    if not repeats and found is None:
        return Reading(whole)
    readings = [Reading(whole), *(Reading(whole, count) for count in _few(repeats))]
    why = "rest begins with what the draft ends with, and that may be a repetition or meant"
    if found is not None:
        again = overlaps(text, rest[found.skip :], open_end=cut)
        readings += [
            Reading(whole, found.skip + count, end) for count in (0, *again[-1:]) for end in found.ends
        ]
        why = f"rest begins with {found.what}, and that may be meant or not"
    return _Doubt(why, tuple(dict.fromkeys(readings))[:_MOST_READINGS])


def _behind_told(text: str, told: int, rest: str, *, cut: bool) -> Reading | _Doubt:
    """`after` is the end of what the model was told of. It does not know the last words of the draft, and
    brings them again, perhaps behind something that is not part of the text; or it goes on in other words."""
    kept_back, whole = text[told:], len(text)
    found = wrapping(text[:told], rest, cut=cut)
    skip = found.skip if found is not None else 0
    at = rest.find(kept_back, 0, skip + told + len(kept_back))
    before = rest[skip:at]
    if at == 0 or (at >= skip and text.endswith("".join((before, kept_back)))):
        skip = at + len(kept_back)
        longer = [count for count in overlaps(text, rest, open_end=cut) if count > skip]
        proved = [Reading(whole, skip, end) for end in (found.ends if found is not None and at else (0,))]
        readings = (*proved, *(Reading(whole, count) for count in _few(longer)))
        if len(readings) == 1:
            return readings[0]
        why = "rest may repeat more than it had to" if longer else "rest stands in a code fence"
        return _Doubt(why, readings[:_MOST_READINGS])
    if cut and kept_back.startswith(rest):
        return Reading(whole, len(rest))
    doubt = _behind(text[:told], rest, cut=cut)
    if at > 0 and isinstance(doubt, Reading):
        return _Doubt("the draft goes on further on in rest", (doubt, Reading(whole, at + len(kept_back))))
    return doubt


def _behind_earlier(
    draft: Draft, places: Collection[int], rest: str, told: int | None, *, cut: bool
) -> Reading | _Doubt | SpliceRefused:
    """`after` stands further back. What follows it there is kept: `rest` must bring it again, or it is asked
    about."""
    text, whole = draft.text, len(draft.text)
    if cut and any(text.startswith(rest, place) for place in places):
        return Reading(whole, len(rest))
    fits = [place for place in places if rest.startswith(text[place:])]
    if len(fits) == 1:
        proved = Reading(whole, whole - fits[0])
        # In a text that repeats itself, what stands before both places is the same, too.
        is_sure = (
            proved.skip >= SURE_REPEAT
            and text[fits[0] - 1] != text[-1]
            and not is_habit(text, text[fits[0] :])
        )
        if is_sure and max(overlaps(text, rest)) == proved.skip:
            return proved
    if fits:
        repeats = [Reading(whole, whole - place) for place in fits]
        return _Doubt(
            "after is not the end of the draft, and rest begins with what stands behind it there, which "
            "may be a "
            "repetition or meant",
            tuple(dict.fromkeys((*repeats[:3], Reading(whole))))[:_MOST_READINGS],
        )
    nearest, shown = max(places), whole if told is None else told
    if 0 <= shown - nearest <= _NEAR:
        brought = _behind_told(text, shown, rest, cut=cut) if shown < whole else None
        if isinstance(brought, Reading) and brought.kept == whole:
            return brought  # the words that were kept back prove the place
        readings = (Reading(shown), Reading(whole), Reading(nearest))
        return _Doubt(
            "after is not the end of the draft, and rest does not begin with what stands behind it there",
            tuple(dict.fromkeys(readings)),
        )
    return _refuse(
        draft, "wrong_anchor", "after is not the end of the draft: repeat the last characters exactly"
    )


def _few(counts: list[int]) -> list[int]:
    """The likeliest of many repeats: the shortest and the longest ones."""
    return counts if len(counts) <= 3 else [counts[0], *counts[-2:]]


# Making the arguments


def _made(
    draft: Draft, rest: str, reading: Reading, more: bool, also: Mapping[str, Any], guarded: Collection[str]
) -> Spliced | Extended | SpliceRefused:
    joined = _joined(draft, rest, reading)
    if isinstance(joined, SpliceRefused) or more:
        return joined
    faults = _member_faults(draft, also, guarded)
    if faults is not None:
        return faults
    arguments = {**also, **draft.settled, draft.argument: joined.draft.text}
    try:
        text = msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError) as error:
        return _refuse(draft, "malformed", f"the arguments cannot be written as JSON: {error}")
    return Spliced(arguments, text, joined.kept, joined.added, joined.echoed)


def _joined(draft: Draft, rest: str, reading: Reading) -> Extended | SpliceRefused:
    added = rest[reading.skip : len(rest) - reading.end]
    if reading.kept + len(added) > MAX_TEXT:
        return _refuse(draft, "too_large", f"{draft.argument} would have more than {MAX_TEXT} characters")
    return Extended(grown(draft, reading.kept, added), reading.kept, added, reading.skip)


def _member_faults(draft: Draft, also: Mapping[str, Any], guarded: Collection[str]) -> SpliceRefused | None:
    changed = tuple(
        name
        for name, value in also.items()
        if name == draft.argument or draft.settled.get(name, value) != value
    )
    if changed:
        return _refuse(
            draft, "conflict", f"already received, and cannot be changed: {', '.join(changed)}", changed
        )
    missing = tuple(sorted(set(guarded) - set(draft.settled) - set(also) - {draft.argument}))
    if missing:
        why = f"lost in the cut, and without a safe default: {', '.join(missing)}; send them in also"
        return _refuse(draft, "missing", why, missing)
    if draft.lost is not None and not any(name.startswith(draft.lost) for name in also):
        what = f"beginning with {draft.lost!r} " if draft.lost else ""
        return _refuse(draft, "missing", f"an argument {what}was cut off: send it in also", (draft.lost,))
    return None


def _refuse(draft: Draft, kind: RefusalKind, why: str, missing: tuple[str, ...] = ()) -> SpliceRefused:
    return SpliceRefused(kind, why, tail(draft), missing)
