"""Requests that need no body are taken without one, whatever a client says of it."""

from pathlib import Path
from typing import Any

import pytest
from all_endpoints import ENDPOINTS
from live_scenes import stages
from live_stage import Stage, played

TYPES = (
    None,
    "application/x-www-form-urlencoded",
    "text/plain",
    "application/octet-stream",
    "application/json",
)
BODILESS = [row for row in ENDPOINTS if row.method in ("POST", "DELETE") and not row.doc.needs_body]


@pytest.mark.requirement("F5", "G2")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("length", ["0", None])
def test_a_run_is_stopped_by_a_request_without_a_body(tmp_path: Path, kind: str | None, length: str | None):
    async def scene(stage: Stage) -> Any:
        run = await stage.begin("text")
        await stage.behind.asked(1)
        named = {"content-type": kind, "content-length": length}
        lines = [f"{name}: {value}" for name, value in named.items() if value is not None]
        head = "\r\n".join((f"POST /v1/runs/{run}/stop HTTP/1.1", f"host: 127.0.0.1:{stage.port}", *lines))
        async with stage.client() as client:
            client.writer.write(f"{head}\r\n\r\n".encode())
            return await client.reply()

    reply = played(scene, tmp_path, stages())
    assert (reply.status, reply.json["stopped"]) == (200, True)


@pytest.mark.requirement("F1")
def test_every_endpoint_that_needs_no_body_takes_none(tmp_path: Path):
    async def scene(stage: Stage) -> dict[str, int]:
        seen: dict[str, int] = {}
        for row in BODILESS:
            path = row.path
            for name in ("run", "session", "response", "conversation", "process"):
                path = path.replace(f"{{{name}}}", "x")
            async with stage.client() as client:
                headers = {"content-type": "application/x-www-form-urlencoded"}
                reply = await client.ask(row.method, path, body=b"", headers=headers)
            seen[f"{row.method} {row.path}"] = reply.status
        return seen

    seen = played(scene, tmp_path, stages())
    assert len(seen) > 10
    assert [path for path, status in seen.items() if status not in (200, 201, 202, 404, 409)] == []


@pytest.mark.requirement("F9")
def test_a_form_with_something_in_it_is_not_taken_even_where_no_body_is_needed(tmp_path: Path):
    async def scene(stage: Stage) -> int:
        async with stage.client() as client:
            headers = {"content-type": "application/x-www-form-urlencoded"}
            return (await client.ask("POST", "/v1/runs/x/stop", body=b"a=b", headers=headers)).status

    assert played(scene, tmp_path, stages()) == 415
