"""Processes as a tree, as the system tells it in /proc. Standard library only.

`children_of` is quick and may miss one that comes or goes at that moment; it is for those who look again and
again. `living_below` looks at every process of the machine and misses none.
"""

import os
from collections.abc import Iterator

NAME_LENGTH = 60


def children_of(pid: int) -> list[int]:
    """The children of a process; empty if it is gone, or if the system does not keep such lists."""
    found: list[int] = []
    for thread in threads_of(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except OSError:
            continue
    return found


def threads_of(pid: int) -> list[str]:
    """The threads of a process; empty if it is gone."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def below(pid: int) -> Iterator[int]:
    """What came from a process, by the quick way, one by one."""
    waiting = children_of(pid)
    while waiting:
        one = waiting.pop()
        yield one
        waiting += children_of(one)


def living_below(pid: int) -> list[int]:
    """What came from a process and is alive, by a look at everything."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := parent_of(int(entry))) is not None:
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = list(children.get(pid, ()))
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children.get(one, ())
    return found


def parent_of(pid: int) -> int | None:
    """The parent of a process that is alive; a zombie is not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


def number_inside(pid: int) -> int:
    """The number of a process in the innermost place that counts its own; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            line = next((line for line in file if line.startswith(b"NSpid:")), b"")
    except OSError:
        return 0
    return int(line.split()[-1]) if line.split()[1:] else 0


def name_of(pid: int) -> str:
    """A process for people: its words, as far as they fit a line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        line = ""
    shown = " ".join(line.split())
    return shown if len(shown) <= NAME_LENGTH else shown[: NAME_LENGTH - 1] + "…"


def own_memory(pid: int) -> int:
    """Bytes that a process has for itself; what it shares by having been forked counts for each."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            resident, shared = map(int, file.read().split()[1:3])
    except (OSError, ValueError):
        return 0
    return max(resident - shared, 0) * os.sysconf("SC_PAGE_SIZE")


def fair_memory(pid: int) -> int:
    """The same by a slower way that shares what is shared."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = dict(line.split(b":", 1) for line in file if b":" in line)
        return int(lines[b"Pss_Anon"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return own_memory(pid)
