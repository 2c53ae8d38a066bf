"""`--stalls SEED`: the tests on a machine that has no time for them.

Beside the tests, one process after the other that belongs to them is stopped for up to a second and goes on: workers,
servers, browsers, the database. What fails by that counts on being fast, or loses something in a moment that is usually
too short: a defect of the test or of what it tests. The seed says which ones, as far as the machine lets it.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LONGEST = 1.0
"""Seconds. A node that is silent for three is taken for dead, which would be another test."""
_PAUSE = 0.1
_never = threading.Event()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("workers").addoption(
        "--stalls",
        type=int,
        metavar="SEED",
        help="stop processes of the tests for up to a second, again and again, as a busy machine does",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    seed = session.config.getoption("--stalls")
    with contextlib.nullcontext() if seed is None else stalls(os.getpid(), seed):
        return (yield)


@contextmanager
def stalls(root: int, seed: int) -> Iterator[None]:
    """Stop what this process has started, and goes on to start, until the end."""
    stopper = subprocess.Popen(
        [sys.executable, __file__, str(root), str(seed)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        stopper.communicate()  # it looks whether somebody still holds its input


def descendants(root: int) -> list[int]:
    """All that a process has started, and that those have, in the order of their numbers."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            children[_stat(folder)[1]].append(int(folder.name))
    found, ahead = [], [root]
    while ahead:
        found += (more := children[ahead.pop()])
        ahead += more
    return sorted(found)


def is_stopped(process: int) -> bool:
    return _stat(Path(f"/proc/{process}"))[0] == "T"


def _stat(folder: Path) -> tuple[str, int]:
    """The state of a process, and its parent."""
    state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)


def _stop_one(process: int, seconds: float) -> None:
    with contextlib.suppress(OSError):  # it has ended since
        if not is_stopped(process):  # a test may have stopped it, for longer
            os.kill(process, signal.SIGSTOP)
            try:
                _never.wait(seconds)
            finally:
                os.kill(process, signal.SIGCONT)


def _main(root: int, seed: int) -> None:
    chance, over = random.Random(seed), threading.Event()

    def read() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=read, daemon=True).start()
    while not over.wait(chance.uniform(0, _PAUSE)):
        if there := [each for each in descendants(root) if each != os.getpid()]:
            _stop_one(
                chance.choice(there), chance.choice((LONGEST / 20, LONGEST / 5, chance.uniform(0, LONGEST)))
            )


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
