"""A line between a program and a server, that fails as networks do.

    async with NetworkProxy("/run/postgresql/.s.PGSQL.5432") as line:
        ...  # connect to line.host, line.port
        line.stall()

It listens, and hands on whatever comes, both ways, to the server at `target`: `host:port`, or the path of a
unix socket. A program on the other side of it needs no change: it is told another address.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Self

from turnbuckle.lab.clock import RealClock
from turnbuckle.lab.connection import reset
from turnbuckle.vocab.clock import Clock

_PIECE = 1 << 16


class NetworkProxy:
    """How the line is at this moment can be set at any time, and holds for connections that are open too."""

    def __init__(
        self,
        target: str,
        *,
        clock: Clock | None = None,
        changed: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """What the server says is handed on as `changed` gives it."""
        self.host, self.port = "127.0.0.1", 0
        self.delay = 0.0
        """Seconds that every piece takes, each way."""
        self.refuses = False
        """Whether new connections are ended at once."""
        self.swallowed = asyncio.Event()
        """Set when something was said that nobody heard."""
        self._deaf = False
        self._target = target
        self._clock = clock or RealClock()
        self._changed = changed or bytes
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def __len__(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def cut(self) -> None:
        """Every connection ends in the middle of whatever is said, and both sides are told."""
        for connection in tuple(self._connections):
            connection.abort()
            if connection.task is not None:
                connection.task.cancel()

    def stall(self) -> None:
        """Nothing comes through any more, and nothing is lost: what was said comes when the line is well."""
        self._open.clear()

    def lose_answers(self) -> None:
        """The server hears everything, and what it says is lost. A connection to which that happened is of no
        use any more: `cut` it, or leave it to whoever waits."""
        self._deaf = True

    def swallow(self) -> None:
        """Nothing that is said on the connections of this moment is heard again, and neither side is told,
        not even of the other's end. New connections are well."""
        for connection in tuple(self._connections):
            connection.forgotten = True

    def half_open(self) -> None:
        """Every connection ends for the program, and the server is not told: it keeps its half, with all that
        hangs on it, until it asks by itself. New connections are well."""
        self.swallow()
        for connection in tuple(self._connections):
            reset(connection.client.transport)

    def heal(self) -> None:
        """All is well from here on."""
        self.refuses = self._deaf = False
        self.delay = 0.0
        self._open.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._connections.add(connection)
        task = connection.task = asyncio.ensure_future(self._serve(connection, reader))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: "_Connection", reader: asyncio.StreamReader) -> None:
        try:
            await self._open.wait()
            if self.refuses:
                return
            there, connection.server = await self._connected()
            await asyncio.gather(
                self._hand_on(connection, reader, connection.server, answers=False),
                self._hand_on(connection, there, connection.client, answers=True),
            )
            await connection.close()
        except OSError:
            if connection.forgotten:
                await self._clock.sleep(math.inf)
        finally:  # one of the two is gone, and now the other one is told
            connection.abort()
            self._connections.discard(connection)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if "/" in self._target:
            return await asyncio.open_unix_connection(self._target)
        host, _, port = self._target.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def _hand_on(
        self,
        connection: "_Connection",
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        answers: bool,
    ) -> None:
        while data := await source.read(_PIECE):
            if self.delay:
                await self._clock.sleep(self.delay)
            await self._open.wait()
            if connection.forgotten or (answers and self._deaf):
                self.swallowed.set()
                continue
            if target.is_closing():
                return
            target.write(self._changed(data) if answers else data)
            await target.drain()
        if connection.forgotten:
            await self._clock.sleep(math.inf)  # nobody is told that it ended
        if not target.is_closing() and target.can_write_eof():
            target.write_eof()


class _Connection:
    """One connection of a program, and the one to the server behind it."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None
        self.task: asyncio.Task[None] | None = None
        self.forgotten = False

    async def close(self) -> None:
        """In good order: what was said is handed over first."""
        for writer in self._both:
            writer.close()
            await writer.wait_closed()

    def abort(self) -> None:
        for writer in self._both:
            reset(writer.transport)

    @property
    def _both(self) -> tuple[asyncio.StreamWriter, ...]:
        return (self.client,) if self.server is None else (self.client, self.server)
