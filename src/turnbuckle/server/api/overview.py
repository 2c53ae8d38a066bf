"""`/v1/overview`: the server's status, for a page that people look at.

What is so at this moment, and what breaks have cost over all time. Of runs and messages it tells only the
caller's; everything else is about the server itself, as the metrics are.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.call.health import HealthBook, Standing
from turnbuckle.journal.nodes import Nodes
from turnbuckle.journal.port import JournalError
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Given, Operation
from turnbuckle.service.owners import Owner
from turnbuckle.service.queue import Queue, QueuedMessage
from turnbuckle.service.waste import RouteTally, WasteLine, WasteReport, WasteService
from turnbuckle.vocab.ids import RouteName

DAYS = 31


class LearnedClocks(Struct, frozen=True):
    """By what the route's usual time limits are multiplied since its pace is known; null: not known yet.
    `reading` is the longest that it took lately over 1,000 characters of a prompt, in seconds."""

    first_event: float | None = None
    gap: float | None = None
    gap_in_call: float | None = None
    reading: float | None = None


class RouteState(Struct, frozen=True):
    """How one route is at this moment. `benched`: it rests for `seconds`, and `why` says after what; `due`:
    the next call tries it again; `probed`: that call is under way."""

    standing: Standing
    clocks: LearnedClocks
    seconds: float = 0.0
    why: str = ""


class RouteOverview(Struct, frozen=True):
    """One route: how it is, as in `RouteState`, and how its `calls` went over all time."""

    name: str
    standing: Standing
    calls: RouteTally
    clocks: LearnedClocks
    seconds: float = 0.0
    why: str = ""


class RunsNow(Struct, frozen=True):
    """Runs under way at this server: those of the caller, all of them, and how many there may be."""

    yours: int
    all: int
    most: int
    most_per_owner: int


class QuotaNow(Struct, frozen=True):
    """What the caller uses at all servers on this journal: runs under way, and what runs have cost that began
    on this day, by UTC. `most_cost` is how much that may be; 0: any sum."""

    runs: int
    most_runs: int
    cost: float
    most_cost: float


class DiskRoom(Struct, frozen=True):
    """Bytes of the file system that the data folder lies on, and of the journal, which may be in a database
    elsewhere; null where that cannot be asked."""

    free: int | None = None
    total: int | None = None
    journal: int | None = None


class Overview(Struct, frozen=True):
    """Server status. `waste` has the last days on which anything broke, by the day on which the runs
    began; `waste_ever` is all time, its `day` empty. Both, and the calls of routes, count from `since`, when
    the first run began; while older runs are still being counted, `complete` is false. `queue` are the
    caller's messages that have waited longest for their turn, of `queued` that do; if `queue_complete` is
    false there may be more."""

    since: float | None
    complete: bool
    runs: RunsNow
    quota: QuotaNow
    queue: list[QueuedMessage]
    queued: int
    queue_complete: bool
    routes: list[RouteOverview]
    waste: list[WasteLine]
    waste_ever: list[WasteLine]
    disk: DiskRoom
    object: Literal["overview"] = "overview"


class RouteStates:
    """The health of the routes and what was learned of them. `now` is the clock of the book of health."""

    def __init__(self, names: tuple[str, ...], health: HealthBook, now: Callable[[], float]) -> None:
        self.names = names
        self._health = health
        self._now = now

    def of(self, name: str) -> RouteState:
        now = self._now()
        health, pace = self._health.of(RouteName(name)), self._health.pace(RouteName(name))
        standing = health.standing(now)
        left = max((health.benched_until or now) - now, 0.0)
        clocks = LearnedClocks(
            pace.scale("first_event"), pace.scale("gap"), pace.scale("gap_in_call"), pace.reading
        )
        return RouteState(standing, clocks, left, health.why if standing != "fit" else "")


class OverviewApi:
    """The handler. `runs` and `queue` tell of what is an owner's."""

    def __init__(
        self,
        routes: RouteStates,
        waste: WasteService,
        runs: Callable[[Owner], Awaitable[tuple[RunsNow, QuotaNow]]],
        queue: Callable[[Owner], Awaitable[Queue]],
        disk: Callable[[], Awaitable[DiskRoom]],
    ) -> None:
        self._routes = routes
        self._waste = waste
        self._runs = runs
        self._queue = queue
        self._disk = disk

    async def show(self, exchange: Exchange) -> Answer:
        owner = exchange.caller.owner
        queue = await self._queue(owner)
        waste = await self._waste.look(DAYS)
        return json_answer(
            Overview(
                waste.first,
                waste.complete,
                *await self._runs(owner),
                queue.first,
                queue.total,
                queue.complete,
                [self._route(name, waste) for name in self._routes.names],
                waste.lines,
                waste.ever,
                await self._disk(),
            )
        )

    def _route(self, name: str, waste: WasteReport) -> RouteOverview:
        state = self._routes.of(name)
        return RouteOverview(name, state.standing, waste.route(name), state.clocks, state.seconds, state.why)


async def disk_room(folder: str, nodes: Nodes | None) -> DiskRoom:
    """Asks the file system, and the database where the journal is in one."""
    room = await asyncio.to_thread(_in_files, folder)
    if nodes is None:
        return room
    try:
        return replace(room, journal=await nodes.journal_bytes())
    except JournalError:  # the rest is known all the same
        return replace(room, journal=None)


def _in_files(folder: str) -> DiskRoom:
    try:
        usage = shutil.disk_usage(folder)
        files = [file.stat().st_size for file in Path(folder).glob(f"{DATABASE}*")]
    except OSError:
        return DiskRoom()
    return DiskRoom(usage.free, usage.total, sum(files) if files else None)


def overview_endpoints(api: OverviewApi) -> tuple[Endpoint, ...]:
    """The row of the table."""
    about = "Server status: runs, queue, routes, waste, disk"
    doc = Operation("getOverview", about, "health", answers={200: (Given(about, Overview),)})
    return (Endpoint("GET", "/v1/overview", api.show, doc),)
