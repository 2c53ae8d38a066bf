"""`/v1/messages` on a real server: as relay over every protocol, as agent, with errors, keys, sessions and counts."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.narrate.messages_output import read_message, texts
from support.server.live_server import LiveServer, frames, gate, run_scenario

from turnbuckle.lab.received import brings_results, last_user_text, results_brought, shown_draft
from turnbuckle.lab.script import (
    Call,
    CutOff,
    Finish,
    Frame,
    KillAfter,
    LabRequest,
    Open,
    Reason,
    Say,
    ScriptItem,
    Status,
)
from turnbuckle.vocab.ids import PROTOCOL_NAMES

HEADERS = {"anthropic-version": "2023-06-01", "anthropic-beta": "one-2025,two-2026"}
USER = {"role": "user", "content": "Go."}
SAID = "Each turn of the screw takes up a little slack."
TOOL = {"name": "keep", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}
LONG = "".join(f"{number:05}: a turn\n" for number in range(600))


def body(**more: Any) -> dict[str, Any]:
    return {"model": "lab", "max_tokens": 1000, "messages": [USER], **more}


def says(request: LabRequest) -> Iterable[ScriptItem]:
    return (Reason("Hm."), Say(SAID), Finish())


def breaks(request: LabRequest) -> Iterable[ScriptItem]:
    """Text that is cut, then a call that is cut, then whole ones."""
    if brings_results(request):
        return (Say("Kept."), Finish())
    asked = shown_draft(last_user_text(request))
    # Where calls come whole or not at all, there is nothing to cut.
    kill = KillAfter(arguments=3_000 if request.protocol != "gemini" else 1_000_000)
    if asked is None:
        return (Say("I keep it."), kill, Call("keep", {"text": LONG}, 100), Finish())
    rest = LONG[LONG.index(asked.tail) + len(asked.tail) :]
    return (
        kill,
        Call("finish_call", {"draft": asked.id, "after": asked.tail[-60:], "rest": rest}, 100),
        Finish(),
    )


@pytest.mark.requirement("J1")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_relay_over_every_protocol_gives_whole_messages_streamed_and_not(tmp_path: Path, protocol: str):
    async def scenario(server: LiveServer) -> None:
        plain = await server.post("/v1/messages?beta=true", body(tools=[TOOL]), **HEADERS)
        async with server.listen("/v1/messages", body(tools=[TOOL], stream=True), **HEADERS) as listener:
            await listener.rest()
        streamed = read_message(listener.body).made
        for made in (plain.json, streamed):
            assert made["stop_reason"] == "tool_use"
            *_, text, call = made["content"]
            assert text == {"type": "text", "text": "I keep it."}
            assert (call["name"], call["input"]) == ("keep", {"text": LONG})
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}
            messages = [
                USER,
                {"role": "assistant", "content": made["content"]},
                {"role": "user", "content": [result]},
            ]
            last = await server.post("/v1/messages", body(tools=[TOOL], messages=messages), **HEADERS)
            assert (last.json["stop_reason"], texts(last.json["content"])) == ("end_turn", ["Kept."])

    run_scenario(scenario, tmp_path, breaks, protocol=protocol)


SIGNED = (
    Open(),
    Frame({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}, "content_block_start"),
    Frame({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}, "content_block_delta"),
    Frame({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}, "content_block_delta"),
    Frame({"type": "content_block_stop", "index": 0}, "content_block_stop"),
    Frame({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}, "content_block_start"),
    Frame({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": SAID[:20]}}, "content_block_delta"),
    CutOff("reset"),
)  # fmt: skip


@pytest.mark.requirement("J1", "C5")
def test_a_signature_survives_healing_and_what_comes_back_is_what_a_provider_takes(tmp_path: Path):
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return SIGNED if request.number == 1 else (Reason("Where was I?"), Say(SAID[20:]), Finish())

    async def scenario(server: LiveServer) -> None:
        made = (await server.post("/v1/messages", body(), **HEADERS)).json
        assert made["content"] == [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": SAID},
        ]
        messages = [USER, {"role": "assistant", "content": made["content"]}, USER]
        await server.post("/v1/messages", body(messages=messages), **HEADERS)
        assert server.lab.requests[-1].body["messages"][1]["content"] == made["content"]

    run_scenario(scenario, tmp_path, model, protocol="anthropic")


@pytest.mark.requirement("J1", "I8")
def test_what_a_client_sends_arrives_as_it_came_with_its_version_and_betas(tmp_path: Path):
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    more = {"system": system, "thinking": {"type": "adaptive", "display": "omitted"}, "brand_new": {"x": 1}}

    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/messages?beta=true", body(**more), x_app="cli", **HEADERS)
        assert reply.status == 200
        [request] = server.lab.requests
        assert {name: request.body[name] for name in more} == more
        assert request.headers["anthropic-version"] == "2023-06-01"
        assert request.headers["anthropic-beta"] == "one-2025,two-2026"
        assert reply.headers["request-id"] == "lab-1"  # what the provider calls it

    run_scenario(scenario, tmp_path, says, protocol="anthropic")


@pytest.mark.requirement("J1", "I8")
def test_how_much_to_think_is_told_to_a_provider_of_another_protocol_or_named(tmp_path: Path):
    async def scenario(server: LiveServer) -> None:
        told = [
            await server.post("/v1/messages", body(**more))
            for more in (
                {"thinking": {"type": "enabled", "budget_tokens": 8000}},
                {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
                {"thinking": {"type": "disabled"}},
            )
        ]
        efforts = [request.body.get("reasoning_effort") for request in server.lab.requests]
        assert efforts == ["medium", "high", None]
        assert [reply.headers.get("x-turnbuckle-left-out") for reply in told] == [None, None, "thinking"]

    run_scenario(scenario, tmp_path, says)


SET = {"type": "desk_toolset_20261001", "toolset_name": "desk"}
ADDED = {
    "type": "tool_addition",
    "tool": {"type": "tool_definition", "definition": {**TOOL, "name": "desk_keep"}},
}


@pytest.mark.requirement("J1", "I8")
@pytest.mark.parametrize(
    "more, is_known",
    [
        ({"tools": [SET]}, True),
        ({"tools": [TOOL, SET]}, True),
        (
            {
                "messages": [{"role": "user", "content": [ADDED, {"type": "text", "text": "Go."}]}],
                "tools": [TOOL],
            },
            True,
        ),
        ({"tools": [TOOL, {"type": "mcp_toolset", "mcp_server_name": "x"}]}, False),
        ({"tools": [TOOL]}, False),
    ],
    ids=[
        "a set alone",
        "a set beside a tool",
        "a tool in a message",
        "a set that the provider runs",
        "no set",
    ],
)
def test_a_call_of_a_tool_that_only_its_client_knows_by_name_is_handed_over_whole(
    tmp_path: Path, more: dict[str, Any], is_known: bool
):
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        asked = shown_draft(last_user_text(request))
        if brings_results(request):
            return (Say("Kept."), Finish())
        if asked is None:
            return (KillAfter(arguments=3_000), Call("desk_keep", {"text": LONG}, 100), Finish())
        rest = LONG[LONG.index(asked.tail) + len(asked.tail) :]
        finish = {"draft": asked.id, "after": asked.tail[-60:], "rest": rest}
        return (Call("finish_call", finish, 100), Finish())

    async def scenario(server: LiveServer) -> None:
        made = (await server.post("/v1/messages", body(**more), **HEADERS)).json
        calls = [block for block in made.get("content", ()) if block["type"] == "tool_use"]
        assert bool(calls) is is_known, made
        if is_known:
            assert made["stop_reason"] == "tool_use"
            assert (calls[0]["name"], calls[0]["input"]) == ("desk_keep", {"text": LONG})
            assert [one for one in server.lab.requests[0].body["tools"] if one == SET] == [SET] * (
                SET in more["tools"]
            )
            result = {"type": "tool_result", "tool_use_id": calls[0]["id"], "content": "ok"}
            told = [{"role": "assistant", "content": made["content"]}, {"role": "user", "content": [result]}]
            asked = body(**more)
            last = await server.post(
                "/v1/messages", {**asked, "messages": [*asked["messages"], *told]}, **HEADERS
            )
            assert texts(last.json["content"]) == ["Kept."]

    run_scenario(scenario, tmp_path, model, protocol="anthropic")


@pytest.mark.requirement("J1")
def test_the_start_of_a_message_has_the_true_count_and_its_end_all_that_was_generated(tmp_path: Path):
    start = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 40, "cache_read_input_tokens": 2, "output_tokens": 1}}}  # fmt: skip

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        if request.number > 1:
            return (Say(SAID[20:]), Finish())
        return (Frame(start, "message_start"), *SIGNED[-3:])

    async def scenario(server: LiveServer) -> None:
        async with server.listen("/v1/messages", body(stream=True), **HEADERS) as listener:
            await listener.rest()
        events = {frame.event: frame.json for frame in frames(listener.body)}
        usage = events["message_start"]["message"]["usage"]
        assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (40, 2)
        last = events["message_delta"]["usage"]
        assert last["input_tokens"] == 40
        assert len(last["iterations"]) == 2
        assert last["output_tokens"] == sum(one["output_tokens"] for one in last["iterations"])

    run_scenario(scenario, tmp_path, model, protocol="anthropic")


@pytest.mark.requirement("J1", "J7")
@pytest.mark.parametrize(
    "status, wanted, kind",
    [
        (529, 529, "overloaded_error"),
        (429, 429, "rate_limit_error"),
        (400, 400, "invalid_request_error"),
        (401, 502, "api_error"),
        (500, 502, "api_error"),
    ],
)
def test_what_a_provider_refuses_is_told_in_the_shape_of_the_protocol(tmp_path, status, wanted, kind):
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return (Status(status, "no"),)

    async def scenario(server: LiveServer) -> None:
        for stream in (False, True):
            reply = await server.post("/v1/messages", body(stream=stream), **HEADERS)
            assert (reply.status, reply.json["type"], reply.json["error"]["type"]) == (wanted, "error", kind)
            assert reply.json["request_id"] == reply.headers["x-request-id"]
            assert reply.headers["x-turnbuckle-outcome"] == "failed"

    run_scenario(scenario, tmp_path, model, protocol="anthropic", hold=30)


@pytest.mark.requirement("J1", "J7")
def test_errors_of_the_server_itself_have_the_shape_too_and_either_key_is_taken(tmp_path: Path):
    async def scenario(server: LiveServer) -> None:
        ann, bob = server.owner("ann"), server.owner("bob")
        kinds = {}
        for name, reply in {
            "no key": await server.post("/v1/messages", body()),
            "nothing there": await ann.get("/v1/messages/batches"),
            "no model": await ann.post("/v1/messages", body(model="gone")),
            "no JSON": await ann.ask("POST", "/v1/messages", content_type="text/plain"),
            "no messages": await ann.post("/v1/messages", {"model": "lab", "max_tokens": 1}),
            "too large": await ann.post("/v1/messages", body(system="x" * 2_000_000)),
            "wrong method": await ann.get("/v1/messages"),
            "no such model": await ann.get("/v1/models/gone", **HEADERS),
        }.items():
            assert reply.json["type"] == "error"
            assert reply.json["request_id"] == reply.headers["request-id"]
            kinds[name] = (reply.status, reply.json["error"]["type"])
        assert kinds == {
            "no key": (401, "authentication_error"),
            "nothing there": (404, "not_found_error"),
            "no model": (404, "not_found_error"),
            "no JSON": (415, "invalid_request_error"),
            "no messages": (400, "invalid_request_error"),
            "too large": (413, "request_too_large"),
            "wrong method": (405, "invalid_request_error"),
            "no such model": (404, "not_found_error"),
        }
        reply = await server.post("/v1/messages", body(), x_api_key=ann.key)
        assert reply.status == 200
        run = reply.headers["x-turnbuckle-run"]
        assert (await ann.get(f"/v1/runs/{run}")).status == 200
        assert (await bob.get(f"/v1/runs/{run}")).status == 404
        limited = [await bob.post("/v1/messages", body()) for _ in range(14)]
        assert limited[-1].status == 429
        assert limited[-1].json["error"]["type"] == "rate_limit_error"
        assert limited[-1].headers["retry-after"]

    run_scenario(scenario, tmp_path, says, server='max_body = 1_000_000\nrequests_per_minute = 12', protocol="anthropic"
    )  # fmt: skip


@pytest.mark.requirement("J1")
def test_the_agent_runs_its_own_tools_and_its_message_shows_them(tmp_path: Path):
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        if results_brought(request):
            return (Say("Written."), Finish())
        return (Say("I write."), Call("write_file", {"path": "a.txt", "content": "hi"}), Finish())

    async def scenario(server: LiveServer) -> None:
        made = (await server.post("/v1/messages", body(model="agent"), **HEADERS)).json
        kinds = [block["type"] for block in made["content"]]
        assert kinds == ["text", "mcp_tool_use", "mcp_tool_result", "text"]
        assert made["content"][1]["input"] == {"path": "a.txt", "content": "hi"}
        assert (server.work / "a.txt").read_text() == "hi"
        assert made["stop_reason"] == "end_turn"
        messages = [USER, {"role": "assistant", "content": made["content"]}, USER]
        again = await server.post("/v1/messages", body(model="agent", messages=messages), **HEADERS)
        assert texts(again.json["content"]) == ["Written."]
        assert "mcp_tool_use" not in json.dumps(server.lab.requests[-1].body)

    run_scenario(scenario, tmp_path, model, protocol="anthropic")


@pytest.mark.requirement("J1", "J7")
def test_a_session_keeps_the_conversation_and_a_key_makes_a_request_count_once(tmp_path: Path):
    async def scenario(server: LiveServer) -> None:
        session = {"x_turnbuckle_session": "work"}
        first = await server.post("/v1/messages", body(), idempotency_key="k", **session)
        again = await server.post("/v1/messages", body(), idempotency_key="k", **session)
        assert again.json == first.json
        assert again.headers["idempotency-replayed"] == "true"
        await server.post("/v1/messages", body(messages=[{"role": "user", "content": "More."}]), **session)
        sent = [message["role"] for message in server.lab.requests[-1].body["messages"]]
        assert sent == ["user", "assistant", "user"]
        assert len(server.lab.requests) == 2

    run_scenario(scenario, tmp_path, says, protocol="anthropic")


@pytest.mark.requirement("J1")
def test_a_silent_stream_is_kept_alive_by_pings(tmp_path: Path):
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return (gate(1), Say(SAID), Finish())

    async def scenario(server: LiveServer) -> None:
        async with server.listen("/v1/messages", body(stream=True), **HEADERS) as listener:
            await listener.until(lambda seen: seen.count(b"event: ping") > 2)
            assert b"message_start" not in listener.body
            server.behind.gates.open(1)
            await listener.rest()
        assert texts(read_message(listener.body).content) == [SAID]

    run_scenario(scenario, tmp_path, model, server="noop = 0.05", protocol="anthropic")


@pytest.mark.requirement("J1")
@pytest.mark.parametrize(
    "protocol, asked_at",
    [
        ("anthropic", "/v1/messages/count_tokens"),
        ("openai_responses", "/v1/responses/input_tokens"),
        ("gemini", "/v1/models/m:countTokens"),
        ("openai_chat", ""),
    ],
)
def test_tokens_are_counted_by_a_provider_that_counts_or_estimated_and_said_to_be(
    tmp_path: Path, protocol: str, asked_at: str
):
    async def scenario(server: LiveServer) -> None:
        asked = {"model": "lab", "tools": [TOOL], "messages": [{"role": "user", "content": "word " * 400}]}
        reply = await server.post("/v1/messages/count_tokens", asked, **HEADERS)
        assert reply.status == 200
        assert 500 < reply.json["input_tokens"] < 700
        assert [request.path for request in server.lab.requests] == ([asked_at] if asked_at else [])
        assert ("x-turnbuckle-estimated" in reply.headers) is not bool(asked_at)
        agent = await server.post("/v1/messages/count_tokens", {**asked, "model": "agent"}, **HEADERS)
        assert agent.headers["x-turnbuckle-estimated"] == "true"  # nobody counts what the agent adds
        wrong = await server.post("/v1/messages/count_tokens", {"model": "lab"}, **HEADERS)
        assert wrong.json["error"]["type"] == "invalid_request_error"

    run_scenario(scenario, tmp_path, says, protocol=protocol)


@pytest.mark.requirement("J1")
def test_models_are_listed_in_the_shape_of_whoever_asks(tmp_path: Path):
    async def scenario(server: LiveServer) -> None:
        ours = (await server.get("/v1/models")).json
        theirs = (await server.get("/v1/models", **HEADERS)).json
        assert ours["object"] == "list"
        assert [model["id"] for model in theirs["data"]] == [model["id"] for model in ours["data"]]
        assert theirs["first_id"] == theirs["data"][0]["id"]
        assert not theirs["has_more"]
        one = (await server.get("/v1/models/lab", **HEADERS)).json
        assert (one["type"], one["display_name"]) == ("model", "lab")

    run_scenario(scenario, tmp_path, says)
