"""What a client asks by Responses: every field, every refusal, what the response repeats, and any bytes at all."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.responses import Response
from openai.types.responses import response_create_params as official
from pydantic import TypeAdapter
from support.wire.request_bodies import any_json, assert_read_or_refused, drained, with_one_change

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message, ProviderState, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import HostedTool, ModelRequest, NamedTool, RunOptions, ToolSpec
from turnbuckle.wire.client_tools import FREE_TEXT
from turnbuckle.wire.openai_responses.parse_request import ResponsesAsked, grouped, read_response
from turnbuckle.wire.openai_responses.request import build
from turnbuckle.wire.openai_responses.shapes import response_body

SAID_HI = Message("user", (TextPart("Hi."),))
SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}
READ = {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA, "strict": True}
READ_SPEC = ToolSpec("read", "Reads.", SCHEMA, True)
FLAT = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}


def group(*tools):
    return {"type": "namespace", "name": "files", "description": "Files.", "tools": list(tools)}


OFFICIAL = TypeAdapter(official.ResponseCreateParams)


def read(*, how=None, **fields):
    body = {"model": "m", "input": "Hi.", **fields}
    return read_response(msgspec.json.encode(body), **(how or {}))


def asked(**fields):
    found = read(**fields)
    assert isinstance(found, ResponsesAsked), found
    return found


def own(**data):
    return ProviderState("openai_responses", "", data)


def only(**extra):
    return RunOptions(extra={"openai_responses": extra})


# Fields


@pytest.mark.requirement("F4", "F11")
@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, RunOptions()),
        ({"tools": [READ]}, RunOptions(tools=(READ_SPEC,))),
        (
            {"tools": [{"type": "function", "name": "now", "parameters": None, "strict": None}]},
            RunOptions(tools=(ToolSpec("now"),)),
        ),
        (
            {
                "tools": [{**READ, "allowed_callers": ["direct", "programmatic"]}],
                "parallel_tool_calls": False,
            },
            RunOptions(
                tools=(replace(READ_SPEC, state=own(allowed_callers=["direct", "programmatic"])),),
                parallel_calls=False,
            ),
        ),
        (
            {"tools": [READ], "tool_choice": "required"},
            RunOptions(tools=(READ_SPEC,), tool_choice="required"),
        ),
        (
            {"tools": [READ], "tool_choice": {"type": "function", "name": "read"}},
            RunOptions(tools=(READ_SPEC,), tool_choice=NamedTool("read")),
        ),
        ({"tool_choice": "none"}, RunOptions(tool_choice="none")),
        ({"max_output_tokens": 5}, RunOptions(max_output_tokens=5)),
        ({"temperature": 0, "top_p": 1}, RunOptions(temperature=0.0, top_p=1.0)),
        ({"reasoning": {"effort": "low"}}, RunOptions(effort="low")),
        (
            {"reasoning": {"effort": "high", "summary": "auto"}},
            RunOptions(effort="high", extra={"openai_responses": {"reasoning": {"summary": "auto"}}}),
        ),
        ({"text": {"format": {"type": "text"}}}, RunOptions()),
        ({"text": {"format": {"type": "json_object"}}}, RunOptions(response_format={"type": "json_object"})),
        (
            {"text": {"format": FLAT}},
            RunOptions(
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                }
            ),
        ),
        ({"text": {"verbosity": "low"}}, only(text={"verbosity": "low"})),
        ({"truncation": "disabled"}, only(truncation="disabled")),
        ({"truncation": "auto"}, only(truncation="auto")),
        (
            {"service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "u"},
            only(service_tier="flex", prompt_cache_key="k", safety_identifier="u"),
        ),
        ({"prompt_cache_retention": "24h"}, only(prompt_cache_retention="24h")),
        ({"image": {"context_compression": "enabled"}}, only(image={"context_compression": "enabled"})),
        ({"access_programs": {"cyber": "standard"}}, only(access_programs={"cyber": "standard"})),
        (
            {
                "include": ["reasoning.encrypted_content"],
                "stream_options": {"include_obfuscation": False},
                "prompt_cache_options": {"mode": "implicit", "prewarm": False},
                "context_management": [],
                "top_logprobs": 2,
                "user": "u",
                "metadata": {"a": "b"},
                "client_metadata": {"nobody": "knows"},
                "prompt": {"id": "p"},
                "moderation": {"model": "m"},
            },
            only(
                include=["reasoning.encrypted_content"],
                stream_options={"include_obfuscation": False},
                prompt_cache_options={"mode": "implicit", "prewarm": False},
                context_management=[],
                top_logprobs=2,
                user="u",
                metadata={"a": "b"},
                client_metadata={"nobody": "knows"},
                prompt={"id": "p"},
                moderation={"model": "m"},
            ),
        ),
        (
            {
                "tools": [
                    {"type": "custom", "name": "patch", "format": {"type": "grammar"}},
                    {"type": "web_search", "search_context_size": "low"},
                    READ,
                ],
                "tool_choice": {"type": "web_search"},
            },
            RunOptions(
                tools=(
                    ToolSpec(
                        "patch",
                        parameters=FREE_TEXT,
                        free_text=True,
                        state=own(type="custom", format={"type": "grammar"}),
                    ),
                    READ_SPEC,
                ),
                hosted=(HostedTool(1, own(type="web_search", search_context_size="low")),),
                extra={"openai_responses": {"tool_choice": {"type": "web_search"}}},
            ),
        ),
    ],
)
def test_each_field_becomes_the_wish_that_it_is(fields, expected):
    assert asked(**fields).wishes == expected


@pytest.mark.requirement("F4", "F11")
def test_functions_of_a_namespace_are_offered_under_both_names_and_told_as_they_came():
    made = asked(tools=[READ, group(READ, {**READ, "name": "write"})])
    plain = tuple(replace(tool, state=None) for tool in made.wishes.tools)
    specs = [READ_SPEC, replace(READ_SPEC, name="files__read"), replace(READ_SPEC, name="files__write")]
    assert plain == tuple(specs)
    told = {"type": "namespace", "name": "files", "tools": [READ, {**READ, "name": "write"}]}
    assert made.echo["tools"] == [READ, told]
    assert grouped(made.echo["tools"]) == {
        "files__read": ("files", "read"),
        "files__write": ("files", "write"),
    }
    assert asked(tools=[group()]).wishes.tools == ()


@pytest.mark.requirement("F4")
def test_what_is_not_for_the_model_stands_beside_the_wishes():
    plain = asked()
    assert (plain.model, plain.messages, plain.instructions) == ("m", (SAID_HI,), "")
    assert (plain.stream, plain.store, plain.background, plain.metadata) == (False, True, False, {})
    assert (plain.previous_response_id, plain.conversation) == ("", "")
    assert (plain.max_tool_calls, plain.only_here) == (None, ())
    full = asked(stream=True, background=True, metadata={"a": "b", "c": None}, max_tool_calls=3)
    assert (full.stream, full.background, full.metadata, full.max_tool_calls) == (True, True, {"a": "b"}, 3)
    assert asked(store=False).store is False


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("given", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_named_by_a_string_or_an_object(given):
    assert asked(conversation=given).conversation == "conv_1"
    assert asked(conversation=given).echo["conversation"] == {"id": "conv_1"}


@pytest.mark.requirement("F4")
def test_a_request_that_goes_on_may_have_no_input():
    for fields in ({"previous_response_id": "resp_1"}, {"conversation": "c"}):
        assert asked(input=None, **fields).messages == ()
        assert asked(input=[], **fields).messages == ()


@pytest.mark.requirement("F4")
def test_instructions_stand_in_front_of_earlier_turns_and_these_in_front_of_the_input():
    earlier = (Message("user", (TextPart("Before."),)), Message("assistant", (TextPart("Yes."),)))
    told = Message("system", (TextPart("Be."),))
    with_them = asked(instructions="Be.")
    assert (with_them.instructions, with_them.messages, with_them.fresh) == (
        "Be.",
        (told, SAID_HI),
        (SAID_HI,),
    )
    assert with_them.behind(earlier) == (told, *earlier, SAID_HI)
    assert asked().behind(earlier) == (*earlier, SAID_HI)
    assert asked(instructions="").fresh == (SAID_HI,)


@pytest.mark.requirement("F11", "I8")
def test_tools_of_the_provider_are_kept_in_their_places_and_known_by_name():
    tools = [{"type": "web_search"}, READ, {"type": "mcp", "server_label": "a"}]
    found = asked(tools=tools)
    assert found.wishes.tools == (READ_SPEC,)
    assert [(tool.place, tool.state.data) for tool in found.wishes.hosted] == [(0, tools[0]), (2, tools[2])]
    assert found.only_here == ("tools.web_search", "tools.mcp")
    assert (
        build(ModelRequest("m", (), found.wishes.tools, hosted=found.wishes.hosted), Quirks())["tools"]
        == tools
    )


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "fields, param, code",
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": 4}, "model", "invalid_type"),
        ({"input": None}, "input", "missing_required_parameter"),
        ({"input": ""}, "input", "invalid_value"),
        ({"input": []}, "input", "array_below_min_length"),
        ({"input": {}}, "input", "invalid_type"),
        ({"input": [{"role": "user", "content": "a"}] * 30_001}, "input", "array_above_max_length"),
        ({"instructions": ["a"]}, "instructions", "invalid_type"),
        (
            {"prompt_cache_options": {"prewarm": True}},
            "prompt_cache_options.prewarm",
            "unsupported_parameter",
        ),
        (
            {"previous_response_id": "resp_1", "conversation": "c"},
            "previous_response_id",
            "mutually_exclusive_parameters",
        ),
        ({"previous_response_id": 1}, "previous_response_id", "invalid_type"),
        ({"conversation": 1}, "conversation", "invalid_type"),
        ({"conversation": {}}, "conversation.id", "missing_required_parameter"),
        ({"background": True, "store": False}, "background", "invalid_value"),
        ({"background": 1}, "background", "invalid_type"),
        ({"store": "no"}, "store", "invalid_type"),
        ({"stream": 1}, "stream", "invalid_type"),
        ({"include": "all"}, "include", "invalid_type"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"metadata": {"a": "b" * 513}}, "metadata.a", "string_above_max_length"),
        ({"metadata": {"k" * 65: "b"}}, "metadata", "invalid_value"),
        ({"metadata": {str(at): "b" for at in range(17)}}, "metadata", "object_above_max_properties"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0].name", "missing_required_parameter"),
        ({"tools": [group({"type": "web_search"})]}, "tools[0].tools[0].type", "unsupported_value"),
        ({"tools": [group(READ, READ)]}, "tools[0].tools[1].name", "invalid_value"),
        ({"tools": [group(READ), {**READ, "name": "files__read"}]}, "tools[1].name", "invalid_value"),
        ({"tools": [group({**READ, "name": "bad name"})]}, "tools[0].tools[0].name", "invalid_value"),
        ({"tools": [{**group(READ), "name": "bad name"}]}, "tools[0].tools[0].name", "invalid_value"),
        ({"tools": [group({**READ, "name": "f" * 122})]}, "tools[0].tools[0].name", "invalid_value"),
        (
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
            "tools[0].name",
            "missing_required_parameter",
        ),
        (
            {"tools": [{**READ, "allowed_callers": ["programmatic"]}]},
            "tools[0].allowed_callers",
            "invalid_value",
        ),
        ({"tools": [READ, READ]}, "tools[1].name", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        (
            {"tools": [READ], "tool_choice": {"type": "function", "name": "g"}},
            "tool_choice.name",
            "invalid_value",
        ),
        ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
        ({"max_tool_calls": 0}, "max_tool_calls", "invalid_value"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"top_p": True}, "top_p", "invalid_type"),
        ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"reasoning": "low"}, "reasoning", "invalid_type"),
        ({"reasoning": {"effort": 1}}, "reasoning.effort", "invalid_type"),
        ({"text": "plain"}, "text", "invalid_type"),
        ({"text": {"verbosity": 1}}, "text.verbosity", "invalid_type"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "unsupported_value"),
        (
            {"text": {"format": {"type": "json_schema", "name": "n"}}},
            "text.format.schema",
            "missing_required_parameter",
        ),
        (
            {"text": {"format": {"type": "json_schema", "schema": {}}}},
            "text.format.name",
            "missing_required_parameter",
        ),
        ({"truncation": "some"}, "truncation", "invalid_value"),
        ({"user": 1}, "user", "invalid_type"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(fields, param, code):
    found = read(**fields)
    assert isinstance(found, Failure), found
    assert (found.kind, found.status, found.param, found.code) == ("invalid", 400, param, code)
    assert found.message.startswith(param)


def test_nulls_are_the_same_as_nothing():
    fields = set(official.ResponseCreateParamsBase.__annotations__) - {"model", "input"}
    assert read(**dict.fromkeys(sorted(fields | {"stream"}))) == read()


def test_every_official_field_is_understood_passed_on_looked_at_or_refused():
    names = official.ResponseCreateParamsBase.__annotations__
    unseen = {name for name in names if isinstance(read(**{name: [{"not": "this"}]}), ResponsesAsked)} - {
        "input"
    }
    assert unseen == {"context_management"}  # a list of objects is what it is


# What the provider is asked, and what the response repeats


@pytest.mark.requirement("F11")
def test_a_provider_of_this_protocol_is_asked_what_the_client_asked():
    fields = {
        "text": {"format": FLAT, "verbosity": "low"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "tools": [READ],
        "tool_choice": {"type": "function", "name": "read"},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.25,
        "max_output_tokens": 9,
        "truncation": "auto",
        "service_tier": "flex",
        "instructions": "Be.",
    }
    found = asked(**fields)
    wishes = found.wishes
    request = ModelRequest(
        "m",
        found.messages,
        wishes.tools,
        wishes.tool_choice,
        wishes.max_output_tokens,
        wishes.temperature,
        wishes.top_p,
        wishes.stop,
        wishes.effort,
        wishes.response_format,
        wishes.parallel_calls,
        extra=wishes.extra["openai_responses"],
    )
    body = build(request, Quirks())
    assert {name: body[name] for name in fields} == fields


DEFAULTS: dict[str, Any] = {
    "instructions": None,
    "metadata": {},
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "previous_response_id": None,
    "conversation": None,
    "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "truncation": "disabled",
    "service_tier": "auto",
    "store": True,
    "background": False,
    "top_logprobs": 0,
    "user": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
}


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "fields, repeated",
    [
        ({}, {}),
        ({"instructions": "Be."}, {}),
        ({"metadata": {"a": "b"}}, {}),
        ({"tools": [READ], "tool_choice": {"type": "function", "name": "read"}}, {}),
        (
            {"tools": [{"type": "function", "name": "now", "parameters": None}]},
            {
                "tools": [
                    {
                        "type": "function",
                        "name": "now",
                        "description": None,
                        "parameters": {"type": "object", "properties": {}},
                        "strict": False,
                    }
                ]
            },
        ),
        ({"parallel_tool_calls": False}, {}),
        (
            {
                "temperature": 0.5,
                "top_p": 0.25,
                "max_output_tokens": 3,
                "max_tool_calls": 2,
                "top_logprobs": 4,
            },
            {},
        ),
        ({"previous_response_id": "resp_1"}, {}),
        ({"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "low", "summary": None}}),
        ({"text": {"format": FLAT}}, {"text": {"format": FLAT, "verbosity": "medium"}}),
        ({"truncation": "auto", "service_tier": "flex", "store": False, "user": "u"}, {}),
        ({"background": True, "prompt_cache_key": "k", "safety_identifier": "s"}, {}),
    ],
)
def test_the_response_repeats_the_request_in_a_shape_that_official_clients_know(fields, repeated):
    echo = asked(**fields).echo
    assert echo == {**DEFAULTS, **fields, **repeated}
    base = {**echo, "id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    told = Response.model_validate(response_body(base, "in_progress", []))
    assert told.tool_choice == echo["tool_choice"] or told.tool_choice.name == "read"


# Anything at all

FULL = {
    "model": "m", "instructions": "Be.", "tools": [READ], "tool_choice": {"type": "function", "name": "read"},
    "input": [
        {"role": "user", "content": "a"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "b"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y", "detail": "low"}, {"type": "input_file", "filename": "a.txt", "file_data": "AA=="}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "c"}], "encrypted_content": "e"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "d", "annotations": []}, {"type": "refusal", "refusal": "No."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "e"}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "1"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    ],
    "text": {"format": FLAT, "verbosity": "low"}, "reasoning": {"effort": "low", "summary": "auto"}, "metadata": {"a": "b"},
    "temperature": 1, "max_output_tokens": 9, "stream": True, "include": ["reasoning.encrypted_content"], "truncation": "auto",
    "previous_response_id": "resp_1", "background": True,
}  # fmt: skip


def test_the_full_request_is_one_of_the_official_kind():
    assert drained(OFFICIAL.validate_python(FULL))["input"][5]["name"] == "read"
    assert isinstance(read_response(msgspec.json.encode(FULL)), ResponsesAsked)


@pytest.mark.requirement("F4")
@given(st.binary() | any_json.map(msgspec.json.encode) | with_one_change(FULL).map(msgspec.json.encode))
def test_no_bytes_raise(body):
    found = read_response(body)
    assert isinstance(found, ResponsesAsked | Failure)
    assert_read_or_refused(found, ResponsesAsked)
