"""Disks that fail, folders that go, journals that are damaged: everybody is told, and work goes on by itself where it
can."""

import asyncio
import resource
import shutil
import sqlite3

import msgspec
import pytest
from support.processes.server_process import run_process_scenario
from support.server.live_server import asked_until, gate, lab_provider, run, run_scenario, said_in, serve_live

from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Finish, Say

FULL = (4096, resource.RLIM_INFINITY)
FREE = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
CHAT = "/v1/chat/completions"


@pytest.fixture(autouse=True)
def on_a_disk(monkeypatch: pytest.MonkeyPatch):
    """What is tried here is a folder of files, wherever the journals of other tests are."""
    monkeypatch.delenv("TURNBUCKLE_TEST_STORE", raising=False)


def asked(text: str, **more):
    return {"model": "agent", "messages": [{"role": "user", "content": text}], **more}


def speaker(request):
    """Says half of it, and the rest when the door opens."""
    if "slowly" in last_user_text(request):
        return (Say("One half"), gate(1), Say(" and the other."), Finish())
    return (Say("Well."), Finish())


def told(reply):
    return reply.status, reply.code, "retry-after" in reply.headers


FACES = {
    CHAT: asked("hello"),
    "/v1/responses": {"model": "agent", "input": "hello"},
    "/v1/messages": {**asked("hello"), "max_tokens": 99},
    "/v1/runs": {"model": "agent", "input": "hello", "session": "s"},
}


async def told_by_all(server, **headers):
    """What each face answers to a message in a session, as a whole and as a stream."""
    return {
        (path, stream): told(await server.post(path, {**body, **stream_of(path, stream)}, **headers))
        for path, body in FACES.items()
        for stream in (False, True)
    }


def stream_of(path, stream):
    return {"stream": True} if stream and path != "/v1/runs" else {}


@pytest.mark.requirement("E10")
@pytest.mark.process
@pytest.mark.parametrize("session", ["", "s"])
def test_a_disk_that_takes_nothing_for_a_while_is_told_to_everybody_and_work_goes_on_by_itself(
    session, tmp_path
):
    """A limit of the process on the size of files is what a disk without room is for it."""
    headers = {"x_turnbuckle_session": session} if session else {}

    async def scenario(server):
        await server.start()
        body = asked("slowly", stream=True)
        async with server.listen(CHAT, body, idempotency_key="k", **headers) as listener:
            await listener.until(b"One half")
            run_id = listener.reply.headers["x-turnbuckle-run"]
            async with server.listen(f"/v1/runs/{run_id}/events") as watcher:
                await watcher.until(b"One half")
                resource.prlimit(server.pid, resource.RLIMIT_FSIZE, FULL)
                refused = await server.post(CHAT, asked("hello"))
                in_session = await server.post(CHAT, asked("hello"), x_turnbuckle_session="other")
                ready = await server.get("/readyz")
                server.behind.gates.open(1)
                await watcher.until(b'"kind":"storage"')
                await listener.until(b": waiting for storage")
                async with server.listen(CHAT, body, idempotency_key="k", **headers) as again:
                    await again.until(b": waiting for storage")
                    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, FREE)
                    whole = [await one.rest() for one in (listener, again)]
                events = await watcher.rest()
        later = await server.post(CHAT, asked("hello"), **headers)
        await eventually_ready(server)
        await server.stop()
        return refused, in_session, ready, whole, events, later

    refused, in_session, ready, whole, events, later = run_process_scenario(scenario, tmp_path, speaker)
    assert told(refused) == told(in_session) == (503, "storage_failed", True)
    assert (ready.status, ready.json["code"]) == (503, "storage_failed")
    assert said_in(events) == "One half and the other."
    for stream in whole:
        said = "".join(
            choice["delta"].get("content") or ""
            for frame in stream
            if frame.data.startswith(b"{")
            for choice in frame.json["choices"]
        )
        assert said == "One half and the other."
        assert stream[-1].data == b"[DONE]"
    assert later.status == 200


@pytest.mark.long(8)
@pytest.mark.requirement("E10", "F5")
@pytest.mark.process
@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_a_stop_that_cannot_be_stored_says_what_it_waits_for_and_ends_the_run_later(how, tmp_path):
    async def scenario(server):
        await server.start()
        begun = await server.post("/v1/runs", {"model": "agent", "input": "slowly"})
        place = f"/v1/runs/{begun.json['id']}"
        async with server.listen(f"{place}/events") as watcher:
            await watcher.until(b"One half")
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, FULL)
            receipt = await server.post(f"{place}/{how}", {})
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, FREE)
            await watcher.rest()
        ended = await server.get(place)
        await server.stop()
        return receipt, ended

    receipt, ended = run_process_scenario(scenario, tmp_path, speaker)
    assert (receipt.status, receipt.json["stopped"], receipt.json["outcome"]) == (200, False, None)
    assert receipt.json["waiting_on"]["kind"] == "storage"
    assert ended.json["outcome"]["kind"] == "cancelled"


async def eventually_ready(server):
    await asked_until(lambda ready: ready.status == 200, server.get, "/readyz")


@pytest.mark.requirement("E10")
def test_a_data_folder_that_is_deleted_is_noticed_and_no_work_is_taken(tmp_path):
    async def scenario(live):
        before = await live.post(CHAT, asked("hello"), x_turnbuckle_session="s")
        shutil.rmtree(tmp_path / "data")
        plain = await live.post(CHAT, asked("hello"))
        in_session = await live.post(CHAT, asked("hello"), x_turnbuckle_session="s")
        keyed = await live.post(CHAT, asked("hello"), idempotency_key="k")
        ready = await live.get("/readyz")
        by_all = await told_by_all(live, x_turnbuckle_session="s")
        return before, plain, in_session, keyed, ready, by_all

    before, *refused, ready, by_all = run_scenario(scenario, tmp_path, speaker)
    assert before.status == 200
    assert set(by_all.values()) == {(503, "storage_gone", True)}
    assert [told(reply) for reply in refused] == [(503, "storage_gone", True)] * 3
    assert (ready.status, ready.json["code"]) == (503, "storage_gone")
    assert str(tmp_path) not in ready.body.decode()


@pytest.mark.requirement("E10")
def test_nothing_is_shown_and_no_change_is_confirmed_that_a_folder_which_is_gone_cannot_keep(tmp_path):
    def endless(request):
        return (Say("One half"), gate(1), Say(" and the rest."), gate(2), Finish())

    async def scenario(live):
        async with live.listen(CHAT, asked("hello", stream=True), x_turnbuckle_session="s") as listener:
            await listener.until(b"One half")
            shutil.rmtree(tmp_path / "data")
            live.behind.gates.open(1)
            await listener.until(b": waiting for storage: the server's data folder is gone")
            renamed = await live.ask("PATCH", "/v1/sessions/s", {"title": "Another"})
            return listener.body, renamed

    heard, renamed = run_scenario(scenario, tmp_path, endless)
    assert b"One half" in heard
    assert b"rest" not in heard
    assert told(renamed) == (503, "storage_gone", True)


@pytest.mark.requirement("E10")
@pytest.mark.process
def test_a_plain_request_whose_turn_waits_for_the_disk_is_told_so_and_its_key_gets_the_answer_later(tmp_path):
    bodies = {path: body for path, body in FACES.items() if path != "/v1/runs"}

    async def ask(server, path):
        body = msgspec.json.decode(msgspec.json.encode(bodies[path]).replace(b"hello", b"slowly"))
        return await server.post(path, body, idempotency_key=path)

    async def scenario(server):
        await server.start()
        waiting = [asyncio.create_task(ask(server, path)) for path in bodies]
        await server.behind.asked(len(bodies))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, FULL)
        server.behind.gates.open(1)
        refused = [await one for one in waiting]
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, FREE)
        whole = [await asked_until(lambda reply: reply.status != 503, ask, server, path) for path in bodies]
        await server.stop()
        return refused, whole, len(server.behind.lab.requests)

    refused, whole, requests = run_process_scenario(scenario, tmp_path, speaker, server="noop = 1")
    assert [told(reply) for reply in refused] == [(503, "storage_failed", True)] * len(bodies)
    assert all(reply.headers["x-turnbuckle-run"] for reply in refused)
    for reply in whole:
        assert reply.status == 200
        assert b"One half and the other." in reply.body
    assert requests == len(bodies)


@pytest.mark.requirement("E10")
def test_a_turn_whose_folder_is_moved_away_waits_and_ends_when_it_is_back(tmp_path):
    async def scenario(live):
        async with live.listen(CHAT, asked("slowly", stream=True)) as listener:
            await listener.until(b"One half")
            (tmp_path / "data").rename(tmp_path / "away")
            live.behind.gates.open(1)
            await listener.until(b": waiting for storage: the server's data folder is gone")
            (tmp_path / "away").rename(tmp_path / "data")
            return await listener.rest()

    stream = run_scenario(scenario, tmp_path, speaker)
    assert stream[-1].data == b"[DONE]"
    assert b'"finish_reason":"stop"' in b"".join(frame.data for frame in stream)


def damage(folder, run_id):
    connection = sqlite3.connect(folder / "data" / DATABASE)
    with connection:
        connection.execute(
            "UPDATE item SET data = x'7b7d' WHERE seq = 1 AND stream = (SELECT id FROM stream WHERE name = ?)",
            (run_id,),
        )
    connection.close()


@pytest.mark.requirement("E10", "E8")
def test_damage_in_the_last_run_of_a_session_is_told_and_a_new_conversation_can_begin(tmp_path):
    async def main():
        async with lab_provider(speaker) as behind:
            async with serve_live(tmp_path, behind, server="drain = 0") as live:
                first = await live.post(CHAT, asked("hello"), x_turnbuckle_session="s")
            damage(tmp_path, first.headers["x-turnbuckle-run"])
            async with serve_live(tmp_path, behind, server="drain = 0") as live:
                second = await live.post(CHAT, asked("and now?"), x_turnbuckle_session="s")
                third = await live.post(CHAT, asked("and now?"), x_turnbuckle_session="s")
                ready = await live.get("/readyz")
                read = await live.get(f"/v1/runs/{first.headers['x-turnbuckle-run']}")
                by_all = await told_by_all(live, x_turnbuckle_session="s")
                anew = await live.post(CHAT, asked("/new"), x_turnbuckle_session="s")
                fresh = await live.post(CHAT, asked("hello again"), x_turnbuckle_session="s")
                return second, third, read, ready, by_all, anew, fresh

    second, third, read, ready, by_all, anew, fresh = run(main())
    assert set(by_all.values()) == {(503, "storage_damaged", True)}
    assert told(second) == told(third) == told(read) == (503, "storage_damaged", True)
    assert (ready.status, ready.json["code"]) == (503, "storage_damaged")
    assert "doctor --mend" in ready.json["fix"]
    assert (anew.status, fresh.status) == (200, 200)


@pytest.mark.requirement("E10")
def test_a_journal_whose_pages_are_zeroed_is_not_ready(tmp_path):
    async def scenario(live):
        await live.post(CHAT, asked("hello"), x_turnbuckle_session="s")
        file = tmp_path / "data" / DATABASE
        with file.open("r+b") as opened:
            opened.write(bytes(file.stat().st_size))
        return await live.get("/readyz")

    ready = run_scenario(scenario, tmp_path, speaker)
    assert (ready.status, ready.json["code"]) == (503, "storage_damaged")
