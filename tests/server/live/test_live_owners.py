"""Two owners on one server: to each of them, whatever belongs to the other is not there."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.http.memory_server import Reply
from support.server.face_requests import request_for
from support.server.live_server import ApiClient, KeyedClient, LiveServer, gate, run_scenario
from support.server.scripted_models import LAST, model_by_phase

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, KillAfter, LabRequest, Say, ScriptItem, Status

ASK = 'approval = { shell = "ask" }'
SECRET = "marmalade"
TOOL = {"type": "function", "function": {"name": "theirs", "parameters": {"type": "object"}}}


def household(request: LabRequest) -> Iterable[ScriptItem]:
    """Leaves one thing of every kind behind."""
    task = [item["content"] for item in request.body["messages"] if item["role"] == "user"]
    match str(task[0]).split()[0]:
        case "consent":
            return (Call("shell", {"command": f"echo {SECRET}"}), Finish())
        case "rule" if not results_brought(request):
            return (Call("shell", {"command": f"echo {SECRET}"}), Finish())
        case "process" if not results_brought(request):
            return (Call("shell", {"command": f"echo {SECRET}; exec sleep 30", "background": True}), Finish())
        case "draft" if len(task) > 1:
            return (Status(400, "no rest"),)
        case "draft":
            text = f"{SECRET} " * 400
            return (
                KillAfter(arguments=1500),
                Call("write_file", {"path": "a.txt", "content": text}, 40),
                Finish(),
            )
        case "theirs" if not results_brought(request):
            return (Call("theirs", {"what": SECRET}), Finish())
    return (Say(f"{SECRET} for you"), Finish())


async def furnish(owner: ApiClient) -> dict[str, str]:
    """Things of every kind, by the names of the parameters in which their ids stand."""
    asking = await owner.begin("consent", session="table")
    async with owner.listen(f"/v1/runs/{asking}/events") as reader:
        await reader.until(b"event: approval_asked")
    [approval] = (await owner.get(f"/v1/runs/{asking}/approvals")).json["data"]
    await owner.events(await owner.begin("hello", session="shelf"))
    drafting = await owner.begin("draft")
    await owner.events(drafting)
    [draft] = (await owner.get(f"/v1/runs/{drafting}/drafts")).json["data"]
    leaving = await owner.begin("process")
    async with owner.listen(f"/v1/runs/{leaving}/events") as reader:
        await reader.until(b"event: approval_asked")
    [consent] = (await owner.get(f"/v1/runs/{leaving}/approvals")).json["data"]
    await owner.post(f"/v1/runs/{leaving}/approvals/{consent['id']}", {"decision": "allow"})
    await owner.ended(leaving)
    process = (await owner.get("/v1/processes")).json["data"][0]
    allowing = await owner.begin("rule")
    async with owner.listen(f"/v1/runs/{allowing}/events") as reader:
        await reader.until(b"event: approval_asked")
    [consent] = (await owner.get(f"/v1/runs/{allowing}/approvals")).json["data"]
    await owner.post(f"/v1/runs/{allowing}/approvals/{consent['id']}", {"decision": "allow_always"})
    await owner.ended(allowing)
    [rule] = (await owner.get("/v1/rules")).json["data"]
    response = (await owner.post("/v1/responses", {"model": "agent", "input": "hello"})).json
    conversation = (await owner.post("/v1/conversations")).json
    return {
        "run": asking,
        "approval": approval["id"],
        "drafting": drafting,
        "draft": draft["id"],
        "session": "table",
        "process": process["id"],
        "rule": rule["id"],
        "response": response["id"],
        "conversation": conversation["id"],
        "model": "lab",
    }


BODIES: dict[str, Any] = {
    "/v1/runs/{run}/approvals/{approval}": {"decision": "allow"},
    "/v1/sessions/{session}/messages": {"input": "hello"},
}
RENAMED = {"title": "mine now"}


def filled(path: str, ids: dict[str, str]) -> str:
    if "{draft}" in path:
        path = path.replace("{run}", ids["drafting"])
    return re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], path)


def strange(ids: dict[str, str]) -> dict[str, str]:
    """Ids that look the same and belong to nobody."""
    return {
        name: re.sub(r"[0-9a-f]{12}(?=_|$)", "abcdef012345", one) if name != "session" else "chair"
        for name, one in ids.items()
    }


def plain(reply: Reply, *ids: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """An answer without what is its own: the id of the request, the time, and the ids that were asked for."""
    headers = {
        name: value
        for name, value in reply.headers.items()
        if name not in ("x-request-id", "date", "content-length") and not name.startswith("x-ratelimit-")
    }
    text = reply.body.decode()
    for known in ids:
        for name, one in sorted(known.items(), key=lambda pair: -len(pair[1])):
            text = text.replace(one, "<run>" if name == "drafting" else f"<{name}>")
    return reply.status, headers, text


async def every_operation(server: ApiClient) -> list[tuple[str, str]]:
    """Every method and path whose address holds an id, from the server's own document."""
    document = (await server.get("/openapi.json")).json
    found = [
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if "{" in path and method in ("get", "post", "put", "patch", "delete")
    ]
    nobodys = ("/v1/models/{model}", "/console/{file}")
    return [(method, path) for method, path in found if path not in nobodys]


@pytest.mark.requirement("F9")
def test_what_belongs_to_another_looks_to_the_byte_like_what_is_not_there(tmp_path: Path):
    """X1. Every operation on a thing with an id, from the document, so that none is forgotten."""

    async def scenario(server: LiveServer):
        ann, bob = server.owner("ann"), server.owner("bob")
        ids = await furnish(ann)
        before = [(await ann.get(filled(path, ids))).status for path in READABLE]
        told = []
        for method, path in set(await every_operation(bob)) - MADE_BY_USE:
            body = RENAMED if method == "PATCH" else BODIES.get(path, {}) if method == "POST" else None
            foreign = await bob.ask(method, filled(path, ids), body)
            unknown = await bob.ask(method, filled(path, strange(ids)), body)
            told.append((method, path, plain(foreign, ids), plain(unknown, strange(ids))))
        after = [(await ann.get(filled(path, ids))).status for path in READABLE]
        return told, before, after

    told, before, after = run_scenario(scenario, tmp_path, household, tools=ASK)
    assert len(told) > 20
    for method, path, foreign, unknown in told:
        assert foreign == unknown, (method, path)
        assert foreign[0] == 404, (method, path, foreign)
        assert SECRET not in foreign[2]
    assert before == after == [200] * len(READABLE)


READABLE = ("/v1/runs/{run}", "/v1/runs/{run}/drafts", "/v1/sessions/{session}", "/v1/responses/{response}")
MADE_BY_USE = frozenset({("POST", "/v1/sessions/{session}/messages")})
"""A session is made by the first message in it, and everybody may have one of any name."""


@pytest.mark.requirement("F9", "G7")
def test_lists_and_searches_hold_only_ones_own(tmp_path: Path):
    async def scenario(server: LiveServer):
        ann, bob = server.owner("ann"), server.owner("bob")
        await furnish(ann)
        lists = (
            "/v1/runs",
            "/v1/sessions",
            "/v1/approvals",
            "/v1/rules",
            f"/v1/sessions?q={SECRET}",
            "/v1/runs?session=table",
        )
        return [[(await one.get(path)).json["data"] for path in lists] for one in (ann, bob)]

    of_ann, of_bob = run_scenario(scenario, tmp_path, household, tools=ASK)
    assert all(of_ann)
    assert of_bob == [[]] * 6


@pytest.mark.requirement("F9", "F4", "F11")
def test_ids_of_another_in_a_body_or_a_header_lead_nowhere(tmp_path: Path):
    async def scenario(server: LiveServer):
        ann, bob = server.owner("ann"), server.owner("bob")
        ids = await furnish(ann)
        call = await ann.post(
            "/v1/chat/completions", {"model": "agent", "messages": [user("theirs")], "tools": [TOOL]}
        )
        message = call.json["choices"][0]["message"]
        chained = [
            await bob.post(
                "/v1/responses", {"model": "agent", "input": "go on", "previous_response_id": one["response"]}
            )
            for one in (ids, strange(ids))
        ]
        forks = [
            await bob.post("/v1/sessions/mine/fork", {"run": one["run"]})
            for one in (ids, strange(ids))
            if (await bob.post("/v1/sessions", {"id": "mine"})).status in (201, 409)
        ]
        asked = len(server.lab.requests)
        spoken = await bob.post(
            "/v1/chat/completions",
            {"model": "agent", "messages": [user("hello")]},
            x_turnbuckle_session="table",
        )
        brought = [
            user("theirs"),
            message,
            {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "x"},
        ]
        copied = await bob.post(
            "/v1/chat/completions", {"model": "agent", "messages": brought, "tools": [TOOL]}
        )
        bodies = [request.body["messages"] for request in list(server.lab.requests)[asked:]]
        messages = (await bob.get("/v1/sessions/table/messages")).json["data"]
        return ids, chained, forks, spoken, copied, bodies, messages

    ids, chained, forks, spoken, copied, bodies, messages = run_scenario(
        scenario, tmp_path, household, tools=ASK
    )
    for foreign, unknown in (chained, forks):
        assert foreign.status == unknown.status == 404
        assert plain(foreign, ids) == plain(unknown, strange(ids))
    assert spoken.status == copied.status == 200
    assert [one["text"] for one in messages] == ["hello", f"{SECRET} for you"]
    in_session, with_copy = bodies
    assert [one["role"] for one in in_session] == ["system", "user"]
    [own_copy] = [one for one in with_copy if one["role"] == "assistant"]
    assert own_copy["tool_calls"][0]["id"].startswith(
        "call_r"
    )  # the client's copy, and not what the run knows it by


@pytest.mark.requirement("F9", "J1")
def test_a_message_with_calls_of_another_or_the_name_of_their_session_shows_nothing_of_theirs(tmp_path: Path):
    path, body = request_for(
        "messages", "theirs", tools=[{"name": "theirs", "input_schema": {"type": "object"}}]
    )

    async def scenario(server: LiveServer):
        ann, bob = server.owner("ann"), server.owner("bob")
        said = (await ann.post(path, body, x_turnbuckle_session="table")).json["content"]
        call = next(block for block in said if block["type"] == "tool_use")
        told = {"type": "tool_result", "tool_use_id": call["id"], "content": "x"}
        made = {**call, "input": {"what": "of bob"}}
        history = [
            *body["messages"],
            {"role": "assistant", "content": [made]},
            {"role": "user", "content": [told]},
        ]
        asked = len(server.lab.requests)
        replies = [
            await bob.post(path, {**body, "messages": history}),
            await bob.post(*request_for("messages", "hello"), x_turnbuckle_session="table"),
        ]
        assert [reply.status for reply in replies] == [200, 200]
        return [request.body["messages"] for request in list(server.lab.requests)[asked:]]

    copied, in_session = run_scenario(scenario, tmp_path, household)
    assert [one["role"] for one in copied] == ["system", "user", "assistant", "tool"]
    assert [one["role"] for one in in_session] == ["system", "user"]
    assert SECRET not in str((copied, in_session))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def halting(request: LabRequest) -> Iterable[ScriptItem]:
    return (Say(LAST[:20]), gate(1), Say(LAST[20:]), Finish())


@pytest.mark.requirement("F9")
def test_a_key_that_is_taken_back_ends_at_once_and_what_it_opened_may_be_read_to_its_end(tmp_path: Path):
    """X4."""

    async def scenario(server: LiveServer):
        other, ann = server.owner("other"), server.owner("ann")
        body = {"model": "agent", "messages": [user("go")], "stream": True}
        async with ann.listen("/v1/chat/completions", body) as reader:
            await reader.until(LAST[:12].encode())
            ann.revoke()
            refused = [
                await ann.get(f"/v1/runs/{reader.run}/events"),
                await ann.get(f"/v1/runs/{reader.run}"),
                await ann.post("/v1/chat/completions", body),
                await ann.post(*request_for("messages")),
                await ann.post("/v1/messages/count_tokens", request_for("messages")[1]),
            ]
            server.behind.gates.open(1)
            frames = await reader.rest()
        again = KeyedClient(server.port, server.owner("ann").key)
        return (
            refused,
            frames,
            (await again.run(reader.run))["status"],
            (await other.get("/v1/runs")).json["data"],
        )

    refused, frames, status, of_other = run_scenario(scenario, tmp_path, halting)
    assert [(reply.status, reply.error["type"]) for reply in refused] == [(401, "authentication_error")] * 5
    assert all(reply.headers["www-authenticate"] for reply in refused)
    assert frames[-1].data == b"[DONE]"
    assert status == "completed"  # a new key of the same owner
    assert of_other == []


@pytest.mark.requirement("F9")
def test_without_a_key_nothing_is_told_but_that_the_server_lives(tmp_path: Path):
    async def scenario(server: LiveServer):
        ann = server.owner("ann")
        ids = await furnish(ann)
        nobody = ApiClient(server.port)
        told = [
            (path, await nobody.ask(method, filled(path, one), {} if method == "POST" else None))
            for method, path in await every_operation(server)
            for one in (ids, strange(ids))
        ]
        lists = [
            ("list", await nobody.get(path))
            for path in ("/v1/runs", "/v1/sessions", "/v1/models", "/metrics")
        ]
        return [*told, *lists], [(await nobody.get(path)).status for path in ("/healthz", "/readyz")]

    told, alive = run_scenario(scenario, tmp_path, household, tools=ASK)
    assert {(reply.status, reply.error["code"]) for _, reply in told} == {(401, told[0][1].error["code"])}
    assert not any(SECRET.encode() in reply.body for _, reply in told)
    assert alive == [200, 200]


@pytest.mark.requirement("F9")
def test_stopping_a_run_of_another_does_nothing(tmp_path: Path):
    """X1, C10."""

    async def scenario(server: LiveServer):
        ann, bob = server.owner("ann"), server.owner("bob")
        run = await ann.begin("text")
        async with ann.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(b" one ")
            replies = [await bob.post(f"/v1/runs/{run}/stop"), await bob.ask("DELETE", f"/v1/runs/{run}")]
            view = await ann.run(run)
            server.behind.gates.open(1)
            events = await reader.rest()
        return replies, view, events

    replies, view, events = run_scenario(scenario, tmp_path, model_by_phase())
    assert [reply.status for reply in replies] == [404, 404]
    assert view["status"] == "running"
    assert events[-1].json["outcome"]["kind"] == "completed"
