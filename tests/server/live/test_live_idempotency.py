"""One key, one run: however often, however soon and after whatever a request is sent again."""

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.http.memory_server import Reply
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.face_requests import WAYS, Request, error_code, request_for
from support.server.live_server import (
    ApiClient,
    LiveServer,
    eventually,
    gate,
    lab_provider,
    run,
    run_scenario,
    serve_live,
)
from support.server.scripted_models import LAST, STALL, answer, journey, model_by_phase

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem, Status

REQUESTS: dict[str, Request] = {
    **{way: request_for(way, "whole") for way in WAYS},
    "background": request_for("response", "whole", background=True),
    "run": ("/v1/runs", {"input": "whole"}),
}
ANSWERED = [name for name in REQUESTS if name not in ("background", "run")]
COPIES = 20


class Told(Reply, frozen=True):
    """An answer, streamed or not, with its whole body."""


async def send(live: ApiClient, what: str, key: str, **headers: str) -> Told:
    path, body = REQUESTS[what]
    if not body.get("stream"):
        reply = await live.post(path, body, idempotency_key=key, **headers)
        return Told(reply.status, reply.headers, reply.body)
    async with live.listen(path, body, idempotency_key=key, **headers) as listener:
        await listener.rest()
        return Told(200, listener.reply.headers, listener.body)


def behind_a_door(request: LabRequest) -> Iterable[ScriptItem]:
    return (gate(1), Say(LAST), Finish())


async def runs_of(live: ApiClient) -> list[str]:
    return [one["id"] for one in (await live.get("/v1/runs")).json["data"]]


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("what", REQUESTS)
def test_twenty_copies_of_a_request_at_once_are_one_run_and_all_get_its_answer(what: str, tmp_path: Path):
    """C15."""

    async def scenario(live: LiveServer):
        copies = [asyncio.create_task(send(live, what, "k")) for _ in range(COPIES)]
        await live.behind.asked(1)
        if what in ANSWERED:
            await eventually(lambda: len(live.service.heartbeat) == COPIES)
        else:
            await asyncio.wait(copies)
        live.behind.gates.open(1)
        replies = await asyncio.gather(*copies)
        await live.ended(replies[0].headers["x-turnbuckle-run"])
        return replies, await runs_of(live), len(live.lab.requests)

    replies, runs, asked = run_scenario(scenario, tmp_path, behind_a_door)
    assert len(runs) == asked == 1
    assert {reply.headers["x-turnbuckle-run"] for reply in replies} == set(runs)
    assert {reply.status for reply in replies} == {202 if what == "run" else 200}
    assert [reply.headers.get("idempotency-replayed") for reply in replies].count("true") == COPIES - 1
    if what in ANSWERED:
        assert len({reply.body for reply in replies}) == 1
        assert b"A turnbuckle" in replies[0].body


@pytest.mark.requirement("F6", "G6")
def test_after_a_restart_the_same_request_gets_the_same_answer_and_nothing_is_done_again(tmp_path: Path):
    async def main():
        async with lab_provider(journey) as behind:
            async with serve_live(tmp_path, behind, gap=STALL) as live:
                before = {what: await send(live, what, what) for what in REQUESTS}
                for reply in before.values():
                    await live.ended(reply.headers["x-turnbuckle-run"])
                asked = len(live.lab.requests)
            async with serve_live(tmp_path, behind, gap=STALL) as live:
                after = {what: await send(live, what, what) for what in REQUESTS}
                return before, after, asked, len(live.lab.requests)

    before, after, asked, asked_later = run(main())
    assert asked == asked_later
    for what in REQUESTS:
        assert after[what].headers["x-turnbuckle-run"] == before[what].headers["x-turnbuckle-run"]
        assert after[what].headers["idempotency-replayed"] == "true"
        assert after[what].status == before[what].status
    for what in ANSWERED:
        assert after[what].body == before[what].body
    assert after["background"].json["status"] == "completed"


@pytest.mark.process
@pytest.mark.requirement("F6", "E2")
def test_a_server_that_dies_at_every_point_between_a_key_and_its_run_begins_that_run_once(tmp_path: Path):
    """C15. Behind the key, before the run, and behind its first fact."""
    points = ("after-append:once:1", "before-append:RunStarted:1", "after-append:RunStarted:1")

    async def scenario(server: ServerProcess):
        for point in points:
            await server.start(TURNBUCKLE_FAULT=point)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await send(server, "chat", "k")
            await server.wait()
        await server.start()
        replies = await asyncio.gather(*(send(server, "chat", "k") for _ in range(5)))
        return replies, await runs_of(server), len(server.behind.lab.requests), await server.stop()

    replies, runs, asked, code = run_process_scenario(scenario, tmp_path, model_by_phase())
    assert code == 0
    assert asked == 1
    assert len(runs) == 1
    assert {(reply.status, reply.headers["x-turnbuckle-run"]) for reply in replies} == {(200, runs[0])}
    assert {reply.json["choices"][0]["message"]["content"] for reply in replies} == {LAST}


@pytest.mark.requirement("F6", "F9")
@pytest.mark.parametrize("what", REQUESTS)
def test_at_the_limit_a_copy_still_gets_its_run_and_a_refused_key_is_not_used_up(what: str, tmp_path: Path):
    """C15."""

    async def scenario(live: LiveServer):
        first = asyncio.create_task(send(live, what, "one"))
        await live.behind.asked(1)
        path, body = REQUESTS[what]
        refused = await live.post(path, body, idempotency_key="two")
        copy = asyncio.create_task(send(live, what, "one"))
        if what in ANSWERED:
            await eventually(lambda: len(live.service.heartbeat) == 2)
        else:
            await copy
        live.behind.gates.open(1)
        one, again = await first, await copy
        await live.ended(one.headers["x-turnbuckle-run"])
        await eventually(lambda: not len(live.service.slots))
        later = await send(live, what, "two")
        return one, refused, again, later, await runs_of(live)

    one, refused, again, later, runs = run_scenario(
        scenario, tmp_path, behind_a_door, server="max_runs_per_owner = 1\ndrain = 0"
    )
    assert (refused.status, error_code(refused)) == (429, "too_many_runs")
    assert int(refused.headers["retry-after"]) > 0
    assert refused.headers["x-should-retry"] == "true"
    assert again.headers["x-turnbuckle-run"] == one.headers["x-turnbuckle-run"]
    if what == "run":  # by then it is known which route was asked
        assert {**again.json, "route": ""} == {**one.json, "route": ""}
    else:
        assert again.body == one.body or what == "background"
    assert later.status == one.status
    assert "idempotency-replayed" not in later.headers
    assert len(runs) == 2


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("what", REQUESTS)
def test_a_key_that_comes_with_another_request_is_refused_and_does_nothing(what: str, tmp_path: Path):
    async def scenario(live: LiveServer):
        one = await send(live, what, "k")
        path, body = REQUESTS[what]
        named = {**body, "model": "lab"}
        others = [
            await live.post(path, named, idempotency_key="k"),
            await live.post(path, body, idempotency_key="k", x_turnbuckle_on_disconnect="detach"),
            await live.post("/v1/runs", {"input": "other"}, idempotency_key="k"),
        ]
        again = await send(live, what, "k")
        return one, others, again, await runs_of(live)

    one, others, again, runs = run_scenario(scenario, tmp_path, answer)
    assert {(reply.status, error_code(reply)) for reply in others} == {(409, "idempotency_key_reused")}
    assert {reply.headers["x-should-retry"] for reply in others} == {"false"}
    assert runs == [one.headers["x-turnbuckle-run"]]
    assert again.headers["x-turnbuckle-run"] == one.headers["x-turnbuckle-run"]


@pytest.mark.requirement("F6", "F9")
@pytest.mark.parametrize("what", ["chat", "response stream", "messages", "run"])
def test_the_same_key_of_another_owner_is_another_key(what: str, tmp_path: Path):
    async def scenario(live: LiveServer):
        ann, bob = live.owner("ann"), live.owner("bob")
        mine, yours = await send(ann, what, "k"), await send(bob, what, "k")
        return mine, yours, await runs_of(ann), await runs_of(bob)

    mine, yours, of_ann, of_bob = run_scenario(scenario, tmp_path, answer)
    assert [mine.headers["x-turnbuckle-run"]] == of_ann
    assert [yours.headers["x-turnbuckle-run"]] == of_bob
    assert of_ann != of_bob
    assert "idempotency-replayed" not in yours.headers


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("what", ["run", "response", "chat", "messages"])
def test_what_was_deleted_does_not_begin_again_under_its_key(what: str, tmp_path: Path):
    async def scenario(live: LiveServer):
        one = await send(live, what, "k")
        run = one.headers["x-turnbuckle-run"]
        await live.ended(run)
        path = f"/v1/responses/resp_{run}" if what == "response" else f"/v1/runs/{run}"
        deleted = await live.ask("DELETE", path)
        asked = len(live.lab.requests)
        path, body = REQUESTS[what]
        again = await live.post(path, body, idempotency_key="k")
        return deleted, again, await runs_of(live), asked, len(live.lab.requests)

    deleted, again, runs, asked, asked_later = run_scenario(scenario, tmp_path, answer)
    assert deleted.json["deleted"] is True
    assert again.status == 404
    assert runs == []
    assert asked == asked_later


def told(reply: Reply) -> str:
    """An answer without the id of the request, which an error of Messages names."""
    return re.sub(r"req_[0-9a-f]+", "", reply.body.decode())


@pytest.mark.requirement("F6")
def test_a_request_that_failed_is_answered_the_same_again_and_not_tried_again(tmp_path: Path):
    def broken(request: LabRequest) -> Iterable[ScriptItem]:
        return (Status(401, "no such key"),)

    async def scenario(live: LiveServer):
        replies = [await send(live, what, what) for what in ANSWERED for _ in range(2)]
        return replies, len(live.lab.requests)

    replies, asked = run_scenario(scenario, tmp_path, broken)
    assert asked == len(ANSWERED)
    for one, again in zip(replies[::2], replies[1::2], strict=True):
        assert (one.status, told(one)) == (again.status, told(again))
    assert [reply.status for reply in replies[::2]] == [502, 200] * 3


@pytest.mark.requirement("F6")
@pytest.mark.parametrize("key", ["x" * 256, "\x07", "\xe4"])
def test_a_key_that_is_none_is_refused(key: str, tmp_path: Path):
    async def scenario(live: LiveServer):
        return [await live.post(*REQUESTS[what], idempotency_key=key) for what in REQUESTS], await runs_of(
            live
        )

    replies, runs = run_scenario(scenario, tmp_path, answer)
    assert {reply.status for reply in replies} == {400}
    assert runs == []


@pytest.mark.requirement("F6")
def test_a_request_that_can_not_be_read_does_not_use_up_its_key(tmp_path: Path):
    async def scenario(live: LiveServer):
        wrong = await live.post("/v1/chat/completions", {"model": "agent"}, idempotency_key="k")
        unknown = await live.post(*request_for("chat", "whole", "nobody"), idempotency_key="k")
        return wrong, unknown, await send(live, "chat", "k")

    wrong, unknown, right = run_scenario(scenario, tmp_path, answer)
    assert (wrong.status, unknown.status, right.status) == (400, 404, 200)
