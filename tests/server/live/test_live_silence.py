"""A silent response stream keeps clients that count events, by events with numbers of their own: any of them is a place
to come back to, on any process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.live_server import (
    ApiClient,
    Frame,
    Listener,
    LiveServer,
    lab_provider,
    run,
    run_scenario,
    serve_live,
)
from support.server.scripted_models import LAST, model_by_phase

QUICK = "drain = 0\nkeepalive = 0.1\nnoop = 0.1"
ASK = 'approval = { shell = "ask" }'
SILENT = ("first", "text", "arguments", "tool", "backoff", "consent")


def noops(frames: list[Frame]) -> list[int]:
    """The numbers of the events that say nothing."""
    quiet = [frame.json for frame in frames[2:] if frame.event == "response.in_progress"]
    return [one["sequence_number"] for one in quiet if "turnbuckle" not in one]


def numbers(frames: list[Frame]) -> list[int]:
    return [frame.json["sequence_number"] for frame in frames]


def raw(frames: list[Frame]) -> list[bytes]:
    return [frame.raw for frame in frames]


def asked(where: str) -> dict[str, Any]:
    return {"model": "agent", "input": where, "stream": True, "background": True}


async def silent(listener: Listener, times: int = 3) -> Listener:
    known = len(noops(listener.frames))
    return await listener.until(lambda body: len(noops(listener.frames)) >= known + times)


async def behind_every_number(server: ApiClient, run: str, count: int) -> list[list[Frame]]:
    path = f"/v1/responses/resp_{run}?stream=true"
    return [await server.read(path), *[await server.read(f"{path}&starting_after={n}") for n in range(count)]]


def check_every_number(again: list[list[Frame]]) -> list[Frame]:
    """The whole story, of which every number is a place to come back to."""
    whole = again[0]
    assert numbers(whole) == list(range(len(whole)))
    assert [raw(got) for got in again[1:]] == [raw(whole[n + 1 :]) for n in range(len(whole))]
    return whole


@pytest.mark.requirement("F2", "F4")
@pytest.mark.parametrize("where", SILENT)
def test_every_event_of_a_silent_response_has_a_number_to_come_back_to(where: str, tmp_path: Path):
    async def scenario(api: LiveServer):
        async with api.listen("/v1/responses", asked(where)) as first:
            await silent(first)
            path = f"/v1/responses/resp_{first.run}?stream=true"
            last = noops(first.frames)[-1]
            async with api.listen(f"{path}&starting_after={last}") as second:
                await silent(second, 1)
                await silent(first, 1)
                view = await api.run(first.run)
                await api.post(f"/v1/runs/{first.run}/stop")
                live, rest = await first.rest(), await second.rest()
        again = await behind_every_number(api, first.run, len(live))
        return live, last, rest, again, view, await api.events(first.run)

    live, last, rest, again, view, events = run_scenario(
        scenario, tmp_path, model_by_phase(), server=QUICK, tools=ASK
    )
    assert raw(live) == raw(check_every_number(again))
    assert raw(rest) == raw(live[last + 1 :])
    assert view["waiting_on"]["since"] < events[-1].json["at"]
    assert "waited" not in {frame.event for frame in events}


@pytest.mark.requirement("F4")
def test_a_response_that_is_never_silent_has_no_such_event(tmp_path: Path):
    async def scenario(api: LiveServer):
        return await api.read("/v1/responses", asked("whole"))

    frames = run_scenario(scenario, tmp_path, model_by_phase(), server="drain = 0")
    assert noops(frames) == []
    assert numbers(frames) == list(range(len(frames)))


@pytest.mark.requirement("F4", "F5", "G6")
@pytest.mark.parametrize("where", ["text", "first", "arguments"])
def test_after_a_restart_every_number_leads_to_the_same_rest(where: str, tmp_path: Path):
    """Also that of the farewell."""

    async def main():
        async with lab_provider(model_by_phase()) as behind:
            seen: list[Frame] = []
            async with (
                serve_live(tmp_path, behind, server=QUICK) as api,
                api.listen("/v1/responses", asked(where)) as listener,
            ):
                await silent(listener)
                leaving = asyncio.create_task(_stop(api))
                seen += await listener.rest()
                await leaving
            async with serve_live(tmp_path, behind, server=QUICK) as api:
                path = f"/v1/responses/resp_{listener.run}?stream=true"
                seen += await api.read(f"{path}&starting_after={numbers(seen)[-1]}")
                return seen, await behind_every_number(api, listener.run, len(seen))

    seen, again = run(main())
    whole = check_every_number(again)
    assert numbers(seen) == list(range(len(seen)))
    (farewell,) = [place for place, frame in enumerate(seen) if frame.event == "error"]
    assert len(noops(seen[:farewell])) >= 3
    assert raw(seen[:farewell]) == raw(whole[:farewell])
    assert raw(seen[farewell + 1 :]) == raw(whole[farewell + 1 :])
    assert whole[-1].event == "response.completed"


async def _stop(api: LiveServer) -> None:
    """Let go of everybody, as a server does that is asked to stop."""
    await api.service.leave(0.0)
    api.service.heartbeat.interrupt_all()


@pytest.mark.process
@pytest.mark.requirement("E1", "F4", "F5", "G5")
def test_a_killed_server_gives_no_number_of_its_silence_to_anything_else(tmp_path: Path):
    async def scenario(server: ServerProcess):
        await server.start()
        async with server.listen("/v1/responses", asked("text")) as listener:
            await listener.until(b" one ")
            await silent(listener)
            await server.kill()
        seen = listener.frames
        await server.start()
        path = f"/v1/responses/resp_{listener.run}?stream=true"
        seen = [*seen, *await server.read(f"{path}&starting_after={numbers(seen)[-1]}")]
        return seen, await behind_every_number(server, listener.run, len(seen)), await server.stop()

    seen, again, code = run_process_scenario(scenario, tmp_path, model_by_phase(), server=QUICK)
    assert code == 0
    assert raw(seen) == raw(check_every_number(again))
    deltas = [frame.json["delta"] for frame in seen if frame.event == "response.output_text.delta"]
    assert "".join(deltas) == LAST


@pytest.mark.requirement("F2", "F4")
def test_a_response_that_waits_for_its_turn_gets_comments_alone(tmp_path: Path):
    """Nobody drives it, so nobody could give an event a number that stays."""

    async def scenario(api: LiveServer):
        async with api.listen("/v1/responses", asked("text"), x_turnbuckle_session="s") as first:
            await first.until(b" one ")
            async with api.listen("/v1/responses", asked("whole"), x_turnbuckle_session="s") as second:
                await second.until(lambda body: body.count(b": keepalive") >= 4)
                before = second.frames
                api.behind.gates.open(1)
                await first.rest()
                whole = await second.rest()
        return before, whole

    before, whole = run_scenario(scenario, tmp_path, model_by_phase(), server=QUICK)
    assert numbers(before) == list(range(len(before)))
    assert numbers(whole) == list(range(len(whole)))
    assert raw(whole[: len(before)]) == raw(before)
