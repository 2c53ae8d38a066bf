"""The `turnbuckle` command in a terminal of its own, that a test can close as somebody closes a window."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from support.processes.commands import ENVIRONMENT


def start_in_terminal(folder: Path, *arguments: str, log: Path | None = None) -> tuple[int, int]:
    """Give the process and our end of its terminal. With a log, what it prints goes there instead."""
    process, terminal = os.forkpty()
    if process == 0:
        _become(folder, arguments, log)
    return process, terminal


def _become(folder: Path, arguments: tuple[str, ...], log: Path | None) -> NoReturn:
    # Whoever runs the tests with `nohup` has them ignore this signal, and a child would go on ignoring it.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(folder)
    if log is not None:
        file = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1)
        os.dup2(file, 2)
    command = [sys.executable, "-m", "turnbuckle.cli.main", *arguments]
    os.execve(sys.executable, command, {**ENVIRONMENT, "TERM": "xterm"})
