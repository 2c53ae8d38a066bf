"""One client's connection: requests in, actions performed, ends as rude as a script wants them.

Theory of operation. Requests are served one after another by a task that pulls actions and performs them. The
write buffer is kept empty, so an action is over when the kernel has its bytes; a reset can then not swallow
what was sent before it. When the client leaves, at whatever step, the task is cancelled and the record says
when.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from typing import cast

import msgspec
from msgspec import Struct

from turnbuckle.lab.actions import Action, End, SendHead, Wait, Write
from turnbuckle.lab.http1 import (
    CONTINUE,
    LAST_CHUNK,
    MAX_HEAD,
    BadRequest,
    Request,
    RequestReader,
    chunk_bytes,
    head_bytes,
)
from turnbuckle.vocab.clock import Clock

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


def reset(transport: asyncio.BaseTransport) -> None:
    """End a connection so that the other side is told of an error, and not of an end."""
    end = transport.get_extra_info("socket")
    if end is not None and end.fileno() >= 0 and end.family != socket.AF_UNIX:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    cast(asyncio.Transport, transport).abort()


class Progress(Struct):
    """How far an answer got: body bytes sent, and how it was over (empty while it is not)."""

    sent: int = 0
    over: str = ""
    over_at: float | None = None
    problem: str = ""


class LabExchange(Struct):
    """What is to be done for one request, and where to note how it goes."""

    actions: Iterator[Action]
    progress: Progress


class LabConnection(asyncio.Protocol):
    """`serve` says what to do for a request. `connections` holds this one while it is open."""

    def __init__(
        self, serve: Callable[[Request], LabExchange], clock: Clock, connections: "set[LabConnection]"
    ) -> None:
        self._serve = serve
        self._clock = clock
        self._connections = connections
        self._reader = RequestReader()
        self._transport: asyncio.Transport | None = None
        self._drained = asyncio.Event()
        self._drained.set()
        self._task: asyncio.Task[None] | None = None
        self._exchange: LabExchange | None = None
        self._continued = self._chunked = self._keep_alive = self._head_sent = False

    # What asyncio tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(0)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._serve_next()
        if self._task is not None and self._reader.waiting > MAX_HEAD and self._transport is not None:
            self._transport.pause_reading()  # requests that are sent ahead wait in the kernel

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._transport = None
        self._note_over("client left")
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Give up at once, whatever is going on."""
        self._note_over("provider stopped")
        if self._transport is not None:
            self._transport.abort()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # One request after another

    def _serve_next(self) -> None:
        if self._task is not None or self._transport is None or self._transport.is_closing():
            return
        found = self._reader.take()
        if found is None:
            if self._reader.wants_continue and not self._continued:
                self._continued = True
                self._transport.write(CONTINUE)
            return
        self._continued = self._head_sent = False
        if isinstance(found, BadRequest):
            self._refuse(found.status, found.why)
            return
        self._exchange = self._serve(found)
        self._task = asyncio.get_running_loop().create_task(self._play(found, self._exchange))
        self._task.add_done_callback(self._played)

    async def _play(self, request: Request, exchange: LabExchange) -> None:
        for action in exchange.actions:
            transport = self._transport
            if transport is None or transport.is_closing():
                return
            match action:
                case SendHead():
                    self._send_head(transport, action, request)
                case Write():
                    transport.write(chunk_bytes(action.data) if self._chunked else action.data)
                    exchange.progress.sent += len(action.data)
                    await self._drained.wait()
                    await asyncio.sleep(0)  # a script that writes byte by byte must not shut others out
                case Wait():
                    await self._clock.sleep(action.seconds)
                case End():
                    await self._end(transport, action)

    def _played(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None and self._exchange is not None:
            # A script's own function failed. That is the author's to see: in the answer and in the record.
            self._exchange.progress.problem = f"the script failed: {error!r}"
            self._note_over("script failed")
            self._refuse(500, self._exchange.progress.problem)
        self._exchange = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._serve_next()

    def _send_head(self, transport: asyncio.Transport, head: SendHead, request: Request) -> None:
        self._chunked = head.length is None and request.chunks
        self._keep_alive = request.keep_alive and (head.length is not None or request.chunks)
        self._head_sent = True
        transport.write(
            head_bytes(
                head.status,
                head.headers,
                length=head.length,
                chunked=self._chunked,
                keep_alive=self._keep_alive,
            )
        )

    async def _end(self, transport: asyncio.Transport, end: End) -> None:
        await self._drained.wait()
        self._note_over(end.how)
        if end.how == "tidy":
            if self._chunked:
                transport.write(LAST_CHUNK)
            if not self._keep_alive:
                transport.close()
        elif end.how == "fin":
            transport.close()
        else:
            reset(transport)

    def _refuse(self, status: int, why: str) -> None:
        if self._transport is None:
            return
        if not self._head_sent:
            body = msgspec.json.encode(
                {"error": {"message": why, "type": "lab_error", "param": None, "code": None}}
            )
            headers = {"content-type": "application/json"}
            self._transport.write(
                head_bytes(status, headers, length=len(body), chunked=False, keep_alive=False) + body
            )
        self._transport.close()

    def _note_over(self, how: str) -> None:
        if self._exchange is not None and not self._exchange.progress.over:
            self._exchange.progress.over = how
            self._exchange.progress.over_at = self._clock.now()
