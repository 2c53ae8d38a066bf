"""The server as an ASGI app: from a request to its endpoint, and from what that gives to bytes.

The order of the checks is the order in which they protect: which page asks, what is asked for, who asks, how
often, what was sent. Every answer, whatever it is about, has an id by which the log knows it, and forbids
guessing, and caching too unless it says itself how long it holds. An error that nobody expected is logged and
answered with that id and nothing else.

There is no middleware: nothing wraps the body, and `RunStreamer` sends a stream straight to the connection.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from turnbuckle.errors import RateLimited, TurnbuckleError
from turnbuckle.journal.port import JournalError
from turnbuckle.observe.logs import request_id
from turnbuckle.observe.traces import under
from turnbuckle.server.http.asgi_client import AsgiClient
from turnbuckle.server.http.auth import Auth
from turnbuckle.server.http.bodies import Body, BodyBudget, check_type, is_empty
from turnbuckle.server.http.client_connection import ClientConnection, ClientGone
from turnbuckle.server.http.connection import EXTENSION
from turnbuckle.server.http.endpoints import Endpoint, Table
from turnbuckle.server.http.entrance import Entrance, Place
from turnbuckle.server.http.exchange import Answer, Exchange, Headers, Problem, RequestHead, Streaming
from turnbuckle.server.http.neighbours import Address
from turnbuckle.server.http.origins import Origins
from turnbuckle.server.http.problems import (
    is_for_messages,
    new_request_id,
    problem_of,
    storage_problem,
    unexpected,
    written,
)
from turnbuckle.server.http.sockets import SocketServer
from turnbuckle.server.streaming.heartbeat import Send
from turnbuckle.server.streaming.run_streamer import STREAM_HEADERS, RunStreamer
from turnbuckle.service.limits import Rates, RequestsLeft
from turnbuckle.service.owners import Caller

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

NOBODY = Caller("")
DEPARTED = 499
"""What the log says of a request whose client left before its answer."""
_OF_ONE = 4  # bodies of the largest size that one owner may have under way, and below that all together
_OF_ALL = 8
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
_ALWAYS = ((b"x-content-type-options", b"nosniff"),)
_MESSAGES_ID = "request-id"
_UNCACHED = (b"cache-control", b"no-store")

log = logging.getLogger("turnbuckle.server")


class Served(Struct, frozen=True):
    """What became of one request, for logs and metrics. `endpoint` is the path of its row in the table, so
    that there are only so many of them; empty if it has none. `end` says how a stream ended; empty for a
    plain answer."""

    method: str
    endpoint: str
    status: int
    seconds: float
    request_id: str
    owner: str
    run: str = ""
    end: str = ""


class Server:
    """All endpoints behind all checks. `seen` is told of every request when it is over."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        *,
        auth: Auth,
        origins: Origins,
        rates: Rates,
        streamer: RunStreamer,
        max_body: int,
        seen: Callable[[Served], None] | None = None,
        sockets: SocketServer | None = None,
    ) -> None:
        self.table = Table(endpoints)
        self.sockets = sockets
        self._pages = frozenset(endpoint.path for endpoint in self.table.endpoints if endpoint.page)
        self._auth = auth
        self._origins = origins
        self._rates = rates
        self._streamer = streamer
        self.max_body = max_body
        self._bodies = BodyBudget(_OF_ONE * max_body, _OF_ALL * max_body)
        self._seen = seen
        self._active: set[_Request] = set()
        self._entrance = Entrance()
        self._by_turns = frozenset(
            (endpoint.method, endpoint.path) for endpoint in self.table.endpoints if endpoint.by_turns
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and self.sockets is not None:
            await self._socket(self.sockets, scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"this app speaks HTTP, not {scope['type']}")
        place = None
        if (scope["method"], scope["path"]) in self._by_turns:
            place = self._entrance.place() or await self._entrance.turn()
        request = _Request(scope, receive, send)
        request.place = place
        self._active.add(request)
        try:
            await self._answer(request)
        finally:
            self._active.discard(request)

    @property
    def needs_key(self) -> bool:
        """Whether a request without a key is refused."""
        return self._auth.needs_key

    def drop_revoked(self) -> None:
        """Hang up on every client whose key was revoked since it asked."""
        keyed = self.sockets is not None and self.sockets.has_keyed()
        if keyed or any(request.caller.key for request in self._active):
            revoked = self._auth.revoked()
            if self.sockets is not None:
                self.sockets.drop(revoked)
            for request in [request for request in self._active if request.caller.key in revoked]:
                request.line.abort()

    async def _socket(self, sockets: SocketServer, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        asked = _Request({**scope, "method": "GET"}, receive, send)
        own: ClientConnection | None = (scope.get("extensions") or {}).get(EXTENSION)
        status = await sockets.serve(asked.head, own, asked.ends, receive, send, self._bodies)
        if self._seen is not None:
            path = asked.head.path if asked.head.path in sockets.paths else ""
            self._seen(Served("GET", path, status, time.monotonic() - began, asked.head.id, ""))

    async def _answer(self, request: "_Request") -> None:
        """Carry the request out, whatever happens."""
        began = time.monotonic()
        status, run, end = DEPARTED, "", ""
        request_id.set(request.head.id)
        try:
            try:
                result = await self._result(request)
            finally:
                if request.place is not None:
                    self._entrance.leave(request.place)
            if isinstance(result, Streaming):
                status, run = 200, result.run
                end = await self._stream(request, result)
            else:
                status = result.status
                await request.send_answer(result)
        except ClientGone:
            log.debug("%s: the client left before its answer", request.head.id)
        finally:
            request.close()
            if self._seen is not None:
                seconds = time.monotonic() - began
                self._seen(request.served(status, seconds, run, end))

    async def _result(self, request: "_Request") -> Answer | Streaming:
        head = request.head
        try:
            return await self._perform(request)
        except Problem as problem:
            return written(problem, request.messages_id)
        except ClientGone:
            raise
        except JournalError as error:
            log.error("%s: %s %s failed: %s", head.id, head.method, head.path[:200], error)
            return written(storage_problem(error), request.messages_id)
        except Exception as error:
            known = problem_of(error) if isinstance(error, TurnbuckleError) else None
            if known is not None:
                return written(known, request.messages_id)
            log.error("%s: %s %s failed", head.id, head.method, head.path[:200], exc_info=error)
            return written(unexpected(head.id), request.messages_id)

    async def _perform(self, request: "_Request") -> Answer | Streaming:
        """Find the endpoint, check, and let the handler work. Raises Problem."""
        head = request.head
        # Without a query: what stands there may ask the page to do something.
        to_page = head.method in ("GET", "HEAD") and head.path in self._pages and not head.query_string
        request.page = self._origins.check(head.headers, to_page=to_page)
        if head.method == "OPTIONS":
            return self._options(request)
        match = self.table.find(head.method, head.path)
        endpoint = request.endpoint = match.endpoint
        if not endpoint.open:
            request.caller = self._auth.caller(head.headers, *request.ends, request.line)
            try:
                request.left = await self._rates.count(request.caller.owner)
            except RateLimited as refused:
                request.left = RequestsLeft(refused.limit, 0, refused.full_in)
                raise
        if head.method in _WITH_BODY and (endpoint.doc.needs_body or not is_empty(head.headers)):
            check_type(head.headers, endpoint.doc.body_type)
        body = Body(
            request.receive,
            head.headers,
            self.max_body,
            self._bodies,
            request.caller.owner,
            is_here=request.line.has_body,
        )
        exchange = Exchange(
            head, params=match.params, caller=request.caller, line=request.line, read=body.read
        )
        try:
            with under(head.headers):  # a run that begins here belongs to the caller's trace
                return await endpoint.handler(exchange)
        finally:
            body.let_go()

    async def _stream(self, request: "_Request", streaming: Streaming) -> str:
        """Answer with a stream, and say how it ended."""
        headers = request.common_headers(streaming.headers)
        if request.head.method == "HEAD":
            await request.start(200, [*STREAM_HEADERS, *headers])
            await request.send({"type": "http.response.body", "body": b"", "more_body": False})
            return "ended"
        return await self._streamer.perform(streaming, request.line, request.send, headers)

    def _options(self, request: "_Request") -> Answer:
        head = request.head
        methods = self.table.methods(head.path)
        if not methods:
            self.table.find("GET", head.path)  # says that there is nothing
        headers: Headers = (("allow", ", ".join(methods)),)
        if "access-control-request-method" in head.headers and request.page:
            headers += self._origins.preflight(head.headers, methods)
        return Answer(204, b"", headers, "")


class _Request:
    """One request on its way through the server, which finds out `page`, `endpoint` and `caller`, in this
    order. It knows nothing of the server."""

    __slots__ = (
        *("caller", "endpoint", "ends", "head", "left", "line", "messages_id", "page", "place"),
        *("receive", "send"),
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.head = RequestHead(
            method=scope["method"],
            path=(scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1"),
            query_string=scope["query_string"],
            headers=headers_of(scope["headers"]),
            id=new_request_id(),
        )
        client, server = scope.get("client"), scope.get("server")
        self.ends: tuple[Address | None, Address | None] = (
            tuple(client[:2]) if client else None,
            tuple(server[:2]) if server else None,
        )
        """The addresses of the client and of the server."""
        self.receive = receive
        self.send = send
        # Clients of Anthropic's API look for the id under a name of their own.
        self.messages_id = self.head.id if is_for_messages(self.head.path, self.head.headers) else ""
        self.line: ClientConnection | AsgiClient
        own: ClientConnection | None = (scope.get("extensions") or {}).get(EXTENSION)
        if own is None:
            self.line = stranger = AsgiClient(receive, send)
            self.receive, self.send = stranger.receive, stranger.send
        else:
            self.line = own
        self.caller = NOBODY
        self.endpoint: Endpoint | None = None
        self.page: Headers = ()
        self.left: RequestsLeft | None = None
        """Of the owner's requests, if they are counted."""
        self.place: Place | None = None
        """Where requests come in by turns: what it has until its first word."""

    def close(self) -> None:
        if isinstance(self.line, AsgiClient):
            self.line.close()

    def served(self, status: int, seconds: float, run: str, end: str) -> Served:
        endpoint = self.endpoint.path if self.endpoint is not None else ""
        head = self.head
        return Served(head.method, endpoint, status, seconds, head.id, self.caller.owner, run, end)

    async def send_answer(self, answer: Answer) -> None:
        headers = self.common_headers(answer.headers)
        if not any(name == "cache-control" for name, _ in answer.headers):
            headers.append(_UNCACHED)
        if answer.content_type:
            headers.append((b"content-type", answer.content_type.encode("latin-1")))
        if answer.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(answer.body)))
        await self.start(answer.status, headers)
        await self.send({"type": "http.response.body", "body": answer.body, "more_body": False})

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    def common_headers(self, more: Headers) -> list[tuple[bytes, bytes]]:
        """The headers of every answer, and those of this one."""
        ours = rate_headers(self.left)
        if ours:  # a provider may have said the same of its own limits, and one name has one value
            names = {name for name, _ in ours}
            more = tuple(pair for pair in more if pair[0].lower() not in names)
        named = (("x-request-id", self.head.id), *more, *self.page, *ours)
        if self.messages_id and not any(name == _MESSAGES_ID for name, _ in more):
            named += ((_MESSAGES_ID, self.head.id),)
        return [*_ALWAYS, *((name.lower().encode("latin-1"), header_value(value)) for name, value in named)]


def rate_headers(left: RequestsLeft | None) -> Headers:
    """What is left of the owner's minute, in the headers that clients of OpenAI know."""
    if left is None:
        return ()
    return (
        ("x-ratelimit-limit-requests", str(left.limit)),
        ("x-ratelimit-remaining-requests", str(left.remaining)),
        ("x-ratelimit-reset-requests", f"{left.full_in:.3f}s"),
    )


def header_value(text: str) -> bytes:
    """A text as a header can carry it: what it cannot becomes a question mark."""
    shown = text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
    return shown.encode("latin-1", "replace")


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Headers by name; values of one that comes several times are joined, as HTTP has it."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers
