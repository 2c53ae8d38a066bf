"""What a provider says beside its words reaches a client of the same protocol: fields, items and their stages."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import Frame as Told
from support.server.live_server import LiveServer, run_scenario
from support.server.provider_answers import (
    ASKED,
    CITES,
    MESSAGE,
    asking,
    block,
    event,
    folded,
    opening,
    response,
)

from turnbuckle.lab.script import CutOff, LabRequest, Raw, ScriptItem

LOGPROBS = [{"token": "Hello.", "logprob": -0.1, "bytes": [72], "top_logprobs": []}]
CITED = {
    "type": "url_citation",
    "url": "https://example.test",
    "title": "t",
    "start_index": 0,
    "end_index": 5,
}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "1+1",
    "container_id": "c",
}
MCP = {
    "type": "mcp_call",
    "id": "mcp_1",
    "status": "completed",
    "name": "n",
    "server_label": "s",
    "arguments": "{}",
}
PICTURE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AA=="}
FILES = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"]}
STAGES = {
    "ws_1": ["web_search_call.in_progress", "web_search_call.searching", "web_search_call.completed"],
    "ci_1": ["code_interpreter_call.in_progress", "code_interpreter_call_code.delta",
             "code_interpreter_call_code.done", "code_interpreter_call.interpreting"],
    "mcp_1": ["mcp_call.in_progress", "mcp_call_arguments.done", "mcp_call.completed"],
    "ig_1": ["image_generation_call.generating", "image_generation_call.partial_image"],
    "fs_1": ["file_search_call.searching", "file_search_call.of_tomorrow"],
}  # fmt: skip
HOSTED: tuple[dict[str, Any], ...] = (SEARCH, CODE, MCP, PICTURE, FILES)


def staged(place: int, item: dict[str, Any], *, whole: bool = True) -> Iterable[ScriptItem]:
    yield event("response.output_item.added", output_index=place, item={**item, "status": "in_progress"})
    for stage in STAGES[item["id"]]:
        yield event(f"response.{stage}", output_index=place, item_id=item["id"], beside={"a": place})
    if whole:
        yield event("response.output_item.done", output_index=place, item=item)


def speaking(place: int) -> Iterable[ScriptItem]:
    about = {"item_id": "msg_1", "output_index": place, "content_index": 0}
    part = {
        "type": "output_text",
        "text": "Hello.",
        "annotations": [CITED],
        "logprobs": LOGPROBS,
        "of_part": 1,
    }
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        "of_item": 2,
    }
    yield event("response.output_item.added", output_index=place, item={**message, "content": []})
    yield event("response.output_text.delta", **about, delta="Hello.", logprobs=LOGPROBS, of_delta=3)
    yield event("response.output_text.annotation.added", **about, annotation_index=0, annotation=CITED)
    yield event("response.of_tomorrow", told="all")
    yield event("response.output_item.done", output_index=place, item=message)
    usage = {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
        "input_tokens_details": {"audio_tokens": 1},
        "cost": 0.5,
    }
    yield event(
        "response.completed", response=response("completed", output=[message], usage=usage, of_response=4)
    )


def hosted(request: LabRequest) -> Iterable[ScriptItem]:
    yield event("response.created", response=response("in_progress"))
    for place, item in enumerate(HOSTED):
        yield from staged(place, item)
    yield from speaking(len(HOSTED))


def kinds_of(frames: list[Told], item: str) -> list[str]:
    return [one.event for one in frames if one.json.get("item_id") == item]


def check_words(frames: list[Told]) -> None:
    told = frames[-1].json["response"]
    assert told["status"] == "completed", told
    assert told["model"] == "m-2026-11-01"
    assert (told["service_tier"], told["billing"], told["of_response"]) == ("flex", {"payer": "p"}, 4)
    assert told["usage"]["cost"] == 0.5
    assert told["usage"]["input_tokens_details"]["audio_tokens"] == 1
    message = told["output"][-1]
    assert message["of_item"] == 2
    assert message["content"][0]["annotations"] == [CITED]
    assert message["content"][0]["logprobs"] == LOGPROBS
    assert message["content"][0]["of_part"] == 1
    (delta,) = (one.json for one in frames if one.event == "response.output_text.delta")
    assert (delta["delta"], delta["logprobs"], delta["of_delta"]) == ("Hello.", LOGPROBS, 3)
    (cited,) = (one.json for one in frames if one.event == "response.output_text.annotation.added")
    assert (cited["annotation"], cited["item_id"]) == (CITED, message["id"])
    assert [one.json["told"] for one in frames if one.event == "response.of_tomorrow"] == ["all"]
    assert [one.json["sequence_number"] for one in frames] == list(range(len(frames)))


@pytest.mark.requirement("I8")
def test_a_responses_client_has_the_provider_s_fields_items_and_stages(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/responses", {**ASKED, "stream": True})
        check_words(frames)
        told = frames[-1].json["response"]
        assert told["output"][:-1] == list(HOSTED)
        for place, item in enumerate(HOSTED):
            assert kinds_of(frames, item["id"]) == [f"response.{stage}" for stage in STAGES[item["id"]]]
            stages = [one.json for one in frames if one.json.get("item_id") == item["id"]]
            assert {(one["output_index"], one["beside"]["a"]) for one in stages} == {(place, place)}
        again = await server.read(f"/v1/responses/{told['id']}?stream=true")
        assert [one.raw for one in again] == [one.raw for one in frames]
        rest = await server.read(f"/v1/responses/{told['id']}?stream=true&starting_after=9")
        assert [one.raw for one in rest] == [one.raw for one in frames[10:]]
        whole = (await server.post("/v1/responses", ASKED)).json
        assert whole["output"][:-1] == list(HOSTED)
        assert (whole["billing"], whole["usage"]["cost"]) == ({"payer": "p"}, 0.5)

    run_scenario(scenario, tmp_path, hosted, protocol="openai_responses")


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize("place", [0, 1], ids=["inside the search", "behind it"])
def test_stages_before_a_cut_stay_and_the_answer_is_healed_behind_them(tmp_path: Path, place: int) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        yield event("response.created", response=response("in_progress"))
        if request.number == 1:
            yield from staged(0, SEARCH, whole=place == 1)
            yield CutOff("reset")
        else:
            yield from staged(0, {**CODE})
            yield from speaking(1)

    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/responses", {**ASKED, "stream": True})
        check_words(frames)
        output = frames[-1].json["response"]["output"]
        assert [item["type"] for item in output] == ["web_search_call", "code_interpreter_call", "message"]
        assert output[0]["status"] == ("completed" if place else "failed")
        assert kinds_of(frames, "ws_1") == [f"response.{stage}" for stage in STAGES["ws_1"]]
        done = [one.json for one in frames if one.event == "response.output_item.done"]
        assert [one["output_index"] for one in done] == [0, 1, 2]
        assert len(server.lab.requests) == 2

    run_scenario(scenario, tmp_path, model, protocol="openai_responses")


FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [{"type": "web_search_result", "url": "u"}],
}
RAN = {
    "type": "mcp_tool_result",
    "tool_use_id": "mcp_1",
    "is_error": False,
    "content": [{"type": "text", "text": "r"}],
}
USES: tuple[dict[str, Any], ...] = (
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}, "of_use": 1},
    {"type": "mcp_tool_use", "id": "mcp_1", "name": "n", "server_name": "s", "input": {}},
)


def using() -> Iterable[ScriptItem]:
    for place, (use, result) in enumerate(zip(USES, (FOUND, RAN), strict=True)):
        asked = {"type": "input_json_delta", "partial_json": '{"query":"q"}'}
        yield from block(2 * place, {**use, "input": {}}, *([asked] if use["input"] else []))
        yield from block(2 * place + 1, result)


def telling(index: int) -> Iterable[ScriptItem]:
    yield from block(
        index,
        {"type": "text", "text": "", "of_block": 2},
        {"type": "text_delta", "text": "Hello.", "of_delta": 3},
        {"type": "citations_delta", "citation": CITES},
        {"type": "delta_of_tomorrow", "a": 4},
    )
    yield event("event_of_tomorrow", told="all")
    yield event(
        "message_delta",
        delta={"stop_reason": "end_turn", "stop_sequence": None, "container": {"id": "c"}},
        usage={"output_tokens": 5, "server_tool_use": {"web_search_requests": 1}},
        context_management={"applied_edits": []},
    )
    yield event("message_stop")


def check_message(told: dict[str, Any]) -> None:
    assert (told["model"], told["of_message"], told["container"]) == ("claude-of-november", 1, {"id": "c"})
    assert (told["stop_reason"], told["context_management"]) == ("end_turn", {"applied_edits": []})
    assert told["usage"]["service_tier"] == "priority"
    assert told["usage"]["cache_creation"] == {"ephemeral_1h_input_tokens": 2}
    assert told["usage"]["server_tool_use"] == {"web_search_requests": 1}
    assert told["content"][:-1] == [USES[0], FOUND, USES[1], RAN]
    assert told["content"][-1] == {"type": "text", "text": "Hello.", "of_block": 2, "citations": [CITES]}


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut behind the tools"])
def test_a_messages_client_has_the_provider_s_fields_and_blocks(tmp_path: Path, cut: bool) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        yield opening()
        if cut and request.number % 2 == 0:
            yield from telling(0)
            return
        yield from using()
        if cut:
            yield CutOff("reset")
        else:
            yield from telling(4)

    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/messages", {**MESSAGE, "stream": True})
        check_message(folded(frames))
        deltas = [one.json["delta"] for one in frames if one.event == "content_block_delta"]
        assert [one for one in deltas if one.get("of_delta") == 3]
        assert [one["a"] for one in deltas if one["type"] == "delta_of_tomorrow"] == [4]
        assert [one.json["told"] for one in frames if one.event == "event_of_tomorrow"] == ["all"]
        check_message((await server.post("/v1/messages", MESSAGE)).json)

    run_scenario(scenario, tmp_path, model, protocol="anthropic")


def named(request: LabRequest) -> Iterable[ScriptItem]:
    """A chat provider that says its own name, or none."""
    name = {"model": "m-2026-11-01"} if "name" in json.dumps(request.body) else {}
    for delta, finish in (({"role": "assistant", "content": "Hello."}, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        yield Raw(f"data: {json.dumps({'id': 'c', **name, 'choices': [choice]})}\n\n")


@pytest.mark.requirement("I8")
def test_every_face_names_the_model_in_its_provider_s_own_word(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        for words, name in (("your name?", "m-2026-11-01"), ("hello?", "m")):
            for face in ("chat/completions", "responses", "messages"):
                body = asking(face, words)
                assert (await server.post(f"/v1/{face}", body)).json["model"] == name
                frames = await server.read(f"/v1/{face}", {**body, "stream": True})
                last = [one.json for one in frames if b'"model"' in one.data][-1]
                told = last.get("response") or last.get("message") or last
                assert told["model"] == name
                if face != "responses":  # whose first event comes before anybody was asked
                    first = next(one.json for one in frames if b'"model"' in one.data)
                    assert first.get("message", first)["model"] == name

    run_scenario(scenario, tmp_path, named, hold=5)


STRANGE = {"type": "delta_of_tomorrow", "a": 1}


def searching(index: int) -> Iterable[ScriptItem]:
    asked = {"type": "input_json_delta", "partial_json": '{"query":"q"}'}
    yield from block(index, {**USES[0], "input": {}}, asked, STRANGE)
    notes = {"type": "notes_of_tomorrow", "text": ""}
    yield from block(
        index + 1, notes, {"type": "text_delta", "text": "a"}, {"type": "text_delta", "text": "b"}
    )
    yield from block(index + 2, FOUND, STRANGE)


@pytest.mark.requirement("I8", "A1")
def test_ids_of_a_provider_s_own_calls_differ_after_a_heal_and_their_strange_deltas_come_through(
    tmp_path: Path,
) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        yield opening()
        yield from searching(0)
        if request.number % 2:
            yield from block(3, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hel"})
            yield CutOff("reset")
        else:
            yield from block(3, {"type": "text", "text": ""}, {"type": "text_delta", "text": "lo."})
            yield event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5})
            yield event("message_stop")

    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/messages", {**MESSAGE, "stream": True})
        whole = (await server.post("/v1/messages", MESSAGE)).json
        told = folded(frames)
        for content in (told["content"], whole["content"]):
            uses = [one["id"] for one in content if one["type"] == "server_tool_use"]
            found = [one["tool_use_id"] for one in content if one["type"] == "web_search_tool_result"]
            assert uses == found == ["srv_1", "srv_1_2"]
            assert [one["text"] for one in content if one["type"] == "notes_of_tomorrow"] == ["ab", "ab"]
            assert "".join(one["text"] for one in content if one["type"] == "text") == "Hello."
        strange = [one.json for one in frames if one.json.get("delta") == STRANGE]
        kinds = [told["content"][one["index"]]["type"] for one in strange]
        assert kinds == ["server_tool_use", "web_search_tool_result"] * 2

    run_scenario(scenario, tmp_path, model, protocol="anthropic")
