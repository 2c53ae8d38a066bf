"""The last steps of a process before it becomes a command in its sandbox: between `fork` and `exec`. Standard
library only.

Nothing here goes on by half: whatever fails raises OSError, and the command does not start.

In bubblewrap a small shell stands between its first process and the command (`HOLDER`). It tells the guard
how the command ended and then waits until the guard has seen and named what the command left running, since
the whole place is gone as soon as that shell is.
"""

import ctypes
import fcntl
import os
import resource
import struct

from turnbuckle.tools.sandbox import landlock
from turnbuckle.tools.sandbox.plan import BubblewrapPlace, LandlockPlace, PlanLimits, SandboxPlan

TOLD, GO = 8, 9
"""The numbers of the pipes between guard and holder. A plain shell knows one digit."""
HOLDER = (
    "trap : HUP INT QUIT TERM; exec 7>&2 2>/dev/null; "
    'test "$1" = 0 || ulimit -u "$1" || ulimit -p "$1"; shift; '
    f'"$@" 2>&7 7>&- {TOLD}>&- {GO}<&-; '
    f"echo $? >&{TOLD}; exec {TOLD}>&-; read answer <&{GO}; exit 0"
)
_KILLED_FIRST = b"700"  # of 1000: if the machine runs out of memory
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER, _DROP_BOUND, _AMBIENT, _CLEAR_AMBIENT = 38, 22, 2, 24, 47, 4
_CAPABILITY_VERSION = 0x20080522
_MOST_CAPABILITIES = 64


def enter(plan: SandboxPlan, argv: list[str], pipes: tuple[int, int] | None) -> None:
    """Become the command. Raises OSError."""
    _limit(plan.limits)
    if isinstance(plan.place, BubblewrapPlace):
        _wrap(plan, plan.place, argv, pipes)
    else:
        _confine(plan, plan.place)
        os.execvp(argv[0], argv)


def _limit(limits: PlanLimits) -> None:
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits.memory or None,
        resource.RLIMIT_FSIZE: limits.file_size or None,
        resource.RLIMIT_CPU: limits.cpu or None,
    }
    for number, bound in bounds.items():
        if bound is not None:
            _bound(number, bound)
    with open("/proc/self/oom_score_adj", "wb") as file:
        file.write(_KILLED_FIRST)


def _bound(number: int, wanted: int) -> None:
    hard = resource.getrlimit(number)[1]
    bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(number, (bound, bound))


def _wrap(plan: SandboxPlan, place: BubblewrapPlace, argv: list[str], pipes: tuple[int, int] | None) -> None:
    if pipes is None:
        raise OSError("there is nobody to tell")
    # By way of high numbers, so that neither is in the other's place.
    high = [fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 20) for pipe in pipes]
    for pipe, number in zip(high, (TOLD, GO), strict=True):
        os.dup2(pipe, number)
    arguments = [*place.arguments]
    if plan.seccomp:
        arguments += ["--seccomp", str(_file_of(plan.seccomp))]
    # Inside, the user is counted again from zero; outside, a limit would count all that the user runs.
    holder = ["/bin/sh", "-c", HOLDER, "sh", str(plan.limits.processes)]
    given = _file_of(b"".join(os.fsencode(one) + b"\0" for one in arguments))
    os.execv(place.program, [place.program, "--args", str(given), "--", *holder, *argv])


def _file_of(data: bytes) -> int:
    """An open file that lies nowhere."""
    made = os.memfd_create("sandbox", 0)
    while data:
        data = data[os.write(made, data) :]
    os.lseek(made, 0, os.SEEK_SET)
    return made


def _confine(plan: SandboxPlan, place: LandlockPlace) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    limits = plan.limits
    if limits.processes and os.getuid() != 0:  # the kernel counts none of root's
        _bound(resource.RLIMIT_NPROC, tasks_of_user() + limits.processes)
    _must(_prctl(libc, _SET_NO_NEW_PRIVILEGES, 1))
    landlock.restrict(place.read, place.write, place.abi)
    _drop_capabilities(libc)
    code = ctypes.create_string_buffer(plan.seccomp, len(plan.seccomp))
    count = len(plan.seccomp) // 8
    # The layout of struct sock_fprog: a count, then an address at the next place that fits one.
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", count, ctypes.addressof(code)))
    _must(_prctl(libc, _SET_SECCOMP, _FILTER, ctypes.addressof(filter_)))


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Root is then a user like others, who owns root's files."""
    for capability in range(_MOST_CAPABILITIES):
        if _prctl(libc, _DROP_BOUND, capability) < 0:
            break  # there are no more of them, or this user never had the right to have any
    _prctl(libc, _AMBIENT, _CLEAR_AMBIENT)
    _must(libc.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), struct.pack("6I", *[0] * 6)))


def tasks_of_user() -> int:
    """How many processes and threads this user has."""
    count, me = 0, os.getuid()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}").st_uid == me:
                    count += len(os.listdir(f"/proc/{entry}/task"))
            except OSError:
                continue  # it is gone
    return count


def _prctl(libc: ctypes.CDLL, option: int, *values: int) -> int:
    padded = (*values, 0, 0, 0, 0)[:4]
    return int(libc.prctl(option, *(ctypes.c_ulong(value) for value in padded)))


def _must(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
