"""`turnbuckle serve --workers N`: processes that share a port, and one parent that looks after them."""

import asyncio
import os
import re
import signal
import socket
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from support.postgres.server import shared_server
from support.processes.commands import accept, command
from support.processes.server_process import ServerProcess, server_process
from support.server.live_server import asked_until, eventually, gate, lab_provider, run, said_in
from support.server.scripted_models import is_alive

from turnbuckle.cli.exits import FAILED, USAGE_ERROR
from turnbuckle.lab.script import Finish, Say

pytestmark = pytest.mark.process

SETTINGS = {"server": "workers = 2\ndrain = 60"}


def model():
    """Each answer waits at its own gate; the second has the rest of the first."""
    asked = count(1)

    def speaks(request):
        number = next(asked)
        return (Say("two" if number == 2 else "one "), gate(number), Finish())

    return speaks


@asynccontextmanager
async def two_workers(folder: Path):
    """A server with two workers on a new database, and the processes that they are, by their number."""
    place = shared_server().url()
    async with (
        lab_provider(model()) as behind,
        server_process(folder, behind, place=place, **SETTINGS) as server,
    ):
        await server.start()
        yield server, workers_of(server)


def workers_of(server: ServerProcess) -> dict[str, int]:
    found = re.findall(r"worker (\d) of 2 listens, process (\d+)", server.log)
    return {number: int(pid) for number, pid in found}


def sockets_of(pid: int) -> list[Path]:
    """The sockets by which workers tell each other their numbers."""
    held = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            held.add(os.readlink(link))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    named = {f"socket:[{row[6]}]": Path(row[7]) for row in rows if len(row) > 7}
    return [path for inode, path in named.items() if inode in held and "turnbuckle-" in path.parent.name]


async def numbers_of(server: ServerProcess, name: str) -> dict[str, float]:
    """One number of every worker."""
    page = (await server.get("/metrics")).body.decode()
    return {
        worker: float(value) for worker, value in re.findall(rf'^{name}{{worker="(\d)"}} (.*)$', page, re.M)
    }


async def drivers_of(server: ServerProcess) -> set[str]:
    """The workers that drive something."""
    return {worker for worker, runs in (await numbers_of(server, "turnbuckle_runs_active")).items() if runs}


async def until(ask, holds):
    """Ask until the answer is as wanted. A worker that dies may have taken the question with it."""

    async def answer():
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            return await ask()

    return await asked_until(lambda found: found is not None and holds(found), answer)


@pytest.mark.requirement("K11")
def test_two_workers_share_a_port_one_that_dies_loses_nothing_and_a_stop_drains_both(tmp_path: Path):
    async def main():
        async with two_workers(tmp_path) as (server, before):
            nodes = {node["name"] for node in (await server.get("/v1/nodes")).json["data"]}
            for name in nodes:
                await until(
                    lambda: server.get("/readyz"), lambda reply, name=name: reply.json["node"] == name
                )
            lock = int((tmp_path / "data" / "journal.lock").read_text())

            begun = await server.begin("go", session="s")
            (driver,) = await until(lambda: drivers_of(server), lambda found: found)
            async with server.listen(f"/v1/runs/{begun}/events") as reader:
                await reader.until(b"one ")
            os.kill(before[driver], signal.SIGKILL)
            # By the other one, or by the one that starts in its place: a database that is young calls nobody dead.
            await eventually(lambda: "run resumed" in server.log)
            await until(
                lambda: numbers_of(server, "turnbuckle_worker_up"), lambda up: set(up.values()) == {1.0}
            )
            server.behind.gates.open(2)
            events = await server.events(begun)

            last = await server.begin("again", session="t")
            await until(lambda: drivers_of(server), lambda found: found)
            server.signal(signal.SIGTERM)
            await until(lambda: server.get("/readyz"), lambda reply: reply.status == 503)
            server.behind.gates.open(3)
            return before, workers_of(server), nodes, lock, driver, events, last, await server.wait()

    before, after, nodes, lock, driver, events, last, code = run(main())
    (other,) = before.keys() - {driver}
    assert len(nodes) == 2
    assert lock not in before.values()  # it is the parent's
    assert said_in(events) == "one two"
    kinds = [frame.event for frame in events]
    assert (kinds.count("run_claimed"), kinds.count("run_ended")) == (1, 1)
    assert after[driver] != before[driver]
    assert after[other] == before[other]
    assert code == 0
    log = (tmp_path / "server.log").read_text()
    assert (
        f"worker {driver}, process {before[driver]}, was ended by signal 9; another starts in 0.25 s" in log
    )
    assert command(tmp_path, "runs", "show", last).code == 0  # it was completed
    assert not any(is_alive(pid) for pid in (*before.values(), *after.values()))


def test_workers_read_the_settings_again_with_their_parent_and_do_not_outlive_it(tmp_path: Path):
    async def main():
        async with two_workers(tmp_path) as (server, workers):
            file = tmp_path / "turnbuckle.toml"
            file.write_text(file.read_text().replace("drain = 60", "drain = 60\nmax_runs = 7"))
            accept(tmp_path)
            server.signal(signal.SIGHUP)
            await eventually(lambda: server.log.count("settings read again") == 2)
            folders = {path.parent for pid in workers.values() for path in sockets_of(pid)}
            await server.kill()
            await eventually(lambda: not any(map(is_alive, workers.values())))
            return server.log, folders

    log, folders = run(main())
    assert "Traceback" not in log
    assert len(folders) == 1
    assert not any(folder.exists() for folder in folders)  # the parent had no time to take it away


@pytest.mark.parametrize(
    "more, code, words",
    [
        ('data = "data"', USAGE_ERROR, "2 workers need a journal in Postgres, and data names a folder"),
        ('[session]\ntime_zone = "no/where"', USAGE_ERROR, "there is no time zone 'no/where'"),
        ("[server]\nport = {port}", FAILED, "is in use; choose another by --port"),
    ],
    ids=["a folder", "a mistake that only a worker finds", "a port that is taken"],
)
def test_what_keeps_workers_from_starting_is_told_once_and_is_the_exit_code(
    tmp_path: Path, more: str, code: int, words: str
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = "" if more.startswith("data") else f'data = "{shared_server().url()}"'
        text = f"{place}\n{more.format(port=taken.getsockname()[1])}"
        (tmp_path / "turnbuckle.toml").write_text(text)
        accept(tmp_path)
        ran = command(tmp_path, "serve", "--workers", "2", *([] if "port" in more else ["--port", "0"]))
    told = " ".join(ran.err.split())
    assert (ran.code, told.count("turnbuckle: "), ran.out) == (code, 1, ""), ran
    assert words in told
    assert "Traceback" not in told
