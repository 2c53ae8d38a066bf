"""What holds for one face of the server holds for all: a revoked key ends its streams, others' ids lead nowhere."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import PATIENCE, ApiClient, LiveServer, gate, run_scenario
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Finish, LabRequest, Say

pytestmark = pytest.mark.realtime

SECRET = "the treasure lies under the oak"
CHAT = {"model": "agent", "stream": True, "messages": [{"role": "user", "content": "wait"}]}
STREAMS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": {**CHAT, "max_tokens": 1000},
    "/v1/responses": {"model": "agent", "stream": True, "input": "wait"},
}


def model(request: LabRequest):
    if last_user_text(request) == "wait":
        return (Say("Slowly"), gate(1), Say("."), Finish())
    return (Say(f"I heard: {json.dumps(request.body['messages'])}"), Finish())


async def until_cut(who: ApiClient, path: str, body: dict[str, Any] | None, begun: asyncio.Event) -> str:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
        async with who.listen(path, body) as listener:
            await listener.until(b"Slowly")
            begun.set()
            await listener.rest()
            return "it came to its end"
    return "cut"


async def until_closed(who: ApiClient, begun: asyncio.Event) -> str:
    headers = {"authorization": f"Bearer {who.key}"}
    address = f"ws://127.0.0.1:{who.port}/v1/responses"
    async with connect(address, additional_headers=headers, proxy=None) as line:
        await line.send(json.dumps({"type": "response.create", "model": "agent", "input": "wait"}))
        with contextlib.suppress(ConnectionClosed):
            while True:
                if "Slowly" in str(await line.recv()):
                    begun.set()
    return "cut"


@pytest.mark.requirement("R4")
def test_a_revoked_key_ends_its_streams_on_every_face(tmp_path: Path):
    async def scenario(server: LiveServer) -> list[str]:
        ann = server.owner("ann")
        run = await ann.begin("wait")
        begun = [asyncio.Event() for _ in range(5)]
        waiting = [
            *(
                until_cut(ann, path, body, event)
                for (path, body), event in zip(STREAMS.items(), begun[:3], strict=True)
            ),
            until_cut(ann, f"/v1/runs/{run}/events", None, begun[3]),
            until_closed(ann, begun[4]),
        ]
        tasks = [asyncio.ensure_future(one) for one in waiting]
        async with asyncio.timeout(PATIENCE):
            for event in begun:
                await event.wait()
            ann.revoke()
            return list(await asyncio.gather(*tasks))

    assert run_scenario(scenario, tmp_path, model) == ["cut"] * 5


@pytest.mark.requirement("R2")
def test_no_face_goes_on_from_what_is_another_owners(tmp_path: Path):
    async def scenario(server: LiveServer) -> list[tuple[str, int, str]]:
        bob, eve = server.owner("bob"), server.owner("eve")
        asked = {"model": "agent", "input": SECRET}
        response = (await bob.post("/v1/responses", asked)).json["id"]
        made = await bob.post("/v1/conversations", {})
        talk = made.json["id"]
        await bob.post("/v1/responses", {**asked, "conversation": talk})
        session = "s"
        await bob.post(
            "/v1/chat/completions",
            {"model": "agent", "messages": [{"role": "user", "content": SECRET}]},
            X_Turnbuckle_Session=session,
        )
        runs = [run["id"] for run in (await bob.get("/v1/runs")).json["data"]]
        said = {"messages": [{"role": "user", "content": "what was said?"}]}
        tries = [
            ("POST", "/v1/responses", {"model": "agent", "input": "?", "previous_response_id": response}),
            (
                "POST",
                "/v1/responses/compact",
                {"model": "agent", "input": "?", "previous_response_id": response},
            ),
            ("GET", f"/v1/responses/{response}", None),
            ("GET", f"/v1/responses/{response}/input_items", None),
            ("GET", f"/v1/conversations/{talk}", None),
            ("GET", f"/v1/conversations/{talk}/items", None),
            ("GET", f"/v1/sessions/{session}/export", None),
            ("GET", f"/v1/sessions/bob%2F{session}/messages", None),
            *(("GET", f"/v1/runs/{run}", None) for run in runs),
            ("GET", "/v1/sessions?q=treasure", None),
            ("GET", "/metrics", None),
        ]
        told = []
        for method, path, body in tries:
            reply = await eve.ask(method, path, body)
            told.append((path, reply.status, reply.body.decode()))
        own = await eve.ask("POST", "/v1/responses", {"model": "agent", "input": "?", "conversation": talk})
        told.append(("/v1/responses", own.status, own.body.decode()))
        for path, extra in (("/v1/chat/completions", {}), ("/v1/messages", {"max_tokens": 1000})):
            reply = await eve.ask(
                "POST", path, {"model": "agent", **said, **extra}, X_Turnbuckle_Session=session
            )
            told.append((path, reply.status, reply.body.decode()))
        headers = {"authorization": f"Bearer {eve.key}"}
        address = f"ws://127.0.0.1:{server.port}/v1/responses"
        async with (
            asyncio.timeout(PATIENCE),
            connect(address, additional_headers=headers, proxy=None) as line,
        ):
            for event in (
                {"type": "response.create", "model": "agent", "input": "?", "previous_response_id": response},
                {"type": "turnbuckle.response.follow", "response_id": response},
            ):
                await line.send(json.dumps(event))
                told.append((event["type"], 0, str(await line.recv())))
        assert len(runs) == 3
        return told

    told = run_scenario(scenario, tmp_path, model)
    assert [path for path, _, text in told if "treasure lies" in text] == []
    refused = [
        (path, status) for path, status, _ in told if status and "?" not in path and path != "/metrics"
    ]
    assert [path for path, status in refused[:-3] if status not in (400, 404)] == []
    assert [status for _, status in refused[-3:]] == [200] * 3  # hers, under the same name, and empty before
