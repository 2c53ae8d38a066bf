"""Coding agents group tools in namespaces, which only Responses knows. Behind us they are functions like any other."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, CutOff, Finish, LabRequest, Say, ScriptItem

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
