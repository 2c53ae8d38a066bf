"""One table of outcomes: a run's end is told by every surface as that surface calls it, and always as the same one."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.narrate.messages_output import MessageReader, texts
from support.server.face_requests import FACES, WAYS, request_for
from support.server.live_server import Frame, LiveServer, gate, run_scenario
from support.server.scripted_models import CUT_AT, LAST

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import CutOff, Finish, LabRequest, Refuse, Say, ScriptItem, Status

REFUSAL = "I will not say that."


class Row(NamedTuple):
    """What each surface must make of one kind of end."""

    outcome: str
    finish: str | None
    status: int
    response: str
    event: str
    reason: str | None
    note: str
    stop: str | None


TABLE = {
    "completed": Row("completed", "stop", 200, "completed", "response.completed", None, "", "end_turn"),
    "partial": Row(
        "partial",
        "length",
        200,
        "incomplete",
        "response.incomplete",
        "max_output_tokens",
        "[Not finished: ",
        "max_tokens",
    ),
    "cancelled": Row(
        "cancelled",
        "length",
        200,
        "cancelled",
        "response.incomplete",
        "cancelled",
        "[Stopped.]",
        "max_tokens",
    ),
    "declined": Row(
        "failed", "content_filter", 200, "incomplete", "response.incomplete", "content_filter", "", "refusal"
    ),
    "failed": Row("failed", None, 502, "failed", "response.failed", None, "", None),
}


def model() -> Callable[[LabRequest], Iterable[ScriptItem]]:
    """Ends as the task says."""
    asked: Counter[str] = Counter()

    def play(request: LabRequest) -> Iterable[ScriptItem]:
        task = next(item["content"] for item in request.body["messages"] if item["role"] == "user")
        asked[task] += 1
        match task.split()[0]:
            case "completed":
                return (Say(LAST), Finish())
            case "partial":
                return (Say(LAST[:CUT_AT]), CutOff("reset")) if asked[task] == 1 else (CutOff("reset"),)
            case "cancelled":
                return (Say(LAST[:CUT_AT]), gate(1))
            case "declined":
                return (Refuse(REFUSAL), Finish())
            case "failed":
                return (Status(401, "the provider does not know this key"),)
        raise AssertionError(last_user_text(request))

    return play


async def end(server: LiveServer, name: str, place: int) -> None:
    """Bring about what the provider alone does not."""
    if name == "cancelled":
        request = await server.behind.asked(place)
        while not request.progress.sent:
            await server.get("/healthz")
        [run] = (await server.get("/v1/runs?status=running")).json["data"]
        await server.post(f"/v1/runs/{run['id']}/stop")


async def surfaces(server: LiveServer, name: str) -> dict[str, Any]:
    """The same task on every surface, one after the other."""
    told: dict[str, Any] = {}
    for number, (what, stream) in enumerate(
        [(face, stream) for face in FACES for stream in (False, True)], start=1
    ):
        task = f"{name} {number}"
        before = len(server.lab.requests)
        path, body = request_for(f"{what} stream" if stream else what, task)
        ending = asyncio.create_task(end(server, name, before + 1))
        if stream:
            async with server.listen(path, body) as listener:
                await listener.rest()
            told[f"{what} stream"], run = listener.frames, listener.run
        else:
            reply = await server.post(path, body)
            told[what], run = reply, reply.headers["x-turnbuckle-run"]
        await ending
        events = await server.events(run)
        view = await server.run(run)
        told[f"run of {what}{' stream' if stream else ''}"] = (events[-1].json["outcome"], view)
        if what == "response":
            told[f"fetched {stream}"] = (await server.get(f"/v1/responses/resp_{run}")).json
    return told


def check_chat_stream(row: Row, frames: list[Frame]) -> None:
    chunks = [frame.json for frame in frames if frame.data != b"[DONE]"]
    finishes = [one["choices"][0]["finish_reason"] for one in chunks if "choices" in one]
    content = "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks if "choices" in one)
    assert chunks[-1]["turnbuckle"]["outcome"] == row.outcome
    assert [finish for finish in finishes if finish] == ([row.finish] if row.finish else [])
    assert (frames[-1].data == b"[DONE]") is (row.finish is not None)
    assert row.note in content
    if row.finish is None:
        assert "provider" in chunks[-1]["error"]["message"]
    else:
        assert all("error" not in chunk for chunk in chunks)


def check_plain_chat(row: Row, reply: Any) -> None:
    assert reply.status == row.status
    assert reply.headers["x-turnbuckle-outcome"] == row.outcome
    assert reply.json["turnbuckle"]["outcome"] == row.outcome
    if row.finish is None:
        assert "provider" in reply.error["message"]
        assert reply.headers["x-should-retry"] == "false"
        return
    choice = reply.json["choices"][0]
    assert choice["finish_reason"] == row.finish
    assert row.note in (choice["message"]["content"] or "")


def check_response(row: Row, body: dict[str, Any]) -> None:
    assert body["status"] == row.response
    assert (body["incomplete_details"] or {}).get("reason") == row.reason
    assert (body["error"] is not None) is (row.response == "failed")
    assert body["turnbuckle"]["outcome"] == row.outcome
    texts = [
        part.get("text", "")
        for item in body["output"]
        if item["type"] == "message"
        for part in item["content"]
    ]
    assert row.note in "".join(texts)


def check_messages(row: Row, plain: Any, frames: list[Frame]) -> None:
    assert plain.headers["x-turnbuckle-outcome"] == row.outcome
    assert plain.status == row.status
    if row.stop is None:
        assert (plain.json["type"], frames[-1].event) == ("error", "error")
        for error in (plain.error, frames[-1].json["error"]):
            assert "provider" in error["message"]
        return
    reader = MessageReader()
    for frame in frames:
        reader.take(frame.event, frame.json)
    for made in (plain.json, reader.made):
        assert (made["stop_reason"], made["turnbuckle"]["outcome"]) == (row.stop, row.outcome)
        assert row.note in "".join(texts(made["content"]))


@pytest.mark.requirement("C6", "F1", "F4", "F5")
@pytest.mark.parametrize("name", TABLE)
def test_every_surface_tells_the_same_end(name: str, tmp_path: Path):
    told = run_scenario(lambda server: surfaces(server, name), tmp_path, model())
    row = TABLE[name]
    check_chat_stream(row, told["chat stream"])
    check_plain_chat(row, told["chat"])
    check_messages(row, told["messages"], told["messages stream"])
    plain, frames = told["response"], told["response stream"]
    assert plain.headers["x-turnbuckle-outcome"] == row.outcome
    assert frames[-1].event == row.event
    if row.finish is not None:
        assert plain.status == 200
        assert plain.json == told["fetched False"]
        check_response(row, plain.json)
    else:
        assert plain.status == row.status
        assert "provider" in plain.error["message"]
    assert frames[-1].json["response"] == told["fetched True"]
    for body in (told["fetched False"], told["fetched True"]):
        check_response(row, body)
    for what in WAYS:
        outcome, view = told[f"run of {what}"]
        assert outcome["kind"] == view["status"] == view["outcome"]["kind"] == row.outcome
