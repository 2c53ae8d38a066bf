"""What the document says of the body of a request is what its reader takes: bodies that say all there is to say, with each
value of them in turn replaced by odd ones, or left out."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from support.http.all_endpoints import DOCUMENT
from support.http.document_checks import validator

from turnbuckle.vocab.failure import Failure
from turnbuckle.wire.anthropic.parse_request import read_count_request, read_message_request
from turnbuckle.wire.openai_chat.parse_request import read_chat
from turnbuckle.wire.openai_responses.parse_request import read_response

GONE = object()
ODD: tuple[Any, ...] = (
    GONE,
    None,
    "",
    " ",
    "odd one",
    "odd",
    "x" * 300,
    0,
    -1,
    1.5,
    True,
    [],
    [None],
    [5],
    ["odd"],
    [{}],
    [{"type": "odd"}],
    {},
    {"type": "odd"},
    {"type": None},
    {"type": 5},
    {"type": []},
    {"odd": 1},
)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
PICTURE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
MESSAGES: dict[str, Any] = {
    "model": "lab",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief.", **CACHED}],
    "messages": [
        {"role": "user", "content": "Hi."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "c2ln"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"path": "a"}, **CACHED},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "is_error": False,
                    "content": [{"type": "text", "text": "nothing"}, {"type": "image", "source": PICTURE}],
                },
                {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "a"},
                    "title": "A",
                },
                {"type": "odd", "of": "tomorrow"},
            ],
        },
    ],
    "tools": [
        {"name": "look", "description": "Looks.", "input_schema": SCHEMA, "strict": True, **CACHED},
        {"type": "custom", "name": "other", "input_schema": SCHEMA},
        {"type": "web_search_20250305", "name": "web_search", "input_schema": SCHEMA},
        {"type": "odd_20250305", "input_schema": SCHEMA},
    ],
    "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "stop_sequences": ["END"],
    "stream": True,
    "metadata": {"user_id": "ann"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "service_tier": "auto",
}
CHAT: dict[str, Any] = {
    "model": "lab",
    "messages": [
        {"role": "system", "content": "Be brief.", "name": "boss"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Hi."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_data": "data:text/plain;base64,AAAA", "filename": "a"}},
                {"type": "odd", "odd": {}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "refusal": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"path":"a"}'}},
                {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "a"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "nothing"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "nothing"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": True},
        },
        {
            "type": "custom",
            "custom": {"name": "patch", "description": "Patches.", "format": {"type": "text"}},
        },
        {"type": "odd", "function": {"name": "of tomorrow"}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "parallel_tool_calls": True,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": SCHEMA, "strict": True},
    },
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "n": 1,
    "stop": ["END"],
    "seed": 5,
    "user": "ann",
    "reasoning_effort": "low",
    "metadata": {"a": "b"},
    "logit_bias": {"1": 5},
    "logprobs": True,
    "top_logprobs": 2,
    "store": True,
}
RESPONSES: dict[str, Any] = {
    "model": "lab",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": "Hi."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Hi."},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
                {"type": "input_file", "file_data": "data:text/plain;base64,AAAA", "filename": "a"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "A",
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "I look.", "annotations": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"path":"a"}',
            "namespace": "far",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "a"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "a"}]},
        {"type": "odd", "id": "of tomorrow"},
    ],
    "tools": [
        {"type": "function", "name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": True},
        {"type": "custom", "name": "patch", "description": "Patches.", "format": {"type": "text"}},
        {
            "type": "namespace",
            "name": "far",
            "description": "Far away.",
            "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}],
        },
        {"type": "web_search", "name": "of theirs"},
    ],
    "tool_choice": {"type": "function", "name": "look"},
    "parallel_tool_calls": True,
    "max_output_tokens": 50,
    "max_tool_calls": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "stream": True,
    "background": False,
    "store": True,
    "metadata": {"a": "b"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {
        "format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True},
        "verbosity": "low",
    },
    "include": ["reasoning.encrypted_content"],
    "truncation": "auto",
    "user": "ann",
    "prompt_cache_key": "a",
    "safety_identifier": "ann",
    "service_tier": "auto",
}
COUNT = {name: value for name, value in MESSAGES.items() if name not in ("max_tokens", "stream")}
READERS: dict[str, Callable[[bytes], object]] = {
    "/v1/messages": read_message_request,
    "/v1/messages/count_tokens": read_count_request,
    "/v1/chat/completions": read_chat,
    "/v1/responses": read_response,
}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/messages", MESSAGES),
    ("/v1/messages", {**MESSAGES, "tool_choice": {"type": "any", "name": "look"}}),
    ("/v1/messages/count_tokens", COUNT),
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", {**CHAT, "tool_choice": {"type": "custom", "custom": {"name": "patch"}}}),
    ("/v1/responses", RESPONSES),
    ("/v1/responses", {**RESPONSES, "tool_choice": {"type": "custom", "name": "patch"}}),
]
ELSEWHERE = (" not among the tools ", " not kept here", "input is missing.", "input is empty")
"""What is wrong with a body that its schema cannot say: names that other fields must have, and what the server keeps."""


def spoiled(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """The value with one of those in it replaced or left out, in every way."""
    for odd in ODD:
        yield f"{where} = {'gone' if odd is GONE else repr(odd)[:40]}", odd
    if isinstance(value, dict):
        for name, inner in value.items():
            for what, odd in spoiled(inner, f"{where}.{name}"):
                yield (
                    what,
                    {
                        key: odd if key == name else old
                        for key, old in value.items()
                        if key != name or odd is not GONE
                    },
                )
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for what, odd in spoiled(inner, f"{where}[{place}]"):
                yield what, [*value[:place], *([] if odd is GONE else [odd]), *value[place + 1 :]]


@pytest.mark.requirement("F1", "F9")
@pytest.mark.parametrize("path, whole", BODIES, ids=str)
def test_what_the_document_allows_is_taken_and_nothing_else(path, whole):
    read = READERS[path]
    schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    allows = validator(schema).is_valid
    assert allows(whole)
    assert not isinstance(read(msgspec.json.encode(whole)), Failure)
    wrong, tried = [], 0
    for what, body in spoiled(whole):
        if body is GONE:
            continue
        tried += 1
        read_as = read(msgspec.json.encode(body))
        why = read_as.message if isinstance(read_as, Failure) else ""
        if not why and not allows(body):
            wrong.append(f"{what} is taken")
        elif why and allows(body) and not any(words in why for words in ELSEWHERE):
            wrong.append(f"{what} is refused: {why}")
    assert tried > 1_000
    assert wrong == []
