"""What becomes of a run when its client leaves: what the request says, or else what is usual where it was sent."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from http_stage import Client
from live_scenes import LAST
from live_stage import Stage, door, encoded, eventually, played

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem

POLICY = "x-turnbuckle-on-disconnect"
CHAT = {"model": "agent", "messages": [{"role": "user", "content": "go"}]}
RESPONSE = {"model": "agent", "input": "go"}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "chat stream": ("/v1/chat/completions", {**CHAT, "stream": True}),
    "response": ("/v1/responses", RESPONSE),
    "response stream": ("/v1/responses", {**RESPONSE, "stream": True}),
}
QUICK = "drain = 0\nkeepalive = 0.1\nnoop = 0.1"


def slow_to_start(request: LabRequest) -> Iterable[ScriptItem]:
    return (door(1), Say(LAST), Finish())


async def sent(stage: Stage, stack: AsyncExitStack, what: str, **headers: str) -> Client:
    """A client that waits for the first token."""
    client = await stack.enter_async_context(stage.client())
    path, body = REQUESTS[what]
    readers, asked = len(stage.service.heartbeat), len(stage.lab.requests)
    await client.send(
        "POST", path, body=encoded(body), headers={name.replace("_", "-"): v for name, v in headers.items()}
    )
    await eventually(lambda: len(stage.service.heartbeat) == readers + 1)
    await stage.behind.asked(max(asked, 1))
    return client


async def left(stage: Stage, client: Client) -> None:
    """The client is gone, and the server knows."""
    readers = len(stage.service.heartbeat)
    client.writer.transport.abort()
    await eventually(lambda: len(stage.service.heartbeat) == readers - 1)


async def only_run(stage: Stage) -> dict[str, Any]:
    [run] = (await stage.get("/v1/runs")).json["data"]
    return run


async def outcome(stage: Stage) -> tuple[str, str]:
    """How the only run ended, and what became of the provider's answer. Nobody reads it before its end."""
    await eventually(lambda: stage.lab.requests[0].progress.over)
    view = await stage.ended((await only_run(stage))["id"])
    return view["status"], stage.lab.requests[0].progress.over


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("policy", ["cancel", "0", "0.2"])
@pytest.mark.parametrize("what", REQUESTS)
def test_a_client_that_leaves_before_the_first_token_can_take_its_run_with_it(
    what: str, policy: str, tmp_path: Path
):
    """C7."""

    async def scene(stage: Stage):
        async with AsyncExitStack() as stack:
            client = await sent(stage, stack, what, **{POLICY: policy})
            await left(stage, client)
            return await outcome(stage)

    assert played(scene, tmp_path, slow_to_start) == ("cancelled", "client left")


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("policy", ["detach", "60"])
@pytest.mark.parametrize("what", REQUESTS)
def test_a_run_that_is_to_go_on_goes_on_without_its_client(what: str, policy: str, tmp_path: Path):
    """C7."""

    async def scene(stage: Stage):
        async with AsyncExitStack() as stack:
            client = await sent(stage, stack, what, **{POLICY: policy})
            await left(stage, client)
            between = (await only_run(stage))["status"]
            stage.behind.doors.open(1)
            return between, await outcome(stage)

    assert played(scene, tmp_path, slow_to_start) == ("running", ("completed", "tidy"))


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
        ("response", {}, False),
        ("response stream", {}, False),
    ],
)
def test_what_is_usual_depends_on_whether_the_client_could_come_back(
    what: str, headers: dict[str, str], ends: bool, tmp_path: Path
):
    async def scene(stage: Stage):
        async with AsyncExitStack() as stack:
            client = await sent(stage, stack, what, **headers)
            await left(stage, client)
            if not ends:
                assert (await only_run(stage))["status"] == "running"
                stage.behind.doors.open(1)
            return (await outcome(stage))[0]

    assert played(scene, tmp_path, slow_to_start) == ("cancelled" if ends else "completed")


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("what", ["chat stream", "response"])
def test_whoever_comes_back_in_time_keeps_the_run_alive_for_as_long_as_it_reads(what: str, tmp_path: Path):
    async def scene(stage: Stage):
        async with AsyncExitStack() as stack:
            client = await sent(stage, stack, what, **{POLICY: "1"})
            run = (await only_run(stage))["id"]
            client.writer.transport.abort()
            async with stage.listen(f"/v1/runs/{run}/events") as back:
                await back.until(lambda body: body.count(b"event: heartbeat") >= 12)  # longer than the grace
                status = (await stage.run(run))["status"]
                await left(stage, back.client)
            return status, await outcome(stage)

    assert played(scene, tmp_path, slow_to_start, server=QUICK) == ("running", ("cancelled", "client left"))


@pytest.mark.requirement("F7")
def test_who_merely_looks_on_does_not_keep_a_run_alive_and_sees_its_end(tmp_path: Path):
    async def scene(stage: Stage):
        async with AsyncExitStack() as stack:
            client = await sent(stage, stack, "chat stream")
            run = (await only_run(stage))["id"]
            watcher = asyncio.create_task(stage.events(run))
            await eventually(lambda: len(stage.service.heartbeat) == 2)
            client.writer.transport.abort()
            return (await watcher)[-1].json["outcome"]

    told = played(scene, tmp_path, slow_to_start)
    assert told["kind"] == "cancelled"


@pytest.mark.requirement("F7", "F6")
def test_of_two_clients_with_one_key_the_last_to_leave_ends_the_run(tmp_path: Path):
    async def scene(stage: Stage):
        async with AsyncExitStack() as stack:
            headers = {"idempotency_key": "k", POLICY: "cancel"}
            one, other = [await sent(stage, stack, "chat stream", **headers) for _ in range(2)]
            await left(stage, one)
            between = (await only_run(stage))["status"]
            await left(stage, other)
            return between, await outcome(stage)

    assert played(scene, tmp_path, slow_to_start) == ("running", ("cancelled", "client left"))


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
    async def scene(stage: Stage):
        run = await stage.begin("go", **wish)
        await eventually(lambda: stage.lab.requests and stage.lab.requests[0].progress.over)
        return (await stage.ended(run))["outcome"]["kind"]

    assert played(scene, tmp_path, slow_to_start) == "cancelled"


@pytest.mark.requirement("F7", "F5")
@pytest.mark.parametrize(
    "policy, ends", [("cancel", True), ("0.2", True), ("60", False), ("detach", False), ("", False)]
)
def test_the_readers_of_a_run_are_its_clients(policy: str, ends: bool, tmp_path: Path):
    async def scene(stage: Stage):
        run = await stage.begin("go", **({"on_disconnect": policy} if policy else {}))
        async with stage.listen(f"/v1/runs/{run}/events") as reader:
            await stage.behind.asked(1)
            await left(stage, reader.client)
        if not ends:
            assert (await stage.run(run))["status"] == "running"
            stage.behind.doors.open(1)
        return (await outcome(stage))[0]

    assert played(scene, tmp_path, slow_to_start) == ("cancelled" if ends else "completed")


@pytest.mark.requirement("F7", "C7")
def test_a_run_that_nobody_returns_to_ends_with_the_time_of_its_turn(tmp_path: Path):
    """C8."""

    async def scene(stage: Stage):
        async with AsyncExitStack() as stack:
            client = await sent(stage, stack, "chat", **{POLICY: "detach"})
            await left(stage, client)
            await eventually(lambda: stage.lab.requests[0].progress.over)
            return (await stage.ended((await only_run(stage))["id"]))["outcome"]

    told = played(scene, tmp_path, slow_to_start, more="[turn]\nmax_seconds = 0.5")
    assert (told["kind"], told["failure"]["kind"]) == ("failed", "budget")


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("policy", ["later", "-1", "inf", "1e99", "1 s"])
def test_a_policy_that_there_is_not_is_refused_and_nothing_begins(policy: str, tmp_path: Path):
    async def scene(stage: Stage):
        requests = [*REQUESTS.values(), ("/v1/runs", {"input": "go"})]
        replies = [await stage.post(path, body, **{POLICY: policy}) for path, body in requests]
        return replies, (await stage.get("/v1/runs")).json["data"]

    replies, runs = played(scene, tmp_path, slow_to_start)
    assert {(reply.status, reply.error["param"]) for reply in replies} == {
        (400, "X-Turnbuckle-On-Disconnect")
    }
    assert runs == []
