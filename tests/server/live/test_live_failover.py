"""A primary that dies under whole servers, and a real standby that takes its place: what it had not received yet is stored
again by a server that lives, and taken back truthfully if nobody has it any more."""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.postgres.cluster import Cluster, own_cluster, standby_of
from support.processes.server_process import server_process
from support.server.live_server import Frame, eventually, gate, lab_provider, run, said_in, serve_one
from support.server.scripted_models import OUTSIDE

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, Say

pytestmark = pytest.mark.process
REPLICATED = {"wal_level": "replica", "max_wal_senders": "5"}
NOTHING_MORE = ("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
RECEIVERS = "SELECT count(*) FROM pg_stat_wal_receiver"
SAID = "Before. Behind. It is done."


def worker(request):
    """Speaks, and at gate 1 goes on to a command that must run once. At gate 2 it says that it has."""
    if results_brought(request):
        return (gate(2), Say("It is done."), Finish())
    return (
        Say("Before. "),
        gate(1),
        Say("Behind. "),
        Call("shell", {"command": "echo ran >> ran.txt"}),
        Finish(),
    )


def fall_behind(standby: Cluster) -> None:
    """From here on it receives nothing, as a standby does that is far away."""
    for text in NOTHING_MORE:
        standby.sql(text)


async def until_received_nothing(standby: Cluster) -> None:
    await eventually(lambda: standby.sql(RECEIVERS) == "0")


def both(primary: Cluster, standby: Cluster) -> str:
    return f"postgresql://tester@/postgres?host={primary.folder},{standby.folder}"


def fail_over(primary: Cluster, standby: Cluster) -> None:
    primary.stop(signal.SIGKILL)
    standby.promote()


def finished(frames: list[Frame]) -> list[str]:
    return [frame.json["outcome"]["status"] for frame in frames if frame.event == "tool_finished"]


@pytest.mark.requirement("K6")
def test_a_server_that_lives_stores_again_what_a_standby_had_not_received(tmp_path: Path):
    """Also what was sure on the disk of the dead one: an intent and its result. So the command is not run again."""

    async def main(primary: Cluster, standby: Cluster):
        place = both(primary, standby)
        async with AsyncExitStack() as stack:
            behind = await stack.enter_async_context(lab_provider(worker))
            (tmp_path / "beside").mkdir()
            given = {
                "place": place,
                "tools": OUTSIDE,
                "server": "drain = 0",
                "workspace": str(tmp_path / "work"),
            }
            given["more"] = "[node]\nlease = 300"
            one = await stack.enter_async_context(serve_one(tmp_path, behind, **given))
            two = await stack.enter_async_context(serve_one(tmp_path / "beside", behind, **given))
            begun = await one.begin("go", session="s")
            path = f"/v1/runs/{begun}/events"
            here = await stack.enter_async_context(one.listen(path))
            there = await stack.enter_async_context(two.listen(path))
            await asyncio.gather(here.until(b"Before. "), there.until(b"Before. "))
            await asyncio.to_thread(fall_behind, standby)
            await until_received_nothing(standby)
            behind.gates.open(1)
            await asyncio.gather(here.until(b"tool_finished"), there.until(b"tool_finished"))
            await asyncio.to_thread(fail_over, primary, standby)
            behind.gates.open(2)
            seen = [await here.rest(), await there.rest()]
            return seen, await two.events(begun), (tmp_path / "work" / "ran.txt").read_text()

    with own_cluster(**REPLICATED) as primary, standby_of(primary, **REPLICATED) as standby:
        seen, whole, ran = run(main(primary, standby))
    for frames in seen:
        assert [frame.raw for frame in frames if frame.id] == [frame.raw for frame in whole]
    assert (said_in(whole), finished(whole), ran) == (SAID, ["finished"], "ran\n")


@pytest.mark.long(8)
@pytest.mark.requirement("K6")
@pytest.mark.parametrize("waits", [True, False], ids=["a standby is waited for", "no standby is waited for"])
def test_what_a_standby_had_not_received_and_nobody_has_any_more_is_taken_back(waits: bool, tmp_path: Path):
    """The server dies together with the primary. With a standby that is waited for nothing sure is lost."""

    async def main(primary: Cluster, standby: Cluster):
        place = both(primary, standby)
        async with AsyncExitStack() as stack:
            behind = await stack.enter_async_context(lab_provider(worker))
            for name in ("dies", "stays"):
                (tmp_path / name).mkdir()
            given = {"place": place, "tools": OUTSIDE, "workspace": str(tmp_path)}
            stays = await stack.enter_async_context(serve_one(tmp_path / "stays", behind, **given))
            dies = await stack.enter_async_context(server_process(tmp_path / "dies", behind, **given))
            await dies.start()
            begun = await dies.begin("go", session="s")
            there = await stack.enter_async_context(stays.listen(f"/v1/runs/{begun}/events"))
            await there.until(b"Before. ")
            if not waits:
                await asyncio.to_thread(fall_behind, standby)
                await until_received_nothing(standby)
            behind.gates.open(1)
            await there.until(b"tool_finished")
            await dies.kill()
            await asyncio.to_thread(fail_over, primary, standby)
            behind.gates.open(2)
            told = await there.rest()
            last = int([frame.id for frame in told if frame.id][-1])
            back = await stays.events(begun, last) if told[-1].event == "interrupted" else []
            return told, back, await stays.events(begun), (tmp_path / "ran.txt").read_text()

    more = {"synchronous_standby_names": "*"} if waits else {}
    with own_cluster(**REPLICATED, **more) as primary, standby_of(primary, **REPLICATED) as standby:
        told, back, whole, ran = run(main(primary, standby))
    assert whole[-1].json["outcome"]["kind"] == "completed"
    left = int(whole[-1].id)
    if back:
        assert back[0].event == "reset"
        left = back[0].json["after"]
    kept = [frame for frame in told if frame.id and int(frame.id) <= left]
    assert [frame.raw for frame in (*kept, *back[1:])] == [frame.raw for frame in whole]
    assert finished(kept) == (["finished"] if waits else [])
    # Of a first time that neither a server nor the database has any more nobody can know.
    assert (finished(whole), ran) == (["finished"], "ran\n" if waits else "ran\n" * 2)
