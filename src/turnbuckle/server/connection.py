"""A connection: uvicorn's HTTP/1.1 protocol with what a server of long streams needs besides.

- It is the `Line` of the requests that it carries: the app can hang up on a client, and is told at once when a client
  leaves, also while nothing is sent.
- `sweep`, called about once a second for all connections by one timer (`pulse.py`), drops those that will not come to
  an end by themselves: a client that takes nothing of what was sent, a request that stays half sent, a connection
  that nobody uses.
- A head over `MAX_HEAD` is refused; the parser itself would take any size. Bytes are counted while a head is not whole,
  and its parts when it is, since all of it may come in one read.
- The kernel is asked to give up on a peer that has vanished without a word.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from turnbuckle.server.http import Problem
from turnbuckle.server.problems import error_body, new_request_id

EXTENSION = "turnbuckle.line"
"""Under this name the app finds the line in the extensions of a request's scope."""

MAX_HEAD = 64 * 1024  # what other servers allow at most; a long key and forwarded headers stay far below
TOO_LARGE = "the head of the request is too large"
REQUEST_SECONDS = 30.0  # of silence in the middle of a request, and of being later than the slowest real client
SLOWEST = 500  # bytes in a second of a request that is coming in: less is no line that anybody has, but a wish to stay
IDLE_SECONDS = 75  # between requests: longer than the 60 s for which usual balancers keep a connection
PROBE_SECONDS = 30  # between probes of a silent peer by the kernel
UNSENT = 64 * 1024
"""Bytes that the kernel takes before it can send them. By itself it would take megabytes for a client that does not
read, and whoever reads slowly would look as if it took nothing."""
_REFUSAL = (
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"connection", b"close"),
)
_RESET = struct.pack("ii", 1, 0)  # linger, for no time: close by a reset


class Connection(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        send_timeout: float,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._send_timeout = send_timeout
        self._listener: Callable[[], None] | None = None
        self._lost = False
        self._dropped = False
        self._head = 0  # bytes of a head that has not ended; -1 while there is none
        self._parts = 0  # bytes of the parts of the head that the parser has found
        self._heard = self._began = self.loop.time()
        self._came = 0  # bytes of the request that is coming in, since it began
        self._unsent = 0
        self._unsent_since = self._heard

    # The line

    @property
    def gone(self) -> bool:
        return self._lost or self.transport.is_closing()

    @property
    def dropped(self) -> bool:
        return self._dropped

    @property
    def clear(self) -> bool:
        return not self.flow.write_paused and not self.gone

    def on_gone(self, call: Callable[[], None] | None) -> None:
        self._listener = call

    def abort(self) -> None:
        if self._lost:
            return
        peer = self.transport.get_extra_info("socket")
        if peer is not None:
            # Without this the kernel keeps what the peer does not take, for as long as it likes.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._mark()
        self.transport.abort()

    # The protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        watch_peer(transport, self._send_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._tell()

    def eof_received(self) -> None:
        # Nobody half-closes and then waits for a stream; and behind unsent bytes the loss would be noticed only later.
        self._mark()
        self._tell()

    def data_received(self, data: bytes) -> None:
        self._heard = self.loop.time()
        self._came += len(data)
        super().data_received(data)
        if self._head >= 0:
            self._head += len(data)
            if self._head > MAX_HEAD and not self.transport.is_closing():
                self._refuse(431, TOO_LARGE)

    def resume_writing(self) -> None:
        self._unsent = 0
        super().resume_writing()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = self._parts = self._came = 0
        self._began = self._heard
        cast(dict[str, Any], self.scope)["extensions"] = {EXTENSION: self}

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._parts += size
        if self._parts > MAX_HEAD:
            raise ValueError("the head is too large")  # ends the parsing, and `send_400_response` is called

    def on_headers_complete(self) -> None:
        self._head = -1
        if self.url[:1] not in (b"/", b"*"):
            self._take_host(httptools.parse_url(self.url))
        super().on_headers_complete()

    def _take_host(self, target: Any) -> None:
        """An address that names its host goes to that one, whatever the header says: so the standard has it, and so
        nobody gets around the check of the header."""
        if target.host:
            port = b":%d" % target.port if target.port else b""
            self.headers[:] = [header for header in self.headers if header[0] != b"host"]
            self.headers.append((b"host", target.host + port))

    def send_400_response(self, msg: str) -> None:
        if self._parts > MAX_HEAD:
            self._refuse(431, TOO_LARGE)
        else:
            self._refuse(400, "this is not a request of HTTP/1.1")

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked for another protocol."""

    def _refuse(self, status: int, why: str) -> None:
        """Answer for a request that never became one, and hang up."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.abort()  # an answer is under way, and nothing may be put into the middle of it
            return
        if self.transport.is_closing():
            return
        body = error_body(Problem(status, why))
        headers = (
            *self.server_state.default_headers,
            *_REFUSAL,
            (b"x-request-id", new_request_id().encode()),
            (b"content-length", b"%d" % len(body)),
        )
        head = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()

    # The sweep

    def sweep(self, now: float) -> bool:
        """Drop the connection if it leads nowhere, and say whether it was one whose client does not read."""
        if self._is_stuck(now):
            self._dropped = True
            self.abort()
            return True
        silent = now - self._heard
        if self.cycle is not None and not self.cycle.response_complete:
            if self.flow.read_paused:
                self._began, self._came = now, 0  # it is we who do not listen
            elif self.cycle.more_body and self._is_late(now):
                self.abort()
        elif self._is_late(now) if self._head >= 0 else silent > IDLE_SECONDS:
            self.transport.close()
        return False

    def _is_late(self, now: float) -> bool:
        """Whether the request that is coming in has stopped to, or comes so slowly that it may never end."""
        silent, late = now - self._heard, now - self._began - self._came / SLOWEST
        return max(silent, late) > REQUEST_SECONDS

    def _is_stuck(self, now: float) -> bool:
        """Whether the client has taken nothing for too long. Asked only while nothing is added to what it is to take:
        then less of it means that the client reads, however slowly."""
        if not (self.flow.write_paused or self.transport.is_closing()):
            return False
        unsent = self.transport.get_write_buffer_size()
        if self._unsent == 0 or unsent < self._unsent:
            self._unsent_since = now
        self._unsent = unsent
        return unsent > 0 and now - self._unsent_since >= self._send_timeout

    def _mark(self) -> None:
        """Let uvicorn know that an answer without an end is meant so."""
        if self.cycle is not None:
            self.cycle.disconnected = True

    def _tell(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()


def watch_peer(transport: asyncio.Transport, seconds: float) -> None:
    """Let the kernel notice a peer that is no longer there, which answers no probe or takes nothing for so long, and
    leave what can not be sent yet with us."""
    peer = transport.get_extra_info("socket")
    if peer is None or peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        "TCP_KEEPIDLE": PROBE_SECONDS,
        "TCP_KEEPINTVL": PROBE_SECONDS,
        "TCP_USER_TIMEOUT": int((seconds + PROBE_SECONDS) * 1000),  # later than the sweep, which can say why
        "TCP_NOTSENT_LOWAT": UNSENT,
    }
    for name, value in wanted.items():
        option = getattr(socket, name, None)  # not every system has each of them
        if option is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
