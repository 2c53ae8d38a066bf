"""What a client asks of a route of another protocol: said in its words, or named as left out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario
from support.server.provider_answers import ASKED, MESSAGE, asking, block, event, opening

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem


def hello(_: LabRequest) -> Iterable[ScriptItem]:
    return (Say("Hello."), Finish())


@pytest.mark.requirement("I8", "I9")
def test_what_a_chat_client_marks_for_a_cache_is_marked_for_anthropic(tmp_path: Path) -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}, **mark}
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    body = {
        "model": "lab",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be kind.", **mark}]},
            {
                "role": "user",
                "content": [{"type": "text", "text": "One.", **mark}, {"type": "text", "text": "Two."}],
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "seen", **mark},
        ],
        "tools": [tool],
    }

    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/chat/completions", body, x_turnbuckle_strict="true")
        assert reply.status == 200, reply.body
        sent = server.lab.requests[-1].body
        assert sent["system"] == [{"type": "text", "text": "Be kind.", **mark}]
        assert sent["messages"][0]["content"] == [
            {"type": "text", "text": "One.", **mark},
            {"type": "text", "text": "Two."},
        ]
        assert sent["messages"][2]["content"][0]["cache_control"] == mark["cache_control"]
        assert [tool.get("cache_control") for tool in sent["tools"]] == [mark["cache_control"], None]

    run_scenario(scenario, tmp_path, hello, protocol="anthropic")


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(
    ("protocol", "path", "body", "left"),
    [
        ("openai_responses", "/v1/chat/completions", {"stop": ["END"]}, "stop"),
        ("openai_responses", "/v1/messages", {"stop_sequences": ["END"]}, "stop_sequences"),
        ("anthropic", "/v1/chat/completions", {"temperature": 0.5, "top_p": 1, "top_k": 4}, "top_k, temperature, top_p"),
        ("anthropic", "/v1/chat/completions", {"response_format": {"type": "json_object"}}, "response_format"),
        ("gemini", "/v1/chat/completions", {"parallel_tool_calls": False}, "parallel_tool_calls"),
        (
            "gemini",
            "/v1/messages",
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            "tool_choice.disable_parallel_tool_use",
        ),
    ],
)  # fmt: skip
def test_a_wish_that_the_provider_has_no_words_for_is_named(
    tmp_path: Path, protocol: str, path: str, body: dict[str, Any], left: str
) -> None:
    async def scenario(server: LiveServer) -> None:
        asked = {"model": "lab", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi."}], **body}
        reply = await server.post(path, asked)
        assert reply.status == 200, reply.body
        assert reply.headers["x-turnbuckle-left-out"] == left

    run_scenario(scenario, tmp_path, hello, protocol=protocol)


@pytest.mark.requirement("I8")
def test_what_two_protocols_both_know_is_translated_and_not_called_left_out(tmp_path: Path) -> None:
    custom = {"type": "custom", "custom": {"name": "patch"}}
    body = {
        "model": "lab",
        "messages": [{"role": "user", "content": "Hi."}],
        "metadata": {"a": "b"},
        "user": "u",
        "service_tier": "flex",
        "logprobs": True,
        "top_logprobs": 2,
        "stop": None,
        "tools": [custom],
    }

    async def scenario(server: LiveServer) -> None:
        strict = await server.post("/v1/chat/completions", body, x_turnbuckle_strict="true")
        assert strict.status == 200, strict.body
        assert "x-turnbuckle-left-out" not in strict.headers
        sent = server.lab.requests[-1].body
        assert {name: sent[name] for name in ("metadata", "user", "service_tier", "top_logprobs")} == {
            "metadata": {"a": "b"},
            "user": "u",
            "service_tier": "flex",
            "top_logprobs": 2,
        }
        assert "message.output_text.logprobs" in sent["include"]
        assert next(tool["name"] for tool in sent["tools"]) == "patch"
        grammar = {"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar"}}}
        named = await server.post("/v1/chat/completions", {**body, "tools": [grammar]})
        assert named.headers["x-turnbuckle-left-out"] == "tools.format"

    run_scenario(scenario, tmp_path, hello, protocol="openai_responses")


@pytest.mark.requirement("I8", "C5")
@pytest.mark.parametrize(
    ("protocol", "field", "said"),
    [
        ("openai_chat", "messages", [{"role": "system", "content": "Be."}, {"role": "system", "content": "Tell a joke."}]),
        ("openai_responses", "input", [{"type": "message", "role": "user", "content": "Tell a joke."}]),
        ("anthropic", "messages", [{"role": "user", "content": [{"type": "text", "text": "Tell a joke."}]}]),
        ("gemini", "contents", [{"role": "user", "parts": [{"text": "Tell a joke."}]}]),
    ],
)  # fmt: skip
def test_a_chat_request_of_system_messages_alone_says_something_everywhere(
    tmp_path: Path, protocol: str, field: str, said: list[Any]
) -> None:
    async def scenario(server: LiveServer) -> None:
        system = [{"role": "system", "content": "Be."}, {"role": "system", "content": "Tell a joke."}]
        reply = await server.post("/v1/chat/completions", {"model": "lab", "messages": system})
        assert reply.status == 200, reply.body
        assert server.lab.requests[-1].body[field] == said

    run_scenario(scenario, tmp_path, hello, protocol=protocol)


@pytest.mark.requirement("I8")
def test_texts_between_which_something_is_left_out_stay_apart(tmp_path: Path) -> None:
    text = lambda words: {"type": "text", "text": words}  # noqa: E731
    pages = {"type": "document", "source": {"type": "content", "content": [text("Page 1."), text("Page 2.")]}}
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    said = [text("I look."), used, found, text("It is"), text(" so.")]
    body = {
        "model": "lab",
        "max_tokens": 99,
        "messages": [
            {"role": "user", "content": [pages]},
            {"role": "assistant", "content": said},
            {"role": "user", "content": "And?"},
        ],
    }

    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/messages", body)
        assert reply.status == 200, reply.body
        sent = server.lab.requests[-1].body["messages"]
        assert [one["content"] for one in sent] == ["Page 1.\n\nPage 2.", "I look.\n\nIt is so.", "And?"]

    run_scenario(scenario, tmp_path, hello)


def text(index: int, words: str) -> Iterable[ScriptItem]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": words})


def searched(_: LabRequest) -> Iterable[ScriptItem]:
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    yield opening()
    yield from text(0, "I look.")
    yield from (*block(1, used), *block(2, found))
    yield from (*text(3, "It is"), *text(4, " so."))
    yield event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
    yield event("message_stop")


@pytest.mark.requirement("I8")
def test_words_before_and_after_a_search_of_the_provider_s_stay_apart(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/chat/completions", {**asking("chat", "Hi."), "stream": True})
        deltas = [
            choice["delta"] for frame in frames if frame.data != b"[DONE]" for choice in frame.json["choices"]
        ]
        assert "".join(delta.get("content") or "" for delta in deltas) == "I look.\n\nIt is so."
        chat = (await server.post("/v1/chat/completions", asking("chat", "Hi."))).json["choices"][0]
        assert chat["message"]["content"] == "I look.\n\nIt is so."
        items = (await server.post("/v1/responses", ASKED)).json["output"]
        assert [item["content"][0]["text"] for item in items] == ["I look.", "It is so."]
        blocks = (await server.post("/v1/messages", MESSAGE)).json["content"]
        assert [one.get("text") for one in blocks] == ["I look.", None, None, "It is", " so."]

    run_scenario(scenario, tmp_path, searched, protocol="anthropic")
