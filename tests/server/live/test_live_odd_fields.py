"""Fields that nobody has heard of, at every level of requests and answers: each arrives, or is named."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario
from support.server.odd_fields import PATHS, Odds, found_in

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem
from turnbuckle.wire.anthropic.parse_request import read_message_request
from turnbuckle.wire.openai_chat.parse_request import read_chat
from turnbuckle.wire.openai_responses.parse_request import read_response

PNG = "iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def chat_request(odd: Odds) -> dict[str, Any]:
    function = {"name": "look", "arguments": "{}", **odd("function_of_call")}
    custom = {"name": "patch", "input": "x", **odd("custom_of_call")}
    image = {"url": f"data:image/png;base64,{PNG}", **odd("image_url")}
    tools = [
        {"type": "function", "function": {"name": "look", "parameters": {**SCHEMA, **odd("schema")}, **odd("function")}, **odd("tool")},
        {"type": "custom", "custom": {"name": "patch", **odd("custom")}, **odd("custom_tool")},
        {"type": "browser", **odd("hosted_tool")},
    ]  # fmt: skip
    calls = [
        {"id": "call_1", "type": "function", "function": function, **odd("call")},
        {"id": "call_2", "type": "custom", "custom": custom, **odd("custom_call")},
    ]
    text = {"type": "text", "text": "Hi.", **odd("text_part")}
    return {
        "model": "lab",
        **odd("body"),
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be.", **odd("system_part")}], **odd("system")},
            {"role": "developer", "content": "Be brief.", **odd("developer")},
            {"role": "user", "content": [text, {"type": "image_url", "image_url": image, **odd("image_part")}], **odd("user")},
            {"role": "assistant", "content": [{"type": "text", "text": "I look.", **odd("said_part")}], "tool_calls": calls, **odd("assistant")},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "a", **odd("result_part")}], **odd("result")},
            {"role": "tool", "tool_call_id": "call_2", "content": "b", **odd("custom_result")},
            {"role": "assistant", "content": "So.", "reasoning_content": "hm", **odd("thoughtful")},
            {"role": "user", "content": [
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav", **odd("audio")}, **odd("audio_part")},
                {"type": "file", "file": {"file_id": "f", **odd("file")}, **odd("file_part")},
                {"type": "of_tomorrow", **odd("strange_part")},
            ]},
        ],
        "tools": tools,
        "tool_choice": {"type": "function", "function": {"name": "look", **odd("chosen_function")}, **odd("chosen")},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {**SCHEMA, **odd("answer_schema")}, **odd("json_schema")}, **odd("format")},
        "stream_options": {**odd("stream_options")},
        "metadata": {"a": "b"},
        "logit_bias": {"1": 2},
    }  # fmt: skip


def responses_request(odd: Odds) -> dict[str, Any]:
    return {
        "model": "lab",
        **odd("body"),
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be.", **odd("system_part")}], **odd("system")},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Hi.", **odd("text_part")},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto", **odd("image_part")},
                {"type": "input_file", "file_id": "f", **odd("file_part")},
                {"type": "of_tomorrow", **odd("strange_part")},
            ], **odd("user")},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm", **odd("summary_part")}], "encrypted_content": "AA==", **odd("reasoning")},
            {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{"type": "output_text", "text": "I look.", "annotations": [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1, **odd("annotation")}], **odd("said_part")}], **odd("assistant")},
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", "id": "fc_1", **odd("call")},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "a", **odd("result_part")}], **odd("result")},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "x", **odd("custom_call")},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "b", **odd("custom_result")},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q", **odd("action")}, **odd("hosted_call")},
            {"type": "item_of_tomorrow", **odd("strange_item")},
            {"type": "message", "role": "user", "content": "And?", **odd("last")},
        ],
        "tools": [
            {"type": "function", "name": "look", "parameters": {**SCHEMA, **odd("schema")}, "strict": False, **odd("tool")},
            {"type": "custom", "name": "patch", "format": {"type": "text", **odd("format_of_tool")}, **odd("custom_tool")},
            {"type": "web_search", "filters": {**odd("filters")}, **odd("hosted_tool")},
            {"type": "namespace", "name": "group", "tools": [{"type": "function", "name": "find", "parameters": {**SCHEMA, **odd("grouped_schema")}, "strict": False, **odd("grouped_tool")}], **odd("group")},
        ],
        "tool_choice": {"type": "function", "name": "look", **odd("chosen")},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {**SCHEMA, **odd("answer_schema")}, **odd("format")}, "verbosity": "low", **odd("text")},
        "reasoning": {"effort": "low", **odd("reasoning_wish")},
        "stream_options": {**odd("stream_options")},
    }  # fmt: skip


def messages_request(odd: Odds) -> dict[str, Any]:
    return {
        "model": "lab",
        "max_tokens": 100,
        **odd("body"),
        "system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral", **odd("cache_control")}, **odd("system_part")}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Hi.", **odd("text_part")},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG, **odd("source")}, **odd("image_part")},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d", **odd("document_source")}, "title": "t", **odd("document")},
                {"type": "of_tomorrow", **odd("strange_part")},
            ], **odd("user")},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s", **odd("thinking")},
                {"type": "text", "text": "I look.", "citations": [{"type": "char_location", "cited_text": "d", "document_index": 0, **odd("citation")}], **odd("said_part")},
                {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {**odd("hosted_input")}, **odd("hosted_call")},
                {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result", "url": "u", **odd("hosted_found")}], **odd("hosted_result")},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {**odd("input")}, "caller": {**odd("caller")}, **odd("call")},
            ], **odd("assistant")},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "a", **odd("result_part")}, {"type": "search_result", "source": "u", "title": "t", "content": [{"type": "text", "text": "x", **odd("inner_part")}], **odd("search_result")}], **odd("result")},
            ]},
        ],
        "tools": [
            {"name": "look", "input_schema": {**SCHEMA, **odd("schema")}, **odd("tool")},
            {"type": "web_search_20250305", "name": "web_search", "user_location": {**odd("location")}, **odd("hosted_tool")},
        ],
        "tool_choice": {"type": "tool", "name": "look", **odd("chosen")},
        "metadata": {"user_id": "u", **odd("metadata")},
        "thinking": {"type": "enabled", "budget_tokens": 2000, **odd("thinking_wish")},
        "output_config": {"effort": "low", **odd("output_config")},
        "mcp_servers": [{"type": "url", "url": "u", "name": "n", **odd("mcp_server")}],
        "context_management": {"edits": [{"type": "e", **odd("edit")}], **odd("context_management")},
    }  # fmt: skip


REQUESTS = {
    "openai_chat": chat_request,
    "openai_responses": responses_request,
    "anthropic": messages_request,
}


def hello(_: LabRequest) -> Iterable[ScriptItem]:
    return (Say("Hello."), Finish())


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("protocol", REQUESTS)
def test_every_odd_field_of_a_request_arrives_at_a_provider_of_the_same_protocol(
    tmp_path: Path, protocol: str
) -> None:
    odd = Odds()
    body = REQUESTS[protocol](odd)

    async def scenario(server: LiveServer) -> None:
        reply = await server.post(PATHS[protocol], body)
        assert reply.status == 200, reply.body
        assert "x-turnbuckle-left-out" not in reply.headers
        arrived = found_in(server.lab.requests[-1].body)
        missing = [place for place in odd.places if place not in arrived]
        assert not missing, " ".join(missing)

    run_scenario(scenario, tmp_path, hello, protocol=protocol)


READERS: dict[str, Any] = {
    "openai_chat": read_chat,
    "openai_responses": read_response,
    "anthropic": read_message_request,
}
TRANSLATED = {"schema", "answer_schema", "grouped_schema", "input", "json_schema", "format"}
"""What stands in values that every protocol takes as they are, or both of OpenAI's do."""
BOUND = {"summary_part", "reasoning", "thinking", "inner_part"}
"""What is bound to its provider with all that stands around it, so that nobody else misses it."""


def paths(value: Any, path: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each odd field with the names by which it may be told: its own, that of anything around it, or that by its type."""
    if isinstance(value, list):
        for one in value:
            yield from paths(one, path)
    elif isinstance(value, dict):
        typed: tuple[str, ...] = (f"{path}.{value['type']}",) if isinstance(value.get("type"), str) else ()
        media = value.get("source")
        typed += (f"{path}.{value['type']}.{media['type']}",) if isinstance(media, dict) else ()
        for name, inner in value.items():
            inside = f"{path}.{name}" if path else name
            if name.startswith("odd_"):
                yield name.removeprefix("odd_"), (inside, *typed)
                continue
            for place, names in paths(inner, inside):
                yield place, (*names, inside, *typed)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("protocol", REQUESTS)
def test_every_odd_field_that_another_protocol_goes_without_has_a_name(protocol: str) -> None:
    body = REQUESTS[protocol](Odds())
    asked = READERS[protocol](json.dumps(body).encode())
    named = {*asked.only_here}
    last = {name.rpartition(".")[2] for name in asked.only_here}
    unnamed = [
        place
        for place, names in paths(body)
        if place not in TRANSLATED | BOUND and f"odd_{place}" not in last and not named & {*names}
    ]
    assert unnamed == []


OTHERS = [(one, other) for one in REQUESTS for other in (*REQUESTS, "gemini") if one != other]


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("spoken, protocol", OTHERS, ids=[f"{one} to {other}" for one, other in OTHERS])
def test_nothing_odd_goes_to_another_protocol_but_in_values_that_all_of_them_take(
    tmp_path: Path, spoken: str, protocol: str
) -> None:
    body = REQUESTS[spoken](Odds())

    async def scenario(server: LiveServer) -> None:
        reply = await server.post(PATHS[spoken], body)
        assert reply.status == 200, reply.body
        assert {*found_in(server.lab.requests[-1].body)} <= TRANSLATED
        strict = await server.post(PATHS[spoken], body, x_turnbuckle_strict="true")
        assert (strict.status, len(server.lab.requests)) == (400, 1)

    run_scenario(scenario, tmp_path, hello, protocol=protocol)
