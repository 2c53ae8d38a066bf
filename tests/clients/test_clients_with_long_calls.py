"""A long call through a provider that kills every stream: whoever asks gets it whole, and knows nothing of it."""

import json

import pytest
from support.clients.client_harness import ON_CHAT, ON_RESPONSES, ClientHarness
from support.clients.client_scenarios import LONG

pytestmark = pytest.mark.process

STREAMED = [
    *(("chat", client) for client, way in ON_CHAT if way == "stream"),
    *(("responses", client) for client, way in ON_RESPONSES if way == "stream"),
]


@pytest.mark.requirement("F10", "F11")
@pytest.mark.parametrize("surface, client", STREAMED)
def test_a_call_of_30000_characters_arrives_whole_though_every_stream_dies_after_4000(
    clients: ClientHarness, surface: str, client: str
):
    seen = clients.ask(client, surface, "stream", "long", model="lab", tools=True)
    assert seen.error is None
    assert [(call["name"], json.loads(call["arguments"])) for call in seen.calls] == [
        ("keep_text", {"text": LONG})
    ]
    assert seen.ran == ["keep_text"]
    assert seen.text == "It is kept."
    assert len(clients.upstream(seen.key)) > len(LONG) // 4000
