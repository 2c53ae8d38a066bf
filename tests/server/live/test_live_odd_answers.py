"""Fields that nobody has heard of, at every level of an answer: each reaches a client of the same protocol."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario
from support.server.odd_fields import PATHS, Odds, found_in
from support.server.provider_answers import block, event

from turnbuckle.lab.script import Frame, LabRequest, Raw, ScriptItem, Status

TOOL: dict[str, Any] = {"type": "object", "properties": {}}


def chat_answer(odd: Odds, *, whole: bool) -> Iterable[ScriptItem]:
    function = {"name": "look", "arguments": "{}", **odd("function")}
    custom = {"name": "patch", "input": "x", **odd("custom")}
    calls = [
        {"index": 0, "id": "c1", "type": "function", "function": function, **odd("call")},
        {"index": 1, "id": "c2", "type": "custom", "custom": custom, **odd("custom_call")},
    ]
    details = [{"type": "reasoning.text", "text": "hm", "index": 0, **odd("reasoning_detail")}]
    message = {"role": "assistant", "content": "Hi.", "reasoning_details": details, **odd("message")}
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1, **odd("usage_details")},
        **odd("usage"),
    }
    logprobs = {"content": [{"token": "Hi.", "logprob": -0.1, **odd("logprob")}], **odd("logprobs")}
    beside = {"logprobs": logprobs, **odd("choice")}
    base = {"id": "c", "model": "m", **odd("chunk")}
    if whole:
        choice = {
            "index": 0,
            "message": {**message, "tool_calls": calls},
            "finish_reason": "tool_calls",
            **beside,
        }
        document = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        yield Status(200, body=json.dumps(document))
        return
    deltas: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (message, {"finish_reason": None, **beside}),
        ({"tool_calls": calls}, {"finish_reason": None}),
        ({**odd("last_delta")}, {"finish_reason": "tool_calls", **odd("last_choice")}),
    ]
    for delta, more in deltas:
        yield Frame({**base, "choices": [{"index": 0, "delta": delta, **more}]})
    yield Frame({**base, "choices": [], "usage": usage})
    yield Raw("data: [DONE]\n\n")


def responses_answer(odd: Odds, *, whole: bool) -> Iterable[ScriptItem]:
    note = {
        "type": "url_citation",
        "url": "u",
        "title": "t",
        "start_index": 0,
        "end_index": 2,
        **odd("annotation"),
    }
    part = {"type": "output_text", "text": "Hi.", "annotations": [note], **odd("part")}
    summary = [{"type": "summary_text", "text": "hm", **odd("summary")}]
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "e", **odd("reasoning")},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", **odd("action")}, **odd("hosted")},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part], **odd("message")},
        {"type": "item_of_tomorrow", "id": "it_1", "status": "completed", **odd("strange_item")},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}", "status": "completed", **odd("call")},
    ]  # fmt: skip
    usage = {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 1, **odd("usage_details")},
        **odd("usage"),
    }
    body = {
        "id": "r",
        "object": "response",
        "model": "m",
        "status": "completed",
        "output": output,
        "usage": usage,
    }
    body |= odd("response")
    if whole:
        yield Status(200, body=json.dumps(body))
        return
    yield event("response.created", response={**body, "status": "in_progress", "output": []})
    for place, item in enumerate(output):
        bare = {**item, "content": []} if item["type"] == "message" else item
        yield event("response.output_item.added", output_index=place, item=bare)
        if item["type"] == "message":
            about = {"item_id": "msg_1", "output_index": place, "content_index": 0}
            yield event("response.output_text.delta", **about, delta="Hi.", **odd("delta"))
        yield event("response.output_item.done", output_index=place, item=item)
    yield event("response.strange", **odd("strange_event"))
    yield event("response.completed", response=body)


def messages_answer(odd: Odds, *, whole: bool) -> Iterable[ScriptItem]:
    cites = {"type": "web_search_result_location", "url": "u", "title": "t", **odd("citation")}
    found = [{"type": "web_search_result", "url": "u", **odd("found")}]
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": "s", **odd("thinking")},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": 1, **odd("hosted_input")}, **odd("hosted")},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": found, **odd("hosted_result")},
        {"type": "text", "text": "Hi.", "citations": [cites], **odd("text")},
        {"type": "block_of_tomorrow", **odd("strange_block")},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, **odd("call")},
    ]  # fmt: skip
    usage = {
        "input_tokens": 3,
        "output_tokens": 2,
        "server_tool_use": {"n": 1, **odd("usage_details")},
        **odd("usage"),
    }
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        **odd("message"),
    }
    if whole:
        body = {
            **message,
            "content": content,
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": usage,
        }
        yield Status(200, body=json.dumps(body))
        return
    yield event("message_start", message={**message, "usage": {"input_tokens": 3, "output_tokens": 1}})
    for place, one in enumerate(content):
        deltas: list[dict[str, Any]]
        match one["type"]:
            case "thinking":
                start = {**one, "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": "hm"},
                    {"type": "signature_delta", "signature": "s"},
                ]
            case "text":
                start = {**one, "text": "", "citations": []}
                deltas = [
                    {"type": "text_delta", "text": "Hi.", **odd("delta")},
                    {"type": "citations_delta", "citation": cites},
                    {"type": "delta_of_tomorrow", **odd("strange_delta")},
                ]
            case "server_tool_use":
                start = {**one, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(one["input"])}]
            case _:
                start, deltas = one, []
        yield from block(place, start, *deltas)
    yield event("event_of_tomorrow", **odd("strange_event"))
    stop = {"stop_reason": "tool_use", "stop_sequence": None, **odd("stop")}
    yield event("message_delta", delta=stop, usage=usage, **odd("message_delta"))
    yield event("message_stop")


ANSWERS = {"openai_chat": chat_answer, "openai_responses": responses_answer, "anthropic": messages_answer}
ASKED: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [{"role": "user", "content": "Hi."}],
        "tools": [
            {"type": "function", "function": {"name": "look", "parameters": TOOL}},
            {"type": "custom", "custom": {"name": "patch"}},
        ],
        "stream_options": {"include_usage": True},
    },
    "openai_responses": {
        "input": "Hi.",
        "tools": [{"type": "function", "name": "look", "parameters": TOOL}],
    },
    "anthropic": {
        "messages": [{"role": "user", "content": "Hi."}],
        "max_tokens": 100,
        "tools": [{"name": "look", "input_schema": TOOL}],
    },
}
STREAMED_ONLY = {"delta", "strange_delta", "strange_event"}
"""What an answer in one piece has no place for."""


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("stream", [False, True], ids=["asked in one piece", "asked as a stream"])
@pytest.mark.parametrize("whole", [False, True], ids=["told as a stream", "told in one piece"])
@pytest.mark.parametrize("protocol", ANSWERS)
def test_every_odd_field_of_an_answer_reaches_a_client_of_the_same_protocol(
    tmp_path: Path, protocol: str, whole: bool, stream: bool
) -> None:
    odd = Odds()
    script = list(ANSWERS[protocol](odd, whole=whole))

    def model(_: LabRequest) -> Iterable[ScriptItem]:
        return script

    async def scenario(server: LiveServer) -> None:
        body: dict[str, Any] = {"model": "lab", **ASKED[protocol], "stream": stream}
        if stream:
            frames = await server.read(PATHS[protocol], body)
            told: Any = [one.json for one in frames if one.data != b"[DONE]"]
        else:
            body.pop("stream_options", None)
            told = (await server.post(PATHS[protocol], body)).json
        arrived = {*found_in(told)} | ({*()} if stream else STREAMED_ONLY)
        missing = [place for place in odd.places if place not in arrived]
        assert not missing, " ".join(missing)
        assert len(server.lab.requests) == 1

    run_scenario(scenario, tmp_path, model, protocol=protocol)
