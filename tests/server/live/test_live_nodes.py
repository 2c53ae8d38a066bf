"""Several servers on one database: whatever is asked of one holds for all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.postgres.server import shared_server
from support.processes.commands import command
from support.server.live_server import (
    asked_until,
    eventually,
    gate,
    lab_provider,
    run,
    said_in,
    serve_one,
    two_nodes,
)
from support.server.scripted_models import LAST, model_by_phase

from turnbuckle.journal.nodes import NodeState
from turnbuckle.journal.postgres.journal import open_postgres
from turnbuckle.lab.script import Finish, Say


def played(scenario, folder: Path, model, **settings):
    """Play a scene with two servers on a new database."""
    settings.setdefault("server", "drain = 0")

    async def main():
        async with lab_provider(model) as behind, two_nodes(folder, behind, **settings) as (one, other):
            async with asyncio.timeout(100):
                return await scenario(one, other)

    return run(main())


async def listed_by(node, path: str, holds):
    """What a node lists, as soon as it is as wanted: another node that is slow to answer is left out."""
    return (await asked_until(lambda reply: holds(reply.json["data"]), node.get, path)).json["data"]


def speaks(request):
    """Says one word, then waits at a gate, then says another."""
    yield Say("one ")
    yield gate(1)
    yield Say("two")
    yield Finish("stop")


@pytest.mark.requirement("K2")
def test_a_run_is_read_followed_and_shown_by_a_node_that_does_not_drive_it(tmp_path: Path):
    async def scenario(one, other):
        begun = await one.begin("go")
        async with other.listen(f"/v1/runs/{begun}/events") as reader:
            await reader.until(b"one ")
            view = await other.run(begun)
            listed = (await other.get("/v1/runs")).json["data"][0]
            one.behind.gates.open(1)
            seen = await reader.rest()
        shown = listed["status"], listed["route"]
        stored = [frame for frame in seen if frame.id]  # a slow machine may also see heartbeats
        return view["status"], *shown, said_in(seen), stored == await one.events(begun)

    assert played(scenario, tmp_path, speaks) == ("running", "running", "lab", "one two", True)


@pytest.mark.requirement("K2")
@pytest.mark.parametrize("verb", ["stop", "interrupt"])
@pytest.mark.parametrize("session", [{}, {"session": "s"}], ids=["alone", "in a session"])
def test_a_run_is_ended_by_any_node(verb: str, session: dict[str, str], tmp_path: Path):
    async def scenario(one, other):
        begun = await one.begin("go", **session)
        async with other.listen(f"/v1/runs/{begun}/events") as reader:
            await reader.until(b"one ")
            receipt = (await other.post(f"/v1/runs/{begun}/{verb}")).json
            await reader.rest()
        return receipt["stopped"], (await other.run(begun))["status"], receipt["run"] == begun

    assert played(scenario, tmp_path, speaks) == (True, "cancelled", True)


@pytest.mark.requirement("K2")
def test_messages_to_one_session_by_different_nodes_have_one_order(tmp_path: Path):
    async def scenario(one, other):
        first = await one.begin("a", session="s")
        await one.behind.asked(1)
        second = await other.begin("b", session="s")
        third = await one.begin("c", session="s")
        waiting = [(await node.run(begun))["status"] for node in (one, other) for begun in (second, third)]
        one.behind.gates.open(1)
        views = [await node.ended(begun) for node, begun in ((other, first), (one, second), (other, third))]
        listed = (await other.get("/v1/sessions/s/messages")).json["data"]
        said = [message["text"] for message in listed if message["role"] == "user"]
        return waiting, [view["status"] for view in views], said

    waiting, ends, said = played(scenario, tmp_path, speaks)
    assert waiting == ["queued"] * 4
    assert ends == ["completed"] * 3
    assert sorted(said) == ["a", "b", "c"]
    assert said in (["a", "b", "c"], ["c", "b", "a"])


@pytest.mark.requirement("K2")
def test_what_a_run_asks_is_seen_and_answered_by_any_node(tmp_path: Path):
    async def scenario(one, other):
        begun = await one.begin("consent", session="s")
        async with other.listen(f"/v1/runs/{begun}/events") as reader:
            await reader.until(b"event: approval_asked")
        [asked] = await listed_by(other, "/v1/approvals", lambda found: found)
        [listed] = await listed_by(other, "/v1/runs", lambda found: found[0]["status"] != "running")
        path = f"/v1/runs/{begun}/approvals/{asked['id']}"
        given = await other.post(path, {"decision": "allow"})
        again = await other.post(path, {"decision": "allow"})
        view = await other.ended(begun)
        shown = (asked["run"] == begun, listed["status"])
        return *shown, given.status, given.json["status"], again.status, view["status"]

    found = played(scenario, tmp_path, model_by_phase(), tools='approval = { shell = "ask" }')
    assert found == (True, "waiting_for_approval", 200, "allowed", 409, "completed")
    assert (tmp_path / "work" / "consent.txt").read_text() == "done\n"


@pytest.mark.requirement("K2")
def test_what_is_said_at_another_node_enters_the_turn_that_is_under_way(tmp_path: Path):
    async def scenario(one, other):
        begun = await one.begin("text", session="s")
        async with other.listen(f"/v1/runs/{begun}/events") as reader:
            await reader.until(b" one ")
            into = await other.begin("whole story", session="s", busy="steer")
            await reader.until(b"user_spoke")
            one.behind.gates.open(1)
            seen = await reader.rest()
        return into == begun, said_in(seen).endswith(LAST), len(one.lab.requests)

    assert played(scenario, tmp_path, model_by_phase()) == (True, True, 2)


@pytest.mark.requirement("K2")
def test_every_node_lists_all_of_them(tmp_path: Path):
    async def scenario(one, other):
        await one.begin("go")
        await one.behind.asked(1)
        lists = [(await node.get("/v1/nodes")).json["data"] for node in (one, other)]
        one.behind.gates.open(1)
        return [[(row["name"], row["here"]) for row in rows] for rows in lists]

    lists = played(scenario, tmp_path, speaks, more='[node]\nname = "n"')
    assert lists == [[("n", True), ("n", False)], [("n", False), ("n", True)]]


@asynccontextmanager
async def silent_node(place: str) -> AsyncIterator[None]:
    """One that lives, and answers nothing."""
    journal, over = await open_postgres(place, beside=True), asyncio.Event()

    async def perform(_: bytes) -> bytes:
        await over.wait()
        return b""

    await journal.nodes.join("silent", "1", NodeState, perform, lambda: None)
    try:
        yield
    finally:
        over.set()
        await journal.nodes.leave()
        await journal.close()


@pytest.mark.process
@pytest.mark.requirement("K2")
def test_a_list_names_the_node_that_did_not_answer(tmp_path: Path):
    place = shared_server().url()
    paths = ("/v1/processes", "/v1/approvals")

    async def scenario(one, other):
        async with silent_node(place):
            missing = [(await one.get(path)).json["missing_nodes"] for path in paths]
            words = ("processes", "list", "--server", f"http://127.0.0.1:{one.port}")
            told = await asyncio.to_thread(command, tmp_path, *words)
        for path in paths:
            await asked_until(lambda reply: not reply.json["missing_nodes"], one.get, path)
        return missing, told

    missing, told = played(scenario, tmp_path, speaks, place=place)
    assert all("silent" in names for names in missing)
    assert told.code == 0
    assert "not in this list: what is on" in told.err
    assert "silent" in told.err


@pytest.mark.requirement("K2")
def test_one_key_at_two_nodes_begins_one_run(tmp_path: Path):
    async def scenario(one, other):
        one.behind.gates.open(1)
        nodes = (one, other) * 3
        begun = await asyncio.gather(*(node.begin("go", headers={"idempotency_key": "k"}) for node in nodes))
        await one.ended(begun[0])
        return len(set(begun)), len(one.lab.requests)

    assert played(scenario, tmp_path, speaks) == (1, 1)


@pytest.mark.requirement("K2")
def test_a_run_is_deleted_by_any_node_as_soon_as_its_end_is_seen(tmp_path: Path):
    """Also while its session is just changing hands."""

    async def scenario(one, other):
        one.behind.gates.open(1)
        statuses = []
        for node, at in ((one, other), (other, one)) * 4:
            begun = await node.begin("go", session="s")
            await at.events(begun)
            statuses.append((await at.ask("DELETE", f"/v1/runs/{begun}")).status)
        return statuses, (await one.get("/v1/runs")).json["data"]

    assert played(scenario, tmp_path, speaks) == ([200] * 8, [])


@pytest.mark.requirement("K2")
@pytest.mark.parametrize("sessions", [(), ("s1", "s2", "s3")], ids=["alone", "in sessions"])
def test_what_a_node_has_no_room_for_is_driven_by_one_that_has(sessions: tuple[str, ...], tmp_path: Path):
    """Each takes one run; the third one waits until one of them has room."""

    async def scenario(one, other):
        more = [{"session": name} for name in sessions] or [{}] * 3
        begun = [await one.begin("go", **given) for given in more]
        await one.behind.asked(2)
        driven = [len(node.service.slots) for node in (one, other)]
        one.behind.gates.open(1)
        ended = [await other.events(name) for name in begun]
        return driven, [frames[-1].json["outcome"]["kind"] for frames in ended], len(one.lab.requests)

    found = played(scenario, tmp_path, speaks, more="[node]\nmax_runs = 1")
    assert found == ([1, 1], ["completed"] * 3, 3)


@pytest.mark.requirement("K2", "F7")
def test_a_client_that_leaves_ends_nothing_while_the_same_request_is_read_at_another_node(tmp_path: Path):
    async def scenario(one, other):
        body = {"model": "agent", "messages": [{"role": "user", "content": "go"}], "stream": True}
        wish = {"idempotency_key": "k", "x_turnbuckle_on_disconnect": "cancel"}
        async with other.listen("/v1/chat/completions", body, **wish) as staying:
            await staying.until(b"one")
            async with one.listen("/v1/chat/completions", body, **wish) as leaving:
                await leaving.until(b"one")
                leaving.leave()
            await eventually(lambda: len(one.service.heartbeat) == 0)
            statuses = [(await one.run(staying.run))["status"] for _ in range(5)]
            one.behind.gates.open(1)
            told = (await staying.rest())[-1].data
            outcome = (await one.ended(staying.run))["outcome"]["kind"]
        return statuses, told, outcome, len(one.lab.requests)

    assert played(scenario, tmp_path, speaks) == (["running"] * 5, b"[DONE]", "completed", 1)


@pytest.mark.requirement("K4")
def test_a_node_that_stops_hands_its_runs_over_and_no_crash_is_counted(tmp_path: Path):
    async def main():
        async with lab_provider(speaks) as behind, AsyncExitStack() as staying:
            place = shared_server().url()
            one = await staying.enter_async_context(
                serve_one(tmp_path, behind, place=place, server="drain = 0")
            )
            beside = tmp_path / "beside"
            beside.mkdir()
            async with serve_one(beside, behind, place=place, server="drain = 0") as other:
                begun = [await other.begin("go"), await other.begin("go", session="s")]
                await behind.asked(2)
            await behind.asked(4)
            behind.gates.open(1)
            return [await one.events(run) for run in begun]

    for events in run(main()):
        assert [frame.event for frame in events].count("run_left") == 1
        assert events[-1].json["outcome"]["kind"] == "completed"
        left = [frame.event for frame in events].index("run_left")
        assert events[left + 1].event == "run_claimed"
