"""What is said to a session, what comes of it, and the rules by which that goes."""

from datetime import tzinfo
from typing import Any

from msgspec import DecodeError, Struct

from turnbuckle.journal.port import Damaged, FormatUnknown, JournalError, TooLarge
from turnbuckle.session.facts import Busy
from turnbuckle.session.reset import ResetRule, Surface
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.request import Wishes


class LaneClosed(Exception):
    """The lane gave its claim back a moment ago; open it again."""


class Said(Struct, frozen=True):
    """A message as it comes in. `again`: it was said under the same key before, or may have been."""

    messages: tuple[Message, ...]
    busy: Busy | None = None
    wishes: Wishes = Wishes()
    asked: dict[str, Any] = {}
    first: tuple[Message, ...] = ()
    anew: bool = False
    run: RunId | None = None
    again: bool = False


class Taken(Struct, frozen=True):
    """A message that was stored. `after` is where its answer begins in the run's stream: behind what is there already,
    if it entered a run that was under way."""

    id: str
    run: RunId
    at: float
    after: int = 0


class Stopped(Struct, frozen=True):
    """What a stop found: the run that it ended, and the messages that will not be answered."""

    run: RunId | None = None
    refused: tuple[str, ...] = ()


_ANEW = "/new begins a new conversation"


def refusal(error: Exception) -> str:
    """Why a message can not be answered, for people."""
    match error:
        case TooLarge():
            return f"this conversation has become too large to be stored ({error.size / 1e6:.0f} MB); {_ANEW}"
        case Damaged() | FormatUnknown() | DecodeError():
            what = "what was said before in this conversation can not be read"
            return f"{what}: {error}; {_ANEW}, and turnbuckle doctor tells what is damaged"
        case JournalError():
            return f"the journal does not take it: {error}"
        case _:
            return "something went wrong in the server, again and again; its log tells more"


class LaneRules(Struct, frozen=True):
    """The settings of every session."""

    busy: Busy = "queue"
    reset: ResetRule = ResetRule()
    zone: tzinfo | None = None
    opening: tuple[Message, ...] = ()
    quiet: tuple[Surface, ...] = ()
    """Where users are not told of a fresh start that somebody wanted. The model always is."""
