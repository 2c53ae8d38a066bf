"""What is said about a store that does not do its work: to clients, to readers who wait, and to those who ask whether
the server is ready. Paths and names of streams are for the log alone."""

from turnbuckle.journal.port import Closed, Gone, JournalError, StorageError, TooLarge
from turnbuckle.server.http import Problem

WORDS: dict[str, str] = {
    "full": "the server's disk is full",
    "read_only": "the server may not write to its data folder",
    "out_of_files": "the server has as many files open as it may have",
    "gone": "the server's data folder is gone, or another one took its place",
    "damaged": "the server's journal is damaged",
    "unknown_format": "the server's journal is not one that it can read",
    "in_use": "another process has the server's journal",
    "failed": "the server's disk reported an error",
    "slow": "the server's disk does not answer",
}
"""By the fault that an error of the store names."""
TO_DO: dict[str, str] = {
    "full": "make room",
    "read_only": "give it the right to, or mount the disk for writing",
    "out_of_files": "raise its limit of open files",
    "gone": "put the folder back, or start the server again",
    "damaged": "stop the server and run turnbuckle doctor --mend",
    "unknown_format": "run turnbuckle doctor",
    "in_use": "stop the other one, or use another data folder",
    "failed": "look into the log of the server and of the machine",
    "slow": "look at the disk",
}
"""What helps, for whoever runs the server."""
_FULL = 507
_FAILED = 503
_WAIT = 5.0  # seconds until a client may try again: a disk gets room by somebody who makes it
_LONG = 60.0  # the same where somebody must come and mend it
_NEEDS_MENDING = ("damaged", "unknown_format", "gone")


def words(fault: str) -> str:
    """What is wrong, in a few words."""
    return WORDS.get(fault, WORDS["failed"])


def code(fault: str) -> str:
    """The same for programs."""
    return f"storage_{fault}"


def problem(error: JournalError, run: str = "") -> Problem:
    """An error of the journal as an answer. `run` is the one that was read or begun."""
    headers = (("x-turnbuckle-run", run),) if run else ()
    match error:
        case StorageError(fault=fault):
            status = _FULL if fault == "full" else _FAILED
            wait = _LONG if fault in _NEEDS_MENDING else _WAIT
            message = (
                f"{words(fault)}, so this can not be done now; {TO_DO.get(fault, TO_DO['failed'])}, then try again"
            )
            return Problem(status, message, code=code(fault), retry_after=wait, headers=headers)
        case TooLarge(size=size):
            message = f"this conversation has become too large to be stored ({size / 1e6:.0f} MB); begin a new one"
            return Problem(413, message, code="conversation_too_large", should_retry=False, headers=headers)
        case Gone():
            return Problem(404, "it was deleted in the meantime", code="deleted", should_retry=False, headers=headers)
        case Closed():
            return Problem(_FAILED, "the server stops", code="interrupted", retry_after=_WAIT, headers=headers)
        case _:
            message = "somebody else changed this at the same moment; try again"
            return Problem(_FAILED, message, code="storage_conflict", retry_after=1.0, headers=headers)
