"""A plain socket to a server, for bytes that no HTTP library would send."""

import socket
from contextlib import contextmanager, suppress

import msgspec

PATIENCE = 100.0
"""Whoever has not answered or hung up by then hangs."""


class RawReply(msgspec.Struct, frozen=True):
    """One answer, as it stood there. `whole`: its body ended as its head had promised."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def json(self):
        return msgspec.json.decode(self.body)


class RawConnection:
    """One connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.buffer = b""

    def send(self, data):
        """Send, as far as the server takes it: one that has refused already need not read the rest."""
        with suppress(ConnectionResetError, BrokenPipeError):
            self.socket.sendall(data)

    def end(self):
        """Say that nothing more comes, and go on listening."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def reply(self, *, head_only=False):
        """The next answer; None if the server hung up instead. Raises TimeoutError if it does neither."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                assert not self.buffer, f"half a head: {self.buffer[:200]!r}"
                return None
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        assert first.startswith("HTTP/1.1 "), first
        status = int(first.split(" ")[1])
        if status == 100:
            return self.reply(head_only=head_only)
        headers = dict(line.lower().split(": ", 1) for line in lines)
        body, whole = (b"", True) if head_only or status == 204 else self._body(headers)
        return RawReply(status, headers, body, whole)

    def replies(self):
        """All answers until the server hangs up."""
        found = []
        while (reply := self.reply()) is not None:
            found.append(reply)
        return found

    def _body(self, headers):
        if headers.get("transfer-encoding") == "chunked":
            return self._chunks()
        size = int(headers["content-length"])
        while len(self.buffer) < size:
            if not self._more():
                return self.buffer, False
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return body, True

    def _chunks(self):
        body = b""
        while True:
            while b"\r\n" not in self.buffer:
                if not self._more():
                    return body, False
            size, _, rest = self.buffer.partition(b"\r\n")
            wanted = int(size, 16) + 2
            while len(rest) < wanted:
                self.buffer = rest
                if not self._more():
                    return body, False
                rest = self.buffer
            body, self.buffer = body + rest[: wanted - 2], rest[wanted:]
            if wanted == 2:
                return body, True

    def _more(self):
        try:
            piece = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self.buffer += piece
        return bool(piece)


@contextmanager
def raw_connection(port):
    line = RawConnection(port)
    try:
        yield line
    finally:
        line.socket.close()


def request(method, path, headers=None, body=b"", *, version="1.1", **more):
    """The bytes of a request. Names and values are taken as they are."""
    given = {"host": "127.0.0.1", **(headers or {}), **more}
    if body and "content-length" not in given and "transfer-encoding" not in given:
        given |= {"content-length": len(body)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
    return f"{method} {path} HTTP/{version}\r\n{lines}\r\n".encode("utf-8", "surrogateescape") + body
