"""One WebSocket on a connection, between frames and the messages of ASGI.

The frames are the work of `websockets`, which does no input or output of its own. Here is what a server owes
besides: a client that sends faster than it is answered is not listened to for a while, one that does not read
is waited for and then dropped by the connection's sweep, one that has vanished is noticed by pings that
nobody answers, and none is waited for long behind our own goodbye.

Compression is not offered: a few bytes of it can become gigabytes.

What a client has sent and nobody has taken yet counts as the body of a request does: against the budget of
its owner, and with a limit of time for a message that stays half sent.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import Any

from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from turnbuckle.server.http.bodies import BODY_SECONDS, Holding
from turnbuckle.server.http.body_values import SMALL
from turnbuckle.server.http.cycle import STATUS_LINES, App, Message, Wire
from turnbuckle.server.http.exchange import Problem

PING_SECONDS = 20.0
"""Shorter than the time for which usual balancers keep a silent connection."""
UNANSWERED = 3
"""Pings without a sign of life, after which the client is taken for gone."""
MOST_WAITING = 16
"""Messages of the client that are kept while an answer is under way, before it is not listened to."""
PARTING_SECONDS = 1.0
GOING_AWAY = CloseCode.GOING_AWAY
HOLDING = "turnbuckle.holding"
"""Under this name the app gives, with its yes, the account that the client's messages count on."""
SILENT_SECONDS = 30.0  # in the middle of a message
_PIECE = 16 << 10  # bytes that are read at once
_UNREAD = 256 << 10  # bytes of ours that a client has not read
_PAUSE = 0.1

log = logging.getLogger("turnbuckle.server")


class WebSocketCycle:
    """One WebSocket, from its request to its end. It looks like a `Cycle` to the connection: a request whose
    body is over, and whose answer is under way until the end."""

    more_body = False

    def __init__(self, wire: Wire, scope: MutableMapping[str, Any], *, max_size: int) -> None:
        self.scope = {
            **scope,
            "type": "websocket",
            "scheme": "ws",
            "extensions": {**scope["extensions"], "websocket.http.response": {}},
        }
        self.answered = self.disconnected = False
        self.keep_alive = False
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._protocol = ServerProtocol(max_size=max_size)
        self._request: Request | None = None
        self._waiting: deque[Message] = deque([{"type": "websocket.connect"}])
        self._waiter: asyncio.Future[None] | None = None
        self._incoming = bytearray()  # what came and was not yet read
        self._message = bytearray()  # what is whole of a message in several frames
        self._is_text = True
        self._holding: Holding | None = None
        self._heard = self._half_since = self._loop.time()
        self._leaving = False
        self._silent = 0
        self._pinging: asyncio.TimerHandle | None = None
        self._parting: asyncio.Future[None] | None = None

    async def run(self, app: App) -> None:
        """Let the app speak. Whatever it raises ends the connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception as error:
            log.error("a WebSocket failed", exc_info=error)
            self._close(CloseCode.INTERNAL_ERROR)
        if self._pinging is not None:
            self._pinging.cancel()
        if self._holding is not None:
            self._holding.hold(0)
            self._holding = None
        if not self.answered:
            self._close(GOING_AWAY if self._leaving else CloseCode.NORMAL_CLOSURE)
        await self._part()
        self.answered = True
        self._wire.transport.close()
        self._wire.cycle_ended(self)

    async def _part(self) -> None:
        """Wait a moment for the client's own goodbye: a connection that is closed over unread bytes is reset,
        and the client might lose our last words by that."""
        if self._protocol.state is not State.CLOSING:
            return
        self._wire.listen(True)
        self._parting = self._loop.create_future()
        if not self._has_parted():
            await asyncio.wait({self._parting}, timeout=PARTING_SECONDS)

    def _has_parted(self) -> bool:
        parted = self._protocol.state is State.CLOSED or self._protocol.close_rcvd is not None
        return parted or self._wire.transport.is_closing()

    # From the client

    def begin(self, method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The request that asked for it. What is wrong with it is said when the app takes it."""
        lines = [b"%b %b HTTP/1.1\r\n" % (method, target)]
        lines += [b"%b: %b\r\n" % header for header in headers]
        self._protocol.receive_data(b"".join(lines) + b"\r\n")
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._request = event

    def feed(self, data: bytes) -> None:
        """More bytes of the client."""
        self._silent = 0
        if self._protocol.state is State.CONNECTING:
            return  # nothing may come before our yes
        is_reading = bool(self._incoming)
        self._incoming += data
        if not is_reading:
            self._read()

    def _read(self) -> None:
        """Read a piece, and let others have their turn before the next: tiny frames cost a lot."""
        piece = bytes(self._incoming[:_PIECE])
        self._heard, was_half = self._loop.time(), self._half
        self._protocol.receive_data(piece)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take(event)
        del self._incoming[:_PIECE]
        if not was_half or self._waiting:
            self._half_since = self._heard
        self._count()
        self._flush()
        if self._has_parted():
            self.disconnect()
            self._wire.transport.close()
        elif self._protocol.state is not State.OPEN:
            self.disconnect()  # it broke the rules, was told so, and is not listened to any more
        elif self._incoming:
            self._wire.listen(False)
            self._loop.call_soon(self._read)
            return
        elif self._wire.transport.get_write_buffer_size() > _UNREAD:
            self._wire.listen(False)  # it sends, and does not read what that is answered with
            self._loop.call_later(_PAUSE, self._listen_again)
        elif self._is_full():
            self._wire.listen(False)
        else:
            self._wire.listen(True)
        self._incoming.clear()

    def _listen_again(self) -> None:
        if not self._incoming and not self._is_full() and not self._wire.transport.is_closing():
            self._wire.listen(True)

    def _is_full(self) -> bool:
        return len(self._waiting) >= MOST_WAITING or sum(map(_size, self._waiting)) > SMALL

    @property
    def _half(self) -> int:
        """Bytes of a message that is not whole yet."""
        return len(self._protocol.reader.buffer) + len(self._message)

    def _count(self) -> None:
        """Everything that was sent and not taken counts."""
        if self._holding is None:
            return
        try:
            self._holding.hold(self._half + sum(map(_size, self._waiting)))
        except Problem as problem:
            self._close(CloseCode.TRY_AGAIN_LATER, problem.message)
            self.disconnect()

    def end_body(self) -> None:
        """There is no body."""

    def disconnect(self) -> None:
        self.disconnected = True
        self._wake()
        if self._parting is not None and not self._parting.done() and self._has_parted():
            self._parting.set_result(None)

    def go_away(self) -> None:
        """The server leaves: what is under way comes to its end, and nothing more is taken."""
        self._leaving = True
        self._wake()

    async def receive(self) -> Message:
        while not (self._waiting or self.disconnected or self._leaving):
            self._listen_again()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._waiting and not self._leaving:
            message = self._waiting.popleft()
            self._count()
            return message
        close = self._protocol.close_rcvd
        code = GOING_AWAY if self._leaving else CloseCode.NO_STATUS_RCVD if close is None else close.code
        return {"type": "websocket.disconnect", "code": int(code)}

    def _take(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text = frame.opcode is Opcode.TEXT
            self._message = bytearray(frame.data)
        elif frame.opcode is Opcode.CONT:
            self._message += frame.data
        else:
            return
        if not frame.fin:
            return
        data, self._message = bytes(self._message), bytearray()
        if not self._is_text:
            self._waiting.append({"type": "websocket.receive", "bytes": data})
        else:
            try:
                self._waiting.append({"type": "websocket.receive", "text": data.decode()})
            except UnicodeDecodeError:
                self._close(CloseCode.INVALID_DATA)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # To the client

    async def send(self, message: Message) -> None:
        if self._is_over():
            return
        kind = message["type"]
        if kind == "websocket.accept":
            self._holding = message.get(HOLDING)
            self._accept(message.get("headers", ()))
            return
        await self._wire.drain()
        if self._is_over():
            return
        if kind == "websocket.send":
            if (text := message.get("text")) is not None:
                self._protocol.send_text(text.encode())
            else:
                self._protocol.send_binary(message["bytes"])
            self._flush()
        elif kind == "websocket.close":
            self._close(message.get("code", CloseCode.NORMAL_CLOSURE), message.get("reason") or "")
        elif kind == "websocket.http.response.start":
            self._refuse(message["status"], message.get("headers", ()))
        elif kind == "websocket.http.response.body":
            self._wire.transport.write(message.get("body", b""))
            self.answered = not message.get("more_body", False)

    def _is_over(self) -> bool:
        return self.disconnected or self.answered

    def _accept(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self._request is None:
            raise RuntimeError("there was no request")
        answer: Response = self._protocol.accept(self._request)
        if answer.status_code == 101:
            for name, value in (*self._wire.default_headers, *headers):
                if name.decode("latin-1").title() not in answer.headers:
                    answer.headers[name.decode("latin-1").title()] = value.decode("latin-1")
        self._protocol.send_response(answer)
        self._flush()
        if answer.status_code != 101:
            self.answered = True
            self.disconnect()
            return
        self._pinging = self._loop.call_later(PING_SECONDS, self._ping)

    def _refuse(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Say no in words of HTTP, before there is a WebSocket."""
        every = (*self._wire.default_headers, *headers, (b"connection", b"close"))
        head = b"".join(b"%b: %b\r\n" % header for header in every)
        self._wire.transport.write(STATUS_LINES[status] + head + b"\r\n")

    def _close(self, code: int, reason: str = "") -> None:
        if self._protocol.state is not State.OPEN:
            return
        try:
            self._protocol.send_close(code, reason[:120])
        except ProtocolError as error:
            log.warning("a WebSocket could not be closed properly: %s", error)
        self._flush()
        self.answered = True

    def _ping(self) -> None:
        if self._protocol.state is not State.OPEN or self._wire.transport.is_closing():
            return
        if self._silent >= UNANSWERED:
            self._wire.transport.abort()
            return
        now = self._loop.time()
        if self._half and (now - self._half_since > BODY_SECONDS or now - self._heard > SILENT_SECONDS):
            self._close(CloseCode.POLICY_VIOLATION, "the message took too long to arrive")
            self.disconnect()
            return
        self._silent += 1
        self._protocol.send_ping(b"")
        self._flush()
        self._pinging = self._loop.call_later(PING_SECONDS, self._ping)

    def _flush(self) -> None:
        if data := b"".join(self._protocol.data_to_send()):
            self._wire.transport.write(data)


def _size(message: Message) -> int:
    return len(message.get("text") or message.get("bytes") or "")
