"""`kill -9` of the real server under real clients: what was seen is still there, and every run goes on by itself."""

import asyncio
from pathlib import Path

import pytest
from live_scenes import LAST, NOTE, is_alive, stages
from live_stage import Listener, encoded, eventually, said_in
from server_process import ServerProcess, lived

pytestmark = pytest.mark.process

STAGES = ("first", "text", "arguments", "tool", "whole")


async def reached(stage: str, reader: Listener) -> None:
    """Read until the run stands where the stage has it."""
    sign = {
        "first": b"model_asked",
        "text": b" one ",
        "arguments": b"Two scr",
        "tool": b"tool_said",
        "whole": b"run_ended",
    }
    await reader.until(sign[stage])


async def broken(reader: Listener) -> None:
    """The stream ended without its proper end."""
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await reader.rest()


@pytest.mark.requirement("E1", "E2", "E4", "F5", "G5")
def test_a_killed_server_loses_no_event_that_was_seen_and_its_runs_go_on_by_themselves(tmp_path: Path):
    """C1, S1, S2."""

    async def scene(server: ServerProcess):
        await server.start()
        runs = {stage: await server.begin(stage) for stage in STAGES}
        seen = {}
        async with asyncio.TaskGroup() as group:
            for stage, name in runs.items():
                group.create_task(read_until_killed(server, stage, name, seen))
            await eventually(lambda: len(seen) == len(STAGES))
            pid = int((server.work / "tool.pid").read_text())
            await server.kill()
        await server.start()
        views = {stage: await server.ended(name) for stage, name in runs.items()}
        rest = {
            stage: await server.events(name, int(seen[stage].frames[-1].id)) for stage, name in runs.items()
        }
        whole = {stage: await server.events(name) for stage, name in runs.items()}
        for stage, name in runs.items():
            for place, frame in enumerate(whole[stage], start=1):
                assert [one.raw for one in await server.events(name, int(frame.id))] == [
                    one.raw for one in whole[stage][place:]
                ]
        await eventually(lambda: not is_alive(pid))
        return seen, rest, whole, views, server.work, await server.stop()

    async def read_until_killed(
        server: ServerProcess, stage: str, name: str, seen: dict[str, Listener]
    ) -> None:
        async with server.listen(f"/v1/runs/{name}/events") as reader:
            await reached(stage, reader)
            seen[stage] = reader
            if stage == "whole":
                await reader.rest()
            else:
                await broken(reader)

    seen, rest, whole, views, work, code = lived(scene, tmp_path, stages())
    assert code == 0
    for stage in STAGES:
        before, after, all_of_it = seen[stage].frames, rest[stage], whole[stage]
        assert [frame.raw for frame in (*before, *after)] == [frame.raw for frame in all_of_it]
        ids = [int(frame.id) for frame in all_of_it]
        assert ids == sorted(set(ids))
        assert said_in(all_of_it) == LAST
        assert (views[stage]["status"], views[stage]["output"]) == ("completed", LAST)
        kinds = [frame.event for frame in all_of_it]
        assert kinds.count("run_ended") == 1
        assert kinds.count("run_claimed") == (0 if stage == "whole" else 1)
    assert (work / "arguments.txt").read_text() == NOTE
    finished = [frame.json for frame in whole["tool"] if frame.event == "tool_finished"]
    assert [one["outcome"]["status"] for one in finished] == ["unknown"]


@pytest.mark.requirement("E2", "F4", "F6")
def test_clients_of_every_surface_come_back_to_a_killed_server_and_have_the_whole_answer(tmp_path: Path):
    chat = {"model": "agent", "messages": [{"role": "user", "content": "text"}], "stream": True}
    plain = {"model": "agent", "messages": [{"role": "user", "content": "first"}]}
    response = {"model": "agent", "input": "text too", "stream": True, "background": True}

    async def scene(server: ServerProcess):
        await server.start()
        async with (
            server.listen("/v1/chat/completions", chat, idempotency_key="chat") as one,
            server.listen("/v1/responses", response) as other,
            server.client() as waiting,
        ):
            await waiting.send(
                "POST", "/v1/chat/completions", body=encoded(plain), headers={"idempotency-key": "plain"}
            )
            await one.until(b" one ")
            await other.until(b" one ")
            await server.behind.asked(3)
            await server.kill()
            await broken(one)
            await broken(other)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await waiting.reply()
        await server.start()
        again = await server.read("/v1/chat/completions", chat, idempotency_key="chat")
        last = other.frames[-1].json["sequence_number"]
        rest = await server.read(f"/v1/responses/resp_{other.run}?stream=true&starting_after={last}")
        answered = await server.post("/v1/chat/completions", plain, idempotency_key="plain")
        runs = (await server.get("/v1/runs")).json["data"]
        return one, again, [*other.frames, *rest], answered, len(runs), len(server.behind.lab.requests)

    one, again, events, answered, runs, asked = lived(scene, tmp_path, stages())
    content = "".join(frame.json["choices"][0]["delta"].get("content") or "" for frame in again[:-1])
    assert content == LAST
    assert [frame.raw for frame in again][: len(one.frames)] == [frame.raw for frame in one.frames]
    assert [frame.json["sequence_number"] for frame in events] == list(range(len(events)))
    deltas = [frame.json["delta"] for frame in events if frame.event == "response.output_text.delta"]
    assert "".join(deltas) == LAST
    assert events[-1].event == "response.completed"
    assert answered.status == 200
    assert answered.json["choices"][0]["message"]["content"] == LAST
    assert answered.headers["idempotency-replayed"] == "true"
    assert runs == 3
    assert asked == 6
