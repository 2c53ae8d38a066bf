"""Messages that wait for their turn in a session: they can be followed, and taken back, before they have begun."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, eventually, run_scenario
from support.server.scripted_models import model_by_phase


async def begin(server: LiveServer, task: str, **more: Any) -> str:
    reply = await server.post("/v1/runs", {"input": task, "session": "s", **more})
    assert reply.status == 202
    return reply.json["id"]


async def inbox(server: LiveServer) -> list[str]:
    return [one["state"] for one in (await server.get("/v1/sessions/s/inbox")).json["data"]]


@pytest.mark.requirement("G1", "F5")
def test_a_run_that_waits_is_taken_back_by_a_stop_and_the_others_stay(tmp_path: Path):
    async def scenario(server: LiveServer):
        first = await begin(server, "text")
        await server.behind.asked(1)
        second, third = await begin(server, "whole"), await begin(server, "whole")
        before = [(await server.get(f"/v1/runs/{run}")).json["status"] for run in (first, second, third)]
        receipt = await server.post(f"/v1/runs/{second}/stop")
        again = await server.post(f"/v1/runs/{second}/stop")
        waiting = await inbox(server)
        said = [one["text"] for one in (await server.get("/v1/sessions/s/inbox")).json["data"]]
        server.behind.gates.open(1)
        events = await server.read(f"/v1/runs/{third}/events")
        after = [(await server.get(f"/v1/runs/{run}")).json["status"] for run in (first, second, third)]
        return before, receipt, again, waiting, said, events, after, len(server.lab.requests)

    before, receipt, again, waiting, said, events, after, requests = run_scenario(
        scenario, tmp_path, model_by_phase()
    )
    assert before == ["running", "queued", "queued"]
    assert receipt.json["stopped"] is True
    assert receipt.json["outcome"]["kind"] == "cancelled"
    assert again.json["stopped"] is False
    assert again.json["outcome"]["kind"] == "cancelled"
    assert waiting == ["injected", "refused", "accepted"]
    assert said == [None, None, "whole"]
    assert events[-1].event == "run_ended"
    assert after == ["completed", "cancelled", "completed"]
    assert requests == 2  # the one that was taken back never asked the model


@pytest.mark.requirement("F7", "G1")
def test_a_client_that_leaves_while_its_message_waits_takes_it_back_if_it_asked_for_that(tmp_path: Path):
    async def scenario(server: LiveServer):
        await begin(server, "text")
        await server.behind.asked(1)
        body = {"model": "agent", "stream": True, "messages": [{"role": "user", "content": "whole"}]}
        headers = {"x_turnbuckle_session": "s", "x_turnbuckle_on_disconnect": "cancel"}
        async with server.listen("/v1/chat/completions", body, **headers):
            await eventually(lambda: len(server.service.heartbeat) == 1)
        states: list[str] = []
        async with asyncio.timeout(100):
            while states != ["injected", "refused"]:
                states = await inbox(server)
        server.behind.gates.open(1)
        await begin(server, "whole", busy="queue")
        await eventually(lambda: len(server.lab.requests) == 2)
        return states

    assert run_scenario(scenario, tmp_path, model_by_phase()) == ["injected", "refused"]


@pytest.mark.requirement("F5", "G1")
def test_a_run_that_waits_has_left_nothing_yet_and_says_so_instead_of_not_being_there(tmp_path: Path):
    async def scenario(server: LiveServer):
        await begin(server, "text")
        await server.behind.asked(1)
        path = f"/v1/runs/{await begin(server, 'whole')}"
        lists = [(await server.get(f"{path}/{what}")).json for what in ("approvals", "drafts")]
        ledger, resumed = await server.get(f"{path}/ledger"), await server.post(f"{path}/resume")
        deleted = await server.ask("DELETE", path)
        answered = await server.post(f"{path}/approvals/a", {"decision": "allow"})
        server.behind.gates.open(1)
        return lists, ledger, resumed, deleted, answered, await server.ended(path.rpartition("/")[2])

    lists, ledger, resumed, deleted, answered, ended = run_scenario(scenario, tmp_path, model_by_phase())
    assert [one["data"] for one in lists] == [[], []]
    assert ledger.json["entries"] == []
    assert (resumed.status, resumed.json["status"]) == (202, "queued")
    assert (deleted.status, deleted.json["error"]["code"]) == (409, "run_active")
    assert answered.status == 404
    assert ended["status"] == "completed"
