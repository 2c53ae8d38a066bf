"""A connection: HTTP/1.1 on httptools, with what a server of long streams needs besides.

- It is the `ClientConnection` of the requests that it carries: the app can hang up on a client, and is told
  at once when a client leaves, also while nothing is sent.
- Requests that come behind one another wait for their turn; while one waits, the peer is not listened to.
- `sweep`, called about once a second for all connections by one timer (`heartbeat.py`), drops those that will
  not come to an end by themselves: a client that takes nothing of what was sent, a request that stays half
  sent, a connection that nobody uses.
- A head over `MAX_HEAD` is refused; the parser itself would take any size. Bytes are counted while a head is
  not whole, and its parts when it is, since all of it may come in one read.
- A request to speak WebSocket where one is offered becomes one (`websocket_cycle.py`). To speak any other
  protocol is answered as if it had not asked, and the connection ends behind it.
- The kernel is asked to give up on a peer that has vanished without a word.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import httptools

from turnbuckle.server.http.cycle import STATUS_LINES, App, Cycle
from turnbuckle.server.http.exchange import Problem
from turnbuckle.server.http.problems import is_for_messages, new_request_id, written
from turnbuckle.server.http.websocket_cycle import WebSocketCycle

EXTENSION = "turnbuckle.client"
"""Under this name the app finds the connection in the extensions of a request's scope."""

MAX_HEAD = 64 * 1024  # what other servers allow at most; a long key and forwarded headers stay far below
TOO_LARGE = "the head of the request is too large"
FULL = "there are too many connections to the server (server.max_connections); try again in a moment"
NO_HOST = "a request of HTTP/1.1 names its host, once, in the header `Host`"
REQUEST_SECONDS = 30.0
"""Of silence in the middle of a request, and of being later than the slowest real client."""
# bytes in a second of a request that is coming in: nobody's line is slower than that: it is a wish to stay
SLOWEST = 500
IDLE_SECONDS = 75  # between requests: longer than the 60 s for which usual balancers keep a connection
PROBE_SECONDS = 30  # between probes of a silent peer by the kernel
UNSENT = 64 * 1024
"""Bytes that the kernel takes before it can send them. By itself it would take megabytes for a client that
does not read, and whoever reads slowly would look as if it took nothing."""
_REFUSAL = (
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"connection", b"close"),
)
_FRAMING = (b"content-length", b"transfer-encoding")
_RESET = struct.pack("ii", 1, 0)  # linger, for no time: close by a reset


class Listening:
    """What all connections of one server share: the app, who is connected, what is being answered. `most`
    connections are taken at once; one more is refused with words."""

    def __init__(
        self, app: App, send_timeout: float, most: int, sockets: frozenset[str] = frozenset(), size: int = 0
    ) -> None:
        """`sockets`: the paths at which a WebSocket is offered, for messages of up to `size` bytes."""
        self.app = app
        self.most = most
        self.sockets = sockets
        self.size = size
        self.send_timeout = send_timeout
        self.connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.default_headers: tuple[tuple[bytes, bytes], ...] = ()
        self.watches = False
        """Whether the socket that listens has told the kernel already to watch over its connections."""


class HttpConnection(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._cycle: Cycle | None = None  # the request that is coming in, or the last one that came
        self._answering: Cycle | WebSocketCycle | None = None
        self._waiting: deque[Cycle] = deque()
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._framing = b""  # the headers that say how long the body is
        self._resuming = False
        self._expects_continue = False
        self._deaf = False
        self._writable: asyncio.Event | None = None  # there is one while the peer has too much to take
        self._listener: Callable[[], None] | None = None
        self._lost = False
        self._dropped = False
        self._closing = False
        self._head = 0  # bytes of a head that has not ended; -1 while there is none
        self._parts = 0  # bytes of the parts of the head that the parser has found
        self._heard = self._began = self._loop.time()
        self._came = 0  # bytes of the request that is coming in, since it began
        self._unsent = 0
        self._unsent_since = self._heard

    # For whoever answers

    @property
    def gone(self) -> bool:
        return self._lost or self.transport.is_closing()

    @property
    def dropped(self) -> bool:
        return self._dropped

    @property
    def clear(self) -> bool:
        return self._writable is None and not self.gone

    @property
    def has_body(self) -> bool:
        return isinstance(self._answering, Cycle) and not self._answering.more_body

    def on_gone(self, call: Callable[[], None] | None) -> None:
        self._listener = call

    def push(self, body: bytes) -> bool:
        answering = self._answering
        return self._writable is None and isinstance(answering, Cycle) and answering.push(body)

    def abort(self) -> None:
        if self._lost:
            return
        peer = self.transport.get_extra_info("socket")
        if peer is not None:
            # Without this the kernel keeps what the peer does not take, for as long as it likes.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._disconnect()
        self.transport.abort()

    def shutdown(self) -> None:
        """End in good order: now if nothing is under way, else behind the answer that is."""
        self._closing = True
        if self._answering is None:
            self.transport.close()
        elif isinstance(self._answering, WebSocketCycle):
            self._answering.go_away()
        else:
            self._answering.keep_alive = False

    # For the cycles

    @property
    def default_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        return self._listening.default_headers

    def listen(self, listening: bool) -> None:
        if listening and self._deaf and not self._waiting and not self._lost:
            self._deaf = False
            self.transport.resume_reading()
        elif not listening and not self._deaf and not self._lost:
            self._deaf = True
            self.transport.pause_reading()

    async def drain(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    def cycle_ended(self, cycle: Cycle | WebSocketCycle) -> None:
        self._answering = None
        self._heard = self._loop.time()
        if self._lost or self.transport.is_closing():
            return
        if self._closing:
            self.transport.close()
        elif self._waiting:
            self._answer(self._waiting.popleft())
        self.listen(True)

    # The protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # that of uvloop is not one by its class
        if len(self._listening.connections) >= self._listening.most:
            self._refuse(503, FULL)
            return
        self._listening.connections.add(self)
        if not self._listening.watches:
            watch_peer(self.transport.get_extra_info("socket"), self._listening.send_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._listening.connections.discard(self)
        self._waiting.clear()
        self._disconnect()
        self.resume_writing()
        self._tell()

    def eof_received(self) -> None:
        # Nobody half-closes and then waits for a stream; and behind unsent bytes the loss would be noticed
        # only later.
        self._disconnect()
        self._tell()

    def pause_writing(self) -> None:
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        self._unsent = 0
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._came += len(data)
        if (socket := self._socket()) is not None:
            socket.feed(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._socket() is not None:
                return  # a client may not speak before our yes
            self._read_on(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if self._parts > MAX_HEAD:
                self._refuse(431, TOO_LARGE)
            else:
                self._refuse(400, "this is not a request of HTTP/1.1")
        if self._head >= 0:
            self._head += len(data)
            if self._head > MAX_HEAD and not self.transport.is_closing():
                self._refuse(431, TOO_LARGE)

    # The parser

    def _read_on(self, rest: bytes) -> None:
        """Read the body of a request that asked for another protocol. The parser takes it for that one, so a
        new parser gets the framing of the body again, and then the body."""
        if not self._framing:
            return  # nothing of ours stands behind it
        self._parser = httptools.HttpRequestParser(self)
        self._resuming = True
        try:
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % self._framing)
        finally:
            self._resuming = False
        self.data_received(rest)

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        self._framing = b""
        self._head = self._parts = self._came = 0
        self._began = self._heard
        self._url = b""
        self._headers = []
        self._expects_continue = False

    def on_url(self, url: bytes) -> None:
        if self._resuming:
            return
        self._count(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._resuming:
            return
        self._count(len(name) + len(value) + 4)
        name = name.lower()
        if name in _FRAMING:
            self._framing += b"%b: %b\r\n" % (name, value)
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def _count(self, size: int) -> None:
        self._parts += size
        if self._parts > MAX_HEAD:
            raise ValueError("the head is too large")  # ends the parsing, and the request is refused

    def on_headers_complete(self) -> None:
        if self._resuming:
            return
        self._head = -1
        target = httptools.parse_url(self._url)
        if self._url[:1] not in (b"/", b"*"):
            self._take_host(target)
        version = self._parser.get_http_version()
        if version == "1.1" and [name for name, _ in self._headers].count(b"host") != 1:
            self._refuse(400, NO_HOST)
            return
        path = target.path or b"/"
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "scheme": "http",
            "root_path": "",
            "path": unquote_to_bytes(path).decode("utf-8", "replace")
            if b"%" in path
            else path.decode("latin-1"),
            "raw_path": path,
            "query_string": target.query or b"",
            "headers": self._headers,
            "client": self.transport.get_extra_info("peername"),
            "server": self.transport.get_extra_info("sockname"),
            "extensions": {EXTENSION: self},
        }
        if self._wants_socket(scope):
            self._begin_socket(scope)
            return
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        cycle = self._cycle = Cycle(
            self,
            scope,
            keep_alive=keep_alive and not self._closing,
            expects_continue=self._expects_continue,
        )
        if self._answering is None:
            self._answer(cycle)
        else:
            self._waiting.append(cycle)
            self.listen(False)

    def _socket(self) -> WebSocketCycle | None:
        return self._answering if isinstance(self._answering, WebSocketCycle) else None

    def _wants_socket(self, scope: dict[str, Any]) -> bool:
        if scope["method"] != "GET" or scope["path"] not in self._listening.sockets:
            return False
        asks = any(name == b"upgrade" and value.lower() == b"websocket" for name, value in self._headers)
        return asks and self._parser.should_upgrade() and self._answering is None and not self._closing

    def _begin_socket(self, scope: dict[str, Any]) -> None:
        cycle = WebSocketCycle(self, scope, max_size=self._listening.size)
        cycle.begin(b"GET", self._url, self._headers)
        self._cycle = None
        self._answer(cycle)

    def on_body(self, body: bytes) -> None:
        if self._cycle is not None:
            self._cycle.feed(body)

    def on_message_complete(self) -> None:
        cut_off = self._parser.should_upgrade() and self._framing  # its body comes by `_read_on`
        if self._cycle is not None and not cut_off:
            self._cycle.end_body()

    def _answer(self, cycle: Cycle | WebSocketCycle) -> None:
        self._answering = cycle
        task = self._loop.create_task(cycle.run(self._listening.app))
        self._listening.tasks.add(task)
        task.add_done_callback(self._listening.tasks.discard)

    def _take_host(self, target: Any) -> None:
        """An address that names its host goes to that one, whatever the header says: so the standard has it,
        and so nobody gets around the check of the header."""
        if target.host:
            port = b":%d" % target.port if target.port else b""
            self._headers[:] = [header for header in self._headers if header[0] != b"host"]
            self._headers.append((b"host", target.host + port))

    def _refuse(self, status: int, why: str) -> None:
        """Answer for a request that never became one, and hang up."""
        self._cycle = None
        if self._answering is not None and not self._answering.answered:
            self.abort()  # an answer is under way, and nothing may be put into the middle of it
            return
        if self.transport.is_closing():
            return
        request_id, path = new_request_id(), self._url.partition(b"?")[0].decode("latin-1")
        messages_id = request_id if is_for_messages(path, {}) else ""
        body = written(Problem(status, why), messages_id).body
        headers = (
            *self.default_headers,
            *_REFUSAL,
            *(((b"retry-after", b"1"),) if status == 503 else ()),
            (b"x-request-id", request_id.encode()),
            (b"content-length", b"%d" % len(body)),
        )
        head = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(STATUS_LINES[status] + head + b"\r\n" + body)
        self.transport.close()

    # The sweep

    def sweep(self, now: float) -> bool:
        """Drop the connection if it leads nowhere, and say whether it was one whose client does not read."""
        if self._is_stuck(now):
            self._dropped = True
            self.abort()
            return True
        if self._answering is not None and not self._answering.answered:
            if self._deaf:
                self._began, self._came = now, 0  # it is we who do not listen
            elif self._answering.more_body and self._is_late(now):
                self.abort()
        elif self._is_late(now) if self._head >= 0 else now - self._heard > IDLE_SECONDS:
            self.transport.close()
        return False

    def _is_late(self, now: float) -> bool:
        """Whether the request that is coming in has stopped to, or comes so slowly that it may never end."""
        silent, late = now - self._heard, now - self._began - self._came / SLOWEST
        return max(silent, late) > REQUEST_SECONDS

    def _is_stuck(self, now: float) -> bool:
        """Whether the client has taken nothing for too long. Asked only while nothing is added to what it is
        to take: then less of it means that the client reads, however slowly."""
        if self._writable is None and not self.transport.is_closing():
            return False
        unsent = self.transport.get_write_buffer_size()
        if self._unsent == 0 or unsent < self._unsent:
            self._unsent_since = now
        self._unsent = unsent
        return unsent > 0 and now - self._unsent_since >= self._listening.send_timeout

    def _disconnect(self) -> None:
        """Let all who answer here know that nobody listens."""
        for cycle in (self._answering, self._cycle):
            if cycle is not None:
                cycle.disconnect()

    def _tell(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()


def watch_peer(peer: Any, seconds: float) -> None:
    """Let the kernel notice a peer that is no longer there, which answers no probe or takes nothing for so
    long, and leave what cannot be sent yet with us. `peer` is a socket; on Linux one that listens gives all
    of this to its connections."""
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
