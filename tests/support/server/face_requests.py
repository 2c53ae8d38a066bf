"""One task asked on each face that a client may talk to, and what such a client makes of the answer."""

from typing import Any

from support.http.memory_server import Reply
from support.narrate.messages_output import MessageReader, texts
from support.server.live_server import Frame

Request = tuple[str, dict[str, Any]]

FACES = ("chat", "response", "messages")
PATHS = {"chat": "/v1/chat/completions", "response": "/v1/responses", "messages": "/v1/messages"}
WAYS = tuple(f"{face}{how}" for face in FACES for how in ("", " stream"))
"""Each face, plain and streamed."""


def face_of(way: str) -> str:
    return way.partition(" ")[0]


def request_for(way: str, task: str = "go", model: str = "agent", **more: Any) -> Request:
    """Where a task is sent on this face, and how it is written there."""
    face = face_of(way)
    said: dict[str, Any] = (
        {"input": task} if face == "response" else {"messages": [{"role": "user", "content": task}]}
    )
    if face == "messages":
        said["max_tokens"] = 4000
    stream = {"stream": True} if way.endswith("stream") else {}
    return PATHS[face], {"model": model, **said, **stream, **more}


def error_code(reply: Reply) -> str:
    """Our code of an error, wherever the face has it."""
    error = reply.error
    return error["code"] if "code" in error else error["details"]["error_code"]


def said(way: str, reply: Reply) -> str:
    """The text that a client of this face has in the end."""
    match way:
        case "chat":
            return reply.json["choices"][0]["message"]["content"]
        case "response":
            output = reply.json["output"]
            return "".join(part["text"] for item in output for part in item.get("content", ()))
    return "\n\n".join(texts(reply.json["content"]))


def streamed(way: str, frames: list[Frame]) -> str:
    """The same of a stream, which has come to its end."""
    assert has_ended(way, b"\n\n".join(frame.raw for frame in frames))
    match face_of(way):
        case "chat":
            chunks = [frame.json for frame in frames if frame.data != b"[DONE]"]
            return "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks)
        case "response":
            deltas = [frame.json for frame in frames if frame.event == "response.output_text.delta"]
            return "".join(one["delta"] for one in deltas)
    reader = MessageReader()
    for frame in frames:
        reader.take(frame.event, frame.json)
    return "\n\n".join(texts(reader.content))


def has_ended(way: str, body: bytes) -> bool:
    """Whether a stream has said that it is over, as its face says that."""
    ends = {"chat": b"data: [DONE]", "response": b"response.completed", "messages": b"event: message_stop"}
    return ends[face_of(way)] in body
