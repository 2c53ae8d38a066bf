"""What `turnbuckle doctor` finds out about the store besides damage: a process that can open no more files,
and conversations that will soon be too large."""

import os
from collections.abc import Iterator
from pathlib import Path

from turnbuckle.cli.doctor.finding import Finding
from turnbuckle.journal.port import MAX_ITEM, StorageError
from turnbuckle.journal.sqlite.doctor import largest_begins
from turnbuckle.journal.sqlite.folder import DATABASE, writing_process
from turnbuckle.service.store_words import TO_DO

NEARLY = 0.9
"""How much of a limit may be used before it is told."""


def cause_of(error: StorageError) -> str:
    """An error that kept the doctor from looking, with what helps."""
    fix = TO_DO.get(error.fault, TO_DO["failed"])
    # Of a file that is not a journal the error itself says what helps; the doctor has nothing to add.
    helps = "" if error.fault == "unknown_format" else f": {fix}"
    return f"the journal cannot be looked at: {error} ({error.fault}{helps})"


def check_store(folder: Path) -> Iterator[Finding]:
    """Everything about the journal in a data folder that is not damage."""
    if not (folder / DATABASE).exists():
        return
    yield from _open_files(writing_process(folder))
    try:
        found = largest_begins(folder, int(MAX_ITEM / 2))
    except StorageError as error:
        yield Finding(
            "wrong", "conversations", f"they cannot be listed: {error}", "Repair the journal first."
        )
        return
    for session, size in found:
        full = size > MAX_ITEM * NEARLY
        words = f"{session} has {size / 1e6:.0f} MB, and {MAX_ITEM / 1e6:.0f} MB can be stored"
        fix = "Say /new in it, or fork it at an earlier point: it will be refused otherwise."
        yield Finding("wrong" if full else "note", "conversation", words, fix)


def _open_files(pid: str) -> Iterator[Finding]:
    """Whether the process that has the journal can still open files. Only where the system tells that."""
    place = Path("/proc") / pid
    try:
        used = len(os.listdir(place / "fd"))
        lines = (place / "limits").read_text().splitlines()
    except OSError:
        return
    most = next((line.split()[3] for line in lines if line.startswith("Max open files")), "")
    if most.isdigit() and used >= int(most) * NEARLY:
        words = f"process {pid}, which has the journal, has {used} files open, and may have {most}"
        yield Finding("wrong", "open files", words, "Raise its limit (ulimit -n) and start it again.")
