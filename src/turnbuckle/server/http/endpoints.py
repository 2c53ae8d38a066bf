"""The table of endpoints, and how a request finds its row.

Every endpoint is one row: method, path, handler, and what the OpenAPI document says of it. A part of a path
in braces is open: `{run}` takes one part, and `{model*}`, which must be the last, takes all that is left,
slashes included. Parts are unescaped after the path was split, so an escaped slash never changes where a
request goes.
"""

import asyncio
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from turnbuckle.server.http.exchange import Answer, Exchange, Handler, Problem
from turnbuckle.server.http.openapi import Given, Operation, document


class Endpoint(Struct, frozen=True):
    """One row. `open`: no key is asked for. `page`: people get here by links, also from pages of other
    sites. `by_turns`: its answer begins with the first word of a run, which a crowd cannot have at the same
    moment (`entrance.py`)."""

    method: str
    path: str
    handler: Handler
    doc: Operation
    open: bool = False
    page: bool = False
    by_turns: bool = False


class EndpointMatch(Struct, frozen=True):
    """The row for a request, and the open parts of its path."""

    endpoint: Endpoint
    params: dict[str, str]


class _Place:
    """One place in the tree of all paths."""

    __slots__ = ("fixed", "methods", "one", "rest")

    def __init__(self) -> None:
        self.fixed: dict[str, _Place] = {}
        self.one: _Place | None = None
        self.rest: _Place | None = None
        self.methods: dict[str, Endpoint] = {}


class Table:
    """All endpoints of a server."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._root = _Place()
        self._fixed: dict[str, _Place] = {}  # of the paths without an open part, which win over all others
        for endpoint in self.endpoints:
            place = self._place_for(endpoint.path)
            if endpoint.method in place.methods:
                raise ValueError(f"{endpoint.method} {endpoint.path} is in the table twice")
            place.methods[endpoint.method] = endpoint
            if not names_of(endpoint.path):
                self._fixed[endpoint.path] = place

    def find(self, method: str, path: str) -> EndpointMatch:
        """The row for a request. `path` is as it was sent, still escaped. Raises Problem: 404, or 405 with
        what is allowed."""
        match = self._match(path)
        if match is None or not path.startswith("/"):
            raise Problem(404, f"there is nothing at {method} {unquote(path)[:200]}", code="unknown_url")
        place, values = match
        endpoint = place.methods.get(method) or (place.methods.get("GET") if method == "HEAD" else None)
        if endpoint is None:
            allowed = ", ".join(methods_of(place.methods))
            message = f"{method} is not for {unquote(path)[:200]}; it takes {allowed}"
            raise Problem(405, message, code="method_not_allowed", headers=(("allow", allowed),))
        params = dict(zip(names_of(endpoint.path), values, strict=True)) if values else {}
        return EndpointMatch(endpoint, params)

    def methods(self, path: str) -> tuple[str, ...]:
        """What is allowed at a path; nothing if there is no such path."""
        match = self._match(path)
        return () if match is None else tuple(methods_of(match[0].methods))

    def _place_for(self, path: str) -> _Place:
        place = self._root
        for part in path.split("/")[1:]:
            if part.endswith("*}"):
                place.rest = place.rest or _Place()
                place = place.rest
            elif part.startswith("{"):
                place.one = place.one or _Place()
                place = place.one
            else:
                place = place.fixed.setdefault(part, _Place())
        return place

    def _match(self, path: str) -> tuple[_Place, list[str]] | None:
        if (place := self._fixed.get(path)) is not None:
            return place, []
        return self._walk(self._root, path.split("/")[1:], [])

    def _walk(self, place: _Place, parts: list[str], values: list[str]) -> tuple[_Place, list[str]] | None:
        """The place that a path leads to: named parts win over open ones, and one part over the rest."""
        if not parts:
            return (place, values) if place.methods else None
        part, others = parts[0], parts[1:]
        if (fixed := place.fixed.get(part)) is not None and (match := self._walk(fixed, others, values)):
            return match
        if not part:
            return None
        if place.one is not None and (match := self._walk(place.one, others, [*values, unquote(part)])):
            return match
        if place.rest is not None and place.rest.methods:
            return place.rest, [*values, unquote("/".join(parts))]
        return None


def methods_of(methods: Iterable[str]) -> Iterator[str]:
    """Methods as a list shows them, with those that go without saying."""
    named = sorted(methods)
    yield from named
    if "GET" in named:
        yield "HEAD"
    yield "OPTIONS"


def names_of(path: str) -> list[str]:
    """The names of the open parts of a path, in order."""
    return [part.strip("{*}") for part in path.split("/") if part.startswith("{")]


def with_document(endpoints: Iterable[Endpoint], version: str) -> tuple[Endpoint, ...]:
    """The endpoints, and one more that tells of them all. Describing them takes longer than all else that a
    server does at its start, and most servers are never asked: whoever asks first waits for it, and nobody
    else."""
    rows = tuple(endpoints)
    told: bytes = b""

    def made() -> bytes:
        return msgspec.json.encode(document(everything, version=version))

    async def tell(exchange: Exchange) -> Answer:
        nonlocal told
        told = told or await asyncio.to_thread(made)
        return Answer(200, told)

    given = {200: (Given("The document.", {"type": "object"}),)}
    doc = Operation("describe", "This document", "health", answers=given)
    everything = (*rows, Endpoint("GET", "/openapi.json", tell, doc, open=True))
    return everything
