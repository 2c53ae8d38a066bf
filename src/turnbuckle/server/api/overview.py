"""`/v1/overview`: how the server fares, for a page that people look at.

Sums of this process since it started, and what is so at this moment. Of runs it gives only how many are the
caller's; everything else is about the server itself, as the metrics are.
"""

import asyncio
import shutil
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from turnbuckle.call.health import HealthBook, Standing
from turnbuckle.observe.tally import RouteTally, WasteLine, WasteTally
from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Given, Operation
from turnbuckle.service.owners import Owner
from turnbuckle.vocab.ids import RouteName


class LearnedClocks(Struct, frozen=True):
    """By what the route's usual time limits are multiplied since its pace is known; null: not known yet.
    `reading` is the longest that it took lately over 1,000 characters of a prompt, in seconds."""

    first_event: float | None = None
    gap: float | None = None
    gap_in_call: float | None = None
    reading: float | None = None


class RouteOverview(Struct, frozen=True):
    """One route. `benched`: it rests for `seconds`, and `why` says after what; `due`: the next call tries it
    again; `probed`: that call is under way."""

    name: str
    standing: Standing
    calls: RouteTally
    clocks: LearnedClocks
    seconds: float = 0.0
    why: str = ""


class RunsNow(Struct, frozen=True):
    """Runs under way: those of the caller, all of them, and how many there may be."""

    yours: int
    all: int
    most: int
    most_per_owner: int


class DiskRoom(Struct, frozen=True):
    """Bytes of the file system that the data folder lies on; null where it cannot be asked."""

    free: int | None = None
    total: int | None = None


class Overview(Struct, frozen=True):
    """How the server fares. `waste` and the calls of routes count from `since`."""

    since: float
    runs: RunsNow
    routes: list[RouteOverview]
    waste: list[WasteLine]
    disk: DiskRoom
    object: Literal["overview"] = "overview"


class OverviewApi:
    """The handler. `runs` tells of an owner's runs, and `now` is the clock of the book of health."""

    def __init__(
        self,
        routes: tuple[str, ...],
        health: HealthBook,
        tally: WasteTally,
        runs: Callable[[Owner], RunsNow],
        *,
        folder: str,
        since: float,
        now: Callable[[], float],
    ) -> None:
        self._routes = routes
        self._health = health
        self._tally = tally
        self._runs = runs
        self._folder = folder
        self._since = since
        self._now = now

    async def show(self, exchange: Exchange) -> Answer:
        disk = await asyncio.to_thread(_disk, self._folder)
        routes = [self._route(name) for name in self._routes]
        runs = self._runs(exchange.caller.owner)
        return json_answer(Overview(self._since, runs, routes, self._tally.waste, disk))

    def _route(self, name: str) -> RouteOverview:
        now = self._now()
        health, pace = self._health.of(RouteName(name)), self._health.pace(RouteName(name))
        standing = health.standing(now)
        left = max((health.benched_until or now) - now, 0.0)
        clocks = LearnedClocks(
            pace.scale("first_event"), pace.scale("gap"), pace.scale("gap_in_call"), pace.reading
        )
        why = health.why if standing != "fit" else ""
        return RouteOverview(name, standing, self._tally.route(name), clocks, left, why)


def _disk(folder: str) -> DiskRoom:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return DiskRoom()
    return DiskRoom(usage.free, usage.total)


def overview_endpoints(api: OverviewApi) -> tuple[Endpoint, ...]:
    """The row of the table."""
    about = "How the server fares: runs, routes, waste, disk"
    doc = Operation("getOverview", about, "health", answers={200: (Given(about, Overview),)})
    return (Endpoint("GET", "/v1/overview", api.show, doc),)
