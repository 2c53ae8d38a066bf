"""Who listens at an address of this machine: nobody, another turnbuckle, or somebody else."""

import contextlib
import errno
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from turnbuckle.journal.sqlite.folder import has_writer, writing_process

_PATIENCE = 1.0
_LAST_PORT = 65_535
_MOST = 4096  # bytes of an answer that has forty
_LISTENS = "0A"  # in the kernel's table

Taken = Literal["free", "turnbuckle", "other", "unusable"]


class PortStatus(Struct, frozen=True):
    """`who` is a process where the system tells it, `why` the system's own words for an address that is no
    use."""

    state: Taken
    who: str = ""
    why: str = ""


def listener_at(host: str, port: int) -> PortStatus:
    """Look who listens there. Port 0 is always free."""
    if not 0 <= port <= _LAST_PORT:
        return PortStatus("unusable", why=f"ports go from 0 to {_LAST_PORT}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found[0][4])
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return PortStatus("unusable", why=error.strerror or str(error))
        return PortStatus(
            "turnbuckle" if is_turnbuckle(host, port) else "other", next(_processes_at(port), "")
        )
    return PortStatus("free")


def is_turnbuckle(host: str, port: int) -> bool:
    """Whether what listens there answers as a turnbuckle server does."""
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"http://[{near}]:{port}/healthz" if ":" in near else f"http://{near}:{port}/healthz"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=_PATIENCE) as answer:
            told = msgspec.json.decode(answer.read(_MOST), type=dict[str, str])
    except (OSError, ValueError, urllib.error.URLError, msgspec.DecodeError):
        return False
    return told.get("status") == "ok" and "version" in told


def serves(host: str, port: int, folder: Path) -> bool:
    """Whether the turnbuckle that listens there is the process that writes to this folder, and not that of
    another one on the usual port. Where the system does not tell who listens, it is believed."""
    if not (has_writer(folder) and is_turnbuckle(host, port)):
        return False
    writer, listening = writing_process(folder), list(_processes_at(port))
    return not writer or not listening or any(each.startswith(f"process {writer},") for each in listening)


def _processes_at(port: int) -> Iterator[str]:
    """All of them: the workers of a server share its port."""
    inodes = set(_inodes(port))
    if not inodes:
        return
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # somebody else's, or gone
            if any(_leads_to(link) in inodes for link in (folder / "fd").iterdir()):
                yield f"process {folder.name}, {(folder / 'comm').read_text().strip()}"


def _leads_to(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # closed meanwhile


def _inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield f"socket:[{fields[9]}]"
