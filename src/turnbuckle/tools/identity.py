"""Which process a number means. Numbers are given again, so a process is named by its number and the moment
at which it began; and since those moments are counted from the start of the machine, by that start too.
Standard library only."""

import os

_BOOT = "/proc/sys/kernel/random/boot_id"


def identity_of(pid: int) -> str | None:
    """A mark that no other process with this number ever has; None if there is none alive. Where the system
    does not tell, the mark is empty and the number is all there is."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(_BOOT, encoding="ascii") as file:
            boot = file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return "" if not os.path.exists(_BOOT) and _answers(pid) else None
    if fields[0] in (b"Z", b"X"):
        return None
    return f"{boot}:{fields[19].decode()}"  # field 22 of the whole line, of which the first two are cut off


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
