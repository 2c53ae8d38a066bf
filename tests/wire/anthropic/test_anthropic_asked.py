"""What a client asks by a Messages body, and that all of it comes back in a request to a provider of the protocol."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.reply.repair import repair
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import CallPart, ReasoningPart, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool
from turnbuckle.wire.anthropic.parse_request import MessagesAsked, read_count_request, read_message_request
from turnbuckle.wire.registry import PROTOCOLS, rules_of

CACHE = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
USER = {"role": "user", "content": "Hi."}
BASE = {"model": "lab", "max_tokens": 100, "messages": [USER]}
TOOL = {"name": "edit", "description": "Edits.", "input_schema": {"type": "object", "properties": {}}}


def asked(**fields) -> MessagesAsked:
    made = read_message_request(msgspec.json.encode({**BASE, **fields}))
    assert isinstance(made, MessagesAsked), made
    return made


def refused(**fields) -> Failure:
    body = {key: value for key, value in {**BASE, **fields}.items() if value != "left out"}
    made = read_message_request(msgspec.json.encode(body))
    assert isinstance(made, Failure)
    return made


def sent(made: MessagesAsked, protocol="anthropic"):
    """The body that a provider of a protocol gets for it."""
    options = made.wishes
    history = repair((*made.system, *made.messages), rules_of(protocol), model="m", to_ask=True).messages
    request = ModelRequest(
        "m",
        history,
        tools=options.tools,
        tool_choice=options.tool_choice,
        max_output_tokens=options.max_output_tokens,
        temperature=options.temperature,
        stop=options.stop,
        effort=options.effort,
        response_format=options.response_format,
        parallel_calls=options.parallel_calls,
        extra=options.extra.get(protocol, {}),
        hosted=tuple(tool for tool in options.hosted if tool.state.protocol == protocol),
    )
    return PROTOCOLS[protocol].build(request, Quirks(eager_arguments=False))


FIELDS: list[dict[str, Any]] = [
    {"system": [{"type": "text", "text": "Be brief.", **CACHE}, {"type": "text", "text": "And kind."}]},
    {"system": "Be brief."},
    {"thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"}},
    {"thinking": {"type": "adaptive"}},
    {"thinking": {"type": "disabled"}},
    {"output_config": {"effort": "high", "new": 1}},
    {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    {"temperature": 0, "top_p": 0.5, "top_k": 3},
    {"stop_sequences": ["END"], "metadata": {"user_id": "u"}, "service_tier": "auto"},
    {"container": "c_1", "context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
    {"mcp_servers": [{"type": "url", "url": "https://m", "name": "m"}], "nobody_knows": {"this": [1, None]}},
    {"tools": [{**TOOL, **CACHE, "input_examples": [{}]}], "tool_choice": {"type": "any"}},
    {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "edit", "disable_parallel_tool_use": True}},
    {"tools": [TOOL], "tool_choice": {"type": "none"}},
    {"tools": [{**TOOL, "eager_input_streaming": True, "defer_loading": True, "strict": True}]},
    {"tools": [{"type": "web_search_20260318", "name": "web_search", "max_uses": 2}, TOOL]},
    {"tools": [TOOL, {"type": "mcp_toolset", "mcp_server_name": "m"}]},
    {"tools": [{"type": "bash_20250124", "name": "bash"}]},
]
BLOCKS = [
    # What an assistant and a user may have said, as it came.
    {"type": "text", "text": "Look.", **CACHE},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}, **CACHE},
    {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "f_1"}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}, "title": "T", "citations": {"enabled": True}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "abcd"}, "context": "c"},
    {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
    {"type": "document", "source": {"type": "file", "file_id": "f_1"}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
    {"type": "search_result", "source": "https://s", "title": "S", "content": [{"type": "text", "text": "found"}]},
    {"type": "container_upload", "file_id": "f_1"},
]  # fmt: skip
SAID = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e"}]},
    {"type": "mcp_tool_use", "id": "x1", "name": "look", "server_name": "theirs", "input": {"a": 1}},
    {"type": "mcp_tool_result", "tool_use_id": "x1", "is_error": False, "content": [{"type": "text", "text": "r"}]},
    {"type": "compaction", "content": "What was said.", "encrypted_content": "e"},
    {"type": "text", "text": "So.", "citations": [{"type": "char_location", "cited_text": "x"}]},
]  # fmt: skip


@pytest.mark.requirement("J1", "I8")
@pytest.mark.parametrize("fields", FIELDS, ids="-".join)
def test_every_field_of_a_request_goes_to_a_provider_of_the_protocol_as_it_came(fields):
    body = sent(asked(**fields))
    for name, value in fields.items():
        assert body[name] == value
    assert body["max_tokens"] == 100


@pytest.mark.requirement("J1", "I8")
def test_every_block_of_a_history_goes_to_a_provider_of_the_protocol_as_it_came():
    call = {
        "type": "tool_use",
        "id": "t1",
        "name": "edit",
        "input": {"a": [1, 2.5, None]},
        "caller": {"type": "direct"},
    }
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "is_error": True,
        "content": [*BLOCKS[:5], {"type": "tool_reference", "tool_name": "edit"}],
        **CACHE,
    }
    messages = [
        {"role": "user", "content": BLOCKS},
        {"role": "assistant", "content": [*SAID, call]},
        {"role": "user", "content": [result, *BLOCKS]},
        {"role": "system", "content": [{"type": "text", "text": "From now on, be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    assert sent(asked(messages=messages, tools=[TOOL]))["messages"] == messages


@pytest.mark.requirement("J1", "C5")
def test_a_thought_without_a_signature_goes_to_no_provider_of_the_protocol():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}
    made = asked(messages=[USER, said, USER])
    assert made.messages[1].parts == (ReasoningPart("Hm."), TextPart("Yes."))
    assert sent(made)["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]


@pytest.mark.requirement("J1")
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "anthropic"])
def test_other_protocols_get_what_they_can_say(protocol):
    messages = [
        {"role": "user", "content": [*BLOCKS[:3], BLOCKS[9]]},
        {
            "role": "assistant",
            "content": [*SAID, {"type": "tool_use", "id": "t1", "name": "edit", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
    ]
    made = asked(messages=messages, tools=[TOOL, FIELDS[15]["tools"][0]], system="Be brief.")
    written = msgspec.json.encode(sent(made, protocol)).decode()
    for words in ("Be brief.", "Look.", "found", "What was said.", "So.", "done", "edit"):
        assert words in written
    for foreign in ("cache_control", "c2ln", "c2VjcmV0", "web_search", "_block"):
        assert foreign not in written
    assert "tools.web_search_20260318" in made.only_here
    assert "messages.content.cache_control" in made.only_here


def test_tools_of_this_server_come_back_as_the_calls_that_they_were():
    said = [
        {"type": "text", "text": "I look."},
        {"type": "mcp_tool_use", "id": "c1", "name": "look", "server_name": "turnbuckle", "input": {"path": "a"}},
        {"type": "mcp_tool_result", "tool_use_id": "c1", "is_error": False, "content": [{"type": "text", "text": "seen"}]},
        {"type": "text", "text": "Done."},
    ]  # fmt: skip
    made = asked(messages=[USER, {"role": "assistant", "content": said}, USER]).messages
    assert [message.role for message in made] == ["user", "assistant", "tool", "assistant", "user"]
    assert made[1].parts == (TextPart("I look."), CallPart("c1", "look", '{"path":"a"}'))
    assert made[2].parts[0].content == (TextPart("seen"),)


def test_a_choice_of_a_tool_names_one_that_is_there():
    assert asked(tools=[TOOL], tool_choice={"type": "tool", "name": "edit"}).wishes.tool_choice == NamedTool(
        "edit"
    )
    assert refused(tools=[TOOL], tool_choice={"type": "tool", "name": "other"}).param == "tool_choice.name"


@pytest.mark.requirement("J1")
@pytest.mark.parametrize(
    "fields, param",
    [
        ({"model": "left out"}, "model"),
        ({"max_tokens": "left out"}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
        ({"system": 3}, "system"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"temperature": 3}, "temperature"),
        ({"output_config": {"effort": 3}}, "output_config.effort"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_its_name(fields, param):
    assert refused(**fields).param == param


@pytest.mark.requirement("J1")
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"type": "tool_use"}, "id"),
        ({"type": "tool_use", "id": "t1"}, "name"),
        ({"type": "tool_use", "id": "t1", "name": "look", "input": []}, "input"),
        ({"type": "tool_result"}, "tool_use_id"),
        ({"type": "tool_result", "tool_use_id": "t1", "content": 1}, "content"),
        ({"type": "tool_result", "tool_use_id": "t1", "content": [{}]}, "content.0.type"),
        ({"type": "tool_result", "tool_use_id": "t1", "is_error": 1}, "is_error"),
        ({"type": "image"}, "source"),
        ({"type": "document", "source": {"type": "x"}, "title": 1}, "title"),
        ({"type": "thinking", "thinking": 1}, "thinking"),
        ({"type": "text", "text": "Hi", "cache_control": "yes"}, "cache_control"),
        ({"type": "unheard of", "cache_control": 1}, "cache_control"),
    ],
    ids=str,
)
def test_a_block_of_a_known_type_has_what_it_needs_whoever_says_it(role, block, field):
    message = {"role": role, "content": [block]}
    assert (
        refused(messages=[message]).param.replace("[", ".").replace("]", "")
        == f"messages.0.content.0.{field}"
    )


def test_a_count_needs_no_limit():
    made = read_count_request(msgspec.json.encode({"model": "lab", "messages": [USER]}))
    assert isinstance(made, MessagesAsked)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "content", "id"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from([*BASE, "system", "tools", "tool_choice", "output_config", "x"]), _JSON)
)
def test_whatever_is_sent_is_read_or_refused(body):
    made = read_message_request(msgspec.json.encode({**BASE, **body}))
    assert isinstance(made, MessagesAsked | Failure)
    if isinstance(made, MessagesAsked):
        msgspec.json.encode(sent(made))
