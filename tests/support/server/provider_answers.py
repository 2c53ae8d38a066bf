"""What providers answer, piece by piece, and what clients ask for it."""

import json
from collections.abc import Iterable
from typing import Any

from support.server.live_server import Frame as Told

from turnbuckle.lab.script import Frame, ScriptItem

ASKED = {"model": "lab", "input": "Hi."}


def event(kind: str, **fields: Any) -> Frame:
    return Frame({"type": kind, "sequence_number": 7, **fields}, kind)


def response(status: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "model": "m-2026-11-01",
        "status": status,
        "service_tier": "flex",
        "billing": {"payer": "p"},
        **fields,
    }


MESSAGE = {"model": "lab", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi."}]}

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


def asking(face: str, words: str) -> dict[str, Any]:
    if face == "responses":
        return {"model": "lab", "input": words}
    return {"model": "lab", "max_tokens": 9, "messages": [{"role": "user", "content": words}]}
