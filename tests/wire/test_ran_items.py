"""Calls that the server ran come back in a client's own copy of the conversation."""

import msgspec
import pytest

from turnbuckle.vocab.messages import CallPart, Message, OpaquePart, ResultPart, TextPart
from turnbuckle.wire.openai_responses.input_items import references
from turnbuckle.wire.openai_responses.parse_request import ResponsesAsked, read_response

RAN = {
    "type": "mcp_call",
    "id": "mcp_r1_1",
    "server_label": "turnbuckle",
    "name": "write_file",
    "arguments": '{"path":"a"}',
    "output": "written",
    "error": None,
    "status": "completed",
}
SAID = {
    "type": "message",
    "id": "msg_r1_0",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "So."}],
}


def messages(*items: dict, stored: dict | None = None) -> tuple[Message, ...]:
    body = msgspec.json.encode({"model": "m", "input": list(items)})
    asked = read_response(body, stored=stored)
    assert isinstance(asked, ResponsesAsked)
    return asked.messages


@pytest.mark.requirement("F4", "C5")
def test_a_call_that_was_run_here_is_a_call_and_its_result_again():
    said, result, after = messages(SAID, RAN, {**SAID, "id": "msg_r1_2"})
    assert [type(part) for part in said.parts] == [TextPart, CallPart]
    assert said.parts[1] == CallPart("mcp_r1_1", "write_file", '{"path":"a"}')
    assert result == Message("tool", (ResultPart("mcp_r1_1", (TextPart("written"),)),))
    assert [part.text for part in after.parts] == ["So."]


@pytest.mark.requirement("F4", "C5")
def test_two_of_them_keep_their_order():
    made = messages(RAN, {**RAN, "id": "mcp_r1_2", "output": "again"})
    assert [message.role for message in made] == ["assistant", "tool", "assistant", "tool"]
    assert [message.parts[0].call_id for message in made if message.role == "tool"] == [
        "mcp_r1_1",
        "mcp_r1_2",
    ]


@pytest.mark.requirement("F4", "C5")
def test_one_that_failed_is_a_failed_result():
    failed = {**RAN, "error": {"type": "mcp_tool_execution_error", "content": []}, "output": "no such folder"}
    assert messages(failed)[1].parts == (ResultPart("mcp_r1_1", (TextPart("no such folder"),), True),)


@pytest.mark.requirement("F4")
def test_a_call_that_somebody_else_ran_stays_what_only_its_provider_understands():
    (made,) = messages({**RAN, "server_label": "elsewhere"})
    assert [type(part) for part in made.parts] == [OpaquePart]


@pytest.mark.requirement("F4")
def test_one_that_is_only_named_is_the_same_as_the_item_itself():
    named = {"type": "item_reference", "id": "mcp_r1_1"}
    body = msgspec.json.encode({"model": "m", "input": [named]})
    assert references(body) == ("mcp_r1_1",)
    assert messages(named, stored={"mcp_r1_1": RAN}) == messages(RAN)
