"""The temporary files and the home of a session's commands: theirs alone, below the data folder.

Commands of one session find there what earlier ones left. Whoever runs there holds a lock on the folder
(`guard.plan_from`), so one that nobody has used for a day can be removed without asking who might be at
work."""

import fcntl
import hashlib
import os
import shutil
import time
from pathlib import Path

from turnbuckle.tools.private import private_folder

FOLDER = "scratch"
KEPT_SECONDS = 86_400.0


def scratch_of(data: Path, session: str) -> Path:
    """The folder of a session, made if it is not there. Raises OSError."""
    home = data / FOLDER
    folder = _folder(data, session)
    for name in ("tmp", "home", "shm"):
        private_folder(folder / name, data)
    now = time.time()
    os.utime(folder, (now, now))
    for other in home.iterdir():
        if other != folder and other.stat().st_mtime < now - KEPT_SECONDS:
            _remove(other)
    return folder


def forget_scratch(data: Path, session: str) -> None:
    """Remove what a session left, unless something still runs there."""
    _remove(_folder(data, session))


def _folder(data: Path, session: str) -> Path:
    return data / FOLDER / hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:16]


def _remove(folder: Path) -> None:
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return  # it is gone
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return  # somebody is at work there
    finally:
        os.close(opened)
