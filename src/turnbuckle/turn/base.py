"""What a run stands on: its own messages and those of its base make the history that its model is sent."""

from msgspec import Struct

from turnbuckle.turn.compaction import Compaction, Measure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message

Messages = tuple[Message, ...]


class Base(Struct, frozen=True):
    """The history before a run, as it is told, and what is known of that."""

    messages: Messages = ()
    compaction: Compaction | None = None
    measure: Measure | None = None
    words_only: tuple[tuple[RouteName, str], ...] = ()


NO_BASE = Base()


def joined(base: Messages, own: Messages, opening: int | None) -> Messages:
    """The history of whoever stands on `base` and adds `own`. The first `opening` of its messages take the
    place of the instructions that the base begins with; if that is unset, these stay."""
    if opening is None:
        return (*base, *own) if base else own
    return (*own[:opening], *without_opening(base), *own[opening:])


def opening_of(messages: Messages) -> Messages:
    """The instructions in front of a history."""
    return messages[: _instructions(messages)]


def without_opening(messages: Messages) -> Messages:
    """A history without the instructions in front of it."""
    return messages[_instructions(messages) :]


def _instructions(messages: Messages) -> int:
    return next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
