"""Items of a Responses client go on to a provider of the same protocol as they came."""

import msgspec
import pytest

from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.openai_responses.parse_request import ResponsesAsked, read_response
from turnbuckle.wire.openai_responses.request import build

HI = {"role": "user", "content": "Hi."}


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(
    "items",
    [
        [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be."}]}],
        [{"type": "message", "role": "system", "content": "Be."}],
        [{"type": "message", "id": "msg_1", "role": "user", "content": "Hello."}],
        [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "id": "fco_1", "call_id": "c", "output": "a"},
        ],
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Fix the bug."},
                    {"type": "input_text", "text": "<environment>", "x": 1},
                    {"type": "input_image", "file_id": "f", "detail": "low"},
                    {"type": "input_audio", "input_audio": {"data": "AA=="}},
                ],
                "of_tomorrow": True,
            }
        ],
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
            {
                "type": "custom_tool_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            },
        ],
        [{"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}}],
    ],
)
def test_an_item_goes_to_its_own_protocol_as_it_came(items):
    asked = read_response(msgspec.json.encode({"model": "m", "input": [*items, HI]}))
    assert isinstance(asked, ResponsesAsked), asked
    body = build(ModelRequest("m", asked.messages), Quirks())
    assert body["input"][: len(items)] == items
