"""The client of a request, as any ASGI server knows it: by the messages that it gives, and by nothing else.

Our own server hands the app its connection, which knows more. Behind another server the app still notices
that a client leaves, but only while something waits for it here, and it can neither hang up on a client that
does not read nor see how much of an answer that client has taken: the other server decides when to drop it.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from turnbuckle.server.http.client_connection import ClientGone

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class StrangerClient:
    """A client behind a server that is not ours: it is gone when somebody says so."""

    def __init__(self) -> None:
        self._listener: Callable[[], None] | None = None
        self._gone = False

    @property
    def gone(self) -> bool:
        return self._gone

    @property
    def dropped(self) -> bool:
        return False

    @property
    def clear(self) -> bool:
        return not self._gone

    @property
    def has_body(self) -> bool:
        return False

    def on_gone(self, call: Callable[[], None] | None) -> None:
        self._listener = call

    def push(self, body: bytes) -> bool:
        return False

    def abort(self) -> None:
        """Say no more: the next message to the client raises, so that the answer has no proper end."""
        self.leave()

    def leave(self) -> None:
        """The client is no longer there."""
        self._gone = True
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()


class AsgiClient(StrangerClient):
    """One request's client. `receive` and `send` are those of the server, and pass through here."""

    def __init__(self, receive: Receive, send: Send) -> None:
        super().__init__()
        self._receive = receive
        self._send = send
        self._watching: asyncio.Task[None] | None = None

    def on_gone(self, call: Callable[[], None] | None) -> None:
        super().on_gone(call)
        if call is not None and self._watching is None and not self._gone:
            self._watching = asyncio.create_task(self._watch())

    def close(self) -> None:
        """The answer is over."""
        self._listener = None
        if self._watching is not None:
            self._watching.cancel()

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._note(message)
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._gone:
            raise ClientGone
        await self._send(message)

    async def _watch(self) -> None:
        while not self._gone:
            self._note(await self._receive())

    def _note(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.disconnect":
            self.leave()
