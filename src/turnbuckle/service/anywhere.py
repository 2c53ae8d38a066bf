"""What any node is asked for is done by the one that holds what it concerns.

A method of a service that is `anywhere` is performed here if this process holds the stream, or nobody does.
Otherwise its name and its arguments go to the node that holds it, which performs the same method, and what
comes of it, an error too, is what the caller gets. Without nodes nothing of this happens.

Arguments and results are values that can be written as JSON; their types are those that the method names.
What another node does may be done twice if that node dies, so such a method must not mind.
"""

import asyncio
import functools
import inspect
import logging
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import Struct

from turnbuckle import errors
from turnbuckle.errors import (
    ClaimLost,
    InvalidValue,
    LimitReached,
    NotNow,
    RunHeld,
    SessionBusy,
    TurnbuckleError,
)
from turnbuckle.journal.nodes import Nodes, NodeTimeout
from turnbuckle.journal.port import Conflict, Fenced, JournalError, StorageFailed, StreamRow
from turnbuckle.runtime.session_manager import HeldElsewhere

P = ParamSpec("P")
T = TypeVar("T")
_TRIES = 20
_MOMENT = 0.05  # seconds until it is asked again who has a stream that is just changing hands
_STORAGE = "StorageError"
_ELSEWHERE = "elsewhere"
_LOST = (HeldElsewhere, RunHeld, ClaimLost, Fenced, Conflict)
"""Another node has it, or took it over while this one stood still."""
_UNEXPECTED = "unexpected"

log = logging.getLogger("turnbuckle.nodes")


class Serving(Protocol):
    """A service whose methods may be performed by another node."""

    @property
    def desk(self) -> "NodeDesk | None": ...


S = TypeVar("S", bound=Serving)
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


class _NodeQuestion(Struct, frozen=True):
    service: str
    method: str
    given: dict[str, msgspec.Raw]


class _NodeAnswer(Struct, frozen=True, omit_defaults=True):
    """What came of it. `error` is the name of a class in `errors`."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    words: str = ""
    param: str = ""
    after: float = 0.0
    run: str = ""


def anywhere(which: str) -> Callable[[Method[S, P, T]], Method[S, P, T]]:
    """For a method that changes what somebody holds. `which` is the argument that names it: the id of a run
    or a session, or its row."""

    def made(method: Method[S, P, T]) -> Method[S, P, T]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        async def call(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
            desk = self.desk
            if desk is None:
                return await method(self, *args, **kwargs)
            given = signature.bind(self, *args, **kwargs).arguments
            given.pop("self")
            named = given[which]
            stream = named.name if isinstance(named, StreamRow) else str(named)
            result = await desk.perform_somewhere(
                stream, type(self).__name__, method, given, lambda: method(self, *args, **kwargs)
            )
            return typing.cast(T, result)

        return typing.cast(Method[S, P, T], call)

    return made


class NodeDesk:
    """Puts questions to the other nodes, and answers theirs. `is_here`: whether this process has a stream."""

    def __init__(self, nodes: Nodes, is_here: Callable[[str], bool], owner: str) -> None:
        self.nodes = nodes
        self.owner = owner
        self._is_here = is_here
        self._services: dict[str, Serving] = {}

    def serve(self, *services: Serving) -> None:
        """These are asked for what other nodes want."""
        self._services |= {type(service).__name__: service for service in services}

    def is_elsewhere(self, row: StreamRow) -> bool:
        """Whether another process holds it, or held it until it died a moment ago."""
        return row.holder not in ("", self.owner)

    async def perform_somewhere(
        self,
        stream: str,
        service: str,
        method: Callable[..., Awaitable[Any]],
        given: Mapping[str, Any],
        here: Callable[[], Awaitable[Any]],
    ) -> Any:
        """What the method gives, wherever it is performed. Raises what it raises."""
        question = b""
        for _ in range(_TRIES):
            told: bytes | None = None
            if not self._is_here(stream):
                question = question or _written(service, method, given)
                try:
                    told = await self.nodes.ask(stream, question)
                except NodeTimeout as error:
                    raise SessionBusy(str(error)) from None
            if told is None:
                try:
                    return await here()
                except _LOST:  # nothing of it was stored
                    await asyncio.sleep(_MOMENT)
                    continue
            answer = msgspec.json.decode(told, type=_NodeAnswer)
            if answer.error == _ELSEWHERE:
                await asyncio.sleep(_MOMENT)
                continue
            if answer.error:
                raise _error_of(answer)
            return msgspec.json.decode(answer.result, type=_types(method)["return"])
        raise SessionBusy("it changes hands at this moment; try again")

    async def from_all(
        self, service: Serving, method: Method[S, P, T], *args: P.args, **kwargs: P.kwargs
    ) -> list[T | None]:
        """What the method gives on every other node; None for one that does not say. It must only look."""
        given = inspect.signature(method).bind(service, *args, **kwargs).arguments
        given.pop("self")
        answers = await self.nodes.ask_all(_written(type(service).__name__, method, given))
        of = _types(method)["return"]
        return [None if answer is None else _result_of(answer, of) for answer in answers]

    async def perform(self, data: bytes) -> bytes:
        """What another node asks for."""
        try:
            asked = msgspec.json.decode(data, type=_NodeQuestion)
            service = self._services[asked.service]
            method = inspect.unwrap(getattr(type(service), asked.method))
            types = _types(method)
            given = {name: msgspec.json.decode(raw, type=types[name]) for name, raw in asked.given.items()}
            result = await method(service, **given)
            told = _NodeAnswer(msgspec.Raw(msgspec.json.encode(result)))
        except _LOST as error:
            told = _NodeAnswer(error=_ELSEWHERE, words=str(error))
        except (TurnbuckleError, JournalError) as error:
            told = _told_of(error)
        except Exception as error:  # whoever asked is told, and this node goes on
            log.exception("what another node asked for failed")
            told = _NodeAnswer(error=_UNEXPECTED, words=str(error))
        return msgspec.json.encode(told)


def _written(service: str, method: Callable[..., Any], given: Mapping[str, Any]) -> bytes:
    raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in given.items()}
    return msgspec.json.encode(_NodeQuestion(service, method.__name__, raw))


def _result_of(told: bytes, of: Any) -> Any:
    answer = msgspec.json.decode(told, type=_NodeAnswer)
    return None if answer.error else msgspec.json.decode(answer.result, type=of)


@functools.cache
def _types(method: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(method)


def _told_of(error: TurnbuckleError | JournalError) -> _NodeAnswer:
    if isinstance(error, JournalError):
        return _NodeAnswer(error=_STORAGE, words=str(error))
    known = next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
    return _NodeAnswer(
        error=known,
        words=str(error),
        param=error.param if isinstance(error, InvalidValue) else "",
        after=error.retry_after if isinstance(error, LimitReached) else 0.0,
        run=error.run if isinstance(error, NotNow) else "",
    )


def _error_of(told: _NodeAnswer) -> Exception:
    """The same error again."""
    if told.error == _STORAGE:
        return StorageFailed(told.words)
    kind = getattr(errors, told.error, None)
    if kind is None:
        return RuntimeError(f"another node could not do it: {told.words}")
    if issubclass(kind, InvalidValue):
        return typing.cast(Exception, kind(told.words, told.param))
    if issubclass(kind, LimitReached):
        return typing.cast(Exception, kind(told.words, told.after))
    made = kind(told.words)
    if isinstance(made, NotNow):
        made.run = told.run
    return typing.cast(Exception, made)
