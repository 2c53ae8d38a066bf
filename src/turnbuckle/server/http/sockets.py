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
from turnbuckle.server.http.bodies import BodyBudget, Holding
from turnbuckle.server.http.body_values import SMALL
from turnbuckle.server.http.client_connection import ClientConnection, ClientGone
from turnbuckle.server.http.cycle import Message
from turnbuckle.server.http.exchange import Answer, Problem, RequestHead
from turnbuckle.server.http.neighbours import Address
from turnbuckle.server.http.origins import Origins
from turnbuckle.server.http.problems import problem_of, unexpected, written
from turnbuckle.server.http.websocket_cycle import HOLDING
from turnbuckle.service.limits import Rates
from turnbuckle.service.owners import Caller

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
MOST_WAITING = 16
POLICY = 1008  # the close code of a client that may not go on
TRY_AGAIN_LATER = 1013

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
        self._holding: Holding | None = None
        self._waiting = 0  # bytes of messages that nobody has taken
        self._in_hand = 0  # of the one that was taken last
        self._room = asyncio.Event()
        self._over = False

    def admit(self, caller: Caller, budget: BodyBudget) -> Holding:
        """It is this caller's. Gives the account for what the connection itself keeps."""
        self.caller = caller
        self._holding = Holding(budget, caller.owner)
        return Holding(budget, caller.owner)

    async def receive(self) -> str | None:
        """The client's next message; None when there will be no more."""
        self.let_go()
        if self._over and self._messages.empty():
            return None
        text = await self._messages.get()
        self._over = self._over or text is None
        self._in_hand = len(text or "")
        self._waiting -= self._in_hand
        self._room.set()
        return text

    def let_go(self) -> None:
        """The last message is not needed any more."""
        self._in_hand = 0
        if self._holding is not None:
            self._holding.hold(self._waiting)

    async def send(self, text: str) -> None:
        """Raises ClientGone."""
        if self.line.gone:
            raise ClientGone
        await self._send({"type": "websocket.send", "text": text})

    async def close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def leave(self) -> None:
        """Nothing of it is kept any more."""
        self._waiting = 0
        self.let_go()

    async def pump(self) -> None:
        """Take the client's messages, until it leaves."""
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                break
            text = message.get("text")
            if text is None:
                text = (message.get("bytes") or b"").decode("utf-8", "replace")
            self._waiting += len(text)
            try:
                if self._holding is not None:
                    self._holding.hold(self._waiting + self._in_hand)
            except Problem as problem:
                self._waiting -= len(text)
                await self.close(TRY_AGAIN_LATER, problem.message[:120])
                break
            await self._messages.put(text)
            while self._waiting > SMALL:  # one that is large waits alone
                self._room.clear()
                await self._room.wait()
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
        budget: BodyBudget,
    ) -> int:
        """Check, and let the handler talk. Gives the status that stands for it in the log."""
        socket = WebSocket(head, own, receive, send)
        request_id.set(head.id)
        if (await receive())["type"] != "websocket.connect":
            return 499
        try:
            handler, caller = await self._admitted(head, ends)
        except (Problem, TurnbuckleError) as error:
            answer = written(
                error if isinstance(error, Problem) else problem_of(error) or unexpected(head.id)
            )
            await _deny(answer, head, send)
            return answer.status
        kept = socket.admit(caller, budget)
        headers = [(b"x-request-id", head.id.encode())]
        await send({"type": "websocket.accept", "headers": headers, HOLDING: kept})
        await self._talk(socket, handler)
        return 101

    async def _admitted(
        self, head: RequestHead, ends: tuple[Address | None, Address | None]
    ) -> tuple[SocketHandler, Caller]:
        self._origins.check(head.headers, to_page=False)
        handler = self._handlers.get(head.path)
        if handler is None:
            raise Problem(404, f"there is no WebSocket at {head.path[:200]}")
        caller = self._auth.caller(head.headers, *ends)
        await self._rates.count(caller.owner)
        return handler, caller

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
            socket.leave()
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
