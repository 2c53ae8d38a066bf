"""The agent runs on the route that a person chooses, with its tools; a relay is never chosen by accident."""

from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario
from support.server.scripted_models import model_by_phase

from turnbuckle.lab.script import Finish, LabRequest, Say

ROUTES = """
[[routes]]
name = "small"
protocol = "openai_chat"
base_url = "URL/v1"
api_key = "any"
model = "m2"
"""


def model(request: LabRequest) -> Any:
    return (Say("Done."), Finish())


async def told(server: LiveServer) -> dict[str, Any]:
    runs = []
    for text, more in (
        ("one", {}),
        ("two", {"model": "agent/small"}),
        ("three", {"model": "agent"}),
        ("a relay", {"model": "lab"}),
        ("four", {}),
        ("five", {"model": "agent/lab"}),
    ):
        runs.append(await server.ended(await server.begin(text, session="s", **more)))
    listed = (await server.get("/v1/models")).json["data"]
    unknown = await server.post("/v1/runs", {"input": "x", "model": "agent/none"})
    return {
        "asked": [(one.body["model"], bool(one.body.get("tools"))) for one in server.lab.requests],
        "notices": [run["notices"] for run in runs],
        "models": [(one["id"], one["kind"], one["model"]) for one in listed],
        "settings": (await server.get("/v1/settings")).json,
        "unknown": unknown.json["error"]["message"],
    }


@pytest.mark.requirement("H7")
def test_the_agent_runs_on_the_chosen_route_with_its_tools_and_stays_there(tmp_path: Path) -> None:
    found = run_scenario(told, tmp_path, model, more=ROUTES)
    small = ("m2", True)
    assert found["asked"] == [("m", True), small, small, ("m", False), ("m", True), ("m", True)]
    switched = ["From here on the route small answers; before, it was lab."]
    assert found["notices"] == [[], switched, [], [], [], []]
    assert found["models"] == [
        ("agent", "agent", "m"),
        ("agent/lab", "agent", "m"),
        ("agent/small", "agent", "m2"),
        ("lab", "relay", "m"),
        ("small", "relay", "m2"),
    ]
    assert found["settings"]["models"] == ["agent", "agent/lab", "agent/small"]
    assert found["settings"]["relays"] == ["lab", "small"]
    assert "there is no model" in found["unknown"]


@pytest.mark.requirement("H6", "H7")
def test_a_fork_of_an_interrupted_session_is_told_so_and_stays_on_its_route(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> Any:
        run = await server.begin("text", session="s", model="agent/small")
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(b" one ")
            await server.post(f"/v1/runs/{run}/interrupt")
            await reader.rest()
        await server.post("/v1/sessions/s/fork", {"id": "f"})
        for _ in range(2):
            await server.ended(await server.begin("whole", session="f"))
        return [request.body for request in server.lab.requests][1:]

    bodies = run_scenario(scenario, tmp_path, model_by_phase(), more=ROUTES)
    assert {body["model"] for body in bodies} == {"m2"}
    told = [str(body["messages"]).count("interrupted before its end") for body in bodies]
    assert set(told) == {1}
