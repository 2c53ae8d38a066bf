"""The moment in which a run has its end: whoever sees it may act on it at once."""

from pathlib import Path

import pytest
from support.server.live_server import LiveServer, run_scenario
from support.server.scripted_models import LAST, model_by_phase

AGAIN = 10
"""Times that each is tried: what is asked of the server meets it just as it lets go of the run."""


@pytest.mark.requirement("F5")
def test_a_run_can_be_deleted_as_soon_as_its_end_is_seen(tmp_path: Path):
    async def scenario(server: LiveServer):
        replies = []
        for number in range(AGAIN):
            run = await server.begin(f"whole {number}")
            async with server.listen(f"/v1/runs/{run}/events") as reader:
                await reader.until(b"event: run_ended")
                replies.append(await server.ask("DELETE", f"/v1/runs/{run}"))
        return replies, (await server.get("/v1/runs")).json["data"]

    replies, left = run_scenario(scenario, tmp_path, model_by_phase())
    assert [reply.status for reply in replies] == [200] * AGAIN
    assert left == []


@pytest.mark.requirement("F4")
def test_a_response_can_be_deleted_as_soon_as_its_end_is_seen(tmp_path: Path):
    async def scenario(server: LiveServer):
        replies = []
        for number in range(AGAIN):
            asked = {"model": "agent", "input": f"whole {number}", "stream": True}
            async with server.listen("/v1/responses", asked) as reader:
                await reader.until(b"event: response.completed")
                replies.append(await server.ask("DELETE", f"/v1/responses/resp_{reader.run}"))
        return replies

    assert [reply.status for reply in run_scenario(scenario, tmp_path, model_by_phase())] == [200] * AGAIN


@pytest.mark.requirement("G7")
@pytest.mark.parametrize("kind", ["sessions", "conversations"])
def test_a_session_can_be_deleted_as_soon_as_its_last_answer_is_there(kind: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        replies = []
        for number in range(AGAIN):
            task = f"whole {number}"
            if kind == "sessions":
                name = f"s{number}"
                body = {"model": "agent", "messages": [{"role": "user", "content": task}]}
                await server.post("/v1/chat/completions", body, x_turnbuckle_session=name)
            else:
                name = (await server.post("/v1/conversations")).json["id"]
                await server.post("/v1/responses", {"model": "agent", "input": task, "conversation": name})
            replies.append(await server.ask("DELETE", f"/v1/{kind}/{name}"))
        return replies, (await server.get("/v1/runs")).json["data"]

    replies, left = run_scenario(scenario, tmp_path, model_by_phase())
    assert [(reply.status, reply.json.get("deleted")) for reply in replies] == [(200, True)] * AGAIN
    assert left == []


@pytest.mark.requirement("G2", "F5")
def test_a_stop_that_comes_with_the_end_changes_neither_the_run_nor_its_session(tmp_path: Path):
    """C10."""

    async def scenario(server: LiveServer):
        receipts, views = [], []
        for number in range(AGAIN):
            run = await server.begin(f"whole {number}", session="s")
            async with server.listen(f"/v1/runs/{run}/events") as reader:
                await reader.until(b"event: run_ended")
                receipts.append((await server.post(f"/v1/runs/{run}/stop")).json)
            views.append(await server.run(run))
        return receipts, views, [request.body["messages"] for request in server.lab.requests]

    receipts, views, histories = run_scenario(scenario, tmp_path, model_by_phase())
    assert {(receipt["stopped"], receipt["outcome"]["kind"]) for receipt in receipts} == {
        (False, "completed")
    }
    assert {view["output"] for view in views} == {LAST}
    # Nothing was suspended: each run was told all that was said before it.
    assert [len(history) for history in histories] == [2 + 2 * number for number in range(AGAIN)]


@pytest.mark.requirement("F6", "F5")
def test_the_next_message_can_be_said_as_soon_as_the_end_is_seen(tmp_path: Path):
    async def scenario(server: LiveServer):
        replies = []
        for number in range(AGAIN):
            body = {"input": f"whole {number}", "session": "s"}
            replies.append(await server.post("/v1/runs", body, x_turnbuckle_busy="refuse"))
            async with server.listen(f"/v1/runs/{replies[-1].headers['x-turnbuckle-run']}/events") as reader:
                await reader.until(b"event: run_ended")
        return replies

    assert [reply.status for reply in run_scenario(scenario, tmp_path, model_by_phase())] == [202] * AGAIN
