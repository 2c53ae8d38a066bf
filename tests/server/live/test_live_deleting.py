"""What is deleted is gone, and nothing else is; what is taken back is taken back once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import (
    LiveServer,
    asked_until,
    gate,
    lab_provider,
    run,
    run_scenario,
    serve_live,
)

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Finish, LabRequest, Say

UNLIMITED = "drain = 0\nrequests_per_minute = 0"
NUMBERS = ("one", "two", "three")


def echo(request: LabRequest) -> tuple[Any, ...]:
    text = last_user_text(request)
    return (*((gate(1),) if "wait" in text else ()), Say(f"answer to {text}"), Finish())


async def say(server: LiveServer, text: str, session: str = "s", **headers: str) -> str:
    reply = await server.post(f"/v1/sessions/{session}/messages", {"input": text}, **headers)
    assert reply.status == 202, reply.body
    await server.events(reply.json["id"])
    return reply.json["id"]


def told(server: LiveServer) -> str:
    """All that the model was told with the last request."""
    return " ".join(
        str(one["content"]) for one in server.lab.requests[-1].body["messages"] if one["role"] != "system"
    )


@pytest.mark.requirement("G8")
@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (2, 0), (2, 1, 0)])
@pytest.mark.parametrize("restarted", [False, True])
def test_deleting_runs_costs_the_conversation_these_runs_only(
    tmp_path: Path, gone: tuple[int, ...], restarted: bool
):
    async def ask_more(server: LiveServer) -> list[str]:
        made = []
        for more in ("four", "five"):
            await say(server, more)
            made.append(told(server))
        return made

    async def scenario() -> tuple[list[str], list[str]]:
        async with lab_provider(echo) as behind:
            async with serve_live(tmp_path, behind) as server:
                runs = [await say(server, text) for text in NUMBERS]
                for place in gone:
                    assert (await server.ask("DELETE", f"/v1/runs/{runs[place]}")).status == 200
                    assert (await server.get(f"/v1/runs/{runs[place]}")).status == 404
                said = [one["text"] for one in (await server.get("/v1/sessions/s/messages")).json["data"]]
                if not restarted:
                    return said, await ask_more(server)
            async with serve_live(tmp_path, behind) as server:
                return said, await ask_more(server)

    said, (fourth, fifth) = run(scenario())
    left = [text for place, text in enumerate(NUMBERS) if place not in gone]
    whole = " ".join(f"{text} answer to {text}" for text in left)
    assert " ".join(said) == whole
    assert fourth == f"{whole} four".strip()
    assert fifth == f"{whole} four answer to four five".strip()


@pytest.mark.requirement("G8", "G7")
def test_a_fork_knows_nothing_of_a_run_that_was_deleted(tmp_path: Path):
    async def scenario(server: LiveServer) -> str:
        runs = [await say(server, text) for text in NUMBERS]
        await server.ask("DELETE", f"/v1/runs/{runs[1]}")
        await server.post("/v1/sessions/s/fork", {"id": "f"})
        await say(server, "four", "f")
        return told(server)

    assert run_scenario(scenario, tmp_path, echo) == "one answer to one three answer to three four"


@pytest.mark.requirement("E12", "G1")
def test_the_deleted_run_of_a_message_that_was_taken_back_stays_deleted(tmp_path: Path):
    async def scenario() -> tuple[int, int, int, list[str]]:
        async with lab_provider(echo) as behind:
            async with serve_live(tmp_path, behind, server="drain = 0") as server:
                first = await server.begin("wait", session="s")
                await behind.asked(1)
                second = await server.begin("second", session="s")
                await server.post(f"/v1/runs/{second}/stop")
                deleted = (await server.ask("DELETE", f"/v1/runs/{second}")).status
                before = (await server.get(f"/v1/runs/{second}")).status
                behind.gates.open(1)
                await server.events(first)
            async with serve_live(tmp_path, behind, server="drain = 0") as server:
                await say(server, "third")
                names = [one["id"] for one in (await server.get("/v1/runs")).json["data"]]
                return (
                    deleted,
                    before,
                    (await server.get(f"/v1/runs/{second}")).status,
                    [one == second for one in names],
                )

    deleted, before, after, listed = run(scenario())
    assert (deleted, before, after) == (200, 404, 404)
    assert listed == [False, False]


@pytest.mark.requirement("E12", "F6")
def test_the_same_undo_sent_again_takes_back_nothing_more(tmp_path: Path):
    async def scenario(server: LiveServer) -> tuple[list[Any], str, Any]:
        runs = [await say(server, text) for text in NUMBERS]
        path = "/v1/sessions/s/undo"
        undone = [(await server.post(path, idempotency_key="k")).json["run"] for _ in range(3)]
        other = (await server.post(path, idempotency_key="l")).json["run"]
        await say(server, "four")
        return [*(runs.index(one) for one in undone), runs.index(other)], told(server), runs

    places, last, _ = run_scenario(scenario, tmp_path, echo)
    assert places == [2, 2, 2, 1]
    assert last == "one answer to one four"


@pytest.mark.requirement("G1")
@pytest.mark.parametrize("made", [False, True])
def test_first_messages_of_a_new_session_at_the_same_moment_are_all_taken(tmp_path: Path, made: bool):
    async def scenario(server: LiveServer) -> tuple[list[int], list[str]]:
        statuses: list[int] = []
        for number in range(15):
            session = f"s{number}"
            making = [server.post("/v1/sessions", {"id": session})] if made else []
            saying = [server.post(f"/v1/sessions/{session}/messages", {"input": text}) for text in NUMBERS]
            replies = await asyncio.gather(*making, *saying)
            statuses += [reply.status for reply in replies[len(making) :]]
            ends = [
                await server.ended(reply.json["id"])
                for reply in replies[len(making) :]
                if reply.status == 202
            ]
        return statuses, [end["status"] for end in ends]

    statuses, ends = run_scenario(scenario, tmp_path, echo, server=UNLIMITED)
    assert statuses == [202] * 45
    assert ends == ["completed"] * 3


@pytest.mark.requirement("F6", "G1")
@pytest.mark.parametrize("later", ["messages", "run deleted", "session deleted"])
def test_a_steered_message_under_one_key_is_done_once_whatever_happened_since(tmp_path: Path, later: str):
    async def scenario(server: LiveServer) -> tuple[Any, Any, int, str]:
        first = await server.begin("wait", session="s")
        await server.behind.asked(1)
        body = {"input": "steer it", "session": "s", "busy": "steer"}
        one = await server.post("/v1/runs", body, idempotency_key="k")
        server.behind.gates.open(1)
        await server.events(first)
        if later == "messages":
            for number in range(205):
                await say(server, f"more {number}")
        elif later == "run deleted":
            assert (await server.ask("DELETE", f"/v1/runs/{first}")).status == 200
        else:
            # Its worker may just look at what was steered.
            await asked_until(lambda reply: reply.status == 200, server.ask, "DELETE", "/v1/sessions/s")
        before = len(server.lab.requests)
        again = await server.post("/v1/runs", body, idempotency_key="k")
        await say(server, "the last", "other")
        return one, again, len(server.lab.requests) - before, first

    one, again, requests, first = run_scenario(scenario, tmp_path, echo, server=UNLIMITED)
    assert one.json["id"] == first
    assert requests == 1
    if later == "messages":
        assert again.json["id"] == first
    else:
        assert again.status == 404


@pytest.mark.requirement("G7", "E12")
@pytest.mark.parametrize("how", ["/v1/sessions/s/undo", "/v1/sessions/s/retry", "delete"])
@pytest.mark.parametrize("first", [False, True])
def test_what_was_taken_back_is_not_found(tmp_path: Path, how: str, first: bool):
    async def scenario(server: LiveServer) -> list[list[str]]:
        if not first:
            await say(server, "something else")
        last = await say(server, "marmalade")
        found = [await searched(server)]
        if how == "delete":
            await server.ask("DELETE", f"/v1/runs/{last}")
        else:
            reply = await server.post(how)
            if how.endswith("retry"):
                await server.events(reply.json["run"])
        return [*found, await searched(server)]

    async def searched(server: LiveServer) -> list[str]:
        return [one["id"] for one in (await server.get("/v1/sessions?q=marmalade")).json["data"]]

    before, after = run_scenario(scenario, tmp_path, echo)
    assert before == ["s"]
    assert after == (["s"] if how.endswith("retry") else [])
