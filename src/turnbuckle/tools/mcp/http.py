"""A server that is reached by HTTP ("streamable HTTP"): each message is a request of its own, and its answer
is a document or a stream of events.

What was sent and not answered may have been carried out; only what could not be connected was not. Redirects
are not followed, since they would take the headers along, and no proxy of the environment is used.
"""

import asyncio
import re
from collections.abc import Mapping

import aiohttp
import msgspec
from msgspec import UNSET

from turnbuckle.tools.mcp.messages import LINE_CAP, Incoming, Unreadable, read_message
from turnbuckle.tools.mcp.session import McpSession
from turnbuckle.wire.sse import SseDecoder

CONNECT_SECONDS = 10.0
LEAVE = 1.0
"""Seconds that a server has to hear that nobody needs it any more, or to end a stream that has answered."""
MOST_AT_ONCE = 64
_SESSION = "Mcp-Session-Id"
_READ = 64 << 10
_ERROR_CAP = 2000
_SESSION_ID = re.compile(r"[!-~]{1,4000}")
"""It is sent back as a header, whole or not at all."""
_FORGOTTEN = 404


class HttpLink:
    """The way to one address."""

    def __init__(self, session: McpSession, url: str, headers: Mapping[str, str]) -> None:
        self._session = session
        self._url = url
        self._headers = dict(headers)
        self._id = ""
        self._client = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            connector=aiohttp.TCPConnector(limit=MOST_AT_ONCE),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._marks = 0
        self._requests: dict[int, asyncio.Task[None]] = {}

    @property
    def unsent(self) -> int:
        return 0

    def send(self, message: bytes) -> int:
        self._marks += 1
        mark = self._marks
        task = asyncio.create_task(self._post(message), name=f"mcp request {self._session.name}")
        self._requests[mark] = task
        task.add_done_callback(lambda _: self._requests.pop(mark, None))
        return mark

    def has_sent(self, mark: int) -> bool:
        return True

    def drop(self, mark: int) -> None:
        if mark in self._requests:
            self._requests[mark].cancel()

    async def close(self) -> str:
        for task in self._requests.values():
            task.cancel()
        await asyncio.gather(*self._requests.values(), return_exceptions=True)
        if self._id:
            try:
                timeout = aiohttp.ClientTimeout(total=LEAVE)
                async with self._client.delete(
                    self._url, headers=self._all_headers(), timeout=timeout, allow_redirects=False
                ):
                    pass
            except (aiohttp.ClientError, TimeoutError, OSError):
                self._id = ""  # it will forget us by itself
        await self._client.close()
        return "closed"

    def _all_headers(self) -> dict[str, str]:
        own = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        own["Accept-Encoding"] = "identity"  # nothing is unpacked, so nothing grows
        version = self._session.version
        if version:
            own["MCP-Protocol-Version"] = version
        if self._id:
            own[_SESSION] = self._id
        return {**self._headers, **own}

    async def _post(self, message: bytes) -> None:
        asked = read_message(message)
        number = asked.id if isinstance(asked.id, int) and asked.method else None
        reached = False
        try:
            async with self._client.post(
                self._url, data=message, headers=self._all_headers(), allow_redirects=False
            ) as answer:
                reached = True
                await self._read(answer, number)
            why = "it closed the connection without an answer"
        except aiohttp.ClientConnectorError as error:
            why = f"no connection: {error.os_error.strerror or error.os_error}"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, Unreadable) as error:
            reached, why = True, f"{type(error).__name__}: {error}"
        if number is not None:
            await self._session.settled()
            self._session.lose(number, self._session.discreet(why, _ERROR_CAP), reached=reached)

    async def _read(self, answer: aiohttp.ClientResponse, number: int | None) -> None:
        if answer.status >= 300:
            await self._refused(answer, number)
            return
        if (given := answer.headers.get(_SESSION, "")) and not self._id:
            if not _SESSION_ID.fullmatch(given):
                raise Unreadable("the name that it gave to the session cannot be sent back")
            self._id = given
        if number is None:
            return  # nothing was asked, so what it says here is not an answer, and may have no end
        if answer.content_type != "text/event-stream":
            body = await _limited(answer, LINE_CAP)
            if body.strip():
                self._session.heard(body)
            return
        try:
            async with asyncio.timeout(None) as limit:
                await self._read_events(answer, number, limit)
        except TimeoutError:
            return  # the answer was there; a stream that stays open would take the place of a later call

    async def _read_events(self, answer: aiohttp.ClientResponse, number: int, limit: asyncio.Timeout) -> None:
        decoder = SseDecoder(LINE_CAP, LINE_CAP)
        async for chunk in answer.content.iter_chunked(_READ):
            for _, data in decoder.feed(chunk):
                if data:
                    self._session.heard(data)
            if decoder.overflow is not None:
                raise Unreadable(f"it sent a message of more than {LINE_CAP >> 20} MB")
            await self._session.settled()
            if limit.when() is None and not self._session.awaits(number):
                limit.reschedule(asyncio.get_running_loop().time() + LEAVE)

    async def _refused(self, answer: aiohttp.ClientResponse, number: int | None) -> None:
        """An error as a status. One of JSON-RPC in its body is the better answer."""
        if answer.status == _FORGOTTEN and self._id:
            if number is not None:
                self._session.lose(number, "it has forgotten us (status 404)", reached=False)
            self._session.end("it has forgotten us (status 404)")
            return
        body = await _limited(answer, _ERROR_CAP)
        if number is None:
            return
        if answer.status >= 500:
            raise Unreadable(f"status {answer.status}")
        try:
            if (told := read_message(body)).error is not None and told.id in (number, UNSET, None):
                self._session.heard(_error(number, told))
                return
        except Unreadable:
            told = Incoming()
        self._session.heard(_error(number, told, f"status {answer.status} {answer.reason or ''}".strip()))


def _error(number: int, told: Incoming, otherwise: str = "") -> bytes:
    fault = {"code": told.error.code, "message": told.error.message} if told.error is not None else None
    return msgspec.json.encode({"id": number, "error": fault or {"code": 0, "message": otherwise}})


async def _limited(answer: aiohttp.ClientResponse, cap: int) -> bytes:
    """A body. One that is too long is cut to the cap if it is an error, and refused if it is an answer."""
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_chunked(_READ):
        parts.append(chunk)
        size += len(chunk)
        if size > cap:
            if answer.status < 300:
                raise Unreadable(f"it sent a message of more than {cap >> 20} MB")
            break
    return b"".join(parts)[:cap]
