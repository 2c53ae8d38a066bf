"""One request and its answer on a connection, between bytes and the messages of ASGI.

`receive` gives the body as it comes and stops the peer while nobody takes it. `send` frames the answer: by
its length where one is given, by chunks where not, by the end of the connection for clients of HTTP/1.0. The
head waits for the first bytes of the body, so that both leave in one write, but not longer than the current
turn of the loop: a stream that has nothing to say yet still begins at once.
"""

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

Message = MutableMapping[str, Any]
App = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

HIGH_WATER = 64 * 1024
"""Bytes of a body that are kept for whoever reads it, before the peer is asked to wait."""
STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in http.HTTPStatus
}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY = frozenset({204, 304})

log = logging.getLogger("turnbuckle.server")


class Wire(Protocol):
    """What a cycle needs of its connection."""

    transport: asyncio.Transport

    @property
    def default_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """What every answer carries."""
        ...

    def listen(self, listening: bool) -> None:
        """Take more bytes of the peer, or none for a while."""

    async def drain(self) -> None:
        """Wait until the peer has taken most of what was sent."""

    def cycle_ended(self, cycle: Any) -> None:
        """The answer is whole, or there will be no more of it."""


class Cycle:
    """One request. `more_body`: its body has not ended. `answered`: the answer is whole."""

    __slots__ = (
        "_body",
        "_chunked",
        "_expects_continue",
        "_given",
        "_head",
        "_left",
        "_loop",
        "_waiter",
        "_wire",
        "answered",
        "disconnected",
        "keep_alive",
        "more_body",
        "old",
        "scope",
        "started",
    )

    def __init__(
        self, wire: Wire, scope: MutableMapping[str, Any], *, keep_alive: bool, expects_continue: bool
    ) -> None:
        self.scope = scope
        self.old = scope["http_version"] == "1.0"
        self.keep_alive = keep_alive
        self.more_body = True
        self.started = self.answered = self.disconnected = False
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._expects_continue = expects_continue
        self._body = bytearray()
        self._given = False
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._chunked = False
        self._left: int | None = None  # bytes of the body that the head has promised and that are still due

    async def run(self, app: App) -> None:
        """Let the app answer. Whatever it raises ends the connection, since half an answer is none."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception as error:
            log.error("the answer to a request failed midway", exc_info=error)
        if not self.answered and not self.disconnected:
            self._wire.transport.abort()
        self._wire.cycle_ended(self)

    # The request

    def feed(self, body: bytes) -> None:
        """More of the body."""
        if self.answered:
            return  # nobody asks for it any more
        self._body += body
        if len(self._body) > HIGH_WATER:
            self._wire.listen(False)
        self._wake()

    def end_body(self) -> None:
        self.more_body = False
        self._wake()

    def disconnect(self) -> None:
        """The client is gone."""
        self.disconnected = True
        self._wake()

    async def receive(self) -> Message:
        if self._expects_continue and not self.started:
            self._expects_continue = False
            self._wire.transport.write(_CONTINUE)
        while not self._body and (self.more_body or self._given) and not (self.disconnected or self.answered):
            self._wire.listen(True)
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if not self._body and (self.disconnected or self.answered):
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        self._given = not self.more_body  # whoever asks once more waits for the client to leave
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # The answer

    async def send(self, message: Message) -> None:
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._start(message["status"], message.get("headers", ()))
            return
        await self._wire.drain()
        if self.disconnected or self.answered:
            return
        self._write(message.get("body", b""), more=message.get("more_body", False))

    def push(self, body: bytes) -> bool:
        """More of the body, for a peer that has taken what was sent. False if there is nobody to send it
        to."""
        if self.disconnected or self.answered or not self.started:
            return False
        if self._chunked and not self._head and body:
            self._wire.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        else:
            self._write(body, more=True)
        return True

    def _start(self, status: int, headers: Any) -> None:
        if self.started:
            raise RuntimeError("an answer has begun already")
        self.started = True
        lines = [STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        lengthy = True  # the end of the body is the end of the connection
        for name, value in (*self._wire.default_headers, *headers):
            if name == b"content-length":
                self._left, lengthy = int(value), False
            elif name == b"connection" and value.lower() == b"close":
                self.keep_alive = False
            lines += name, b": ", value, b"\r\n"
        if status in _NO_BODY or self.scope["method"] == "HEAD":
            self._left, lengthy = 0, False
        if lengthy and self.old:
            self.keep_alive = False
        elif lengthy:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        elif self.old:
            lines.append(b"connection: keep-alive\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Let the head go by itself, if nothing of the body came with it."""
        head, self._head = self._head, b""
        if head and not self.disconnected:
            self._wire.transport.write(head)

    def _write(self, body: bytes, *, more: bool) -> None:
        if not self.started:
            raise RuntimeError("an answer has not begun")
        head, self._head = self._head, b""
        if self._chunked:
            framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            data = head + framed + (b"" if more else b"0\r\n\r\n")
        else:
            if self._left is not None:
                body = body[: self._left]
                self._left -= len(body)
            data = head + body
        if data:
            self._wire.transport.write(data)
        if more:
            return
        if self._left:  # less than was promised: only the end of the connection can say so
            self.keep_alive = False
        self.answered = True
        if not self.keep_alive:
            self._wire.transport.close()
        self._wake()
