"""Where a chat finds its sessions: in this process, or in a server. One port for both, in plain values.

What happens in a run is told by its facts, as the journal has them, each with its number. So a chat that lost its
connection goes on behind the last number that it has seen, and nothing is shown twice. `Lost` means that nobody knows
whether what was asked has happened; a message carries a key, and saying it again under the same key is the same
message. `Refused` is an answer, and its text is a sentence for the user.
"""

from collections.abc import AsyncGenerator, Collection
from typing import Literal, Protocol

from msgspec import Struct

from turnbuckle.errors import TurnbuckleError
from turnbuckle.session.facts import Busy
from turnbuckle.turn.facts import Fact
from turnbuckle.turn.ledger import Waste

Verb = Literal["stop", "new", "reset", "undo", "retry"]
Decision = Literal["allow", "deny", "answer"]
Numbered = tuple[int, Fact]


class Lost(TurnbuckleError):
    """The place can not be reached at this moment."""


class Refused(TurnbuckleError):
    """The place says no."""


class Merged(TurnbuckleError):
    """Events of this run were merged since the last one was seen: it must be read again from its beginning."""


class SessionLine(Struct, frozen=True):
    """A session in a list."""

    session: str
    title: str
    updated: float
    running: bool = False
    snippet: str = ""


class RunLine(Struct, frozen=True):
    """A run in a list."""

    run: str
    status: str
    title: str
    created: float


class Past(Struct, frozen=True):
    """A run that has ended, for those who were not there."""

    said: str
    answer: str
    outcome: str
    why: str = ""


class Recap(Struct, frozen=True):
    """Where a session stands when a chat opens it. `known` are the runs that need not be followed any more, and
    `running` is the one that is under way, or was left without an end."""

    exists: bool = False
    title: str = ""
    past: tuple[Past, ...] = ()
    known: tuple[str, ...] = ()
    running: str = ""


class Taken(Struct, frozen=True):
    """A message that was stored: the run that answers it, and whether that has to wait for its turn."""

    run: str
    waits: bool = False


class Done(Struct, frozen=True):
    """What was done to a session."""

    did: str
    run: str | None = None
    refused: int = 0


class DraftLine(Struct, frozen=True):
    """What is kept of a cut call. `name` is what the commands take."""

    name: str
    tool: str
    target: str
    characters: int


class Place(Protocol):
    """Every call may raise Lost or Refused."""

    about: str
    """In a few words, for the first line of a chat."""
    stays: bool
    """Whether a run that is under way goes on when the chat is closed."""

    async def latest(self) -> str | None:
        """The session in which something happened last."""
        ...

    async def sessions(self, words: str) -> list[SessionLine]:
        """Those that were touched last, or in which all these words stand."""
        ...

    async def recap(self, session: str) -> Recap: ...

    async def next_run(self, session: str, seen: Collection[str]) -> str:
        """Wait for a run to begin in the session that is none of those seen; the oldest of them."""
        ...

    def follow(self, run: str, after: int) -> AsyncGenerator[list[Numbered]]:
        """The facts behind a number and those to come, up to the run's end. Raises Merged."""
        ...

    async def say(self, session: str, text: str, busy: Busy | None, key: str) -> Taken: ...

    async def answer(self, run: str, approval: str, decision: Decision, text: str) -> bool:
        """False if nobody waits for this answer any more."""
        ...

    async def stop(self, run: str) -> bool:
        """Ask a run to end. False if it had ended."""
        ...

    async def change(self, session: str, verb: Verb) -> Done: ...

    async def status(self, session: str) -> str:
        """What runs and what waits, in words."""
        ...

    async def runs(self, session: str) -> list[RunLine]:
        """The latest ones, newest first."""
        ...

    async def drafts(self, session: str) -> list[DraftLine]: ...

    async def draft(self, name: str) -> str:
        """The text of a draft."""
        ...

    async def ledger(self, run: str) -> tuple[Waste, ...]: ...

    async def models(self) -> list[str]: ...

    async def leave(self) -> None:
        """Let go of everything, in good order."""
        ...
