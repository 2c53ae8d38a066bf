"""What nodes learn, told to each other: how routes fare, how long they take, how large windows are.

Each kind of knowledge is a book. With every look around, all books first hear what others have told, and
then tell what they know that the others do not. Who was overtaken by somebody else's news hears those with
the next look, and tells what both know then. Nothing of this is stored for good, and nobody waits for it: a
node that is cut off goes on with what it has learned itself.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from turnbuckle.call.health import MOST_NAMES, HealthBook
from turnbuckle.call.limits import PaceSeen
from turnbuckle.call.shared_health import (
    ModelKnown,
    RouteKnown,
    agreed_model,
    agreed_route,
    model_heard,
    model_told,
    route_heard,
    route_told,
)
from turnbuckle.journal.gossip import Gossip
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.recent import Recent

_MOST_VERSIONS = 4 * MOST_NAMES  # of all books; what is forgotten is heard again before it can be told
_PACE_EVERY = 1.0  # seconds; nobody waits to hear how long replies take

log = logging.getLogger("turnbuckle.nodes")


class News(Struct, frozen=True):
    """What others do not know yet. `urgent`: they should not wait for their next look."""

    name: str
    data: bytes
    urgent: bool = False


class SharedBook(Protocol):
    """One kind of knowledge. All of its names begin with `prefix`."""

    prefix: str

    def hear(self, name: str, data: bytes, age: float) -> None:
        """Others told this so many seconds ago. Raises DecodeError for what another version wrote."""
        ...

    def news(self) -> Iterable[News]:
        """What was learned here since it was last told."""
        ...

    def told(self, news: News) -> None:
        """The others know this. What was learned while they were told is still news."""
        ...


class NodeGossip:
    """All books of a process."""

    def __init__(self, gossip: Gossip, books: Sequence[SharedBook]) -> None:
        self._gossip = gossip
        self._books = list(books)
        self._versions: Recent[str, int] = Recent(_MOST_VERSIONS)

    def add(self, book: SharedBook) -> None:
        self._books.append(book)

    async def exchange(self) -> None:
        """Hear and tell. Raises StorageError."""
        for memo in await self._gossip.heard():
            self._versions[memo.name] = memo.version
            for book in self._books:
                if memo.name.startswith(book.prefix):
                    try:
                        book.hear(memo.name, memo.data, memo.age)
                    except msgspec.DecodeError as error:
                        log.debug("what another version says of %s is not understood: %s", memo.name, error)
        for book in self._books:
            for news in [*book.news()][:MOST_NAMES]:
                known = self._versions.get(news.name, 0)
                if version := await self._gossip.tell(news.name, news.data, known, urgent=news.urgent):
                    self._versions[news.name] = version
                    book.told(news)


K = TypeVar("K", bound=RouteKnown | ModelKnown)


class _Bases(Generic[K]):
    """What was last told or heard of each name, and what is being told."""

    def __init__(self, first: K) -> None:
        self._first = first
        self._base: Recent[str, K] = Recent(2 * MOST_NAMES)
        """More than a book has, so that nothing is told in circles."""
        self._telling: Recent[str, K] = Recent(MOST_NAMES)

    def of(self, name: str) -> K:
        return self._base.get(name, self._first)

    def heard(self, name: str, known: K) -> None:
        self._base[name] = known

    def is_news(self, name: str, known: K) -> bool:
        if known == self.of(name):
            return False
        self._telling[name] = known
        return True

    def told(self, name: str) -> None:
        if name in self._telling:
            self._base[name] = self._telling.pop(name)


class RouteHealthBook:
    """Which routes rest, are tried again, or want their cap by another name."""

    prefix = "route:"

    def __init__(self, health: HealthBook, now: Callable[[], float]) -> None:
        self._health = health
        self._now = now
        self._bases = _Bases(RouteKnown())

    def hear(self, name: str, data: bytes, age: float) -> None:
        route = RouteName(name.removeprefix(self.prefix))
        theirs = route_heard(data, self._now() - age)
        agreed = agreed_route(self._bases.of(name), self._known(route), theirs)
        self._bases.heard(name, theirs)
        self._health.learn(route, agreed.health, agreed.cap_field)

    def news(self) -> Iterator[News]:
        for route in self._health.routes:
            known, name = self._known(route), f"{self.prefix}{route}"
            if self._bases.is_news(name, known):
                yield News(name, route_told(known, self._now()), urgent=True)

    def told(self, news: News) -> None:
        self._bases.told(news.name)

    def _known(self, route: RouteName) -> RouteKnown:
        return RouteKnown(self._health.of(route), self._health.cap_field(route))


class ModelHealthBook:
    """Which models do not stream, and which never give a reason to stop."""

    prefix = "model:"

    def __init__(self, health: HealthBook, now: Callable[[], float]) -> None:
        self._health = health
        self._now = now
        self._bases = _Bases(ModelKnown())

    def hear(self, name: str, data: bytes, age: float) -> None:
        route, model = msgspec.json.decode(name.removeprefix(self.prefix), type=tuple[str, str])
        theirs = model_heard(data, self._now() - age)
        agreed = agreed_model(self._bases.of(name), self._known(RouteName(route), model), theirs)
        self._bases.heard(name, theirs)
        self._health.learn_model(RouteName(route), model, agreed.streaming, agreed.endings)

    def news(self) -> Iterator[News]:
        for route, model in self._health.models:
            known = self._known(route, model)
            name = self.prefix + msgspec.json.encode((route, model)).decode()
            if self._bases.is_news(name, known):
                yield News(name, model_told(known, self._now()))

    def told(self, news: News) -> None:
        self._bases.told(news.name)

    def _known(self, route: RouteName, model: str) -> ModelKnown:
        return ModelKnown(*self._health.model(route, model))


class RoutePaceBook:
    """How long routes take: what their clocks learn from."""

    prefix = "pace:"

    def __init__(self, health: HealthBook, now: Callable[[], float]) -> None:
        self._health = health
        self._now = now
        self._told_at: Recent[str, float] = Recent(MOST_NAMES)

    def hear(self, name: str, data: bytes, age: float) -> None:
        theirs = msgspec.json.decode(data, type=PaceSeen)
        self._health.pace(RouteName(name.removeprefix(self.prefix))).hear(theirs)

    def news(self) -> Iterator[News]:
        now = self._now()
        for route in self._health.routes:
            pace, name = self._health.pace(route), f"{self.prefix}{route}"
            if pace.is_news and now - self._told_at.get(name, -_PACE_EVERY) >= _PACE_EVERY:
                yield News(name, msgspec.json.encode(pace.to_tell()))

    def told(self, news: News) -> None:
        self._told_at[news.name] = self._now()
        self._health.pace(RouteName(news.name.removeprefix(self.prefix))).told()


def books_of(health: HealthBook, now: Callable[[], float]) -> list[SharedBook]:
    """All that is known of routes. `now` is the clock that it was learned by."""
    return [RouteHealthBook(health, now), ModelHealthBook(health, now), RoutePaceBook(health, now)]
