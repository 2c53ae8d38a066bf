"""What happens in a run, for a program that embeds it: a small closed union, told from the facts of the
journal.

Nothing is told that is not stored. The same facts always give the same events, so whoever comes back with the
cursor of the last event that it took in gets exactly those behind it. A cursor is the number of an item in
the journal, and which of the item's events it was if more of them follow.
"""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import CursorGone
from turnbuckle.journal.port import Item
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.told import (
    Notice,
    QuestionAnswered,
    QuestionAsked,
    Reasoning,
    RunBegun,
    RunOver,
    Text,
    Told,
    ToolBegun,
    ToolEnded,
    ToolPrinted,
    Waiting,
)
from turnbuckle.turn.facts import RunEnded, Streamed, decode
from turnbuckle.vocab.ids import RunId

Event = (
    RunBegun
    | Text
    | Reasoning
    | ToolBegun
    | ToolPrinted
    | ToolEnded
    | Notice
    | Waiting
    | QuestionAsked
    | QuestionAnswered
    | RunOver
)
"""What of a run concerns a program. It is told `Waiting` only where a model is waited for, or the time of the
next try: the rest follows from the other events."""
_WAITS = ("provider_first_token", "rate_limit", "retry")


class Cursor(Struct, frozen=True):
    """Behind an item; behind one of its events if `part` says which."""

    seq: int = 0
    part: int | None = None

    @property
    def read_after(self) -> int:
        """Where reading begins: an item of which only a part was told is read again."""
        return self.seq if self.part is None else self.seq - 1


def read_cursor(written: str | int) -> Cursor:
    """A cursor from its text. Raises ValueError."""
    seq, _, part = str(written or "0").partition(".")
    if not seq.isdecimal() or (part and not part.isdecimal()):
        raise ValueError(
            f"{written!r} is not a cursor; it is the `cursor` of an event, or a number of the journal"
        )
    return Cursor(int(seq), int(part) if part else None)


class EventRenderer:
    """Items of one run to events, from a cursor on. Those before the cursor are only folded, so that what
    comes behind it is told as it would have been. Constant work for each item."""

    def __init__(self, run: RunId, after: Cursor) -> None:
        self._run = run
        self._after = after
        self._narration = Narration(run)
        self._waits = Waiting()
        self.over = False

    def take(self, item: Item) -> list[Event]:
        """The events of an item. Raises CursorGone."""
        fact, after = decode(item.data), self._after
        self.over = self.over or isinstance(fact, RunEnded)
        behind = item.seq + (after.part is not None)  # a part of it may have been told
        skips = item.seq <= after.read_after
        if isinstance(fact, Streamed) and not skips and item.seq - fact.merged < after.seq < behind:
            raise CursorGone(
                f"events of the run {self._run} around {after.seq} were merged; follow it from the start"
            )
        if text := self._narration.going_on(fact):
            return [] if skips or item.seq == after.seq else [Text(text, cursor=str(item.seq), at=fact.at)]
        events = self._events(self._narration.take(fact))
        if skips:
            return []
        last = len(events) - 1
        numbered = [
            replace(event, cursor=str(item.seq) if place == last else f"{item.seq}.{place}", at=fact.at)
            for place, event in enumerate(events)
        ]
        if item.seq == after.seq and after.part is not None:
            return numbered[after.part + 1 :]
        return numbered

    def _events(self, told: list[Told]) -> list[Event]:
        """Those for programs; neighbours of one kind are one event."""
        events: list[Event] = []
        for event in told:
            if isinstance(event, ToolEnded) and event.joins:
                continue  # how the rest of a call was sent; what the whole call did comes behind it
            if isinstance(event, Waiting):
                if event.kind not in _WAITS or event == self._waits:
                    continue
                self._waits = event
            last = events[-1] if events else None
            if isinstance(event, Text | Reasoning) and isinstance(last, type(event)):
                events[-1] = replace(last, text=f"{last.text}{event.text}")
            elif isinstance(event, Event):
                events.append(event)
        return events
