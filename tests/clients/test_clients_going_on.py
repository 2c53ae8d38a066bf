"""A second turn, with the history that the client itself kept of the first, in which the server ran tools."""

import msgspec
import pytest
from client_scenes import NOTE, WRITTEN
from client_stage import ON_CHAT, ON_RESPONSES, Stage, new_key, prompt

from turnbuckle.lab.cases.whole import ANSWER

pytestmark = pytest.mark.process

EVERYBODY = [
    *(("chat", client, way) for client, way in ON_CHAT),
    *(("responses", client, way) for client, way in ON_RESPONSES),
]


@pytest.mark.requirement("F10", "C5")
@pytest.mark.parametrize("surface, client, way", EVERYBODY)
def test_the_next_turn_knows_of_the_first_and_repeats_nothing(
    client_stage: Stage, surface: str, client: str, way: str
):
    key = new_key()
    seen = client_stage.ask(client, surface, way, "tool", then=prompt("happy", key))
    assert seen.error is None
    assert seen.text == ANSWER
    assert seen.final in (None, ANSWER)
    assert seen.calls == seen.ran == []
    (asked,) = client_stage.upstream(key)
    assert WRITTEN in msgspec.json.encode(asked.body).decode()
    assert client_stage.note(seen.key) == NOTE
    assert len(client_stage.upstream(seen.key)) == 4
