"""A message is retried on another route: by the call of HTTP, and by `/retry ROUTE` wherever one can type."""

from pathlib import Path
from typing import Any

import pytest
from server.live.test_live_run_search import OTHER
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import Finish, Say


def _says_by_model(request: Any) -> tuple[Any, ...]:
    return (Say(f"by {request.body['model']}"), Finish())


async def _asked(server: LiveServer) -> dict[str, Any]:
    """A run on a route of its own, to its end."""
    begun = await server.begin("do it", session="s", model="agent/lab")
    return await server.ended(begun)


@pytest.mark.requirement("H3", "C4")
def test_a_run_is_retried_on_the_route_that_is_named_and_the_session_remembers_it(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        first = await _asked(server)
        key = {"idempotency_key": "once"}
        done = [(await server.post("/v1/sessions/s/retry", {"route": "other"}, **key)).json for _ in range(2)]
        again = await server.ended(done[0]["run"])
        later = await server.ended(await server.begin("and more", session="s"))
        lines = (await server.get("/v1/runs?session=s&order=created")).json["data"]
        started = (await server.events(again["id"]))[0].json
        said = (await server.get("/v1/sessions/s/messages")).json["data"]
        return first, done, again, later, [line["route"] for line in lines], started, said

    first, done, again, later, routes, started, said = run_scenario(
        scenario, tmp_path, _says_by_model, more=OTHER
    )
    assert first["output"] == "by m"
    assert done[0] == done[1]
    assert (again["status"], again["output"]) == ("completed", "by m2")
    assert later["output"] == "by m2"
    assert routes == ["other", "other", "lab"]
    assert started["model"] == "agent/other"
    assert [one["text"] for one in said if one["role"] == "user"] == ["do it", "and more"]


@pytest.mark.requirement("H3")
def test_the_word_retry_takes_the_name_of_a_route(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        await _asked(server)
        told = []
        for words in ("/retry nowhere", "/retry other", "/retry agent/lab", "/retry with more words"):
            told.append((await server.ended(await server.begin(words, session="s")))["output"])
        return told

    told = run_scenario(scenario, tmp_path, _says_by_model, more=OTHER)
    assert told == [
        "Not retried: there is no route 'nowhere'; there are lab, other.",
        "by m2",
        "by m",
        "by m",
    ]


@pytest.mark.requirement("H3")
def test_a_route_that_there_is_not_is_refused_and_nothing_is_taken_back(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        await _asked(server)
        reply = await server.post("/v1/sessions/s/retry", {"route": "nowhere"})
        return reply, (await server.get("/v1/sessions/s/messages")).json["data"]

    reply, said = run_scenario(scenario, tmp_path, _says_by_model, more=OTHER)
    assert (reply.status, reply.json["error"]["param"]) == (400, "route")
    assert "lab, other" in reply.json["error"]["message"]
    assert len(said) == 2
