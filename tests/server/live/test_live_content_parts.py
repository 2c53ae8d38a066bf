"""Content that a chat provider sends as a list: parts of types that nobody knows reach a client of the same
protocol where they stood, a client of another one is told their names, and their text is lost nowhere."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario
from support.server.provider_answers import asking, block, event

from turnbuckle.lab.script import CutOff, Frame, LabRequest, Raw, ScriptItem, Status

DONE = Raw("data: [DONE]\n\n")
ASKED: dict[str, Any] = {"model": "lab", "messages": [{"role": "user", "content": "Hi."}]}
REFERENCE = {"type": "reference", "reference_ids": [0, 3]}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}, "odd": True}
MARKED = {"type": "marked_text", "text": " (so it is said)", "level": 2}
CONTENT: list[Any] = [
    {"type": "text", "text": "It is"},
    {"type": "text", "text": " 4."},
    REFERENCE,
    MARKED,
    {"type": "text", "text": " And 5."},
    PICTURE,
    REFERENCE,
]
TOLD = [
    {"type": "text", "text": "It is 4."},
    REFERENCE,
    MARKED,
    {"type": "text", "text": " And 5."},
    PICTURE,
    REFERENCE,
]
TEXT = "It is 4. (so it is said) And 5."


def chunk(content: Any, finish: str | None = None, **beside: Any) -> Frame:
    choice = {"index": 0, "delta": {"content": content, **beside}, "finish_reason": finish}
    return Frame({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def streamed() -> Iterable[ScriptItem]:
    yield chunk("It is", role="assistant")
    yield chunk([CONTENT[1], REFERENCE])
    for part in CONTENT[3:]:
        yield chunk([part])
    yield chunk("", "stop")
    yield DONE


def whole(content: Any = CONTENT, **message: Any) -> Iterable[ScriptItem]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": "stop",
    }
    yield Status(
        200, body=json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})
    )


def in_one_list(frames: list[Any]) -> list[Any]:
    """The content of a stream: its parts, and its words between them as one text."""
    made: list[Any] = []
    for one in frames:
        for choice in [] if one.data == b"[DONE]" else one.json.get("choices", []):
            content = choice["delta"].get("content") or []
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part["type"] == "text" and made and made[-1]["type"] == "text":
                    made[-1]["text"] += part["text"]
                else:
                    made.append(dict(part))
    return made


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("model", [streamed, whole], ids=["told as a stream", "told in one piece"])
def test_parts_of_any_type_reach_a_chat_client_in_their_place(tmp_path: Path, model: Any) -> None:
    async def scenario(server: LiveServer) -> None:
        async with server.listen("/v1/chat/completions", {**ASKED, "stream": True}) as listener:
            frames = await listener.rest()
            run = listener.run
        assert in_one_list(frames) == TOLD
        plain = (await server.post("/v1/chat/completions", ASKED)).json
        assert plain["choices"][0]["message"]["content"] == TOLD
        assert "left_out" not in plain["turnbuckle"]
        assert (await server.get(f"/v1/runs/{run}")).json["output"] == TEXT
        assert len(server.lab.requests) == 2

    run_scenario(scenario, tmp_path, lambda _: model())


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("face", ["responses", "messages"])
def test_a_client_of_another_protocol_has_their_text_and_is_told_what_it_goes_without(
    tmp_path: Path, face: str
) -> None:
    async def scenario(server: LiveServer) -> None:
        reply = await server.post(f"/v1/{face}", asking(face, "Hi."))
        blocks = reply.json["output"][0]["content"] if face == "responses" else reply.json["content"]
        assert "".join(one["text"] for one in blocks) == TEXT
        assert reply.json["turnbuckle"]["left_out"] == ["reference", "image_url"]
        assert reply.headers["x-turnbuckle-left-out"] == "reference, image_url"
        frames = await server.read(f"/v1/{face}", {**asking(face, "Hi."), "stream": True})
        assert json.dumps(frames[-2].json if face == "messages" else frames[-1].json).count("left_out") == 1

    run_scenario(scenario, tmp_path, lambda _: streamed())


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize("stream", [False, True])
def test_what_was_told_before_a_cut_stays_told_and_the_rest_comes_behind_it(
    tmp_path: Path, stream: bool
) -> None:
    words = "A long enough beginning, so that going on behind it is worth it, "

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        if request.number == 1:
            return (chunk([{"type": "text", "text": words}, REFERENCE]), CutOff("reset"))
        return (chunk([{"type": "text", "text": "and its end."}, PICTURE], "stop"), DONE)

    async def scenario(server: LiveServer) -> None:
        told = [
            {"type": "text", "text": words},
            REFERENCE,
            {"type": "text", "text": "and its end."},
            PICTURE,
        ]
        if stream:
            assert in_one_list(await server.read("/v1/chat/completions", {**ASKED, "stream": True})) == told
        else:
            plain = (await server.post("/v1/chat/completions", ASKED)).json
            assert plain["choices"][0]["message"]["content"] == told
        again = server.lab.requests[1].body["messages"]
        kept = next(one for one in again if one["role"] == "assistant")
        assert kept["content"] == [{"type": "text", "text": words}, REFERENCE]

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8", "A1")
def test_a_part_that_was_told_before_a_silent_retry_is_not_told_twice(tmp_path: Path) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        if request.number == 1:
            return (chunk([REFERENCE]), CutOff("reset"))
        return (chunk([REFERENCE, {"type": "text", "text": "Yes."}, REFERENCE], "stop"), DONE)

    async def scenario(server: LiveServer) -> None:
        frames = await server.read("/v1/chat/completions", {**ASKED, "stream": True})
        assert in_one_list(frames) == [REFERENCE, {"type": "text", "text": "Yes."}, REFERENCE]

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8")
def test_a_second_telling_of_the_whole_content_tells_nothing_twice(tmp_path: Path) -> None:
    def model(_: LabRequest) -> Iterable[ScriptItem]:
        *pieces, _done = streamed()
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": [*CONTENT, PICTURE]},
            "finish_reason": "stop",
        }
        return (
            *pieces,
            Frame({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}),
            DONE,
        )

    async def scenario(server: LiveServer) -> None:
        plain = (await server.post("/v1/chat/completions", ASKED)).json
        assert plain["choices"][0]["message"]["content"] == [*TOLD, PICTURE]

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8")
def test_thoughts_and_refusals_among_the_parts_are_read_and_what_else_they_hold_is_told(
    tmp_path: Path,
) -> None:
    thought = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "Add."}, REFERENCE],
        "closed": True,
        "seal": "s",
    }
    content = [thought, {"type": "text", "text": "No."}, {"type": "refusal", "refusal": "I cannot."}]

    async def scenario(server: LiveServer) -> None:
        message = (await server.post("/v1/chat/completions", ASKED)).json["choices"][0]["message"]
        assert message["reasoning_content"] == "Add."
        assert message["refusal"] == "I cannot."
        rest = {"type": "thinking", "thinking": [REFERENCE], "seal": "s"}
        assert message["content"] == [rest, {"type": "text", "text": "No."}]

    run_scenario(scenario, tmp_path, lambda _: whole(content))


@pytest.mark.requirement("I8")
def test_pictures_and_sound_beside_the_content_are_put_together_in_the_whole_answer(tmp_path: Path) -> None:
    pictures = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{n}"}} for n in "ab"]

    def model(_: LabRequest) -> Iterable[ScriptItem]:
        yield chunk("See.", images=[pictures[0]])
        yield chunk("", images=[pictures[1]], audio={"id": "a1"})
        yield chunk("", audio={"transcript": "Se", "data": "aGVs"})
        yield chunk("", audio={"transcript": "e.", "data": "bG8h"})
        yield chunk("", "stop", audio={"expires_at": 7})
        yield DONE

    async def scenario(server: LiveServer) -> None:
        message = (await server.post("/v1/chat/completions", ASKED)).json["choices"][0]["message"]
        assert message["images"] == pictures
        assert message["audio"] == {"id": "a1", "transcript": "See.", "data": "aGVsbG8h", "expires_at": 7}
        across = (await server.post("/v1/responses", asking("responses", "Hi."))).json
        assert across["turnbuckle"]["left_out"] == ["images", "audio"]

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8")
def test_a_turn_with_such_parts_and_a_call_goes_back_to_its_provider_with_them(tmp_path: Path) -> None:
    tool = {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
    }
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        if request.number == 1:
            return (
                chunk([CONTENT[0], REFERENCE], role="assistant"),
                chunk(None, "tool_calls", tool_calls=[{"index": 0, **call}]),
                DONE,
            )
        return (chunk("Done.", "stop"), DONE)

    async def scenario(server: LiveServer) -> None:
        first = (await server.post("/v1/chat/completions", {**ASKED, "tools": [tool]})).json["choices"][0]
        result = {"role": "tool", "tool_call_id": "c1", "content": "seen"}
        messages = [*ASKED["messages"], first["message"], result]
        await server.post("/v1/chat/completions", {**ASKED, "messages": messages, "tools": [tool]})
        sent = server.lab.requests[1].body["messages"][1]
        assert sent["content"] == [CONTENT[0], REFERENCE]
        assert sent["tool_calls"] == [call]

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8")
def test_such_parts_of_another_choice_are_put_together_too(tmp_path: Path) -> None:
    def model(_: LabRequest) -> Iterable[ScriptItem]:
        for at in (0, 1):
            for piece in streamed():
                if isinstance(piece, Frame):
                    data: Any = piece.data
                    yield Frame({**data, "choices": [{**data["choices"][0], "index": at}]})
        yield DONE

    async def scenario(server: LiveServer) -> None:
        first, other = (await server.post("/v1/chat/completions", {**ASKED, "n": 2})).json["choices"]
        assert first["message"]["content"] == other["message"]["content"] == TOLD

    run_scenario(scenario, tmp_path, model)


STRANGE_PART = {"type": "output_of_tomorrow", "data": "aGk=", "odd": 1}


def responses_message(*, stream: bool) -> Iterable[ScriptItem]:
    text = {"type": "output_text", "text": "Hi.", "annotations": []}
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [text, STRANGE_PART],
    }
    body = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [item]}
    if not stream:
        yield Status(200, body=json.dumps(body))
        return
    yield event("response.created", response={**body, "status": "in_progress", "output": []})
    yield event("response.output_item.added", output_index=0, item={**item, "content": []})
    about = {"item_id": "msg_1", "output_index": 0}
    yield event("response.output_text.delta", **about, content_index=0, delta="Hi.")
    yield event("response.content_part.added", **about, content_index=1, part={"type": STRANGE_PART["type"]})
    yield event("response.output_of_tomorrow.delta", **about, content_index=1, delta={"odd": 2})
    yield event("response.content_part.done", **about, content_index=1, part=STRANGE_PART)
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=body)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("stream", [False, True], ids=["told in one piece", "told as a stream"])
def test_a_part_of_a_responses_message_that_nobody_knows_reaches_its_client(
    tmp_path: Path, stream: bool
) -> None:
    async def scenario(server: LiveServer) -> None:
        plain = (await server.post("/v1/responses", asking("responses", "Hi."))).json
        parts = [part for item in plain["output"] for part in item["content"]]
        assert [part["type"] for part in parts] == ["output_text", STRANGE_PART["type"]]
        assert parts[1] == STRANGE_PART
        assert len({item["id"] for item in plain["output"]}) == len(plain["output"])
        frames = await server.read("/v1/responses", {**asking("responses", "Hi."), "stream": True})
        odd = [one.json for one in frames if one.event == "response.output_of_tomorrow.delta"]
        assert [one["delta"] for one in odd] == ([{"odd": 2}] if stream else [])
        across = (await server.post("/v1/chat/completions", ASKED)).json
        assert across["choices"][0]["message"]["content"] == "Hi."
        assert across["turnbuckle"]["left_out"] == [STRANGE_PART["type"]]

    run_scenario(scenario, tmp_path, lambda _: responses_message(stream=stream), protocol="openai_responses")


def gemini_parts(_: LabRequest) -> Iterable[ScriptItem]:
    parts = [
        {"text": "Hi."},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"partOfTomorrow": {"a": 1}},
    ]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    yield Frame({"candidates": [candidate], "modelVersion": "m", "responseId": "r"})


def messages_blocks(_: LabRequest) -> Iterable[ScriptItem]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    yield event("message_start", message=message)
    yield from block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi."})
    yield from block(1, {"type": "block_of_tomorrow", "odd": 1})
    yield event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage)
    yield event("message_stop")


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(
    ("protocol", "model", "names"),
    [
        ("gemini", gemini_parts, ["inlineData", "partOfTomorrow"]),
        ("anthropic", messages_blocks, ["block_of_tomorrow"]),
    ],
)
@pytest.mark.parametrize("face", ["chat/completions", "responses", "messages"])
def test_what_another_protocol_has_no_place_for_is_named(
    tmp_path: Path, protocol: str, model: Any, names: list[str], face: str
) -> None:
    async def scenario(server: LiveServer) -> None:
        body = asking(face, "Hi.") if face != "chat/completions" else ASKED
        reply = await server.post(f"/v1/{face}", body)
        own = protocol == "anthropic" and face == "messages"
        assert reply.json["turnbuckle"].get("left_out", []) == ([] if own else names)
        assert "Hi." in json.dumps(reply.json)

    run_scenario(scenario, tmp_path, model, protocol=protocol)


WAV = {"id": "a", "data": "UklG", "transcript": "Hello.", "expires_at": 1}
DRAWN = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}


def no_streamed_sound(request: LabRequest) -> Iterable[ScriptItem]:
    if request.body["stream"]:
        words = "'audio.format' does not support 'wav' when stream=true. Supported values are: 'pcm16'."
        return (Status(400, body=json.dumps({"error": {"message": words, "param": "audio.format"}})),)
    return whole(None, audio=WAV)


def drawn(_: LabRequest) -> Iterable[ScriptItem]:
    body = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [DRAWN]}
    return (Status(200, body=json.dumps(body)),)


def painted(_: LabRequest) -> Iterable[ScriptItem]:
    parts = [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return (Frame({"candidates": [candidate], "modelVersion": "m", "responseId": "r"}),)


@pytest.mark.requirement("I8")
@pytest.mark.parametrize(
    "protocol, model, asked",
    [
        ("openai_chat", no_streamed_sound, 2),
        ("openai_chat", lambda _: whole("", images=[PICTURE]), 1),
        ("openai_chat", lambda _: whole([PICTURE]), 1),
        ("openai_responses", drawn, 1),
        ("gemini", painted, 1),
    ],
    ids=["sound", "pictures beside the text", "a picture as a part", "a picture that was drawn", "gemini"],
)
def test_an_answer_of_nothing_but_a_picture_or_sound_is_an_answer(
    tmp_path: Path, protocol: str, model: Any, asked: int
) -> None:
    async def scenario(server: LiveServer) -> None:
        face = "responses" if protocol == "openai_responses" else "chat/completions"
        body = asking("responses", "Draw.") if face == "responses" else ASKED
        reply = await server.post(f"/v1/{face}", body)
        assert reply.status == 200, reply.json
        assert reply.json["turnbuckle"]["outcome"] == "completed"
        assert len(server.lab.requests) == asked
        if protocol == "openai_responses":
            assert reply.json["output"] == [DRAWN]
        elif protocol == "gemini":
            assert reply.json["turnbuckle"]["left_out"] == ["inlineData"]
        else:
            message = reply.json["choices"][0]["message"]
            assert message.get("audio", WAV) == WAV
            assert {"audio", "images"} & {*message} or message["content"] == [PICTURE]

    run_scenario(scenario, tmp_path, model, protocol=protocol)


@pytest.mark.requirement("I8")
def test_a_part_that_its_provider_does_not_take_back_does_not_end_the_conversation(tmp_path: Path) -> None:
    def strict(request: LabRequest) -> Iterable[ScriptItem]:
        answers = [one["content"] for one in request.body["messages"] if one["role"] == "assistant"]
        if any(isinstance(content, list) for content in answers):
            words = "Invalid value: 'reference'. Supported values are: 'text' and 'refusal'."
            error = {"message": words, "type": "invalid_request_error", "code": "invalid_value"}
            return (Status(400, body=json.dumps({"error": error})),)
        return (chunk("On it goes.", "stop"), DONE) if answers else streamed()

    async def scenario(server: LiveServer) -> None:
        first = (await server.post("/v1/responses", asking("responses", "Hi."))).json["id"]
        body = {**asking("responses", "More."), "previous_response_id": first}
        reply = await server.post("/v1/responses", body)
        assert reply.status == 200, reply.json
        assert "On it goes." in json.dumps(reply.json["output"])
        _, refused, last = [request.body["messages"] for request in server.lab.requests]
        assert REFERENCE in refused[1]["content"]
        assert last[1]["content"] == TEXT

    run_scenario(scenario, tmp_path, strict)
