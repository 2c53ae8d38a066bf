"""What every pass works with: the history, what may be touched in it, which result belongs to which call.

A pass is a pure function from a history to a history and notes. It leaves the first `sealed` messages alone,
and run on its own output it changes nothing and notes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.vocab.history_rules import HistoryRules
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

    rules: HistoryRules
    model: str = ""
    sealed: int = 0
    quirks: Quirks = Quirks()
    to_ask: bool = False
    tools: frozenset[str] = frozenset()
    """The names of the tools that are offered with it."""
    used: frozenset[str] = frozenset()
    """Ids of calls further back than what the passes are shown."""


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
    """Which results belong to which call, in order of arrival, and which belong to none. `takers` are the
    calls that a further result of an id would belong to. `turns` says how often the model has begun to speak,
    at each message."""

    results: dict[Seat, list[Seat]]
    orphans: list[Seat]
    takers: dict[str, dict[Seat, None]]
    turns: list[int]

    def in_time(self, call: Seat) -> list[Seat]:
        """The results that came before the model spoke again. Those alone it was asked with, so nothing that
        was sent may depend on the others."""
        return [
            result for result in self.results[call] if self.turns[result.message] == self.turns[call.message]
        ]


def bind(messages: History, terms: Terms) -> Bound:
    """A result belongs to the latest turn before it that made a call of its id; in it, to the first such call
    that has none yet, else to the last one.

    Assistant messages behind each other are one turn, except where they were sent to a provider that does not
    join them. Calls and results in messages of any other role are none."""
    bound = Bound({}, [], {}, _turns(messages))
    turns: dict[str, int] = {}
    free: dict[str, Iterator[Seat]] = {}
    turn = 0
    for index, message in enumerate(messages):
        stands_alone = message.role != "assistant" or (not terms.rules.joins_turns and index < terms.sealed)
        turn += stands_alone
        for place, part in enumerate(message.parts):
            if isinstance(part, CallPart) and message.role == "assistant":
                if turns.get(part.id) != turn:
                    turns[part.id] = turn
                    bound.takers[part.id] = {}
                bound.takers[part.id][Seat(index, place)] = None
                free.pop(part.id, None)
                bound.results[Seat(index, place)] = []
            elif isinstance(part, ResultPart) and message.role == "tool":
                _bind_result(part.call_id, Seat(index, place), bound, free)
        turn += message.role != "assistant"
    return bound


def _turns(messages: History) -> list[int]:
    """How often the model has begun to speak, at each message. Its messages behind each other are one
    turn."""
    counts: list[int] = []
    before = ""
    for message in messages:
        begins = message.role == "assistant" and before != "assistant"
        counts.append((counts[-1] if counts else 0) + begins)
        before = message.role
    return counts


def _bind_result(call_id: str, seat: Seat, bound: Bound, free: dict[str, Iterator[Seat]]) -> None:
    """`free` are the calls of an id that have no result yet, each looked at once."""
    takers = bound.takers.get(call_id)
    if not takers:
        bound.orphans.append(seat)
        return
    if call_id not in free:
        free[call_id] = iter([call for call in takers if not bound.results[call]])
    bound.results[next(free[call_id], next(reversed(takers)))].append(seat)


def call_ids(message: Message) -> list[str]:
    """The ids of the calls in a message, whoever it is from."""
    return [part.id for part in message.parts if isinstance(part, CallPart)]


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


def with_parts(message: Message, parts: Sequence[Part]) -> Message:
    """The message with these parts; itself, if they are its own."""
    is_same = len(parts) == len(message.parts) and all(map(is_, parts, message.parts))
    return message if is_same else replace(message, parts=tuple(parts))


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
