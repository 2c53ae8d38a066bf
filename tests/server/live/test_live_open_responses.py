"""The cases of the Open Responses suite that go by HTTP: its requests, and the fields that its schema wants."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

WANTED = {
    "id": str,
    "object": str,
    "created_at": int,
    "completed_at": (int, type(None)),
    "status": str,
    "incomplete_details": (dict, type(None)),
    "model": str,
    "previous_response_id": (str, type(None)),
    "instructions": (str, list, type(None)),
    "output": list,
    "error": (dict, type(None)),
    "tools": list,
    "tool_choice": (str, dict),
    "truncation": str,
    "parallel_tool_calls": bool,
    "text": dict,
    "top_p": (int, float),
    "presence_penalty": (int, float),
    "frequency_penalty": (int, float),
    "top_logprobs": int,
    "temperature": (int, float),
    "reasoning": (dict, type(None)),
    "usage": (dict, type(None)),
    "max_output_tokens": (int, type(None)),
    "max_tool_calls": (int, type(None)),
    "store": bool,
    "background": bool,
    "service_tier": str,
    "metadata": dict,
    "safety_identifier": (str, type(None)),
    "prompt_cache_key": (str, type(None)),
}
"""The fields that the specification requires of a response, and what they are."""
DOT = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **more}


CASES: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [said("user", "Greet me in three words.")]},
    "assistant-phase": {
        "input": [
            said("assistant", "I look at the number that was kept.", phase="commentary"),
            said("assistant", "It is four.", phase="final_answer"),
            said("user", "Say only the number."),
        ]
    },
    "system-prompt": {"input": [said("system", "You are a sailor."), said("user", "Say hello.")]},
    "tool-calling": {"input": [said("user", "What is the weather in Oslo?")], "tools": [WEATHER]},
    "image-input": {
        "input": [
            said(
                "user",
                [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": DOT}],
            )
        ]
    },
    "multi-turn": {
        "input": [said("user", "I am Alice."), said("assistant", "Hello Alice."), said("user", "Who am I?")]
    },
}


def model(request: LabRequest) -> Iterable[ScriptItem]:
    if request.body.get("tools"):
        return (Call("get_weather", {"location": "Oslo"}), Finish())
    return (Say("Hello to you."), Finish())


@pytest.mark.realtime
@pytest.mark.requirement("J3")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", CASES)
def test_a_case_of_the_suite_is_answered_with_every_field_of_the_specification(
    case: str, stream: bool, tmp_path: Path
):
    async def scenario(server: LiveServer):
        body = {"model": "lab", "stream": stream, **CASES[case]}
        if not stream:
            return (await server.post("/v1/responses", body)).json, []
        frames = await server.read("/v1/responses", body)
        return frames[-1].json["response"], [frame.json for frame in frames]

    response, events = run_scenario(scenario, tmp_path, model)
    wrong = {
        name: response.get(name, "missing")
        for name, kind in WANTED.items()
        if not isinstance(response.get(name, _GONE), kind)
    }
    assert wrong == {}
    assert response["status"] == "completed"
    kinds = [item["type"] for item in response["output"]]
    assert kinds == (["function_call"] if case == "tool-calling" else ["message"])
    assert all(event["sequence_number"] == number for number, event in enumerate(events))


_GONE = object()
