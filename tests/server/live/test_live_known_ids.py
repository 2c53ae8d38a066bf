"""An id that was given out is known from then on, at every moment."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.http.memory_server import Client
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import Finish, Say

ROUNDS = 15
UNLIMITED = "drain = 0\nrequests_per_minute = 0"
PATHS = ("", "/approvals", "/drafts", "/ledger")


def answers(_: object) -> tuple[Any, ...]:
    return (Say("Well."), Finish())


async def asked_without_a_pause(server: LiveServer, run: str, what: str) -> list[int]:
    """Every status until the run has ended, over one connection."""
    seen: list[int] = []
    async with server.client() as client:
        while True:
            reply = await client.ask("GET", f"/v1/runs/{run}{what}")
            seen.append(reply.status)
            if reply.status != 200 or await is_over(client, run):
                return seen


async def is_over(client: Client, run: str) -> bool:
    told = await client.ask("GET", f"/v1/runs/{run}")
    return told.status != 200 or told.json["status"] not in ("queued", "running")


@pytest.mark.requirement("F5", "G1")
@pytest.mark.parametrize("what", PATHS)
def test_a_run_that_waits_is_known_also_in_the_moment_in_which_its_turn_comes(tmp_path: Path, what: str):
    async def scenario(server: LiveServer) -> list[int]:
        seen: list[int] = []
        for _ in range(ROUNDS):
            await server.begin("first", session="s")
            second = await server.begin("second", session="s")
            seen += await asked_without_a_pause(server, second, what)
        return seen

    seen = run_scenario(scenario, tmp_path, answers, server=UNLIMITED)
    assert set(seen) == {200}


@pytest.mark.requirement("F5", "E4")
def test_the_events_of_a_run_whose_turn_comes_are_there_whenever_they_are_asked_for(tmp_path: Path):
    async def follow(server: LiveServer, run: str) -> list[str]:
        return [frame.event for frame in await server.events(run)]

    async def scenario(server: LiveServer) -> list[list[str]]:
        followed: list[list[str]] = []
        for _ in range(ROUNDS):
            await server.begin("first", session="s")
            second = await server.begin("second", session="s")
            followed += await asyncio.gather(*(follow(server, second) for _ in range(4)))
        return followed

    followed = run_scenario(scenario, tmp_path, answers, server=UNLIMITED)
    assert len(followed) == 4 * ROUNDS
    assert {events[-1] for events in followed} == {"run_ended"}
