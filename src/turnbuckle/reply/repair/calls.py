"""Passes over calls: each has an id of its own, a name, and arguments that are a JSON object."""

import hashlib
import re

from msgspec.structs import replace

from turnbuckle.reply.repair.history import (
    History,
    Passed,
    Seat,
    Terms,
    bind,
    call_at,
    call_ids,
    open_messages,
    with_parts,
    without_seats,
)
from turnbuckle.reply.stand_in import (
    BAD_ARGUMENTS,
    legal_arguments,
    stand_in,
    state_once_changed,
    takes_free_text,
)
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.messages import CallPart, Message, Part, ResultPart

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_STEM = 30
_LONGEST_NAME = 64
_DIGEST = 6


def unique_ids(messages: History, terms: Terms) -> Passed:
    """Give a new id to calls whose id is empty, was used before, or is not allowed; their results follow.

    Some hosts count from `call_0` in each round, and ids of one provider may break the rules of another."""
    did: list[tuple[int, str]] = []
    bound = bind(messages, terms)
    sent = messages[: terms.sealed]
    seen = set(terms.used).union(*map(call_ids, sent))
    namer = _Namer(seen)
    renamed: dict[Seat, str] = {}
    for seat, results in bound.results.items():
        call = call_at(messages, seat)
        if seat.message < terms.sealed:
            continue
        if call.id not in seen and terms.rules.takes_call_id(call.id, terms.quirks):
            seen.add(call.id)
            continue
        # The other calls of the reply came together with it; what comes later must not matter.
        beside = set(call_ids(messages[seat.message]))
        fresh = namer.fresh(call.id, beside)
        seen.add(fresh)
        did.append((seat.message, f"renamed the call {call.id or '(no id)'} to {fresh}"))
        renamed |= dict.fromkeys((seat, *results), fresh)
    if not renamed:
        return Passed(messages, did)
    touched = {seat.message for seat in renamed}
    out = [
        _renamed(message, index, renamed, terms.rules) if index in touched else message
        for index, message in enumerate(messages)
    ]
    return Passed(tuple(out), did)


def nameless_calls(messages: History, terms: Terms) -> Passed:
    """Drop calls without a name, and what claims to be their result: no provider takes them back."""
    did: list[tuple[int, str]] = []
    gone: set[Seat] = set()
    for seat, results in bind(messages, terms).results.items():
        call = call_at(messages, seat)
        if seat.message < terms.sealed or call.name.strip():
            continue
        did.append((seat.message, f"dropped the call {call.id}: it has no name"))
        did += [
            (result.message, f"dropped a result of {call.id}: its call has no name") for result in results
        ]
        gone |= {seat, *results}
    return Passed(without_seats(messages, gone) if gone else messages, did)


def legal_names(messages: History, terms: Terms) -> Passed:
    """Spell names of tools that nobody has so that the provider takes them. Models invent names, and one of
    them in the history would have every later request refused.

    A name that is offered stays, since the provider has taken it. Any other gets a digest of what it was, so
    it always becomes the same one and is never that of a tool."""
    did: list[tuple[int, str]] = []
    out = list(messages[: terms.sealed])
    spelling = terms.rules.tool_names
    for index, message in open_messages(messages, terms):
        parts: list[Part] = []
        for part in message.parts:
            if not isinstance(part, CallPart) or part.name in terms.tools or spelling.takes(part.name):
                parts.append(part)
                continue
            name = legal_name(part.name, terms.rules)
            did.append((index, f"spelled the name of the call {part.id} as {name}"))
            parts.append(CallPart(part.id, name, part.arguments, state_once_changed(part, terms.rules)))
        out.append(with_parts(message, parts))
    return Passed(tuple(out), did)


def legal_name(name: str, rules: HistoryRules) -> str:
    """A name that is legal by these rules in place of one that they do not."""
    most = rules.tool_names.most or _LONGEST_NAME
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    stem = _NOT_PLAIN.sub("_", name.strip())[: most - len(digest) - 2].strip("_-") or "tool"
    stem = stem if stem[0].isalpha() else f"_{stem}"
    return f"{stem}_{digest}"


def half_calls(messages: History, terms: Terms) -> Passed:
    """Drop unfinished calls of cut replies. One that somebody answered stays: its arguments are mended
    next."""
    did: list[tuple[int, str]] = []
    gone: set[Seat] = set()
    bound = bind(messages, terms)
    for seat in bound.results:
        if seat.message < terms.sealed or bound.in_time(seat) or not messages[seat.message].partial:
            continue
        call = call_at(messages, seat)
        # Free text cannot be told whole from half, so in a cut reply it counts as half.
        free = takes_free_text(call, terms.rules)
        if free or not call.arguments.strip() or judge(call.arguments).status != "whole":
            did.append((seat.message, f"dropped the half call {call.id} of a cut reply"))
            gone.add(seat)
    return Passed(without_seats(messages, gone) if gone else messages, did)


def legal_call_arguments(messages: History, terms: Terms) -> Passed:
    """Arguments that are not a JSON object become one that shows what was received. Such a call failed, so
    it gets a failed result unless somebody answered it."""
    did: list[tuple[int, str]] = []
    bound = bind(messages, terms)
    out = list(messages[: terms.sealed])
    for index, message in open_messages(messages, terms):
        parts: list[Part] = []
        failed: list[Part] = []
        for place, part in enumerate(message.parts):
            if not isinstance(part, CallPart) or takes_free_text(part, terms.rules):
                parts.append(part)
                continue
            mended = legal_arguments(part.arguments)
            if mended == part.arguments:
                parts.append(part)
                continue
            did.append((index, f"made the arguments of {part.id} a JSON object"))
            parts.append(CallPart(part.id, part.name, mended, state_once_changed(part, terms.rules)))
            if mended != "{}" and not bound.in_time(Seat(index, place)):
                failed.append(stand_in(part.id, BAD_ARGUMENTS))
        out.append(with_parts(message, parts))
        if failed:
            out.append(Message("tool", tuple(failed)))
    return Passed(tuple(out), did)


class _Namer:
    """New ids that no earlier call has, the same ones for the same history. They never depend on what comes
    later: a request that is longer begins with the same words."""

    def __init__(self, used: set[str]) -> None:
        self._used = used
        self._counts: dict[str, int] = {}

    def fresh(self, old: str, beside: set[str]) -> str:
        stem = _NOT_PLAIN.sub("_", old.strip())[:_LONGEST_STEM] or "call"
        count = self._counts.get(stem, 1)
        while f"{stem}_{count}" in self._used:
            count += 1
        self._counts[stem] = count
        while (name := f"{stem}_{count}") in self._used or name in beside:
            count += 1
        return name


def _renamed(message: Message, index: int, names: dict[Seat, str], rules: HistoryRules) -> Message:
    parts: list[Part] = []
    for place, part in enumerate(message.parts):
        name = names.get(Seat(index, place))
        if name is not None and isinstance(part, CallPart):
            parts.append(CallPart(name, part.name, part.arguments, state_once_changed(part, rules)))
        elif name is not None and isinstance(part, ResultPart):
            parts.append(replace(part, call_id=name))
        else:
            parts.append(part)
    return with_parts(message, tuple(parts))
