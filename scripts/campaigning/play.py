"""A random campaign with real processes: a server that is killed, stopped, paused and robbed of its disk, in
front of a provider that breaks, under clients that speak, steer, stop, fork, delete, export, read and come
back.

    scripts/campaign --minutes 5 --seed 7
    scripts/campaign --minutes 5 --seed 7 --nodes 3

With `--nodes` there are several servers on one database: nodes are killed, stopped, and paused for longer
than they may hold anything; the lines between them and the database are cut, stalled, slow and half open; the
database restarts, crashes, refuses its user, is full, locked and read-only, and ends what takes long; and
clocks are set. Every client asks one node after another. However short it is, a node is killed and the
database restarts while somebody reads; what follows is up to the seed.

At its end nothing breaks any more, and these must hold: every run that is not deleted has its end; what any
reader saw stands in the journal under the same number with the same bytes; what a client of any face was told
is what the run said; no effect was done twice; every effect that was reported is there, and every effect that
is there was meant; every session takes another message and answers it.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from support.postgres.clock import DatabaseClock
from support.postgres.cluster import own_cluster
from support.postgres.faults import APP, BrokenDatabase, small_queue
from support.postgres.server import socket_in
from support.processes.server_process import ServerProcess, server_process
from support.server.live_server import ApiClient, Frame, lab_provider, run

from campaigning.actors import Client, Meddler, Reader, Speaker
from campaigning.breakers import LEASE, Breaker, Hand, database_breaker, node_breaker, server_breaker
from campaigning.clocks import NodeClock
from campaigning.model import CampaignModel
from campaigning.world import AGAIN, Broken, World, facts, outcome_of
from turnbuckle.lab.network import NetworkProxy

SETTINGS = {
    "gap": 1.0,
    "first_event": 2.0,
    "server": "drain = 0\nkeepalive = 1\nrequests_per_minute = 0",
    "tools": 'enable = ["files", "shell"]\napproval = { shell = "allow" }',
}
CALM = 90.0
"""Seconds in which everything must come to its end once nothing breaks any more."""
SCHEMA = "campaign"
SHOWN = 60
"""Lines of the trace that a failure shows; all of it is kept in a file."""


async def campaign(seed: int, seconds: float, folder: Path) -> World:
    """Play it with one server over a folder. Raises Broken, with the seed and the trace."""
    model = CampaignModel(seed)
    async with lab_provider(model) as behind, server_process(folder, behind, **SETTINGS) as server:
        world = World(server, server.work, seed)
        hand = Hand(world, server, 2.0)
        await hand.start()
        return await _played(world, seconds, folder, model, [server_breaker(world, hand)])


async def nodes_campaign(
    seed: int, seconds: float, folder: Path, count: int, *, set_clocks: bool = True
) -> World:
    """Play it with so many nodes on one database. To `set_clocks` of nodes they must be
    started the slow way."""
    model = CampaignModel(seed)
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(lab_provider(model))
        cluster = stack.enter_context(own_cluster(**small_queue()))
        cluster.sql(f"CREATE ROLE {APP} LOGIN SUPERUSER")  # who may use whatever the clock is made of
        time = DatabaseClock(cluster, SCHEMA)
        (folder / "work").mkdir()
        nodes = NodesClient()
        world = World(nodes, folder / "work", seed)
        breakers = [database_breaker(world, BrokenDatabase(cluster, SCHEMA, ()), time)]
        for number in range(count):
            name = f"node{number}"
            home = folder / name
            home.mkdir()
            line = await stack.enter_async_context(NetworkProxy(socket_in(cluster.folder)))
            place = f"postgresql://{APP}@{line.host}:{line.port}/postgres?{time.settings}"
            more = {"place": place, "workspace": str(world.work), "more": f"[node]\nlease = {LEASE}"}
            server = await stack.enter_async_context(server_process(home, behind, **more, **SETTINGS))
            clock = NodeClock(home / "clock") if set_clocks else None
            hand = Hand(world, server, 1.7 * LEASE, **(clock.environment if clock else {}))
            await hand.start()
            nodes.nodes.append(server)
            breakers.append(node_breaker(world, name, hand, line, clock))
        database, first_node = breakers[:2]
        return await _played(world, seconds, folder, model, breakers, (first_node, database))


class NodesClient(ApiClient):
    """Asks one node after another, wherever each of them listens by then."""

    def __init__(self) -> None:
        super().__init__(0)
        self.nodes: list[ServerProcess] = []

    def ports(self) -> tuple[int, ...]:
        return tuple(node.port for node in self.nodes)


async def _played(
    world: World,
    seconds: float,
    folder: Path,
    model: CampaignModel,
    breakers: Sequence[Breaker],
    beginning: Sequence[Breaker] = (),
) -> World:
    try:
        await _break(world, seconds, breakers, beginning)
        model.calm = True
        await checked(world)
    except BaseException as error:
        if isinstance(error, BaseExceptionGroup):
            error = next(one for one in _flat(error) if not isinstance(one, asyncio.CancelledError))
        if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
            raise
        raise Broken(_told(world, folder, error)) from error
    finally:
        (folder / "trace.txt").write_text("\n".join(world.trace) + "\n")
    return world


async def _break(
    world: World, seconds: float, breakers: Sequence[Breaker], beginning: Sequence[Breaker]
) -> None:
    """For so long. What belongs to the `beginning` happens even if it takes longer than that."""
    clients = [
        kind(world, f"{kind.__name__.lower()}{place}") for kind in (Speaker, Reader) for place in range(4)
    ]
    clients += [Client(world, f"client{place}") for place in range(2)]
    clients += [Meddler(world, f"meddler{place}") for place in range(2)]
    until = asyncio.get_running_loop().time() + seconds
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(client.play())
        while beginning and not any(reader.frames for reader in world.readers):
            await asyncio.sleep(AGAIN)
        for breaker in beginning:
            await breaker.begin()
        for breaker in breakers:
            group.create_task(breaker.play())
        await asyncio.sleep(max(until - asyncio.get_running_loop().time(), 0))
        world.over = True


async def checked(world: World) -> None:
    """What must hold when it is over."""
    whole: dict[str, list[Frame]] = {}
    async with asyncio.timeout(CALM):
        for name in [one for one in world.runs if one not in world.deleted]:
            whole[name] = await _ended(world, name)
        for name in await _listed(world):  # also those whose beginning nobody was told of
            if name not in whole:
                whole[name] = await _ended(world, name)
    _check_readers(world, whole)
    await _check_clients(world)
    _check_effects(world, whole)
    await _check_sessions(world)


async def _listed(world: World) -> list[str]:
    """All runs that the server knows."""
    found: list[str] = []
    after = ""
    while True:
        page = (await world.server.get(f"/v1/runs?limit=100{after}")).json
        found += [one["id"] for one in page["data"]]
        if not page["has_more"]:
            return found
        after = f"&after={page['next']}"


async def _ended(world: World, name: str) -> list[Frame]:
    """All events of a run, to its end."""
    while True:
        reply = await world.server.get(f"/v1/runs/{name}")
        if reply.status != 200:
            raise Broken(f"{name} was begun, and is answered with {reply.status}: {reply.body[:200]!r}")
        if reply.json["status"] == "interrupted":
            await world.server.post(f"/v1/runs/{name}/resume")
        try:
            async with asyncio.timeout(CALM / 2):
                frames = [frame for frame in await world.server.events(name) if frame.id]
        except TimeoutError:
            raise Broken(
                f"{name} has no end: {reply.json['status']}, waits for {reply.json['waiting_on']}"
            ) from None
        if outcome_of(frames):
            return frames
        await asyncio.sleep(AGAIN)


def _check_readers(world: World, whole: dict[str, list[Frame]]) -> None:
    for seen in world.readers:
        kept = {frame.id: frame.raw for frame in whole.get(seen.run, ())}
        for frame in seen.frames if kept else ():
            if kept.get(frame.id) != frame.raw:
                raise Broken(f"{seen.run} showed {frame.raw!r}, and keeps {kept.get(frame.id)!r}")


async def _check_clients(world: World) -> None:
    """What the faces told is what the run said, or the beginning of it."""
    for heard in world.heard:
        view = (await world.server.get(f"/v1/runs/{heard.run}")).json
        if fault := heard.fault(view["output"]):
            raise Broken(fault)


def _check_effects(world: World, whole: dict[str, list[Frame]]) -> None:
    file = world.work / "effects.txt"
    done = file.read_text().split() if file.exists() else []
    twice = {one for one in done if done.count(one) > 1}
    if twice:
        raise Broken(f"done twice: {sorted(twice)}")
    meant: set[str] = set()
    for name, frames in whole.items():
        started = {
            one["call_id"]: one["arguments"]
            for one in facts(frames, "tool_started")
            if one["name"] == "shell"
        }
        nonces = {call: given["command"].split()[1] for call, given in started.items()}
        meant |= set(nonces.values())
        for one in facts(frames, "tool_finished"):
            reported = one["call_id"] in nonces and one["outcome"]["status"] == "finished"
            if reported and nonces[one["call_id"]] not in done:
                raise Broken(f"{name} reports {nonces[one['call_id']]}, and it is not there")
            never = one["outcome"]["status"] in ("denied", "not_started", "refused")
            if never and nonces.get(one["call_id"], "") in done:
                raise Broken(f"{name} says that {nonces[one['call_id']]} never ran, and it did")
    if not world.deleted and (strange := set(done) - meant):
        raise Broken(f"done, and no run says so: {sorted(strange)}")


async def _check_sessions(world: World) -> None:
    """Each takes one more message, and answers it."""
    for session in [one for one in world.sessions if one not in world.deleted]:
        body = {"model": "agent", "input": "hello", "session": session}
        reply = await world.server.post("/v1/runs", body, x_turnbuckle_busy="queue")
        if reply.status != 202:
            raise Broken(f"the session {session} takes nothing more: {reply.status} {reply.body[:200]!r}")
        frames = await _ended(world, reply.json["id"])
        if outcome_of(frames) != "completed":
            raise Broken(f"the session {session} does not answer: {frames[-1].data!r}")


def _flat(group: BaseException) -> list[BaseException]:
    if isinstance(group, BaseExceptionGroup):
        return [one for inner in group.exceptions for one in _flat(inner)]
    return [group]


def _told(world: World, folder: Path, error: BaseException) -> str:
    lines = "\n".join(world.trace[-SHOWN:])
    where = f"all of it: {folder}"
    return f"seed {world.seed}: {type(error).__name__}: {error}\n{lines}\n{where}"


def main() -> int:
    reader = argparse.ArgumentParser(prog="scripts/campaign", description=__doc__.partition("\n\n")[0])
    reader.add_argument("--minutes", type=float, default=5.0, help="how long things break")
    reader.add_argument("--seed", type=int, default=None, help="of an earlier campaign, to play it again")
    reader.add_argument(
        "--nodes", type=int, default=0, help="as many servers on one database, 0 = one on a folder"
    )
    reader.add_argument("--folder", type=Path, default=None, help="a new folder for the server's files")
    given = reader.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    folder = given.folder or Path(tempfile.mkdtemp(prefix="campaign-"))
    folder.mkdir(parents=True, exist_ok=True)
    where = f"{given.nodes} nodes" if given.nodes else "one server"
    print(f"seed {seed}, {given.minutes:g} minutes, {where}, files in {folder}", flush=True)
    try:
        if given.nodes:
            world = run(nodes_campaign(seed, given.minutes * 60, folder, given.nodes))
        else:
            world = run(campaign(seed, given.minutes * 60, folder))
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    print(", ".join(f"{count} × {name}" for name, count in sorted(world.counts.items())))
    seen = sum(len(one.frames) for one in world.readers)
    told = f"{len(world.readers)} readers saw {seen} events, {len(world.heard)} answers were heard"
    print(f"{len(world.runs)} runs, {told}: everything holds")
    return 0
