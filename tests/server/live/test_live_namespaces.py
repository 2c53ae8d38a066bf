"""Coding agents group tools in namespaces, which only Responses knows. Behind us they are functions like any other."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, CutOff, Finish, Frame, LabRequest, Say, ScriptItem

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "get", "parameters": SCHEMA, "strict": False}
TOOLS = [{"type": "namespace", "name": "weather", "description": "The weather.", "tools": [WEATHER]}]
ASKED = {"role": "user", "content": "How is it in Oslo?"}


class Forecaster:
    """Calls the tool under the name that it was offered; the first stream breaks inside the call."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        if results_brought(request):
            return (Say("Sunny."), Finish())
        self.asked += 1
        if self.asked == 1:
            return (Call("weather__get", '{"city":"Os', 0, closed=False), CutOff("reset"))
        return (Call("weather__get", {"city": "Oslo"}), Finish())


@pytest.mark.requirement("F11", "F4")
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_tool_in_a_namespace_is_handed_over_with_both_names(stream: bool, tmp_path: Path):
    async def scenario(server: LiveServer):
        body = {"model": "lab", "input": [ASKED], "tools": TOOLS, "stream": stream}
        if stream:
            first = (await server.read("/v1/responses", body))[-1].json["response"]
        else:
            first = (await server.post("/v1/responses", body)).json
        [call] = first["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        again = {"model": "lab", "input": [ASKED, call, result], "tools": TOOLS}
        second = (await server.post("/v1/responses", again)).json
        return call, second["output"][0]["content"][0]["text"], server.lab.requests[-1].body

    call, text, told = run_scenario(scenario, tmp_path, Forecaster())
    assert (call["namespace"], call["name"], call["arguments"]) == ("weather", "get", '{"city":"Oslo"}')
    assert text == "Sunny."
    assert told["tools"][0]["function"]["name"] == "weather__get"
    [said] = [message["tool_calls"] for message in told["messages"] if message.get("tool_calls")]
    assert said[0]["function"]["name"] == "weather__get"


def native(request: LabRequest) -> Iterable[ScriptItem]:
    """A provider that knows namespaces; the first stream breaks inside the call."""
    if results_brought(request):
        return (Say("Sunny."), Finish())
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get", "namespace": "weather"}
    about = {"output_index": 0, "item_id": "fc_1"}
    begun: list[ScriptItem] = [
        event("response.created", response={"id": "r", "model": "m", "status": "in_progress"}),
        event("response.output_item.added", output_index=0, item={**item, "arguments": ""}),
        event("response.function_call_arguments.delta", **about, delta='{"city":'),
    ]
    if request.number == 1:
        return [*begun, CutOff("reset")]
    whole = {**item, "arguments": '{"city":"Oslo"}', "status": "completed"}
    done = {"id": "r", "model": "m", "status": "completed", "output": [whole]}
    return [
        *begun,
        event("response.function_call_arguments.delta", **about, delta='"Oslo"}'),
        event("response.output_item.done", output_index=0, item=whole),
        event("response.completed", response=done),
    ]


def event(kind: str, **fields: Any) -> Frame:
    return Frame({"type": kind, **fields}, kind)


@pytest.mark.requirement("F11", "I8")
def test_to_a_provider_that_knows_namespaces_they_go_as_they_came_and_calls_come_back_so(tmp_path: Path):
    async def scenario(server: LiveServer):
        body = {"model": "lab", "input": [ASKED], "tools": TOOLS}
        (call,) = (await server.post("/v1/responses", body)).json["output"]
        assert (call["namespace"], call["name"], call["arguments"]) == ("weather", "get", '{"city":"Oslo"}')
        assert [request.body["tools"][0] for request in server.lab.requests] == [TOOLS[0]] * 2
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        foreign = {**call, "call_id": "theirs"}
        answer = {**result, "call_id": "theirs"}
        for said in ([call, result], [foreign, answer]):
            await server.post("/v1/responses", {**body, "input": [ASKED, *said]})
            told = [one for one in server.lab.requests[-1].body["input"] if one["type"] == "function_call"]
            assert [(one["namespace"], one["name"]) for one in told] == [("weather", "get")]

    run_scenario(scenario, tmp_path, native, protocol="openai_responses")


@pytest.mark.requirement("F11")
def test_a_call_in_a_namespace_that_others_made_has_its_whole_name_elsewhere(tmp_path: Path):
    async def scenario(server: LiveServer):
        call = {
            "type": "function_call",
            "call_id": "c",
            "name": "get",
            "namespace": "weather",
            "arguments": "{}",
        }
        result = {"type": "function_call_output", "call_id": "c", "output": "sunny"}
        await server.post("/v1/responses", {"model": "lab", "input": [ASKED, call, result], "tools": TOOLS})
        [said] = [
            one["tool_calls"] for one in server.lab.requests[-1].body["messages"] if one.get("tool_calls")
        ]
        assert said[0]["function"]["name"] == "weather__get"

    run_scenario(scenario, tmp_path, Forecaster())
