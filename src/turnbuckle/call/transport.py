"""One HTTP exchange, as bytes and failures. No retry, no redirect, no time limit of its own, and no exception
gets out.

Theory of operation. `Connections` is what all attempts share. An `UpstreamExchange` takes a connection that
is free, or waits for a new one in a task that can be given up; writes its request at once; and reads its
body straight from the library's buffers. `abort` may be called by a timer or a stop at any moment: it drops
the socket at once (a polite close would wait for a peer that is gone) and wakes the reader. What had arrived
before a connection broke is still handed over, and only then the failure. After a proper end the connection
has a moment to bring the body's terminator, which returns it to the pool; else it is dropped.

A real model sends its words one by one, each as one chunk of the body in one read. While a reader waits who
brought a way to take such chunks (`hand_to`), it is handed them where they arrive, and neither the library
nor the reader's task does anything. Whatever else arrives goes through the library, as always.
"""

import asyncio
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Self

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from turnbuckle.call.body_cache import BodyCache
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.pool import BUFFERS, SPLITS, Pool, PoolHandler
from turnbuckle.vocab.failure import Failure, failure

LINGER = 1.0
"""So long may a body take, behind the protocol's last word, to end."""
_CHUNK_HEAD = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_CHUNK_END = b"\n\r\n"  # of one that ends like an event


class ResponseHead(Struct, frozen=True):
    """The status line and the headers, with names in lower case."""

    status: int
    headers: dict[str, str]


class Connections:
    """The pool that all attempts share. Made inside a running loop, closed once."""

    def __init__(self) -> None:
        self._pool = Pool()
        self._lingering: set[UpstreamExchange] = set()
        self.bodies = BodyCache(SystemClock())
        """What is sent through them, encoded once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for exchange in tuple(self._lingering):
            exchange.let_go()
        self.bodies.close()
        await self._pool.close()

    def exchange(self, url: str, headers: dict[str, str], body: bytes) -> "UpstreamExchange":
        """A POST that is not yet sent."""
        return UpstreamExchange(self._pool, url, headers, body, self._lingering)


class UpstreamExchange:
    """One request and its answer. `connected` is called when the connection stands. `lingering` are those
    whose bodies have not ended yet although nobody reads them any more."""

    def __init__(
        self,
        pool: Pool,
        url: str,
        headers: dict[str, str],
        body: bytes,
        lingering: "set[UpstreamExchange]",
    ) -> None:
        self.connected: Callable[[], None] | None = None
        self._pool = pool
        self._url = url
        self._headers = headers
        self._body = body
        self._lingering = lingering
        self._task: asyncio.Task[Connection] | None = None  # makes a connection
        self._connection: Connection | None = None  # until the body ends
        self._transport: asyncio.Transport | None = None
        self._handler: PoolHandler | None = None
        self._content: aiohttp.StreamReader | None = None
        self._is_packed = False
        self._taken = 0
        self._over: Failure | None = None
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], None] | None = None
        self._is_tidy = False  # the last bytes that the library got ended like a chunk
        self._between: bool | None = None  # its parser stands between two chunks; None: not known

    async def send(self) -> ResponseHead | Failure:
        """Send the request and wait for the head of the answer."""
        if (aborted := self._aborted()) is not None:
            return aborted
        try:
            target = self._pool.target(self._url)
            head = target.head(self._headers, len(self._body))
            connection = await self._pool.idle(target)
            if connection is None:
                connection = await self._made(self._loop.create_task(self._pool.connected(target)))
            if connection is not None:
                return await self._answered(connection, head)
            aborted = self._aborted()
            assert aborted is not None
            return aborted
        except asyncio.CancelledError:
            self.abort(failure("cancelled", "nobody waits for the answer any more"))
            raise
        except Exception as error:
            return self._over or self._break(from_exception(error))

    async def _made(self, task: "asyncio.Task[Connection]") -> Connection | None:
        """The connection that a task makes. None if this was given up meanwhile."""
        self._task = task
        over: asyncio.Future[None] = self._loop.create_future()
        task.add_done_callback(partial(_mark_done, over))
        await over  # and not the task, which is given up without an error here
        self._task = None
        if self._over is not None:
            _drop(task)
            return None
        return task.result()

    async def _answered(self, connection: Connection, head: bytes) -> ResponseHead | Failure:
        """Write the request and wait for the head of the answer."""
        self._connection = connection  # from here on it is given back, whatever happens
        handler = connection.protocol
        assert isinstance(handler, PoolHandler)
        transport = handler.transport
        if transport is None:  # it broke before its maker's word was here
            raise aiohttp.ServerDisconnectedError
        self._handler, self._transport = handler, transport
        handler.exchange = self
        if self.connected is not None:
            self.connected()
        handler.set_response_params(read_until_eof=True)
        transport.writelines((head, self._body))
        message, content = await handler.read()
        while 100 <= message.code < 200 and message.code != 101:  # what is said before the answer
            message, content = await handler.read()
        if (aborted := self._aborted()) is not None:
            return aborted
        self._content = content
        self._is_packed = "Content-Encoding" in message.headers
        content.on_eof(self._free)
        if handler.transport is None:
            self.lost()  # it was, before anybody had the answer
        return ResponseHead(
            message.code, {name.lower(): _legible(value) for name, value in message.headers.items()}
        )

    def _free(self) -> None:
        """The body has ended: somebody else can have the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()

    def _aborted(self) -> Failure | None:
        return self._over

    def hand_to(self, take: Callable[[bytes], None]) -> None:
        """From here on chunks of the body that come alone go to `take` while `wait` waits. It must not raise;
        `wake` ends the wait."""
        if self._content is not None and not self._is_packed:
            self._take = take

    async def wait(self) -> None:
        """Until something has arrived that was not handed over, or it is over, or somebody calls `wake`."""
        if self._over is not None or self._content is None or self.has_unread:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> bytes | Failure:
        """The bytes that are there, or the next ones to come. Empty at the proper end of the body."""
        while self._over is None and self._content is not None and not self.has_unread:
            await self.wait()
        return self.read_now()

    def read_now(self) -> bytes | Failure:
        """The bytes that are there. Empty at the proper end of the body."""
        content = self._content
        if self._over is not None or content is None:
            return self._over or failure("reset", "there is no answer to read")
        try:
            chunk = content.read_nowait()
        except Exception as error:
            return self._over or self._break_off(content, error)
        self._taken += len(chunk)
        return chunk if self._over is None else self._over

    def take_chunk(self, data: bytes) -> bool:
        """Hand these bytes to who waits for them, if they are one whole chunk of the body. False if they are
        the library's."""
        take, waiter = self._take, self._waiter
        if take is None or waiter is None or data[-3:] != _CHUNK_END or waiter.done():
            return False
        head = _CHUNK_HEAD.match(data)
        if head is None or not (self._between or self._is_between_chunks()):
            return False
        begin, size = head.end(), int(head[1], 16)
        if not size or begin + size + 2 != len(data):  # one without a size ends the body
            return False
        take(data[begin:-2])
        return True

    def _is_between_chunks(self) -> bool:
        """Whether the library's parser would take the next bytes for the head of a chunk. Behind a chunk
        whose last line has ended, the only other end of a read that looks like this is that of the body."""
        if self._between is None:
            content = self._content
            assert content is not None
            splits = getattr(content, SPLITS)
            self._between = self._is_tidy and bool(splits) and splits[-1] == content.total_bytes
        return self._between

    def lost(self) -> None:
        """The connection is gone. If the body was no HTTP in the midst, the library says so to nobody."""
        content = self._content
        if content is not None and not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the rest of the body is not HTTP"))
        self.look(b"")

    def look(self, data: bytes) -> None:
        """The library has taken these bytes."""
        self._between = None
        if data:
            self._is_tidy = data[-3:] == _CHUNK_END
        if self._waiter is not None and self.has_unread:
            self.wake()

    @property
    def has_unread(self) -> bool:
        """Whether something has arrived that nobody has taken yet: bytes, the end or a failure."""
        content = self._content
        if content is None:
            return False
        return content.total_bytes > self._taken or content.is_eof() or content.exception() is not None

    def abort(self, why: Failure) -> None:
        """Drop the connection now. Whoever waits for this exchange gets `why`. Harmless when it is over."""
        if self._over is None:
            self._over = why
        self._drop()
        self.wake()

    def finish(self) -> None:
        """All that was wanted has come. The connection goes back to the pool if its body ends soon."""
        self.connected = self._take = None
        if self._content is None or self._connection is None or self._content.is_eof():
            self._drop()
            return
        self._lingering.add(self)
        asyncio.get_running_loop().call_later(LINGER, self.let_go)

    def let_go(self) -> None:
        """Wait no longer for the end of the body."""
        self._lingering.discard(self)
        self._drop()

    def _break_off(self, content: aiohttp.StreamReader, error: Exception) -> bytes | Failure:
        broken = self._break(from_exception(error))
        # The library forgets what it has buffered as soon as the connection breaks; we do not.
        buffered, offset = (getattr(content, name) for name in BUFFERS)
        left = b"".join(buffered)[offset:]
        return left if left and content.total_bytes > self._taken else broken

    def _break(self, broken: Failure) -> Failure:
        self._over = broken
        self._drop()
        return broken

    def _drop(self) -> None:
        content, self._content = self._content, None
        connection, self._connection = self._connection, None
        task, self._task = self._task, None
        transport, self._transport = self._transport, None
        handler, self._handler = self._handler, None
        if handler is not None and handler.exchange is self:
            handler.exchange = None
        ended = content is not None and content.is_eof() and content.exception() is None
        if transport is not None and not ended:
            transport.abort()
        if connection is not None:
            connection.close()
        if task is not None:
            task.add_done_callback(_drop)
            task.cancel()


def _mark_done(over: "asyncio.Future[None]", _: object) -> None:
    if not over.done():
        over.set_result(None)


def _drop(task: "asyncio.Task[Connection]") -> None:
    """Nobody wants what this task brings."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def from_exception(error: BaseException) -> Failure:
    """What went wrong below us, as a value. No request header is ever part of the words."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _never(f"the certificate of {error.host} is not trusted: {error.certificate_error}")
        case aiohttp.ClientHttpProxyError():
            words = f"the proxy refused the connection: {error.status} {error.message}"
            return failure("connect", words) if error.status >= 500 else _never(words)
        case aiohttp.ClientConnectorDNSError():
            return failure("connect", f"no such host: {error.host}")
        case aiohttp.ClientConnectorError():
            return failure("connect", f"no connection to {error.host}:{error.port}: {_words(error.os_error)}")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return _never("the address of the route cannot be used; base_url must be http:// or https://")
        case aiohttp.ServerDisconnectedError():
            return failure("reset", "the connection was closed before an answer came")
        case aiohttp.ClientPayloadError():
            return _from_payload(error)
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return failure("garbage", f"the answer is not HTTP: {error.message}")
        case aiohttp.ClientConnectionError() | OSError():
            return failure("reset", f"the connection broke: {_words(error)}")
        case _:
            return _never(f"the request could not be made: {_words(error)}")


def _from_payload(error: aiohttp.ClientPayloadError) -> Failure:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError):
            return failure("reset", f"the connection broke in the body: {_words(seen)}")
        seen = seen.__cause__ or seen.__context__
    if "ConnectionResetError" in str(error) or "BrokenPipeError" in str(error):
        return failure("reset", "the connection was reset in the body")
    return failure("incomplete", "the connection was closed before the body ended")


def _never(words: str) -> Failure:
    """A failure to connect that no second try will change."""
    return Failure("connect", words, False)


def _words(error: BaseException) -> str:
    """What an error says to people: its words, without the system's number for it. Of a connection that
    failed Python tells an address instead."""
    words = error.strerror if isinstance(error, OSError) else None
    if words and words.startswith("Connect call failed") and isinstance(error, OSError) and error.errno:
        words = os.strerror(error.errno)
    return words[:1].lower() + words[1:] if words else str(error) or type(error).__name__


def _legible(value: str) -> str:
    """A header's value. Its bytes may be no text, and then stand for themselves in a form that nobody can
    write."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
