"""A client's messages by Chat Completions: each is kept whole or refused, and goes on to a provider as it was."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire.request_bodies import texts

from turnbuckle.reply.repair import repair
from turnbuckle.vocab.failure import Failure
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
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.openai_chat.parse_request import ChatAsked, read_chat
from turnbuckle.wire.openai_chat.request import build
from turnbuckle.wire.registry import rules_of

HI = {"role": "user", "content": "Hi."}
SAID_HI = Message("user", (TextPart("Hi."),))
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"p":"a"}'}}


def read(*messages):
    return read_chat(msgspec.json.encode({"model": "m", "messages": messages}))


def messages_of(*messages):
    asked = read(*messages)
    assert isinstance(asked, ChatAsked), asked
    return asked.messages


def own(data):
    return ProviderState("openai_chat", "", data)


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "given, role, parts",
    [
        ({"role": "system", "content": "Be."}, "system", (TextPart("Be."),)),
        ({"role": "developer", "content": "Be."}, "system", (TextPart("Be."),)),
        ({"role": "system", "content": [{"type": "text", "text": "a"}]}, "system", (TextPart("a"),)),
        ({"role": "user", "content": ""}, "user", (TextPart(""),)),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            "user",
            (TextPart("a"), TextPart("b")),
        ),
        (
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "https://x/y", "detail": "low"}}],
            },
            "user",
            (ImagePart(url="https://x/y", detail="low"),),
        ),
        (
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/gif;base64,AA=="}}],
            },
            "user",
            (ImagePart(data="AA==", media_type="image/gif"),),
        ),
        (
            {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
            "user",
            (FilePart(file_id="file-1"),),
        ),
        (
            {"role": "user", "content": "Hi.", "name": "Ann"},
            "user",
            (TextPart("Hi."),),
        ),
        (
            {
                "role": "user",
                "content": [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}],
            },
            "user",
            (OpaquePart(own({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}})),),
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "x"}}]},
            "user",
            (TextPart("a", own({"cache_control": {"type": "x"}})),),
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "any"}}],
            },
            "assistant",
            (CallPart("c", "f", '{"input":"any"}', own({"type": "custom"})),),
        ),
        ({"role": "assistant", "content": "Yes."}, "assistant", (TextPart("Yes."),)),
        ({"role": "assistant", "content": None}, "assistant", ()),
        ({"role": "assistant", "content": []}, "assistant", ()),
        ({"role": "assistant"}, "assistant", ()),
        ({"role": "assistant", "content": None, "refusal": "No."}, "assistant", (RefusalPart("No."),)),
        (
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "No."}],
            },
            "assistant",
            (TextPart("a"), RefusalPart("No.")),
        ),
        (
            {"role": "assistant", "content": "a", "tool_calls": [CALL], "audio": None, "function_call": None},
            "assistant",
            (TextPart("a"), CallPart("call_1", "read", '{"p":"a"}')),
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{**CALL, "index": 0, "extra_content": {"google": {"thought_signature": "s"}}}],
            },
            "assistant",
            (
                CallPart(
                    "call_1",
                    "read",
                    '{"p":"a"}',
                    own({"extra_content": {"google": {"thought_signature": "s"}}}),
                ),
            ),
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}],
            },
            "assistant",
            (CallPart("c", "f", '{"a":1}'),),
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"cut'}}],
            },
            "assistant",
            (CallPart("c", "f", '{"cut'),),
        ),
        (
            {"role": "assistant", "reasoning_content": "Hm.", "reasoning": "Hm.", "content": "a"},
            "assistant",
            (ReasoningPart("Hm.", own({"spelled": ["reasoning_content", "reasoning"]})), TextPart("a")),
        ),
        (
            {"role": "assistant", "reasoning": "Hm.", "content": "a"},
            "assistant",
            (ReasoningPart("Hm.", own({"spelled": ["reasoning"]})), TextPart("a")),
        ),
        (
            {
                "role": "assistant",
                "content": "a",
                "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}],
            },
            "assistant",
            (
                ReasoningPart("Hm.", own({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]})),
                TextPart("a"),
            ),
        ),
        ({"role": "tool", "tool_call_id": "c", "content": "2"}, "tool", (ResultPart("c", (TextPart("2"),)),)),
        ({"role": "tool", "tool_call_id": "c", "content": ""}, "tool", (ResultPart("c", ()),)),
        ({"role": "tool", "tool_call_id": "c", "content": None}, "tool", (ResultPart("c", ()),)),
        (
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": [{"type": "text", "text": "2"}, {"type": "image_url", "image_url": "https://x/y"}],
            },
            "tool",
            (ResultPart("c", (TextPart("2"), ImagePart(url="https://x/y")), state=own({"content": []})),),
        ),
    ],
)
def test_each_message_is_kept_whole(given, role, parts):
    first, second = messages_of(HI, given)
    assert first == SAID_HI
    assert (second.role, second.parts) == (role, parts)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(
    "message",
    [
        {"role": "developer", "content": "Be."},
        {"role": "system", "content": [{"type": "text", "text": "Be.", "cache_control": {"type": "e"}}]},
        {"role": "user", "content": [{"type": "text", "text": "Fix the bug."}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Fix the bug."}, {"type": "text", "text": "<environment>"}],
            "name": "Ann",
            "cache_control": {"type": "ephemeral"},
        },
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "https://x/y", "detail": "auto", "z": 1}, "w": 2},
                {"type": "video_url", "video_url": {"url": "https://x/y"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:a/b;base64,AA=="}, "v": 3},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
        },
        {"role": "assistant", "content": "a", "reasoning": "Hm.", "audio": {"id": "x"}, "prefix": True},
    ],
)
def test_a_message_goes_to_its_own_protocol_as_it_came(message):
    body = build(ModelRequest("m", messages_of(HI, message), stream=False), Quirks())
    assert body["messages"][1] == message


@pytest.mark.requirement("I8")
def test_a_turn_with_its_results_goes_to_its_own_protocol_as_it_came():
    turn = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {**CALL, "extra": {"a": 1}},
                {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": [{"type": "text", "text": "1"}],
            "name": "read",
        },
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": [
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "https://x/y"}},
            ],
        },
    ]
    body = build(ModelRequest("m", messages_of(HI, *turn), stream=False), Quirks())
    assert body["messages"][1:] == turn


@pytest.mark.requirement("F11")
def test_results_behind_each_other_are_one_message_and_others_keep_their_turns():
    tool = [{"role": "tool", "tool_call_id": f"c{at}", "content": str(at)} for at in range(4)]
    found = messages_of(HI, {"role": "assistant", "tool_calls": [CALL]}, *tool[:3], HI, tool[3])
    assert [message.role for message in found] == ["user", "assistant", "tool", "user", "tool"]
    assert [part.call_id for part in found[2].parts] == ["c0", "c1", "c2"]


def called(name):
    return {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}


def gave(name, text):
    return {"role": "function", "name": name, "content": text}


def test_a_result_of_the_old_kind_belongs_to_the_newest_call_of_its_name_and_each_call_has_one():
    found = messages_of(HI, called("f"), called("f"), gave("f", "1"), gave("f", "2"))
    assert [part.call_id for part in found[3].parts] == ["function_2", "function_1"]
    assert read(HI, called("f"), gave("f", "1"), gave("f", "2")).param == "messages[3].name"


def test_calls_of_the_old_kind_find_their_results():
    found = messages_of(
        HI, called("f"), gave("f", "1"), called("g"), called("f"), gave("f", "2"), gave("g", "3")
    )
    assert found[1:] == (
        Message("assistant", (CallPart("function_1", "f", "{}"),)),
        Message("tool", (ResultPart("function_1", (TextPart("1"),)),)),
        Message("assistant", (CallPart("function_3", "g", "{}"),)),
        Message("assistant", (CallPart("function_4", "f", "{}"),)),
        Message(
            "tool", (ResultPart("function_4", (TextPart("2"),)), ResultPart("function_3", (TextPart("3"),)))
        ),
    )


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "message, param, code",
    [
        ("Hi.", "messages[1]", "invalid_type"),
        ({}, "messages[1].role", "missing_required_parameter"),
        ({"role": 1}, "messages[1].role", "invalid_type"),
        ({"role": "robot", "content": "a"}, "messages[1].role", "invalid_value"),
        ({"role": "user"}, "messages[1].content", "missing_required_parameter"),
        ({"role": "user", "content": None}, "messages[1].content", "missing_required_parameter"),
        ({"role": "user", "content": []}, "messages[1].content", "array_below_min_length"),
        ({"role": "user", "content": {"type": "text"}}, "messages[1].content", "invalid_type"),
        ({"role": "user", "content": ["a"]}, "messages[1].content[0]", "invalid_type"),
        (
            {"role": "user", "content": [{"text": "a"}]},
            "messages[1].content[0].type",
            "missing_required_parameter",
        ),
        (
            {"role": "user", "content": [{"type": "text"}]},
            "messages[1].content[0].text",
            "missing_required_parameter",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ftp://x"}}]},
            "messages[1].content[0].image_url.url",
            "invalid_value",
        ),
        (
            {"role": "user", "content": [{"type": "file", "file": {}}]},
            "messages[1].content[0].file",
            "invalid_value",
        ),
        ({"role": "user", "content": "a", "name": 1}, "messages[1].name", "invalid_type"),
        (
            {"role": "system", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]},
            "messages[1].content[0].type",
            "unsupported_value",
        ),
        (
            {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]},
            "messages[1].content[0].type",
            "unsupported_value",
        ),
        ({"role": "assistant", "content": 1}, "messages[1].content", "invalid_type"),
        ({"role": "assistant", "reasoning": {"a": 1}}, "messages[1].reasoning", "invalid_type"),
        ({"role": "assistant", "reasoning_details": [1]}, "messages[1].reasoning_details[0]", "invalid_type"),
        ({"role": "assistant", "tool_calls": CALL}, "messages[1].tool_calls", "invalid_type"),
        (
            {"role": "assistant", "tool_calls": [{**CALL, "id": None}]},
            "messages[1].tool_calls[0].id",
            "missing_required_parameter",
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "of_tomorrow", "of_tomorrow": {"name": "f"}}],
            },
            "messages[1].tool_calls[0].type",
            "unsupported_value",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": " "}}]},
            "messages[1].tool_calls[0].function.name",
            "invalid_value",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": 1}}]},
            "messages[1].tool_calls[0].function.arguments",
            "invalid_type",
        ),
        ({"role": "tool", "content": "a"}, "messages[1].tool_call_id", "missing_required_parameter"),
        ({"role": "tool", "tool_call_id": "c", "content": 2}, "messages[1].content", "invalid_type"),
        ({"role": "function", "name": "f", "content": "a"}, "messages[1].name", "invalid_value"),
    ],
)
def test_a_message_that_cannot_be_kept_whole_is_refused_by_its_path(message, param, code):
    found = read(HI, message)
    assert isinstance(found, Failure)
    assert (found.kind, found.param, found.code) == ("invalid", param, code)
    assert found.message.startswith(param)


# There and back


def sent(messages, **quirks):
    quirks.setdefault("reasoning_field", "reasoning_content")
    return build(ModelRequest("m", messages, stream=False), Quirks(**quirks))


_calls = st.builds(
    CallPart, texts, texts, st.just('{"p":1}'), st.none() | st.just(own({"extra_content": {"g": "s"}}))
)
_shown = st.builds(ImagePart, url=st.just("https://x/y"), detail=st.sampled_from(["", "low"])) | st.builds(
    FilePart, name=texts, data=st.just("AA=="), media_type=st.just("application/pdf")
)
_said = st.builds(TextPart, texts)
_reasoned = st.builds(ReasoningPart, texts, st.just(own({"spelled": ["reasoning_content"]}))) | st.builds(
    ReasoningPart,
    texts,
    st.just(
        own(
            {
                "spelled": ["reasoning_content"],
                "reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 0}],
            }
        )
    ),
)
_users = st.builds(lambda said: Message("user", (said,)), _said) | st.builds(
    lambda said, more: Message("user", (said, *more)), _said, st.lists(_shown, min_size=1, max_size=3)
)
_turns = st.builds(
    lambda thought, said, no, calls: Message("assistant", (*thought, *said, *no, *calls)),
    st.lists(_reasoned, max_size=1),
    st.lists(_said, min_size=1, max_size=1),
    st.lists(st.builds(RefusalPart, texts), max_size=1),
    st.lists(_calls, max_size=3),
)
_results = st.lists(
    st.builds(ResultPart, texts, st.just(()) | st.builds(lambda text: (TextPart(text),), texts)),
    min_size=1,
    max_size=3,
).map(lambda results: Message("tool", tuple(results)))
_rounds = st.builds(
    lambda system, rounds: (*system, *(message for messages in rounds for message in messages)),
    st.lists(st.builds(lambda text: Message("system", (TextPart(text),)), texts), max_size=2),
    st.lists(st.tuples(_users, _turns) | st.tuples(_users, _turns, _results), min_size=1, max_size=4),
)


@pytest.mark.requirement("A3", "F11")
@given(_rounds)
def test_a_history_comes_back_from_its_request_as_it_was(messages):
    body = sent(messages)
    asked = read_chat(msgspec.json.encode(body))
    assert isinstance(asked, ChatAsked), asked
    assert [(one.role, one.parts) for one in asked.messages] == [(one.role, one.parts) for one in messages]
    assert sent(asked.messages) == body


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_what_a_client_sends_can_be_made_legal_for_any_provider(protocol):
    history = messages_of(
        {"role": "developer", "content": "Be."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": "https://x/y"}],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [CALL, {**CALL, "id": "b c"}],
        },
        {"role": "tool", "tool_call_id": "b c", "content": "2"},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
        {"role": "assistant", "content": "Done."},
        HI,
    )
    repaired = repair(history, rules_of(protocol), to_ask=True)
    assert repaired.left == ()
    results = [
        part for message in repaired.messages for part in message.parts if isinstance(part, ResultPart)
    ]
    assert [result.content for result in results] == [(TextPart("1"),), (TextPart("2"),)]
