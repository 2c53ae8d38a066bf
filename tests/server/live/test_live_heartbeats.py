"""Streams of a silent run stay alive, say what is waited for, and can be read by any page that is allowed to."""

from pathlib import Path
from typing import Any

import pytest
from support.server.face_requests import request_for
from support.server.live_server import Listener, LiveServer, run_scenario
from support.server.scripted_models import model_by_phase

QUICK = 'drain = 0\nkeepalive = 0.1\nnoop = 0.15\norigins = ["https://page.example"]'
ORIGIN = "https://page.example"
ASK = 'approval = { shell = "ask" }'
SIGNS = {
    "first": b"model_asked",
    "text": b" one ",
    "arguments": b"Two scr",
    "tool": b"tool_said",
    "backoff": b"decided",
    "consent": b"approval_asked",
}
WAITED_FOR = {
    "first": ("provider_first_token", "m"),
    "text": ("provider", "m: text"),
    "arguments": ("provider", "m: write_file, 42 characters"),
    "tool": ("tool", "shell echo $$ > tool.pid"),
    "backoff": ("rate_limit", "next try in "),
    "consent": ("approval", "shell echo done >> consent.txt"),
}
SINCE = {
    "first": "model_asked",
    "text": "streamed",
    "arguments": "streamed",
    "tool": "tool_started",
    "backoff": "decided",
    "consent": "approval_asked",
}


def heartbeats(listener: Listener) -> list[dict[str, Any]]:
    return [frame.json for frame in listener.frames if frame.event == "heartbeat"]


async def beaten(listener: Listener, times: int = 2) -> list[dict[str, Any]]:
    await listener.until(lambda body: body.count(b"event: heartbeat") >= times)
    return heartbeats(listener)


@pytest.mark.requirement("F8", "F2")
@pytest.mark.parametrize("where", SIGNS)
def test_heartbeats_say_what_is_waited_for_and_since_when_also_to_who_comes_back(where: str, tmp_path: Path):
    """C11."""

    async def scenario(server: LiveServer):
        run = await server.begin(where)
        path = f"/v1/runs/{run}/events"
        async with server.listen(path) as first:
            await first.until(SIGNS[where])
            known = len(heartbeats(first))
            told = (await beaten(first, known + 2))[-1]
            last = [frame for frame in first.frames if frame.id][-1].id
            async with server.listen(f"{path}?after={last}") as back:
                again = (await beaten(back))[-1]
            view = await server.run(run)
            frames = first.frames
        await server.post(f"/v1/runs/{run}/stop")
        return frames, told, again, back.frames, view["waiting_on"]

    tools = ASK if where == "consent" else ""
    frames, told, again, later, shown = run_scenario(
        scenario, tmp_path, model_by_phase(), server=QUICK, tools=tools
    )
    kind, detail = WAITED_FOR[where]
    for waiting in (told["waiting_on"], again["waiting_on"], shown):
        assert waiting["kind"] == kind
        assert waiting["detail"].startswith(detail)
    since = [frame.json["at"] for frame in frames if frame.event == SINCE[where]][-1]
    assert told["waiting_on"]["since"] == again["waiting_on"]["since"] == since
    assert told["at"] > since
    assert all(frame.id == "" for frame in frames if frame.event == "heartbeat")
    assert {frame.event for frame in later} == {"heartbeat"}


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("where", ["first", "tool"])
def test_a_silent_chat_stream_gets_comments_and_chunks_that_say_nothing(where: str, tmp_path: Path):
    """C11."""

    async def scenario(server: LiveServer):
        asked = {"model": "agent", "messages": [{"role": "user", "content": where}], "stream": True}
        async with server.listen("/v1/chat/completions", asked) as listener:
            await listener.until(
                lambda body: body.count(b": keepalive\n\n") >= 2 and body.count(b'"delta":{}') >= 4
            )
            return listener.frames, listener.body

    frames, body = run_scenario(scenario, tmp_path, model_by_phase(), server=QUICK)
    assert body.startswith(b"data: ")
    assert frames[0].json["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    silent = [
        frame
        for frame in frames[1:]
        if frame.json["choices"][0]["delta"] == {} and "turnbuckle" not in frame.json
    ]
    assert len(silent) >= 2
    assert {frame.json["id"] for frame in frames} == {frames[0].json["id"]}
    assert {frame.json["choices"][0]["finish_reason"] for frame in frames} == {None}
    assert all(not frame.id and not frame.event for frame in frames)


STREAMS = {
    "chat": (
        "/v1/chat/completions",
        {"model": "agent", "messages": [{"role": "user", "content": "whole"}], "stream": True},
    ),
    "response": ("/v1/responses", {"model": "agent", "input": "whole", "stream": True}),
    "messages": request_for("messages stream", "whole"),
    "events": ("/v1/runs/{run}/events", None),
    "fetched": ("/v1/responses/resp_{run}?stream=true", None),
}


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("what", STREAMS)
def test_every_stream_has_headers_against_buffering_and_for_pages_that_are_allowed(what: str, tmp_path: Path):
    """C12."""

    async def scenario(server: LiveServer):
        path, body = STREAMS[what]
        made = await server.post("/v1/responses", {"model": "agent", "input": "whole"})
        path = path.format(run=made.headers["x-turnbuckle-run"])
        async with server.listen(path, body, origin=ORIGIN) as listener:
            await listener.rest()
        method = "GET" if body is None else "POST"
        foreign = await server.ask(method, path, body, origin="https://other.example")
        cross = await server.ask(method, path, body, sec_fetch_site="cross-site")
        plain = await server.get("/v1/models", origin=ORIGIN)
        return listener.reply.headers, foreign, cross, plain.headers

    headers, foreign, cross, plain = run_scenario(scenario, tmp_path, model_by_phase(), server=QUICK)
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache, no-transform"
    assert headers["x-accel-buffering"] == "no"
    assert headers["transfer-encoding"] == "chunked"
    assert headers["x-turnbuckle-run"]
    assert headers["x-request-id"]
    assert headers["access-control-allow-origin"] == plain["access-control-allow-origin"] == ORIGIN
    assert "x-turnbuckle-run" in headers["access-control-expose-headers"].lower()
    for refused in (foreign, cross):
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers


@pytest.mark.requirement("F2", "F9")
def test_a_page_is_told_beforehand_what_it_may_send(tmp_path: Path):
    """X12."""

    async def scenario(server: LiveServer):
        wish = {"access_control_request_method": "POST", "access_control_request_headers": "idempotency-key"}
        path = "/v1/chat/completions"
        return await server.ask("OPTIONS", path, origin=ORIGIN, **wish), await server.ask(
            "OPTIONS", path, origin="https://other.example", **wish
        )

    allowed, refused = run_scenario(scenario, tmp_path, model_by_phase(), server=QUICK)
    assert allowed.status == 204
    assert allowed.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in allowed.headers["access-control-allow-methods"]
    assert "idempotency-key" in allowed.headers["access-control-allow-headers"].lower()
    assert refused.status == 403
    assert "access-control-allow-origin" not in refused.headers
