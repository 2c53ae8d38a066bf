"""A process with its children, seen from outside: CPU time and memory, as Linux tells them."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple


class Memory(NamedTuple):
    resident: float
    proportional: float  # pages shared with other processes counted by their share


def family(pid: int) -> list[int]:
    """The process and all that descend from it."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                # The name in the brackets may hold spaces; what follows the last bracket does not.
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry)] = int(fields[1])
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time so far of all threads, ended ones too, to the nanosecond; `/proc` counts in
    hundredths."""
    return sum(map(cpu_seconds_of, family(pid)))


def cpu_seconds_of(pid: int) -> float:
    """The same of one process alone; 0 if it is gone."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # the kernel's number for the CPU clock of a process
    except OSError:
        return 0.0


def memory(pid: int) -> Memory:
    """In megabytes."""
    resident = proportional = 0
    for member in family(pid):
        try:
            lines = Path("/proc", str(member), "smaps_rollup").read_text().splitlines()[1:]
        except (FileNotFoundError, ProcessLookupError):
            continue
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        resident += sizes["Rss"]
        proportional += sizes["Pss"]
    return Memory(resident / 1024, proportional / 1024)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def stop(process: "subprocess.Popen[bytes]") -> None:
    """With its whole group, since servers start workers."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=10)
