"""Requests that need no body are taken without one, whatever a client says of it."""

from pathlib import Path
from typing import Any

import pytest
from support.http.all_endpoints import ENDPOINTS
from support.server.live_server import LiveServer, run_scenario
from support.server.scripted_models import model_by_phase

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
    async def scenario(server: LiveServer) -> Any:
        run = await server.begin("text")
        await server.behind.asked(1)
        named = {"content-type": kind, "content-length": length}
        lines = [f"{name}: {value}" for name, value in named.items() if value is not None]
        head = "\r\n".join((f"POST /v1/runs/{run}/stop HTTP/1.1", f"host: 127.0.0.1:{server.port}", *lines))
        async with server.client() as client:
            client.writer.write(f"{head}\r\n\r\n".encode())
            return await client.reply()

    reply = run_scenario(scenario, tmp_path, model_by_phase())
    assert (reply.status, reply.json["stopped"]) == (200, True)


@pytest.mark.requirement("F1")
def test_every_endpoint_that_needs_no_body_takes_none(tmp_path: Path):
    async def scenario(server: LiveServer) -> dict[str, int]:
        seen: dict[str, int] = {}
        for row in BODILESS:
            path = row.path
            for name in ("run", "session", "response", "conversation", "process"):
                path = path.replace(f"{{{name}}}", "x")
            async with server.client() as client:
                headers = {"content-type": "application/x-www-form-urlencoded"}
                reply = await client.ask(row.method, path, body=b"", headers=headers)
            seen[f"{row.method} {row.path}"] = reply.status
        return seen

    seen = run_scenario(scenario, tmp_path, model_by_phase())
    assert len(seen) > 10
    assert [path for path, status in seen.items() if status not in (200, 201, 202, 404, 409)] == []


@pytest.mark.requirement("F9")
def test_a_form_with_something_in_it_is_not_taken_even_where_no_body_is_needed(tmp_path: Path):
    async def scenario(server: LiveServer) -> int:
        async with server.client() as client:
            headers = {"content-type": "application/x-www-form-urlencoded"}
            return (await client.ask("POST", "/v1/runs/x/stop", body=b"a=b", headers=headers)).status

    assert run_scenario(scenario, tmp_path, model_by_phase()) == 415
