"""What a client asks by Chat Completions: every field, every refusal, and any bytes at all."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params as official
from pydantic import TypeAdapter
from support.wire.request_bodies import any_json, assert_read_or_refused, drained, with_one_change

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message, ProviderState, TextPart
from turnbuckle.vocab.request import HostedTool, NamedTool, RunOptions, ToolSpec
from turnbuckle.wire.client_tools import FREE_TEXT
from turnbuckle.wire.openai_chat.parse_request import ChatAsked, read_chat

HI = {"role": "user", "content": "Hi."}
SAID_HI = Message("user", (TextPart("Hi."),))
SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}
READ = {
    "type": "function",
    "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA, "strict": True},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"p":"a"}'}}
JSON_WANTED = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}
OFFICIAL = TypeAdapter(official.CompletionCreateParams)


def own(data):
    return ProviderState("openai_chat", "", data)


def read(*messages, **fields):
    body = {"model": "m", "messages": list(messages) or [HI], **fields}
    return read_chat(msgspec.json.encode(body))


@pytest.mark.requirement("F1", "F11")
@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, RunOptions()),
        (
            {"tools": [READ, {"type": "function", "function": {"name": "now"}}]},
            RunOptions(tools=(ToolSpec("read", "Reads.", SCHEMA, True), ToolSpec("now"))),
        ),
        ({"tools": [], "tool_choice": "none"}, RunOptions(tool_choice="none")),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}]},
            RunOptions(tools=(ToolSpec("f", parameters={"type": "object", "properties": {}}),)),
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
            RunOptions(tools=(ToolSpec("f"),)),
        ),
        (
            {"tools": [READ], "tool_choice": "required", "parallel_tool_calls": False},
            RunOptions(
                tools=(ToolSpec("read", "Reads.", SCHEMA, True),),
                tool_choice="required",
                parallel_calls=False,
            ),
        ),
        (
            {"tools": [READ], "tool_choice": {"type": "function", "function": {"name": "read"}}},
            RunOptions(tools=(ToolSpec("read", "Reads.", SCHEMA, True),), tool_choice=NamedTool("read")),
        ),
        ({"max_tokens": 5}, RunOptions(max_output_tokens=5)),
        ({"max_tokens": 5, "max_completion_tokens": 7}, RunOptions(max_output_tokens=7)),
        ({"temperature": 0, "top_p": 0.5}, RunOptions(temperature=0.0, top_p=0.5)),
        ({"stop": "END"}, RunOptions(stop=("END",))),
        ({"stop": ["a", "b"]}, RunOptions(stop=("a", "b"))),
        ({"reasoning_effort": "low"}, RunOptions(effort="low")),
        ({"response_format": {"type": "text"}}, RunOptions()),
        ({"response_format": {"type": "json_object"}}, RunOptions(response_format={"type": "json_object"})),
        ({"response_format": JSON_WANTED}, RunOptions(response_format=JSON_WANTED)),
        ({"seed": -1}, RunOptions(extra={"openai_chat": {"seed": -1}})),
        (
            {"presence_penalty": 1, "frequency_penalty": -2, "logit_bias": {"50256": -100}},
            RunOptions(
                extra={
                    "openai_chat": {
                        "presence_penalty": 1.0,
                        "frequency_penalty": -2.0,
                        "logit_bias": {"50256": -100},
                    }
                }
            ),
        ),
        (
            {"service_tier": "flex", "prompt_cache_key": "k", "verbosity": "low", "safety_identifier": "u"},
            RunOptions(
                extra={
                    "openai_chat": {
                        "service_tier": "flex",
                        "prompt_cache_key": "k",
                        "safety_identifier": "u",
                        "verbosity": "low",
                    }
                }
            ),
        ),
        (
            {
                "top_k": 4,
                "min_p": 0.1,
                "repetition_penalty": 1.1,
                "chat_template_kwargs": {"enable_thinking": False},
            },
            RunOptions(
                extra={
                    "openai_chat": {
                        "top_k": 4,
                        "min_p": 0.1,
                        "repetition_penalty": 1.1,
                        "chat_template_kwargs": {"enable_thinking": False},
                    }
                }
            ),
        ),
        (
            {
                "n": 1,
                "modalities": ["text"],
                "functions": [],
                "audio": None,
                "store": True,
                "logprobs": True,
                "top_logprobs": 3,
                "prediction": {"type": "content", "content": "a"},
                "stream_options": {"include_obfuscation": False},
                "prompt_cache_options": {"mode": "implicit"},
                "nobody_knows": {"this": 1},
            },
            RunOptions(
                extra={
                    "openai_chat": {
                        "n": 1,
                        "modalities": ["text"],
                        "store": True,
                        "logprobs": True,
                        "top_logprobs": 3,
                        "prediction": {"type": "content", "content": "a"},
                        "stream_options": {"include_obfuscation": False},
                        "prompt_cache_options": {"mode": "implicit"},
                        "nobody_knows": {"this": 1},
                    }
                }
            ),
        ),
        (
            {
                "tools": [
                    {"type": "web_search", "x": 1},
                    {**READ, "cache_control": {"type": "ephemeral"}},
                    {"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}},
                ],
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
            },
            RunOptions(
                tools=(
                    ToolSpec(
                        "read", "Reads.", SCHEMA, True, state=own({"cache_control": {"type": "ephemeral"}})
                    ),
                    ToolSpec(
                        "patch",
                        parameters=FREE_TEXT,
                        free_text=True,
                        state=own({"custom": {"format": {"type": "text"}}, "type": "custom"}),
                    ),
                ),
                hosted=(HostedTool(0, own({"type": "web_search", "x": 1})),),
                extra={
                    "openai_chat": {
                        "tool_choice": {
                            "type": "allowed_tools",
                            "allowed_tools": {"mode": "auto", "tools": []},
                        }
                    }
                },
            ),
        ),
        (
            {"response_format": {"type": "grammar", "grammar": "x"}},
            RunOptions(extra={"openai_chat": {"response_format": {"type": "grammar", "grammar": "x"}}}),
        ),
    ],
)
def test_each_field_becomes_the_wish_that_it_is(fields, expected):
    asked = read(**fields)
    assert isinstance(asked, ChatAsked), asked
    assert asked.wishes == expected


def test_nulls_are_the_same_as_nothing():
    fields = set(official.CompletionCreateParamsBase.__annotations__) - {"model", "messages"}
    assert read(**dict.fromkeys(sorted(fields | {"stream"}))) == read()


@pytest.mark.requirement("F1")
def test_what_is_not_for_the_model_stands_beside_the_wishes():
    plain = read()
    assert (plain.model, plain.messages, plain.stream, plain.include_usage) == ("m", (SAID_HI,), False, False)
    assert plain.wants_json is False
    asked = read(stream=True, stream_options={"include_usage": True})
    assert (asked.stream, asked.include_usage) == (True, True)
    assert asked.wishes == RunOptions()


@pytest.mark.requirement("I8")
def test_what_only_hosts_of_this_protocol_take_is_known_by_name():
    said = {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}], "weight": 1}
    heard = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA=="}}]}
    asked = read(said, heard, seed=1, provider={"order": ["a"]}, tools=[{"type": "web_search"}], user=None)
    assert set(asked.only_here) == {
        "messages.content.cache_control",
        "messages.weight",
        "messages.content.input_audio",
        "seed",
        "provider",
        "tools.web_search",
    }
    assert asked.unknown == ("provider",)


TASK = '### Task:\nMake a title.\n### Output:\nJSON format: { "title": "..." }\n### Chat History:\n<chat_history></chat_history>'


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "messages, fields, expected",
    [
        ([HI], {"response_format": {"type": "json_object"}}, True),
        ([HI], {"response_format": JSON_WANTED}, True),
        ([HI], {"response_format": {"type": "text"}}, False),
        ([{"role": "user", "content": TASK}], {}, True),
        ([{"role": "user", "content": TASK.replace("JSON format", "One line")}], {}, False),
        ([{"role": "user", "content": f"What does this mean? {TASK}"}], {}, False),
        ([{"role": "user", "content": TASK}, {"role": "assistant", "content": "{}"}], {}, False),
    ],
)
def test_a_request_for_json_is_known_as_one_also_where_only_its_words_say_so(messages, fields, expected):
    assert read(*messages, **fields).wants_json is expected


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "fields, param, code",
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": " "}, "model", "invalid_value"),
        ({"model": "m" * 513}, "model", "string_above_max_length"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": []}, "messages", "array_below_min_length"),
        ({"messages": {}}, "messages", "invalid_type"),
        ({"messages": [HI] * 10_001}, "messages", "array_above_max_length"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages", "invalid_value"),
        ({"n": 129}, "n", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
        ({"function_call": "auto"}, "function_call", "unsupported_parameter"),
        ({"tools": {}}, "tools", "invalid_type"),
        ({"tools": [READ] * 1025}, "tools", "array_above_max_length"),
        ({"tools": [{"function": {"name": "f"}}]}, "tools[0].type", "missing_required_parameter"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name", "missing_required_parameter"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
        (
            {"tools": [{"type": "function", "function": {}}]},
            "tools[0].function.name",
            "missing_required_parameter",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "tools[0].function.name",
            "invalid_value",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "n" * 129}}]},
            "tools[0].function.name",
            "invalid_value",
        ),
        ({"tools": [READ, READ]}, "tools[1].function.name", "invalid_value"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}]},
            "tools[0].function.parameters",
            "invalid_value",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "strict": "yes"}}]},
            "tools[0].function.strict",
            "invalid_type",
        ),
        ({"tool_choice": "sometimes"}, "tool_choice", "invalid_value"),
        ({"tool_choice": ["auto"]}, "tool_choice", "invalid_type"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        (
            {"tools": [READ], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice.function.name",
            "invalid_value",
        ),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens", "invalid_type"),
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"top_p": -0.1}, "top_p", "invalid_value"),
        ({"stop": [1]}, "stop[0]", "invalid_type"),
        ({"stop": ["a"] * 17}, "stop", "array_above_max_length"),
        ({"stop": ""}, "stop", "invalid_value"),
        ({"reasoning_effort": 3}, "reasoning_effort", "invalid_type"),
        ({"response_format": "json"}, "response_format", "invalid_type"),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format.json_schema",
            "missing_required_parameter",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            "response_format.json_schema.name",
            "missing_required_parameter",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": []}}},
            "response_format.json_schema.schema",
            "invalid_type",
        ),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": True}, "stream_options", "invalid_type"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "invalid_type"),
        ({"seed": 1.5}, "seed", "invalid_type"),
        ({"logit_bias": {"a": 101}}, "logit_bias.a", "invalid_value"),
        ({"presence_penalty": 3}, "presence_penalty", "invalid_value"),
        ({"user": 1}, "user", "invalid_type"),
        ({"metadata": []}, "metadata", "invalid_type"),
        ({"store": "yes"}, "store", "invalid_type"),
        ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(fields, param, code):
    found = read_chat(msgspec.json.encode({"model": "m", "messages": [HI], **fields}))
    assert isinstance(found, Failure)
    assert (found.kind, found.status, found.param, found.code) == ("invalid", 400, param, code)
    assert found.message.startswith(param)


def test_every_official_field_is_understood_passed_on_looked_at_or_refused():
    wrong = {
        name: read_chat(msgspec.json.encode({"model": "m", "messages": [HI], name: [{"not": "this"}]}))
        for name in official.CompletionCreateParamsBase.__annotations__
    }
    assert {name for name, found in wrong.items() if isinstance(found, ChatAsked)} == set()


# Anything at all

FULL = {
    "model": "m",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be."}]},
        {"role": "user", "name": "a", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}, {"type": "file", "file": {"filename": "a.txt", "file_data": "AA=="}}]},
        {"role": "assistant", "content": "b", "refusal": None, "reasoning_details": [{"type": "reasoning.text", "text": "c"}], "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "s"}}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "d"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "e"},
    ],
    "tools": [READ], "tool_choice": {"type": "function", "function": {"name": "read"}}, "parallel_tool_calls": True,
    "response_format": JSON_WANTED, "stop": ["a"], "temperature": 1, "max_tokens": 9, "stream": True,
    "stream_options": {"include_usage": True}, "seed": 1, "logit_bias": {"1": 2}, "metadata": {"a": "b"}, "n": 1,
}  # fmt: skip


def test_the_full_request_is_one_of_the_official_kind():
    assert drained(OFFICIAL.validate_python(FULL))["messages"][1]["content"][1]["type"] == "image_url"
    assert isinstance(read_chat(msgspec.json.encode(FULL)), ChatAsked)


@pytest.mark.requirement("F1")
@given(st.binary() | any_json.map(msgspec.json.encode) | with_one_change(FULL).map(msgspec.json.encode))
def test_no_bytes_raise(body):
    assert_read_or_refused(read_chat(body), ChatAsked)
