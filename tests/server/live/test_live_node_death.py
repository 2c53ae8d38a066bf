"""A node dies, or stands still for too long: what it drove goes on elsewhere, once, and every reader keeps its place."""

import asyncio
import contextlib
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from support.postgres.server import shared_server
from support.processes.commands import command
from support.processes.server_process import ServerProcess
from support.server.live_server import eventually, gate, lab_provider, run, said_in
from support.server.scripted_models import LAST, NOTE, OUTSIDE, is_alive, model_by_phase

from turnbuckle.lab.script import Finish, Say

pytestmark = pytest.mark.process

STAGES = {"first": b"model_asked", "text": b" one ", "arguments": b"Two scr", "tool": b"tool_said"}


@asynccontextmanager
async def processes(
    folder: Path, model, names: str = "ab", more: str = "", server: str = "", **environment: str
):
    """Servers on a new database, each with files and a workspace of its own."""
    place = shared_server().url()
    async with lab_provider(model) as behind:
        made = []
        try:
            for name in names:
                (folder / name).mkdir()
                given = {"place": place, "tools": OUTSIDE, "more": more, "server": server}
                made.append(ServerProcess(folder / name, behind, **given))
                await made[-1].start(**environment)
            async with asyncio.timeout(100):
                yield made
        finally:
            for process in made:
                await process.close()


@pytest.mark.requirement("K3")
def test_the_runs_of_a_killed_node_go_on_at_another_and_readers_there_notice_a_pause(tmp_path: Path):
    async def main():
        async with processes(tmp_path, model_by_phase()) as (dies, stays):
            runs = {stage: await dies.begin(stage, session=f"s-{stage}") for stage in STAGES}
            reading, seen, whole = asyncio.Event(), {}, {}

            async def read(stage: str) -> None:
                """One reader at the node that stays, which reads on; and one at the other, which comes back."""
                path = f"/v1/runs/{runs[stage]}/events"
                async with stays.listen(path) as there, dies.listen(path) as here:
                    await there.until(STAGES[stage])
                    await here.until(STAGES[stage])
                    seen[stage] = here.frames
                    if len(seen) == len(STAGES):
                        reading.set()
                    whole[stage] = await there.rest()

            async with asyncio.TaskGroup() as group:
                for stage in STAGES:
                    group.create_task(read(stage))
                await reading.wait()
                pid = int((dies.work / "tool.pid").read_text())
                await dies.kill()
            rest = {stage: await stays.events(runs[stage], int(seen[stage][-1].id)) for stage in STAGES}
            views = {stage: await stays.run(runs[stage]) for stage in STAGES}
            await eventually(lambda: not is_alive(pid))
            return seen, rest, whole, views, stays.work

    seen, rest, whole, views, work = run(main())
    for stage in STAGES:
        assert [frame.raw for frame in (*seen[stage], *rest[stage])] == [frame.raw for frame in whole[stage]]
        kinds = [frame.event for frame in whole[stage]]
        assert (kinds.count("run_claimed"), kinds.count("run_ended")) == (1, 1)
        assert (views[stage]["status"], views[stage]["output"], said_in(whole[stage])) == (
            "completed",
            LAST,
            LAST,
        )
    assert (work / "arguments.txt").read_text() == NOTE
    finished = [frame.json for frame in whole["tool"] if frame.event == "tool_finished"]
    assert [one["outcome"]["status"] for one in finished] == ["unknown"]


@pytest.mark.requirement("K4")
def test_a_node_that_gets_sigterm_hands_its_runs_over_and_readers_keep_their_place(tmp_path: Path):
    """No crash is counted: with one of them the runs would be given up."""

    async def main():
        environment = {"TURNBUCKLE_RECOVERY_MAX_RECOVERIES": "0"}
        async with processes(tmp_path, model_by_phase(), server="drain = 0", **environment) as (stops, stays):
            runs = {stage: await stops.begin(stage, session=f"s-{stage}") for stage in ("text", "arguments")}
            seen, whole = {}, {}

            async def read(stage: str, ready: asyncio.Barrier) -> None:
                path = f"/v1/runs/{runs[stage]}/events"
                async with stays.listen(path) as there, stops.listen(path) as here:
                    await there.until(STAGES[stage])
                    await here.until(STAGES[stage])
                    await ready.wait()
                    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                        await here.rest()
                    seen[stage] = [frame for frame in here.frames if frame.id]  # the farewell has none
                    whole[stage] = await there.rest()

            ready = asyncio.Barrier(3)
            async with asyncio.TaskGroup() as group:
                for stage in runs:
                    group.create_task(read(stage, ready))
                await ready.wait()
                code = await stops.stop()
            rest = {stage: await stays.events(run, int(seen[stage][-1].id)) for stage, run in runs.items()}
            listed = (await stays.get("/v1/nodes")).json["data"]
            return code, seen, rest, whole, len(listed)

    code, seen, rest, whole, nodes = run(main())
    assert (code, nodes) == (0, 1)
    for stage, events in whole.items():
        kinds = [frame.event for frame in events]
        assert (kinds.count("run_left"), kinds.count("run_claimed"), kinds.count("run_ended")) == (1, 1, 1)
        assert [frame.raw for frame in (*seen[stage], *rest[stage])] == [frame.raw for frame in events]
        assert events[-1].json["outcome"]["kind"] == "completed"
        assert said_in(events) == LAST


@pytest.mark.requirement("K6")
def test_words_that_a_failed_database_lost_together_with_their_node_are_taken_back_and_never_kept(
    tmp_path: Path,
):
    """What was said last is not sure. A standby that takes the place of the database may not have it, and if the node
    that said it dies at the same time nobody has."""

    def model(request):
        if len(seen_requests) == 0:
            seen_requests.append(request)
            return (Say("Sure. "), gate(1), Say("Not sure. "), gate(2), Finish())
        return (Say("Said anew."), Finish())

    seen_requests: list[object] = []

    async def main():
        async with processes(tmp_path, model) as (dies, stays):
            begun = await dies.begin("go", session="s")
            path = f"/v1/runs/{begun}/events"
            async with stays.listen(path) as reader:
                await reader.until(b"Sure. ")
                dies.behind.gates.open(1)
                await reader.until(b"Not sure. ")
                dies.signal(signal.SIGSTOP)
                last = int(reader.frames[-1].id)
                lose(dies.place, begun, last)
                await dies.kill()
                told = await reader.rest()
            back = await stays.events(begun, last)
            return told, back, last, await stays.events(begun), (await stays.run(begun))["output"]

    told, back, last, whole, output = run(main())
    assert told[-1].event == "interrupted"
    assert (told[-1].json["after"], told[-1].json["resumable"]) == (last, True)
    assert back[0].event == "reset"
    left = back[0].json["after"]
    assert left < last
    kept = [frame.raw for frame in told if frame.id and int(frame.id) <= left]
    assert [*kept, *(frame.raw for frame in back[1:])] == [frame.raw for frame in whole]
    assert "Not sure" not in said_in(whole)
    assert output.startswith("Sure. ")
    assert output.endswith("Said anew.")


def lose(place: str, run: str, seq: int) -> None:
    """What is not sure may be missing after a failover."""
    schema = place.rpartition("schema=")[2]
    stream = f"(SELECT id FROM {schema}.stream WHERE name = '{run}')"
    shared_server().sql(f"DELETE FROM {schema}.item WHERE stream = {stream} AND seq >= {seq}")


@pytest.mark.requirement("K5")
def test_a_node_that_stands_still_for_too_long_is_fenced_and_starts_no_tool(tmp_path: Path):
    """It stops while the model speaks; the call that the model makes then is another node's to run."""

    async def main():
        async with processes(tmp_path, model_by_phase(), more="[node]\nlease = 6") as (stalls, stays):
            begun = await stalls.begin("arguments", session="s")
            async with stays.listen(f"/v1/runs/{begun}/events") as reader:
                await reader.until(STAGES["arguments"])
                stalls.signal(signal.SIGSTOP)
                events = await reader.rest()
            stalls.signal(signal.SIGCONT)
            view = await stalls.run(begun)  # it reads what the other one has done
            again = await stalls.ended(await stalls.begin("whole", session="s"))
            return events, view, again["status"], await stays.events(begun), stalls.work, stays.work

    events, view, again, after, stalled, work = run(main())
    assert (view["status"], again) == ("completed", "completed")
    assert [frame.raw for frame in after] == [frame.raw for frame in events]
    assert [frame.event for frame in events].count("tool_started") == 1
    assert ((work / "arguments.txt").exists(), (stalled / "arguments.txt").exists()) == (True, False)


@pytest.mark.requirement("K3")
def test_a_run_that_comes_back_again_and_again_is_given_up_whichever_nodes_died(tmp_path: Path):
    def silent(request):
        return (gate(1), Finish())

    async def main():
        async with processes(tmp_path, silent, "abc", TURNBUCKLE_RECOVERY_MAX_RECOVERIES="1") as servers:
            begun = await servers[0].begin("go", session="s")
            left = {server.pid: server for server in servers}
            for number in (1, 2):
                await servers[0].behind.asked(number)
                await left.pop(driver_of(servers[0].place, begun)).kill()
            [last] = left.values()
            return await last.ended(begun), len(last.behind.lab.requests)

    view, asked = run(main())
    assert (view["status"], asked) == ("failed", 2)


def driver_of(place: str, run: str) -> int:
    """The process that holds a run."""
    schema = place.rpartition("schema=")[2]
    holder = shared_server().sql(f"SELECT holder FROM {schema}.stream WHERE name = '{run}'")
    return int(holder.split()[1])


@pytest.mark.requirement("K2")
def test_the_command_lists_the_nodes_of_the_settings(tmp_path: Path):
    async def main():
        async with processes(
            tmp_path, model_by_phase(), "a", more='[node]\nname = "first"\nmax_runs = 7'
        ) as (one,):
            return await asyncio.to_thread(command, one.folder, "nodes", "--json")

    found = run(main())
    [row] = msgspec.json.decode(found.out)
    assert (found.code, row["name"], row["max_runs"], row["here"]) == (0, "first", 7, False)
