"""Background processes of a session, over a whole server: shown, found again after a restart, told of when lost, and
ended with the session."""

import os
import signal
from pathlib import Path

import msgspec
import pytest
from support.server.live_server import eventually, lab_provider, run, serve_live

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.tools.identity import identity_of
from turnbuckle.tools.keeper import RUNNING

pytestmark = pytest.mark.process
TALK = {"x_turnbuckle_session": "s"}


def starts_one(request):
    if results_brought(request) or "start" not in last_user_text(request):
        return (Say("Well."), Finish())
    return (Call("shell", {"command": "echo up; exec sleep 300", "background": True}), Finish())


async def say(server, text):
    body = {"model": "agent", "messages": [{"role": "user", "content": text}]}
    reply = await server.post("/v1/chat/completions", body, **TALK)
    assert reply.status == 200, reply.body
    return reply.headers["x-turnbuckle-run"]


async def listed(server):
    return (await server.get("/v1/sessions/s/processes")).json["data"]


def keeper_of(folder, process):
    (record,) = Path(folder).glob(f"**/data/processes/{process}/{RUNNING}")  # of whichever node has it
    found = msgspec.json.decode(record.read_bytes())
    return found["keeper"], found["identity"]


@pytest.mark.requirement("G6")
def test_a_process_is_found_again_after_a_restart_and_ends_with_its_session(tmp_path):
    async def scenario():
        async with lab_provider(starts_one) as behind:
            async with serve_live(tmp_path, behind) as server:
                begun = await say(server, "start it")
                (one,) = await listed(server)
                assert (one["state"], one["run"], one["object"]) == ("running", begun, "process")
            async with serve_live(tmp_path, behind) as server:
                (again,) = await listed(server)
                assert (again["state"], again["pid"]) == ("running", one["pid"])
                keeper, identity = keeper_of(tmp_path, one["id"])
                assert (await server.ask("DELETE", "/v1/sessions/s")).status == 200
                await eventually(lambda: identity_of(keeper) != identity)
                assert (await server.get("/v1/sessions/s/processes")).status == 404

    run(scenario())


@pytest.mark.requirement("G6")
def test_the_next_run_of_a_session_is_told_once_of_what_was_lost(tmp_path):
    async def scenario():
        async with lab_provider(starts_one) as behind, serve_live(tmp_path, behind) as server:
            await say(server, "start it")
            (one,) = await listed(server)
            keeper, identity = keeper_of(tmp_path, one["id"])
            os.kill(keeper, signal.SIGKILL)
            await eventually(lambda: identity_of(keeper) != identity)
            assert [process["state"] for process in await listed(server)] == ["lost"]
            await say(server, "go on")
            await say(server, "and on")
            last = msgspec.json.encode(behind.lab.requests[-1].body).decode()
            assert last.count("background processes are not there any more") == 1
            assert last.index("not there any more") < last.index("go on")
            await server.ask("DELETE", "/v1/sessions/s")

    run(scenario())


@pytest.mark.requirement("D10")
def test_a_process_of_a_chat_without_a_session_is_seen_and_ended_by_its_owner_alone(tmp_path):
    async def scenario():
        async with lab_provider(starts_one) as behind, serve_live(tmp_path, behind) as server:
            ann, bob = server.owner("ann"), server.owner("bob")
            body = {"model": "agent", "messages": [{"role": "user", "content": "start it"}]}
            begun = (await ann.post("/v1/chat/completions", body)).headers["x-turnbuckle-run"]
            (one,) = (await ann.get("/v1/processes")).json["data"]
            assert (one["state"], one["run"]) == ("running", begun)
            assert (await bob.get("/v1/processes")).json["data"] == []
            keeper, identity = keeper_of(tmp_path, one["id"])
            path = f"/v1/processes/{one['id']}/stop"
            assert (await bob.post(path)).status == 404
            assert identity_of(keeper) == identity
            ended = await ann.post(path)
            assert (ended.status, ended.json["state"]) == (200, "stopped")
            await eventually(lambda: identity_of(keeper) != identity)
            assert (await ann.post(path)).json["state"] == "stopped"
            assert (await ann.post("/v1/processes/none/stop")).status == 404

    run(scenario())


@pytest.mark.requirement("D10", "G8")
def test_a_run_without_a_session_takes_its_processes_with_it_when_it_is_deleted(tmp_path):
    async def scenario():
        async with lab_provider(starts_one) as behind, serve_live(tmp_path, behind) as server:
            body = {"model": "agent", "messages": [{"role": "user", "content": "start it"}]}
            begun = (await server.post("/v1/chat/completions", body)).headers["x-turnbuckle-run"]
            (one,) = (await server.get("/v1/processes")).json["data"]
            keeper, identity = keeper_of(tmp_path, one["id"])
            assert (await server.ask("DELETE", f"/v1/runs/{begun}")).status == 200
            await eventually(lambda: identity_of(keeper) != identity)
            assert (await server.get("/v1/processes")).json["data"] == []

    run(scenario())
