"""What every endpoint that begins a run has in common, and responses that enter a run which is under way."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import Frame, LiveServer, eventually, gate, run_scenario

from turnbuckle.lab.received import brings_results, last_user_text
from turnbuckle.lab.script import Call, Finish, LabRequest, Say

CREATING: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": "agent", "messages": [{"role": "user", "content": "hello"}]}),
    "responses": ("/v1/responses", {"model": "agent", "input": "hello"}),
    "runs": ("/v1/runs", {"model": "agent", "input": "hello"}),
    "messages": (
        "/v1/messages",
        {"model": "agent", "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}]},
    ),
    "session": ("/v1/sessions/{session}/messages", {"model": "agent", "input": "hello"}),
}
STREAMED = ("chat", "responses", "messages")
"""Those that name their session in a header, and can stream their answer."""
NO_BEATS = "noop = 1000"
"""So that a slow machine adds no frame to a stream that is compared with another."""


def echo(request: LabRequest) -> Any:
    return [Say(f"You said: {last_user_text(request)}"), Finish()]


def waits(request: LabRequest) -> Any:
    if request.number == 1:
        return [Say("One, two"), gate(1), Say(", three."), Finish()]
    return [Say("And four."), Finish()]


def body_of(name: str, session: str = "s") -> tuple[str, dict[str, Any]]:
    """Where it goes and what it says; `/v1/runs` names its session in the body."""
    path, body = CREATING[name]
    return path.format(session=session), {**body, **({"session": session} if name == "runs" else {})}


def raw(frames: list[Frame]) -> list[bytes]:
    return [frame.raw for frame in frames]


@pytest.mark.requirement("F4", "F6", "G6")
@pytest.mark.parametrize("name", CREATING)
def test_every_endpoint_that_begins_a_run_takes_a_session_a_key_and_a_policy(name: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        path, body = body_of(name)
        headers = {"x_turnbuckle_session": "s"} if name in STREAMED else {}
        sent = {**headers, "idempotency_key": "once"}
        first = await server.post(path, body, **sent)
        again = await server.post(path, body, **sent)
        other = await server.post(path, {**body, "temperature": 0.5}, **sent)
        empty = await server.post(path, body, **headers, idempotency_key="")
        odd = await server.post(path, body, **headers, x_turnbuckle_on_disconnect="perhaps")
        ways = [
            await server.post(path, body, **headers, x_turnbuckle_on_disconnect=way)
            for way in ("detach", "20")
        ]
        busy = await server.post(path, body, **headers, x_turnbuckle_busy="perhaps")
        return first, again, other, [empty, odd, busy], ways, len(server.lab.requests)

    first, again, other, wrong, ways, asked = run_scenario(scenario, tmp_path, echo)
    assert first.status in (200, 202)
    assert first.headers["x-turnbuckle-session"] == "s"
    assert again.headers["x-turnbuckle-run"] == first.headers["x-turnbuckle-run"]
    assert again.headers["idempotency-replayed"] == "true"
    assert (other.status, other.code) == (409, "idempotency_key_reused")
    assert [reply.status for reply in wrong] == [400, 400, 400]
    assert all(reply.status in (200, 202) for reply in ways)
    assert asked <= 3


@pytest.mark.requirement("F4", "E4", "G1")
def test_a_response_that_steers_a_run_has_the_same_events_when_it_is_read_again(tmp_path: Path):
    async def scenario(server: LiveServer):
        run = await server.begin("count", session="s")
        await eventually(lambda: server.lab.requests)
        body = {"model": "agent", "input": "and four", "stream": True}
        headers = {"x_turnbuckle_session": "s", "x_turnbuckle_busy": "steer"}
        async with server.listen("/v1/responses", body, **headers) as listener:
            await listener.until(b"response.in_progress")
            server.behind.gates.open(1)
            own = [frame for frame in await listener.rest() if frame.json]
        name = own[0].json["response"]["id"]
        path = f"/v1/responses/{name}"
        reads = {0: await server.read(f"{path}?stream=true")}
        for number in range(1, len(own) + 1):
            reads[number] = await server.read(f"{path}?stream=true&starting_after={number - 1}")
        whole = (await server.get(path)).json
        strange = await server.get(f"/v1/responses/resp_{run}.m-none")
        chained = await server.post(
            "/v1/responses", {"model": "agent", "input": "go on", "previous_response_id": name}
        )
        return run, name, own, reads, whole, strange, chained

    run, name, own, reads, whole, strange, chained = run_scenario(scenario, tmp_path, waits)
    assert name.startswith(f"resp_{run}.")
    assert [frame.json["sequence_number"] for frame in own] == list(range(len(own)))
    for number, read in reads.items():
        assert raw(read) == raw(own[number:])
    assert whole == own[-1].json["response"]
    said = "".join(frame.json["delta"] for frame in own if frame.json["type"] == "response.output_text.delta")
    assert said.endswith(", three.And four.")
    assert (strange.status, chained.status) == (404, 200)


@pytest.mark.requirement("F4", "F6", "G1")
def test_a_response_that_steers_a_run_is_the_same_one_under_its_key(tmp_path: Path):
    async def scenario(server: LiveServer):
        await server.begin("count", session="s")
        await eventually(lambda: server.lab.requests)
        body = {"model": "agent", "input": "and four"}
        headers = {"x_turnbuckle_session": "s", "x_turnbuckle_busy": "steer", "idempotency_key": "k"}
        first = asyncio.create_task(server.post("/v1/responses", body, **headers))
        await eventually(lambda: len(server.service.heartbeat) == 1)
        server.behind.gates.open(1)
        return await first, await server.post("/v1/responses", body, **headers), len(server.lab.requests)

    first, again, asked = run_scenario(scenario, tmp_path, waits)
    assert (first.status, again.status, asked) == (200, 200, 2)
    assert again.json == first.json


@pytest.mark.requirement("F4", "F6", "G1", "E4")
@pytest.mark.parametrize("name", STREAMED)
def test_the_answer_to_words_that_steered_a_run_begins_where_it_began_when_it_is_asked_for_again(
    name: str, tmp_path: Path
):
    async def scenario(server: LiveServer):
        run = await server.begin("count", session="s")
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await reader.until(b"One, two")
        path, body = body_of(name)
        body["stream"] = True
        headers = {"x_turnbuckle_session": "s", "x_turnbuckle_busy": "steer", "idempotency_key": "k"}
        async with server.listen(path, body, **headers) as listener:
            server.behind.gates.open(1)
            first = await listener.rest()
        async with server.listen(path, body, **headers) as listener:
            again = await listener.rest()
        return first, again, listener.reply.headers, len(server.lab.requests)

    first, again, headers, asked = run_scenario(scenario, tmp_path, waits, server=NO_BEATS)
    assert b"One, two" not in b"".join(raw(first))
    assert b", three." in b"".join(raw(first))
    assert raw(again) == raw(first)
    assert headers["idempotency-replayed"] == "true"
    assert asked == 2


@pytest.mark.requirement("F4")
def test_labels_of_a_conversation_are_kept(tmp_path: Path):
    async def scenario(server: LiveServer):
        labels = {"topic": "knots", "user": "ann"}
        made = (await server.post("/v1/conversations", {"metadata": labels})).json
        plain = (await server.post("/v1/conversations", {})).json
        await server.post("/v1/responses", {"model": "agent", "input": "hi", "conversation": made["id"]})
        found = [(await server.get(f"/v1/conversations/{one['id']}")).json for one in (made, plain)]
        wrong = [
            await server.post("/v1/conversations", {"metadata": labels})
            for labels in ({"a": "x" * 513}, {"k" * 65: "x"}, {str(n): "x" for n in range(17)}, {"a": 1})
        ]
        return made, found, [reply.status for reply in wrong]

    made, (found, plain), wrong = run_scenario(scenario, tmp_path, echo)
    assert made["metadata"] == found["metadata"] == {"topic": "knots", "user": "ann"}
    assert plain["metadata"] == {}
    assert wrong == [400] * 4


def asks(request: LabRequest) -> Any:
    if brings_results(request) or "wipe" not in last_user_text(request):
        return [Say("Well."), Finish()]
    return [Call("shell", {"command": "echo hi"}), Finish()]


@pytest.mark.requirement("G9", "G1", "E4")
@pytest.mark.parametrize("name", CREATING)
def test_a_message_that_waits_behind_a_question_says_so_at_once_in_words(name: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        first = await server.begin("wipe it", session="s")
        await eventually(lambda: server.lab.requests)
        async with server.listen(f"/v1/runs/{first}/events") as reader:
            await reader.until(b"approval_asked")
        (asked,) = (await server.get(f"/v1/runs/{first}/approvals")).json["data"]
        where = f"/v1/runs/{first}/approvals/{asked['id']}"
        path, body = body_of(name)
        headers = {"x_turnbuckle_session": "s"} if name in STREAMED else {}
        words = f"the run {first} waits for consent to run shell: echo hi (POST {where})".encode()
        if name in STREAMED:
            headers["idempotency_key"] = "k"
            body["stream"] = True
            async with (
                server.listen(path, body, **headers) as listener,
                server.listen(path, body, **headers) as again,
            ):
                seen = (await listener.until(words)).body
                await again.until(words)
                await server.post(where, {"decision": "allow"})
                await listener.rest()
                await again.rest()
                whole = listener.body
                assert [one.data for one in again.frames] == [one.data for one in listener.frames]
            return seen, whole, words, await server.ended(listener.run)
        run = (await server.post(path, body)).json["id"]
        view = await server.run(run)
        async with server.listen(f"/v1/runs/{run}/events") as listener:
            seen = (await listener.until(words)).body
            await server.post(where, {"decision": "allow"})
            await listener.rest()
        assert (view["status"], view["waiting_on"]["kind"]) == ("queued", "turn")
        assert words.decode() in view["waiting_on"]["detail"]
        return seen, listener.body, words, await server.run(run)

    asking = 'approval = { shell = "ask" }'
    seen, whole, words, view = run_scenario(scenario, tmp_path, asks, tools=asking, server=NO_BEATS)
    assert words in seen
    assert b"Well." in whole
    assert view["status"] == "completed"


@pytest.mark.requirement("G9", "F4", "E4")
def test_a_response_that_had_to_wait_has_the_same_events_when_it_is_read_again(tmp_path: Path):
    async def scenario(server: LiveServer):
        await server.begin("count", session="s")
        await eventually(lambda: server.lab.requests)
        body = {"model": "agent", "input": "and four", "stream": True}
        async with server.listen("/v1/responses", body, x_turnbuckle_session="s") as listener:
            await listener.until(b"Waiting for its turn")
            server.behind.gates.open(1)
            own = [frame for frame in await listener.rest() if frame.json]
        name = own[0].json["response"]["id"]
        plain = (await server.get(f"/v1/responses/{name}")).json
        return own, await server.read(f"/v1/responses/{name}?stream=true"), plain

    own, again, plain = run_scenario(scenario, tmp_path, waits)
    assert raw(again) == raw(own)
    assert plain == own[-1].json["response"]
    assert "Waiting for its turn: the run " in plain["output"][0]["summary"][0]["text"]
