"""Bounds that no limit of the kernel keeps for a whole family of processes: how many there are, how much
memory they have together, how long they take. The guard looks ten times a second. Standard library only.

The kernel counts the processes of a user, but none of root's. There a bomb of forks can only be seen from
outside, by somebody who is not one of thousands that wait for a processor: so the guard goes first, where it
may (`go_first`), and counts no further than it must."""

import os
import time

from turnbuckle.tools.sandbox import tree
from turnbuckle.tools.sandbox.plan import PlanLimits

EVERY = 0.1


def go_first() -> None:
    """Run before all others, as root may. What this process starts does not."""
    if os.getuid() != 0:
        return
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        return  # a root without that right: then it waits like everybody


class LimitWatch:
    """Looks at what came from one process."""

    def __init__(self, limits: PlanLimits) -> None:
        self._limits = limits
        self._began = time.monotonic()
        self._next = self._began + EVERY

    def broken(self, root: int) -> str:
        """Which bound is broken, in words; empty if none is, or if it was looked at a moment ago."""
        now = time.monotonic()
        if now < self._next:
            return ""
        self._next = now + EVERY
        limits = self._limits
        if limits.wall and now - self._began > limits.wall:
            return f"it took longer than {limits.wall} s (tools.background_seconds)"
        if not limits.processes and not limits.memory:
            return ""
        found: list[int] = []
        tasks = 0
        for pid in tree.below(root):
            found.append(pid)
            tasks += len(tree.threads_of(pid))
            if limits.processes and tasks > limits.processes:
                break
        if limits.processes and tasks > limits.processes:
            return f"it had more than {limits.processes} processes and threads (tools.max_processes)"
        measures = (tree.own_memory, tree.fair_memory)  # the slow one only if the quick one says so
        if limits.memory and all(sum(map(measure, found)) > limits.memory for measure in measures):
            return f"it took more than {limits.memory >> 20} MB of memory (tools.max_memory_mb)"
        return ""
