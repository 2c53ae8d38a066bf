"""One HTTP exchange, as bytes and failures. No retry, no redirect, no time limit of its own, and no exception
gets out.

Theory of operation. `Connections` is the shared pool. An `UpstreamExchange` runs its request in one task, so
that it can be given up at any step, and reads its body straight from the pool's buffers. `abort` may be
called by a timer or a stop at any moment: it drops the socket at once (a polite close would wait for a peer
that is gone) and wakes the reader. What had arrived before a connection broke is still handed over, and only
then the failure. After a proper end the connection has a moment to bring the body's terminator, which returns
it to the pool; else it is dropped.

Proxies come from the environment, asked for here and not by the HTTP library, because that would also read a
netrc file and then refuse requests that carry a key.
"""

import asyncio
import io
import ipaddress
import socket
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
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
_NO_LIMIT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

_current: "ContextVar[UpstreamExchange | None]" = ContextVar("exchange", default=None)


class ResponseHead(Struct, frozen=True):
    """The status line and the headers, with names in lower case."""

    status: int
    headers: dict[str, str]


class Connections:
    """The pool that all attempts share. Made inside a running loop, closed once."""

    def __init__(self) -> None:
        check_library(aiohttp.StreamReader)
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


def check_library(reader: type) -> None:
    """Raises RuntimeError if the HTTP library is one whose buffers we do not know: what had arrived before a
    connection broke would be lost without a word."""
    if missing := [name for name in _BUFFERS if not hasattr(reader, name)]:
        raise RuntimeError(
            f"aiohttp {aiohttp.__version__} is not supported: its {reader.__name__} "
            f"has no {' and no '.join(missing)}; install the version that turnbuckle asks for"
        )


class _WatchedConnector(aiohttp.TCPConnector):
    """Tells an exchange about its connection as soon as it is there, TLS and proxy included."""

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **kwargs)
        exchange = _current.get()
        if exchange is not None:
            exchange.take_connection(connection.transport)
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
        self._response: aiohttp.ClientResponse | None = None
        self._taken = 0
        self._over: Failure | None = None

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
        return ResponseHead(
            response.status, {name.lower(): _legible(value) for name, value in response.headers.items()}
        )

    async def read(self) -> bytes | Failure:
        """The bytes that are there, or the next ones to come. Empty at the proper end of the body."""
        response = self._response
        if self._over is not None or response is None:
            return self._over or failure("reset", "there is no answer to read")
        try:
            chunk = await response.content.readany()
        except Exception as error:
            return self._over or self._break_off(response.content, error)
        self._taken += len(chunk)
        return chunk if self._over is None else self._over

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

    def finish(self) -> None:
        """All that was wanted has come. The connection goes back to the pool if its body ends soon."""
        self.connected = None
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

    def take_connection(self, transport: asyncio.Transport | None) -> None:
        """The pool's word that the connection stands."""
        self._transport = transport
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
    """What an error says to people: its words, without the system's number for it."""
    words = error.strerror if isinstance(error, OSError) else None
    return words[:1].lower() + words[1:] if words else str(error) or type(error).__name__


def _legible(value: str) -> str:
    """A header's value. Its bytes may be no text, and then stand for themselves in a form that nobody can
    write."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
