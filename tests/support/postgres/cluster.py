"""One Postgres cluster in a folder: made, started, stopped, killed and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.postgres.server import psql, until, usable_programs, who
from support.processes.folder_in_memory import short_folder

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",  # in the folder of the server, which is removed however the server ended
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_sync_method": "fdatasync",
    "autovacuum": "off",
    "jit": "off",
    "log_min_messages": "fatal",
}


@contextmanager
def own_cluster(**settings: str) -> Iterator["Cluster"]:
    """A server that nobody else uses, so that it may be stopped and killed. The machine below it does not lose power, so
    nothing waits for its disk."""
    cluster = Cluster(_new_folder(), fsync="off", **settings)
    try:
        cluster.make()
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@contextmanager
def standby_of(primary: "Cluster", **settings: str) -> Iterator["Cluster"]:
    """A server that has all that another one has, and can take its place."""
    cluster = Cluster(_new_folder(), fsync="off", **settings)
    try:
        cluster.copy(primary)
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def _new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tbpg-", dir=short_folder()))
    folder.chmod(0o755)
    return folder


class Cluster:
    """A server of its own. `folder` holds its data and its socket."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._settings = {**_SETTINGS, "unix_socket_directories": str(folder), **settings}
        self._programs = usable_programs(folder)
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def _make_folder(self) -> None:
        self._data.mkdir(mode=0o700)
        if owner := who():
            for place in (self.folder, self._data):
                os.chown(place, owner["user"], owner["group"])

    def copy(self, primary: "Cluster") -> None:
        """All that another one has, and from then on whatever comes."""
        self._make_folder()
        words = [str(self._programs / "pg_basebackup"), "-h", str(primary.folder), "-U", "tester"]
        more = ["-D", str(self._data), "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        done = subprocess.run(
            [*words, *more], check=False, capture_output=True, text=True, cwd=self.folder, **who()
        )
        assert done.returncode == 0, done.stderr

    def promote(self) -> None:
        """From here on it takes what is written."""
        self.sql("SELECT pg_promote()")

    def sql(self, text: str) -> str:
        return psql(self.folder, text)

    def make(self) -> None:
        self._make_folder()
        words = [
            str(self._programs / "initdb"),
            "-D",
            str(self._data),
            "-U",
            "tester",
            "-A",
            "trust",
            "-E",
            "UTF8",
        ]
        more = ["--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [*words, *more], check=False, capture_output=True, text=True, cwd=self.folder, **who()
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        words = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [str(self._programs / "postgres"), "-D", str(self._data), *words], cwd=self.folder, **who()
        )
        process = self._process
        until(lambda: self._is_ready() or process.poll() is not None)
        assert process.poll() is None, "Postgres ended"

    def _is_ready(self) -> bool:
        try:
            self.sql("SELECT 1")
        except AssertionError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends every session and stores what there is; SIGQUIT is what a power cut leaves."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(100)
            self._process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
