"""`/v1/overview`: runs of the caller and of all, routes with their health, waste by cause, and the disk."""

from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import CutOff, Finish, Say


def _breaks_once(request: Any) -> tuple[Any, ...]:
    if request.number == 1:
        return (Say("half of "), CutOff())
    return (Say("half of it"), Finish())


@pytest.mark.requirement("H11", "F9")
def test_a_break_is_told_by_cause_and_by_route_and_needs_a_key(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        ann = server.owner("ann")
        done = await ann.post(
            "/v1/chat/completions", {"model": "agent", "messages": [{"role": "user", "content": "x"}]}
        )
        assert done.status == 200
        assert (await server.get("/v1/overview")).status == 401
        lines = (await ann.get("/v1/runs")).json["data"]
        return (await ann.get("/v1/overview")).json, lines

    told, lines = run_scenario(scenario, tmp_path, _breaks_once)
    (route,) = told["routes"]
    assert (route["name"], route["standing"]) == ("lab", "fit")
    assert (route["calls"]["breaks"], route["calls"]["recovered"]) == (1, 1)
    assert [line["times"] for line in told["waste"]] == [1]
    assert told["runs"]["all"] == told["runs"]["yours"] == 0
    assert told["disk"]["free"] > 0
    assert lines[0]["route"] == "lab"
