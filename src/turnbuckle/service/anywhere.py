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
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec import Struct

from turnbuckle import errors
from turnbuckle.errors import (
    ChangingHands,
    ClaimLost,
    InvalidValue,
    LimitReached,
    NotNow,
    RunHeld,
    TurnbuckleError,
)
from turnbuckle.journal.nodes import Nodes, NodeTimeout
from turnbuckle.journal.port import Conflict, Fenced, JournalError, StorageError, StorageFailed, StreamRow
from turnbuckle.journal.trouble import FAULTS
from turnbuckle.runtime.session_manager import HeldElsewhere

P = ParamSpec("P")
T = TypeVar("T")
_TRIES = 20
_MOMENT = 0.05  # seconds until it is asked again who has a stream that is just changing hands
_STORAGE = "StorageError"
_ELSEWHERE = "elsewhere"
_LOST = (HeldElsewhere, RunHeld, ChangingHands, ClaimLost, Fenced, Conflict)
"""Another node has it, is about to, or took it over while this one stood still."""
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


class NodeResults(Struct, Generic[T], frozen=True):
    """What other nodes gave, and the names of those that did not say."""

    given: list[T]
    missing: list[str]


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
                    raise ChangingHands(str(error)) from None
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
        raise ChangingHands("it changes hands at this moment; try again")

    async def from_all(
        self, service: Serving, method: Method[S, P, T], *args: P.args, **kwargs: P.kwargs
    ) -> NodeResults[T]:
        """What the method gives on every other node. It must only look."""
        given = inspect.signature(method).bind(service, *args, **kwargs).arguments
        given.pop("self")
        answers = await self.nodes.ask_all(_written(type(service).__name__, method, given))
        of = _types(method)["return"]
        results: NodeResults[T] = NodeResults([], [])
        for reply in answers:
            told = None if reply.data is None else msgspec.json.decode(reply.data, type=_NodeAnswer)
            if told is None or told.error:
                results.missing.append(reply.node)
            else:
                results.given.append(msgspec.json.decode(told.result, type=of))
        return results

    async def from_whoever(
        self, service: Serving, method: Method[S, P, T | None], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """What the method gives on the one other node that has what it is about; the others give None. Raises
        what it raises there, and ChangingHands if none has it that said something, and some said nothing. It
        may be done twice."""
        given = inspect.signature(method).bind(service, *args, **kwargs).arguments
        given.pop("self")
        question = _written(type(service).__name__, method, given)
        silent: list[str] = []
        for reply in await self.nodes.ask_all(question, patient=True):
            if reply.data is None:
                silent.append(reply.node)
            else:
                answer = msgspec.json.decode(reply.data, type=_NodeAnswer)
                if answer.error:
                    raise _error_of(answer)
                result = msgspec.json.decode(answer.result, type=_types(method)["return"])
                if result is not None:
                    return typing.cast(T, result)
        if silent:
            raise ChangingHands(f"{', '.join(silent)} did not answer, and may have it; try again")
        return None

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


@functools.cache
def _types(method: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(method)


def _told_of(error: TurnbuckleError | JournalError) -> _NodeAnswer:
    if isinstance(error, JournalError):
        fault = error.fault if isinstance(error, StorageError) else ""
        return _NodeAnswer(error=_STORAGE, words=str(error), param=fault)
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
        return FAULTS.get(told.param, StorageFailed)(told.words)
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
