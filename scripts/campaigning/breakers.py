"""The hands that break a campaign: servers, the database of several, the lines between, and clocks."""

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from support.postgres.clock import DatabaseClock
from support.postgres.faults import FAULTS, BrokenDatabase
from support.processes.server_process import ServerProcess

from campaigning.actors import Actor
from campaigning.clocks import NodeClock, step_of
from campaigning.world import Broken, World
from turnbuckle.lab.network import NetworkProxy

Deed = Callable[[], Awaitable[None]]
LEASE = 3.0
"""Of the nodes of a campaign. What stands still for longer loses what it held."""
_TROUBLES = {
    "refuse": "its user may not log in",
    "full": "it is full",
    "readonly": "it is read-only",
    "lock": "its tables are locked",
    "rows": "its rows are locked",
    "impatient": "it ends what takes long",
    "queue": "nobody empties its queue of notifications",
}
"""What the database suffers from for a while, by the name of the deed."""
_MEND = 2.0  # seconds after which everybody has noticed that the database is back


class Breaker(Actor):
    """Does one of its deeds when it is its `turn`, and rests for a while. `first` is the deed that it can be
    told to do before that."""

    def __init__(
        self,
        world: World,
        name: str,
        deeds: dict[str, Deed],
        rest: tuple[float, float],
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        first: str = "",
    ) -> None:
        super().__init__(world, name)
        self.first = first
        self._deeds = deeds
        self._rest = rest
        self._turn = turn

    async def play(self) -> None:
        least, more = self._rest
        while not self.world.over:
            await asyncio.sleep(least + self.dice.random() * more)
            async with self._turn():
                if self.world.over:
                    return
                await self._do(self.dice.choice(list(self._deeds)))

    async def begin(self) -> None:
        """Do the first deed, whatever the dice say."""
        async with self._turn():
            await self._do(self.first)

    async def _do(self, what: str) -> None:
        self.note(f"{what.split(maxsplit=1)[0]} {self.name}")
        await self._deeds[what]()


class Hand:
    """What can be done to one server process. `most` are the seconds that a pause lasts at the most."""

    def __init__(self, world: World, server: ServerProcess, most: float, **environment: str) -> None:
        self._actor = Actor(world, f"hand {server.folder.name}")
        self._server = server
        self._most = most
        self._environment = environment

    async def start(self) -> None:
        await self._server.start(**self._environment)

    async def kill(self) -> None:
        await self._server.kill()
        await self.start()

    async def term(self) -> None:
        code = await self._server.stop()
        if code != 0:
            raise Broken(f"the server ended with {code} when it was asked to stop")
        await self.start()

    async def pause(self) -> None:
        self._server.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(0.2 + self._actor.dice.random() * self._most)
        finally:
            self._server.signal(signal.SIGCONT)

    async def disk(self) -> None:
        """No file may grow for a moment, as on a disk that is full."""
        pid = self._server.pid
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, most))
        try:
            await asyncio.sleep(0.1 + self._actor.dice.random() * 1.5)
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def server_breaker(world: World, hand: Hand) -> Breaker:
    """Of the one server over a folder: kills, stops, pauses, and a disk that is taken away for a moment."""
    deeds = {"kill": hand.kill, "kill again": hand.kill, "term": hand.term, "pause": hand.pause}
    return Breaker(world, "breaker", {**deeds, "disk": hand.disk, "disk again": hand.disk}, (0.5, 2.5))


def node_breaker(world: World, name: str, hand: Hand, line: NetworkProxy, clock: NodeClock | None) -> Breaker:
    """Of one node of several: kills, stops, pauses longer than its claims, a bad line to the database, and a
    clock that is set."""
    actor = Actor(world, f"line {name}")

    async def for_a_while() -> None:
        await asyncio.sleep(0.1 + actor.dice.random() * 1.7 * LEASE)
        line.heal()

    async def cut() -> None:
        line.cut()

    async def away() -> None:
        line.refuses = True
        line.cut()
        await for_a_while()

    async def stall() -> None:
        line.stall()
        await for_a_while()

    async def lose() -> None:
        line.lose_answers()
        await for_a_while()
        line.cut()

    async def hole() -> None:
        line.swallow()
        await for_a_while()
        line.cut()

    async def half() -> None:
        line.half_open()
        await for_a_while()
        line.cut()

    async def slow() -> None:
        line.delay = 0.02 + actor.dice.random() * 0.1
        await for_a_while()

    deeds: dict[str, Deed] = {
        "kill": hand.kill,
        "kill again": hand.kill,
        "term": hand.term,
        "pause": hand.pause,
    }
    deeds |= {
        "cut": cut,
        "away": away,
        "stall": stall,
        "lose": lose,
        "hole": hole,
        "half": half,
        "slow": slow,
    }
    if clock is not None:
        deeds["clock"] = clock.step(actor.dice)
    return Breaker(world, name, deeds, (0.5, 6.0), world.breaking.shared, first="kill")


def database_breaker(world: World, database: BrokenDatabase, clock: DatabaseClock) -> Breaker:
    """Of the database: it restarts, crashes, refuses, is full, locked or read-only, and its clock is set.
    While it is down no node dies, and none before all have noticed that it is back: if both lose what they
    had, what nobody waited for is lost."""
    actor = Actor(world, "database")
    cluster = database.cluster

    def trouble(name: str) -> Deed:
        async def suffer() -> None:
            async with FAULTS[_TROUBLES[name]](database):
                await asyncio.sleep(0.1 + actor.dice.random() * 1.7 * LEASE)

        return suffer

    async def down(how: signal.Signals) -> None:
        await asyncio.to_thread(cluster.stop, how)
        await asyncio.sleep(actor.dice.random() * 2)
        await asyncio.to_thread(cluster.start)
        await asyncio.sleep(_MEND)

    deeds: dict[str, Deed] = {
        "restart": lambda: down(signal.SIGINT),
        "crash": lambda: down(signal.SIGQUIT),
        "time": step_of(clock, actor.dice),
        **{name: trouble(name) for name in _TROUBLES},
    }
    return Breaker(world, "database", deeds, (3.0, 8.0), world.breaking.alone, first="restart")
