"""A real pgbouncer in front of a database, where there is one: `apt-get install pgbouncer`, or
TURNBUCKLE_PGBOUNCER=/path/to/pgbouncer."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.postgres.server import until, who

IGNORED = (
    "client_min_messages, idle_in_transaction_session_timeout, lock_timeout, search_path, synchronous_commit, "
    "tcp_keepalives_count, tcp_keepalives_idle, tcp_keepalives_interval, tcp_user_timeout"
)
"""What it must be told to ignore before it takes a connection of ours."""
_SETTINGS = """
[databases]
postgres = host={database} port=5432 user=tester
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
unix_socket_mode = 0777
listen_port = 5432
auth_type = any
pool_mode = {mode}
ignore_startup_parameters = {ignored}
"""


def pgbouncer() -> str | None:
    """The program."""
    return os.environ.get("TURNBUCKLE_PGBOUNCER") or shutil.which(
        "pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin"
    )


@contextmanager
def pooled(program: str, database: Path, folder: Path, *, mode: str, ignored: str) -> Iterator[str]:
    """The address of a journal by a pooler in front of the server that listens in the folder `database`."""
    folder.chmod(0o777)
    file = folder / "pgbouncer.ini"
    file.write_text(_SETTINGS.format(database=database, folder=folder, mode=mode, ignored=ignored))
    process = subprocess.Popen([program, "-q", str(file)], cwd=folder, **who())
    try:
        until(lambda: _listens(folder / ".s.PGSQL.5432") or process.poll() is not None)
        yield f"postgresql://tester@/postgres?host={folder}&schema=pooled"
    finally:
        process.terminate()
        process.wait(100)


def _listens(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as line:
        return line.connect_ex(str(place)) == 0
