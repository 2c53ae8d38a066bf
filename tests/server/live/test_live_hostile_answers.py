"""A provider may say anything beside its words: no client sees more trouble from that than from its provider itself."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai
import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import CutOff, Frame, Headers, LabRequest, Raw, ScriptItem

RESPONSES = {"model": "lab", "input": "Hi."}
CHAT = {"model": "lab", "messages": [{"role": "user", "content": "Hi."}]}
MESSAGES = {**CHAT, "max_tokens": 100}
FACES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("openai_chat", "/v1/chat/completions", CHAT),
    ("openai_responses", "/v1/responses", RESPONSES),
    ("anthropic", "/v1/messages", MESSAGES),
)
FIRST, SECOND = "The weather in the north is ", "sunny, and in the south it rains."


def event(kind: str, **fields: Any) -> Frame:
    return Frame({"type": kind, **fields}, kind.split("\n", maxsplit=1)[0])


def chunk(delta: dict[str, Any], finish: str | None = None, **beside: Any) -> Frame:
    return Frame({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **beside})


def by_chat(text: str, *between: ScriptItem, **usage: Any) -> Iterable[ScriptItem]:
    counted = {"prompt_tokens": 3, "completion_tokens": 2, **usage}
    yield chunk({"role": "assistant", "content": text}, usage=counted)
    yield from between
    yield chunk({}, "stop", usage=counted)
    yield Raw("data: [DONE]\n\n")


def by_responses(text: str, *between: ScriptItem, **usage: Any) -> Iterable[ScriptItem]:
    about = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    yield event("response.created", response={"id": "r", "status": "in_progress"})
    yield event("response.output_item.added", output_index=0, item=message)
    yield event("response.output_text.delta", **about, delta=text)
    yield from between
    counted = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, **usage}
    yield event("response.completed", response={"id": "r", "status": "completed", "usage": counted})


def by_messages(text: str, *between: ScriptItem, **usage: Any) -> Iterable[ScriptItem]:
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 3}}
    yield event("message_start", message=message)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    yield from between
    yield event("content_block_stop", index=0)
    yield event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2, **usage})
    yield event("message_stop")


SPEAKS = {"openai_chat": by_chat, "openai_responses": by_responses, "anthropic": by_messages}


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(("protocol", "path", "body"), FACES[1:], ids=["responses", "messages"])
def test_a_name_of_an_event_begins_no_other_event(
    tmp_path: Path, protocol: str, path: str, body: dict[str, Any]
) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        forged = event('response.x\n\nevent: error\ndata: {"error": "forged"}\n\n')
        return SPEAKS[protocol](FIRST, forged, event("response." + "x" * 5_000), event("response.y", told=1))

    async def scenario(server: LiveServer) -> None:
        frames = await server.read(path, {**body, "stream": True})
        names = [one.event for one in frames]
        assert "error" not in names
        assert b"forged" not in b"".join(one.raw for one in frames)
        assert max(map(len, names)) < 100
        assert "response.y" in names

    run_scenario(scenario, tmp_path, model, protocol=protocol)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(("protocol", "path", "body"), FACES, ids=lambda found: str(found)[:12])
def test_no_depth_of_what_a_provider_says_stops_a_run(
    tmp_path: Path, protocol: str, path: str, body: dict[str, Any]
) -> None:
    """Near the depth that can just be read, it could not be stored."""

    def deep(depth: int) -> Iterable[ScriptItem]:
        value = "[" * depth + "]" * depth
        kind = "response.of_tomorrow"
        item = f'{{"type":"web_search_call","id":"w{depth}","deep":{value}}}'
        block = f'{{"type":"of_tomorrow","deep":{value}}}'
        if protocol == "openai_chat":
            yield Raw(f'data: {{"id":"c","deep":{value},"choices":[]}}\n\n')
        else:
            yield Raw(f'event: {kind}\ndata: {{"type":"{kind}","deep":{value}}}\n\n')
        if protocol == "openai_responses":
            added = f'"type":"response.output_item.added","output_index":{depth},"item":{item}'
            yield Raw(f"event: response.output_item.added\ndata: {{{added}}}\n\n")
        if protocol == "anthropic":
            started = f'"type":"content_block_start","index":{depth},"content_block":{block}'
            yield Raw(f"event: content_block_start\ndata: {{{started}}}\n\n")
            yield Raw(f'event: content_block_stop\ndata: {{"type":"content_block_stop","index":{depth}}}\n\n')

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        between = (one for depth in range(700, 1000, 8) for one in deep(depth))
        return SPEAKS[protocol](FIRST, *between)

    async def scenario(server: LiveServer) -> None:
        reply = await server.post(path, body)
        assert reply.status in (200, 502)  # what cannot be read may have been content
        assert "resumed after" not in reply.body.decode()

    run_scenario(scenario, tmp_path, model, protocol=protocol)


@pytest.mark.requirement("I8")
def test_a_header_that_is_no_text_is_left_out_and_costs_nothing(tmp_path: Path) -> None:
    told = {"x-ratelimit-a": "caf\u00e9", "x-ratelimit-b": "b" * 5_000, "x-ratelimit-c": "7"}

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        yield Headers({**told, "x-request-id": "req_\u00e9"})
        yield from by_chat(FIRST)

    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/chat/completions", CHAT)
        assert reply.status == 200
        assert len(server.lab.requests) == 1
        assert {name: reply.headers[name] for name in told if name in reply.headers} == {"x-ratelimit-c": "7"}

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8", "A1")
def test_fields_of_a_message_never_stand_in_place_of_what_is_ours(tmp_path: Path) -> None:
    """Also those of an attempt that goes on with an answer."""
    forged = {"id": "forged", "role": "forged", "model": "m", "content": [], "stop_reason": "forged"}

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        first, *more = by_messages(FIRST if request.number % 2 else SECOND)
        if request.number % 2:
            yield from (first, *more[:2], CutOff("reset"))
            return
        message = {"id": "m2", "type": "message", "role": "assistant", "content": [], "delta": {"a": 1}}
        yield event("message_start", message={**message, "kind": 2, "self": 3, "index": 4})
        yield from more[:-2]
        yield event(
            "message_delta", delta={**forged, "stop_reason": "end_turn"}, usage={"output_tokens": 2}, **forged
        )
        yield event("message_stop")

    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/messages", {**MESSAGES, "stream": True})
        assert [one.event for one in frames[-2:]] == ["message_delta", "message_stop"]
        assert frames[-2].json["delta"]["stop_reason"] == "end_turn"
        whole = (await server.post("/v1/messages", MESSAGES)).json
        assert [part["text"] for part in whole["content"]] == [FIRST + SECOND]
        assert (whole["role"], whole["stop_reason"]) == ("assistant", "end_turn")
        assert whole["id"].startswith("msg_r")

    run_scenario(scenario, tmp_path, model, protocol="anthropic")


def cited(place: int) -> dict[str, Any]:
    return {"type": "url_citation", "url": f"u{place}", "title": "t", "start_index": place, "end_index": 9}


def citing_by_chat(request: LabRequest) -> Iterable[ScriptItem]:
    """Each call of it is fine alone: what is healed has both lists."""
    part = {name: value for name, value in cited(request.number).items() if name != "type"}
    note = {"type": "url_citation", "url_citation": part}
    items = list(by_chat((SECOND, FIRST)[request.number % 2], chunk({"annotations": [note]})))
    return (*items[:2], CutOff("reset")) if request.number % 2 else items


def citing_by_responses(request: LabRequest) -> Iterable[ScriptItem]:
    about = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    notes = (
        event(
            "response.output_text.annotation.added", **about, annotation_index=place, annotation=cited(place)
        )
        for place in (1, 2)
    )
    return by_responses(FIRST + SECOND, *notes)


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize(
    ("protocol", "model"),
    [("openai_chat", citing_by_chat), ("openai_responses", citing_by_responses)],
    ids=["healed", "of another protocol"],
)
def test_the_helper_of_the_openai_package_puts_annotations_together(
    tmp_path: Path, protocol: str, model: Any
) -> None:
    async def scenario(server: LiveServer) -> None:
        client = openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{server.port}/v1", api_key="any", max_retries=0
        )
        async with client, client.chat.completions.stream(**CHAT) as stream:
            async for _ in stream:
                pass
            message = (await stream.get_final_completion()).choices[0].message
        assert message.content == FIRST + SECOND
        told = (message.model_extra or {}).get("annotations") or message.annotations
        urls = [json.loads(json.dumps(note, default=dict))["url_citation"]["url"] for note in told]
        assert urls == ["u1", "u2"]

    run_scenario(scenario, tmp_path, model, protocol=protocol)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("size", [1, 50_000], ids=["long", "many"])
def test_what_is_large_beside_a_chunk_is_told_once_and_not_with_each(tmp_path: Path, size: int) -> None:
    large = {f"field_{number}": "x" * (100_000 // size + 1) for number in range(min(size, 4_000))}

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        yield chunk({"role": "assistant", "content": "a"}, **{"provider": "p", **large})
        for _ in range(200):
            yield chunk({"content": "b "})
        yield chunk({}, "stop")

    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/chat/completions", {**CHAT, "stream": True})
        told = [one.json for one in frames if one.data != b"[DONE]"]
        assert told[-1]["provider"] == "p"
        for name, value in large.items():
            assert any(one.get(name) == value for one in told), name
            break
        assert sum(len(one.raw) for one in frames) < 3_000_000
        assert len(frames[-2].raw) < 8_000
        whole = (await server.post("/v1/chat/completions", CHAT)).json
        assert all(whole[name] == value for name, value in large.items())

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("protocol", "path", "body"), FACES, ids=["chat", "responses", "messages"])
def test_what_a_provider_counts_is_added_up_over_the_calls_of_a_healed_answer(
    tmp_path: Path, protocol: str, path: str, body: dict[str, Any], stream: bool
) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        first = request.number % 2 == 1
        counted = {"cost": 0.5 if first else 0.25, "tier": "flex", "of_tools": {"searches": 1, "free": True}}
        items = list(SPEAKS[protocol](FIRST if first else SECOND, **counted))
        if not first:
            return items
        if protocol == "openai_responses":  # which counts only at the end
            last = {"id": "r", "status": "failed", "error": {"code": "server_error", "message": "m"}}
            used = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, **counted}
            return (*items[:-1], event("response.failed", response={**last, "usage": used}))
        return (*items[:-1], CutOff("reset")) if protocol == "anthropic" else (items[0], CutOff("reset"))

    async def scenario(server: LiveServer) -> None:
        if stream:
            more = {"stream_options": {"include_usage": True}} if protocol == "openai_chat" else {}
            frames = await server.read(path, {**body, "stream": True, **more})
            told = [one.json for one in frames if b'"cost"' in one.data][-1]
            usage = (told.get("response") or told)["usage"]
        else:
            usage = (await server.post(path, body)).json["usage"]
        assert len(server.lab.requests) == 2
        assert usage["cost"] == 0.75
        assert usage["tier"] == "flex"
        assert usage["of_tools"] == {"searches": 2, "free": True}

    run_scenario(scenario, tmp_path, model, protocol=protocol)


@pytest.mark.requirement("I8", "A1")
def test_an_id_that_a_provider_uses_again_stands_for_one_item_only(tmp_path: Path) -> None:
    """Some servers count their items from one in every response. A healed answer has those of several."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    stage = event("response.web_search_call.searching", output_index=0, item_id="ws_1")

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        before = (
            event("response.output_item.added", output_index=0, item={**search, "status": "in_progress"}),
            stage,
            event("response.output_item.done", output_index=0, item=search),
        )
        created, added, delta, last = by_responses("Hello.")
        if request.number == 1:
            return (created, *before, *before[:2], CutOff("reset"))
        return (created, *before, added, delta, last)

    async def scenario(server: LiveServer) -> None:
        client = openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{server.port}/v1", api_key="any", max_retries=0
        )
        async with client, client.responses.stream(model="lab", input="Hi.") as stream:
            events = [one async for one in stream]
            told = await stream.get_final_response()
        assert told.output_text == "Hello."
        ids = [item.id for item in told.output]
        assert [item.type for item in told.output] == ["web_search_call"] * 2 + ["message"]
        assert len(set(ids)) == len(ids)
        stages = [one for one in events if one.type == "response.web_search_call.searching"]
        assert [told.output[one.output_index].id for one in stages] == [one.item_id for one in stages]

    run_scenario(scenario, tmp_path, model, protocol="openai_responses")


@pytest.mark.requirement("I8")
def test_odds_are_told_to_the_end_of_a_long_answer(tmp_path: Path) -> None:
    others = [{"token": f"token {rank}", "logprob": -rank / 7, "bytes": [1, 2, 3]} for rank in range(20)]

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        for number in range(900):
            odds = {"content": [{"token": f"{number}", "logprob": -0.1, "bytes": [], "top_logprobs": others}]}
            choice = {"index": 0, "delta": {"content": f"{number} "}, "finish_reason": None, "logprobs": odds}
            yield Frame({"id": "c", "choices": [choice]})
        yield chunk({}, "stop")

    async def scenario(server: LiveServer) -> None:
        (choice,) = (await server.post("/v1/chat/completions", CHAT)).json["choices"]
        assert [one["token"] for one in choice["logprobs"]["content"]] == [str(one) for one in range(900)]

    run_scenario(scenario, tmp_path, model)


ANOTHER = """
[[routes]]
name = "second"
protocol = "openai_chat"
base_url = "URL/v1"
api_key = "any"
model = "m2"
"""


@pytest.mark.requirement("I8", "B14")
@pytest.mark.parametrize(("protocol", "path", "body"), FACES[:2], ids=["chat", "responses"])
def test_what_one_provider_says_of_itself_is_not_said_of_the_next(
    tmp_path: Path, protocol: str, path: str, body: dict[str, Any]
) -> None:
    about = {"provider": "the first", "service_tier": "flex", "route_taken": ["a"]}

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        if request.body["model"] == "m2":
            return by_chat(SECOND)
        if protocol == "openai_chat":
            return (chunk({"role": "assistant", "content": FIRST}, **about), CutOff("reset"))
        _, *more = by_responses(FIRST)
        created = event("response.created", response={"id": "r", "status": "in_progress", **about})
        return (created, *more[:2], CutOff("reset"))

    async def scenario(server: LiveServer) -> None:
        whole = (await server.post(path, body)).json
        frames = await server.read(path, {**body, "stream": True})
        last = [one.json for one in frames if one.data != b"[DONE]"][-1]
        for told in (whole, last.get("response") or last):
            assert told["model"] == "m2"
            assert not [name for name, value in about.items() if told.get(name) == value]

    run_scenario(scenario, tmp_path, model, protocol=protocol, more=ANOTHER)
