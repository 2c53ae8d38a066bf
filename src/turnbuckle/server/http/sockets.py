"""WebSockets behind the checks that every request passes, and what handlers see of them.

A WebSocket is asked for by a request of HTTP, so origins, keys and rates are judged as for any other; a no is
said in words of HTTP. Then a handler talks, message by message, for as long as it likes. The client's
messages are taken by a task of their own, so that its leaving is noticed while an answer is under way; only
so many wait, and then the client is not listened to.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from turnbuckle.errors import TurnbuckleError
from turnbuckle.observe.logs import request_id
from turnbuckle.server.http.asgi_client import StrangerClient
from turnbuckle.server.http.auth import Auth
from turnbuckle.server.http.client_connection import ClientConnection, ClientGone
from turnbuckle.server.http.cycle import Message
from turnbuckle.server.http.exchange import Answer, Problem, RequestHead
from turnbuckle.server.http.neighbours import Address
from turnbuckle.server.http.origins import Origins
from turnbuckle.server.http.problems import problem_of, unexpected, written
from turnbuckle.service.limits import Rates
from turnbuckle.service.owners import Caller

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
MOST_WAITING = 16
POLICY = 1008  # the close code of a client that may not go on

log = logging.getLogger("turnbuckle.server")


class WebSocket:
    """One WebSocket, as a handler sees it."""

    def __init__(self, head: RequestHead, own: ClientConnection | None, receive: Receive, send: Send) -> None:
        self.head = head
        self.caller = Caller("")
        self._stranger = StrangerClient()
        self.line: ClientConnection = own if own is not None else self._stranger
        self._receive = receive
        self._send = send
        self._messages: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING)
        self._over = False

    async def receive(self) -> str | None:
        """The client's next message; None when there will be no more."""
        if self._over and self._messages.empty():
            return None
        text = await self._messages.get()
        self._over = self._over or text is None
        return text

    async def send(self, text: str) -> None:
        """Raises ClientGone."""
        if self.line.gone:
            raise ClientGone
        await self._send({"type": "websocket.send", "text": text})

    async def close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def pump(self) -> None:
        """Take the client's messages, until it leaves."""
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                break
            text = message.get("text")
            if text is None:
                text = (message.get("bytes") or b"").decode("utf-8", "replace")
            await self._messages.put(text)
        self._stranger.leave()
        with suppress(asyncio.QueueFull):
            self._messages.put_nowait(None)
        self._over = True


SocketHandler = Callable[[WebSocket], Awaitable[None]]


class SocketServer:
    """All WebSockets, by their path."""

    def __init__(
        self, handlers: Mapping[str, SocketHandler], *, auth: Auth, origins: Origins, rates: Rates
    ) -> None:
        self._handlers = handlers
        self._auth = auth
        self._origins = origins
        self._rates = rates
        self._active: set[WebSocket] = set()

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self._handlers)

    def drop(self, revoked: frozenset[str]) -> None:
        """Hang up on every client with one of these keys."""
        for socket in [socket for socket in self._active if socket.caller.key in revoked]:
            socket.line.abort()

    def has_keyed(self) -> bool:
        return any(socket.caller.key for socket in self._active)

    async def serve(
        self,
        head: RequestHead,
        own: ClientConnection | None,
        ends: tuple[Address | None, Address | None],
        receive: Receive,
        send: Send,
    ) -> int:
        """Check, and let the handler talk. Gives the status that stands for it in the log."""
        socket = WebSocket(head, own, receive, send)
        request_id.set(head.id)
        if (await receive())["type"] != "websocket.connect":
            return 499
        try:
            handler = self._admitted(socket, ends)
        except (Problem, TurnbuckleError) as error:
            answer = written(
                error if isinstance(error, Problem) else problem_of(error) or unexpected(head.id)
            )
            await _deny(answer, head, send)
            return answer.status
        await send({"type": "websocket.accept", "headers": [(b"x-request-id", head.id.encode())]})
        await self._talk(socket, handler)
        return 101

    def _admitted(self, socket: WebSocket, ends: tuple[Address | None, Address | None]) -> SocketHandler:
        head = socket.head
        self._origins.check(head.headers, to_page=False)
        handler = self._handlers.get(head.path)
        if handler is None:
            raise Problem(404, f"there is no WebSocket at {head.path[:200]}")
        socket.caller = self._auth.caller(head.headers, *ends)
        self._rates.check(socket.caller.owner)
        return handler

    async def _talk(self, socket: WebSocket, handler: SocketHandler) -> None:
        began = time.monotonic()
        self._active.add(socket)
        pump = asyncio.create_task(socket.pump(), name=f"socket {socket.head.id}")
        try:
            await handler(socket)
        except ClientGone:
            log.debug("%s: the client of a WebSocket left", socket.head.id)
        finally:
            self._active.discard(socket)
            pump.cancel()
            await asyncio.wait({pump})
            log.debug("%s: a WebSocket ended after %.3f s", socket.head.id, time.monotonic() - began)


async def _deny(answer: Answer, head: RequestHead, send: Send) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers
    ]
    headers += [
        (b"x-request-id", head.id.encode()),
        (b"content-type", answer.content_type.encode("latin-1")),
        (b"content-length", b"%d" % len(answer.body)),
    ]
    await send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": answer.body, "more_body": False})
