"""A host that does not take back a part of its own answer, and says so in words that nobody knows."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import ApiClient, LiveServer, lab_provider, run, run_scenario, serve_live

from turnbuckle.lab.script import LabRequest, ScriptItem, Status

ODD = "zebra_stripes"
WORDS = "It is four."
NO_TOOLS = "enable = []"
REFUSAL = json.dumps({"error": {"message": "Bad thing at position 3.", "type": "invalid_request_error"}})
MESSAGE = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed"}
ANSWERS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {
                    "role": "assistant",
                    "content": [{"type": "text", "text": WORDS}, {"type": ODD, "x": 1}],
                },
            }
        ]
    },
    "openai_responses": {
        "object": "response",
        "status": "completed",
        "output": [
            {"type": ODD, "id": "odd_1", "x": 1},
            {**MESSAGE, "content": [{"type": "output_text", "text": WORDS, "annotations": []}]},
        ],
    },
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        "content": [{"type": ODD, "x": 1}, {"type": "text", "text": WORDS}],
        "usage": {"input_tokens": 5, "output_tokens": 5},
    },
    "gemini": {
        "candidates": [
            {
                "index": 0,
                "finishReason": "STOP",
                "content": {"role": "model", "parts": [{ODD: {"x": 1}}, {"text": WORDS}]},
            }
        ]
    },
}


class Zoo:
    """Answers with a part that only it knows, and refuses whatever holds one."""

    def __init__(self, protocol: str, *, always: bool = False, status: int = 400) -> None:
        self.refused = 0
        self._answer = {"id": "a", "model": "m", **ANSWERS[protocol]}
        self._always, self._status = always, status

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        if ODD in json.dumps(request.body) or (self._always and request.number > 1):
            self.refused += 1
            return (Status(self._status, body=REFUSAL),)
        return (Status(200, body=json.dumps(self._answer)),)


async def says(server: ApiClient, words: str, session: str = "a") -> dict[str, Any]:
    reply = await server.post(f"/v1/sessions/{session}/messages", {"input": words})
    return await server.ended(reply.json["id"])


@pytest.mark.requirement("I8", "B7")
@pytest.mark.parametrize("protocol, status", [*zip(ANSWERS, (400, 422, 400, 422), strict=True)])
def test_it_is_asked_once_more_without_the_part_and_not_again_in_the_session(
    tmp_path: Path, protocol: str, status: int
) -> None:
    zoo = Zoo(protocol, status=status)

    async def main() -> None:
        async with lab_provider(zoo) as behind:
            settings = {"protocol": protocol, "tools": NO_TOOLS, "server": "drain = 0"}
            async with serve_live(tmp_path, behind, **settings) as server:
                await server.post("/v1/sessions", {"id": "a"})
                first, second, third = [await says(server, words) for words in ("One?", "Two?", "Three?")]
                assert [one["status"] for one in (first, second, third)] == ["completed"] * 3
                assert [len(one["notices"]) for one in (first, second, third)] == [0, 1, 0]
                told = "stream broke (invalid): retrying without parts that only the provider knows"
                assert second["notices"] == [told]
                assert zoo.refused == 1, "what was learned holds for the session"
                events = await server.events(second["id"])
                (decided,) = [one.json for one in events if one.event == "decided"]
                assert decided["decision"]["change"] == "words_only"
                kept = json.dumps((await server.get("/v1/sessions/a/messages?limit=50")).json)
                assert kept.count(WORDS) == 3
            async with serve_live(tmp_path, behind, **settings) as server:
                assert (await says(server, "Four?"))["status"] == "completed"
        assert zoo.refused == 1, "and after a restart"
        bodies = [json.dumps(request.body) for request in behind.lab.requests]
        assert bodies[-1].count(WORDS) == 3, "its words are told all the same"

    run(main())


@pytest.mark.requirement("I8", "B7")
def test_a_refusal_for_another_reason_is_told_behind_one_try_and_nothing_is_learned(tmp_path: Path) -> None:
    zoo = Zoo("openai_chat", always=True)

    async def scenario(server: LiveServer) -> None:
        await server.post("/v1/sessions", {"id": "a"})
        views = [await says(server, words) for words in ("One?", "Two?", "Three?")]
        assert [one["status"] for one in views] == ["completed", "failed", "failed"]
        assert "Bad thing at position 3." in json.dumps(views[1])
        sent = [ODD in json.dumps(request.body) for request in server.lab.requests]
        assert sent == [False, True, False, True, False], "each turn tries both, and no more"

    run_scenario(scenario, tmp_path, zoo, tools=NO_TOOLS)


@pytest.mark.requirement("I9")
def test_in_a_relay_the_refusal_goes_to_the_client_as_it_is(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        content = ANSWERS["openai_chat"]["choices"][0]["message"]["content"]
        said = [
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": "Two?"},
        ]
        reply = await server.post("/v1/chat/completions", {"model": "lab", "messages": said})
        assert reply.status == 400
        assert reply.json["error"]["message"] == "Bad thing at position 3."
        (request,) = server.lab.requests
        assert request.body["messages"][1]["content"] == content

    run_scenario(scenario, tmp_path, Zoo("openai_chat"), tools=NO_TOOLS)
