"""A long call through a provider that kills every stream: whoever asks gets it whole, and knows nothing of it."""

import json

import pytest
from client_scenes import LONG
from client_stage import ON_CHAT, ON_RESPONSES, Stage

pytestmark = pytest.mark.process

STREAMED = [
    *(("chat", client) for client, way in ON_CHAT if way == "stream"),
    *(("responses", client) for client, way in ON_RESPONSES if way == "stream"),
]


@pytest.mark.requirement("F10", "F11")
@pytest.mark.parametrize("surface, client", STREAMED)
def test_a_call_of_30000_characters_arrives_whole_though_every_stream_dies_after_4000(
    client_stage: Stage, surface: str, client: str
):
    seen = client_stage.ask(client, surface, "stream", "long", model="lab", tools=True)
    assert seen.error is None
    assert [(call["name"], json.loads(call["arguments"])) for call in seen.calls] == [
        ("keep_text", {"text": LONG})
    ]
    assert seen.ran == ["keep_text"]
    assert seen.text == "It is kept."
    assert len(client_stage.upstream(seen.key)) > len(LONG) // 4000
