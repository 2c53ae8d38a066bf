"""A client's input by Responses: each item is kept whole or refused, goes on as it was, and can be listed again."""

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.responses import ResponseInputItemParam, ResponseItem
from pydantic import TypeAdapter
from support.wire.request_bodies import texts

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.message import message_of
from turnbuckle.reply.repair import repair
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.free_text import wrapped
from turnbuckle.vocab.ids import PROTOCOL_NAMES
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
    text_of,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.openai_responses.input_items import references
from turnbuckle.wire.openai_responses.parse_request import ResponsesAsked, read_response
from turnbuckle.wire.openai_responses.request import build
from turnbuckle.wire.registry import rules_of

HI = {"role": "user", "content": "Hi."}
SAID_HI = Message("user", (TextPart("Hi."),))
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "e",
}
SPOKEN = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"p":"a"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "2"}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}


def read(*items, **how):
    return read_response(msgspec.json.encode({"model": "m", "input": items}), **how)


def bare(messages):
    """Without how a client has spelled them."""
    return [(message.role, tuple(_bare(part) for part in message.parts)) for message in messages]


def _bare(part):
    return replace(part, state=None) if isinstance(part, ResultPart) else part


def asked(*items, **how):
    found = read(*items, **how)
    assert isinstance(found, ResponsesAsked), found
    return found


def own(**data):
    return ProviderState("openai_responses", "", data)


def said(text, **more):
    return {"type": "output_text", "text": text, "annotations": [], **more}


# Items


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "item, role, part",
    [
        ({"role": "user", "content": "a"}, "user", TextPart("a")),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            "user",
            TextPart("a"),
        ),
        ({"role": "system", "content": "a"}, "system", TextPart("a")),
        ({"role": "developer", "content": [{"type": "input_text", "text": "a"}]}, "system", TextPart("a")),
        (
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": "https://x/y", "detail": "auto"}],
            },
            "user",
            ImagePart(url="https://x/y"),
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/gif;base64,AA=="}]},
            "user",
            ImagePart(data="AA==", media_type="image/gif"),
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_url": "https://x/a.pdf"}]},
            "user",
            FilePart(url="https://x/a.pdf"),
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
            "user",
            FilePart(file_id="f"),
        ),
        ({"role": "assistant", "content": "a"}, "assistant", TextPart("a")),
        ({"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}, "assistant", TextPart("a")),
        (
            {"role": "assistant", "content": "a", "phase": "commentary"},
            "assistant",
            TextPart("a", own(type="message", phase="commentary")),
        ),
        (
            {**SPOKEN, "content": [said("a", logprobs=[])]},
            "assistant",
            TextPart("a", own(type="message", id="msg_1", status="completed")),
        ),
        (
            {
                "role": "assistant",
                "content": [said("a", annotations=[{"type": "file_citation", "index": 0}])],
            },
            "assistant",
            TextPart("a", own(type="message", annotations=[{"type": "file_citation", "index": 0}])),
        ),
        ({**SPOKEN, "content": [{"type": "refusal", "refusal": "No."}]}, "assistant", RefusalPart("No.")),
        (CALL, "assistant", CallPart("c1", "read", '{"p":"a"}')),
        ({**CALL, "status": "completed"}, "assistant", CallPart("c1", "read", '{"p":"a"}')),
        (
            {**CALL, "id": "fc_1", "namespace": "files"},
            "assistant",
            CallPart(
                "c1", "files__read", '{"p":"a"}', own(type="function_call", id="fc_1", namespace="files")
            ),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"},
            "assistant",
            CallPart("c1", "sql", '{"input":"SELECT 1"}', own(type="custom_tool_call")),
        ),
        (THOUGHT, "assistant", ReasoningPart("Hm.", own(**THOUGHT))),
        (
            {
                "type": "reasoning",
                "id": "r",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "Hm."}],
            },
            "assistant",
            ReasoningPart(
                "Hm.",
                own(
                    type="reasoning", id="r", summary=[], content=[{"type": "reasoning_text", "text": "Hm."}]
                ),
            ),
        ),
        (RESULT, "tool", ResultPart("c1", (TextPart("2"),))),
        ({**RESULT, "output": ""}, "tool", ResultPart("c1", ())),
        (
            {
                **RESULT,
                "output": [
                    {"type": "input_text", "text": "2"},
                    {"type": "input_image", "image_url": "https://x/y"},
                ],
            },
            "tool",
            ResultPart("c1", (TextPart("2"), ImagePart(url="https://x/y"))),
        ),
        (
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "2"},
            "tool",
            ResultPart("c1", (TextPart("2"),)),
        ),
        (SEARCH, "assistant", OpaquePart(own(**SEARCH))),
        (
            {"type": "of_tomorrow", "x": {"y": 1}},
            "assistant",
            OpaquePart(own(type="of_tomorrow", x={"y": 1})),
        ),
    ],
)
def test_each_item_is_kept_whole(item, role, part):
    assert bare(asked(HI, item).messages) == [("user", SAID_HI.parts), (role, (part,))]


@pytest.mark.requirement("F4")
def test_items_of_one_side_are_one_message():
    found = asked(
        HI,
        THOUGHT,
        {**SPOKEN, "content": [said("a")]},
        CALL,
        SEARCH,
        RESULT,
        {**RESULT, "call_id": "c2"},
        CALL,
    )
    roles = [(message.role, [type(part).__name__ for part in message.parts]) for message in found.messages]
    assert roles == [
        ("user", ["TextPart"]),
        ("assistant", ["ReasoningPart", "TextPart", "CallPart", "OpaquePart"]),
        ("tool", ["ResultPart", "ResultPart"]),
        ("assistant", ["CallPart"]),
    ]


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_texts_of_two_messages_never_run_together_for_any_provider(protocol):
    answers = [
        {**SPOKEN, "id": f"msg_{at}", "content": [said(text)]} for at, text in enumerate(("One.", "Two."))
    ]
    history = asked(HI, *answers, HI).messages
    repaired = repair(history, rules_of(protocol)).messages
    if protocol == "openai_chat":
        assert text_of(repaired[1].parts) == "One.\n\nTwo."
    else:
        assert [part.text for part in repaired[1].parts] == ["One.", "Two."]


def test_what_one_reasoning_led_to_stays_with_it():
    answers = [{**SPOKEN, "id": f"msg_{at}", "content": [said("a")]} for at in range(2)]
    assert [len(message.parts) for message in asked(HI, THOUGHT, *answers).messages] == [1, 3]
    assert [len(message.parts) for message in asked(HI, *answers).messages] == [1, 1, 1]


# Items that are only named


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "reference", [{"type": "item_reference", "id": "fc_1"}, {"id": "fc_1"}, {"type": None, "id": "fc_1"}]
)
def test_an_item_that_is_only_named_is_the_item_that_was_kept(reference):
    kept = {**CALL, "id": "fc_1", "status": "completed"}
    body = msgspec.json.encode({"model": "m", "input": [HI, reference, RESULT, reference]})
    assert references(body) == ("fc_1",)
    assert asked(HI, reference, RESULT, stored={"fc_1": kept}) == asked(HI, kept, RESULT)
    lost = read(HI, reference, RESULT, stored={"fc_2": kept})
    assert (lost.param, lost.code) == ("input[1].id", "item_not_found")
    assert "send the item itself" in lost.message


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"input":"item_reference"}', b'{"input":[1]}', b'{"input":[{"id":3}]}']
)
def test_where_nothing_is_named_nothing_is_looked_up(body):
    assert references(body) == ()


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "item, param, code",
    [
        ("Hi.", "input[1]", "invalid_type"),
        ({}, "input[1].type", "missing_required_parameter"),
        ({"type": 1}, "input[1].type", "invalid_type"),
        ({"type": "message", "content": "a"}, "input[1].role", "missing_required_parameter"),
        ({"role": "tool", "content": "a"}, "input[1].role", "invalid_value"),
        ({"role": "user"}, "input[1].content", "missing_required_parameter"),
        ({"role": "user", "content": []}, "input[1].content", "array_below_min_length"),
        ({"role": "user", "content": 1}, "input[1].content", "invalid_type"),
        ({"role": "user", "content": ["a"]}, "input[1].content[0]", "invalid_type"),
        (
            {"role": "user", "content": [{"type": "input_text"}]},
            "input[1].content[0].text",
            "missing_required_parameter",
        ),
        (
            {"role": "user", "content": [{"type": "input_image"}]},
            "input[1].content[0].image_url",
            "missing_required_parameter",
        ),
        ({"role": "user", "content": [{"type": "input_file"}]}, "input[1].content[0]", "invalid_value"),
        (
            {"role": "system", "content": [{"type": "input_image", "image_url": "https://x"}]},
            "input[1].content[0].type",
            "unsupported_value",
        ),
        (
            {"role": "assistant", "content": [{"type": "input_image", "image_url": "https://x"}]},
            "input[1].content[0].type",
            "unsupported_value",
        ),
        (
            {"role": "assistant", "content": [{"type": "refusal"}]},
            "input[1].content[0].refusal",
            "missing_required_parameter",
        ),
        ({**CALL, "call_id": None}, "input[1].call_id", "missing_required_parameter"),
        ({**CALL, "name": ""}, "input[1].name", "invalid_value"),
        ({**CALL, "arguments": None}, "input[1].arguments", "missing_required_parameter"),
        ({**CALL, "arguments": {}}, "input[1].arguments", "invalid_type"),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "f"},
            "input[1].input",
            "missing_required_parameter",
        ),
        ({**RESULT, "call_id": None}, "input[1].call_id", "missing_required_parameter"),
        ({**RESULT, "output": None}, "input[1].output", "missing_required_parameter"),
        ({**RESULT, "output": {"a": 1}}, "input[1].output", "invalid_type"),
        ({**THOUGHT, "summary": "Hm."}, "input[1].summary", "invalid_type"),
        ({**THOUGHT, "encrypted_content": 1}, "input[1].encrypted_content", "invalid_type"),
        ({"type": "item_reference"}, "input[1].id", "missing_required_parameter"),
        (
            {"type": "additional_tools", "role": "developer", "tools": []},
            "input[1].type",
            "unsupported_value",
        ),
        (
            {"type": "configuration_update", "reasoning": {"effort": "low"}},
            "input[1].type",
            "unsupported_value",
        ),
        ({"type": "compaction_trigger"}, "input[1].type", "unsupported_value"),
    ],
)
def test_an_item_that_cannot_be_kept_whole_is_refused_by_its_path(item, param, code):
    found = read(HI, item)
    assert isinstance(found, Failure), found
    assert (found.kind, found.param, found.code) == ("invalid", param, code)
    assert found.message.startswith(param)


# Listed again


@pytest.mark.requirement("F4")
def test_items_are_listed_in_full_with_ids_that_never_change():
    items = [HI, {"role": "assistant", "content": "Yes."}, {**CALL, "id": "fc_1"}, RESULT, SEARCH, THOUGHT]
    expected = [
        {"type": "message", "id": "msg_r1_0", "status": "completed", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"type": "message", "id": "msg_r1_1", "status": "completed", "role": "assistant", "content": [said("Yes.")]},
        {**CALL, "id": "fc_1", "status": "completed"},
        {**RESULT, "id": "item_r1_3", "status": "completed"},
        SEARCH,
        THOUGHT,
    ]  # fmt: skip
    assert asked(*items, stem="r1").input_items == expected
    for item in expected:
        TypeAdapter(ResponseItem).validate_python(item)
    assert asked(HI).input_items[0]["id"] == "msg_0"


def test_a_string_is_listed_as_the_message_that_it_is():
    found = read_response(msgspec.json.encode({"model": "m", "input": "Hi."}))
    assert (found.input_items, found.messages) == (asked(HI).input_items, (SAID_HI,))


def test_every_official_kind_of_item_is_taken_or_refused_by_name():
    kinds = set()
    for kind in typing.get_args(ResponseInputItemParam):
        hint = typing.get_type_hints(kind)["type"]
        while typing.get_origin(hint) is not typing.Literal:
            hint = typing.get_args(hint)[0]
        kinds |= set(typing.get_args(hint))
    refused = {
        kind
        for kind in kinds
        if isinstance(found := read(HI, {"type": kind, "id": "x"}), Failure)
        and found.param == "input[1].type"
    }
    assert refused == {"additional_tools", "configuration_update", "compaction_trigger"}
    assert len(kinds) > 25


# There and back


def sent(messages):
    body = build(ModelRequest("m", messages, stream=False), Quirks())
    return {key: value for key, value in body.items() if key in ("model", "instructions", "input")}


def _thought(text):
    summary = [{"type": "summary_text", "text": text}]
    return ReasoningPart(text, own(type="reasoning", id="rs_1", summary=summary, encrypted_content="e"))


_ids = st.integers(0, 99)
_spoken = st.builds(TextPart, texts) | st.builds(
    lambda text, at: TextPart(
        text, own(type="message", id=f"msg_{at}", status="completed", phase="commentary")
    ),
    texts,
    _ids,
)
_calls = (
    st.builds(CallPart, texts, texts, st.just('{"p":1}'))
    | st.builds(
        lambda i, n, at: CallPart(i, n, "{}", own(type="function_call", id=f"fc_{at}")), texts, texts, _ids
    )
    | st.builds(
        lambda i, n, text: CallPart(i, n, wrapped(text), own(type="custom_tool_call")),
        st.just("custom"),
        texts,
        texts,
    )
)
_shown = st.builds(ImagePart, url=st.just("https://x/y"), detail=st.sampled_from(["", "low"])) | st.builds(
    FilePart, name=texts, data=st.just("AA=="), media_type=st.just("application/pdf")
)
_mixed = st.builds(lambda text: (TextPart(text),), texts) | st.builds(
    lambda text, more: (TextPart(text), *more), texts, st.lists(_shown, min_size=1, max_size=3)
)
_turns = st.builds(
    lambda thought, said, more: Message("assistant", (*thought, said, *more)),
    st.lists(st.builds(_thought, texts), max_size=1),
    _spoken,
    st.lists(_calls | st.just(OpaquePart(own(**SEARCH))), max_size=3),
)
_results = st.lists(
    st.builds(ResultPart, texts.filter(lambda text: text != "custom"), st.just(()) | _mixed),
    min_size=1,
    max_size=3,
).map(lambda results: Message("tool", tuple(results)))
_users = st.builds(lambda parts: Message("user", parts), _mixed)
_rounds = st.builds(
    lambda system, rounds: (*system, *(message for messages in rounds for message in messages)),
    st.lists(st.builds(lambda text: Message("system", (TextPart(text),)), texts), max_size=1),
    st.lists(st.tuples(_users, _turns) | st.tuples(_users, _turns, _results), min_size=1, max_size=4),
)


@pytest.mark.requirement("A3", "F11")
@given(_rounds)
def test_a_history_comes_back_from_its_request_as_it_was(messages):
    body = sent(messages)
    found = read_response(msgspec.json.encode(body))
    assert isinstance(found, ResponsesAsked), found
    assert bare(found.messages) == bare(messages)
    assert sent(found.messages) == body


@pytest.mark.requirement("A3")
def test_the_output_of_a_response_goes_back_item_by_item_whoever_brings_it():
    output = [
        {**THOUGHT, "summary": []},
        SEARCH,
        {**SPOKEN, "phase": "commentary", "content": [said("One."), said("Two.", annotations=[{"type": "file_citation"}])]},
        {**SPOKEN, "id": "msg_2", "phase": "final_answer", "content": [said("Three.")]},
        {**CALL, "id": "fc_1"},
    ]  # fmt: skip
    answer = {"id": "resp_1", "model": "m", "status": "completed", "output": output}
    decoder = open_answer("openai_responses")
    reply = fold(decoder.feed(msgspec.json.encode(answer)) + decoder.close())
    brought = asked(*output).messages
    assert sent(brought)["input"] == output
    assert brought == (message_of(reply, rules_of("openai_responses"), ""),)


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_what_a_client_sends_can_be_made_legal_for_any_provider(protocol):
    custom = {"type": "custom_tool_call", "call_id": "c3", "name": "sql", "input": "SELECT 1"}
    history = asked(
        {"role": "developer", "content": "Be."},
        {"role": "user", "content": [{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": "https://x/y"}]},
        THOUGHT,
        {**SPOKEN, "content": [said("Wait.")]},
        {**CALL, "id": "fc_1"},
        {**CALL, "call_id": "c2", "arguments": '{"cut'},
        custom,
        SEARCH,
        {**RESULT, "call_id": "c2"},
        RESULT,
        {"type": "custom_tool_call_output", "call_id": "c3", "output": "1"},
        HI,
    ).messages  # fmt: skip
    repaired = repair(history, rules_of(protocol), to_ask=True)
    assert repaired.left == ()
    texts_kept = [text_of(message.parts) for message in repaired.messages if message.role != "tool"]
    assert texts_kept == ["Be.", "See", "Wait.", "Hi."]
    results = [
        part for message in repaired.messages for part in message.parts if isinstance(part, ResultPart)
    ]
    assert [text_of(result.content) for result in results] == ["2", "2", "1"]
