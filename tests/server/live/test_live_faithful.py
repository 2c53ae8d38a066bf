"""A relay passes on what it is given, field by field, and hands back what the provider said, known here or not."""

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import openai
import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import CutOff, Finish, Frame, LabRequest, Raw, Say, ScriptItem, Status
from turnbuckle.server.http.passing import passable

BODIES = sorted((Path(__file__).parents[2] / "client_bodies").glob("*/*.json"))
"""`recorded` are those of real clients, with long texts made short and ids made equal; `written` is what else the pages
of clients and providers say."""
PATHS = {
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1/messages": "anthropic",
}
NEVER = {"accept", "content-type"}
FINISH = {"name": "finish_call"}


def hello(_: LabRequest) -> Iterable[ScriptItem]:
    return (Say("Hello."), Finish())


def as_passed_on(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the page says that a relay changes, and nothing else."""
    made = {name: value for name, value in body.items() if value is not None}
    made |= {"model": "m", "stream": True}
    if path.endswith("/messages"):
        return as_messages(made)
    if "tools" in made:
        made.setdefault("tool_choice", "auto")
    if path.endswith("/responses"):
        return as_response(made)
    made["stream_options"] = {"include_usage": True, **made.get("stream_options", {})}
    if isinstance(made.get("stop"), str):
        made["stop"] = [made["stop"]]
    return made


def as_response(body: dict[str, Any]) -> dict[str, Any]:
    if isinstance(body["input"], str):
        body["input"] = [{"role": "user", "content": body["input"]}]
    made = {"store": False, **body, "input": [as_item(item) for item in body["input"]]}
    encrypted = "reasoning.encrypted_content"
    include = body.get("include", [encrypted])
    made["include"] = [*include, encrypted] if include and encrypted not in include else include
    if "tools" in made:
        made["tools"] = [plain(tool) for tool in made["tools"]]
    return made


def plain(tool: dict[str, Any]) -> dict[str, Any]:
    if tool["type"] == "namespace":
        return {**tool, "tools": [plain(inner) for inner in tool["tools"]]}
    return {"strict": False, **tool} if tool["type"] == "function" else tool


def as_item(item: dict[str, Any]) -> dict[str, Any]:
    made = {"type": "message", **item}
    if made["type"] == "function_call":
        made.pop("status", None)
    if made.get("role") == "assistant":
        parts = made["content"]
        parts = [{"type": "output_text", "text": parts}] if isinstance(parts, str) else parts
        made["content"] = [{"annotations": [], **part} for part in parts]
        for part in made["content"]:
            part.pop("logprobs", None)
        if "id" in made:
            made.setdefault("status", "completed")
    return made


def as_messages(body: dict[str, Any]) -> dict[str, Any]:
    body["messages"] = [{**one, "content": blocks(one["content"])} for one in body["messages"]]
    if "tools" in body:
        tools = [
            {**tool, "eager_input_streaming": True} if "input_schema" in tool else tool
            for tool in body["tools"]
        ]
        body["tools"] = [*tools, FINISH]
    return body


def blocks(content: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else [dict(one) for one in content]
    )
    for block in made:
        if block["type"] == "tool_result":
            block["content"] = blocks(block["content"])
            if not block.get("is_error"):
                block.pop("is_error", None)
    return made


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("file", BODIES, ids=lambda file: f"{file.parent.name} {file.stem}")
def test_what_a_client_sends_arrives_field_by_field(tmp_path: Path, file: Path) -> None:
    recorded = json.loads(file.read_text())
    path, body, headers = recorded["path"], recorded["body"], recorded["headers"]

    async def scenario(server: LiveServer) -> None:
        named = {name.replace("-", "_"): value for name, value in headers.items()}
        if body.get("stream"):
            await server.read(path, body, **named)
        else:
            reply = await server.post(path, body, **named)
            assert reply.status == 200, reply.body
            assert "x-turnbuckle-left-out" not in reply.headers
        arrived = server.lab.requests[-1]
        wanted = as_passed_on(path, body)
        assert {**arrived.body, "tools": known_tools(arrived.body)} == {
            **wanted,
            "tools": wanted.get("tools", []),
        }
        assert {name: arrived.headers[name] for name in headers if name not in NEVER} == {
            name: value for name, value in headers.items() if name not in NEVER
        }

    run_scenario(scenario, tmp_path, hello, protocol=PATHS[path])


def known_tools(body: dict[str, Any]) -> list[Any]:
    """The tools, and of the one that finishes a cut call only its name, since its words are ours."""
    return [FINISH if tool.get("name") == "finish_call" else tool for tool in body.get("tools", [])]


SECRETS = {"authorization": "Bearer theirs", "cookie": "a=b", "x_portkey_api_key": "s", "x_custom": "c"}
WITH_EXTRAS = {
    "model": "lab",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "zz": 1}]}],
    "seed": 1,
    "provider": {"order": ["a"]},
}


@pytest.mark.requirement("I8")
def test_what_is_not_passed_on_is_named_and_refused_by_who_is_strict(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/chat/completions", WITH_EXTRAS, **SECRETS)
        left = "messages.content.zz, seed, provider, x-portkey-api-key, x-custom"
        assert reply.headers["x-turnbuckle-left-out"] == left
        assert reply.headers["x-turnbuckle-route"] == "lab"
        arrived = server.lab.requests[-1]
        assert not {"cookie", "x-portkey-api-key", "x-custom", "seed", "provider"} & {
            *arrived.headers,
            *arrived.body,
        }
        assert "theirs" not in json.dumps(arrived.headers)
        strict = await server.post("/v1/chat/completions", WITH_EXTRAS, x_turnbuckle_strict="true", **SECRETS)
        assert (strict.status, strict.json["error"]["code"]) == (400, "not_passed_on")
        assert len(server.lab.requests) == 1

    run_scenario(scenario, tmp_path, hello, protocol="anthropic")


BEGUN = [{"role": "user", "content": "A story."}, {"role": "assistant", "content": "Once upon"}]
REFUSES_BEGUN = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("refuses", [False, True], ids=["takes it", "refuses it"])
def test_an_answer_that_the_client_began_goes_to_the_provider_so(
    tmp_path: Path, path: str, refuses: bool
) -> None:
    """A provider that refuses that is asked to go on in words."""

    def goes_on(request: LabRequest) -> Iterable[ScriptItem]:
        if refuses and request.body["messages"][-1]["role"] == "assistant":
            return (Status(400, body=json.dumps({"error": {"message": REFUSES_BEGUN}})),)
        return (Say(" a time."), Finish())

    async def scenario(server: LiveServer) -> None:
        reply = await server.post(
            path, {"model": "lab", "max_tokens": 99, "messages": BEGUN, "prefix_flag": 1}
        )
        assert reply.status == 200, reply.body
        assert " a time." in reply.body.decode()
        roles = [[one["role"] for one in request.body["messages"]] for request in server.lab.requests]
        assert roles[0] == ["user", "assistant"]
        assert roles[1:] == ([["user", "assistant", "user"]] if refuses else [])

    run_scenario(scenario, tmp_path, goes_on, protocol=PATHS[path])


@pytest.mark.requirement("I9", "I8")
def test_a_conversation_that_is_too_long_fails_in_the_words_of_its_provider(tmp_path: Path) -> None:
    words = (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    )
    error = {"error": {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}}

    def full(_: LabRequest) -> Iterable[ScriptItem]:
        return (Status(400, body=json.dumps(error)),)

    async def scenario(server: LiveServer) -> None:
        said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 3
        body = {"model": "lab", "messages": [*said, {"role": "user", "content": "c"}]}
        reply = await server.post("/v1/chat/completions", body)
        assert reply.status == 400
        assert words in reply.json["error"]["message"]
        assert reply.json["error"]["code"] == "context_length_exceeded"
        assert [len(request.body["messages"]) for request in server.lab.requests] == [7]

    other = '[[routes]]\nname = "other"\nprotocol = "openai_chat"\nmodel = "o"\napi_key = "any"\nbase_url = "URL/v1"'
    run_scenario(scenario, tmp_path, full, more=other)


@pytest.mark.requirement("I9")
def test_an_answer_that_filled_the_window_goes_to_the_client_as_it_is(tmp_path: Path) -> None:
    """The client owns its context, also where another route would go on."""

    def fills(_: LabRequest) -> Iterable[ScriptItem]:
        return (Say("As far as"), Finish("window"))

    async def scenario(server: LiveServer) -> None:
        body = {"model": "lab", "max_tokens": 99, "messages": [{"role": "user", "content": "a"}]}
        reply = await server.post("/v1/messages", body)
        assert reply.json["stop_reason"] == "model_context_window_exceeded"
        assert reply.json["content"][0]["text"].startswith("As far as")
        assert len(server.lab.requests) == 1

    other = '[[routes]]\nname = "other"\nprotocol = "openai_chat"\nmodel = "o"\napi_key = "any"\nbase_url = "URL/v1"'
    run_scenario(scenario, tmp_path, fills, more=other, protocol="anthropic")


def chunk(delta: dict[str, Any], *, finish: str | None = None, **beside: Any) -> Frame:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **beside.pop("choice", {})}
    return Frame({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **beside})


LOGPROBS = [{"content": [{"token": word, "logprob": -0.1}]} for word in ("Hel", "lo.")]


def talkative(_: LabRequest) -> Iterable[ScriptItem]:
    yield chunk(
        {"role": "assistant", "content": ""}, provider="Acme", system_fingerprint="fp", citations=["u"]
    )
    yield chunk({"content": "Hel"}, provider="Acme", choice={"logprobs": LOGPROBS[0]})
    yield chunk({"content": "lo."}, provider="Acme", choice={"logprobs": LOGPROBS[1]})
    yield chunk({"annotations": [{"type": "url_citation"}]})
    yield chunk({}, finish="stop", choice={"native_finish_reason": "STOP"})
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "cost": 0.5,
        "prompt_tokens_details": {"audio_tokens": 1},
    }
    yield Frame({"id": "c", "model": "m", "choices": [], "usage": usage})
    yield Raw("data: [DONE]\n\n")


ASKED = {"model": "lab", "messages": [{"role": "user", "content": "Hi."}]}


@pytest.mark.requirement("I8")
def test_fields_of_an_answer_that_nobody_here_knows_reach_the_client(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        whole = (await server.post("/v1/chat/completions", ASKED)).json
        choice = whole["choices"][0]
        assert (whole["provider"], whole["system_fingerprint"], whole["citations"]) == ("Acme", "fp", ["u"])
        assert choice["message"]["content"] == "Hello."
        assert choice["message"]["annotations"] == [{"type": "url_citation"}]
        assert choice["native_finish_reason"] == "STOP"
        assert choice["logprobs"]["content"] == [one["content"][0] for one in LOGPROBS]
        assert whole["usage"]["cost"] == 0.5
        assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 0, "audio_tokens": 1}
        body = {**ASKED, "stream": True, "stream_options": {"include_usage": True}}
        frames = [
            one.json for one in await server.read("/v1/chat/completions", body) if one.data != b"[DONE]"
        ]
        choices = [one for frame in frames for one in frame["choices"]]
        assert "".join(one["delta"].get("content") or "" for one in choices) == "Hello."
        assert [one["logprobs"] for one in choices if one["logprobs"]] == LOGPROBS
        assert [frame["citations"] for frame in frames if "citations" in frame] == [["u"]]
        assert frames[-1]["provider"] == "Acme"
        assert [one["native_finish_reason"] for one in choices if "native_finish_reason" in one] == ["STOP"]
        assert frames[-1]["usage"]["cost"] == 0.5

    run_scenario(scenario, tmp_path, talkative)


PATCH = '*** Begin Patch\n-"é"\n+\t"ü"\n*** End Patch'
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}


def event(kind: str, **fields: Any) -> Frame:
    return Frame({"type": kind, **fields}, kind)


def patching(*, cut: bool) -> list[ScriptItem]:
    item = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_1",
        "name": "apply_patch",
        "input": "",
    }
    about = {"item_id": "ctc_1", "output_index": 1}
    made: list[ScriptItem] = [
        event("response.created", response={"id": "resp_1", "model": "m", "status": "in_progress"}),
        event("response.output_item.added", output_index=0, item={**SEARCH, "status": "in_progress"}),
        event("response.output_item.done", output_index=0, item=SEARCH),
        event("response.output_item.added", output_index=1, item=item),
        event("response.custom_tool_call_input.delta", **about, delta=PATCH[:20]),
    ]
    if cut:
        return [*made, CutOff("reset")]
    whole = {**item, "input": PATCH, "status": "completed"}
    return [
        *made,
        event("response.custom_tool_call_input.delta", **about, delta=PATCH[20:]),
        event("response.custom_tool_call_input.done", **about, input=PATCH),
        event("response.output_item.done", output_index=1, item=whole),
        event(
            "response.completed",
            response={"id": "resp_1", "model": "m", "status": "completed", "output": [SEARCH, whole]},
        ),
    ]


CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Edits.", "format": {"type": "text"}}
PATCH_BODY = {"model": "lab", "input": "Fix it.", "tools": [CUSTOM, {"type": "web_search"}]}


@pytest.mark.requirement("I8", "B1")
@pytest.mark.parametrize("broken", [False, True], ids=["whole", "cut once"])
def test_a_custom_call_and_a_hosted_one_come_through_whole(tmp_path: Path, broken: bool) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return patching(cut=broken and request.number == 1)

    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/responses", {**PATCH_BODY, "stream": True})
        told = frames[-1].json["response"]
        assert told["status"] == "completed", told
        (call,) = (item for item in told["output"] if item["type"] == "custom_tool_call")
        assert (call["name"], call["input"]) == ("apply_patch", PATCH)
        deltas = [one.json["delta"] for one in frames if one.event == "response.custom_tool_call_input.delta"]
        assert "".join(deltas) == PATCH
        assert SEARCH in told["output"]
        answered = [call, {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"}]
        body = {**PATCH_BODY, "input": [{"role": "user", "content": "Fix it."}, *answered]}
        await server.post("/v1/responses", body)
        calls = [item for item in server.lab.requests[-1].body["input"] if "call_id" in item]
        assert [item["type"] for item in calls] == ["custom_tool_call", "custom_tool_call_output"]
        assert calls[0]["input"] == PATCH

    run_scenario(scenario, tmp_path, model, protocol="openai_responses")


def chat_patching(*, cut: bool) -> Iterable[ScriptItem]:
    """A chat provider that calls a custom tool, in pieces."""
    first = {
        "index": 0,
        "id": "call_1",
        "type": "custom",
        "custom": {"name": "apply_patch", "input": PATCH[:9]},
    }
    yield chunk({"role": "assistant", "tool_calls": [first]})
    yield chunk({"tool_calls": [{"index": 0, "custom": {"input": PATCH[9:20]}}]})
    if cut:
        yield CutOff("reset")
        return
    yield chunk({"tool_calls": [{"index": 0, "custom": {"input": PATCH[20:]}}]})
    yield chunk({}, finish="tool_calls")
    yield Raw("data: [DONE]\n\n")


@pytest.mark.requirement("I8", "B1")
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_a_custom_call_on_chat_is_handed_over_whole_however_often_it_was_cut(
    tmp_path: Path, cuts: int, stream: bool
) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return chat_patching(cut=request.number <= cuts)

    tool = {"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "text"}}}
    body = {"model": "lab", "messages": [{"role": "user", "content": "Fix it."}], "tools": [tool]}

    async def scenario(server: LiveServer) -> None:
        if stream:
            frames = await server.read("/v1/chat/completions", {**body, "stream": True})
            told = [one.json["choices"][0] for one in frames if one.data != b"[DONE]" and one.json["choices"]]
            calls = [call for one in told for call in one["delta"].get("tool_calls", [])]
            assert told[-1]["finish_reason"] == "tool_calls"
        else:
            whole = (await server.post("/v1/chat/completions", body)).json
            calls = whole["choices"][0]["message"]["tool_calls"]
            assert whole["choices"][0]["finish_reason"] == "tool_calls"
        assert [(call["type"], call["custom"]) for call in calls] == [
            ("custom", {"name": "apply_patch", "input": PATCH})
        ]
        arrived = server.lab.requests[0].body
        assert arrived["tools"][0] == tool
        results = [
            {"role": "assistant", "tool_calls": [{key: calls[0][key] for key in ("id", "type", "custom")}]},
            {"role": "tool", "tool_call_id": calls[0]["id"], "content": "done"},
        ]
        asked = len(server.lab.requests)
        assert asked == cuts + 1
        await server.post("/v1/chat/completions", {**body, "messages": [*body["messages"], *results]})
        (called,) = (one for one in server.lab.requests[asked].body["messages"] if one.get("tool_calls"))
        assert called["tool_calls"][0]["custom"] == {"name": "apply_patch", "input": PATCH}

    run_scenario(scenario, tmp_path, model)


def weather_tool(*, nested: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "weather", "description": "Tells.", "parameters": schema, "strict": False}
    return {"type": "function", "function": function} if nested else {"type": "function", **function}


async def ask_chat(client: openai.AsyncOpenAI) -> str:
    made: Any = await client.chat.completions.create(
        model="lab",
        messages=[
            {
                "role": "developer",
                "content": [{"type": "text", "text": "Be."}, {"type": "text", "text": "Brief."}],
            },
            {"role": "user", "content": "Hi.", "name": "ann"},
        ],
        tools=[weather_tool(nested=True)],  # type: ignore[list-item]
        seed=3,
        logprobs=True,
        service_tier="flex",
        metadata={"a": "b"},
        extra_body={"provider": {"order": ["a"]}, "guided_json": {"type": "object"}},
        extra_headers={"http-referer": "https://example.test", "x-title": "Test"},
    )
    return str(made.choices[0].message.content)


async def ask_responses(client: openai.AsyncOpenAI) -> str:
    made: Any = await client.responses.create(
        model="lab",
        input=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}],
        instructions="Be.",
        tools=[weather_tool(nested=False), {"type": "web_search"}],  # type: ignore[list-item]
        include=["reasoning.encrypted_content"],
        store=False,
        reasoning={"effort": "low", "summary": "auto"},
        extra_body={"of_tomorrow": [1]},
        extra_headers={"openai-beta": "x=1"},
    )
    return str(made.output_text)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("ask, protocol", [(ask_chat, "openai_chat"), (ask_responses, "openai_responses")])
def test_what_the_official_package_sends_arrives_as_if_nobody_stood_between(
    tmp_path: Path, ask: Callable[[openai.AsyncOpenAI], Awaitable[str]], protocol: str
) -> None:
    async def scenario(server: LiveServer) -> None:
        for address in (server.lab.url, f"http://127.0.0.1:{server.port}"):
            async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
                assert await ask(client) == "Hello."
        direct, relayed = server.lab.requests
        path = relayed.path if relayed.path.startswith("/v1") else f"/v1{relayed.path}"
        assert relayed.body == as_passed_on(path, direct.body)
        sent = passable(direct.headers)[0]
        assert {name: relayed.headers.get(name) for name in sent} == sent

    run_scenario(scenario, tmp_path, hello, protocol=protocol)
