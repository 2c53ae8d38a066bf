"""What the turn wants done next. Whoever drives it performs these and brings back facts."""

from typing import Any

from msgspec import Struct

from turnbuckle.turn.facts import ApprovalAsked, DraftClosed, Fact
from turnbuckle.turn.state import Ask


class CallModel(Struct, frozen=True):
    """Wait as asked, write `ModelAsked`, then call."""

    ask: Ask
    attempt: int


class RunTool(Struct, frozen=True):
    """Write `ToolStarted`, and only then run it. `closing` are the drafts that this call settles, in the same
    write. `seen` are marks of the file that may be changed: as a person has seen it, or as other calls of
    this reply left it. None: nobody was asked."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    key: str
    closing: tuple[DraftClosed, ...] = ()
    seen: tuple[str, ...] | None = None


class SettleTool(Struct, frozen=True):
    """The call was started by a process that is gone. Run it again if its tool allows that, ask its probe, or
    say that nobody knows. Not `again`: it may be what ended that process, and is not run again whatever its
    tool allows."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    key: str
    again: bool = True
    seen: tuple[str, ...] | None = None


class AskPerson(Struct, frozen=True):
    """Write this question down, unless the call could not run anyway: then say so, and trouble nobody."""

    asked: ApprovalAsked


class AwaitAnswer(Struct, frozen=True):
    """A person has been asked. Wait until the answer is stored, or until it is too late for one."""

    approval: str
    until: float | None


class Record(Struct, frozen=True):
    """Write these facts, all or none, and take them in."""

    facts: tuple[Fact, ...]


Command = CallModel | RunTool | SettleTool | AskPerson | AwaitAnswer | Record
