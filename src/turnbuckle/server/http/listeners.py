"""The sockets that listen, and how several processes of one server share them.

A socket that listens gives its options to its connections, but only to those that come later. So everything
is set before the first client can come.

Worker processes share one socket, since what waits in it is lost with no worker: whoever lives takes it. By
itself that is unfair: all of them are woken, and one that has just begun to take connections takes all that
wait. So each takes one at a time, and one that has more to do than another lets that one go first for a
moment. It takes the connection itself if nobody came: a worker that hangs holds nobody up.
"""

import asyncio
import errno
import logging
import mmap
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from turnbuckle.errors import CanNotListen
from turnbuckle.server.http.connection import watch_peer

BACKLOG = 2048
COURTESY = 0.001
"""Seconds that a worker leaves to one that has less to do."""
_PAUSE = 1.0  # seconds without taking anybody, once there is no descriptor left
_ABSENT = -1
_LOAD = struct.Struct("=q")
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger("turnbuckle.server")


class ConnectionSource(Protocol):
    """What takes connections until it is closed."""

    def close(self) -> None: ...


def open_listeners(host: str, port: int, send_timeout: float) -> list[socket.socket]:
    """A socket for each address that the host's name has, ready to listen. Raises CanNotListen."""
    opened: list[socket.socket] = []
    try:
        wanted = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(wanted):
            made = socket.socket(family, kind, protocol)
            opened.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if sys.platform == "linux":
                watch_peer(made, send_timeout)
            made.setblocking(False)
            made.bind(address)
            made.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        for made in opened:
            made.close()
        raise CanNotListen(_words(host, port, error)) from None
    return opened


def _words(host: str, port: int, error: OSError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return f"there is no port {port}; ports go from 0 to 65535"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use; choose another by --port, or --port 0 for any free one"
    return f"cannot listen on {host} port {port}: {error.strerror or error}"


def address_of(sockets: Sequence[socket.socket]) -> str:
    """Where the server can be reached, with the port that it really has."""
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Loads:
    """How much each worker has to do, in memory that all of them share."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, count * _LOAD.size)
        self._count = count
        for worker in range(count):
            self.forget(worker)

    def tell(self, worker: int, load: int) -> None:
        _LOAD.pack_into(self._memory, worker * _LOAD.size, load)

    def forget(self, worker: int) -> None:
        """It takes nobody any more."""
        self.tell(worker, _ABSENT)

    def is_busiest(self, worker: int) -> bool:
        """Whether another one that is there has less to do."""
        told = [_LOAD.unpack_from(self._memory, each * _LOAD.size)[0] for each in range(self._count)]
        return any(_ABSENT < load < told[worker] for load in told)


class SharedListener:
    """Takes connections from a socket that other processes take them from, too."""

    def __init__(
        self,
        listening: socket.socket,
        accept: Callable[[], asyncio.BaseProtocol],
        loads: Loads,
        worker: int,
        load: Callable[[], int],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._accept = accept
        self._loads = loads
        self._worker = worker
        self._load = load
        self._later: asyncio.TimerHandle | None = None
        self._taking: set[asyncio.Task[object]] = set()
        loads.tell(worker, load())
        self._loop.add_reader(listening, self._come)

    def close(self) -> None:
        self._loads.forget(self._worker)
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _come(self) -> None:
        self._loads.tell(self._worker, self._load())
        if self._loads.is_busiest(self._worker):
            self._wait(COURTESY)
        else:
            self._take()

    def _wait(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._later = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._later = None
        self._loop.add_reader(self._socket, self._come)
        self._take()

    def _take(self) -> None:
        try:
            taken, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return  # another worker has it, or the client has left
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            log.error("no connection can be taken for %g s: %s", _PAUSE, error.strerror)
            self._wait(_PAUSE)
            return
        taken.setblocking(False)
        taking = self._loop.create_task(self._loop.connect_accepted_socket(self._accept, taken))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)

    def _taken(self, taking: "asyncio.Task[object]") -> None:
        self._taking.discard(taking)
        if not taking.cancelled() and (error := taking.exception()) is not None:
            log.debug("a client left before it was taken: %s", error)
