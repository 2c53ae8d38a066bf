"""`/v1/overview`: runs of the caller and of all, the queue, routes with their health, waste by cause and day,
and the disk."""

from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, gate, run_scenario

from turnbuckle.lab.script import CutOff, Finish, Say
from turnbuckle.service import queue

ASKED = {"model": "agent", "messages": [{"role": "user", "content": "x"}]}


def _breaks_once(request: Any) -> tuple[Any, ...]:
    if request.number == 1:
        return (Say("half of "), CutOff())
    return (Say("half of it"), Finish())


@pytest.mark.requirement("H11", "F9")
def test_a_break_is_told_by_cause_and_by_route_and_needs_a_key(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        ann = server.owner("ann")
        done = await ann.post("/v1/chat/completions", ASKED)
        assert done.status == 200
        assert (await server.get("/v1/overview")).status == 401
        lines = (await ann.get("/v1/runs")).json["data"]
        return (await ann.get("/v1/overview")).json, lines

    told, lines = run_scenario(scenario, tmp_path, _breaks_once)
    (route,) = told["routes"]
    assert (route["name"], route["standing"]) == ("lab", "fit")
    assert (route["calls"]["calls"], route["calls"]["breaks"], route["calls"]["recovered"]) == (2, 1, 1)
    assert [line["times"] for line in told["waste"]] == [1]
    assert [(line["day"], line["times"]) for line in told["waste_ever"]] == [("", 1)]
    assert told["complete"] is True
    assert told["since"] == lines[0]["created_at"]
    assert told["runs"]["all"] == told["runs"]["yours"] == 0
    assert told["disk"]["free"] > 0
    assert told["disk"]["journal"] > 0
    assert told["queue"] == []
    assert lines[0]["route"] == "lab"


@pytest.mark.requirement("H11")
def test_waste_and_routes_are_known_after_a_restart(tmp_path: Path):
    async def breaks(server: LiveServer) -> Any:
        await server.post("/v1/chat/completions", ASKED)
        return (await server.get("/v1/overview")).json

    async def comes_back(server: LiveServer) -> Any:
        told = (await server.get("/v1/overview")).json
        lines = (await server.get("/v1/runs")).json["data"]
        return told, lines

    before = run_scenario(breaks, tmp_path, _breaks_once)
    after, lines = run_scenario(comes_back, tmp_path, _breaks_once)
    for part in ("since", "waste", "waste_ever"):
        assert before[part] == after[part] != []
    assert before["routes"][0]["calls"] == after["routes"][0]["calls"]
    assert [line["route"] for line in lines] == ["lab"]


def _waits_at_a_gate(request: Any) -> tuple[Any, ...]:
    return (Say("one "), gate(request.number), Say("two"), Finish())


@pytest.mark.requirement("H11")
def test_the_queue_tells_what_waits_behind_what_and_only_to_its_owner(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        ann, bob = server.owner("ann"), server.owner("bob")
        runs = [await ann.begin(f"task {number}", session="s") for number in range(3)]
        told, others = [(await one.get("/v1/overview")).json for one in (ann, bob)]
        numbers = (await ann.get("/metrics")).body.decode()
        for number in (1, 2, 3):
            server.behind.gates.open(number)
        await ann.ended(runs[2])
        return runs, told, others, numbers, (await ann.get("/v1/overview")).json

    runs, told, others, numbers, after = run_scenario(scenario, tmp_path, _waits_at_a_gate)
    shown = [(one["run"], one["title"], one["behind"], one["ahead"]) for one in told["queue"]]
    assert shown == [(runs[1], "task 1", runs[0], 0), (runs[2], "task 2", runs[1], 1)]
    assert all(one["session"] == "s" and one["since"] > 0 for one in told["queue"])
    assert (told["runs"]["yours"], others["runs"]["yours"], others["queue"]) == (1, 0, [])
    assert "turnbuckle_queued_messages 2.0" in numbers
    assert 'turnbuckle_route_standing{route="lab",standing="fit"} 1.0' in numbers
    assert after["queue"] == []


@pytest.mark.requirement("H11", "E11")
@pytest.mark.parametrize("most", [3, 2])
def test_the_queue_looks_into_every_session_up_to_a_limit_that_is_told(
    tmp_path: Path, monkeypatch: Any, most: int
):
    for name, value in (("_PAGE", 1), ("MOST_SESSIONS", most), ("MOST_SHOWN", 2)):
        monkeypatch.setattr(queue, name, value)

    async def scenario(server: LiveServer) -> Any:
        ann = server.owner("ann")
        runs = [await ann.begin(f"{number}", session=f"s{number // 3}") for number in range(9)]
        told = (await ann.get("/v1/overview")).json
        for number in range(1, 10):
            server.behind.gates.open(number)
        for last in (2, 5, 8):
            await ann.ended(runs[last])
        return told, (await ann.get("/v1/overview")).json

    told, after = run_scenario(scenario, tmp_path, _waits_at_a_gate)
    assert (told["queued"], told["queue_complete"], len(told["queue"])) == (2 * most, most == 3, 2)
    if most == 3:
        assert [one["title"] for one in told["queue"]] == ["1", "2"]
    assert (after["queued"], after["queue_complete"], after["queue"]) == (0, True, [])


@pytest.mark.requirement("H11")
def test_a_call_that_a_person_stopped_is_neither_a_break_nor_given_up(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        run = await server.begin("go")
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(b"one ")
            live = (await server.get("/v1/overview")).json["routes"][0]["calls"]
            await server.post(f"/v1/runs/{run}/stop")
            await reader.rest()
        return live, (await server.get("/v1/overview")).json, (await server.get("/metrics")).body.decode()

    live, told, numbers = run_scenario(scenario, tmp_path, _waits_at_a_gate)
    assert live == {
        "route": "lab", "calls": 1, "breaks": 0, "stalls": 0, "recovered": 0, "given_up": 0, "stopped": 0
    }  # fmt: skip
    assert told["routes"][0]["calls"] == {**live, "stopped": 1}
    assert told["waste"] == told["waste_ever"] == []
    assert 'turnbuckle_calls_stopped_total{route="lab"} 1.0' in numbers
    assert "turnbuckle_give_ups_total{" not in numbers
