"""Other people's clients on /v1/responses: what each of them shows is what happened."""

import pytest
from support.clients.client_harness import AGENTS, OFFICIAL, ON_RESPONSES, ClientHarness, Seen
from support.clients.client_scenarios import CUT_AT, NARRATION, NOTE, SUNNY, WRITTEN

from turnbuckle.lab.cases.whole import ANSWER, THOUGHT

pytestmark = [pytest.mark.process, pytest.mark.parametrize("client, way", ON_RESPONSES)]

WORDS = {
    "openai-python": ("completed", "incomplete"),
    "openai-python-async": ("completed", "incomplete"),
    "openai-node": ("completed", "incomplete"),
    "pydantic-ai": ("stop", "length"),
    "ai-sdk-openai": ("stop", "length"),
}
CALLS = [{"name": "get_weather", "arguments": '{"city":"Oslo"}'}]


def finished(seen: Seen, client: str, way: str) -> bool:
    """The client says that all is well. One of them says so only while it streams."""
    if client == "openai-agents":
        return seen.error is None and seen.finish == ("completed" if way == "stream" else None)
    return seen.finish == WORDS[client][0]


def shows_nothing_unfinished(seen: Seen, client: str, way: str) -> bool:
    """One of them takes what is incomplete for an error, and throws the text away."""
    if client != "openai-agents" or way != "plain":
        return False
    assert seen.error is not None
    assert "incomplete" in seen.error.message
    return True


def calls(seen: Seen) -> list[dict[str, str]]:
    return [{"name": call["name"], "arguments": call["arguments"]} for call in seen.calls]


@pytest.mark.requirement("F4", "F10")
def test_an_answer_arrives_whole_and_once(clients: ClientHarness, client: str, way: str):
    """C19."""
    seen = clients.ask(client, "responses", way, "happy")
    assert seen.error is None
    assert seen.text == ANSWER
    assert seen.final in (None, ANSWER)
    assert finished(seen, client, way)
    assert seen.calls == seen.ran == []
    assert seen.numbers == list(range(len(seen.numbers)))
    assert len(clients.upstream(seen.key)) == 1
    if way == "stream":
        assert seen.reasoning == THOUGHT
    assert seen.usage is not None
    assert min(seen.usage.values()) > 0
    if client in OFFICIAL:
        assert seen.outcome == "completed"


@pytest.mark.requirement("F4", "F10")
def test_a_tool_of_the_server_is_shown_and_run_by_the_server_alone(
    clients: ClientHarness, client: str, way: str
):
    """C18."""
    seen = clients.ask(client, "responses", way, "tool")
    assert seen.error is None
    last_only = client in AGENTS
    assert seen.text == (WRITTEN if last_only and way == "plain" else NARRATION + WRITTEN)
    assert seen.final in (None, WRITTEN if last_only else NARRATION + WRITTEN)
    assert finished(seen, client, way)
    assert seen.calls == seen.ran == []
    if client in {*OFFICIAL, *AGENTS}:
        assert seen.shown == ["write_file completed", "read_file completed"]
    else:
        assert seen.shown == [
            f"mcp.{name} {what}" for name in ("write_file", "read_file") for what in ("called", "completed")
        ]
    assert clients.note(seen.key) == NOTE
    assert len(clients.upstream(seen.key)) == 3


@pytest.mark.requirement("F4", "F10", "B3")
def test_a_stall_in_the_middle_is_not_seen(clients: ClientHarness, client: str, way: str):
    seen = clients.ask(client, "responses", way, "stall")
    assert seen.error is None
    assert seen.text == ANSWER
    assert seen.final in (None, ANSWER)
    assert finished(seen, client, way)
    assert len(clients.upstream(seen.key)) == 2


@pytest.mark.requirement("F4", "F10", "C6")
def test_an_answer_that_was_never_finished_says_so_where_everybody_looks(
    clients: ClientHarness, client: str, way: str
):
    seen = clients.ask(client, "responses", way, "dies")
    assert not finished(seen, client, way)
    if shows_nothing_unfinished(seen, client, way):
        return
    assert seen.text.startswith(f"{ANSWER[:CUT_AT]}\n\n[Not finished: ")


@pytest.mark.requirement("F4", "F10", "C6")
def test_a_failed_turn_is_an_error(clients: ClientHarness, client: str, way: str):
    seen = clients.ask(client, "responses", way, "refused", retries=0)
    assert seen.error is not None
    assert "the provider does not know this key" in seen.error.message
    assert seen.text == ""
    assert not finished(seen, client, way)


@pytest.mark.requirement("F4", "F10", "C6")
def test_what_was_done_before_a_turn_broke_is_not_done_again_by_a_client(
    clients: ClientHarness, client: str, way: str
):
    seen = clients.ask(client, "responses", way, "breaks-later")
    assert clients.note(seen.key) == NOTE
    if not shows_nothing_unfinished(seen, client, way):
        assert seen.text == "[Not finished: the engine is broken]"


@pytest.mark.requirement("F10", "F11")
@pytest.mark.parametrize("scenario", ["weather", "cut-weather"])
def test_a_call_of_the_clients_own_tool_is_handed_over_whole(
    clients: ClientHarness, client: str, way: str, scenario: str
):
    seen = clients.ask(client, "responses", way, scenario, model="lab", tools=True)
    assert seen.error is None
    assert calls(seen) == CALLS
    assert seen.ran == ["get_weather"]
    assert seen.text == SUNNY
    assert finished(seen, client, way)
    assert len(clients.upstream(seen.key)) == {"weather": 2, "cut-weather": 4}[scenario]


@pytest.mark.requirement("F10", "F11")
def test_tools_of_both_sides_work_in_one_turn(clients: ClientHarness, client: str, way: str):
    seen = clients.ask(client, "responses", way, "mixed", tools=True)
    assert seen.error is None
    assert calls(seen) == CALLS
    assert seen.ran == ["get_weather"]
    assert seen.text == SUNNY
    assert clients.note(seen.key) == NOTE
