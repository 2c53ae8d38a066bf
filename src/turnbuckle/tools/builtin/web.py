"""Fetch a page. Only public addresses, unless private ones are allowed, since the server may stand in a
network whose other machines trust it.

A name is resolved once, its addresses are judged, and the connection goes to one of these: there is no second
look-up that could give another answer. When the connection stands, the address at its other end is judged
again, before anything is sent. Redirects are followed by hand, and each hop is judged in the same way. A body
is read up to a cap, counted after unpacking, and made into text by a process that can be killed.
"""

import ipaddress
import re
import socket
import zlib
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp.resolver import ThreadedResolver

from turnbuckle.tools.spec import ToolContext, ToolError, tool
from turnbuckle.tools.workers import worked

SECONDS = 30.0
MOST_HOPS = 5
MOST_INTERIM = 16
"""Answers of the kind "wait, there will be another" (1xx) before the real one."""
LARGEST_BODY = 5 * 1024 * 1024
READING_SECONDS = 5
READING_MEMORY = 512 * 1024 * 1024
ERROR_SHOWN = 2000
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {"User-Agent": "turnbuckle", "Accept": "text/html, text/*, application/json, */*;q=0.5"}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PUBLIC6 = ipaddress.ip_network("2000::/3")
"""All of IPv6 that was ever given to the public: whatever wraps an address elsewhere is none of it."""
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    # protocols and clouds' own doors (192.0.0.192), Azure's (168.63.129.16), relays, documentation
    for network in ("192.0.0.0/24", "168.63.129.16/32", "192.88.99.0/24", "2001::/23", "3fff::/20")
)
"""What older versions of Python take for public, or everybody but us does."""
_DIGITS = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]*|[0-9]+)){0,3}")
"""An address in any of the spellings that systems read: `127.1`, `0x7f000001`, `017700000001`."""
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([^\s\"';]+)", re.IGNORECASE)
_WORKER = Path(__file__).with_name("page_worker.py")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@tool(effect="read", timeout=SECONDS, subject="url")
async def fetch_url(url: Annotated[str, "With http:// or https://"], context: ToolContext) -> str:
    """Fetch a web page or a file by its address, as text."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=20)
    async with aiohttp.ClientSession(
        connector=_PublicConnector(context.allow_private_addresses),
        response_class=_Answer,
        timeout=timeout,
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    ) as session:
        try:
            return await _followed(session, url, context)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ToolError(f"{url} could not be fetched: {_cause(error)}") from error


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, also if it is wrapped in another."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address not in _PUBLIC6:
            return False
    special = any(address.version == network.version and address in network for network in _NOT_PUBLIC)
    return address.is_global and not address.is_multicast and not special


class PublicResolver(AbstractResolver):
    """Looks names up, and knows nobody at private addresses."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._resolver.resolve(host, port, family)
        if self._allow_private:
            return results
        public = [result for result in results if is_public(_address(result["host"]))]
        if not public:
            raise ToolError(f"{host} is at a private address, which is not allowed")
        return public

    async def close(self) -> None:
        await self._resolver.close()


class _PublicConnector(aiohttp.TCPConnector):
    """Connections to public addresses. Whoever the other end is, is looked at before anything is sent."""

    def __init__(self, allow_private: bool) -> None:
        super().__init__(resolver=PublicResolver(allow_private), use_dns_cache=False)
        self._allow_private = allow_private

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        peer = connection.transport and connection.transport.get_extra_info("peername")
        if not self._allow_private and not (peer and is_public(_address(peer[0]))):
            connection.close()
            raise ToolError(f"{req.url.host} is at a private address, which is not allowed")
        return connection


class _Answer(aiohttp.ClientResponse):
    """An answer that comes after a few interim ones, and not after any number of them."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        assert protocol is not None
        read, count = protocol.read, 0

        async def counted() -> Any:
            nonlocal count
            count += 1
            if count > MOST_INTERIM + 1:
                raise aiohttp.ClientPayloadError(f"more than {MOST_INTERIM} interim answers")
            return await read()

        protocol.read = counted  # type: ignore[method-assign]
        return await super().start(connection)


async def _followed(session: aiohttp.ClientSession, address: str, context: ToolContext) -> str:
    url = yarl.URL(address)
    for _ in range(MOST_HOPS + 1):
        _judge(url, context.allow_private_addresses)
        async with session.get(url, allow_redirects=False) as response:
            target = response.headers.get("Location")
            if response.status not in REDIRECTS or target is None:
                return await _read(response, context)
        url = url.join(yarl.URL(target))
    raise ToolError(f"{address} redirects more than {MOST_HOPS} times")


def _judge(url: yarl.URL, allow_private: bool) -> None:
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError(f"{url} is not an http or https address")
    if allow_private:
        return
    for host in (url.host, url.raw_host or ""):  # as it is written, and as it is asked for
        try:
            address = _address(host)
        except ValueError:
            continue  # a name: the resolver judges what it stands for
        if not is_public(address):
            raise ToolError(f"{host} is a private address, which is not allowed")


def _address(host: str) -> Address:
    """The address that a host is, however it is spelled. Raises ValueError for a name."""
    host = host.partition("%")[0].rstrip(".")
    if _DIGITS.fullmatch(host):
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except OSError:
            raise ToolError(f"{host} is not an address") from None
    return ipaddress.ip_address(host)


async def _read(response: aiohttp.ClientResponse, context: ToolContext) -> str:
    unpacked = _Unpacked(response.headers.get("Content-Encoding", ""))
    async for piece in response.content.iter_chunked(64 * 1024):
        unpacked.add(piece)
        if unpacked.full:
            break
    written = response.headers.get("Content-Type", "application/octet-stream")
    kind = written.partition(";")[0].strip().lower()
    cut = ", cut at the cap" if unpacked.full else ""
    head = f"{response.url} ({response.status}, {kind}, {unpacked.size:,} bytes{cut})"
    body = unpacked.data
    if not _is_text(kind, body):
        text = "[not a text, so it is not shown]"
    else:
        text = await _text_of(body, written, kind in ("text/html", "application/xhtml+xml"), context)
    if response.status >= 400:
        raise ToolError(f"{head}\n\n{context.redact(text)[:ERROR_SHOWN]}")
    return f"{head}\n\n{text}"


class _Unpacked:
    """A body, unpacked as it comes, up to the cap: a small packed body can be huge."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        packed = {"gzip": 31, "x-gzip": 31, "deflate": 15}
        if self._encoding not in ("", "identity", *packed):
            raise ToolError(f"the answer is packed as {encoding}, which cannot be read")
        bits = packed.get(self._encoding)
        self._unpacker = None if bits is None else zlib.decompressobj(bits)
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        room = LARGEST_BODY - self.size
        if self._unpacker is not None:
            try:
                piece = self._unpacker.decompress(piece, room)
            except zlib.error as error:
                raise ToolError(f"the answer cannot be unpacked: {error}") from error
        self._pieces.append(piece[:room])
        self.size += len(self._pieces[-1])

    @property
    def full(self) -> bool:
        return self.size >= LARGEST_BODY

    @property
    def data(self) -> bytes:
        return b"".join(self._pieces)


def _is_text(kind: str, body: bytes) -> bool:
    named = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml", "+json", "+xml"))
    return named or (b"\0" not in body[:8192] and kind in ("", "application/octet-stream"))


async def _text_of(body: bytes, written: str, is_html: bool, context: ToolContext) -> str:
    charset = _CHARSET.search(written)
    wish = {
        "charset": charset[1] if charset else "utf-8",
        "is_html": is_html,
        "largest": LARGEST_BODY,
        "seconds": READING_SECONDS,
        "memory": READING_MEMORY,
    }
    text = await worked(_WORKER, wish, body, environment=context.child_environment)
    return "[too hard to read: its reader was stopped]" if text is None else text.decode("utf-8", "replace")


def _cause(error: BaseException) -> str:
    inner = error.__cause__ or error
    return f"{type(inner).__name__}: {inner}"[:300]
