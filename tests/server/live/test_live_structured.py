"""An answer that a client wants as one JSON document, and that was cut, leaves as one document on every surface."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, Model, run_scenario

from turnbuckle.lab.script import CutOff, Finish, LabRequest, Say, ScriptItem
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "wind": {"type": "string"},
        "degrees": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["city", "wind", "degrees"],
    "additionalProperties": False,
}
WANTED = {"city": "Kiel by the sea", "wind": 'a "fresh" one from the north', "degrees": [7, 8, 9, 10, 11, 12]}
DOCUMENT = json.dumps(WANTED)
PLACES = (1, 9, 17, 34, 48, 60, 80, len(DOCUMENT) - 1)
FORM = {"name": "weather", "schema": SCHEMA, "strict": True}
CASES = [(place, how, end) for place in PLACES for how in ("rest", "anew") for end in ("reset", "length")]
HONEST = ("completed", "stop")


def documents() -> Model:
    """A model whose first words of each task are cut at a place, and that then goes on, or starts fresh. Forced into a
    form it always starts fresh, as providers do."""
    asked: Counter[tuple[str, ...]] = Counter()

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        said = json.dumps(request.body)
        found = re.search(r"cut (\d+) (rest|anew) (reset|length)", said)
        assert found
        asked[found.groups()] += 1
        place, how, end = int(found[1]), found[2], found[3]
        if asked[found.groups()] == 1:
            return (Say(DOCUMENT[:place]), Finish("length") if end == "length" else CutOff("reset"))
        forced = any(f'"{name}": {{' in said for name in ("response_format", "format", "output_format"))
        return (Say(DOCUMENT if forced or how == "anew" else DOCUMENT[place:]), Finish())

    return model


async def chat(server: LiveServer, model: str, task: str, *, stream: bool) -> tuple[str, str]:
    """The content, and why it ended."""
    form = {"type": "json_schema", "json_schema": FORM}
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": task}],
        "response_format": form,
    }
    if not stream:
        reply = await server.post("/v1/chat/completions", body)
        (choice,) = reply.json["choices"]
        return choice["message"]["content"], choice["finish_reason"]
    frames = await server.read("/v1/chat/completions", {**body, "stream": True})
    told = [choice for frame in frames[:-1] for choice in frame.json["choices"]]
    return "".join(one["delta"].get("content") or "" for one in told), told[-1]["finish_reason"]


async def response(server: LiveServer, model: str, task: str, *, stream: bool) -> tuple[str, str]:
    """The text of all messages, and the status."""
    body = {"model": model, "input": task, "text": {"format": {"type": "json_schema", **FORM}}}
    if not stream:
        made = (await server.post("/v1/responses", body)).json
        return _text(made), made["status"]
    frames = await server.read("/v1/responses", {**body, "stream": True})
    deltas = "".join(frame.json["delta"] for frame in frames if frame.event == "response.output_text.delta")
    made = frames[-1].json["response"]
    assert deltas == _text(made)
    return deltas, made["status"]


def _text(made: dict[str, Any]) -> str:
    messages = [item for item in made["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


SURFACES = {"chat": chat, "responses": response}


@pytest.mark.requirement("C10")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "plain"])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("model", ["agent", "lab"])
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_document_that_was_cut_leaves_as_one_document(
    protocol: ProtocolName, model: str, surface: str, stream: bool, tmp_path: Path
):
    async def scenario(server: LiveServer):
        return [
            await SURFACES[surface](server, model, f"cut {place} {how} {end}", stream=stream)
            for place, how, end in CASES
        ]

    got = run_scenario(scenario, tmp_path, documents(), protocol=protocol)
    wrong = {
        case: told
        for case, told in zip(CASES, got, strict=True)
        if told[0] != DOCUMENT or told[1] not in HONEST
    }
    assert not wrong
    assert json.loads(DOCUMENT) == WANTED
