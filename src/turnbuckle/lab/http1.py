"""Just enough of HTTP/1.1 to be a provider that misbehaves on purpose.

A server library would put its own care between a script and the wire: it ends bodies properly, joins writes,
answers for broken handlers. Here requests are read strictly and answers are plain bytes. No sockets in here.
"""

import http

from msgspec import Struct

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024  # a long conversation with pictures stays below


class Request(Struct, frozen=True):
    """One request, whole. Header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool = True
    chunks: bool = True
    """Whether the client understands a chunked answer."""


class BadRequest(Struct, frozen=True):
    """A request that cannot be read, and the status that says so."""

    status: int
    why: str


class RequestReader:
    """`feed` bytes; `take` a request as soon as one is whole. Keeps what follows it for the next."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[str, str, str, dict[str, str]] | None = None
        self._chunks: list[bytes] | None = None
        self._chunked_size = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    @property
    def waiting(self) -> int:
        """How many bytes have not been taken yet."""
        return len(self._buffer)

    def take(self) -> Request | BadRequest | None:
        """The next request, a problem with it, or None while bytes are missing."""
        if self._head is None:
            found = self._read_head()
            if not isinstance(found, tuple):
                return found
            self._head = found
        headers = self._head[3]
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._take_chunked()
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return BadRequest(400, "content-length is not a number")
        size = int(length)
        if size > MAX_BODY:
            return BadRequest(413, f"a body of more than {MAX_BODY} bytes")
        if len(self._buffer) < size:
            return None
        return self._made(self._cut_off(size))

    @property
    def wants_continue(self) -> bool:
        """The client waits for a word before it sends the body."""
        return self._head is not None and self._head[3].get("expect", "").lower() == "100-continue"

    def _read_head(self) -> tuple[str, str, str, dict[str, str]] | BadRequest | None:
        while self._buffer[:2] == b"\r\n":
            del self._buffer[:2]  # clients may leave an empty line between requests
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return self._too_long()
        first, *lines = self._cut_off(end + 4)[:-4].decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return BadRequest(400, "this is not an HTTP/1.1 request")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                return BadRequest(400, "a header without a colon")
            headers[name.strip().lower()] = value.strip()
        return words[0], words[1], words[2], headers

    def _take_chunked(self) -> Request | BadRequest | None:
        chunks = self._chunks = self._chunks if self._chunks is not None else []
        while (line_end := self._buffer.find(b"\r\n")) >= 0:
            digits = bytes(self._buffer[:line_end]).partition(b";")[0].strip()
            try:
                size = int(digits, 16)
            except ValueError:
                return BadRequest(400, "a chunk without a size")
            if size < 0 or self._chunked_size + size > MAX_BODY:
                return BadRequest(413, f"a body of more than {MAX_BODY} bytes")
            if size == 0:
                end = self._buffer.find(b"\r\n\r\n", line_end)  # trailers before it are not looked at
                if end < 0:
                    return self._too_long()
                self._cut_off(end + 4)
                return self._made(b"".join(chunks))
            if len(self._buffer) < line_end + 4 + size:
                return None
            chunks.append(self._cut_off(line_end + 4 + size)[line_end + 2 : -2])
            self._chunked_size += size
        return self._too_long()

    def _too_long(self) -> BadRequest | None:
        """What has no end yet must at least be short."""
        return (
            BadRequest(431, f"headers of more than {MAX_HEAD} bytes")
            if len(self._buffer) > MAX_HEAD
            else None
        )

    def _made(self, body: bytes) -> Request:
        assert self._head is not None
        method, target, version, headers = self._head
        self._head = self._chunks = None
        self._chunked_size = 0
        modern = version != "HTTP/1.0"
        wish = headers.get("connection", "keep-alive" if modern else "close").lower()
        return Request(
            method, target, headers, body, keep_alive=modern and "close" not in wish, chunks=modern
        )

    def _cut_off(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def head_bytes(
    status: int, headers: dict[str, str], *, length: int | None, chunked: bool, keep_alive: bool
) -> bytes:
    """Status line and headers of an answer."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"  # 529 and its like are not standard statuses
    lines = [f"HTTP/1.1 {status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if length is not None:
        lines.append(f"content-length: {length}")
    elif chunked:
        lines.append("transfer-encoding: chunked")
    if not keep_alive:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def chunk_bytes(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
