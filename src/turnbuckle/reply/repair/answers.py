"""Passes that pair calls and results.

In the end each turn with calls is followed by one tool message with one result per call, in the order of the
calls. A result that came late is moved to its place while nothing of that was sent. Once sent, the place is
taken (perhaps by a stand-in), and providers bind what they made later to it: then the late result is told as
a note instead. That it was sent is known where it is sealed, and where the model has spoken again: it was
asked with what stood before.
"""

from collections.abc import Iterator
from typing import NamedTuple

from turnbuckle.reply.repair.history import (
    History,
    Passed,
    Seat,
    Terms,
    bind,
    call_at,
    open_messages,
    result_at,
    without_seats,
)
from turnbuckle.reply.stand_in import CUT_CALL, NO_RESULT, is_stand_in, stand_in
from turnbuckle.vocab.messages import CallPart, Message, Part, ResultPart, TextPart

_BOUNDARY = -1
"""The home of results whose calls were sent already: directly behind the sealed part."""


def orphan_results(messages: History, terms: Terms) -> Passed:
    """Drop results that no call before them asked for."""
    gone = {seat for seat in bind(messages, terms).orphans if seat.message >= terms.sealed}
    did = [
        (
            seat.message,
            f"dropped a result of {result_at(messages, seat).call_id or '(no id)'}: nothing called for it",
        )
        for seat in sorted(gone)
    ]
    return Passed(without_seats(messages, gone) if gone else messages, did)


class _Plan(NamedTuple):
    """What goes where: results by the message that they stand behind, told ones by where they came."""

    homes: dict[int, list[ResultPart]]
    told: dict[int, list[Message]]
    did: list[tuple[int, str]]


def answers(messages: History, terms: Terms) -> Passed:
    """Every call gets one result, directly behind its turn."""
    plan = _plan(messages, terms)
    out = list(messages[: terms.sealed])
    out += _tool_message(messages, _BOUNDARY, terms.sealed, plan)
    for index, message in open_messages(messages, terms):
        if message.role == "tool":
            out += plan.told.get(index, ())
        else:
            out.append(message)
            out += _tool_message(messages, index, index + 1, plan)
    return Passed(tuple(out), plan.did)


def _plan(messages: History, terms: Terms) -> _Plan:
    plan = _Plan({}, {}, [])
    answerable = _first_answerable(messages, terms)
    bound = bind(messages, terms)
    for seat, results in bound.results.items():
        call = call_at(messages, seat)
        sent = [result for result in results if result.message < terms.sealed]
        movable = results[len(sent) :]
        if seat.message >= terms.sealed:
            unknown = CUT_CALL if messages[seat.message].partial else NO_RESULT
            early = bound.in_time(seat)
            _settle(messages, call, _Home(seat.message, seat.message + 1, unknown), early, plan)
            _tell(messages, call, plan.homes[seat.message][-1:], movable[len(early) :], plan)
        elif not sent and seat.message >= answerable and seat in bound.takers[call.id]:
            _settle(messages, call, _Home(_BOUNDARY, terms.sealed, NO_RESULT), movable, plan)
        else:
            known = [result_at(messages, result) for result in sent]
            _tell(messages, call, known, movable, plan)
    return plan


def _first_answerable(messages: History, terms: Terms) -> int:
    """From which message on a result at the boundary is a legal answer to a call in the sealed part."""
    if terms.rules.results == "anywhere":
        return 0  # an output may stand anywhere behind its call
    first = terms.sealed
    while first and messages[first - 1].role == "tool":
        first -= 1
    while first and messages[first - 1].role == "assistant":
        first -= 1
        if not terms.rules.joins_turns:
            break
    return first


class _Home(NamedTuple):
    """Where the results of a turn belong: by which key, from which message on, and what to say if there are
    none."""

    key: int
    behind: int
    unknown: str


def _settle(messages: History, call: CallPart, home: _Home, results: list[Seat], plan: _Plan) -> None:
    """Choose the one result of a call: the first that is a tool's own word, else the first, else a
    stand-in."""
    place = plan.homes.setdefault(home.key, [])
    if not results:
        place.append(stand_in(call.id, home.unknown))
        plan.did.append((home.behind - 1, f"answered the call {call.id}: it had no result"))
        return
    chosen = next((seat for seat in results if not is_stand_in(result_at(messages, seat))), results[0])
    place.append(result_at(messages, chosen))
    if any(messages[index].role != "tool" for index in range(home.behind, chosen.message)):
        plan.did.append((chosen.message, f"moved the result of {call.id} behind its call"))
    for seat in results:
        if seat != chosen:
            plan.did.append((seat.message, f"dropped a result of {call.id}: it has another"))


def _tell(messages: History, call: CallPart, known: list[ResultPart], late: list[Seat], plan: _Plan) -> None:
    """The place was sent already: what a late result says is told, unless it is known or says nothing."""
    for seat in late:
        result = result_at(messages, seat)
        if is_stand_in(result) or any(_says_same(result, other) for other in known):
            plan.did.append((seat.message, f"dropped a result of {call.id}: it says nothing new"))
            continue
        how = "failed" if result.failed else "worked"
        words = TextPart(f"A late result of the earlier call {call.id} to {call.name}, which {how}:")
        plan.told.setdefault(seat.message, []).append(Message("user", (words, *_told(result)), note=True))
        plan.did.append((seat.message, f"told the late result of {call.id} as a note"))


def _told(result: ResultPart) -> Iterator[Part]:
    """The content of a result as parts of a message: texts bare, and none that are blank."""
    for piece in result.content:
        if not isinstance(piece, TextPart):
            yield piece
        elif piece.text.strip():
            yield TextPart(piece.text)


def _says_same(one: ResultPart, other: ResultPart) -> bool:
    return one.content == other.content and one.failed == other.failed


def _tool_message(messages: History, home: int, behind: int, plan: _Plan) -> list[Message]:
    """The one tool message of a turn; the one that stands there if it is right already."""
    parts = tuple(plan.homes.get(home, ()))
    if not parts:
        return []
    end = behind
    while end < len(messages) and messages[end].role == "tool":
        end += 1
    present = messages[behind:end]
    if len(present) == 1 and present[0].parts == parts:
        return [present[0]]
    flat = [part for message in present for part in message.parts]
    if sorted(map(id, flat)) == sorted(map(id, parts)):
        plan.did.append((behind, "put the results of a turn into one message, in the order of the calls"))
    return [Message("tool", parts)]
