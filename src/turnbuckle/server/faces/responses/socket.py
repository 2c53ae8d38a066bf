"""`/v1/responses` over a WebSocket: the same responses, one message for each event.

A client sends `response.create` with what it would send as a body. Responses follow one another; one that is
asked for while another is under way waits for its turn. Each event that a stream would have is one message.
What goes wrong before a response begins is one message of type `error`.

A response with `store` false can be gone on from by `previous_response_id` on the connection that made it,
and nowhere else. If going on from it fails it is forgotten, so that client and server never disagree about
what was said. `generate` false makes no response: what it was given waits for the next one.

A client that comes back after its connection broke reads on with `turnbuckle.response.follow`, the response's
id and the number of the last event that it has.

While the store cannot be written, a message of type `turnbuckle.waiting` says so in words. It has no number.
"""

import asyncio
import time
from collections.abc import Callable, MutableMapping
from typing import Any

import msgspec

from turnbuckle.errors import TurnbuckleError
from turnbuckle.journal.port import JournalError
from turnbuckle.server.faces.responses.handler import ResponsesApi
from turnbuckle.server.faces.responses.ids import response_id
from turnbuckle.server.http.begin import SESSION
from turnbuckle.server.http.body_values import SMALL, TooManyValues, counted
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, RequestHead, Streaming
from turnbuckle.server.http.problems import problem_of, storage_problem, unexpected, written
from turnbuckle.server.http.sockets import WebSocket
from turnbuckle.server.streaming.heartbeat import STORAGE_NOTE
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.service.limits import Rates

CREATE = "response.create"
FOLLOW = "turnbuckle.response.follow"
WAITING = "turnbuckle.waiting"
LONGEST = 3600.0
"""Seconds that a connection lasts at most, as the protocol has it."""
MOST_LOCAL = 64
"""Responses that one connection remembers without having stored them."""
_NOT_FOUND = "previous_response_not_found"
_OF_A_CONNECTION = (
    "idempotency-key",
    "content-length",
    "content-type",
    "connection",
    "upgrade",
    "sec-websocket-",
)
"""Headers of the request that do not hold for each response of it. The session that it names holds for those
that name no other history."""
_HISTORIES = ("previous_response_id", "conversation")


class ResponsesSocket:
    """The handler of such a WebSocket. `now` is a monotonic clock."""

    def __init__(
        self,
        api: ResponsesApi,
        streamer: RunStreamer,
        rates: Rates,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._streamer = streamer
        self._rates = rates
        self._now = now

    async def serve(self, socket: WebSocket) -> None:
        """Answer one message after another, until the client leaves."""
        began, turns = self._now(), SocketTurns()
        while (text := await socket.receive()) is not None:
            if self._now() - began > LONGEST:
                limit = Problem(
                    400,
                    "this connection is an hour old, which is as old as one gets; make a new one to go on",
                    code="websocket_connection_limit_reached",
                )
                await socket.send(error_message(written(limit)))
                await socket.close(1000, "an hour is over")
                return
            failed = await self._answered(socket, turns, text)
            if failed is not None:
                await socket.send(error_message(failed))

    async def _answered(self, socket: WebSocket, turns: "SocketTurns", text: str) -> Answer | None:
        """Answer one message; gives what went wrong instead."""
        try:
            await self._rates.count(socket.caller.owner)
            event = await read_event(text)
            if event.get("type") == FOLLOW:
                return await self._follow(socket, event)
            return await self._create(socket, turns, event)
        except Problem as problem:
            return written(problem)
        except JournalError as error:
            return written(storage_problem(error))
        except TurnbuckleError as error:
            return written(problem_of(error) or unexpected(socket.head.id))

    async def _create(self, socket: WebSocket, turns: "SocketTurns", event: dict[str, Any]) -> Answer | None:
        body = turns.body_of(event)
        if body.pop("generate", True) is False:
            events = turns.warm(body, self._api.new_response())
            for told in events:
                await socket.send(told)
            return None
        previous = str(body.get("previous_response_id") or "")
        elsewhere = any(body.get(name) for name in _HISTORIES)
        sent = msgspec.json.encode({**body, "stream": True})
        exchange = self._exchange(socket, "POST", sent, elsewhere=elsewhere)
        succeeded = False
        try:
            answer = await self._api.create(exchange, local=turns.local)
            if isinstance(answer, Answer):
                return answer
            socket.let_go()
            messages = SocketMessages(socket)
            await self._streamer.perform(answer, socket.line, messages.send)
            succeeded = not messages.failed
            if succeeded and body.get("store") is False:
                turns.remember(response_id(answer.run))
        finally:
            if previous and not succeeded and not socket.line.gone:
                turns.forget(previous)
        return None

    async def _follow(self, socket: WebSocket, event: dict[str, Any]) -> Answer | None:
        response, after = event.get("response_id"), event.get("starting_after", 0)
        if not isinstance(response, str) or not isinstance(after, int):
            raise Problem(400, f"{FOLLOW} wants response_id and, as a number, starting_after")
        query = f"stream=true&starting_after={after}" if after else "stream=true"
        exchange = self._exchange(socket, "GET", b"", query.encode(), {"response": response})
        answer = await self._api.get(exchange)
        if isinstance(answer, Streaming):
            await self._streamer.perform(answer, socket.line, SocketMessages(socket).send)
            return None
        return answer

    def _exchange(
        self,
        socket: WebSocket,
        method: str,
        body: bytes,
        query: bytes = b"",
        params: dict[str, str] | None = None,
        *,
        elsewhere: bool = False,
    ) -> Exchange:
        left_out = (*_OF_A_CONNECTION, SESSION) if elsewhere else _OF_A_CONNECTION
        headers = {
            name: value for name, value in socket.head.headers.items() if not name.startswith(left_out)
        }
        head = RequestHead(method, socket.head.path, query, headers, socket.head.id)

        async def read() -> bytes:
            return body

        return Exchange(head, params=params or {}, caller=socket.caller, line=socket.line, read=read)


class SocketTurns:
    """What one connection remembers: responses that were not stored, and what was sent ahead."""

    def __init__(self) -> None:
        self._local: dict[str, None] = {}
        self._warm: dict[str, dict[str, Any]] = {}

    @property
    def local(self) -> frozenset[str]:
        """Responses that can be gone on from here alone."""
        return frozenset(self._local)

    def remember(self, response: str) -> None:
        self._local[response] = None
        while len(self._local) > MOST_LOCAL:
            del self._local[next(iter(self._local))]

    def forget(self, response: str) -> None:
        self._local.pop(response, None)

    def body_of(self, event: dict[str, Any]) -> dict[str, Any]:
        """The body of the response that a message asks for. Raises Problem."""
        if event.get("type") != CREATE:
            kind = str(event.get("type"))[:200]
            raise Problem(400, f"type must be {CREATE} or {FOLLOW}, not {kind!r}", param="type")
        body = {name: value for name, value in event.items() if name != "type"}
        if body.get("background"):
            message = "a response over a WebSocket is never in the background; ask for it by HTTP"
            raise Problem(400, message, param="background", code="unsupported_parameter")
        if body.pop("stream", True) is False:
            message = "a response over a WebSocket always streams; leave stream out"
            raise Problem(400, message, param="stream", code="unsupported_parameter")
        if body.pop("stream_id", None) is not None:
            message = "responses of one connection follow one another here; leave stream_id out"
            raise Problem(400, message, param="stream_id", code="unsupported_parameter")
        warm = self._warm.pop(str(body.get("previous_response_id")), None)
        return body if warm is None else _continued(warm, body)

    def warm(self, body: dict[str, Any], response: str) -> tuple[str, ...]:
        """Keep what was sent ahead, and say so in the shape of a response without output."""
        self._warm = {response: body}
        told: dict[str, Any] = {
            "id": response,
            "object": "response",
            "created_at": int(time.time()),
            "model": body.get("model"),
            "output": [],
            "error": None,
            "incomplete_details": None,
            "usage": {
                "input_tokens": 0,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 0,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 0,
            },
        }
        events = (("response.created", "in_progress"), ("response.completed", "completed"))
        return tuple(
            msgspec.json.encode(
                {"type": kind, "sequence_number": number, "response": {**told, "status": status}}
            ).decode()
            for number, (kind, status) in enumerate(events)
        )


def _continued(warm: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """What was sent ahead, with what came now behind it."""
    joined = {**warm, **body}
    joined.pop("previous_response_id", None)
    if "previous_response_id" in warm:
        joined["previous_response_id"] = warm["previous_response_id"]
    joined["input"] = [*_items(warm.get("input")), *_items(body.get("input"))]
    return joined


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return list(value) if isinstance(value, list) else []


class SocketMessages:
    """Takes what is sent to a stream, and sends each event as a message. `failed`: the response did."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.failed = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Raises ClientGone."""
        for line in bytes(message.get("body", b"")).split(b"\n"):
            if line.startswith(STORAGE_NOTE):  # a stream has it in a comment, since it has no number
                await self._socket.send(_waiting(line[1:].strip().decode()))
            if not line.startswith(b"data:"):
                continue  # names of events stand in their data, and pings are WebSocket's own
            data = line[5:].strip()
            if data == b"[DONE]":
                continue
            self.failed = self.failed or data.startswith((b'{"type":"response.failed"', b'{"type":"error"'))
            await self._socket.send(data.decode())


def _waiting(words: str) -> str:
    return msgspec.json.encode({"type": WAITING, "waiting": f"{words[:1].upper()}{words[1:]}"}).decode()


async def read_event(text: str) -> dict[str, Any]:
    """A client's message. Raises Problem."""
    raw = text.encode()
    if len(raw) > SMALL:
        try:
            for _ in counted(raw):
                await asyncio.sleep(0)
        except TooManyValues:
            raise Problem(413, "the message holds too many values", code="too_many_values") from None
    try:
        event = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the message is not JSON: {error}", code="invalid_json") from None
    if not isinstance(event, dict):
        raise Problem(400, f"a message is a JSON object with the type {CREATE}", code="invalid_type")
    return event


def error_message(answer: Answer) -> str:
    """An answer that says what went wrong, as a message. What cannot be gone on from is the client's own
    mistake here, whatever HTTP calls it."""
    error = msgspec.json.decode(answer.body).get("error") or {}
    status = 400 if error.get("code") == _NOT_FOUND else answer.status
    return msgspec.json.encode({"type": "error", "status": status, "error": error}).decode()
