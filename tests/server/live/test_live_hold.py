"""A stream that fails before its first word has a real status, and says whether it may be asked for again."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import openai
import pytest
from support.server.face_requests import FACES, PATHS, error_code, request_for
from support.server.live_server import LiveServer, gate, run_scenario
from support.server.scripted_models import LAST

from turnbuckle.lab.script import Call, CutOff, Finish, LabRequest, Say, ScriptItem, Status

LONG = 20.0
TOOL = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SURFACE = pytest.mark.parametrize("surface", FACES)
OPENAI = pytest.mark.parametrize("surface", ["chat", "response"])
Model = Callable[[LabRequest], Iterable[ScriptItem]]


def always(*steps: ScriptItem) -> Model:
    return lambda request: steps


def body(surface: str, model: str = "lab", **more: Any) -> dict[str, Any]:
    return request_for(f"{surface} stream", "Hello.", model, **more)[1]


def status_on(surface: str, status: int) -> int:
    """Anthropic's API has a status of its own for what is down or full, which its clients know."""
    return 529 if (surface, status) == ("messages", 503) else status


@pytest.mark.requirement("F11", "B14")
@SURFACE
@pytest.mark.parametrize(
    "step, status, again",
    [
        (Status(503), 503, "true"),
        (Status(429, "slow down", "rate_limit_exceeded"), 429, "true"),
        (CutOff("reset"), 502, "true"),
        (Status(401, "no such key"), 502, "false"),
        (Status(400, "prompt is too long", "context_length_exceeded"), 400, "false"),
    ],
    ids=["down", "full", "reset", "key", "context"],
)
def test_a_relay_that_gets_nothing_answers_with_a_status(
    tmp_path: Path, surface: str, step: ScriptItem, status: int, again: str
):
    async def scenario(server: LiveServer) -> None:
        reply = await server.post(PATHS[surface], body(surface))
        assert (reply.status, reply.headers["x-should-retry"]) == (status_on(surface, status), again)
        assert reply.headers["content-type"].startswith("application/json")
        assert ("retry-after" in reply.headers) == (status in (429, 503))
        assert error_code(reply) != "server_is_overloaded"
        assert reply.headers["x-turnbuckle-run"]

    run_scenario(scenario, tmp_path, always(step), hold=LONG)


@pytest.mark.requirement("F11")
@SURFACE
def test_what_an_agent_or_a_session_got_is_not_to_be_asked_for_again(tmp_path: Path, surface: str):
    async def scenario(server: LiveServer) -> None:
        agent = await server.post(PATHS[surface], body(surface, "agent"))
        kept = await server.post(PATHS[surface], body(surface), **{"X-Turnbuckle-Session": "one"})
        keyed = await server.post(PATHS[surface], body(surface), **{"Idempotency-Key": "k1"})
        for reply in (agent, kept, keyed):
            assert (reply.status, reply.headers["x-should-retry"]) == (status_on(surface, 503), "false")
            assert "retry-after" not in reply.headers

    run_scenario(scenario, tmp_path, always(Status(503)), hold=LONG)


@pytest.mark.requirement("F2", "F11")
@SURFACE
def test_a_stream_begins_with_its_first_word_and_at_the_end_of_the_hold_without_one(
    tmp_path: Path, surface: str
):
    async def scenario(server: LiveServer) -> None:
        async with server.listen(PATHS[surface], body(surface)) as listener:
            await listener.until(b"data: ")  # the model is still behind its door
            server.behind.gates.open(1)
            frames = await listener.rest()
        assert any(LAST[:12].encode() in frame.data for frame in frames)

    run_scenario(scenario, tmp_path, always(gate(1), Say(LAST, pieces=0), Finish()), hold=0.2)


@pytest.mark.requirement("F11")
@OPENAI
def test_the_official_client_repeats_by_itself_what_it_may(tmp_path: Path, surface: str):
    async def scenario(server: LiveServer) -> tuple[str, int]:
        url = f"http://127.0.0.1:{server.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=2) as client:
            if surface == "chat":
                chunks = await client.chat.completions.create(
                    model="lab", stream=True, messages=[{"role": "user", "content": "Hello."}]
                )
                said = "".join(
                    [chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices]
                )
            else:
                events = await client.responses.create(model="lab", input="Hello.", stream=True)
                said = "".join(
                    [event.delta async for event in events if event.type == "response.output_text.delta"]
                )
        return said, len(server.lab.requests)

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return (CutOff("reset"),) if request.number <= 2 else (Say(LAST), Finish())

    assert run_scenario(scenario, tmp_path, model, hold=LONG) == (LAST, 3)


@pytest.mark.requirement("B14", "F11")
@SURFACE
def test_a_relay_is_patient_while_nothing_was_shown(tmp_path: Path, surface: str):
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return (Status(503),) if request.number <= 3 else (Say(LAST), Finish())

    async def scenario(server: LiveServer) -> None:
        plain = await server.post(PATHS[surface], {**body(surface), "stream": False})
        assert plain.status == 200
        assert len(server.lab.requests) == 4

    run_scenario(scenario, tmp_path, model, patience=30)


@pytest.mark.requirement("F11", "C6")
@SURFACE
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "plain"])
def test_a_call_that_a_client_never_got_is_a_failure_and_no_part_of_an_answer(
    tmp_path: Path, surface: str, stream: bool
):
    tool: dict[str, Any] = {"name": "keep", "parameters": TOOL}
    spelled: dict[str, dict[str, Any]] = {
        "chat": {"type": "function", "function": tool},
        "response": {"type": "function", **tool},
        "messages": {"name": "keep", "input_schema": TOOL},
    }
    tools = [spelled[surface]]
    steps = (Say("I keep it. "), Call("keep", f'{{"text": "{"abcd " * 200}', closed=False), CutOff("reset"))

    async def scenario(server: LiveServer) -> Any:
        asked = {**body(surface, tools=tools), "stream": stream}
        if not stream:
            return await server.post(PATHS[surface], asked)
        async with server.listen(PATHS[surface], asked) as listener:
            await listener.rest()
        return listener.frames

    told = run_scenario(scenario, tmp_path, always(*steps), hold=0.1)
    if not stream:
        assert told.status >= 500
        assert told.json["error"]["message"]
    elif surface == "chat":
        assert "error" in told[-1].json
        assert all(frame.data != b"[DONE]" for frame in told)
        assert all((one.json.get("choices") or [{}])[0].get("finish_reason") is None for one in told)
    elif surface == "messages":
        assert told[-1].event == "error"
        assert all("tool_use" not in frame.data.decode() for frame in told)
    else:
        assert told[-1].json["type"] == "response.failed"
        assert told[-1].json["response"]["incomplete_details"] is None


SECOND = """
[[routes]]
name = "second"
protocol = "openai_chat"
base_url = "URL/v1"
api_key = "any"
model = "m2"
"""


@pytest.mark.requirement("B14")
@SURFACE
@pytest.mark.parametrize("wanted", ["lab", "agent"])
def test_the_answer_names_who_gave_it(tmp_path: Path, surface: str, wanted: str):
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        silent = request.body["model"] == "m" and "silent" in str(request.body["messages"])
        return (gate(9),) if silent else (Say(LAST), Finish())

    async def answered(server: LiveServer, words: str) -> list[str]:
        plain = await server.post(*request_for(surface, words, wanted))
        async with server.listen(*request_for(f"{surface} stream", words, wanted)) as listener:
            frames = await listener.rest()
        told = [frame.json for frame in frames if frame.data.startswith(b"{")]
        last = next((one["message"] for one in told if one.get("type") == "message_start"), told[-1])
        run = (await server.get(f"/v1/runs/{listener.run}")).json
        return [plain.json["model"], last.get("response", last)["model"], run["model"]]

    for words, first_event, name in (("whole", 60, "m"), ("silent", 0.3, "m2")):
        told = run_scenario(
            lambda server, words=words: answered(server, words),
            tmp_path,
            model,
            more=SECOND,
            first_event=first_event,
        )
        assert told == [name] * 3
