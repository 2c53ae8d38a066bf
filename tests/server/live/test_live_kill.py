"""`kill -9` of the real server under real clients: what was seen is still there, and every run goes on by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.face_requests import request_for, streamed
from support.server.live_server import Listener, encoded, eventually, said_in
from support.server.scripted_models import LAST, NOTE, OUTSIDE, is_alive, model_by_phase

pytestmark = pytest.mark.process

STAGES = ("first", "text", "arguments", "tool", "whole")


async def reached(live: str, reader: Listener) -> None:
    """Read until the run stands where the phase has it."""
    sign = {
        "first": b"model_asked",
        "text": b" one ",
        "arguments": b"Two scr",
        "tool": b"tool_said",
        "whole": b"run_ended",
    }
    await reader.until(sign[live])


async def broken(reader: Listener) -> None:
    """The stream ended without its proper end."""
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await reader.rest()


@pytest.mark.requirement("E1", "E2", "E4", "F5", "G5")
def test_a_killed_server_loses_no_event_that_was_seen_and_its_runs_go_on_by_themselves(tmp_path: Path):
    """C1, S1, S2."""

    async def scenario(server: ServerProcess):
        await server.start()
        runs = {live: await server.begin(live) for live in STAGES}
        seen: dict[Any, Any] = {}
        async with asyncio.TaskGroup() as group:
            for live, name in runs.items():
                group.create_task(read_until_killed(server, live, name, seen))
            await eventually(lambda: len(seen) == len(STAGES))
            pid = int((server.work / "tool.pid").read_text())
            await server.kill()
        await server.start()
        views = {live: await server.ended(name) for live, name in runs.items()}
        rest = {live: await server.events(name, int(seen[live].frames[-1].id)) for live, name in runs.items()}
        whole = {live: await server.events(name) for live, name in runs.items()}
        for live, name in runs.items():
            for place, frame in enumerate(whole[live], start=1):
                assert [one.raw for one in await server.events(name, int(frame.id))] == [
                    one.raw for one in whole[live][place:]
                ]
        await eventually(lambda: not is_alive(pid))
        return seen, rest, whole, views, server.work, await server.stop()

    async def read_until_killed(
        server: ServerProcess, live: str, name: str, seen: dict[str, Listener]
    ) -> None:
        async with server.listen(f"/v1/runs/{name}/events") as reader:
            await reached(live, reader)
            seen[live] = reader
            if live == "whole":
                await reader.rest()
            else:
                await broken(reader)

    seen, rest, whole, views, work, code = run_process_scenario(
        scenario, tmp_path, model_by_phase(), tools=OUTSIDE
    )
    assert code == 0
    for live in STAGES:
        before, after, all_of_it = seen[live].frames, rest[live], whole[live]
        assert [frame.raw for frame in (*before, *after)] == [frame.raw for frame in all_of_it]
        ids = [int(frame.id) for frame in all_of_it]
        assert ids == sorted(set(ids))
        assert said_in(all_of_it) == LAST
        assert (views[live]["status"], views[live]["output"]) == ("completed", LAST)
        kinds = [frame.event for frame in all_of_it]
        assert kinds.count("run_ended") == 1
        assert kinds.count("run_claimed") == (0 if live == "whole" else 1)
    assert (work / "arguments.txt").read_text() == NOTE
    finished = [frame.json for frame in whole["tool"] if frame.event == "tool_finished"]
    assert [one["outcome"]["status"] for one in finished] == ["unknown"]


@pytest.mark.requirement("E2", "F4", "F6")
def test_clients_of_every_surface_come_back_to_a_killed_server_and_have_the_whole_answer(tmp_path: Path):
    chat = {"model": "agent", "messages": [{"role": "user", "content": "text"}], "stream": True}
    plain = {"model": "agent", "messages": [{"role": "user", "content": "first"}]}
    response = {"model": "agent", "input": "text too", "stream": True, "background": True}
    messages = request_for("messages stream", "text again")

    async def scenario(server: ServerProcess):
        await server.start()
        async with (
            server.listen("/v1/chat/completions", chat, idempotency_key="chat") as one,
            server.listen("/v1/responses", response) as other,
            server.listen(*messages, idempotency_key="messages") as third,
            server.client() as waiting,
        ):
            await waiting.send(
                "POST", "/v1/chat/completions", body=encoded(plain), headers={"idempotency-key": "plain"}
            )
            for reader in (one, other, third):
                await reader.until(b" one ")
            await server.behind.asked(4)
            await server.kill()
            for reader in (one, other, third):
                await broken(reader)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await waiting.reply()
        await server.start()
        again = await server.read("/v1/chat/completions", chat, idempotency_key="chat")
        message = await server.read(*messages, idempotency_key="messages")
        last = other.frames[-1].json["sequence_number"]
        rest = await server.read(f"/v1/responses/resp_{other.run}?stream=true&starting_after={last}")
        answered = await server.post("/v1/chat/completions", plain, idempotency_key="plain")
        runs = (await server.get("/v1/runs")).json["data"]
        counts = len(runs), len(server.behind.lab.requests)
        return (one, again), (third, message), [*other.frames, *rest], answered, counts

    (one, again), (third, message), events, answered, counts = run_process_scenario(
        scenario, tmp_path, model_by_phase()
    )
    content = "".join(frame.json["choices"][0]["delta"].get("content") or "" for frame in again[:-1])
    assert content == LAST
    assert [frame.raw for frame in again][: len(one.frames)] == [frame.raw for frame in one.frames]
    assert streamed("messages", message) == LAST
    seen = [frame.raw for frame in third.frames if frame.event != "ping"]
    assert [frame.raw for frame in message if frame.event != "ping"][: len(seen)] == seen
    assert [frame.json["sequence_number"] for frame in events] == list(range(len(events)))
    deltas = [frame.json["delta"] for frame in events if frame.event == "response.output_text.delta"]
    assert "".join(deltas) == LAST
    assert events[-1].event == "response.completed"
    assert answered.status == 200
    assert answered.json["choices"][0]["message"]["content"] == LAST
    assert answered.headers["idempotency-replayed"] == "true"
    assert counts == (4, 8)
