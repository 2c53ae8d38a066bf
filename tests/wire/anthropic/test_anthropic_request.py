"""Our requests as Messages bodies."""

from pathlib import Path
from typing import Any

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
from turnbuckle.wire.anthropic.decode import AnthropicDecoder
from turnbuckle.wire.anthropic.request import build, endpoint, headers
from turnbuckle.wire.decoder import ReplyDecoder
from turnbuckle.wire.registry import rules_of

FOLDER = Path(__file__).parents[2] / "transcripts" / "anthropic"
MODEL = "claude-sonnet-5-5"
HELLO = Message("user", (TextPart("hello"),))
TOOL = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def own(**data):
    return ProviderState("anthropic", MODEL, data)


def foreign(**data):
    return ProviderState("openai_chat", "other", data)


def body(*messages, quirks=Quirks(), **request):
    return build(ModelRequest(MODEL, messages or (HELLO,), **request), quirks)


def content(message):
    """The blocks of one message alone."""
    return [block for made in body(message)["messages"] for block in made["content"]]


def test_the_smallest_request_says_only_what_must_be_said():
    assert body() == {
        "model": MODEL,
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        "stream": True,
    }


def test_an_answer_in_one_piece_gets_a_smaller_default_cap():
    assert body(stream=False)["max_tokens"] == 21_000
    assert body(stream=False, max_output_tokens=9)["max_tokens"] == 9


@pytest.mark.parametrize(
    "request_fields, quirks, expected",
    [
        ({"temperature": 0.5, "top_p": 0.9}, {}, {}),
        ({"temperature": 0.5, "top_p": 0.9}, {"sampling": True}, {"temperature": 0.5, "top_p": 0.9}),
        ({"stop": ("END",)}, {}, {"stop_sequences": ["END"]}),
        ({"effort": "high"}, {}, {"output_config": {"effort": "high"}}),
        ({"effort": "minimal"}, {}, {"output_config": {"effort": "low"}}),
        ({"effort": "none"}, {}, {"thinking": {"type": "disabled"}}),
        ({"response_format": {"type": "text"}}, {}, {}),
        ({"response_format": {"type": "json_object"}}, {}, {}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"type": "object"}},
                }
            },
            {},
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        ),
        (
            {"response_format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "max"},
            {},
            {
                "output_config": {
                    "effort": "max",
                    "format": {"type": "json_schema", "schema": {"type": "object"}},
                }
            },
        ),
        ({"extra": {"max_tokens": 1, "speed": "fast"}}, {}, {"max_tokens": 1, "speed": "fast"}),
        ({"tool_choice": "required", "parallel_calls": False}, {}, {}),
    ],
)
def test_settings_are_spelled_as_the_api_wants_them(request_fields, quirks, expected):
    assert body(quirks=Quirks(**quirks), **request_fields) == {**body(), **expected}


@pytest.mark.parametrize(
    "choice, parallel, expected",
    [
        ("auto", None, None),
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        (NamedTool("f"), None, {"type": "tool", "name": "f"}),
        (NamedTool("f"), False, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice_is_spelled_as_the_api_wants_it(choice, parallel, expected):
    assert body(tools=(TOOL,), tool_choice=choice, parallel_calls=parallel).get("tool_choice") == expected


@pytest.mark.parametrize("stream", [True, False])
def test_tools_ask_for_eager_arguments_whether_the_request_streams_or_not(stream):
    made = {"name": "read_file", "description": "Reads a file.", "input_schema": TOOL.parameters}
    assert body(tools=(TOOL,), stream=stream)["tools"] == [{**made, "eager_input_streaming": True}]
    assert body(tools=(TOOL,), stream=stream, quirks=Quirks(eager_arguments=False))["tools"] == [made]


def test_a_strict_tool_without_a_description():
    tool = ToolSpec("now", strict=True)
    assert body(tools=(tool,), quirks=Quirks(eager_arguments=False))["tools"] == [
        {"name": "now", "input_schema": {"type": "object", "properties": {}}, "strict": True}
    ]


def test_system_messages_at_the_beginning_are_the_prompt_and_later_ones_are_told_in_their_place():
    system, later = (
        Message("system", (TextPart("Be brief."),)),
        Message("system", (TextPart("Now it is noon."),)),
    )
    made = body(
        system,
        Message("system", (TextPart("Be kind."),)),
        HELLO,
        Message("assistant", (TextPart("Hi"),)),
        later,
    )
    assert made["system"] == "Be brief.\n\nBe kind."
    assert made["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "Now it is noon."}]},
    ]


@pytest.mark.requirement("C5")
def test_all_results_stand_in_one_message_and_before_any_text():
    calls = Message("assistant", (CallPart("a", "f", '{"x":1}'), CallPart("b", "g", "")))
    made = body(
        HELLO,
        calls,
        Message("tool", (ResultPart("a", (TextPart("one"),)),)),
        Message("user", (TextPart("and now?"),), note=True),
        Message("tool", (ResultPart("b", (TextPart("two"),), failed=True),)),
    )
    assert made["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "g", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "one"}]},
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "is_error": True,
                    "content": [{"type": "text", "text": "two"}],
                },
                {"type": "text", "text": "and now?"},
            ],
        },
    ]


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "part, expected",
    [
        (
            ReasoningPart("hm", own(type="thinking", signature="s")),
            {"type": "thinking", "thinking": "hm", "signature": "s"},
        ),
        (
            ReasoningPart("", own(type="thinking", signature="s")),
            {"type": "thinking", "thinking": "", "signature": "s"},
        ),
        (
            ReasoningPart("", own(type="redacted_thinking", data="x")),
            {"type": "redacted_thinking", "data": "x"},
        ),
        (ReasoningPart("cut off", own(type="thinking")), None),
        (ReasoningPart("plain"), None),
        (ReasoningPart("elsewhere", foreign(reasoning_details=[])), None),
        (
            TextPart("cited", own(citations=[{"type": "char_location"}])),
            {"type": "text", "text": "cited", "citations": [{"type": "char_location"}]},
        ),
        (TextPart("elsewhere", foreign(citations=[1])), {"type": "text", "text": "elsewhere"}),
        (
            CallPart("a", "f", "{}", own(caller={"type": "direct"})),
            {"type": "tool_use", "id": "a", "name": "f", "input": {}, "caller": {"type": "direct"}},
        ),
        (
            CallPart("a", "f", "{}", foreign(extra_content={})),
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        ),
        (OpaquePart(own(type="compaction", content="c")), {"type": "compaction", "content": "c"}),
        (
            OpaquePart(own(type="server_tool_use", id="s", input={}, _unparsed_input="{")),
            {"type": "server_tool_use", "id": "s", "input": {}},
        ),
        (OpaquePart(foreign(type="web_search_call")), None),
        (RefusalPart("I will not."), {"type": "text", "text": "I will not."}),
        (TextPart(" \n"), None),
        (ImagePart(url="https://x.example/a.png"), None),
    ],
)
def test_state_goes_back_where_it_was_and_only_to_its_own_protocol(part, expected):
    assert content(Message("assistant", (part,))) == ([] if expected is None else [expected])


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "name, expected",
    [
        ("clean-thinking-omitted-then-call", ["thinking", "tool_use"]),
        ("clean-redacted-thinking", ["redacted_thinking", "thinking", "text"]),
        ("clean-server-search-with-citations", ["text", "server_tool_use", "web_search_tool_result", "text"]),
        ("clean-pause-turn", ["server_tool_use"]),
        ("clean-text-and-parallel-calls", ["text", "tool_use", "tool_use"]),
        ("clean-call-with-input-in-its-start", ["server_tool_use", "tool_use"]),
        ("compaction", ["compaction"]),
        ("server-side-fallback", ["text", "fallback", "text"]),
        ("mcp-call-and-result", ["mcp_tool_use", "mcp_tool_result", "text"]),
    ],
)
def test_a_reply_that_is_sent_back_reads_as_the_same_reply(name, expected):
    decoder = ReplyDecoder(AnthropicDecoder())
    reply = fold(decoder.feed((FOLDER / f"{name}.sse").read_bytes()))
    sent = content(message_of(reply, rules_of("anthropic"), MODEL))
    again: list[Any] = []
    AnthropicDecoder().answer({"content": sent}, again)
    assert [block["type"] for block in sent] == expected
    assert [_comparable(block) for block in fold(again).blocks] == [
        _comparable(block) for block in reply.blocks
    ]


def _comparable(block):
    """Spaces between the tokens of arguments are not kept."""
    return (
        (block.id, block.name, block.arguments.replace(" ", ""), block.state)
        if hasattr(block, "arguments")
        else block
    )


def test_a_result_names_the_toolset_of_its_call():
    call = Message("assistant", (CallPart("a", "click", "{}", own(toolset_name="browser")),))
    made = body(HELLO, call, Message("tool", (ResultPart("a", ()),)))["messages"]
    assert made[1]["content"][0]["toolset_name"] == "browser"
    assert made[2]["content"] == [{"type": "tool_result", "tool_use_id": "a", "toolset_name": "browser"}]


@pytest.mark.parametrize(
    "part, expected",
    [
        (ImagePart(url="https://x.example/a.png"), {"type": "url", "url": "https://x.example/a.png"}),
        (
            ImagePart(data="QQ==", media_type="image/webp"),
            {"type": "base64", "media_type": "image/webp", "data": "QQ=="},
        ),
        (
            ImagePart(url="data:image/gif;base64,QQ=="),
            {"type": "base64", "media_type": "image/gif", "data": "QQ=="},
        ),
        (
            FilePart(data="QQ==", media_type="image/png"),
            {"type": "base64", "media_type": "image/png", "data": "QQ=="},
        ),
    ],
)
def test_images_are_sent_by_address_or_by_content(part, expected):
    assert content(Message("user", (part,))) == [{"type": "image", "source": expected}]


@pytest.mark.parametrize(
    "part, expected",
    [
        (
            FilePart("a.pdf", file_id="file_1"),
            {"source": {"type": "file", "file_id": "file_1"}, "title": "a.pdf"},
        ),
        (
            FilePart(url="https://x.example/a.pdf"),
            {"source": {"type": "url", "url": "https://x.example/a.pdf"}},
        ),
        (
            FilePart(data="QQ=="),
            {"source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}},
        ),
        (
            FilePart(data="w6Q=", media_type="text/markdown"),
            {"source": {"type": "text", "media_type": "text/plain", "data": "ä"}},
        ),
        (
            FilePart(data="not base64", media_type="text/plain"),
            {"source": {"type": "text", "media_type": "text/plain", "data": "not base64"}},
        ),
    ],
)
def test_files_are_sent_as_documents(part, expected):
    assert content(Message("user", (part,))) == [{"type": "document", **expected}]


def test_citations_are_not_sent_in_a_user_message():
    assert content(Message("user", (TextPart("x", own(citations=[1])),))) == [{"type": "text", "text": "x"}]


def test_a_result_may_hold_pictures_and_a_failed_one_always_says_something():
    made = content(
        Message(
            "tool", (ResultPart("a", (ImagePart(url="u"),)), ResultPart("b", (TextPart(""),), failed=True))
        )
    )
    assert made == [
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": [{"type": "image", "source": {"type": "url", "url": "u"}}],
        },
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "is_error": True,
            "content": [{"type": "text", "text": "The call failed without a message."}],
        },
    ]


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "nonsense"])
def test_arguments_that_are_no_object_are_wrapped(arguments):
    assert content(Message("assistant", (CallPart("a", "f", arguments),)))[0]["input"] == {
        "_malformed": arguments
    }


def test_ids_that_the_api_would_refuse_are_replaced_in_call_and_result_alike():
    made = body(
        HELLO,
        Message(
            "assistant", (CallPart("functions.now:0", "now", ""), CallPart("functions_now:0", "now", ""))
        ),
        Message("tool", (ResultPart("functions.now:0", ()), ResultPart("functions_now:0", ()))),
    )["messages"]
    calls = [block["id"] for block in made[1]["content"]]
    assert calls == [block["tool_use_id"] for block in made[2]["content"]]
    assert len(set(calls)) == 2
    assert all(call_id.replace("_", "").isalnum() for call_id in calls)


@pytest.mark.parametrize(
    "auth, expected",
    [("bearer", {"authorization": "Bearer key"}), ("x-api-key", {"x-api-key": "key"})],
)
def test_headers_name_the_version_and_one_kind_of_key(auth, expected):
    made = headers("key", Quirks(anthropic_auth=auth, anthropic_version="2023-06-01"))
    common = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "anthropic-version": "2023-06-01",
    }
    assert made == {**common, **expected}
    assert headers("", Quirks(anthropic_auth=auth, anthropic_version="2023-06-01")) == common


def test_the_endpoint_and_the_version_are_the_present_ones():
    assert endpoint(ModelRequest("m", ())) == "/messages"
    assert headers("key", Quirks())["anthropic-version"] == "2026-10-21"


def test_state_never_replaces_what_a_call_is():
    call = CallPart("toolu_1", "f", "{}", own(id="x", type="y", caller={"type": "direct"}))
    assert content(Message("assistant", (call,))) == [
        {"caller": {"type": "direct"}, "type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    ]


def test_a_block_without_a_type_is_not_sent():
    assert content(Message("assistant", (OpaquePart(own(x=1)), TextPart("a")))) == [
        {"type": "text", "text": "a"}
    ]
