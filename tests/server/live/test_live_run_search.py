"""`GET /v1/runs` by route, words and time: found by the server, over all runs, in bounded pages."""

from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import Finish, Say

OTHER = """
[[routes]]
name = "other"
protocol = "openai_chat"
base_url = "URL/v1"
api_key = "any"
model = "m2"
"""


def _says(request: Any) -> tuple[Any, ...]:
    return (Say("done"), Finish())


async def _listed(server: Any, query: str) -> list[str]:
    reply = await server.get(f"/v1/runs?{query}")
    assert reply.status == 200, reply.body
    return [line["title"] for line in reply.json["data"]]


@pytest.mark.requirement("H11")
@pytest.mark.parametrize("store", ["", "postgres"], ids=["files", "database"])
def test_runs_are_found_by_route_words_and_time_and_their_route_is_known_after_a_restart(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TURNBUCKLE_TEST_STORE", store)

    async def begins(server: LiveServer) -> None:
        for title, model in (("red apple", "agent"), ("green apple", "agent/other"), ("red pear", "other")):
            await server.ended(await server.begin(title, model=model))

    async def looks(server: LiveServer) -> Any:
        every = (await server.get("/v1/runs")).json["data"]
        began = sorted(line["created_at"] for line in every)
        found = {
            query: await _listed(server, query)
            for query in (
                "route=other",
                "route=lab",
                "route=nobody",
                "q=apple",
                "q=APP&route=other",
                "status=completed&route=lab",
                "status=failed&route=lab",
                f"since={began[1]}&order=created",
                f"until={began[1]}",
                f"since={began[1]}&until={began[2]}",
                "since=2020-01-01&until=2020-02-01",
            )
        }
        first = (await server.get("/v1/runs?route=other&limit=1")).json
        second = (await server.get(f"/v1/runs?route=other&limit=1&after={first['next']}")).json
        return {line["title"]: line["route"] for line in every}, found, first, second

    run_scenario(begins, tmp_path, _says, more=OTHER)
    routes, found, first, second = run_scenario(looks, tmp_path, _says, more=OTHER)
    assert routes == {"red apple": "lab", "green apple": "other", "red pear": "other"}
    assert list(found.values()) == [
        ["red pear", "green apple"],
        ["red apple"],
        [],
        ["green apple", "red apple"],
        ["green apple"],
        ["red apple"],
        [],
        ["red pear", "green apple"],
        ["red apple"],
        ["green apple"],
        [],
    ]
    assert [line["title"] for page in (first, second) for line in page["data"]] == ["red pear", "green apple"]
    assert first["has_more"]


@pytest.mark.requirement("H11")
@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("since=yesterday", "since"),
        ("until=2026-13-01", "until"),
        ("since=nan", "since"),
        ("q=x&order=created", "order"),
        ("q=x&after=xx", "after"),
        ("route=x&after=xx", "after"),
    ],
)
def test_what_cannot_be_searched_for_is_refused_by_its_name(query: str, param: str, tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        return await server.get(f"/v1/runs?{query}")

    reply = run_scenario(scenario, tmp_path, _says)
    assert (reply.status, reply.json["error"]["param"]) == (400, param)


@pytest.mark.requirement("H11", "G10")
def test_nobody_finds_the_runs_of_others(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        ann, bob = server.owner("ann"), server.owner("bob")
        await ann.ended(await ann.begin("red apple"))
        return [await _listed(one, query) for one in (ann, bob) for query in ("q=apple", "route=lab")]

    assert run_scenario(scenario, tmp_path, _says) == [["red apple"], ["red apple"], [], []]
