"""A reader that leaves a background response and comes back by the number of the last event that it has."""

import pytest
from support.clients.client_harness import ClientHarness
from support.clients.client_scenarios import CUT_AT, NARRATION, WRITTEN

from turnbuckle.lab.cases.whole import ANSWER

pytestmark = pytest.mark.process

CLIENTS = [
    *(
        (client, way)
        for client in ("openai-python", "openai-python-async")
        for way in ("resume", "resume-helper")
    ),
    ("openai-node", "resume"),
]


@pytest.mark.requirement("F4", "F10")
@pytest.mark.parametrize("client, way", CLIENTS)
@pytest.mark.parametrize("leave_after", [1, 2, 7, 20])
def test_who_comes_back_gets_each_event_once(clients: ClientHarness, client: str, way: str, leave_after: int):
    """C19."""
    seen = clients.ask(client, "responses", way, "happy", leave_after=leave_after)
    assert seen.error is None
    assert seen.numbers == list(range(len(seen.numbers)))
    assert seen.text == seen.final == ANSWER
    assert seen.finish == "completed"
    assert len(clients.upstream(seen.key)) == 1


@pytest.mark.requirement("F4", "F10")
@pytest.mark.parametrize("client, way", CLIENTS)
def test_who_comes_back_behind_a_tool_of_the_server_sees_it_once(
    clients: ClientHarness, client: str, way: str
):
    """C19."""
    seen = clients.ask(client, "responses", way, "tool", leave_after=14)
    assert seen.error is None
    assert seen.numbers == list(range(len(seen.numbers)))
    assert seen.text == seen.final == NARRATION + WRITTEN
    assert len(clients.upstream(seen.key)) == 3


@pytest.mark.requirement("F4", "F10")
@pytest.mark.parametrize("client, way", CLIENTS)
def test_who_leaves_during_a_stall_finds_the_whole_answer(clients: ClientHarness, client: str, way: str):
    """C19."""
    seen = clients.ask(client, "responses", way, "stall", leave_after=13)
    assert seen.error is None
    assert seen.numbers == list(range(len(seen.numbers)))
    assert seen.text == seen.final == ANSWER
    assert len(ANSWER) > CUT_AT
