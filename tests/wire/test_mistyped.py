"""A field beside the content that has another type than it should costs that field alone, in every protocol; a damaged
event is never shown over."""

import json
from typing import Any

import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.verdict import verdict
from turnbuckle.vocab.events import Cut, Event
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.answer import open_answer

VALUES: list[Any] = [None, True, False, 0, 7, 1.5, "", "x", [], [1], {}, {"a": 1}]
NO_NUMBERS = [value for value in VALUES if not isinstance(value, int | float)]
PIECES = ("Hello", " there", ".")


def read(protocol: ProtocolName, *frames: Any) -> list[Event]:
    decoder = open_answer(protocol)
    body = b"".join(
        b"data: %b\n\n" % (frame if isinstance(frame, bytes) else json.dumps(frame).encode())
        for frame in frames
    )
    return decoder.feed(body) + decoder.close()


def shown(events: list[Event]) -> tuple[str, str]:
    reply = fold(events)
    return reply.text, verdict(reply).kind


def chunk(delta: dict[str, Any], finish: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **fields,
    }


CHAT = (*(chunk({"content": piece}) for piece in PIECES), chunk({}, "stop"), b"[DONE]")
CHAT_SIDE: dict[tuple[str, ...], list[Any]] = {
    **{
        (name,): VALUES
        for name in ("id", "object", "created", "model", "usage", "system_fingerprint", "x_groq", "base_resp")
    },
    **{("choice", name): VALUES for name in ("logprobs", "finish_reason", "native_finish_reason")},
    ("choice", "index"): NO_NUMBERS,
    **{
        ("delta", name): VALUES
        for name in (
            "role",
            "reasoning_content",
            "reasoning",
            "thinking",
            "reasoning_details",
            "extra_content",
            "audio",
        )
    },
}


def in_chat(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    made = chunk({"content": PIECES[1]})
    where = {"choice": made["choices"][0], "delta": made["choices"][0]["delta"]}.get(path[0], made)
    where[path[-1]] = value
    return made


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("path", CHAT_SIDE, ids=".".join)
def test_a_mistyped_field_of_a_chunk_costs_that_field_alone(path: tuple[str, ...]) -> None:
    for value in CHAT_SIDE[path]:
        events = read("openai_chat", CHAT[0], in_chat(path, value), *CHAT[2:])
        assert shown(events) == ("Hello there.", "complete"), value


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("name", ["type", "index", "extra_content", "thoughtSignature", "id"])
def test_a_mistyped_field_of_a_fragment_costs_that_field_alone(name: str) -> None:
    for value in NO_NUMBERS if name in ("index", "id") else VALUES:
        first = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": '{"d":'}}
        second = {"index": 0, "function": {"arguments": '"."}'}, name: value}
        frames = (chunk({"tool_calls": [fragment]}) for fragment in (first, second))
        reply = fold(read("openai_chat", *frames, chunk({}, "tool_calls"), b"[DONE]"))
        assert [(call.name, call.arguments) for call in reply.calls] == [("ls", '{"d":"."}')], value
        assert verdict(reply).kind == "complete"


def delta(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
        **fields,
    }


def messages(begun: dict[str, Any], middle: dict[str, Any], over: dict[str, Any]) -> list[dict[str, Any]]:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    stop = {"type": "content_block_stop", "index": 0}
    return [begun, start, delta(PIECES[0]), middle, delta(PIECES[2]), stop, over, {"type": "message_stop"}]


BEGUN = {
    "type": "message_start",
    "message": {"id": "m", "model": "c", "content": [], "usage": {"input_tokens": 1}},
}
OVER = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
MESSAGES_SIDE = {
    "message": ("id", "model", "usage", "role", "stop_reason", "content"),
    "event": ("usage", "message", "index", "sequence"),
    "delta": ("signature", "citation", "encrypted_content", "thinking"),
    "end": ("stop_sequence", "stop_details"),
    "over": ("usage", "index"),
}


@pytest.mark.requirement("A15")
@pytest.mark.parametrize(
    "place, name", [(place, name) for place, names in MESSAGES_SIDE.items() for name in names]
)
def test_a_mistyped_field_of_a_messages_event_costs_that_field_alone(place: str, name: str) -> None:
    for value in NO_NUMBERS if name == "index" else VALUES:
        begun, over, middle = json.loads(json.dumps([BEGUN, OVER, delta(PIECES[1])]))
        where = {
            "message": begun["message"],
            "event": middle,
            "delta": middle["delta"],
            "end": over["delta"],
            "over": over,
        }
        where[place][name] = value
        assert shown(read("anthropic", *messages(begun, middle, over))) == ("Hello there.", "complete"), value


MESSAGE = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello there."}],
}


def responses(middle: dict[str, Any], response: dict[str, Any]) -> list[dict[str, Any]]:
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "content": []}}
    parts = [text_delta(PIECES[0]), middle, text_delta(PIECES[2])]
    return [added, *parts, {"type": "response.completed", "response": response}]


def text_delta(text: str) -> dict[str, Any]:
    where = {"item_id": "m1", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **where, "delta": text}


@pytest.mark.requirement("A15")
@pytest.mark.parametrize(
    "name", ["sequence_number", "output_index", "summary_index", "logprobs", "obfuscation", "item"]
)
def test_a_mistyped_field_of_a_responses_event_costs_that_field_alone(name: str) -> None:
    for value in VALUES:
        middle = {**text_delta(PIECES[1]), name: value}
        whole = {"id": "r", "status": "completed", "output": [MESSAGE]}
        assert shown(read("openai_responses", *responses(middle, whole))) == ("Hello there.", "complete"), (
            value
        )


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("name", ["id", "model", "usage", "output", "metadata", "incomplete_details"])
def test_a_mistyped_field_of_a_terminal_response_costs_that_field_alone(name: str) -> None:
    for value in VALUES:
        response = {"id": "r", "status": "completed", "output": [MESSAGE], name: value}
        assert shown(read("openai_responses", *responses(text_delta(PIECES[1]), response))) == (
            "Hello there.",
            "complete",
        )


def candidate(text: str, finish: Any = None) -> dict[str, Any]:
    content = {"parts": [{"text": text}], "role": "model"}
    stop = {} if finish is None else {"finishReason": finish}
    return {
        "candidates": [{"content": content, "index": 0, **stop}],
        "usageMetadata": {"promptTokenCount": 1},
        "modelVersion": "g",
        "responseId": "r",
    }


GEMINI = [*(candidate(piece) for piece in PIECES), candidate("", "STOP")]
GEMINI_SIDE = {
    "chunk": ("promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime"),
    "candidate": (
        "index",
        "finishReason",
        "finishMessage",
        "safetyRatings",
        "citationMetadata",
        "groundingMetadata",
        "tokenCount",
    ),
    "content": ("role",),
    "part": ("thought", "thoughtSignature", "partMetadata"),
}


@pytest.mark.requirement("A15")
@pytest.mark.parametrize(
    "place, name", [(place, name) for place, names in GEMINI_SIDE.items() for name in names]
)
@pytest.mark.parametrize("at", range(len(PIECES)))
def test_a_mistyped_field_of_a_candidate_costs_that_field_alone(place: str, name: str, at: int) -> None:
    for value in NO_NUMBERS if name == "index" else VALUES:
        if name == "thought" and value is True:
            continue  # of its right type: these words are a thought then
        frames = json.loads(json.dumps(GEMINI))
        heard = frames[at]["candidates"][0]
        where = {"chunk": frames[at], "candidate": heard, "content": heard["content"]}
        where["part"] = heard["content"]["parts"][0]
        where[place][name] = value
        assert shown(read("gemini", *frames)) == ("Hello there.", "complete"), value


WHOLE: dict[ProtocolName, list[Any]] = {
    "openai_chat": [chunk({"role": "assistant", "content": ""}), *CHAT],
    "anthropic": messages(BEGUN, delta(PIECES[1]), OVER),
    "openai_responses": responses(
        text_delta(PIECES[1]), {"id": "r", "status": "completed", "output": [MESSAGE]}
    ),
    "gemini": GEMINI,
}
DAMAGES = [
    b"{",
    b"garbage",
    b'{"id":"c","choices":[{"index":0,"delta":{"content":"',
    b"\xff\xfe",
    b'{"type":"content_block_del',
    b'{"candidates":[{"content":{"parts":[{"text":"',
]


@pytest.mark.requirement("A15", "B1")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_hole_is_no_end_on_a_host_that_never_says_more_either(protocol: ProtocolName) -> None:
    decoder = open_answer(protocol, quirks=Quirks(finishless=True, bare_done=True))
    frames = [json.dumps(frame).encode() for frame in WHOLE[protocol][:3] if isinstance(frame, dict)]
    events = decoder.feed(b"".join(b"data: %b\n\n" % frame for frame in (*frames, b"{"))) + decoder.close()
    assert isinstance(events[-1], Cut)


@pytest.mark.requirement("A15", "B1")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_event_is_damaged_the_text_is_whole_or_the_reply_is_cut(
    protocol: ProtocolName, damage: bytes
) -> None:
    frames = WHOLE[protocol]
    for place in range(len(frames)):
        events = read(protocol, *frames[:place], damage, *frames[place + 1 :])
        text, kind = shown(events)
        assert "Hello there.".startswith(text), place
        assert kind == "cut_by_transport" or text == "Hello there.", place
        assert kind == "complete" or isinstance(events[-1], Cut)
