"""Which user of this machine is at the other end of a connection over loopback.

Without a key the server obeys whoever reaches it, and on loopback that is every user of the machine. The
kernel knows who owns the other end of a connection, so a server without keys serves its own user alone. Linux
tells by its socket diagnostics, one exact question for each connection; if they are shut off, by the table in
`/proc`. Elsewhere nobody tells, and the server makes a key of its own at its start.
"""

import atexit
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

Address = tuple[str, int]

_SOCK_DIAG = 4  # the protocol of netlink, and below the message: linux/sock_diag.h
_BY_FAMILY = 20
_REQUEST = 1
_ANY = 0xFFFFFFFF
_MOST_ASKED = 1 << 30
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=IHHII BBBBI HH16s16sIII")
"""The head; which family, protocol and states; the identity, which is ports, addresses and any cookie."""
_UID = struct.Struct("=I")
_UID_AT = _HEAD.size + 64  # behind family and state (4), the identity (48), and three counters (12)
_PATIENCE = struct.pack("@ll", 0, 500_000)  # half a second, for the kernel
_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}


class SameUser:
    """Lets in whoever is the user `uid`, as far as `look` can tell."""

    def __init__(self, uid: int, look: "Callable[[Address, Address], int | None] | None" = None) -> None:
        self._uid = uid
        self._look = look or peer_uid
        self._known: WeakKeyDictionary[object, bool] = WeakKeyDictionary()

    def allows(self, client: Address | None, server: Address | None, connection: object = None) -> bool:
        """Whether the client of this connection is that user; not if nobody can tell. Who is at the other end
        of a connection stays, so it is asked once for each `connection` that is named."""
        known = None if connection is None else self._known.get(connection)
        if known is None:
            known = client is not None and server is not None and self._look(client, server) == self._uid
            if connection is not None and known:
                self._known[connection] = known
        return known


def can_tell() -> bool:
    """Whether this machine tells who is at the other end: tried with a connection to ourselves."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here: Address = listening.getsockname()[:2]
        with socket.create_connection(here) as ours:
            return peer_uid(ours.getsockname()[:2], here) == os.getuid()


def peer_uid(client: Address, server: Address) -> int | None:
    """The user who owns the client's end of a connection within this machine; None if nobody can tell."""
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    try:
        ours, theirs = _packed(family, client), _packed(family, server)
    except OSError:
        return None  # not addresses, as behind a socket of the file system
    uid = _by_diagnostics(family, ours, theirs)
    return _by_table(family, ours, theirs) if uid is None else uid


def _packed(family: int, address: Address) -> tuple[bytes, int]:
    host = address[0].partition("%")[0]
    return socket.inet_pton(family, host), address[1]


def _by_diagnostics(family: int, ours: tuple[bytes, int], theirs: tuple[bytes, int]) -> int | None:
    if not hasattr(socket, "AF_NETLINK"):
        return None
    answer = _diagnosed(family, ours, theirs)
    if len(answer) < _UID_AT + _UID.size or _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    uid: int = _UID.unpack_from(answer, _UID_AT)[0]
    return uid


class _Asking(threading.local):
    """The socket by which the kernel is asked, once for each process and thread: to make one for each
    question takes longer than the answer."""

    process = 0
    number = 0
    line: socket.socket | None = None


_asking = _Asking()


def _diagnosed(family: int, ours: tuple[bytes, int], theirs: tuple[bytes, int]) -> bytes:
    """The kernel's answer; nothing if it gives none."""
    asking, process = _asking, os.getpid()
    try:
        if asking.line is None or asking.process != process:  # a child must not read its parent's answers
            asking.line = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
            # The kernel's own clocks: with those of Python each question and each answer is one more call.
            asking.line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)
            asking.line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
            atexit.register(asking.line.close)
            asking.process = process
        number = asking.number = asking.number % _MOST_ASKED + 1
        ports = socket.htons(ours[1]), socket.htons(theirs[1])
        identity = (*ports, ours[0], theirs[0], 0, _ANY, _ANY)
        head = (_QUESTION.size, _BY_FAMILY, _REQUEST, number, 0)
        question = _QUESTION.pack(*head, family, socket.IPPROTO_TCP, 0, 0, _ANY, *identity)
        asking.line.sendto(question, (0, 0))
        answer = asking.line.recv(4096)
    except OSError:
        answer = b""
    if len(answer) < _HEAD.size or _HEAD.unpack_from(answer)[3] != number:
        if asking.line is not None:  # what comes late must not be taken for the next answer
            atexit.unregister(asking.line.close)
            asking.line.close()
            asking.line = None
        return b""
    return answer


def _by_table(family: int, ours: tuple[bytes, int], theirs: tuple[bytes, int]) -> int | None:
    wanted = [_in_table(*ours), _in_table(*theirs)]
    try:
        lines = _TABLES[socket.AddressFamily(family)].read_text("ascii").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7])
    return None


def _in_table(host: bytes, port: int) -> str:
    """An address as the table has it: words of four bytes in the order of this machine."""
    words = (host[place : place + 4] for place in range(0, len(host), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"
