"""Where sessions are: in this process, or in a server. One port for both, for the chat and for commands.

What happens in a run is told by its facts, as the journal has them, each with its number. So a chat that lost
its connection goes on behind the last number that it has seen, and nothing is shown twice. `Lost` means that
nobody knows whether what was asked has happened; a message carries a key, and saying it again under the same
key is the same message. Any other error is an answer, and its text is a sentence for the user.
"""

from collections.abc import AsyncGenerator, Collection
from typing import Protocol

from msgspec import Struct

from turnbuckle.errors import TurnbuckleError
from turnbuckle.service.changed_files import ChangedFile
from turnbuckle.service.changes import FileDiff
from turnbuckle.service.run_view import RunLine
from turnbuckle.service.runs import Decision
from turnbuckle.service.sessions import SessionChange, SessionLine, Verb
from turnbuckle.session.facts import Busy
from turnbuckle.turn.facts import Fact
from turnbuckle.turn.ledger import Waste

Numbered = tuple[int, Fact]


class Lost(TurnbuckleError):
    """The place cannot be reached at this moment."""


class BackendRefused(TurnbuckleError):
    """The place says no."""


class Merged(TurnbuckleError):
    """Events of this run were merged since the last one was seen: it must be read again from its
    beginning."""


class Past(Struct, frozen=True):
    """A run that has ended, for those who were not there."""

    said: str
    answer: str
    outcome: str
    why: str = ""


class Recap(Struct, frozen=True):
    """Where a session stands when a chat opens it. `known` are the runs that need not be followed any more,
    and `running` is the one that is under way, or was left without an end."""

    exists: bool = False
    title: str = ""
    past: tuple[Past, ...] = ()
    known: tuple[str, ...] = ()
    running: str = ""


class Taken(Struct, frozen=True):
    """A message that was stored: the run that answers it, and whether that has to wait for its turn."""

    run: str
    waits: bool = False


class DraftLine(Struct, frozen=True):
    """What is kept of a cut call. `name` is what the commands take."""

    name: str
    tool: str
    target: str
    characters: int


class RouteLine(Struct, frozen=True):
    """A route that the agent can run on, and the model behind it."""

    name: str
    model: str = ""


class Fork(Struct, frozen=True):
    """The new session: its name and title, and up to which event of which run it shares what was said."""

    id: str | None = None
    title: str | None = None
    run: str | None = None
    after: int | None = None


class SessionBackend(Protocol):
    """Every call may raise Lost, and TurnbuckleError for a no."""

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

    async def say(self, session: str, text: str, busy: Busy | None, key: str, route: str = "") -> Taken:
        """`route`: the agent runs on this one, and stays there; empty: on that of the last message."""
        ...

    async def answer(self, run: str, approval: str, decision: Decision, text: str) -> bool:
        """False if this question is no longer open."""
        ...

    async def interrupt(self, run: str) -> bool:
        """Ask a run to end, and keep the conversation. False if it had ended."""
        ...

    async def stop(self, run: str) -> bool:
        """The same by force: the next message starts fresh."""
        ...

    async def resolve(self, text: str) -> str:
        """The session that is meant by its id, or by as much of it as this place understands."""
        ...

    async def change(self, session: str, verb: Verb, keep: str = "", route: str = "") -> SessionChange: ...

    async def rename(self, session: str, title: str) -> SessionLine: ...

    async def fork(self, session: str, fork: Fork) -> SessionLine: ...

    async def delete(self, session: str) -> None: ...

    async def told(self, session: str, command: str) -> str:
        """What the session itself answers to a command, such as `/cost`."""
        ...

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

    async def changes(self, run: str) -> list[FileDiff]:
        """The files that a run has changed, each with its whole diff."""
        ...

    async def revert(self, run: str, path: str) -> ChangedFile:
        """Make a file what it was before a run."""
        ...

    async def ledger(self, run: str) -> tuple[Waste, ...]: ...

    async def routes(self) -> list[RouteLine]:
        """Which the agent can run on; the first is the usual one."""
        ...

    async def leave(self) -> None:
        """Let go of everything, in good order."""
        ...
