"""What handlers see of HTTP, and what they give back.

A handler is an async function from an `Exchange` to an `Answer`, or to a `Streaming` which says whose journal
is to be read to the client and in which dialect. What the client did wrong is raised as a `Problem`, from any
depth, and is written in one place (`problems.py`) in the shape that clients of OpenAI's API know. Nothing in
here knows a server library: `asgi.py` does.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from turnbuckle.journal.port import Item
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.http.body_values import SMALL
from turnbuckle.server.http.client_connection import ClientConnection
from turnbuckle.service.owners import Caller
from turnbuckle.vocab.ids import RunId

Headers = tuple[tuple[str, str], ...]
T = TypeVar("T")

JSON = "application/json"
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
LARGEST = 2**53  # the largest number that every client can say exactly
MOST_FIELDS = 200  # in a query; ours have less than ten, and each costs memory before anything is checked


class Problem(Exception):
    """An answer that is an error. `type` follows from the status if it is left out. `should_retry` tells
    official clients whether to try the same again by themselves: False wherever that could do something
    twice, None to leave it to their own rules."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "",
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
        should_retry: bool | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type or _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
        self.code = code
        self.param = param
        self.retry_after = retry_after
        self.should_retry = should_retry
        self.headers = headers


class Answer(Struct, frozen=True):
    """A whole answer."""

    status: int = 200
    body: bytes = b""
    headers: Headers = ()
    content_type: str = JSON


def json_answer(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """An answer that is one JSON value."""
    return Answer(status, msgspec.json.encode(value), headers)


class Dialect(Protocol):
    """How a run's journal is told to one kind of client. Pure: items in, bytes out."""

    ended: bool
    """The last frame of the run was written."""

    def open(self) -> bytes:
        """What is sent at once, before any item."""
        ...

    def take(self, items: Sequence[Item]) -> bytes:
        """Items of the journal as whole frames; nothing, if these items say nothing to this client."""
        ...

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        """A frame that says nothing, for clients that count only frames; nothing, if every frame must come
        from the journal, also that one. `waits` is what everybody waits for, whatever the run itself does."""
        ...

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        """The server lets go of a run that is kept and can be read on later. `why`, if it is not because it
        stops."""
        ...


class Streaming(Struct, frozen=True):
    """An answer that reads a run to the client, as `RunStreamer` performs it. `on_disconnect` is `cancel`,
    `detach`, or a number of seconds: what becomes of the run when this client leaves before its end."""

    run: RunId
    dialect: Dialect
    after: int = 0
    headers: Headers = ()
    on_disconnect: str = "detach"


class Query(Mapping[str, str]):
    """The query of an address. Of a name that comes several times the last value counts; `all` has every
    one."""

    __slots__ = ("_pairs",)

    def __init__(self, raw: bytes = b"") -> None:
        self._pairs: list[tuple[str, str]] = []
        if raw:
            try:
                text = raw.decode("latin-1")
                self._pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
            except ValueError:
                raise Problem(400, f"the query has more than {MOST_FIELDS} fields") from None

    def __getitem__(self, name: str) -> str:
        for key, value in reversed(self._pairs):
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._pairs))

    def __len__(self) -> int:
        return len(dict(self._pairs))

    def all(self, name: str) -> list[str]:
        """Every value of a name; `name[]=` counts too."""
        return [value for key, value in self._pairs if key in (name, f"{name}[]")]

    def integer(self, name: str, default: int, *, least: int = 0, most: int = LARGEST) -> int:
        """A whole number within bounds. Raises Problem."""
        return whole_number(self.get(name, ""), name, default, least=least, most=most)

    def flag(self, name: str, default: bool = False) -> bool:
        """true or false. Raises Problem."""
        text = self.get(name, "").lower()
        if text in ("", "true", "1", "false", "0"):
            return default if not text else text in ("true", "1")
        raise Problem(400, f"{name} must be true or false", param=name, code="invalid_value")

    def word(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of some words. Raises Problem."""
        text = self.get(name, "") or default
        if text != default and text not in choices:
            raise Problem(
                400, f"{name} must be one of {', '.join(choices)}", param=name, code="invalid_value"
            )
        return text


def whole_number(text: str, name: str, default: int = 0, *, least: int = 0, most: int = LARGEST) -> int:
    """A whole number within bounds, or the default if there is nothing. Raises Problem."""
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and least <= int(text) <= most):
        raise Problem(
            400, f"{name} must be a whole number from {least} to {most}", param=name, code="invalid_value"
        )
    return int(text)


ReadBody = Callable[[], Awaitable[bytes]]


class RequestHead(Struct, frozen=True):
    """What a request says in front of its body. Names of `headers` are in lower case; `id` is what the log
    knows it by."""

    method: str
    path: str
    query_string: bytes
    headers: Mapping[str, str]
    id: str


class Exchange:
    """One request, as a handler sees it. `params` are the parts of the path that the endpoint left open."""

    __slots__ = (
        "_body",
        "_read",
        "caller",
        "headers",
        "line",
        "method",
        "params",
        "path",
        "query",
        "request_id",
    )

    def __init__(
        self,
        head: RequestHead,
        *,
        params: Mapping[str, str],
        caller: Caller,
        line: ClientConnection,
        read: ReadBody,
    ) -> None:
        self.method = head.method
        self.path = head.path
        self.headers = head.headers
        self.request_id = head.id
        self.query = Query(head.query_string)
        self.params = params
        self.caller = caller
        self.line = line
        self._read = read
        self._body: bytes | None = None

    async def body(self) -> bytes:
        """The whole body. Raises Problem if it is too large, and ClientGone if the client leaves before its
        end."""
        if self._body is None:
            self._body = await self._read()
        return self._body

    async def read(self, kind: type[T]) -> T:
        """The body as a value of a type. An empty body counts as an empty object. Raises Problem."""
        body = await self.body() or b"{}"
        try:
            value = msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError as error:
            raise _unfit(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, f"the body is not JSON: {error}", code="invalid_json") from None
        if len(body) > SMALL:
            await asyncio.sleep(0)  # what is done with it takes long, too: others first
        return value

    def forget_body(self) -> None:
        """Nobody needs the body any more: a client may read for hours."""
        self._body = b""

    @property
    def gone(self) -> bool:
        """The client has left."""
        return self.line.gone


def _unfit(error: str) -> Problem:
    """What the codec says of a body that has the wrong shape, as people say it."""
    words, _, at = error.partition(" - at ")
    param = at.rpartition("`$")[2].strip("`").removeprefix(".")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", words):
        param = f"{param}.{missing[1]}" if param else missing[1]
        return Problem(400, f"{param} is missing", param=param, code="missing_required_parameter")
    name = param or "the body"
    if choice := re.fullmatch(r"Invalid enum value (.+)", words, re.DOTALL):
        message = f"{name} cannot be {choice[1][:200]}; /openapi.json tells what it can be"
        return Problem(400, message, param=param or None, code="invalid_value")
    if kinds := re.fullmatch(r"Expected `(.+)`, got `(.+)`", words):
        message = f"{name} must be {kinds[1].replace(' | ', ' or ')}, not {kinds[2]}"
        return Problem(400, message, param=param or None, code="invalid_type")
    return Problem(400, f"{name} does not fit: {words}", param=param or None, code="invalid_value")


Handler = Callable[[Exchange], Awaitable[Answer | Streaming]]
