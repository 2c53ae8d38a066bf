"""A small process between the server and a command, which sees to it that the command leaves nothing behind.

Theory of operation. The server starts this file as a script and holds the other end of its standard input.
The guard starts the command in a session of its own and waits. It ends everything when the command ends, when
its input closes (the server wants it, or is dead: the system closes it even after `kill -9`), or when its
parent is another process than at the start. On Linux it adopts whatever the command leaves (subreaper), so it
finds processes that moved to another session too. It asks first (SIGTERM), waits for the grace time, then
kills, and reports on a pipe what it did:

    {"pid": 41}                                                    the command runs
    {"status": 0, "why": "ended", "killed": [], "survivors": []}   and everything is over

It needs only the standard library and few modules of it, since it starts with every command.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time

LOOK = 0.25  # seconds between two looks at the parent
SETTLE = 0.2  # for helpers that end by themselves right behind the command
LAST_WAIT = 0.4  # for the system to remove what was killed
STEP = 0.01
NAME_LENGTH = 60
MOST_NAMES = 50
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ON_LINUX = sys.platform.startswith("linux")
CONTROL = 0
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT)


class Guard:
    """One command and all that comes from it."""

    def __init__(self, parent: int, report: int, grace: float) -> None:
        self.parent = parent
        self.report_to = report
        self.grace = grace
        self.child = 0
        self.status: int | None = None
        self.killed: dict[int, str] = {}
        self.wake, self._waker = os.pipe()
        for end in (self.wake, self._waker):
            os.set_blocking(end, False)

    def run(self, argv: list[str]) -> None:
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in IGNORED:
            signal.signal(ignored, signal.SIG_IGN)
        adopt_orphans()
        self.child = self._start(argv)
        self._report({"pid": self.child})
        why = self._wait_for_end()
        if why == "ended":
            self._quiet_within(SETTLE, heed_stop=True)
        self._end_all()
        self._report(
            {
                "status": self.status,
                "why": why,
                "killed": list(self.killed.values())[:MOST_NAMES],
                "survivors": list(self._alive().values())[:MOST_NAMES],
            }
        )

    def _start(self, argv: list[str]) -> int:
        child = os.fork()
        if child:
            return child
        try:
            os.setsid()
            if ON_LINUX:
                _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGPIPE, *IGNORED):
                signal.signal(number, signal.SIG_DFL)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)

    def _wait_for_end(self) -> str:
        while True:
            self._reap()
            if self.status is not None:
                return "ended"
            ready, _, _ = select.select([CONTROL, self.wake], [], [], LOOK)
            if CONTROL in ready and not os.read(CONTROL, 64):
                return "stopped"
            if os.getppid() != self.parent:
                return "orphaned"
            if self.wake in ready:
                os.read(self.wake, 512)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.status = os.waitstatus_to_exitcode(status)

    def _anything_left(self) -> bool:
        """Whether anything that came from the command is alive. As its adopter, the guard would be its
        parent."""
        while True:
            self._reap()
            if not ON_LINUX:
                return bool(self._alive())
            try:
                if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return True
            except ChildProcessError:
                return False

    def _quiet_within(self, seconds: float, *, heed_stop: bool = False) -> bool:
        until = time.monotonic() + seconds
        while self._anything_left():
            if time.monotonic() >= until:
                return False
            if not heed_stop:
                time.sleep(STEP)
            elif select.select([CONTROL], [], [], STEP)[0] and not os.read(CONTROL, 64):
                return False
        return True

    def _end_all(self) -> None:
        if not self._anything_left():
            return
        self._signal_all(signal.SIGTERM)
        if self._quiet_within(self.grace):
            return
        until = time.monotonic() + LAST_WAIT
        while self._anything_left() and time.monotonic() < until:
            self._signal_all(signal.SIGKILL)  # again and again, since it may fork while it is looked at
            time.sleep(STEP)

    def _signal_all(self, number: int) -> None:
        for pid, name in self._alive().items():
            self.killed.setdefault(pid, name)
            _send(pid, number)
            _send(pid, signal.SIGCONT)

    def _alive(self) -> dict[int, str]:
        """Every process that came from the command, by its number, with a name for people."""
        if not ON_LINUX:
            return {-self.child: f"process group {self.child}"} if _send(-self.child, 0) else {}
        children: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit() and (parent := _parent_of(int(entry))) is not None:
                children.setdefault(parent, []).append(int(entry))
        found: dict[int, str] = {}
        waiting = list(children.get(os.getpid(), ()))
        while waiting:
            pid = waiting.pop()
            found[pid] = f"{_name_of(pid)} (pid {pid})"
            waiting.extend(children.get(pid, ()))
        return found

    def _report(self, said: dict[str, object]) -> None:
        try:
            os.write(self.report_to, json.dumps(said).encode() + b"\n")
        except BrokenPipeError:
            return  # the server is dead: there is nobody to tell


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False  # gone already, or not ours to kill: then it is found alive at the end, and named
    return True


def _parent_of(pid: int) -> int | None:
    """The parent of a process that is alive; a zombie is not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        line = ""
    shown = " ".join(line.split())
    return shown if len(shown) <= NAME_LENGTH else shown[: NAME_LENGTH - 1] + "…"


def adopt_orphans() -> None:
    """Become the parent of whatever a child of this process leaves behind, where the system can do that."""
    if ON_LINUX:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def main() -> None:
    parent, report, folder, grace = sys.argv[1:5]
    os.set_inheritable(int(report), False)
    os.fchdir(int(folder))
    os.close(int(folder))
    Guard(int(parent), int(report), float(grace)).run(sys.argv[5:])


if __name__ == "__main__":
    main()
