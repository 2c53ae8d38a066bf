"""Whether a real answer is what the document says of it."""

from functools import cache
from typing import Any

import jsonschema_rs
import msgspec
from support.http.all_endpoints import DOCUMENT
from support.server.live_server import Frame, frames

STREAM = "text/event-stream"


def content_type_of(headers: dict[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0]


def documented(method: str, path: str, status: int) -> dict[str, Any]:
    """What the document says of one status of an endpoint."""
    responses = DOCUMENT["paths"][path][method.lower()]["responses"]
    assert str(status) in responses, f"{method} {path} gave {status}, which the document does not know"
    told = responses[str(status)]
    if "$ref" in told:
        told = DOCUMENT["components"]["responses"][told["$ref"].rpartition("/")[2]]
    return told


def check_answer(method: str, path: str, status: int, headers: dict[str, str], body: bytes) -> None:
    """An answer to a request for an endpoint; `path` is as the document writes it."""
    told = documented(method, path, status)
    for name, known in told["headers"].items():
        header = DOCUMENT["components"]["headers"][known["$ref"].rpartition("/")[2]]
        assert name in headers or not header.get("required")
        if name in headers:
            _fits(header["schema"], headers[name], f"{method} {path} {status} {name}")
    kind = content_type_of(headers)
    assert kind in told["content"], f"{method} {path} gave {kind}"
    schema = told["content"][kind]["schema"]
    if kind == STREAM:
        for frame in frames(body):
            check_event(schema, frame)
    elif kind == "application/json":
        _fits(schema, msgspec.json.decode(body), f"{method} {path} {status}")


def check_event(schema: dict[str, Any], frame: Frame) -> None:
    """One event of a stream against the schema of the stream, its data included."""
    event = {"data": frame.data.decode(), "event": frame.event or "message"}
    if frame.id:
        event["id"] = frame.id
    fits = [each for each in _alternatives(schema) if _is_event(each, event)]
    assert fits, f"{event} is not in the document"


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema.get("anyOf", [schema])


def _is_event(schema: dict[str, Any], event: dict[str, str]) -> bool:
    if not validator(schema).is_valid(event):
        return False
    inside = schema["properties"]["data"].get("contentSchema")
    if inside is None:
        return True
    try:
        value = msgspec.json.decode(event["data"])
    except msgspec.DecodeError:
        return False
    _fits(inside, value, str(event)[:300])
    return True


def validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return _validator(msgspec.json.encode(schema))


@cache
def _validator(schema: bytes) -> jsonschema_rs.Validator:
    whole = {**msgspec.json.decode(schema), "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(whole)


def _fits(schema: dict[str, Any], value: Any, where: str) -> None:
    wrong = [
        f"{where}: {error.message[:300]} at {list(error.instance_path)}"
        for error in validator(schema).iter_errors(value)
    ]
    assert not wrong, wrong[:3]
