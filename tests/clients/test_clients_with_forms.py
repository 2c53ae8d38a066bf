"""Structured output: the form that a client asks for reaches the model, and what comes back fits it."""

import json

import pytest
from support.clients.client_harness import ON_CHAT, ON_RESPONSES, ClientHarness
from support.clients.client_scenarios import FORM

pytestmark = pytest.mark.process

EVERYBODY = [
    *(("chat", client) for client, way in ON_CHAT if way == "plain"),
    *(("responses", client) for client, way in ON_RESPONSES if way == "plain"),
]


@pytest.mark.requirement("F10", "F11")
@pytest.mark.parametrize("model", ["lab", "agent"])
@pytest.mark.parametrize("surface, client", EVERYBODY)
def test_an_answer_has_the_form_that_the_client_asked_for(
    clients: ClientHarness, surface: str, client: str, model: str
):
    seen = clients.ask(client, surface, "form", "form", model=model)
    assert seen.error is None
    assert json.loads(seen.text) == json.loads(FORM)
    (asked,) = clients.upstream(seen.key)
    schema = asked.body["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]) == {"city", "sunny"}
