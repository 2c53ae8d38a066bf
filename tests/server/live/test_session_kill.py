"""Sessions of the real server through kills, pauses and restarts: each time the session can be used, nothing piles up,
and what was asked of the provider is bounded."""

import asyncio
import signal
from pathlib import Path

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.live_server import asked_until, eventually, gate
from support.server.scripted_models import CUT_AT, LAST, OUTSIDE, is_alive, model_by_phase

from turnbuckle.lab.script import Finish, LabRequest, Say
from turnbuckle.runtime.lease import LEASE

pytestmark = pytest.mark.process
PATIENT = 600.0  # longer than any silence here, also of a busy machine


async def said(server: ServerProcess, session: str, text: str, **more) -> str:
    reply = await server.post(f"/v1/sessions/{session}/messages", {"input": text, **more})
    assert reply.status == 202, reply.body
    return reply.json["id"]


async def made(server: ServerProcess, *sessions: str) -> None:
    for session in sessions:
        assert (await server.post("/v1/sessions", {"id": session})).status == 201


async def begun(server: ServerProcess, *runs: str) -> None:
    """Wait until the first words of each run are stored: that it was asked for does not say so."""
    for run in runs:
        await asked_until(lambda view: view["output"] == LAST[:CUT_AT], server.run, run)


async def states(server: ServerProcess, session: str) -> list[str]:
    return [one["state"] for one in (await server.get(f"/v1/sessions/{session}/inbox")).json["data"]]


@pytest.mark.requirement("D3", "D4", "G1", "G5", "G6")
def test_kills_in_a_stream_in_a_tool_and_in_the_recovery_itself_leave_a_session_that_can_be_used(
    tmp_path: Path,
):
    async def scenario(server: ServerProcess):
        await server.start()
        await made(server, "talk")
        tool = await said(server, "talk", "tool one")
        behind = await said(server, "talk", "whole two")
        told = server.work / "tool.pid"
        await eventually(lambda: told.exists() and told.read_text().endswith("\n"))
        pid = int(told.read_text())
        await server.kill()
        with pytest.raises(AssertionError):  # it dies as it takes the run up, so it never listens
            await server.start(TURNBUCKLE_FAULT="after-append:RunClaimed:1")
        await server.wait()
        await server.start()
        views = [await server.ended(tool), await server.ended(behind)]
        text = await said(server, "talk", "text three")
        await begun(server, text)
        await server.kill()
        await server.start()
        views.append(await server.ended(text))
        await eventually(lambda: not is_alive(pid))
        found = [frame.json for frame in await server.events(tool) if frame.event == "tool_finished"]
        return (
            views,
            await states(server, "talk"),
            len(server.behind.lab.requests),
            found,
            await server.stop(),
        )

    views, inbox, asked, found, code = run_process_scenario(
        scenario, tmp_path, model_by_phase(), gap=PATIENT, tools=OUTSIDE
    )
    assert [view["status"] for view in views] == ["completed"] * 3
    assert views[-1]["output"] == LAST
    assert inbox == ["injected"] * 3
    assert asked <= 6
    assert [one["outcome"]["status"] for one in found] == ["unknown"]
    assert code == 0


@pytest.mark.requirement("G1", "G5", "G6")
def test_fifty_sessions_in_flight_at_the_kill_all_come_back(tmp_path: Path):
    names = [f"s{number}" for number in range(50)]

    async def scenario(server: ServerProcess):
        await server.start()
        await made(server, *names, "idle")
        runs = [await said(server, name, f"text {name}") for name in names]
        waiting = [await said(server, name, f"whole {name}") for name in names[:10]]
        await begun(server, *runs)
        before = (await server.get("/v1/sessions/idle")).json
        await server.kill()
        await server.start()
        views = [await server.ended(run) for run in (*runs, *waiting)]
        idle = (await server.get("/v1/sessions/idle")).json
        log = server.log
        return views, len(server.behind.lab.requests), before == idle, log, await server.stop()

    views, asked, untouched, log, code = run_process_scenario(
        scenario, tmp_path, model_by_phase(), gap=PATIENT, server="max_runs = 100\nmax_runs_per_owner = 100"
    )
    assert [view["status"] for view in views] == ["completed"] * 60
    assert {view["output"] for view in views} == {LAST}
    assert asked == 50 + 50 + 10
    assert untouched
    assert "runs that had no end and were looked at: 50" in log
    assert code == 0


@pytest.mark.requirement("G2", "G5")
def test_with_suspend_a_crash_ends_the_run_and_the_next_message_begins_anew(tmp_path: Path):
    async def scenario(server: ServerProcess):
        await server.start()
        await made(server, "talk")
        run = await said(server, "talk", "text one")
        await server.behind.asked(1)
        await server.kill()
        await server.start()
        first = await server.ended(run)
        second = await server.ended(await said(server, "talk", "whole two"))
        third = await server.ended(await said(server, "talk", "whole three"))
        bodies = [request.body["messages"] for request in server.behind.lab.requests]
        return first, second, third, bodies

    first, second, third, bodies = run_process_scenario(
        scenario, tmp_path, model_by_phase(), gap=PATIENT, more='[session]\nafter_crash = "suspend"'
    )
    assert (first["status"], second["status"], third["status"]) == ("cancelled", "completed", "completed")
    assert len(bodies) == 3
    assert "fresh start" in str(bodies[1])
    assert "text one" not in str(bodies[1])
    assert str(bodies[2]).count("fresh start") == 1  # the same note, in the history


@pytest.mark.long(31)
@pytest.mark.requirement("E6", "G5")
def test_a_server_that_was_paused_for_longer_than_its_lease_goes_on_with_good_authority(tmp_path: Path):
    """S5. Nobody else can have the folder, so it takes its own claims again before it does anything with them."""

    def model(request: LabRequest):
        return (Say(LAST[:20]), gate(1), Say(LAST[20:]), Finish())

    async def scenario(server: ServerProcess):
        await server.start()
        await made(server, "talk")
        run = await said(server, "talk", "one")
        behind = await said(server, "talk", "two")
        await server.behind.asked(1)
        server.signal(signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        await asyncio.wait({loop.create_future()}, timeout=LEASE + 1)
        server.behind.gates.open(1)
        server.signal(signal.SIGCONT)
        views = [await server.ended(run), await server.ended(behind)]
        events = [frame.event for frame in await server.events(run)]
        return views, events, len(server.behind.lab.requests), await server.stop()

    views, events, asked, code = run_process_scenario(scenario, tmp_path, model, gap=PATIENT)
    assert [(view["status"], view["output"]) for view in views] == [("completed", LAST)] * 2
    assert events.count("run_ended") == 1
    assert asked == 2
    assert code == 0
