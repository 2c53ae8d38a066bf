"""What a provider says beside its words reaches a client of the same protocol: fields, items and their stages."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import Frame as Told
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import CutOff, Frame, LabRequest, Raw, ScriptItem

ASKED = {"model": "lab", "input": "Hi."}
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
HOSTED = (SEARCH, CODE, MCP, PICTURE, FILES)


def event(kind: str, **fields: Any) -> Frame:
    return Frame({"type": kind, "sequence_number": 7, **fields}, kind)


def staged(place: int, item: dict[str, Any], *, whole: bool = True) -> Iterable[ScriptItem]:
    yield event("response.output_item.added", output_index=place, item={**item, "status": "in_progress"})
    for stage in STAGES[item["id"]]:
        yield event(f"response.{stage}", output_index=place, item_id=item["id"], beside={"a": place})
    if whole:
        yield event("response.output_item.done", output_index=place, item=item)


def response(status: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "model": "m-2026-11-01",
        "status": status,
        "service_tier": "flex",
        "billing": {"payer": "p"},
        **fields,
    }


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


MESSAGE = {"model": "lab", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi."}]}
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
CITES = {
    "type": "web_search_result_location",
    "url": "u",
    "title": "t",
    "encrypted_index": "e",
    "cited_text": "c",
}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Iterable[ScriptItem]:
    yield event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield event("content_block_delta", index=index, delta=delta)
    yield event("content_block_stop", index=index)


def opening() -> ScriptItem:
    usage = {
        "input_tokens": 3,
        "output_tokens": 1,
        "service_tier": "priority",
        "cache_creation": {"ephemeral_1h_input_tokens": 2},
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-of-november",
        "content": [],
        "usage": usage,
    }
    return event("message_start", message={**message, "of_message": 1})


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


def folded(frames: list[Told]) -> dict[str, Any]:
    """The message that a stream makes, by the rules of the official packages."""
    told: dict[str, Any] = {}
    for one in frames:
        data = one.json
        match one.event:
            case "message_start":
                told = data["message"]
            case "content_block_start":
                told["content"].append(dict(data["content_block"]))
            case "content_block_delta" if data["delta"]["type"] == "text_delta":
                told["content"][data["index"]]["text"] += data["delta"]["text"]
            case "content_block_delta" if data["delta"]["type"] == "citations_delta":
                told["content"][data["index"]].setdefault("citations", []).append(data["delta"]["citation"])
            case "content_block_delta" if data["delta"]["type"] == "input_json_delta":
                told["content"][data["index"]]["input"] = json.loads(data["delta"]["partial_json"])
            case "message_delta":
                told |= data["delta"]
                told["usage"] |= data["usage"]
                told |= {
                    name: value for name, value in data.items() if name not in ("type", "delta", "usage")
                }
    return told


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


def asking(face: str, words: str) -> dict[str, Any]:
    if face == "responses":
        return {"model": "lab", "input": words}
    return {"model": "lab", "max_tokens": 9, "messages": [{"role": "user", "content": words}]}


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


BEFORE, CLAIM = "Grüße: ", "it is sunny."
PAGE = {"url": "https://example.test/w", "title": "Weather"}
PLACE = {"start_index": len(BEFORE), "end_index": len(BEFORE + CLAIM)}
ODDS = [{"token": "it", "logprob": -0.2, "bytes": [105], "top_logprobs": []}]


def cited_by_responses() -> Iterable[ScriptItem]:
    note = {"type": "url_citation", **PAGE, **PLACE}
    part = {"type": "output_text", "text": BEFORE + CLAIM, "annotations": [note], "logprobs": ODDS}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    about = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    yield event("response.created", response=response("in_progress"))
    yield event("response.output_item.added", output_index=0, item={**message, "content": []})
    yield event("response.output_text.delta", **about, delta=BEFORE)
    yield event("response.output_text.delta", **about, delta=CLAIM, logprobs=ODDS)
    yield event("response.output_text.annotation.added", **about, annotation_index=0, annotation=note)
    yield event("response.output_item.done", output_index=0, item=message)
    yield event("response.completed", response=response("completed", output=[message]))


def cited_by_chat() -> Iterable[ScriptItem]:
    note = {"type": "url_citation", "url_citation": {**PAGE, **PLACE}}
    for delta, more in (
        ({"role": "assistant", "content": BEFORE}, {}),
        ({"content": CLAIM}, {"logprobs": {"content": ODDS}}),
        ({"annotations": [note]}, {}),
        ({}, {"finish_reason": "stop"}),
    ):
        yield Frame({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]})


def cited_by_messages() -> Iterable[ScriptItem]:
    yield opening()
    yield from block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": BEFORE})
    cites = {"type": "citations_delta", "citation": {**CITES, **PAGE}}
    yield from block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": CLAIM}, cites)
    yield event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5})
    yield event("message_stop")


def cited_by_gemini() -> Iterable[ScriptItem]:
    size = len(BEFORE.encode())
    segment = {"startIndex": size, "endIndex": size + len(CLAIM), "text": CLAIM}
    web = {"web": {"uri": PAGE["url"], "title": PAGE["title"]}}
    found = {
        "groundingChunks": [web],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    yield Frame({"candidates": [{"content": {"parts": [{"text": BEFORE}]}}]})
    yield Frame({"candidates": [{"content": {"parts": [{"text": CLAIM}]}}]})
    yield Frame({"candidates": [{"finishReason": "STOP", "groundingMetadata": found}]})


def cited_on_messages() -> dict[str, Any]:
    """The page, by the one kind of citation that needs no seal of Anthropic's."""
    places = {"search_result_index": 0, "start_block_index": 0, "end_block_index": 0}
    page = {"source": PAGE["url"], "title": PAGE["title"], "cited_text": "", "turnbuckle": PLACE}
    return {"type": "search_result_location", **page, **places}


CITING = {
    "openai_responses": cited_by_responses,
    "openai_chat": cited_by_chat,
    "anthropic": cited_by_messages,
    "gemini": cited_by_gemini,
}


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("protocol", CITING)
def test_pages_and_odds_of_any_provider_reach_a_client_of_either_api(tmp_path: Path, protocol: str) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return CITING[protocol]()

    async def scenario(server: LiveServer) -> None:
        chat = (await server.post("/v1/chat/completions", asking("chat", "Hi."))).json["choices"][0]
        assert chat["message"]["content"] == BEFORE + CLAIM
        assert chat["message"]["annotations"] == [{"type": "url_citation", "url_citation": {**PAGE, **PLACE}}]
        frames = await server.read("/v1/responses", {**ASKED, "stream": True})
        (part,) = frames[-1].json["response"]["output"][-1]["content"]
        assert part["text"] == BEFORE + CLAIM
        assert part["annotations"] == [{"type": "url_citation", **PAGE, **PLACE}]
        told = [one.json for one in frames if one.event == "response.output_text.annotation.added"]
        assert [one["annotation"] for one in told] == part["annotations"]
        told_as = cited_on_messages if protocol != "anthropic" else lambda: {**CITES, **PAGE}
        for message in (
            (await server.post("/v1/messages", MESSAGE)).json,
            folded(await server.read("/v1/messages", {**MESSAGE, "stream": True})),
        ):
            cited = [one for part in message["content"] for one in part.get("citations", [])]
            assert cited == [told_as()]
        if protocol.startswith("openai"):
            assert chat["logprobs"]["content"] == ODDS
            assert part["logprobs"] == ODDS

    run_scenario(scenario, tmp_path, model, protocol=protocol)


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


TOLD_BEFORE = (
    "The sky over the old town was grey for most of the week, and nobody went out without a coat or an umbrella. "
    "Since this morning the wind comes from the south, and what can be seen of it between the roofs is "
)
AGAIN = TOLD_BEFORE[-80:]
MORE = "blue and wide, as far as the hills."


def cited_after_a_cut(protocol: str, number: int) -> Iterable[ScriptItem]:
    """The first stream cites and breaks; the second says the last words again, and cites what is behind them."""
    whole = number % 2 == 0
    text = AGAIN + MORE if whole else TOLD_BEFORE
    place = (
        {"start_index": len(AGAIN), "end_index": len(AGAIN) + 4}
        if whole
        else {"start_index": 4, "end_index": 7}
    )
    note = {"type": "url_citation", **PAGE, **place}
    if protocol == "openai_chat":
        notes = [{"type": "url_citation", "url_citation": {**PAGE, **place}}]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": text}, {"annotations": notes}]
        for delta in deltas:
            yield Frame({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if whole:
            yield Frame({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        else:
            yield CutOff("reset")
        return
    part = {"type": "output_text", "text": text, "annotations": [note]}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    about = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    yield event("response.created", response=response("in_progress"))
    yield event("response.output_item.added", output_index=0, item={**message, "content": []})
    yield event("response.output_text.delta", **about, delta=text)
    yield event("response.output_text.annotation.added", **about, annotation_index=0, annotation=note)
    if not whole:
        yield CutOff("reset")
        return
    yield event("response.output_item.done", output_index=0, item=message)
    yield event("response.completed", response=response("completed", output=[message]))


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize("protocol", ["openai_chat", "openai_responses"])
def test_what_a_text_refers_to_stands_at_its_place_also_behind_a_cut(tmp_path: Path, protocol: str) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return cited_after_a_cut(protocol, request.number)

    def words(text: str, note: dict[str, Any]) -> str:
        return text[note["start_index"] : note["end_index"]]

    async def scenario(server: LiveServer) -> None:
        chat = (await server.post("/v1/chat/completions", asking("chat", "Hi."))).json["choices"][0][
            "message"
        ]
        assert chat["content"] == TOLD_BEFORE + MORE
        notes = [one["url_citation"] for one in chat["annotations"]]
        assert [words(chat["content"], one) for one in notes] == ["sky", "blue"]
        frames = await server.read("/v1/responses", {**ASKED, "stream": True})
        (part,) = frames[-1].json["response"]["output"][-1]["content"]
        assert [words(part["text"], one) for one in part["annotations"]] == ["sky", "blue"]
        told = [one.json for one in frames if one.event == "response.output_text.annotation.added"]
        assert [one["annotation"] for one in told] == part["annotations"]
        assert [one["annotation_index"] for one in told] == [0, 1]
        message = (await server.post("/v1/messages", MESSAGE)).json
        text = "".join(one["text"] for one in message["content"])
        cited = [one["turnbuckle"] for part in message["content"] for one in part.get("citations", [])]
        assert [words(text, one) for one in cited] == ["sky", "blue"]

    run_scenario(scenario, tmp_path, model, protocol=protocol)


@pytest.mark.requirement("I8")
def test_pages_that_we_told_in_the_words_of_messages_do_not_go_to_a_messages_provider(tmp_path: Path) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return cited_by_messages()

    async def scenario(server: LiveServer) -> None:
        said = {"type": "text", "text": "a", "citations": [cited_on_messages(), CITES]}
        history = [*MESSAGE["messages"], {"role": "assistant", "content": [said]}, *MESSAGE["messages"]]  # type: ignore[misc]
        await server.post("/v1/messages", {**MESSAGE, "messages": history})
        assert server.lab.requests[-1].body["messages"][1]["content"][0]["citations"] == [CITES]

    run_scenario(scenario, tmp_path, model, protocol="anthropic")
