"""Our request in the words of Responses."""

import msgspec
import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.message import message_of
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, ToolSpec
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.openai_responses.request import build, endpoint
from turnbuckle.wire.protocol import bearer_headers
from turnbuckle.wire.registry import rules_of

USER = Message("user", (TextPart("Hi"),))
HI = {"type": "message", "role": "user", "content": "Hi"}
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "number"}}})


def body(*messages, quirks=None, **fields):
    return build(ModelRequest("m", messages, **fields), quirks or Quirks())


def items(*messages, **fields):
    return body(*messages, **fields)["input"]


def own(model="m", **data):
    return ProviderState("openai_responses", model, data)


def said(text):
    return {"type": "output_text", "text": text, "annotations": []}


def test_the_endpoint_is_responses():
    assert endpoint(ModelRequest("m", ())) == "/responses"


def test_the_key_goes_as_a_bearer_token():
    assert bearer_headers("sk-1", Quirks())["authorization"] == "Bearer sk-1"
    assert "authorization" not in bearer_headers("", Quirks())


def test_a_small_request_says_only_what_it_must():
    assert body(USER) == {
        "model": "m",
        "input": [HI],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_a_stored_response_needs_no_encrypted_reasoning():
    made = body(USER, quirks=Quirks(stored=True), stream=False)
    assert (made["store"], made["stream"], "include" in made) == (True, False, False)


def test_leading_system_messages_are_instructions_and_later_ones_stay_in_place():
    system = [Message("system", (TextPart(text),)) for text in ("One.", "Two.", "Three.")]
    made = body(system[0], system[1], USER, system[2])
    assert made["instructions"] == "One.\n\nTwo."
    assert made["input"] == [HI, {"type": "message", "role": "system", "content": "Three."}]


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"max_output_tokens": 9}, {"max_output_tokens": 9}),
        ({"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
        ({"effort": "low"}, {"reasoning": {"effort": "low"}}),
        ({"stop": ("END",)}, {}),
        (
            {"tools": (ADD,)},
            {
                "tools": [
                    {
                        "type": "function",
                        "name": "add",
                        "description": "Adds.",
                        "parameters": ADD.parameters,
                        "strict": False,
                    }
                ],
                "tool_choice": "auto",
            },
        ),
        ({"parallel_calls": False}, {}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {}, "strict": True},
                }
            },
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}}},
        ),
        ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
        ({"extra": {"include": [], "store": True}}, {"include": [], "store": True}),
    ],
)
def test_each_wish_has_its_place_in_the_body(fields, expected):
    assert body(USER, **fields) == {**body(USER), **expected}


@pytest.mark.parametrize(
    "choice, expected",
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("add"), {"type": "function", "name": "add"}),
    ],
)
def test_a_tool_choice_is_said_beside_the_tools(choice, expected):
    made = body(USER, tools=(ADD,), tool_choice=choice, parallel_calls=False)
    assert (made["tool_choice"], made["parallel_tool_calls"]) == (expected, False)


@pytest.mark.parametrize(
    "part, expected",
    [
        (
            ImagePart(url="https://x/i.png"),
            {"type": "input_image", "image_url": "https://x/i.png", "detail": "auto"},
        ),
        (
            ImagePart(data="QQ==", media_type="image/gif", detail="low"),
            {"type": "input_image", "image_url": "data:image/gif;base64,QQ==", "detail": "low"},
        ),
        (FilePart(file_id="file-1"), {"type": "input_file", "file_id": "file-1"}),
        (FilePart(url="https://x/a.pdf"), {"type": "input_file", "file_url": "https://x/a.pdf"}),
        (
            FilePart(name="a.pdf", data="QQ==", media_type="application/pdf"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
        ),
    ],
)
def test_pictures_and_files_go_as_parts_of_users_and_results(part, expected):
    content = [{"type": "input_text", "text": "see"}, expected]
    result = Message("tool", (ResultPart("call_1", (TextPart("see"), part)),))
    assert items(Message("user", (TextPart("see"), part)))[0]["content"] == content
    assert items(result) == [{"type": "function_call_output", "call_id": "call_1", "output": content}]


def test_calls_and_results_are_items_of_their_own():
    history = (
        Message(
            "assistant", (TextPart("Wait."), CallPart("c1", "add", '{"a":1}'), CallPart("c2", "now", " "))
        ),
        Message("tool", (ResultPart("c1", (TextPart("2"),)), ResultPart("c2", ()))),
    )
    assert items(*history) == [
        {"type": "message", "role": "assistant", "content": [said("Wait.")]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
    ]


@pytest.mark.requirement("A3")
def test_reasoning_goes_back_as_it_came_and_in_its_place():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    state = own(**item, status="completed", content=None)
    call = own(type="function_call", id="fc_1", status="completed", namespace="files")
    made = items(Message("assistant", (ReasoningPart("x", state), CallPart("c1", "add", "{}", call))))
    assert made == [
        item,
        {
            "type": "function_call",
            "id": "fc_1",
            "namespace": "files",
            "call_id": "c1",
            "name": "add",
            "arguments": "{}",
        },
    ]


@pytest.mark.requirement("A3")
def test_a_decoded_reply_goes_back_item_by_item():
    whole = {
        "id": "resp_1",
        "model": "m",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "phase": "commentary",
                "content": [said("One."), {**said("Two."), "annotations": [{"type": "file_citation"}]}],
            },
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        ],
    }
    decoder = open_answer("openai_responses")
    reply = fold(decoder.feed(msgspec.json.encode(whole)) + decoder.close())
    assert items(message_of(reply, rules_of("openai_responses"), "m")) == whole["output"]


@pytest.mark.requirement("A3")
def test_state_of_another_protocol_stays_at_home():
    foreign = ProviderState("anthropic", "m", {"type": "thinking", "signature": "s"})
    message = Message(
        "assistant",
        (
            ReasoningPart("thought", foreign),
            ReasoningPart("thought"),
            OpaquePart(foreign),
            TextPart("Yes.", foreign),
            CallPart("c1", "add", "{}", foreign),
        ),
    )
    assert items(message) == [
        {"type": "message", "role": "assistant", "content": [said("Yes.")]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
    ]


def test_ids_of_items_that_another_model_made_are_left_out():
    text = TextPart("Yes.", own("other", type="message", id="msg_1", status="completed"))
    call = CallPart("c1", "add", "{}", own("other", type="function_call", id="fc_1"))
    assert ["id" in item for item in items(Message("assistant", (text, call)))] == [False, False]


def test_a_refusal_joins_the_message_that_it_was_part_of():
    text = TextPart("Well.", own(type="message", id="msg_1", status="completed"))
    (made,) = items(Message("assistant", (text, RefusalPart("No."))))
    assert made["content"] == [said("Well."), {"type": "refusal", "refusal": "No."}]
    (alone,) = items(Message("assistant", (RefusalPart("No."),)))
    assert alone == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}],
    }


def test_a_custom_call_and_its_result_keep_their_kind():
    call = CallPart("c1", "sql", "SELECT 1;\n", own(type="custom_tool_call", id="ctc_1", status="completed"))
    made = items(Message("assistant", (call,)), Message("tool", (ResultPart("c1", (TextPart("1"),)),)))
    assert made == [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sql", "input": "SELECT 1;\n"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"},
    ]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_an_odd_history_is_sent_as_far_as_it_can_be(role):
    parts = (ResultPart("c", ()), CallPart("", "", "{"), ImagePart(), OpaquePart(own()), RefusalPart(""))
    assert isinstance(items(Message(role, parts), Message(role, ())), list)
