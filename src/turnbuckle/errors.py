"""The exceptions that a user of the package may meet, in one tree.

    TurnbuckleError
    ├── ConfigError         the settings are wrong; the message names the place and the way out
    │   └── NotTrusted      a file was found that could do harm, and nobody has accepted it
    ├── NotFound            there is no such thing, or it belongs to somebody else
    │   ├── RunUnknown
    │   ├── SessionUnknown
    │   ├── ModelUnknown
    │   ├── ApprovalUnknown
    │   ├── ProcessUnknown
    │   └── RuleUnknown
    ├── InvalidValue        what was asked for cannot be; `param` names the field. It is a ValueError, too
    │   ├── BadSessionName
    │   ├── BadKey          an idempotency key that is none
    │   └── ImportRefused   a file is not a session that can be imported; the message names the line
    ├── NotNow              it cannot be done as things stand
    │   ├── SessionBusy     a run of that session is under way
    │   ├── SessionExists   that name is taken
    │   ├── RunActive       the run has no end yet
    │   ├── RunHeld         another process drives that run at this moment
    │   ├── ChangingHands   no process has it at this moment, and one is about to take it
    │   ├── RunUnfinished   the run is not finished, and no process drives it; it can be resumed
    │   ├── ApprovalSettled nobody waits for that answer any more
    │   ├── KeyReused       that key was used for another task
    │   └── CursorGone      events behind a cursor were merged since; read the run from its beginning
    ├── LimitReached        come back in `retry_after` seconds
    │   ├── RateLimited
    │   ├── TooManyRuns
    │   ├── BudgetSpent     the owner's money of this day is spent
    │   └── Stopping        the server starts nothing new
    ├── ClaimLost           this process lost the right to drive the run, and has stopped doing so
    └── CanNotListen        the server's address is taken, or is not this machine's

What a store raises is a tree of its own, drawn in `journal/port.py`. Failures of models and tools are no
exceptions but values (`vocab/failure.py`, `vocab/tooling.py`). HTTP has one table of statuses for all of them
(`server/http/problems.py`), the command line one of exit codes (`cli/exits.py`).
"""

from typing import Self

_SHOWN = 200


class TurnbuckleError(Exception):
    """The root. Its text is a sentence for the user."""


class ConfigError(TurnbuckleError):
    """The settings cannot be used."""


class NotTrusted(ConfigError):
    """Settings or a data folder that were found here could do harm, and nobody has accepted them."""


class NotFound(TurnbuckleError):
    """There is no such thing. One of somebody else looks the same to the letter."""

    what = "thing"

    @classmethod
    def named(cls, name: str) -> Self:
        return cls(f"there is no {cls.what} {name[:_SHOWN]!r}")


class RunUnknown(NotFound):
    """There is no such run."""

    what = "run"


class SessionUnknown(NotFound):
    """There is no such session."""

    what = "session"


class ModelUnknown(NotFound):
    """There is no such model."""

    what = "model"


class ApprovalUnknown(NotFound):
    """Nothing was asked under that id."""

    what = "approval"


class ChangeUnknown(NotFound):
    """The run has not changed such a file."""

    what = "changed file"


class DraftUnknown(NotFound):
    """There is no such draft."""

    what = "draft"


class ProcessUnknown(NotFound):
    """There is no such background process."""

    what = "process"


class RuleUnknown(NotFound):
    """No such rule was given."""

    what = "rule"


class InvalidValue(TurnbuckleError, ValueError):
    """A value that cannot be used. `param` is the field it came in, empty if it has no name."""

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(message)
        self.param = param


class BadSessionName(InvalidValue):
    """No session can have that name."""


class BadKey(InvalidValue):
    """No request can have that key."""


class ImportRefused(InvalidValue):
    """The file cannot be imported, and nothing of it was."""


class NotNow(TurnbuckleError):
    """As things stand, it cannot be done. `run` is the one in the way, if there is one."""

    run = ""


class SessionBusy(NotNow):
    """A run of the session is under way."""


class SessionExists(NotNow):
    """There is a session of that name."""


class RunActive(NotNow):
    """The run has no end yet."""


class RunHeld(NotNow):
    """Somebody else drives the run."""


class ChangingHands(NotNow):
    """Nobody has it at this moment, and somebody is about to."""


class RunUnfinished(NotNow):
    """The run has no end, and nobody goes on with it."""


class ApprovalSettled(NotNow):
    """Nobody waits for that answer any more."""


class FileNotAsLeft(NotNow):
    """A file is not as the run left it, or cannot be made what it was."""


class KeyReused(NotNow):
    """That key was used for another task."""


class CursorGone(NotNow):
    """Events around that cursor were merged, so what follows it cannot be told apart."""


class LimitReached(TurnbuckleError):
    """Too much at once."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimited(LimitReached):
    """Too many requests in a minute: more than `limit`, and in `full_in` seconds all of them are back."""

    def __init__(self, message: str, retry_after: float, limit: int = 0, full_in: float = 0.0) -> None:
        super().__init__(message, retry_after)
        self.limit = limit
        self.full_in = full_in


class TooManyRuns(LimitReached):
    """As many runs are under way as there may be."""


class BudgetSpent(LimitReached):
    """The owner has spent as much money today as they may."""


class Stopping(LimitReached):
    """Nothing new starts here any more."""


class ClaimLost(TurnbuckleError):
    """Another process took the run over, or may have done so."""


class CanNotListen(TurnbuckleError):
    """Nobody can listen at that address."""
