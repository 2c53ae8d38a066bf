"""Fetch a page. Only public addresses, unless private ones are allowed, since the server may stand in a network
whose other machines trust it.

A name is resolved once, its addresses are judged, and the connection goes to one of these: there is no second look-up
that could give another answer. Redirects are followed by hand, and each hop is judged in the same way. A body is read
up to a cap, counted after unpacking.
"""

import ipaddress
import socket
import zlib
from html.parser import HTMLParser
from typing import Annotated

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from turnbuckle.tools.spec import ToolContext, ToolError, tool

SECONDS = 30.0
MOST_HOPS = 5
LARGEST_BODY = 5 * 1024 * 1024
ERROR_SHOWN = 2000
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {"User-Agent": "turnbuckle", "Accept": "text/html, text/*, application/json, */*;q=0.5"}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@tool(effect="read", timeout=SECONDS, subject="url")
async def fetch_url(url: Annotated[str, "With http:// or https://"], context: ToolContext) -> str:
    """Fetch a web page or a file by its address, as text."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=20)
    connector = aiohttp.TCPConnector(resolver=PublicResolver(context.allow_private_addresses), use_dns_cache=False)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    ) as session:
        try:
            return await _followed(session, url, context.allow_private_addresses)
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
    return address.is_global and not address.is_multicast


class PublicResolver(AbstractResolver):
    """Looks names up, and knows nobody at private addresses."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if self._allow_private:
            return found
        public = [one for one in found if is_public(ipaddress.ip_address(one["host"].partition("%")[0]))]
        if not public:
            raise ToolError(f"{host} is at a private address, which is not allowed")
        return public

    async def close(self) -> None:
        await self._resolver.close()


async def _followed(session: aiohttp.ClientSession, address: str, allow_private: bool) -> str:
    url = yarl.URL(address)
    for _ in range(MOST_HOPS + 1):
        _judge(url, allow_private)
        async with session.get(url, allow_redirects=False) as response:
            target = response.headers.get("Location")
            if response.status not in REDIRECTS or target is None:
                return await _read(response)
        url = url.join(yarl.URL(target))
    raise ToolError(f"{address} redirects more than {MOST_HOPS} times")


def _judge(url: yarl.URL, allow_private: bool) -> None:
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError(f"{url} is no http or https address")
    if allow_private:
        return
    try:
        address = ipaddress.ip_address(url.host.partition("%")[0])
    except ValueError:
        return  # a name: the resolver judges what it stands for
    if not is_public(address):
        raise ToolError(f"{url.host} is a private address, which is not allowed")


async def _read(response: aiohttp.ClientResponse) -> str:
    unpacked = _Unpacked(response.headers.get("Content-Encoding", ""))
    async for piece in response.content.iter_chunked(64 * 1024):
        unpacked.add(piece)
        if unpacked.full:
            break
    kind = response.content_type
    cut = ", cut at the cap" if unpacked.full else ""
    head = f"{response.url} ({response.status}, {kind}, {unpacked.size:,} bytes{cut})"
    body = unpacked.data
    if not _is_text(kind, body):
        text = "[not a text, so it is not shown]"
    else:
        text = _decoded(body, response.charset)
        text = text_of_html(text) if kind in ("text/html", "application/xhtml+xml") else text
    if response.status >= 400:
        raise ToolError(f"{head}\n\n{text[:ERROR_SHOWN]}")
    return f"{head}\n\n{text}"


class _Unpacked:
    """A body, unpacked as it comes, up to the cap: a small packed body can be huge."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        packed = {"gzip": 31, "x-gzip": 31, "deflate": 15}
        if self._encoding not in ("", "identity", *packed):
            raise ToolError(f"the answer is packed as {encoding}, which can not be read")
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
                raise ToolError(f"the answer can not be unpacked: {error}") from error
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


def _decoded(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _cause(error: BaseException) -> str:
    inner = error.__cause__ or error
    return f"{type(inner).__name__}: {inner}"[:300]


_UNSEEN = frozenset("script style noscript template svg".split())
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr li main"
    " nav ol option p pre section table td th title tr ul".split()
)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen += 1
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.pieces.append(data)


def text_of_html(page: str) -> str:
    """The words of a page, a line for each block, without the tags."""
    parser = _Text()
    parser.feed(page)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return "\n".join(line for line in lines if line)
