"""The exceptions that a user of the package may meet, in one tree.

    TurnbuckleError
    ├── ConfigError      the settings are wrong; the message names the place and the way out
    ├── RunUnknown       there is no run with that id
    ├── RunHeld          another process drives that run at this moment
    ├── RunUnfinished    the run has no end, and nobody drives it; it can be resumed
    ├── CursorGone       events behind a cursor were merged since; the run can be read from its beginning
    ├── KeyReused        that key was used for another task
    ├── SessionUnknown   there is no session with that id
    ├── SessionBusy      a run of that session is under way
    ├── ImportRefused    a file is no session that can be imported; the message names the line
    ├── ClaimLost        this process lost the right to drive the run, and has stopped doing so
    └── CanNotListen     the server's address is taken, or is not this machine's

What a store raises is a tree of its own, drawn in `journal/port.py`. Failures of models and tools are no exceptions
but values (`vocab/failure.py`, `vocab/tooling.py`).
"""


class TurnbuckleError(Exception):
    """The root. Its text is a sentence for the user."""


class ConfigError(TurnbuckleError):
    """The settings can not be used."""


class RunUnknown(TurnbuckleError):
    """There is no such run."""


class RunHeld(TurnbuckleError):
    """Somebody else drives the run."""


class RunUnfinished(TurnbuckleError):
    """The run has no end, and nobody goes on with it."""


class CursorGone(TurnbuckleError):
    """Events around that cursor were merged, so what follows it can not be told apart."""


class KeyReused(TurnbuckleError):
    """That key was used for another task."""


class SessionUnknown(TurnbuckleError):
    """There is no such session."""


class SessionBusy(TurnbuckleError):
    """A run of the session is under way."""


class ImportRefused(TurnbuckleError):
    """The file can not be imported, and nothing of it was."""


class ClaimLost(TurnbuckleError):
    """Another process took the run over, or may have done so."""


class CanNotListen(TurnbuckleError):
    """Nobody can listen at that address."""
