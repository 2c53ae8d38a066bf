"""The provider over real sockets, with a real HTTP client, in virtual time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp
import pytest

from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import (
    Call,
    Case,
    Comments,
    CutOff,
    Dribble,
    Finish,
    LabRequest,
    Open,
    Say,
    ScriptItem,
    Stall,
    Status,
)
from turnbuckle.lab.script_text import ScriptError
from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.registry import PROTOCOLS

T = TypeVar("T")
PATHS = {"openai_chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
Scenario = Callable[[Provider, aiohttp.ClientSession], Awaitable[T]]


def _run_scenario(case: Case | str, scenario: "Scenario[T]") -> tuple[T, Provider]:
    """Play a scenario between a client and a provider; nothing may be left running behind it."""
    clock = VirtualClock()
    provider = Provider(case, clock=clock)

    async def main() -> T:
        async with provider, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1000)) as client:
            result = await scenario(provider, client)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set(), left
        return result

    return clock.run(main), provider


def _case(*steps: ScriptItem) -> Case:
    return Case("test", "a test", (steps,))


def _path(protocol: ProtocolName, model: str = "m", *, stream: bool = True) -> str:
    wire = PROTOCOLS[protocol]
    return wire.base_path + wire.endpoint(ModelRequest(model, (), stream=stream))


async def _ask(
    provider: Provider,
    client: aiohttp.ClientSession,
    protocol: ProtocolName = "openai_chat",
    *,
    stream: bool = True,
    model: str = "m",
    headers: dict[str, str] | None = None,
    **body: Any,
) -> Reply:
    request = client.post(
        provider.url + _path(protocol, model, stream=stream),
        json={"model": model, "stream": stream, **body},
        headers=headers,
    )
    async with request as response:
        decoder = open_answer(protocol, status=response.status, headers=response.headers)
        events = decoder.feed(await response.read())
    return fold(events + decoder.close())


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "plain"])
@pytest.mark.parametrize("versioned", [True, False], ids=["/v1", "/"])
def test_a_reply_is_served_in_every_protocol(protocol: ProtocolName, stream: bool, versioned: bool) -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[str, Reply]:
        path = _path(protocol, stream=stream)
        path = path if versioned else path.removeprefix(PROTOCOLS[protocol].base_path)
        async with client.post(provider.url + path, json={"model": "m", "stream": stream}) as response:
            decoder = open_answer(protocol, status=response.status, headers=response.headers)
            events = decoder.feed(await response.read())
        return response.headers["content-type"], fold(events + decoder.close())

    (content_type, reply), provider = _run_scenario(
        _case(Say("hello"), Call("f", {"a": 1}), Finish()), scenario
    )
    assert reply.ended
    assert reply.text == "hello"
    assert [call.name for call in reply.calls] == ["f"]
    assert content_type.startswith("text/event-stream" if stream else "application/json")
    assert [(got.case, got.progress.over) for got in provider.requests] == [("test", "tidy")]


def test_a_connection_serves_one_request_after_another() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> set[str]:
        ports = set()
        for protocol in PROTOCOL_NAMES:
            async with client.post(provider.url + _path(protocol), json={"stream": True}) as response:
                assert response.connection is not None
                ports.add(str(response.connection.transport.get_extra_info("sockname")))  # type: ignore[union-attr]
                await response.read()
        return ports

    ports, _ = _run_scenario("happy", scenario)
    assert len(ports) == 1


async def _read_to_the_end(
    provider: Provider, client: aiohttp.ClientSession
) -> tuple[bytes, Exception | None]:
    got = b""
    try:
        async with client.post(provider.url + PATHS["openai_chat"], json={"stream": True}) as response:
            async for chunk in response.content.iter_any():
                got += chunk
    except (aiohttp.ClientError, TimeoutError) as error:
        return got, error
    return got, None


def test_a_tidy_end_raises_nothing() -> None:
    (got, error), _ = _run_scenario(_case(Say("half"), CutOff("tidy")), _read_to_the_end)
    assert b"half" in got
    assert error is None


def test_a_close_without_terminator_is_seen_as_one() -> None:
    (got, error), provider = _run_scenario(_case(Say("half"), CutOff("fin")), _read_to_the_end)
    assert b"half" in got
    assert isinstance(error, aiohttp.ClientPayloadError)
    assert "ConnectionResetError" not in str(error)
    assert provider.requests[0].progress.over == "fin"


def test_a_reset_is_a_reset_and_swallows_nothing_that_was_sent() -> None:
    (got, error), provider = _run_scenario(
        _case(Say("x" * 5000, pieces=7), CutOff("reset")), _read_to_the_end
    )
    assert len(got) == provider.requests[0].progress.sent
    assert isinstance(error, aiohttp.ClientPayloadError)
    assert "ConnectionResetError" in str(error)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_connection_can_end_before_any_answer(how: str) -> None:
    (got, error), _ = _run_scenario(_case(CutOff(how)), _read_to_the_end)  # type: ignore[arg-type]
    assert got == b""
    assert isinstance(error, aiohttp.ClientConnectionError)


def test_a_half_character_arrives_as_half_a_character() -> None:
    (got, error), _ = _run_scenario(_case(Say("ok"), CutOff("fin", "character")), _read_to_the_end)
    assert error is not None
    with pytest.raises(UnicodeDecodeError, match="unexpected end of data"):
        got.decode()


def test_a_dribble_of_single_bytes_is_read_in_many_pieces() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> list[int]:
        async with client.post(provider.url + PATHS["openai_chat"], json={"stream": True}) as response:
            return [len(chunk) async for chunk, _ in response.content.iter_chunks()]

    sizes, provider = _run_scenario(_case(Dribble(1), Say("hello"), Finish()), scenario)
    assert set(sizes) - {0} == {1}  # aiohttp tells of an empty piece when it has paused the reading
    assert sum(sizes) == provider.requests[0].progress.sent


def test_stalls_take_virtual_time_and_no_real_one() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> list[float]:
        moments = []
        loop = asyncio.get_running_loop()
        async with client.post(provider.url + PATHS["openai_chat"], json={"stream": True}) as response:
            moments.append(loop.time())
            await response.read()
            moments.append(loop.time())
        return moments

    moments, _ = _run_scenario(_case(Stall(100), Open(), Comments(300, 10), Say("a"), Finish()), scenario)
    assert moments == pytest.approx([100, 400], abs=1)


@pytest.mark.parametrize(
    "steps",
    [
        (Stall("forever"),),
        (Open(), Stall("forever")),
        (Say("half"), Stall("forever")),
        (Say("half"), Comments("forever", 1.0)),
        (Dribble(1, 1.0), Say("a long text " * 100), Finish()),
    ],
    ids=["before headers", "after headers", "in text", "among comments", "in a dribble"],
)
def test_a_client_that_leaves_is_noticed_at_any_step_and_nothing_stays_behind(
    steps: tuple[ScriptItem, ...],
) -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> None:
        timeout = aiohttp.ClientTimeout(total=50)
        with pytest.raises(TimeoutError):
            async with client.post(
                provider.url + PATHS["anthropic"], json={"stream": True}, timeout=timeout
            ) as response:
                await response.read()
        await asyncio.sleep(1)

    _, provider = _run_scenario(_case(*steps), scenario)
    progress = provider.requests[0].progress
    assert progress.over == "client left"
    assert progress.over_at == pytest.approx(50, abs=1)


def test_stopping_the_provider_ends_what_is_still_going_on() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[bytes, Exception | None]:
        task = asyncio.create_task(_read_to_the_end(provider, client))
        await asyncio.sleep(5)
        await provider.__aexit__()
        return await task

    (got, error), provider = _run_scenario(_case(Say("half"), Stall("forever")), scenario)
    assert b"half" in got
    assert error is not None
    assert provider.requests[0].progress.over == "provider stopped"


def test_a_reader_that_does_not_read_holds_the_script_back() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> int:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", int(provider.url.rsplit(":", 1)[1]), limit=1024
        )
        body = b'{"stream":true}'
        writer.write(b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await asyncio.sleep(100)
        sent = provider.requests[0].progress.sent
        writer.transport.abort()
        await asyncio.sleep(1)
        return sent

    sent, provider = _run_scenario(_case(Say("x" * 40_000_000, pieces=100_000), Finish()), scenario)
    assert 0 < sent < 40_000_000
    assert provider.requests[0].progress.over == "client left"


def test_requests_that_are_sent_ahead_are_served_in_order_and_do_not_pile_up() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[int, int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(provider.url.rsplit(":", 1)[1]))
        body = b'{"model":"%b"}' % (b"x" * 50_000)
        writer.write(b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body) * 100)
        await asyncio.sleep(5)
        served_early = len(provider.requests)
        got = 0
        while got < 100:
            got += (await reader.readuntil(b'"stop_reason":"end_turn"')).count(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()
        return served_early, got

    (served_early, got), provider = _run_scenario(_case(Stall(10), Say("ok"), Finish()), scenario)
    assert served_early == 1
    assert got == len(provider.requests) == 100


def test_a_case_is_picked_by_header_then_by_model_then_by_default() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> None:
        await _ask(provider, client)
        await _ask(provider, client, model="lab:reasoning")
        await _ask(provider, client, model="lab:reasoning", headers={"X-Lab-Case": "tool"})

    _, provider = _run_scenario("happy", scenario)
    assert [got.case for got in provider.requests] == ["happy", "reasoning", "tool"]


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_an_unknown_case_is_refused_with_the_nearest_name(protocol: ProtocolName) -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> Reply:
        return await _ask(provider, client, protocol, model="lab:hapy")

    reply, _ = _run_scenario("happy", scenario)
    failed = reply.last.failure  # type: ignore[union-attr]
    assert (failed.kind, failed.status) == ("not_found", 404)
    assert failed.message == 'unknown case "hapy"; did you mean "happy"?'


def test_an_unknown_default_case_is_refused_at_once() -> None:
    with pytest.raises(ScriptError, match='did you mean "happy"'):
        Provider("hapy")


def test_the_nth_request_gets_the_nth_script_counted_per_case() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> list[bool]:
        return [(await _ask(provider, client, model=model)).ended for model in ("m", "lab:happy", "m", "m")]

    case = Case("flaky", "fails once", ((Status(500),), (Say("ok"), Finish())))
    ended, provider = _run_scenario(case, scenario)
    assert ended == [False, True, True, True]
    assert [(got.case, got.number) for got in provider.requests] == [
        ("flaky", 1),
        ("happy", 1),
        ("flaky", 2),
        ("flaky", 3),
    ]


def _said(protocol: ProtocolName, role: str, *texts: str) -> dict[str, Any]:
    if protocol == "gemini":
        return {"role": role.replace("assistant", "model"), "parts": [{"text": text} for text in texts]}
    parts = [{"type": "text", "text": text} for text in texts]
    return {"role": role, "content": texts[0] if len(texts) == 1 else parts}


TOOL_RESULTS: dict[ProtocolName, dict[str, Any]] = {
    "openai_chat": {
        "messages": [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "sunny"},
        ]
    },
    "openai_responses": {
        "input": [
            {"role": "user", "content": "weather?"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "sunny"},
        ]
    },
    "anthropic": {
        "messages": [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sunny"}]},
        ]
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "weather?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "sunny"}}}]},
        ]
    },
}


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_request_that_brings_tool_results_gets_the_answer_behind_the_tools(protocol: ProtocolName) -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[Reply, Reply, Reply]:
        items = TOOL_RESULTS[protocol]
        name, history = next(iter(items.items()))
        asked: dict[str, Any] = {name: history[:1]}
        later: dict[str, Any] = {
            name: [
                *history,
                _said(protocol, "assistant", "sunny"),
                _said(protocol, "user", "and now?"),
            ]
        }
        return (
            await _ask(provider, client, protocol, **asked),
            await _ask(provider, client, protocol, **items),
            await _ask(provider, client, protocol, **later),
        )

    (first, second, third), _ = _run_scenario("tool", scenario)
    assert [call.name for call in first.calls] == ["get_weather"]
    assert not second.calls
    assert second.text
    assert [call.name for call in third.calls] == ["get_weather"]


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_step_function_sees_what_was_asked(protocol: ProtocolName) -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> list[str]:
        name = next(iter(TOOL_RESULTS[protocol]))
        told: list[dict[str, Any]] = [
            {name: [_said(protocol, "user", *texts)]} for texts in (("one",), ("two ", "parts"))
        ]
        return [(await _ask(provider, client, protocol, **body)).text for body in told]

    texts, _ = _run_scenario("echo", scenario)
    assert texts == ["one", "two parts"]


def test_a_step_function_that_fails_is_answered_and_recorded() -> None:
    def broken(request: LabRequest) -> list[ScriptItem]:
        raise KeyError(request.model)

    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[int, Any]:
        async with client.post(provider.url + PATHS["openai_chat"], json={"model": "m"}) as response:
            return response.status, await response.json()

    (status, body), provider = _run_scenario(_case(broken), scenario)
    assert status == 500
    assert body["error"]["message"] == "the script failed: KeyError('m')"
    assert provider.requests[0].progress.problem == "the script failed: KeyError('m')"


def test_requests_are_recorded_as_they_came() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> None:
        await _ask(provider, client, headers={"Authorization": "Bearer k"}, temperature=0.5)

    _, provider = _run_scenario("happy", scenario)
    (got,) = provider.requests
    assert (got.method, got.path) == ("POST", "/v1/chat/completions")
    assert got.headers["authorization"] == "Bearer k"
    assert got.body == {"model": "m", "stream": True, "temperature": 0.5}


@pytest.mark.parametrize(
    "method, path, body, status",
    [
        ("GET", "/v1/chat/completions", None, 405),
        ("POST", "/v1/nowhere", b"{}", 404),
        ("POST", "/v1/messages", b"{oops", 400),
        ("POST", "/v1/responses", b"[]", 400),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    method: str, path: str, body: bytes | None, status: int
) -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[int, Any]:
        async with client.request(method, provider.url + path, data=body) as response:
            return response.status, json.loads(await response.read())

    (got, document), _ = _run_scenario("happy", scenario)
    assert got == status
    assert document["error"]["message"]


def test_every_case_is_listed_as_a_model() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[Any, str]:
        async with client.get(provider.url + "/v1/models") as response:
            models = await response.json()
        async with client.get(provider.url + "/") as response:
            return models, await response.text()

    (models, page), _ = _run_scenario(_case(Finish()), scenario)
    names = {model["id"] for model in models["data"]}
    assert {"lab:happy", "lab:reset-in-text", "lab:test"} <= names
    assert "reset-in-text  " in page


def test_a_client_of_the_old_kind_gets_a_body_that_ends_with_the_connection() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(provider.url.rsplit(":", 1)[1]))
        writer.write(b'POST /v1/messages HTTP/1.0\r\ncontent-length: 15\r\n\r\n{"stream":true}')
        got = await reader.read()
        writer.close()
        await writer.wait_closed()
        return got

    got, _ = _run_scenario("happy", scenario)
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.endswith(b'{"type":"message_stop"}\n\n')


def test_a_client_that_waits_for_a_word_gets_it_and_a_bad_request_is_told() -> None:
    async def scenario(provider: Provider, client: aiohttp.ClientSession) -> tuple[bytes, bytes]:
        port = int(provider.url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        told = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"{}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"nonsense\r\n\r\n")
        refused = await reader.read()
        writer.close()
        await writer.wait_closed()
        return told, refused

    (told, refused), _ = _run_scenario("happy", scenario)
    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert refused.startswith(b"HTTP/1.1 400 ")
