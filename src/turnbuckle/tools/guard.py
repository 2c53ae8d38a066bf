"""A small process between the server and a command, which sees to it that the command leaves nothing behind.

Theory of operation. The server starts this file as a script and holds the other end of its standard input.
The guard starts the command in a session of its own and waits. It ends everything when the command ends, when
its input closes (the server wants it, or is dead: the system closes it even after `kill -9`), or when its
parent is another process than at the start. On Linux it adopts whatever the command leaves (subreaper), so it
finds processes that moved to another session too. It asks first (SIGTERM), waits for the grace time, then
kills, and reports on a pipe what it did:

    {"pid": 41}                                                    the command runs
    {"status": 0, "why": "ended", "killed": [], "survivors": []}   and everything is over

Its own input says when to end, so a command that is to be talked to reads from another pipe, by its number.

With a plan (`sandbox/plan.py`) the command starts in its sandbox, and the guard stays outside. It also looks
at the bounds that hold for a whole family of processes, and ends one that breaks them. In bubblewrap the
whole place is gone when its first processes are, so these are left alone until everything else is over, see
`_BubblewrapFamily`.

It needs only the standard library and few modules of it, since it starts with every command.
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time

from turnbuckle.tools.sandbox import tree
from turnbuckle.tools.sandbox.entry import enter
from turnbuckle.tools.sandbox.plan import BubblewrapPlace, SandboxPlan, decode_plan
from turnbuckle.tools.sandbox.watch import EVERY, LimitWatch, go_first

LOOK = 0.25  # seconds between two looks at the parent
SETTLE = 0.2  # for helpers that end by themselves right behind the command
LAST_WAIT = 0.4  # for the system to remove what was killed
STEP = 0.01
STOP_WAIT = 5.0  # for a family that forks faster than it can be killed
MOST_NAMES = 50
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ON_LINUX = sys.platform.startswith("linux")
CONTROL = 0
_held: list[int] = []
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT)


class Guard:
    """One command and all that comes from it."""

    def __init__(self, parent: int, report: int, grace: float, plan: SandboxPlan | None = None) -> None:
        self.parent = parent
        self.report_to = report
        self.grace = grace
        self.plan = plan
        self.input = -1
        """What the command reads, if it reads anything."""
        self.child = 0
        self.status: int | None = None
        self.limit = ""
        """The bound that was broken, in words."""
        self.place: _BubblewrapFamily | None = None
        if plan is not None and isinstance(plan.place, BubblewrapPlace):
            self.place = _BubblewrapFamily()
        self._watch = None if plan is None else LimitWatch(plan.limits)
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
        let_go()
        self._report(
            {
                "status": self.status,
                "why": why,
                "limit": self.limit,
                "killed": list(self.killed.values())[:MOST_NAMES],
                "survivors": list(self._alive().values())[:MOST_NAMES],
            }
        )

    def _start(self, argv: list[str]) -> int:
        child = os.fork()
        if child:
            if self.plan is not None:
                go_first()
            if self.place is not None:
                self.place.started()
            if self.input >= 0:
                os.close(self.input)  # so that the command sees the end of it
            return child
        try:
            os.setsid()
            if ON_LINUX:
                _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGPIPE, *IGNORED):
                signal.signal(number, signal.SIG_DFL)
            given = self.input if self.input >= 0 else os.open(os.devnull, os.O_RDONLY)
            os.dup2(given, 0)
            os.close(given)
            if self.plan is None:
                os.execvp(argv[0], argv)
            else:
                enter(self.plan, argv, None if self.place is None else self.place.theirs)
        except OSError as error:
            what = argv[0] if self.plan is None else f"the sandbox ({self.plan.place.mechanism})"
            os.write(2, f"{what}: {error.strerror or error}\n".encode())
        finally:
            os._exit(127)

    def _wait_for_end(self) -> str:
        while True:
            if self._is_over():
                return "limited" if self.status is None else "ended"
            ready = self._wait_for(CONTROL)
            if CONTROL in ready and not os.read(CONTROL, 64):
                return "stopped"
            if os.getppid() != self.parent:
                return "orphaned"

    def _is_over(self) -> bool:
        """Whether the command has ended, or broke a bound."""
        self._reap()
        if self.status is None and self._watch is not None and not self.limit:
            self.limit = self._watch.broken(os.getpid())
        return self.status is not None or bool(self.limit)

    def _wait_for(self, *others: int) -> list[int]:
        """Until something happens, or it is time to look."""
        own = [self.wake, *([] if self.place is None else self.place.heard)]
        ready, _, _ = select.select([*others, *own], [], [], LOOK if self._watch is None else EVERY)
        if self.wake in ready:
            os.read(self.wake, 512)
        return ready

    def _reap(self) -> None:
        if self.place is not None and self.status is None:
            self.status = self.place.status()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                if self.place is not None:
                    self.place.is_gone = True
                if self.status is None:
                    self.status = os.waitstatus_to_exitcode(status)

    def _anything_left(self) -> bool:
        """Whether anything that came from the command is alive. As its adopter, the guard would be its
        parent."""
        while True:
            self._reap()
            if not ON_LINUX or self.place is not None:
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
        if self._anything_left():
            if self.limit:
                self._kill_at_once()
            else:
                self._end_politely()
        if self.place is not None:
            self._leave_place(self.place)

    def _end_politely(self) -> None:
        self._signal_all(signal.SIGTERM)
        if self._quiet_within(self.grace):
            return
        until = time.monotonic() + LAST_WAIT
        while self._anything_left() and time.monotonic() < until:
            self._signal_all(signal.SIGKILL)  # again and again, since it may fork while it is looked at
            time.sleep(STEP)

    def _kill_at_once(self) -> None:
        """A family that is too large is not asked. It is halted first, so that nobody forks any more."""
        if self.place is not None:
            self.killed.update(_named(self.place.inside(self.child, MOST_NAMES)))
            self.place.kill(self.child)
            return
        until = time.monotonic() + STOP_WAIT
        halted: set[int] = set()
        while (found := set(tree.living_below(os.getpid()))) - halted and time.monotonic() < until:
            for pid in found - halted:
                _send(pid, signal.SIGSTOP)
            halted |= found
        while self._anything_left() and time.monotonic() < until:
            self._signal_all(signal.SIGKILL)
            time.sleep(STEP)

    def _leave_place(self, place: "_BubblewrapFamily") -> None:
        """Let its first processes go, now that they are the last ones."""
        place.release()
        until = time.monotonic() + STOP_WAIT
        while not place.is_gone and time.monotonic() < until:
            if select.select([self.wake], [], [], LAST_WAIT)[0]:
                os.read(self.wake, 512)
            self._reap()
            if not place.is_gone and time.monotonic() > until - STOP_WAIT + LAST_WAIT:
                place.kill(self.child)

    def _signal_all(self, number: int) -> None:
        for pid, name in self._alive().items():
            self.killed.setdefault(pid, name)
            _send(pid, number)
            _send(pid, signal.SIGCONT)

    def _alive(self) -> dict[int, str]:
        """Every process that came from the command, by its number, with a name for people."""
        if not ON_LINUX:
            return {-self.child: f"process group {self.child}"} if _send(-self.child, 0) else {}
        place = self.place
        found = tree.living_below(os.getpid()) if place is None else place.inside(self.child)
        return _named(found)

    def _report(self, said: dict[str, object]) -> None:
        try:
            os.write(self.report_to, json.dumps(said).encode() + b"\n")
        except BrokenPipeError:
            return  # the server is dead: there is nobody to tell


class _BubblewrapFamily:
    """A place of bubblewrap, seen from outside: its monitor, the first process inside, and the holder, which
    tells how the command ended (`sandbox/entry.py`). None of the three came from the command."""

    def __init__(self) -> None:
        self._told, told = os.pipe()
        go, self._go = os.pipe()
        self.theirs = (told, go)
        self.is_gone = False
        self._first = self._holder = 0

    @property
    def heard(self) -> list[int]:
        return [self._told] if self._told >= 0 else []

    def started(self) -> None:
        """The other ends are with the command now."""
        for end in self.theirs:
            os.close(end)

    def status(self) -> int | None:
        """How the command ended, as soon as that is told."""
        if self._told < 0 or not select.select([self._told], [], [], 0)[0]:
            return None
        said = os.read(self._told, 16)
        os.close(self._told)
        self._told = -1
        return int(said) if said.strip().isdigit() else None

    def inside(self, monitor: int, most: int = 1 << 30) -> list[int]:
        """What came from the command. Whoever lost its parent there is a child of the first process."""
        if self.is_gone:
            return []
        if not self._first:
            self._first = next(iter(tree.children_of(monitor)), 0)
        if not self._holder and self._first:
            children = tree.children_of(self._first)
            self._holder = next((pid for pid in children if tree.number_inside(pid) == 2), 0)
        found: list[int] = []
        for pid in tree.below(monitor):
            if len(found) >= most:
                break
            if pid not in (self._first, self._holder) and tree.parent_of(pid):
                found.append(pid)
        return found

    def release(self) -> None:
        if self._go >= 0:
            os.close(self._go)
            self._go = -1

    def kill(self, monitor: int) -> None:
        """All of it at once: the system sees to that when the first process ends."""
        if not self._first:
            self._first = next(iter(tree.children_of(monitor)), 0)
        if self._first:
            _send(self._first, signal.SIGKILL)
        _send(monitor, signal.SIGKILL)


def _named(found: list[int]) -> dict[int, str]:
    """Processes with names for people, as far as anybody would read them."""
    names = {pid: f"{tree.name_of(pid)} (pid {pid})" for pid in found[:MOST_NAMES]}
    return names | dict.fromkeys(found[MOST_NAMES:], "")


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False  # gone already, or not ours to kill: then it is found alive at the end, and named
    return True


def adopt_orphans() -> None:
    """Become the parent of whatever a child of this process leaves behind, where the system can do that."""
    if ON_LINUX:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def plan_from(number: str) -> SandboxPlan | None:
    """The plan in an open file, which is closed, and the folder of it held."""
    if number == "-":
        return None
    opened = int(number)
    with os.fdopen(opened, "rb") as file:
        file.seek(0)
        plan = decode_plan(file.read())
    if plan.held:
        folder = os.open(plan.held, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(folder, fcntl.LOCK_SH)  # until it is let go, or this process is gone
        _held.append(folder)
    return plan


def let_go() -> None:
    """Nothing runs there any more: the folder of the plan may be cleaned up."""
    while _held:
        os.close(_held.pop())


def main() -> None:
    """Arguments: the parent, the pipe to report on, the open folder to run in, the grace time, the open plan,
    what the command reads, and the command."""
    parent, report, folder, grace, plan, given = sys.argv[1:7]
    os.set_inheritable(int(report), False)
    os.fchdir(int(folder))
    os.close(int(folder))
    guard = Guard(int(parent), int(report), float(grace), plan_from(plan))
    guard.input = -1 if given == "-" else int(given)
    guard.run(sys.argv[7:])
