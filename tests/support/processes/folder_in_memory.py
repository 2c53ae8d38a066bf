"""Where tests have their folders: in memory, where the machine has it to give. Each journal waits for its disk, and no
test needs that: nine gigabytes were written in a run. A new file is dear where many were just removed, too: ext4 without
a journal looks through all those of the last minutes, in some parts of a run for a tenth of both processors.

The product asks the same of either place, and what a full disk does is tested with file systems and limits of its own.
"""

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that must be free there, and twice as many in the machine. The tests never have half a gigabyte at a time."""


def use_memory() -> None:
    """For this process and all that it starts, unless somebody has said where."""
    if "TMPDIR" not in os.environ and is_usable(MEMORY) and free_memory() >= 2 * ROOM:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # chosen again when it is asked for


def is_usable(folder: Path) -> bool:
    """Whether there is room, and what is written there may be started."""
    try:
        place = os.statvfs(folder)
    except OSError:
        return False
    may_start = not place.f_flag & getattr(os, "ST_NOEXEC", 0)
    return may_start and place.f_bavail * place.f_frsize >= ROOM and os.access(folder, os.W_OK | os.X_OK)


def short_folder() -> Path:
    """For sockets: the address of one has about a hundred bytes."""
    usual = Path(tempfile.gettempdir())
    return usual if usual == MEMORY else Path("/tmp")


def free_memory(told: Path = Path("/proc/meminfo")) -> int:
    """Bytes that programs could still have; none where nobody says so."""
    try:
        lines = told.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
