"""The calls of a reply that was cut. All of them are kept, and none starts before the reply was made whole.

A cut reply may hold several calls: some arrived whole, some did not. The whole ones are held as they are, the
others as drafts, or by name alone where nothing of them can be kept. The model is asked only for what is
missing. When the last of it has come, all start together, in the order of the first reply, from the message
that made them whole: nothing that was sent before is edited. A call that is made again meanwhile is the same
call, or takes its place.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.reply.own_ids import fresh_id
from turnbuckle.turn.facts import HeldCall
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.messages import CallPart, Message
from turnbuckle.vocab.reply import ReplyCall
from turnbuckle.vocab.tooling import FINISH_CALL

_LONGEST_NAME = 80


def arrived_whole(call: ReplyCall) -> bool:
    """Whether all of a call arrived, in a reply that did not. Empty arguments may only not have begun."""
    if call.arguments.strip() in ("", "null", "{}"):
        return call.closed
    return judge(call.arguments).status == "whole"


def arguments_of(call: HeldCall) -> dict[str, Any]:
    return judge(call.arguments).value or {}


class Placed(Struct, frozen=True):
    """The calls that are held, and the one among them that was put there."""

    held: tuple[HeldCall, ...]
    one: HeldCall


def put(held: tuple[HeldCall, ...], call: HeldCall, beside: Sequence[HeldCall] = ()) -> Placed:
    """The calls with this one in its place: that of an equal one, of one of the same tool that was asked for
    again, or behind all others. Those `beside` it came with it, and are other calls."""
    for at, place in enumerate(held):
        if any(place is other for other in beside) or not _stands_for(call, place):
            continue
        return Placed(held, place) if place.is_whole else Placed((*held[:at], call, *held[at + 1 :]), call)
    return Placed((*held, call), call)


def _stands_for(call: HeldCall, one: HeldCall) -> bool:
    if call.draft and call.draft == one.draft:
        return True
    if call.name != one.name or one.draft:
        return False
    return not one.is_whole or (call.is_whole and arguments_of(one) == arguments_of(call))


def fill(held: tuple[HeldCall, ...], draft: DraftId, call: HeldCall) -> tuple[HeldCall, ...]:
    """The calls with this whole one in place of its draft, or behind all others."""
    if not any(place.draft == draft for place in held):
        return (*held, call)
    return tuple(call if place.draft == draft else place for place in held)


class Together(Struct, frozen=True):
    """What starts together: all calls in their order, and those of them that the last reply does not hold
    itself."""

    calls: tuple[PendingCall, ...]
    added: tuple[PendingCall, ...]


def together(turn: Turn, made: tuple[PendingCall, ...], finished: dict[str, DraftId]) -> Together | None:
    """The calls of a whole reply with those that were held. None if the cut reply is not whole by them: a
    draft of it is open still. `finished` tells of the reply's calls which draft each makes whole."""
    left = list(made)
    calls: list[PendingCall] = []
    added: list[PendingCall] = []
    taken = {part.id for message in turn.messages for part in message.parts if isinstance(part, CallPart)}
    taken |= {call.id for call in made}
    equal = _equal_ones(turn.held, left)
    for at, place in enumerate(turn.held):
        match = equal.get(at) or next((call for call in left if _takes_place(place, call, finished)), None)
        if match is not None:
            calls.append(match)
            left = [call for call in left if call is not match]
        elif place.draft in turn.drafts:
            return None
        elif place.is_whole:
            call = PendingCall(fresh_id(place.id, taken), place.name, arguments_of(place))
            taken.add(call.id)
            calls.append(call)
            added.append(call)
    if not calls or all(call.name == FINISH_CALL and call.id not in finished for call in made):
        return None
    return Together((*calls, *left), tuple(added))


def _equal_ones(held: tuple[HeldCall, ...], left: list[PendingCall]) -> dict[int, PendingCall]:
    """The calls that were made again although they were held, by their places. They are taken from `left`."""
    equal: dict[int, PendingCall] = {}
    for at, place in enumerate(held):
        same = (call for call in left if (call.name, call.arguments) == (place.name, arguments_of(place)))
        if place.is_whole and (call := next(same, None)) is not None:
            equal[at] = call
            left.remove(call)
    return equal


def _takes_place(one: HeldCall, call: PendingCall, finished: dict[str, DraftId]) -> bool:
    if one.draft:
        return finished.get(call.id) == one.draft
    return not one.is_whole and call.name == one.name and call.id not in finished


def with_calls(message: Message, added: Iterable[PendingCall], held: tuple[HeldCall, ...]) -> Message:
    """The message with calls behind its own parts, which stay as they are. Arguments are told as they
    arrived."""
    received = [(place.name, arguments_of(place), place.arguments) for place in held if place.is_whole]
    parts = []
    for call in added:
        text = next(
            (raw for name, given, raw in received if (name, given) == (call.name, call.arguments)), ""
        )
        parts.append(CallPart(call.id, call.name, text or msgspec.json.encode(call.arguments).decode()))
    return replace(message, parts=(*message.parts, *parts))


def names(turn: Turn, policy: Policy) -> tuple[str, ...]:
    """The whole calls that are held, each by its tool and by what it is about."""
    return tuple(named(place.name, arguments_of(place), policy) for place in turn.held if place.is_whole)


def named(tool: str, arguments: dict[str, Any], policy: Policy) -> str:
    """A call in a few words."""
    subject = arguments.get(policy.tool(tool).subject)
    if not isinstance(subject, str):
        texts = [
            value for value in arguments.values() if isinstance(value, str) and len(value) <= _LONGEST_NAME
        ]
        subject = texts[0] if texts else ""
    words = " ".join(subject.split())
    return f"{tool} {words[:_LONGEST_NAME]}".rstrip()
