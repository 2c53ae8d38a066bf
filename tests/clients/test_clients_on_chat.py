"""Other people's clients on /v1/chat/completions: what each of them shows is what happened."""

import pytest
from support.clients.client_harness import OFFICIAL, ON_CHAT, ClientHarness, Seen
from support.clients.client_scenarios import CUT_AT, NARRATION, NOTE, SUNNY, WRITTEN

from turnbuckle.lab.cases.whole import ANSWER, THOUGHT

pytestmark = [pytest.mark.process, pytest.mark.parametrize("client, way", ON_CHAT)]

NO_REASONING = {"ai-sdk-openai"}  # it leaves the field out that every other one shows
NO_REASONING_IN_ONE_PIECE = {"pydantic-ai", "openai-agents"}
TELLS_NO_FINISH = {"openai-agents"}
RAISES_AT_LENGTH = {"openai-python", "openai-python-async"}
CALLS = [{"name": "get_weather", "arguments": '{"city":"Oslo"}'}]


def finish(client: str, word: str) -> str | None:
    return None if client in TELLS_NO_FINISH else word


def calls(seen: Seen) -> list[dict[str, str]]:
    return [{"name": call["name"], "arguments": call["arguments"]} for call in seen.calls]


@pytest.mark.requirement("F1", "F10")
def test_an_answer_arrives_whole_and_once(clients: ClientHarness, client: str, way: str):
    seen = clients.ask(client, "chat", way, "happy")
    assert seen.error is None
    assert seen.text == ANSWER
    assert seen.final in (None, ANSWER)
    assert seen.finish == finish(client, "stop")
    assert seen.calls == seen.ran == []
    assert len(clients.upstream(seen.key)) == 1
    if way == "stream" and client not in NO_REASONING:
        assert seen.reasoning == THOUGHT
    if way == "plain" or (way == "stream" and client in OFFICIAL):
        assert seen.usage is not None
        assert min(seen.usage.values()) > 0
    if way != "helper" and client in OFFICIAL:
        assert seen.outcome == "completed"


@pytest.mark.requirement("F3", "F10")
def test_a_tool_of_the_server_is_run_by_the_server_alone(clients: ClientHarness, client: str, way: str):
    """C18."""
    seen = clients.ask(client, "chat", way, "tool")
    assert seen.error is None
    assert seen.text == f"{NARRATION}\n\n{WRITTEN}"
    assert seen.final in (None, seen.text)
    assert seen.finish == finish(client, "stop")
    assert seen.calls == seen.ran == []
    assert clients.note(seen.key) == NOTE
    assert len(clients.upstream(seen.key)) == 3
    if way == "stream" and client in OFFICIAL:
        assert seen.shown == [
            "write_file running",
            "write_file completed",
            "read_file running",
            "read_file completed",
        ]


@pytest.mark.requirement("F10", "B3")
def test_a_stall_in_the_middle_is_not_seen(clients: ClientHarness, client: str, way: str):
    seen = clients.ask(client, "chat", way, "stall")
    assert seen.error is None
    assert seen.text == ANSWER
    assert seen.final in (None, ANSWER)
    assert seen.finish == finish(client, "stop")
    assert len(clients.upstream(seen.key)) == 2


@pytest.mark.requirement("F10", "C6")
def test_an_answer_that_was_never_finished_says_so_where_everybody_looks(
    clients: ClientHarness, client: str, way: str
):
    seen = clients.ask(client, "chat", way, "dies")
    assert seen.text.startswith(f"{ANSWER[:CUT_AT]}\n\n[Not finished: ")
    assert seen.text.endswith("]")
    assert seen.final in (None, seen.text)
    if way == "helper" and client in RAISES_AT_LENGTH:
        assert seen.error is not None
        assert seen.error.kind == "LengthFinishReasonError"
    else:
        assert seen.error is None
        assert seen.finish == finish(client, "length")
    if way != "helper" and client in OFFICIAL:
        assert seen.outcome == "partial"


@pytest.mark.requirement("F1", "F10", "C6")
@pytest.mark.parametrize(
    "scenario, words",
    [("refused", "the provider does not know this key"), ("broken", "the engine is broken")],
)
def test_a_failed_turn_is_an_error(clients: ClientHarness, client: str, way: str, scenario: str, words: str):
    seen = clients.ask(client, "chat", way, scenario, retries=0)
    assert seen.error is not None
    assert words in seen.error.message
    assert seen.text == ""
    assert seen.finish in (None, "error")


@pytest.mark.requirement("F10", "C6")
def test_what_was_done_before_a_turn_broke_is_not_done_again_by_a_client(
    clients: ClientHarness, client: str, way: str
):
    seen = clients.ask(client, "chat", way, "breaks-later")
    assert seen.text == "[Not finished: the engine is broken]"
    assert clients.note(seen.key) == NOTE


@pytest.mark.requirement("F10", "F11")
@pytest.mark.parametrize("scenario", ["weather", "cut-weather"])
def test_a_call_of_the_clients_own_tool_is_handed_over_whole(
    clients: ClientHarness, client: str, way: str, scenario: str
):
    seen = clients.ask(client, "chat", way, scenario, model="lab", tools=True)
    assert seen.error is None
    assert calls(seen) == CALLS
    assert seen.ran == ["get_weather"]
    assert seen.text == SUNNY
    assert seen.finish == finish(client, "stop")
    assert len(clients.upstream(seen.key)) == {"weather": 2, "cut-weather": 4}[scenario]


@pytest.mark.requirement("F10", "F11")
def test_tools_of_both_sides_work_in_one_turn(clients: ClientHarness, client: str, way: str):
    seen = clients.ask(client, "chat", way, "mixed", tools=True)
    assert seen.error is None
    assert calls(seen) == CALLS
    assert seen.ran == ["get_weather"]
    assert seen.text == SUNNY
    assert clients.note(seen.key) == NOTE
