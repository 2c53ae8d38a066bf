"""A small process that keeps a background command: it outlives the server that started it, and leaves nothing
behind.

Theory of operation. The server writes down what it is about to start and starts this file. The keeper leaves
the server's family, starts the command in a session of its own and writes down both numbers (`running.json`)
before it says that it is ready. What the command prints goes to files named by where they begin in the whole
output (`log-0`); when one is full the next begins, and only the newest two are kept. When the command ends,
or the keeper is asked to end (SIGTERM), it ends everything that came from the command and writes down how
(`ended.json`). A keeper that is gone without having written that was killed, and its command is lost.

It is a guard with another master, so it shares the guard's hands. Standard library only.
"""

import json
import os
import select
import signal
import sys
import time

from turnbuckle.tools.guard import IGNORED, SETTLE, Guard, adopt_orphans, let_go, plan_from
from turnbuckle.tools.identity import identity_of
from turnbuckle.tools.sandbox.plan import SandboxPlan

RUNNING = "running.json"
ENDED = "ended.json"
LOG = "log-"
READ = 64 * 1024
LAST_READS = 64


class Keeper(Guard):
    """One command, in one folder."""

    def __init__(
        self, folder: str, report: int, grace: float, cap: int, plan: SandboxPlan | None = None
    ) -> None:
        super().__init__(os.getppid(), report, grace, plan)
        self.folder = folder
        self.cap = cap
        self.stopped = False
        self._written = 0
        self._begins: list[int] = []
        self._log = -1

    def keep(self, argv: list[str]) -> None:
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in IGNORED:
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        adopt_orphans()
        output = self._begin(argv)
        numbers = {"keeper": os.getpid(), "identity": identity_of(os.getpid()) or "", "pid": self.child}
        self._store(RUNNING, numbers)
        self._report(numbers)
        os.close(self.report_to)
        self._listen(output)
        if not self.stopped:
            self._quiet_within(SETTLE)
        self._end_all()
        for _ in range(LAST_READS):  # what is in the pipe; whoever still writes is not listened to forever
            if not select.select([output], [], [], 0)[0] or not self._read(output):
                break
        let_go()
        end = {"status": self.status, "stopped": self.stopped, "at": time.time(), "limit": self.limit}
        names = {"killed": list(self.killed.values()), "survivors": list(self._alive().values())}
        self._store(ENDED, {**end, **names})

    def _asked_to_stop(self, *_: object) -> None:
        self.stopped = True

    def _begin(self, argv: list[str]) -> int:
        """Start the command, and come back with the end from which its output is read."""
        output, theirs = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (1, 2):
            os.dup2(theirs, number)
        self.child = self._start(argv)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.close(theirs)
        os.close(nothing)
        return output

    def _listen(self, output: int) -> None:
        """Until the command has ended, or somebody wants it to."""
        heard = [output]
        while not self._is_over() and not self.stopped:
            ready = self._wait_for(*heard)
            if output in ready and not self._read(output):
                heard.clear()

    def _read(self, output: int) -> bool:
        """False at the end of the output."""
        data = os.read(output, READ)
        if not data:
            return False
        try:
            while data:
                data = data[self._keep_some(data) :]
        except OSError:
            return True  # the disk is full: the command goes on, and what it says meanwhile is not kept
        return True

    def _keep_some(self, data: bytes) -> int:
        room = self.cap - (self._written - self._begins[-1]) if self._begins else 0
        if room <= 0:
            self._next_log()
            room = self.cap
        kept = os.write(self._log, data[:room])
        self._written += kept
        return kept

    def _next_log(self) -> None:
        name = os.path.join(self.folder, f"{LOG}{self._written}")
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if self._log >= 0:
            os.close(self._log)
        self._log = opened
        self._begins.append(self._written)
        for old in self._begins[:-2]:
            os.unlink(os.path.join(self.folder, f"{LOG}{old}"))
        self._begins = self._begins[-2:]

    def _store(self, name: str, value: dict[str, object]) -> None:
        store(os.path.join(self.folder, name), json.dumps(value).encode())


def store(path: str, data: bytes) -> None:
    """Write a file that is there whole or not at all, also after a loss of power."""
    opened = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        while data:  # a disk that gets full takes a part
            data = data[os.write(opened, data) :]
        os.fsync(opened)
    finally:
        os.close(opened)
    os.rename(f"{path}.new", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def main() -> None:
    """Arguments: the folder to keep, the pipe to report on, the open folder to run in, the grace time, the
    cap of a log, the open plan, and the command."""
    folder, report, where, grace, cap, plan = sys.argv[1:7]
    if os.fork():
        os._exit(0)  # the server waits for this one; the other has no master any more
    os.set_inheritable(int(report), False)
    os.fchdir(int(where))
    os.close(int(where))
    Keeper(folder, int(report), float(grace), int(cap), plan_from(plan)).keep(sys.argv[7:])
