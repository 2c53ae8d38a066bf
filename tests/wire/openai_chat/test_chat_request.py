"""Our request as a Chat Completions body: what each host wants, and state exactly where it belongs."""

import msgspec
import pytest
from support.wire.chat_cases.case import reply_of

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
from turnbuckle.wire.openai_chat.request import build, endpoint
from turnbuckle.wire.protocol import bearer_headers
from turnbuckle.wire.registry import rules_of

USER = Message("user", (TextPart("Hi."),))
READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"p": {"type": "string"}}})
CALL = CallPart("call_1", "read", '{"p":"a"}')
ASKED = {"role": "user", "content": "Hi."}
CALLED = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"p":"a"}'}}


def _build(*messages, quirks=Quirks(), **more):
    return build(ModelRequest("m", messages or (USER,), **more), quirks)


def _messages(*messages, **how):
    return _build(*messages, **how)["messages"]


def _state(data, protocol="openai_chat"):
    return ProviderState(protocol, "m", data)


# The body


def test_a_plain_request_says_only_what_is_asked():
    assert _build() == {
        "model": "m",
        "messages": [ASKED],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    "asked, quirks, added",
    [
        ({"stream": False}, Quirks(), {"stream": False}),
        ({}, Quirks(stream_usage=False), {"stream": True}),
        ({"max_output_tokens": 9}, Quirks(), {"max_completion_tokens": 9}),
        ({"max_output_tokens": 9}, Quirks(output_cap_field="max_tokens"), {"max_tokens": 9}),
        ({"temperature": 0.0}, Quirks(), {"temperature": 0.0}),
        ({"top_p": 0.5}, Quirks(), {"top_p": 0.5}),
        ({"stop": ("a", "b")}, Quirks(), {"stop": ["a", "b"]}),
        ({"effort": "low"}, Quirks(), {"reasoning_effort": "low"}),
        (
            {"response_format": {"type": "json_object"}},
            Quirks(),
            {"response_format": {"type": "json_object"}},
        ),
        ({"parallel_calls": False}, Quirks(), {}),
        ({"extra": {"seed": 7, "stream_options": None}}, Quirks(), {"seed": 7, "stream_options": None}),
    ],
)
def test_each_wish_has_its_field(asked, quirks, added):
    expected = {"model": "m", "messages": [ASKED], "stream": True}
    if asked.get("stream", True) and quirks.stream_usage:
        expected["stream_options"] = {"include_usage": True}
    assert _build(quirks=quirks, **asked) == {**expected, **added}


@pytest.mark.parametrize(
    "choice, expected",
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("read"), {"type": "function", "function": {"name": "read"}}),
    ],
)
def test_tools_are_offered_with_their_choice(choice, expected):
    body = _build(tools=(READ, ToolSpec("now", strict=True)), tool_choice=choice, parallel_calls=False)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Reads a file.", "parameters": READ.parameters},
        },
        {
            "type": "function",
            "function": {
                "name": "now",
                "parameters": {"type": "object", "properties": {}},
                "strict": True,
            },
        },
    ]
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (expected, False)


def test_without_tools_nothing_is_said_about_them():
    body = _build(tool_choice="required", parallel_calls=True)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)


# Messages


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_system_message_has_the_role_that_the_host_knows(role):
    system = Message("system", (TextPart("Be"), TextPart("kind.")))
    assert _messages(system, quirks=Quirks(system_role=role)) == [{"role": role, "content": "Be\n\nkind."}]


@pytest.mark.parametrize(
    "parts, content",
    [
        ((TextPart("a"), TextPart("b")), "a\n\nb"),
        (
            (TextPart("a"), ImagePart(url="https://x/y.png", detail="low")),
            [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
            ],
        ),
        (
            (ImagePart(data="AA==", media_type="image/jpeg"),),
            [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AA=="}}],
        ),
        (
            (FilePart("a.pdf", data="AA==", media_type="application/pdf"),),
            [
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
                }
            ],
        ),
        ((FilePart(file_id="file-1"),), [{"type": "file", "file": {"file_id": "file-1"}}]),
        ((FilePart("a", url="https://x/a"),), [{"type": "text", "text": "a: https://x/a"}]),
    ],
)
def test_content_is_one_text_unless_it_holds_more(parts, content):
    assert _messages(Message("user", parts)) == [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    "parts, expected",
    [
        ((TextPart("a"),), {"content": "a"}),
        ((TextPart("a"), CALL), {"content": "a", "tool_calls": [CALLED]}),
        ((CALL,), {"content": None, "tool_calls": [CALLED]}),
        ((RefusalPart("No."),), {"content": "", "refusal": "No."}),
        ((TextPart("a"), CALL, TextPart("b")), {"content": "ab", "tool_calls": [CALLED]}),
        (
            (CallPart("call_2", "now", " "),),
            {
                "content": None,
                "tool_calls": [
                    {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}}
                ],
            },
        ),
    ],
)
def test_an_assistant_message_is_one_message(parts, expected):
    assert _messages(Message("assistant", parts)) == [{"role": "assistant", **expected}]


def test_each_result_is_its_own_tool_message():
    results = Message(
        "tool", (ResultPart("call_1", (TextPart("a"), TextPart("b"))), ResultPart("call_2", ()))
    )
    assert _messages(results) == [
        {"role": "tool", "tool_call_id": "call_1", "content": "a\n\nb"},
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
    ]


def test_pictures_of_results_follow_all_of_them_as_the_users():
    picture = ImagePart(url="https://x/y.png")
    results = Message(
        "tool", (ResultPart("call_1", (TextPart("a"), picture)), ResultPart("call_2", (TextPart("b"),)))
    )
    assert _messages(results) == [
        {"role": "tool", "tool_call_id": "call_1", "content": "a"},
        {"role": "tool", "tool_call_id": "call_2", "content": "b"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
    ]


def test_where_no_user_may_follow_a_result_the_assistant_speaks_before_its_pictures():
    results = Message("tool", (ResultPart("call_1", (ImagePart(url="https://x/y.png"),)),))
    made = _messages(results, quirks=Quirks(text_after_tools=False))
    assert [message["role"] for message in made] == ["tool", "assistant", "user"]


def test_short_ids_agree_between_call_and_result():
    called, result = _messages(
        Message("assistant", (CallPart("call_very_long", "read", "{}"), CallPart("abcDEF123", "read", "{}"))),
        Message("tool", (ResultPart("call_very_long", ()),)),
        quirks=Quirks(short_call_ids=True),
    )
    first, second = (call["id"] for call in called["tool_calls"])
    assert result["tool_call_id"] == first
    assert len(first) == 9
    assert first.isalnum()
    assert second == "abcDEF123"


# State


SIGNATURE = {"extra_content": {"google": {"thought_signature": "EpwB"}}}
DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0}]


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "parts, quirks, expected",
    [
        pytest.param(
            (CallPart("call_1", "read", '{"p":"a"}', _state(SIGNATURE)),),
            Quirks(),
            {"content": None, "tool_calls": [{**CALLED, **SIGNATURE}]},
            id="Gemini's signature on its call",
        ),
        pytest.param(
            (CallPart("call_1", "read", '{"p":"a"}', _state({"thoughtSignature": "Ep"})),),
            Quirks(),
            {"content": None, "tool_calls": [{**CALLED, "thoughtSignature": "Ep"}]},
            id="OpenRouter's signature on its call",
        ),
        pytest.param(
            (ReasoningPart("Hm.", _state({"reasoning_details": DETAILS})), TextPart("a")),
            Quirks(),
            {"content": "a", "reasoning_details": DETAILS},
            id="details are sent back as they were",
        ),
        pytest.param(
            (ReasoningPart("Hm."), CALL),
            Quirks(reasoning_field="reasoning_content"),
            {"content": None, "reasoning_content": "Hm.", "tool_calls": [CALLED]},
            id="DeepSeek's reasoning",
        ),
        pytest.param(
            (CALL,),
            Quirks(reasoning_field="reasoning_content", reasoning_with_calls=True),
            {"content": None, "reasoning_content": "", "tool_calls": [CALLED]},
            id="DeepSeek's empty reasoning beside calls",
        ),
        pytest.param(
            (TextPart("a"),),
            Quirks(reasoning_field="reasoning_content", reasoning_with_calls=True),
            {"content": "a"},
            id="no reasoning, no calls",
        ),
        pytest.param(
            (ReasoningPart("Hm."), TextPart("a")),
            Quirks(reasoning_field="reasoning"),
            {"content": "a", "reasoning": "Hm."},
            id="vLLM's and Ollama's reasoning",
        ),
        pytest.param(
            (ReasoningPart("Hm."), TextPart("a")),
            Quirks(),
            {"content": "a"},
            id="a host that does not want reasoning",
        ),
        pytest.param(
            (
                ReasoningPart("Hm.", _state({"signature": "s"}, "anthropic")),
                CallPart("call_1", "read", '{"p":"a"}', _state({"id": "fc_1"}, "openai_responses")),
                OpaquePart(_state({"type": "server_tool_use"}, "anthropic")),
            ),
            Quirks(),
            {"content": None, "tool_calls": [CALLED]},
            id="state of other protocols stays at home",
        ),
    ],
)
def test_state_goes_back_to_where_its_provider_wants_it(parts, quirks, expected):
    assert _messages(Message("assistant", parts), quirks=quirks) == [{"role": "assistant", **expected}]


def test_reasoning_of_another_protocol_is_dropped_even_where_reasoning_is_wanted():
    foreign = Message(
        "assistant", (ReasoningPart("Hm.", _state({"signature": "s"}, "anthropic")), TextPart("a"))
    )
    made = _messages(foreign, quirks=Quirks(reasoning_field="reasoning_content"))
    assert made == [{"role": "assistant", "content": "a"}]


def test_a_call_from_elsewhere_gets_a_stand_in_signature_on_the_first_call_only():
    other = CallPart("call_2", "read", "{}")
    (made,) = _messages(Message("assistant", (CALL, other)), quirks=Quirks(signature_fallback=True))
    stand_in = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [call.get("extra_content") for call in made["tool_calls"]] == [stand_in, None]
    signed = CallPart("call_1", "read", "{}", _state(SIGNATURE))
    (kept,) = _messages(Message("assistant", (signed,)), quirks=Quirks(signature_fallback=True))
    assert kept["tool_calls"][0]["extra_content"] == SIGNATURE["extra_content"]


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "name, place",
    [
        ("calls-gemini-signature.sse", lambda made: made["tool_calls"][0]["extra_content"]),
        ("calls-openrouter-signature.sse", lambda made: made["tool_calls"][0]["thoughtSignature"]),
        ("reasoning-details.sse", lambda made: made["reasoning_details"]),
        ("reasoning-details-two-types-one-index.sse", lambda made: made["reasoning_details"]),
        ("reasoning-encrypted-only.sse", lambda made: made["reasoning_details"]),
    ],
)
def test_state_of_a_recorded_reply_is_in_the_next_request_exactly(name, place):
    reply = reply_of(name)
    message = message_of(reply, rules_of("openai_chat"), reply.model)
    assert message is not None
    (made,) = _messages(message)
    (state,) = [block.state for block in reply.blocks if getattr(block, "state", None)]
    assert place(made) == next(iter(state.values()))


# Never raise, never touch


def test_odd_history_is_sent_as_well_as_it_can_be():
    odd = [
        Message(role, (TextPart("a"), CALL, ResultPart("call_1", ()), RefusalPart("n"), ReasoningPart("r")))
        for role in ("system", "user", "assistant", "tool")
    ]
    odd += [Message(role, ()) for role in ("system", "user", "assistant", "tool")]
    sent = msgspec.json.decode(msgspec.json.encode(_build(*odd)))["messages"]
    assert {message["role"] for message in sent} == {"system", "user", "assistant", "tool"}
    assert [message["content"] for message in sent if message["role"] == "system"] == ["a", ""]


def test_building_changes_nothing_that_was_handed_in():
    request = ModelRequest("m", (USER, Message("assistant", (CALL,))), tools=(READ,), extra={"seed": 1})
    before = msgspec.json.encode(request)
    assert build(request, Quirks()) == build(request, Quirks())
    assert msgspec.json.encode(request) == before


# The way there


def test_the_endpoint_and_its_headers():
    assert endpoint(ModelRequest("m", ())) == "/chat/completions"
    made = bearer_headers("key", Quirks())
    assert made["authorization"] == "Bearer key"
    assert made["content-type"] == "application/json"
    assert "authorization" not in bearer_headers("", Quirks())
