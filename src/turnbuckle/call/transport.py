"""One HTTP exchange, as bytes and failures. No retry, no redirect, no time limit of its own, and no exception
gets out.

Theory of operation. `Connections` is the shared pool. An `UpstreamExchange` runs its request in one task, so
that it can be given up at any step, and reads its body straight from the pool's buffers. `abort` may be
called by a timer or a stop at any moment: it drops the socket at once (a polite close would wait for a peer
that is gone) and wakes the reader. What had arrived before a connection broke is still handed over, and only
then the failure. After a proper end the connection has a moment to bring the body's terminator, which returns
it to the pool; else it is dropped.

A real model sends its words one by one, each as one chunk of the body in one read. While a reader waits who
brought a way to take such chunks (`hand_to`), it is handed them where they arrive, and neither the library
nor the reader's task does anything. Whatever else arrives goes through the library, as always.

Proxies come from the environment, asked for here and not by the HTTP library, because that would also read a
netrc file and then refuse requests that carry a key.
"""

import asyncio
import io
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_proto import ResponseHandler
from msgspec import Struct

from turnbuckle.call.body_cache import BodyCache
from turnbuckle.call.clock import SystemClock
from turnbuckle.vocab.failure import Failure, failure

LINGER = 1.0
"""So long may a body take, behind the protocol's last word, to end."""
_POOLED = 20.0
_LARGE = 2**20
_KEEPALIVE = (60, 10, 3)  # idle, between probes, probes: a dead peer is noticed in a minute and a half
_USER_TIMEOUT_MS = 120_000
_BUFFERS = ("_buffer", "_buffer_offset")  # of aiohttp's reader: what has arrived and was not taken
_SPLITS = "_http_chunk_splits"  # and where in it chunks of the body ended
_CONNECTOR = ("_factory", "_loop")  # of its connector: what makes its end of a connection, and where
_CHUNK_HEAD = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_CHUNK_END = b"\n\r\n"  # of one that ends like an event
_NO_LIMIT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

_current: "ContextVar[UpstreamExchange | None]" = ContextVar("exchange", default=None)


class ResponseHead(Struct, frozen=True):
    """The status line and the headers, with names in lower case."""

    status: int
    headers: dict[str, str]


class Connections:
    """The pool that all attempts share. Made inside a running loop, closed once."""

    def __init__(self) -> None:
        connector = _WatchedConnector(limit=0, keepalive_timeout=_POOLED, socket_factory=open_socket)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=_NO_LIMIT,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "turnbuckle", "accept-encoding": "identity"},
            trust_env=False,
        )
        self._lingering: set[UpstreamExchange] = set()
        self.bodies = BodyCache(SystemClock())
        """What is sent through them, encoded once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for exchange in tuple(self._lingering):
            exchange.let_go()
        self.bodies.close()
        await self._session.close()

    def exchange(self, url: str, headers: dict[str, str], body: bytes) -> "UpstreamExchange":
        """A POST that is not yet sent."""
        return UpstreamExchange(self._session, url, headers, body, self._lingering)


def check_library(reader: type, connector: object) -> None:
    """Raises RuntimeError if the HTTP library is one whose buffers and connections we do not know: what had
    arrived before a connection broke would be lost without a word, and nothing would be handed over where it
    arrives."""
    for name, part, needed in (
        (reader.__name__, reader, (*_BUFFERS, _SPLITS)),
        ("connector", connector, _CONNECTOR),
    ):
        if missing := [one for one in needed if not hasattr(part, one)]:
            raise RuntimeError(
                f"aiohttp {aiohttp.__version__} is not supported: its {name} "
                f"has no {' and no '.join(missing)}; install the version that turnbuckle asks for"
            )


class _Handler(ResponseHandler):
    """The library's end of a connection. The exchange that has it hears of all that arrives."""

    exchange: "UpstreamExchange | None" = None

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            super().data_received(data)
        elif not exchange.take_chunk(data):
            super().data_received(data)
            exchange.look(data)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """The library calls this for every chunk that is taken out of its buffer. Where nothing was paused
        there is nothing to resume."""
        if self._reading_paused or self._buffer_paused or self._tail:
            super().resume_reading(resume_parser)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.exchange is not None:
            self.exchange.lost()


class _WatchedConnector(aiohttp.TCPConnector):
    """Tells an exchange about its connection as soon as it is there, TLS and proxy included."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_library(aiohttp.StreamReader, self)
        handler: type[ResponseHandler] = _Handler
        self._factory = partial(handler, loop=self._loop)

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **kwargs)
        exchange = _current.get()
        if exchange is not None:
            exchange.take_connection(connection)
        return connection


class UpstreamExchange:
    """One request and its answer. `connected` is called when the connection stands. `lingering` are those
    whose bodies have not ended yet although nobody reads them any more."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        headers: dict[str, str],
        body: bytes,
        lingering: "set[UpstreamExchange]",
    ) -> None:
        self.connected: Callable[[], None] | None = None
        self._session = session
        self._url = url
        self._headers = headers
        self._body = body
        self._lingering = lingering
        self._task: asyncio.Task[aiohttp.ClientResponse] | None = None
        self._transport: asyncio.Transport | None = None
        self._handler: _Handler | None = None
        self._response: aiohttp.ClientResponse | None = None
        self._taken = 0
        self._over: Failure | None = None
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], None] | None = None
        self._is_tidy = False  # the last bytes that the library got ended like a chunk
        self._between: bool | None = None  # its parser stands between two chunks; None: not known

    async def send(self) -> ResponseHead | Failure:
        """Send the request and wait for the head of the answer."""
        if (aborted := self._aborted()) is not None:
            return aborted
        loop = asyncio.get_running_loop()
        task = self._task = loop.create_task(self._post())
        over: asyncio.Future[None] = loop.create_future()
        task.add_done_callback(partial(_mark_done, over))
        try:
            await over  # and not the task, which is given up without an error here
        except asyncio.CancelledError:
            self.abort(failure("cancelled", "nobody waits for the answer any more"))
            raise
        self._task = None
        if (aborted := self._aborted()) is not None:
            _drop(task)
            return aborted
        error = task.exception()
        if error is not None:
            return self._break(from_exception(error))
        response = self._response = task.result()
        if self._handler is not None and self._handler.transport is None:
            self.lost()  # it was, before anybody had the answer
        return ResponseHead(
            response.status, {name.lower(): _legible(value) for name, value in response.headers.items()}
        )

    def hand_to(self, take: Callable[[bytes], None]) -> None:
        """From here on chunks of the body that come alone go to `take` while `wait` waits. It must not raise;
        `wake` ends the wait."""
        response = self._response
        if response is not None and "Content-Encoding" not in response.headers:
            self._take = take

    async def wait(self) -> None:
        """Until something has arrived that was not handed over, or it is over, or somebody calls `wake`."""
        if self._over is not None or self._response is None or self.has_unread:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes | Failure:
        """The bytes that are there, or the next ones to come. Empty at the proper end of the body."""
        while self._over is None and self._response is not None and not self.has_unread:
            await self.wait()
        return self.read_now()

    def read_now(self) -> bytes | Failure:
        """The bytes that are there. Empty at the proper end of the body."""
        response = self._response
        if self._over is not None or response is None:
            return self._over or failure("reset", "there is no answer to read")
        try:
            chunk = response.content.read_nowait()
        except Exception as error:
            return self._over or self._break_off(response.content, error)
        self._taken += len(chunk)
        return chunk if self._over is None else self._over

    def take_chunk(self, data: bytes) -> bool:
        """Hand these bytes to who waits for them, if they are one whole chunk of the body. False if they are
        the library's."""
        take, waiter = self._take, self._waiter
        if take is None or waiter is None or data[-3:] != _CHUNK_END or waiter.done():
            return False
        head = _CHUNK_HEAD.match(data)
        if head is None or not (self._between or self._is_between_chunks()):
            return False
        begin, size = head.end(), int(head[1], 16)
        if not size or begin + size + 2 != len(data):  # one without a size ends the body
            return False
        take(data[begin:-2])
        return True

    def _is_between_chunks(self) -> bool:
        """Whether the library's parser would take the next bytes for the head of a chunk. Behind a chunk
        whose last line has ended, the only other end of a read that looks like this is that of the body."""
        if self._between is None:
            assert self._response is not None
            content = self._response.content
            splits = getattr(content, _SPLITS)
            self._between = self._is_tidy and bool(splits) and splits[-1] == content.total_bytes
        return self._between

    def lost(self) -> None:
        """The connection is gone. If the body was no HTTP in the midst, the library says so to nobody."""
        content = self._response.content if self._response is not None else None
        if content is not None and not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the rest of the body is not HTTP"))
        self.look(b"")

    def look(self, data: bytes) -> None:
        """The library has taken these bytes."""
        self._between = None
        if data:
            self._is_tidy = data[-3:] == _CHUNK_END
        if self._waiter is not None and self.has_unread:
            self.wake()

    @property
    def has_unread(self) -> bool:
        """Whether something has arrived that nobody has taken yet: bytes, the end or a failure."""
        if self._response is None:
            return False
        content = self._response.content
        return content.total_bytes > self._taken or content.is_eof() or content.exception() is not None

    def abort(self, why: Failure) -> None:
        """Drop the connection now. Whoever waits for this exchange gets `why`. Harmless when it is over."""
        if self._over is None:
            self._over = why
        self._drop()
        self.wake()

    def finish(self) -> None:
        """All that was wanted has come. The connection goes back to the pool if its body ends soon."""
        self.connected = self._take = None
        response = self._response
        if response is None or response.closed or response.content.is_eof():
            self._drop()
            return
        self._lingering.add(self)
        asyncio.get_running_loop().call_later(LINGER, self.let_go)

    def let_go(self) -> None:
        """Wait no longer for the end of the body."""
        self._lingering.discard(self)
        self._drop()

    def take_connection(self, connection: aiohttp.connector.Connection) -> None:
        """The pool's word that the connection stands."""
        self._transport = connection.transport
        if isinstance(connection.protocol, _Handler):
            self._handler = connection.protocol
            self._handler.exchange = self
        if self.connected is not None:
            self.connected()

    def _aborted(self) -> Failure | None:
        return self._over

    async def _post(self) -> aiohttp.ClientResponse:
        _current.set(self)
        proxy, credentials = proxy_for(self._url)
        return await self._session.post(
            self._url,
            # The library wants large bodies as a file, which it sends in pieces.
            data=self._body if len(self._body) < _LARGE else io.BytesIO(self._body),
            headers=self._headers,
            allow_redirects=False,
            proxy=proxy,
            proxy_headers=credentials,
        )

    def _break_off(self, content: aiohttp.StreamReader, error: Exception) -> bytes | Failure:
        broken = self._break(from_exception(error))
        # The library forgets what it has buffered as soon as the connection breaks; we do not.
        buffered, offset = (getattr(content, name) for name in _BUFFERS)
        left = b"".join(buffered)[offset:]
        return left if left and content.total_bytes > self._taken else broken

    def _break(self, broken: Failure) -> Failure:
        self._over = broken
        self._drop()
        return broken

    def _drop(self) -> None:
        response, self._response = self._response, None
        task, self._task = self._task, None
        transport, self._transport = self._transport, None
        handler, self._handler = self._handler, None
        if handler is not None and handler.exchange is self:
            handler.exchange = None
        ended = response is not None and response.content.is_eof() and response.content.exception() is None
        if transport is not None and not ended:
            transport.abort()
        if response is not None:
            response.close()
        if task is not None:
            task.add_done_callback(_drop)
            task.cancel()


def _mark_done(over: "asyncio.Future[None]", _: object) -> None:
    if not over.done():
        over.set_result(None)


def _drop(task: "asyncio.Task[aiohttp.ClientResponse]") -> None:
    """Nobody wants what this task brings."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def open_socket(address: Any) -> socket.socket:
    """A socket that notices a peer that is gone."""
    family, kind, proto, _, _ = address
    opened = socket.socket(family, kind, proto)
    opened.setblocking(False)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return opened
    idle, between, probes = _KEEPALIVE
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "darwin":
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, idle)
    elif hasattr(socket, "TCP_KEEPIDLE"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    if hasattr(socket, "TCP_KEEPINTVL"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, between)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
    return opened


def proxy_for(url: str) -> tuple[str | None, dict[str, str] | None]:
    """The proxy that the environment names for this address, and the header with its credentials."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or _is_loopback(host) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None, None
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named:
        return None, None
    if "://" not in named:
        named = f"http://{named}"
    proxy = urlsplit(named)
    plain = proxy._replace(netloc=proxy.netloc.rpartition("@")[2]).geturl()
    if proxy.username is None:
        return plain, None
    credentials = aiohttp.encode_basic_auth(unquote(proxy.username), unquote(proxy.password or ""))
    return plain, {"authorization": credentials}


@lru_cache(64)
def _is_loopback(host: str) -> bool:
    """Whether a host is this machine, which no proxy can reach for us."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def from_exception(error: BaseException) -> Failure:
    """What went wrong below us, as a value. No request header is ever part of the words."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _never(f"the certificate of {error.host} is not trusted: {error.certificate_error}")
        case aiohttp.ClientHttpProxyError():
            words = f"the proxy refused the connection: {error.status} {error.message}"
            return failure("connect", words) if error.status >= 500 else _never(words)
        case aiohttp.ClientConnectorDNSError():
            return failure("connect", f"no such host: {error.host}")
        case aiohttp.ClientConnectorError():
            return failure("connect", f"no connection to {error.host}:{error.port}: {_words(error.os_error)}")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return _never("the address of the route cannot be used; base_url must be http:// or https://")
        case aiohttp.ServerDisconnectedError():
            return failure("reset", "the connection was closed before an answer came")
        case aiohttp.ClientPayloadError():
            return _from_payload(error)
        case aiohttp.ClientResponseError():
            return failure("garbage", f"the answer is not HTTP: {error.message}")
        case aiohttp.ClientConnectionError() | OSError():
            return failure("reset", f"the connection broke: {_words(error)}")
        case _:
            return _never(f"the request could not be made: {_words(error)}")


def _from_payload(error: aiohttp.ClientPayloadError) -> Failure:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError):
            return failure("reset", f"the connection broke in the body: {_words(seen)}")
        seen = seen.__cause__ or seen.__context__
    if "ConnectionResetError" in str(error) or "BrokenPipeError" in str(error):
        return failure("reset", "the connection was reset in the body")
    return failure("incomplete", "the connection was closed before the body ended")


def _never(words: str) -> Failure:
    """A failure to connect that no second try will change."""
    return Failure("connect", words, False)


def _words(error: BaseException) -> str:
    """What an error says to people: its words, without the system's number for it. Of a connection that
    failed Python tells an address instead."""
    words = error.strerror if isinstance(error, OSError) else None
    if words and words.startswith("Connect call failed") and isinstance(error, OSError) and error.errno:
        words = os.strerror(error.errno)
    return words[:1].lower() + words[1:] if words else str(error) or type(error).__name__


def _legible(value: str) -> str:
    """A header's value. Its bytes may be no text, and then stand for themselves in a form that nobody can
    write."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
