"""Who asks, and ids as they see them.

A session's public id is its owner's own word. Inside, it begins with the owner, so that no owner can name
another's session; only the owner `local`, who is everybody on a machine without keys, has the same id in both
places, as the command line has.
"""

import re

from msgspec import UNSET, Struct, UnsetType

from turnbuckle.errors import BadSessionName
from turnbuckle.vocab.ids import LOCAL, RunId, SessionId

Owner = str | None
"""Whose runs and sessions are meant. None is whoever has the machine, and sees everybody's."""
RESERVED = ("import", ".", "..")
"""What stands at the place of a session's id in an address of its own, and what no address can hold there."""
__all__ = ["LOCAL", "RESERVED", "Caller", "Owner", "of", "public_session", "run_id", "session_id"]
_PUBLIC = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_RUN = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Caller(Struct, frozen=True):
    """Who asks. `key` is the id of the key that was shown, never the key itself; empty if none was needed."""

    owner: str
    key: str = ""

    @property
    def by(self) -> str:
        """How the journal names whoever did something."""
        return self.key or self.owner


def session_id(owner: str, public: str, *, param: str = "X-Turnbuckle-Session") -> SessionId:
    """The id inside. Raises BadSessionName."""
    if not _PUBLIC.fullmatch(public) or public in RESERVED:
        names = ", ".join(RESERVED)
        message = (
            f"{param} must have 1 to 128 of the characters A-Z a-z 0-9 . _ : - and be none of these: {names}"
        )
        raise BadSessionName(message, param)
    return SessionId(public if owner == LOCAL else f"{owner}/{public}")


def of(owner: Owner) -> str | UnsetType:
    """The owner as a query of the journal names it."""
    return UNSET if owner is None else owner


def public_session(owner: Owner, session: str) -> str:
    """The id outside."""
    return session if owner in (None, LOCAL) else session.removeprefix(f"{owner}/")


def run_id(text: str) -> RunId | None:
    """A run's id as a client sent it; None if no run can have it, so that the journal need not be asked."""
    return RunId(text) if _RUN.fullmatch(text) else None
