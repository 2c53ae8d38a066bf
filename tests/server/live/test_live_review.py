"""What somebody tries who reads the documents and takes them at their word."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, gate, lab_provider, run, run_scenario, said_in, serve_live

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem

CHAT = "/v1/chat/completions"


def echo(request: LabRequest) -> Iterable[ScriptItem]:
    return (Say(f"You said: {last_user_text(request)}"), Finish())


@pytest.mark.requirement("G3", "F3")
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/sessions/s/messages"])
def test_the_answer_to_a_command_is_read_under_the_id_that_was_given_for_it(path: str, tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        begun = (await server.post(path, {"input": " /status ", "session": "s"})).json
        run = begun["id"]
        got = await server.get(f"/v1/runs/{run}")
        events = await server.events(run)
        stopped = await server.post(f"/v1/runs/{run}/stop")
        listed = (await server.get("/v1/runs")).json["data"]
        other = await server.owner("other").get(f"/v1/runs/{run}")
        return begun, got.json, said_in(events), stopped.json, listed, other.status, len(server.lab.requests)

    begun, got, said, stopped, listed, other, asked = run_scenario(scenario, tmp_path, echo)
    assert begun["status"] == got["status"] == "completed"
    assert got["output"] == said
    assert said.startswith("Nothing runs.")
    assert stopped["stopped"] is False
    assert (listed, other, asked) == ([], 404, 0)


@pytest.mark.requirement("G3", "F4")
def test_a_response_to_a_command_can_be_read_later_and_no_model_is_told_of_it(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        asked = {"model": "lab", "input": "/status", "conversation": "s", "background": True}
        made = (await server.post("/v1/responses", asked)).json["id"]
        got = await server.get(f"/v1/responses/{made}")
        after = await server.post(
            "/v1/responses", {"model": "lab", "input": "and?", "previous_response_id": made}
        )
        return got.json, after.status, after.json["error"]["code"], len(server.lab.requests)

    got, status, code, asked = run_scenario(scenario, tmp_path, echo)
    assert got["status"] == "completed"
    assert got["output"][0]["content"][0]["text"].startswith("Nothing runs.")
    assert (status, code, asked) == (404, "previous_response_not_found", 0)


@pytest.mark.requirement("F1", "G6")
def test_in_a_session_the_words_of_an_assistant_are_no_message_to_it(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        reply = await server.post(CHAT, {"model": "lab", "messages": said}, x_turnbuckle_session="s")
        return reply.status, reply.json["error"]["param"], len(server.lab.requests)

    assert run_scenario(scenario, tmp_path, echo) == (400, "messages", 0)


@pytest.mark.requirement("G6")
def test_a_fork_behind_an_event_that_there_is_not_is_refused(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        run = await server.begin(session="s")
        last = (await server.ended(run))["last_event"]
        path, body = "/v1/sessions/s/fork", {"id": "f", "run": run}
        tried = [await server.post(path, {**body, "after": after}) for after in (last + 1, -1, last)]
        foreign = await server.owner("other").post(path, {**body, "after": last + 1})
        return [reply.status for reply in tried], tried[0].json["error"]["param"], foreign.status

    assert run_scenario(scenario, tmp_path, echo) == ([400, 400, 201], "after", 404)


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    ("body", "param", "code", "words"),
    [
        ({}, "input", "missing_required_parameter", "input is missing"),
        (
            {"input": "a", "busy": "x"},
            "busy",
            "invalid_value",
            "busy must be queue, steer, interrupt or refuse",
        ),
        ({"input": "a", "session": 1}, "session", "invalid_type", "session must be a string, not a number"),
        ([], None, "invalid_type", "The body must be a JSON object, not an array"),
    ],
)
def test_a_body_that_does_not_fit_is_told_in_plain_words_with_its_field_and_a_code(
    body: Any, param: str | None, code: str, words: str, tmp_path: Path
):
    async def scenario(server: LiveServer) -> Any:
        return await server.post("/v1/runs", body)

    reply = run_scenario(scenario, tmp_path, echo)
    error = reply.json["error"]
    assert (reply.status, error["param"], error["code"]) == (400, param, code)
    assert words in error["message"]


@pytest.mark.requirement("F8", "G6")
@pytest.mark.parametrize("session", [{}, {"x_turnbuckle_session": "s"}])
def test_a_plain_chat_that_the_server_leaves_is_told_that_its_run_goes_on_and_it_does(
    session: dict[str, str], tmp_path: Path
):
    def waits(request: LabRequest) -> Iterable[ScriptItem]:
        return (Say("So "), gate(0), Say("far."), Finish())

    async def main() -> Any:
        said = {"model": "lab", "messages": [{"role": "user", "content": "go"}]}
        async with lab_provider(waits) as behind:
            async with serve_live(tmp_path, behind, server="drain = 0") as server:
                asking = asyncio.create_task(server.post(CHAT, said, **session))
                await behind.asked(1)
            reply = await asking
            behind.gates.open(0)
            async with serve_live(tmp_path, behind, server="drain = 0") as server:
                return reply, await server.ended(reply.headers["x-turnbuckle-run"])

    reply, ended = run(main())
    assert (reply.status, reply.json["error"]["code"]) == (503, "interrupted")
    assert "goes on when the server is back" in reply.json["error"]["message"]
    assert ended["status"] == "completed"


@pytest.mark.requirement("F1", "F6")
def test_a_new_session_takes_the_conversation_along_that_its_first_request_brings(tmp_path: Path):
    said = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "You said: one"},
        {"role": "user", "content": "two"},
    ]

    async def scenario(server: LiveServer) -> Any:
        await server.post(CHAT, {"model": "agent", "messages": said}, x_turnbuckle_session="new")
        await server.post(CHAT, {"model": "agent", "messages": said[-1:]}, x_turnbuckle_session="new")
        return [[one["content"] for one in request.body["messages"][1:]] for request in server.lab.requests]

    first, second = run_scenario(scenario, tmp_path, echo)
    assert first == ["one", "You said: one", "two"]
    assert second == [*first, "You said: two", "two"]


@pytest.mark.requirement("F6")
def test_what_makes_a_session_or_says_something_again_happens_once_for_one_key(tmp_path: Path):
    async def scenario(server: LiveServer) -> Any:
        made = [await server.post("/v1/sessions", {"title": "t"}, idempotency_key="k1") for _ in range(2)]
        other = await server.post("/v1/sessions", {"title": "u"}, idempotency_key="k1")
        name = made[0].json["id"]
        forked = [await server.post(f"/v1/sessions/{name}/fork", {}, idempotency_key="k2") for _ in range(2)]
        spoken = {"model": "agent", "messages": [{"role": "user", "content": "hi"}]}
        await server.post(CHAT, spoken, x_turnbuckle_session=name)
        retried = [
            await server.post(f"/v1/sessions/{name}/retry", {}, idempotency_key="k3") for _ in range(2)
        ]
        await server.ended(retried[0].json["run"])
        undone = await server.post(f"/v1/sessions/{name}/undo", {}, idempotency_key="k4")
        return made, other, forked, retried, undone, len(server.lab.requests)

    made, other, forked, retried, undone, requests = run_scenario(scenario, tmp_path, echo)
    assert made[0].json["id"] == made[1].json["id"]
    assert other.status == 409
    assert forked[0].json["id"] == forked[1].json["id"]
    assert [one.json["did"] for one in retried] == ["retried", "retried"]
    assert retried[0].json["run"] == retried[1].json["run"]
    assert (undone.status, undone.json["did"]) == (200, "undone")
    assert requests == 2
