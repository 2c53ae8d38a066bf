"""The connections to providers, and where they lead.

The HTTP library's pool makes connections (names, TLS, proxies), keeps those that are free, and takes answers
apart. What is ours: the bytes of a request, since a route's are nearly always the same, and one end of each
connection, which tells the exchange that has it what arrives (`transport.py`).

Proxies come from the environment, asked for here and not by the library, because that would also read a
netrc file and then refuse requests that carry a key.
"""

import asyncio
import ipaddress
import re
import socket
import sys
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from turnbuckle.vocab.recent import Recent

_POOLED = 20.0
_KEEPALIVE = (60, 10, 3)  # idle, between probes, probes: a dead peer is noticed in a minute and a half
_USER_TIMEOUT_MS = 120_000
_TARGETS = 64
_NO_LIMIT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
BUFFERS = ("_buffer", "_buffer_offset")  # of aiohttp's reader: what has arrived and was not taken
SPLITS = "_http_chunk_splits"  # and where in it chunks of the body ended
_CONNECTOR = (
    "_factory",
    "_loop",
    "_get",
)  # of its pool: what makes its end of a connection, and what is free
_OWN = {"user-agent": "turnbuckle", "accept": "*/*", "accept-encoding": "identity"}
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class ConnectionUser(Protocol):
    """Who has a connection, as its end sees it."""

    def take_chunk(self, data: bytes) -> bool: ...
    def look(self, data: bytes) -> None: ...
    def lost(self) -> None: ...


class PoolHandler(ResponseHandler):
    """The library's end of a connection. The exchange that has it hears of all that arrives."""

    exchange: ConnectionUser | None = None

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


class PostTarget:
    """An address that requests are posted to, the proxy on the way, and how each request begins."""

    def __init__(self, url: str, proxy: str | None, credentials: str | None) -> None:
        """Raises aiohttp.InvalidURL if nothing can be posted there. `credentials` are for the proxy."""
        try:
            self._url = URL(url)
        except ValueError as error:
            raise aiohttp.InvalidURL(url) from error
        if self._url.scheme not in ("http", "https") or not self._url.raw_host:
            raise aiohttp.InvalidURL(url)
        self._proxy, self._credentials = proxy, credentials
        is_forwarded = proxy is not None and self._url.scheme == "http"
        place = str(self._url.with_fragment(None)) if is_forwarded else self._url.raw_path_qs
        lines = {"host": self._url.host_port_subcomponent or "", **_OWN}
        if is_forwarded and credentials is not None:
            lines["proxy-authorization"] = credentials
        self._begin = f"POST {place} HTTP/1.1\r\n"
        self._lines = lines
        self.key: ConnectionKey = self.request(asyncio.get_running_loop()).connection_key

    def request(self, loop: asyncio.AbstractEventLoop) -> aiohttp.ClientRequest:
        """What the library asks about when it makes a connection. It is never sent."""
        # Of a connection through a tunnel the library changes these headers, which are a part of its key.
        headers = None if self._credentials is None else {"authorization": self._credentials}
        proxy = None if self._proxy is None else URL(self._proxy)
        return aiohttp.ClientRequest("POST", self._url, loop=loop, proxy=proxy, proxy_headers=headers)

    def head(self, headers: Mapping[str, str], size: int) -> bytes:
        """The head of a request with a body of this size. Raises ValueError if a header cannot be sent."""
        if _NOT_IN_HEADERS.search("".join([*headers, *headers.values()])):
            raise ValueError("a header holds a control character")
        lines = dict(self._lines)
        for name, value in headers.items():
            lines[name.lower()] = value
        lines["content-length"] = str(size)
        lines.pop("transfer-encoding", None)
        text = "".join([f"{name}: {value}\r\n" for name, value in lines.items()])
        return f"{self._begin}{text}\r\n".encode()


class Pool(aiohttp.TCPConnector):
    """Free connections, and new ones. Made inside a running loop."""

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=_POOLED, socket_factory=open_socket)
        check_library(aiohttp.StreamReader, self)
        handler: type[ResponseHandler] = PoolHandler
        self._factory = partial(handler, loop=self._loop)
        self._targets: Recent[tuple[str, str | None, str | None], PostTarget] = Recent(_TARGETS)

    def target(self, url: str) -> PostTarget:
        """Raises aiohttp.InvalidURL."""
        proxy, headers = proxy_for(url)
        key = url, proxy, headers["authorization"] if headers is not None else None
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = PostTarget(*key)
        return target

    async def idle(self, target: PostTarget) -> aiohttp.connector.Connection | None:
        """A connection that waits for a request. This itself waits for nothing."""
        if self.closed:
            raise RuntimeError("the connections are closed")
        return await self._get(target.key, [])

    async def connected(self, target: PostTarget) -> aiohttp.connector.Connection:
        """A new connection, TLS and proxy included, or one that has become free."""
        return await self.connect(target.request(self._loop), traces=[], timeout=_NO_LIMIT)


def check_library(reader: type, connector: object) -> None:
    """Raises RuntimeError if the HTTP library is one whose buffers and connections we do not know: what had
    arrived before a connection broke would be lost without a word, and nothing would be handed over where it
    arrives."""
    for name, part, needed in (
        (reader.__name__, reader, (*BUFFERS, SPLITS)),
        ("connector", connector, _CONNECTOR),
    ):
        if missing := [one for one in needed if not hasattr(part, one)]:
            raise RuntimeError(
                f"aiohttp {aiohttp.__version__} is not supported: its {name} "
                f"has no {' and no '.join(missing)}; install the version that turnbuckle asks for"
            )


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
