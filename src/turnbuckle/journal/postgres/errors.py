"""What Postgres says when it does not do its work, in the words of the journal.

A refusal has a code of five signs, whose first two name its class. What has none is an error of the
connection. All of it may pass by itself, except damage: a database that restarts, fails over, is full,
locked or out of reach is waited for by whoever writes.
"""

import errno
import ssl

import asyncpg

from turnbuckle.journal.port import (
    Damaged,
    JournalError,
    OutOfFiles,
    ReadOnly,
    StorageAway,
    StorageError,
    StorageFailed,
    StorageFull,
    StorageLocked,
    StorageSlow,
)

TRANSIENT = frozenset({"40001", "40P01"})
"""Two changes were in each other's way. Nothing was stored, and the same works when it is tried again."""
_GOING = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05"})
_LOCKED = frozenset({"55P03"})
_ENDED = frozenset({"57014"})
_TOO_MANY = frozenset({"53300"})
_READ_ONLY = frozenset({"25006"})
_DAMAGED = frozenset({"XX001", "XX002"})
_NO_FILES = (errno.EMFILE, errno.ENFILE)
NETWORK = (OSError, EOFError, TimeoutError, asyncpg.InterfaceError, ssl.SSLError)
ERRORS = (asyncpg.PostgresError, asyncpg.InternalClientError, *NETWORK)
"""Everything that the driver raises when the database, and not our program, is at fault."""


def code_of(error: BaseException) -> str:
    """The five signs; empty if the database itself has not spoken."""
    return getattr(error, "sqlstate", None) or ""


def is_refused(error: BaseException) -> bool:
    """Whether the database answered with a refusal, and its connection is still good."""
    code = code_of(error)
    return bool(code) and code not in _GOING | _READ_ONLY and code[:2] not in ("08", "28", "3D")


def is_worth_asking_again(error: BaseException) -> bool:
    """Whether the same question may be answered in a moment: the connection broke, or none could be had."""
    return isinstance(error, NETWORK) or not is_refused(error) or code_of(error) in _TOO_MANY


def translated(error: Exception, shown: str = "") -> JournalError:
    """An error of the journal with the same meaning. `shown` is the address as it may be printed."""
    if isinstance(error, JournalError):
        return error
    made = _translated(error, f" at {shown}" if shown else "")
    made.__cause__ = error
    return made


def _translated(error: Exception, place: str) -> StorageError:
    code, words = code_of(error), " ".join(str(error).split()) or type(error).__name__
    if code == "53100" or getattr(error, "errno", None) == errno.ENOSPC:
        return StorageFull(f"no room in the database{place}: {words}")
    if getattr(error, "errno", None) in _NO_FILES:
        return OutOfFiles(f"this process may open no more files, so the database cannot be reached: {words}")
    if code in _READ_ONLY or isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return ReadOnly(f"the database{place} cannot be written, it is a standby or read-only: {words}")
    if code == "42501":
        return ReadOnly(f"this user may not do that in the database{place}: {words}")
    if code in _DAMAGED:
        return Damaged("", None, f"the database{place} is damaged: {words}")
    if code in _LOCKED:
        return StorageLocked(f"somebody holds a lock in the database{place}: {words}")
    if code in _ENDED:
        return StorageSlow(f"the database{place} ended what was asked of it before it was done: {words}")
    if code in _TOO_MANY:
        return StorageAway(f"the database{place} takes no more connections: {words}")
    if code in _GOING:
        return StorageAway(f"the database{place} restarts or stops: {words}")
    if code and not code.startswith("08"):  # which is the driver's word for a broken connection
        return StorageFailed(f"the database{place} refused: {words} ({code})")
    return StorageAway(f"the database{place} cannot be reached: {words}")
