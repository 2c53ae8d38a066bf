"""How large the windows of models are: as the settings say, as a provider said when it refused a request,
or as the kept price table knows. What a provider said is stored, so that it need not refuse again, and told
to other nodes. It is believed for an hour: a model server can be started again with a larger window, and
nobody would learn of it from requests that fit the old one."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from turnbuckle.journal.port import IndexUpdate, Journal, JournalError, StreamQuery
from turnbuckle.runtime.gossip import News
from turnbuckle.turn.policy import RouteFacts
from turnbuckle.vocab.recent import Recent

KIND = "window"
"""The kind of the rows, without any item, that hold what providers said."""
WORTH_LOOKING = 4_000
"""Tokens from which on the table is asked: it takes a moment to load, and smaller requests fit anybody."""
BELIEVED = 3600.0
"""Seconds. To ask again costs one request that is refused, which nobody sees."""
_MOST_LEARNED = 1_000
_MOST_UNTOLD = 100

log = logging.getLogger("turnbuckle.run")


class _Learned(NamedTuple):
    window: int
    at: float


class WindowBook:
    """The windows of routes and models. Without a journal it forgets with its process; without `look_up`
    there is no table."""

    prefix = f"{KIND}:"

    def __init__(
        self,
        journal: Journal | None = None,
        look_up: Callable[[str], int | None] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal
        self._look_up = look_up
        self._wall = wall
        self._learned: dict[str, _Learned] | None = None if journal is not None else {}
        self._table: Recent[str, int | None] = Recent(_MOST_LEARNED)
        self._untold: dict[str, int] = {}

    async def of(self, route: RouteFacts, used: int = WORTH_LOOKING) -> int | None:
        """The window of a route, for a request of so many tokens; None if nobody knows. What its provider
        said overrules everybody, if it is less."""
        said = (await self._said()).get(_name(route))
        refused = said.window if said is not None and self._wall() - said.at < BELIEVED else None
        if route.window is not None:
            return min(route.window, refused) if refused else route.window
        if refused is not None or used < WORTH_LOOKING or self._look_up is None:
            return refused
        if route.model not in self._table:
            self._table[route.model] = await asyncio.to_thread(self._look_up, route.model)
        return self._table[route.model]

    async def learn(self, route: RouteFacts, window: int) -> None:
        """A provider has said how much it takes."""
        learned, name, now = await self._said(), _name(route), self._wall()
        known = learned.get(name)
        if known is None and len(learned) >= _MOST_LEARNED:
            return
        if known is not None and known.window == window and now - known.at < BELIEVED / 2:
            return
        learned[name] = _Learned(window, now)
        self._untold[name] = window
        while len(self._untold) > _MOST_UNTOLD:  # there may be nobody to tell
            del self._untold[next(iter(self._untold))]
        await self._store(route, str(window))

    async def unlearn(self, route: RouteFacts) -> None:
        """A provider took more than it had said."""
        if (await self._said()).pop(_name(route), None) is not None:
            self._untold.pop(_name(route), None)
            await self._store(route, "")

    async def _store(self, route: RouteFacts, window: str) -> None:
        if self._journal is None:
            return
        try:
            await self._journal.note(_name(route), IndexUpdate(kind=KIND, title=window))
        except JournalError as error:
            log.warning("how large the window of %s is cannot be stored: %s", route.name, error)

    def hear(self, name: str, data: bytes, age: float) -> None:
        """Another node has learned it. What nobody has asked for here yet is read from the journal then."""
        has_room = self._learned is not None and (name in self._learned or len(self._learned) < _MOST_LEARNED)
        if self._learned is not None and has_room and name not in self._untold and data.isdigit():
            self._learned[name] = _Learned(int(data), self._wall() - age)

    def news(self) -> Iterator[News]:
        for name, window in self._untold.items():
            yield News(name, str(window).encode())

    def told(self, news: News) -> None:
        if str(self._untold.get(news.name)).encode() == news.data:
            del self._untold[news.name]

    async def _said(self) -> dict[str, _Learned]:
        if self._learned is None:
            assert self._journal is not None
            rows = await self._journal.streams(StreamQuery(kind=KIND), limit=_MOST_LEARNED)
            stored = {row.name: _Learned(int(row.title), row.updated) for row in rows if row.title.isdigit()}
            self._learned = self._learned or stored
        return self._learned


def _name(route: RouteFacts) -> str:
    return f"{KIND}:{route.name}/{route.model}"
