"""Pages that a text refers to, and how likely its tokens were: at their place, for clients of every protocol."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
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

from turnbuckle.lab.script import CutOff, Frame, LabRequest, ScriptItem

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
