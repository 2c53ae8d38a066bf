"""Stopping a run, wherever it is: it ends at once, nothing of it is left at work, and the receipt says what ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.http.memory_server import Reply
from support.server.live_server import (
    Listener,
    LiveServer,
    eventually,
    lab_provider,
    run,
    run_scenario,
    serve_live,
)
from support.server.scripted_models import CUT_AT, LAST, OUTSIDE, is_alive, model_by_phase

SOON = 50.0
"""Everything ends within a second, and a busy machine may need more to say so. Without a stop nothing here would end
within a minute."""

SIGNS = {
    "first": b"model_asked",
    "text": b" one ",
    "arguments": b"Two scr",
    "tool": b"tool_said",
    "backoff": b"decided",
    "consent": b"approval_asked",
}
WAITED_FOR = {
    "first": "provider_first_token",
    "text": "provider",
    "arguments": "provider",
    "tool": "tool",
    "backoff": "rate_limit",
    "consent": "approval",
}


async def stop(server: LiveServer, run: str) -> Reply:
    async with asyncio.timeout(SOON):
        return await server.post(f"/v1/runs/{run}/stop")


async def stopped_at(server: LiveServer, where: str) -> tuple[dict[str, Any], Listener]:
    """A run that was stopped when it was there, and its reader at the end."""
    run = await server.begin(where, session="s")
    async with server.listen(f"/v1/runs/{run}/events") as reader:
        await reader.until(SIGNS[where])
        if where == "first":
            await server.behind.asked(1)
        receipt = await stop(server, run)
        async with asyncio.timeout(SOON):
            await reader.rest()
        assert receipt.status == 200
        return receipt.json, reader


@pytest.mark.requirement("F5", "G2", "D5", "C6")
@pytest.mark.parametrize("where", SIGNS)
def test_a_run_that_is_stopped_ends_at_once_and_its_session_goes_on(where: str, tmp_path: Path):
    """C9, L12, T18, T19."""

    async def scenario(server: LiveServer):
        receipt, reader = await stopped_at(server, where)
        asked = len(server.lab.requests)
        view = await server.run(receipt["run"])
        if asked and where in ("first", "text", "arguments"):
            await eventually(lambda: server.lab.requests[0].progress.over)
        over = server.lab.requests[0].progress.over
        next_run = await server.ended(await server.begin("whole", session="s"))
        return receipt, reader.frames, view, over, asked, next_run

    tools = 'approval = { shell = "ask" }' if where == "consent" else ""
    receipt, events, view, over, asked, next_run = run_scenario(
        scenario, tmp_path, model_by_phase(), tools=tools
    )
    assert receipt["stopped"]
    assert receipt["outcome"]["kind"] == view["status"] == "cancelled"
    assert receipt["by"] == "local"
    assert receipt["waiting_on"]["kind"] == WAITED_FOR[where]
    assert [frame.event for frame in events].count("stop_asked") == 1
    assert events[-1].event == "run_ended"
    assert events[-1].json["outcome"]["kind"] == "cancelled"
    assert asked == 1
    assert (next_run["status"], next_run["output"]) == ("completed", LAST)
    if where in ("first", "text", "arguments"):
        assert over == "client left"
        received = {
            "first": 0,
            "text": CUT_AT,
            "arguments": len('{"path":"arguments.txt","content":"Two scr'),
        }[where]
        assert receipt["model_call"] == {"route": "lab", "model": "m", "characters_received": received}
    else:
        assert receipt["model_call"] is None


@pytest.mark.requirement("D5", "G2")
def test_a_tool_that_is_stopped_is_gone_with_all_its_processes(tmp_path: Path):
    async def scenario(server: LiveServer):
        receipt, reader = await stopped_at(server, "tool")
        pid = int((server.work / "tool.pid").read_text())
        await eventually(lambda: not is_alive(pid))
        return receipt, reader.frames

    receipt, events = run_scenario(scenario, tmp_path, model_by_phase(), tools=OUTSIDE)
    [tool] = receipt["tools"]
    assert (tool["name"], tool["status"], tool["survivors"]) == ("shell", "killed", [])
    assert tool["killed"]
    [finished] = [frame.json for frame in events if frame.event == "tool_finished"]
    assert finished["outcome"]["status"] == "killed"
    assert finished["outcome"]["partial_output"] == "begun\n"


@pytest.mark.requirement("D5", "G2")
def test_a_tool_that_is_being_stopped_as_the_server_leaves_is_gone_too(tmp_path: Path):
    async def main():
        async with lab_provider(model_by_phase()) as behind:
            async with serve_live(tmp_path, behind, server="drain = 0", tools=OUTSIDE) as server:
                run_id = await server.begin("tool")
                async with server.listen(f"/v1/runs/{run_id}/events") as reader:
                    await reader.until(SIGNS["tool"])
                    stopping = asyncio.create_task(server.post(f"/v1/runs/{run_id}/stop"))
                    await reader.until(b"stop_asked")
            stopping.cancel()
            pid = int((tmp_path / "work" / "tool.pid").read_text())
            await eventually(lambda: not is_alive(pid))
            async with serve_live(tmp_path, behind, server="drain = 0", tools=OUTSIDE) as server:
                return await server.ended(run_id)

    assert run(main())["status"] == "cancelled"


@pytest.mark.requirement("D8", "G2")
def test_a_stop_withdraws_what_was_asked_and_nothing_runs(tmp_path: Path):
    async def scenario(server: LiveServer):
        receipt, reader = await stopped_at(server, "consent")
        name = receipt["approvals_withdrawn"][0]
        answer = await server.post(f"/v1/runs/{receipt['run']}/approvals/{name}", {"decision": "allow"})
        return (
            receipt,
            [frame.event for frame in reader.frames],
            answer,
            (await server.get("/v1/approvals")).json,
        )

    receipt, kinds, answer, waiting = run_scenario(
        scenario, tmp_path, model_by_phase(), tools='approval = { shell = "ask" }'
    )
    assert len(receipt["approvals_withdrawn"]) == 1
    assert [call["name"] for call in receipt["not_started"]] == ["shell"]
    assert "tool_started" not in kinds
    assert (answer.status, answer.error["code"]) == (409, "approval_settled")
    assert "withdrawn" in answer.error["message"]
    assert waiting["data"] == []
    assert not (tmp_path / "work" / "consent.txt").exists()


@pytest.mark.requirement("F5", "G2")
def test_stopping_twice_and_at_the_same_time_ends_it_once(tmp_path: Path):
    async def scenario(server: LiveServer):
        run = await server.begin("text")
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(SIGNS["text"])
            at_once = await asyncio.gather(*(stop(server, run) for _ in range(5)))
            events = await reader.rest()
        again = await stop(server, run)
        return [reply.json for reply in at_once], again.json, events, await server.events(run)

    at_once, again, events, later = run_scenario(scenario, tmp_path, model_by_phase())
    assert {receipt["outcome"]["kind"] for receipt in at_once} == {"cancelled"}
    assert any(receipt["stopped"] for receipt in at_once)  # one that came behind the end did not do it
    assert (again["stopped"], again["outcome"]["kind"]) == (False, "cancelled")
    assert [frame.raw for frame in later] == [frame.raw for frame in events]
    assert [frame.event for frame in events].count("stop_asked") == 1


@pytest.mark.requirement("F5", "C6")
def test_stopping_a_run_that_has_ended_changes_nothing(tmp_path: Path):
    """C10."""

    async def scenario(server: LiveServer):
        run = await server.begin("whole")
        before = await server.events(run)
        view = await server.run(run)
        receipt = await stop(server, run)
        return receipt.json, before, await server.events(run), view == await server.run(run)

    receipt, before, after, same = run_scenario(scenario, tmp_path, model_by_phase())
    assert (receipt["stopped"], receipt["outcome"]["kind"]) == (False, "completed")
    assert receipt["tools"] == []
    assert receipt["model_call"] is None
    assert [frame.raw for frame in after] == [frame.raw for frame in before]
    assert same


@pytest.mark.requirement("F5", "G2")
def test_a_run_can_be_stopped_while_it_starts(tmp_path: Path):
    async def scenario(server: LiveServer):
        receipts = []
        for number in range(10):
            run = await server.begin(f"text {number}")
            receipts.append((await stop(server, run)).json)
        await eventually(lambda: all(request.progress.over for request in server.lab.requests))
        return receipts

    receipts = run_scenario(scenario, tmp_path, model_by_phase())
    assert all(receipt["stopped"] and receipt["outcome"]["kind"] == "cancelled" for receipt in receipts)


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("where", ["first", "text", "tool"])
def test_a_background_response_that_is_cancelled_says_so_everywhere(where: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        asked = {"model": "agent", "input": where, "stream": True, "background": True}
        async with (
            server.listen("/v1/responses", asked) as reader,
            server.listen(f"/v1/runs/{reader.run}/events") as events,
        ):
            await events.until(SIGNS[where])
            async with asyncio.timeout(SOON):
                cancelled = await server.post(f"/v1/responses/resp_{reader.run}/cancel")
                frames = await reader.rest()
        again = await server.post(f"/v1/responses/resp_{reader.run}/cancel")
        fetched = await server.get(f"/v1/responses/resp_{reader.run}")
        return cancelled, again, fetched, frames

    cancelled, again, fetched, frames = run_scenario(scenario, tmp_path, model_by_phase())
    assert cancelled.status == again.status == 200
    assert cancelled.json == again.json == fetched.json == frames[-1].json["response"]
    assert cancelled.json["status"] == "cancelled"


@pytest.mark.requirement("H6")
@pytest.mark.parametrize("where", ["first", "text", "tool", "consent"])
def test_an_interrupt_ends_a_run_at_once_and_keeps_the_conversation(where: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        run = await server.begin(where, session="s")
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(SIGNS[where])
            async with asyncio.timeout(SOON):
                receipt = await server.post(f"/v1/runs/{run}/interrupt")
                await reader.rest()
        again = await server.post(f"/v1/runs/{run}/interrupt")
        next_run = await server.ended(await server.begin("whole", session="s"))
        return receipt.json, again.json, server.lab.requests[-1].body["messages"], next_run

    tools = 'approval = { shell = "ask" }' if where == "consent" else ""
    receipt, again, sent, after = run_scenario(scenario, tmp_path, model_by_phase(), tools=tools)
    assert (receipt["stopped"], receipt["keeps"], receipt["outcome"]["kind"]) == (True, True, "cancelled")
    assert (again["stopped"], again["outcome"]["kind"]) == (False, "cancelled")
    assert next(one["content"] for one in sent if one["role"] == "user") == where
    note = next(one["content"] for one in sent if "interrupted before its end" in str(one["content"]))
    assert "No call was done." in note
    assert ("not started: shell" in note) == (where in ("tool", "consent"))
    assert sent[-1]["content"] == "whole" or sent[-2]["content"] == "whole"
    assert after["notices"] == []
    assert "fresh start" not in str(sent)
