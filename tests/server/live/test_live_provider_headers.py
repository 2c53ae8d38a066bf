"""What a provider says in headers reaches the client on every face: its id of the request, and what is left of its limits."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.server.face_requests import WAYS, request_for
from support.server.live_server import LiveServer, encoded, run_scenario

from turnbuckle.lab.script import Finish, Headers, LabRequest, Say, ScriptItem, Status

TOLD = {
    "request-id": "req_provider",
    "anthropic-ratelimit-requests-remaining": "7",
    "anthropic-ratelimit-unified-reset": "1794917625",
    "x-ratelimit-remaining-tokens": "1200",
}
LATER = "7200"  # longer than a server waits by itself
KEPT = {"set-cookie": "a=b", "x-internal": "1", "server": "theirs"}


@pytest.mark.requirement("J1", "I8")
@pytest.mark.parametrize("protocol", ["anthropic", "openai_chat"])
def test_the_id_of_a_request_and_what_is_left_of_the_limits_are_told_on_every_face(
    tmp_path: Path, protocol: str
):
    """Streamed and not, when all went well and when the provider refuses."""

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        refused = "refuse" in str(request.body)
        said = (Status(429, headers={"retry-after": LATER}),) if refused else (Say("Hello."), Finish())
        return (Headers({**TOLD, **KEPT}), *said)

    async def scenario(server: LiveServer) -> None:
        for way in WAYS:
            for task, status in (("go", 200), ("refuse", 429)):
                if status == 200 and way.endswith("stream"):
                    async with server.listen(*request_for(way, task, "lab")) as listener:
                        await listener.rest()
                    reply = listener.reply
                else:
                    reply = await server.post(*request_for(way, task, "lab"))
                assert reply.status == status, way
                assert {name: reply.headers.get(name) for name in TOLD} == TOLD, (way, task)
                assert not KEPT.items() & reply.headers.items(), way
                assert reply.headers.get("retry-after") == (None if status == 200 else LATER)
                assert reply.headers["x-request-id"].startswith("req_")  # ours

    run_scenario(scenario, tmp_path, model, protocol=protocol, hold=30)


@pytest.mark.requirement("J1")
def test_what_is_left_of_requests_is_told_once_though_the_provider_tells_its_own(tmp_path: Path):
    """OpenAI tells it with every answer. Two values of one name are joined by most clients, and are no number then."""

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return (Headers({"X-RateLimit-Limit-Requests": "5"}), Say("Hello."), Finish())

    async def scenario(server: LiveServer) -> None:
        path, body = request_for(WAYS[0], "go", "lab")
        async with server.client() as client:
            await client.send("POST", path, body=encoded(body))
            head = (await client.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        told = [line for line in head.split("\r\n") if line.startswith("x-ratelimit-limit-requests:")]
        assert told == ["x-ratelimit-limit-requests: 1200"]

    run_scenario(scenario, tmp_path, model)
