"""A server that is asked to stop: nothing new begins, what runs gets a moment, and the rest is kept and goes on."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from support.http.memory_server import Reply
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.face_requests import error_code, request_for, streamed
from support.server.live_server import Frame, asked_until, said_in
from support.server.scripted_models import CUT_AT, LAST, model_by_phase

pytestmark = pytest.mark.process

DRAINS = "drain = 8"  # a busy machine must be able to ask a dozen things meanwhile
LEAVES = "drain = 0"
MANY = 20


def chat(task: str, **more: Any) -> dict[str, Any]:
    return {"model": "agent", "messages": [{"role": "user", "content": task}], **more}


async def is_draining(server: ServerProcess) -> Reply:
    """Wait until it has heard that it is to stop."""
    ready: Reply = await asked_until(lambda reply: reply.status != 200, server.get, "/readyz")
    return ready


def content_of(frames: list[Frame]) -> str:
    told = [frame.json for frame in frames if frame.data != b"[DONE]"]
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in told if "choices" in one)


@pytest.mark.long(9)
@pytest.mark.requirement("C6", "F2", "F5", "G5", "G6")
def test_what_does_not_end_in_time_is_told_to_every_reader_and_goes_on_after_the_next_start(tmp_path: Path):
    """S13."""

    async def scenario(server: ServerProcess):
        await server.start()
        run = await server.begin("text")
        streamed = chat("text in chat", stream=True)
        response = {"model": "agent", "input": "text in a response", "stream": True}
        message = request_for("messages stream", "text in a message")
        async with (
            server.listen(f"/v1/runs/{run}/events") as events,
            server.listen("/v1/chat/completions", streamed, idempotency_key="k") as talk,
            server.listen("/v1/responses", response) as told,
            server.listen(*message, idempotency_key="m") as letter,
        ):
            for reader in (events, talk, told, letter):
                await reader.until(b" one ")
            plain = [
                asyncio.create_task(
                    server.post("/v1/chat/completions", chat("first 1"), idempotency_key="p")
                ),
                asyncio.create_task(server.post("/v1/responses", {"model": "agent", "input": "first 2"})),
                asyncio.create_task(server.post(*request_for("messages", "first 3"))),
            ]
            await server.behind.asked(7)
            server.signal(signal.SIGTERM)
            ready = await is_draining(server)
            refused = [
                await server.post("/v1/runs", {"input": "whole"}),
                await server.post("/v1/chat/completions", chat("whole")),
                await server.post("/v1/chat/completions", chat("whole"), x_turnbuckle_session="s"),
                await server.post("/v1/responses", {"model": "agent", "input": "whole"}),
                await server.post(*request_for("messages", "whole")),
            ]
            view = await server.run(run)
            farewells = [await reader.rest() for reader in (events, talk, told, letter)]
            answers = await asyncio.gather(*plain)
        code = await server.wait()
        await server.start()
        whole = await server.events(run)
        again = await server.read("/v1/chat/completions", streamed, idempotency_key="k")
        whole_letter = await server.read(*message, idempotency_key="m")
        last = told.frames[-1].json["sequence_number"]
        rest = await server.read(f"/v1/responses/resp_{told.run}?stream=true&starting_after={last}")
        late = await server.post("/v1/chat/completions", chat("first 1"), idempotency_key="p")
        runs = [await server.ended(one["id"]) for one in (await server.get("/v1/runs")).json["data"]]
        after = (whole, again, whole_letter, rest, late, runs, (code, await server.stop()))
        return ready, refused, view, farewells, answers, after

    ready, refused, view, farewells, answers, after = run_process_scenario(
        scenario, tmp_path, model_by_phase(), server=DRAINS
    )
    whole, again, whole_letter, rest, late, runs, codes = after
    assert [(reply.status, error_code(reply)) for reply in refused] == [(503, "stopping")] * 5
    assert all(int(reply.headers["retry-after"]) > 0 for reply in (ready, *refused))
    assert view["status"] == "running"
    events, talk, told, letter = farewells
    _check_farewells(events, talk, told, answers)
    assert (letter[-1].event, letter[-1].json["turnbuckle"]["code"]) == ("error", "interrupted")
    # And then it went on.
    stored = [frame for frame in events if frame.id]
    assert [frame.raw for frame in whole[: len(stored)]] == [frame.raw for frame in stored]
    kinds = [frame.event for frame in whole]
    assert kinds.count("run_left") == kinds.count("run_claimed") == kinds.count("run_ended") == 1
    assert said_in(whole) == content_of(again) == late.json["choices"][0]["message"]["content"] == LAST
    assert streamed("messages", whole_letter) == LAST
    deltas = [frame.json["delta"] for frame in (*told, *rest) if frame.event == "response.output_text.delta"]
    assert "".join(deltas) == LAST
    assert rest[-1].event == "response.completed"
    assert ([one["status"] for one in runs], codes) == (["completed"] * 7, (0, 0))


def _check_farewells(events: list[Frame], talk: list[Frame], told: list[Frame], answers: list[Reply]) -> None:
    """Everybody was told that it is interrupted and goes on, in the words of their protocol."""
    assert events[-2].event == "run_left"
    assert events[-1].event == "interrupted"
    assert (events[-1].json["resumable"], events[-1].json["after"]) == (True, int(events[-2].id))
    assert talk[-1].json["error"]["code"] == "interrupted"
    assert talk[-1].json["turnbuckle"]["resumable"] is True
    assert b"[DONE]" not in {frame.data for frame in talk}
    assert content_of(talk) == LAST[:CUT_AT]
    assert (told[-1].event, told[-1].json["code"]) == ("error", "interrupted")
    assert [(reply.status, error_code(reply)) for reply in answers] == [(503, "interrupted")] * 3
    assert {reply.headers["x-should-retry"] for reply in answers} == {"false"}
    assert all(reply.headers["x-turnbuckle-run"] for reply in answers)


@pytest.mark.requirement("C6", "G6")
def test_what_ends_in_time_is_told_to_its_end(tmp_path: Path):
    async def scenario(server: ServerProcess):
        await server.start()
        async with server.listen("/v1/chat/completions", chat("text", stream=True)) as talk:
            await talk.until(b" one ")
            plain = asyncio.create_task(server.post("/v1/chat/completions", chat("first")))
            await server.behind.asked(2)
            server.signal(signal.SIGTERM)
            await is_draining(server)
            server.behind.gates.open(1)
            return await talk.rest(), await plain, await server.wait()

    frames, plain, code = run_process_scenario(scenario, tmp_path, model_by_phase(), server="drain = 25")
    assert code == 0
    assert content_of(frames) == LAST
    assert frames[-1].data == b"[DONE]"
    assert plain.json["choices"][0]["message"]["content"] == LAST


@pytest.mark.requirement("E2", "E4", "G5", "G6")
def test_many_runs_that_were_under_way_all_go_on_whether_the_server_left_or_was_killed(tmp_path: Path):
    async def scenario(server: ServerProcess):
        await server.start()
        runs = [await server.begin(f"halts {n}") for n in range(MANY)]
        over = await server.begin("whole")
        await server.ended(over)
        first = await asyncio.gather(*(until(server, run, b"of opposite") for run in runs))
        left = await server.stop()
        await server.start()
        second = await asyncio.gather(*(until(server, run, b"at both") for run in runs))
        await server.kill()
        await server.start()
        whole = await asyncio.gather(*(server.events(run) for run in runs))
        return left, first, second, whole, await server.events(over), await server.stop()

    async def until(server: ServerProcess, run: str, text: bytes) -> list[Frame]:
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(lambda _: text in said_in(reader.frames).encode())
            return reader.frames

    left, first, second, whole, untouched, code = run_process_scenario(
        scenario, tmp_path, model_by_phase(), server=LEAVES
    )
    assert (left, code) == (0, 0)
    for before, between, after in zip(first, second, whole, strict=True):
        assert said_in(after) == LAST
        assert [frame.raw for frame in between[: len(before)]] == [frame.raw for frame in before]
        assert [frame.raw for frame in after[: len(between)]] == [frame.raw for frame in between]
        kinds = [frame.event for frame in after]
        assert (kinds.count("run_left"), kinds.count("run_claimed"), kinds.count("run_ended")) == (1, 2, 1)
    assert "run_claimed" not in {frame.event for frame in untouched}


@pytest.mark.requirement("D8", "G5", "G6")
def test_a_run_that_only_waits_for_a_person_does_not_hold_a_server_up_and_can_be_answered_after_the_next_start(
    tmp_path: Path,
):
    async def scenario(server: ServerProcess):
        await server.start()
        run = await server.begin("consent")
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(b"event: approval_asked")
        code = await server.stop()
        await server.start()
        [asked] = (await server.get("/v1/approvals")).json["data"]
        await server.post(f"/v1/runs/{run}/approvals/{asked['id']}", {"decision": "deny"})
        return code, await server.ended(run), await server.stop()

    # The drain is far longer than the patience of `stop`.
    code, ended, _ = run_process_scenario(
        scenario, tmp_path, model_by_phase(), server="drain = 600", tools='approval = { shell = "ask" }'
    )
    assert code == 0
    assert ended["status"] == "completed"


async def stopped_and_gone_on(server: ServerProcess, run: str) -> list[Frame]:
    server.signal(signal.SIGTERM)
    assert await server.wait() == 0
    await server.start()
    await server.post(
        f"/v1/runs/{run}/stop"
    )  # a call that was not even written down begins now, and would not end
    told = await server.events(run)
    await server.stop()
    return told


@pytest.mark.requirement("D4", "G5")
def test_a_tool_that_a_stopping_server_ended_is_told_as_killed_with_what_it_had_printed(tmp_path: Path):
    async def scenario(server: ServerProcess) -> list[Frame]:
        await server.start()
        run = await server.begin("tool")
        async with server.listen(f"/v1/runs/{run}/events") as events:
            await events.until(b"event: tool_said")
            return await stopped_and_gone_on(server, run)

    told = run_process_scenario(scenario, tmp_path, model_by_phase(), server=LEAVES)
    (finished,) = [frame.json["outcome"] for frame in told if frame.event == "tool_finished"]
    assert finished["status"] == "killed"
    assert "begun" in finished["partial_output"]
    assert "The server was stopped" in finished["text"]
    assert told[-1].event == "run_ended"


@pytest.mark.requirement("D4", "G5")
def test_a_tool_that_a_stopping_server_never_let_begin_is_not_told_as_unknown(tmp_path: Path):
    async def scenario(server: ServerProcess) -> list[Frame]:
        await server.start()
        run = await server.begin("tool")
        async with server.listen(f"/v1/runs/{run}/events") as events:
            await events.until(b"echo begun")  # in the arguments of the call
            return await stopped_and_gone_on(server, run)

    told = run_process_scenario(scenario, tmp_path, model_by_phase(), server=LEAVES)
    assert [frame.event for frame in told].count("run_left") == 1
    ends = [frame.json["outcome"]["status"] for frame in told if frame.event == "tool_finished"]
    assert set(ends) <= {"killed", "not_started"}
    assert told[-1].event == "run_ended"
