"""What becomes of a run when its client leaves: what the request says, or else what is usual where it was sent."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.http.memory_server import Client
from support.server.face_requests import WAYS, error_code, request_for
from support.server.live_server import LiveServer, asked_until, encoded, eventually, gate, run_scenario
from support.server.scripted_models import LAST

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem

POLICY = "x-turnbuckle-on-disconnect"
REQUESTS = {way: request_for(way) for way in WAYS}
QUICK = "drain = 0\nkeepalive = 0.1\nnoop = 0.1"


def slow_to_start(request: LabRequest) -> Iterable[ScriptItem]:
    return (gate(1), Say(LAST), Finish())


async def sent(server: LiveServer, stack: AsyncExitStack, what: str, **headers: str) -> Client:
    """A client that waits for the first token."""
    client = await stack.enter_async_context(server.client())
    path, body = REQUESTS[what]
    readers, asked = len(server.service.heartbeat), len(server.lab.requests)
    await client.send(
        "POST", path, body=encoded(body), headers={name.replace("_", "-"): v for name, v in headers.items()}
    )
    await eventually(lambda: len(server.service.heartbeat) == readers + 1)
    await server.behind.asked(max(asked, 1))
    return client


async def left(server: LiveServer, client: Client) -> None:
    """The client is gone, and the server knows."""
    readers = len(server.service.heartbeat)
    client.writer.transport.abort()
    await eventually(lambda: len(server.service.heartbeat) == readers - 1)


async def only_run(server: LiveServer) -> dict[str, Any]:
    [run] = (await server.get("/v1/runs")).json["data"]
    return run


async def outcome(server: LiveServer) -> tuple[str, str]:
    """How the only run ended, and what became of the provider's answer. Nobody reads it before its end."""
    await eventually(lambda: server.lab.requests[0].progress.over)
    view = await server.ended((await only_run(server))["id"])
    return view["status"], server.lab.requests[0].progress.over


@pytest.mark.requirement("F7")
@pytest.mark.parametrize(
    "what, policy",
    [
        *((way, "cancel") for way in WAYS),
        ("chat", "0"),
        ("response stream", "0.2"),
        ("messages stream", "0.2"),
    ],
)
def test_a_client_that_leaves_before_the_first_token_can_take_its_run_with_it(
    what: str, policy: str, tmp_path: Path
):
    """C7."""

    async def scenario(server: LiveServer):
        async with AsyncExitStack() as stack:
            client = await sent(server, stack, what, **{POLICY: policy})
            await left(server, client)
            return await outcome(server)

    assert run_scenario(scenario, tmp_path, slow_to_start) == ("cancelled", "client left")


@pytest.mark.requirement("F7")
@pytest.mark.parametrize(
    "what, policy", [*((way, "detach") for way in WAYS), ("chat", "60"), ("messages", "60")]
)
def test_a_run_that_is_to_go_on_goes_on_without_its_client(what: str, policy: str, tmp_path: Path):
    """C7."""

    async def scenario(server: LiveServer):
        async with AsyncExitStack() as stack:
            client = await sent(server, stack, what, **{POLICY: policy})
            await left(server, client)
            between = (await only_run(server))["status"]
            server.behind.gates.open(1)
            return between, await outcome(server)

    assert run_scenario(scenario, tmp_path, slow_to_start) == ("running", ("completed", "tidy"))


@pytest.mark.requirement("F7")
@pytest.mark.parametrize(
    "what, headers, ends",
    [
        ("chat", {}, True),
        ("chat stream", {}, True),
        ("chat", {"idempotency_key": "k"}, False),
        ("chat stream", {"idempotency_key": "k"}, False),
        ("chat", {"x_turnbuckle_session": "s"}, False),
        ("chat stream", {"x_turnbuckle_session": "s"}, False),
        ("messages", {}, True),
        ("messages stream", {}, True),
        ("messages", {"x_turnbuckle_session": "s"}, False),
        ("messages stream", {"idempotency_key": "k"}, False),
        ("response", {}, False),
        ("response stream", {}, False),
    ],
)
def test_what_is_usual_depends_on_whether_the_client_could_come_back(
    what: str, headers: dict[str, str], ends: bool, tmp_path: Path
):
    async def scenario(server: LiveServer):
        async with AsyncExitStack() as stack:
            client = await sent(server, stack, what, **headers)
            await left(server, client)
            if not ends:
                assert (await only_run(server))["status"] == "running"
                server.behind.gates.open(1)
            return (await outcome(server))[0]

    assert run_scenario(scenario, tmp_path, slow_to_start) == ("cancelled" if ends else "completed")


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("what", ["chat stream", "response"])
def test_whoever_comes_back_in_time_keeps_the_run_alive_for_as_long_as_it_reads(what: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        async with AsyncExitStack() as stack:
            client = await sent(server, stack, what, **{POLICY: "1"})
            run = (await only_run(server))["id"]
            client.writer.transport.abort()
            async with server.listen(f"/v1/runs/{run}/events") as back:
                await back.until(lambda body: body.count(b"event: heartbeat") >= 12)  # longer than the grace
                status = (await server.run(run))["status"]
                await left(server, back.client)
            return status, await outcome(server)

    assert run_scenario(scenario, tmp_path, slow_to_start, server=QUICK) == (
        "running",
        ("cancelled", "client left"),
    )


@pytest.mark.requirement("F7")
def test_who_merely_looks_on_does_not_keep_a_run_alive_and_sees_its_end(tmp_path: Path):
    async def scenario(server: LiveServer):
        async with AsyncExitStack() as stack:
            client = await sent(server, stack, "chat stream")
            run = (await only_run(server))["id"]
            watcher = asyncio.create_task(server.events(run))
            await eventually(lambda: len(server.service.heartbeat) == 2)
            client.writer.transport.abort()
            return (await watcher)[-1].json["outcome"]

    told = run_scenario(scenario, tmp_path, slow_to_start)
    assert told["kind"] == "cancelled"


@pytest.mark.requirement("F7", "F6")
def test_of_two_clients_with_one_key_the_last_to_leave_ends_the_run(tmp_path: Path):
    async def scenario(server: LiveServer):
        async with AsyncExitStack() as stack:
            headers = {"idempotency_key": "k", POLICY: "cancel"}
            one, other = [await sent(server, stack, "chat stream", **headers) for _ in range(2)]
            await left(server, one)
            between = (await only_run(server))["status"]
            await left(server, other)
            return between, await outcome(server)

    assert run_scenario(scenario, tmp_path, slow_to_start) == ("running", ("cancelled", "client left"))


@pytest.mark.requirement("F7", "F5")
@pytest.mark.parametrize(
    "wish",
    [
        {"on_disconnect": "0.3"},
        {"headers": {POLICY: "0.3"}},
        {"on_disconnect": "60", "headers": {POLICY: "0.3"}},
    ],
)
def test_a_run_that_nobody_comes_to_read_ends_when_its_request_said_so(wish: dict[str, Any], tmp_path: Path):
    async def scenario(server: LiveServer):
        run = await server.begin("go", **wish)
        # Nobody is to read it, so it is only looked at.
        ended = await asked_until(lambda seen: seen["outcome"], server.run, run)
        # On a machine that is very busy the run may be over before its model was asked.
        await eventually(lambda: all(asked.progress.over for asked in server.lab.requests))
        return ended["outcome"]["kind"]

    assert run_scenario(scenario, tmp_path, slow_to_start) == "cancelled"


@pytest.mark.requirement("F7", "F5")
@pytest.mark.parametrize(
    "policy, ends", [("cancel", True), ("0.2", True), ("60", False), ("detach", False), ("", False)]
)
def test_the_readers_of_a_run_are_its_clients(policy: str, ends: bool, tmp_path: Path):
    async def scenario(server: LiveServer):
        run = await server.begin("go", **({"on_disconnect": policy} if policy else {}))
        async with server.listen(f"/v1/runs/{run}/events") as reader:
            await server.behind.asked(1)
            await left(server, reader.client)
        if not ends:
            assert (await server.run(run))["status"] == "running"
            server.behind.gates.open(1)
        return (await outcome(server))[0]

    assert run_scenario(scenario, tmp_path, slow_to_start) == ("cancelled" if ends else "completed")


@pytest.mark.requirement("F7", "C7")
def test_a_run_that_nobody_returns_to_ends_with_the_time_of_its_turn(tmp_path: Path):
    """C8."""

    async def scenario(server: LiveServer):
        async with AsyncExitStack() as stack:
            client = await sent(server, stack, "chat", **{POLICY: "detach"})
            await left(server, client)
            await eventually(lambda: server.lab.requests[0].progress.over)
            return (await server.ended((await only_run(server))["id"]))["outcome"]

    told = run_scenario(scenario, tmp_path, slow_to_start, more="[turn]\nmax_seconds = 2")
    assert (told["kind"], told["failure"]["kind"]) == ("failed", "budget")


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("policy", ["later", "-1", "inf", "1e99", "1 s"])
def test_a_policy_that_there_is_not_is_refused_and_nothing_begins(policy: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        requests = [*REQUESTS.values(), ("/v1/runs", {"input": "go"})]
        replies = [await server.post(path, body, **{POLICY: policy}) for path, body in requests]
        return replies, (await server.get("/v1/runs")).json["data"]

    replies, runs = run_scenario(scenario, tmp_path, slow_to_start)
    assert {(reply.status, error_code(reply)) for reply in replies} == {(400, "invalid_value")}
    assert all("X-Turnbuckle-On-Disconnect" in reply.error["message"] for reply in replies)
    assert runs == []
