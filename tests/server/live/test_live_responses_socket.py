"""Responses over a WebSocket: the same events, one message each; the cases of the Open Responses suite, and more."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from support.server.live_server import PATIENCE, ApiClient, LiveServer, eventually, gate, run_scenario
from support.server.scripted_models import answer
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem, Status
from turnbuckle.server.http import websocket_cycle
from turnbuckle.server.http.sockets import MOST_WAITING

TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")


def socket(server: ApiClient, **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if server.key:
        named["authorization"] = f"Bearer {server.key}"
    return connect(f"ws://127.0.0.1:{server.port}/v1/responses", additional_headers=named, proxy=None)


async def turn(line: ClientConnection, **body: Any) -> list[dict[str, Any]]:
    """Ask for a response, and give all events to its end."""
    await line.send(json.dumps({"type": "response.create", "model": "lab", **body}))
    return await events(line)


async def events(line: ClientConnection) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while not made or made[-1]["type"] not in TERMINAL:
            made.append(json.loads(await line.recv()))
    return made


def text_of(told: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in told if event["type"] == "response.output_text.delta")


def words(request: LabRequest) -> Iterable[ScriptItem]:
    """Says again what it was asked, and how much it was told before."""
    asked = last_user_text(request)
    if asked == "call":
        return (Call("look", {"at": "it"}), Finish())
    if asked == "fail":
        return (Status(400, '{"error": {"message": "no", "type": "invalid_request_error"}}'),)
    return (Say(f"{asked} after {len(request.body['messages']) - 1}"), Finish())


@pytest.mark.realtime
@pytest.mark.requirement("J3")
def test_the_events_are_those_of_a_stream_and_one_response_follows_the_other(tmp_path: Path):
    async def scenario(server: LiveServer):
        streamed = await server.read("/v1/responses", {"model": "lab", "input": "one", "stream": True})
        async with socket(server) as line:
            first = await turn(line, input="one")
            await line.send(json.dumps({"type": "response.create", "model": "lab", "input": "two"}))
            await line.send(json.dumps({"type": "response.create", "model": "lab", "input": "three"}))
            return streamed, first, await events(line), await events(line)

    streamed, first, second, third = run_scenario(scenario, tmp_path, words)
    assert [event["type"] for event in first] == [frame.json["type"] for frame in streamed]
    assert [event["sequence_number"] for event in first] == [
        frame.json["sequence_number"] for frame in streamed
    ]
    assert [text_of(told) for told in (first, second, third)] == [
        "one after 0",
        "two after 0",
        "three after 0",
    ]
    whole = first[-1]["response"]
    numbers = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
    assert [whole[name] for name in numbers] == [1.0, 1.0, 0.0, 0.0, 0]


@pytest.mark.realtime
@pytest.mark.requirement("J3", "G1")
def test_a_session_that_the_connection_names_holds_for_responses_that_name_no_other_history(tmp_path: Path):
    async def scenario(server: LiveServer):
        async with socket(server, x_turnbuckle_session="s") as line:
            first, second = await turn(line, input="one"), await turn(line, input="two")
            apart = await turn(line, input="three", previous_response_id=first[-1]["response"]["id"])
            made = (await server.post("/v1/conversations", {})).json["id"]
            other = await turn(line, input="four", conversation=made)
        asked = [
            [one["content"] for one in request.body["messages"] if one["role"] == "user"]
            for request in server.lab.requests
        ]
        said = (await server.get("/v1/sessions/s/messages")).json["data"]
        return asked, [one["text"] for one in said if one["role"] == "user"], [second, apart, other]

    asked, said, told = run_scenario(scenario, tmp_path, words)
    assert asked == [["one"], ["one", "two"], ["one", "three"], ["four"]]
    assert said[:2] == ["one", "two"]
    assert [one[-1]["type"] for one in told] == ["response.completed"] * 3


@pytest.mark.realtime
@pytest.mark.requirement("J3")
def test_an_unstored_response_is_gone_on_from_on_its_own_connection_alone(tmp_path: Path):
    async def scenario(server: LiveServer):
        async with socket(server) as line:
            first = await turn(line, input="remember", store=False)
            made = first[-1]["response"]["id"]
            second = await turn(line, input="and now", store=False, previous_response_id=made)
        async with socket(server) as line:
            elsewhere = await turn(line, input="and now", store=False, previous_response_id=made)
            recovered = await turn(line, input="again", store=False)
        return second, elsewhere, recovered

    second, elsewhere, recovered = run_scenario(scenario, tmp_path, words)
    assert text_of(second) == "and now after 2"
    assert (elsewhere[0]["status"], elsewhere[0]["error"]["code"]) == (400, "previous_response_not_found")
    assert text_of(recovered) == "again after 0"


@pytest.mark.realtime
@pytest.mark.requirement("J3")
@pytest.mark.parametrize(
    "wrong",
    [
        [{"type": "function_call_output", "call_id": "call_nobody_made", "output": "x"}],
        "fail",
    ],
)
def test_a_response_that_could_not_be_gone_on_from_is_forgotten(wrong: Any, tmp_path: Path):
    async def scenario(server: LiveServer):
        async with socket(server) as line:
            made = (await turn(line, input="remember", store=False))[-1]["response"]["id"]
            failed = await turn(line, input=wrong, store=False, previous_response_id=made)
            return failed, await turn(line, input="now", store=False, previous_response_id=made)

    failed, later = run_scenario(scenario, tmp_path, words)
    assert failed[-1]["type"] in ("error", "response.failed")
    assert later[0]["error"]["code"] == "previous_response_not_found"


@pytest.mark.realtime
@pytest.mark.requirement("J3")
def test_a_client_that_comes_back_reads_on_where_it_was(tmp_path: Path):
    def slow(request: LabRequest) -> Iterable[ScriptItem]:
        return (Say("half "), gate(1), Say("and half"), Finish())

    async def scenario(server: LiveServer):
        async with socket(server, x_turnbuckle_on_disconnect="detach") as line:
            await line.send(json.dumps({"type": "response.create", "model": "lab", "input": "go"}))
            seen = [json.loads(await line.recv())]
            while not text_of(seen):
                seen.append(json.loads(await line.recv()))
        server.behind.gates.open(1)
        async with socket(server) as line:
            after = seen[-1]["sequence_number"]
            wanted = {"response_id": seen[0]["response"]["id"], "starting_after": after}
            await line.send(json.dumps({"type": "turnbuckle.response.follow", **wanted}))
            return seen, await events(line)

    seen, rest = run_scenario(scenario, tmp_path, slow)
    assert text_of([*seen, *rest]) == "half and half"
    assert [event["sequence_number"] for event in (*seen, *rest)] == list(range(len(seen) + len(rest)))


@pytest.mark.realtime
@pytest.mark.requirement("J3", "J7")
def test_what_is_sent_ahead_belongs_to_the_response_that_goes_on_from_it(tmp_path: Path):
    async def scenario(server: LiveServer):
        async with socket(server) as line:
            ahead = await turn(line, input="ahead", generate=False)
            before = len(server.lab.requests)
            made = ahead[-1]["response"]["id"]
            return before, ahead, await turn(line, input="now", previous_response_id=made)

    before, ahead, told = run_scenario(scenario, tmp_path, words)
    assert before == 0
    assert ahead[-1]["response"]["output"] == []
    assert text_of(told) == "now after 1"


@pytest.mark.realtime
@pytest.mark.requirement("J3")
@pytest.mark.parametrize(
    "message, code",
    [
        ("{", "invalid_json"),
        ("[]", "invalid_type"),
        ('{"type": "session.update"}', None),
        (
            '{"type": "response.create", "model": "lab", "input": "x", "background": true}',
            "unsupported_parameter",
        ),
        (
            '{"type": "response.create", "model": "lab", "input": "x", "stream": false}',
            "unsupported_parameter",
        ),
        ('{"type": "response.create", "input": "x"}', "missing_required_parameter"),
        ('{"type": "response.create", "model": "nobody", "input": "x"}', "model_not_found"),
    ],
)
def test_a_wrong_message_gets_an_error_and_the_next_is_answered(
    message: str, code: str | None, tmp_path: Path
):
    async def scenario(server: LiveServer):
        async with socket(server) as line:
            await line.send(message)
            return await events(line), await turn(line, input="next")

    wrong, right = run_scenario(scenario, tmp_path, words)
    assert (wrong[0]["type"], wrong[0]["error"]["code"]) == ("error", code)
    assert 400 <= wrong[0]["status"] < 500
    assert text_of(right) == "next after 0"


@pytest.mark.realtime
@pytest.mark.requirement("J3", "J7", "R4")
def test_keys_origins_and_rates_hold_for_sockets_too(tmp_path: Path):
    async def refused(server: ApiClient, **headers: str) -> int:
        try:
            async with socket(server, **headers):
                return 101
        except InvalidStatus as error:
            return error.response.status_code

    async def scenario(server: LiveServer):
        somebody = server.owner("ann")
        statuses = [await refused(server), await refused(somebody, origin="http://evil.example")]
        async with socket(somebody) as line:
            told = await turn(line, input="go")
            other = await server.owner("bob").get(f"/v1/responses/{told[-1]['response']['id']}")
            somebody.revoke()
            with pytest.raises(ConnectionClosed):
                async with asyncio.timeout(PATIENCE):
                    await line.recv()
        return statuses, text_of(told), other.status

    statuses, text, other = run_scenario(scenario, tmp_path, words)
    assert statuses == [401, 403]
    assert (text, other) == ("go after 0", 404)


@pytest.mark.realtime
@pytest.mark.requirement("J3")
def test_a_client_that_leaves_ends_its_response_as_it_wished(tmp_path: Path):
    def endless(request: LabRequest) -> Iterable[ScriptItem]:
        return (Say("begun"), gate(1), Finish())

    async def scenario(server: LiveServer):
        async with socket(server, x_turnbuckle_on_disconnect="cancel") as line:
            await line.send(json.dumps({"type": "response.create", "model": "lab", "input": "go"}))
            run = json.loads(await line.recv())["response"]["id"].removeprefix("resp_")
        return (await server.ended(run))["status"]

    assert run_scenario(scenario, tmp_path, endless) == "cancelled"


@pytest.mark.realtime
@pytest.mark.requirement("J3")
def test_where_it_is_off_a_client_is_told_to_upgrade_to_nothing(tmp_path: Path):
    async def scenario(server: LiveServer):
        with pytest.raises(InvalidStatus) as refused:
            async with socket(server):
                pass
        return refused.value.response.status_code, (await server.get("/v1/responses")).status

    assert run_scenario(scenario, tmp_path, answer, server="websocket = false") == (426, 426)


@pytest.mark.realtime
@pytest.mark.requirement("J3", "F10")
def test_the_official_client_talks_over_it(tmp_path: Path):
    async def scenario(server: LiveServer):
        client = AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="any")
        kinds, text = [], ""
        async with client, client.responses.connect() as line:
            await line.send({"type": "response.create", "model": "lab", "input": "hello"})
            async for event in line:
                kinds.append(event.type)
                text += event.delta if event.type == "response.output_text.delta" else ""
                if event.type == "response.completed":
                    break
        await eventually(lambda: not server.service.app.sockets.has_keyed())
        return kinds, text

    kinds, text = run_scenario(scenario, tmp_path, words)
    assert kinds[0] == "response.created"
    assert text == "hello after 0"


@pytest.mark.realtime
@pytest.mark.requirement("J3")
def test_a_client_that_asks_faster_than_it_is_answered_is_answered_in_order(tmp_path: Path):
    count = 3 * MOST_WAITING

    async def scenario(server: LiveServer):
        async with socket(server) as line:
            for number in range(count):
                await line.send(
                    json.dumps({"type": "response.create", "model": "lab", "input": f"no {number}"})
                )
            return [text_of(await events(line)) for _ in range(count)]

    told = run_scenario(scenario, tmp_path, words)
    assert told == [f"no {number} after 0" for number in range(count)]


@pytest.mark.realtime
@pytest.mark.requirement("J3", "E5")
def test_a_client_that_answers_no_ping_is_taken_for_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(websocket_cycle, "PING_SECONDS", 0.05)
    head = (
        "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    async def scenario(server: LiveServer):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode())
        async with asyncio.timeout(PATIENCE):
            got = b""
            try:
                while piece := await reader.read(1024):
                    got += piece
            except ConnectionResetError:
                pass
        writer.close()
        return got

    got = run_scenario(scenario, tmp_path, words)
    assert got.startswith(b"HTTP/1.1 101 ")
    assert got.partition(b"\r\n\r\n")[2] == b"\x89\x00" * websocket_cycle.UNANSWERED


@pytest.mark.realtime
@pytest.mark.requirement("J3", "R12")
def test_a_message_that_is_too_large_ends_the_connection_and_nobody_elses(tmp_path: Path):
    async def scenario(server: LiveServer):
        async with socket(server) as other, socket(server) as line:
            await line.send("x" * 300_000)
            with pytest.raises(ConnectionClosed) as closed:
                await line.recv()
            return closed.value.rcvd.code if closed.value.rcvd else 0, text_of(await turn(other, input="hi"))

    code, told = run_scenario(scenario, tmp_path, words, server="max_body = 200000")
    assert code == 1009
    assert told == "hi after 0"
