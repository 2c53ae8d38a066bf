"""A second turn, with the history that the client itself kept of the first, in which the server ran tools."""

import msgspec
import pytest
from support.clients.client_harness import ON_CHAT, ON_RESPONSES, ClientHarness, new_key, prompt
from support.clients.client_scenarios import NOTE, WRITTEN

from turnbuckle.lab.cases.whole import ANSWER

pytestmark = pytest.mark.process

EVERYBODY = [
    *(("chat", client, way) for client, way in ON_CHAT),
    *(("responses", client, way) for client, way in ON_RESPONSES),
]


@pytest.mark.requirement("F10", "C5")
@pytest.mark.parametrize("surface, client, way", EVERYBODY)
def test_the_next_turn_knows_of_the_first_and_repeats_nothing(
    clients: ClientHarness, surface: str, client: str, way: str
):
    key = new_key()
    seen = clients.ask(client, surface, way, "tool", then=prompt("happy", key))
    assert seen.error is None
    assert seen.text == ANSWER
    assert seen.final in (None, ANSWER)
    assert seen.calls == seen.ran == []
    (asked,) = clients.upstream(key)
    assert WRITTEN in msgspec.json.encode(asked.body).decode()
    assert clients.note(seen.key) == NOTE
    assert len(clients.upstream(seen.key)) == 4
