"""What every pass works with: the history, what may be touched in it, which result belongs to which call.

A pass is a pure function from a history to a history and notes. It leaves the first `sealed` messages alone, and
run on its own output it changes nothing and notes nothing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct

from turnbuckle.vocab.ids import Protocol
from turnbuckle.vocab.messages import CallPart, Message, Part, ResultPart
from turnbuckle.vocab.quirks import Quirks

History = tuple[Message, ...]


class RepairNote(Struct, frozen=True):
    """One change. `index` counts the messages as the pass found them."""

    pass_name: str
    index: int
    what: str


class Terms(Struct, frozen=True):
    """For whom the history must be legal, and from which message on it may be changed."""

    protocol: Protocol
    model: str = ""
    sealed: int = 0
    quirks: Quirks = Quirks()
    to_ask: bool = False


class Passed(NamedTuple):
    """What a pass made of the history, and what it did as (index, words)."""

    messages: History
    did: list[tuple[int, str]]


Pass = Callable[[History, Terms], Passed]


class Seat(NamedTuple):
    """Where a part stands."""

    message: int
    part: int


class Bound(NamedTuple):
    """Which results belong to which call, in order of arrival, and which belong to none."""

    results: dict[Seat, list[Seat]]
    orphans: list[Seat]


def bind(messages: History) -> Bound:
    """A result belongs to the latest turn before it that made a call of its id; in it, to the first such call
    that has none yet, else to the last one. Assistant messages behind each other are one turn."""
    results: dict[Seat, list[Seat]] = {}
    orphans: list[Seat] = []
    latest: dict[str, tuple[int, list[Seat]]] = {}
    turn = 0
    for index, message in enumerate(messages):
        if message.role != "assistant":
            turn = index + 1
        for place, part in enumerate(message.parts):
            seat = Seat(index, place)
            if isinstance(part, CallPart):
                results[seat] = []
                known_turn, seats = latest.get(part.id, (-1, []))
                if known_turn == turn:
                    seats.append(seat)
                else:
                    latest[part.id] = (turn, [seat])
            elif isinstance(part, ResultPart):
                _, seats = latest.get(part.call_id, (-1, []))
                if not seats:
                    orphans.append(seat)
                    continue
                owner = next((call for call in seats if not results[call]), seats[-1])
                results[owner].append(seat)
    return Bound(results, orphans)


def call_at(messages: History, seat: Seat) -> CallPart:
    """The call that stands there."""
    part = messages[seat.message].parts[seat.part]
    assert isinstance(part, CallPart)
    return part


def result_at(messages: History, seat: Seat) -> ResultPart:
    """The result that stands there."""
    part = messages[seat.message].parts[seat.part]
    assert isinstance(part, ResultPart)
    return part


def open_messages(messages: History, terms: Terms) -> Iterator[tuple[int, Message]]:
    """The messages that may be touched, with their numbers."""
    return ((index, messages[index]) for index in range(terms.sealed, len(messages)))


def with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    """The same message with other parts."""
    return Message(message.role, parts, note=message.note, partial=message.partial)


def without_seats(messages: History, gone: set[Seat]) -> History:
    """The history without some parts, and without the messages that this leaves empty."""
    touched = {seat.message for seat in gone}
    kept: list[Message] = []
    for index, message in enumerate(messages):
        if index not in touched:
            kept.append(message)
            continue
        parts = tuple(part for place, part in enumerate(message.parts) if Seat(index, place) not in gone)
        if parts:
            kept.append(with_parts(message, parts))
    return tuple(kept)
