"""What a run asks of people: any client sees it and any may answer it, once, whatever happened to the server between."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.live_server import (
    ApiClient,
    LiveServer,
    eventually,
    lab_provider,
    run,
    run_scenario,
    serve_live,
)
from support.server.scripted_models import CONSENT, LAST, model_by_phase

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

ASK = 'approval = { shell = "ask" }'
CHAT = {"model": "agent", "messages": [{"role": "user", "content": "consent"}], "stream": True}


def done(folder: Path) -> list[str]:
    """How often the command ran."""
    file = folder / "work" / "consent.txt"
    return file.read_text().splitlines() if file.exists() else []


async def pending(server: ApiClient, run: str) -> dict[str, Any]:
    """Wait until the run asks, and give what it asks."""
    async with server.listen(f"/v1/runs/{run}/events") as reader:
        await reader.until(b"event: approval_asked")
    [one] = (await server.get(f"/v1/runs/{run}/approvals")).json["data"]
    return one


async def answer(server: ApiClient, asked: dict[str, Any], decision: str, text: str = ""):
    return await server.post(
        f"/v1/runs/{asked['run']}/approvals/{asked['id']}", {"decision": decision, "text": text}
    )


def told_to_model(live: LiveServer) -> str:
    """What the provider was told of the call, in its last request."""
    results = [item["content"] for item in live.lab.requests[-1].body["messages"] if item["role"] == "tool"]
    return "\n".join(results)


@pytest.mark.requirement("D8", "F5", "F3")
def test_what_is_asked_is_seen_everywhere_and_another_client_answers_it(tmp_path: Path):
    """C22, X5."""

    async def scenario(live: LiveServer):
        async with live.listen("/v1/chat/completions", CHAT) as chat:
            asked = await pending(live, chat.run)
            await chat.until(b'"status":"asked"')
            await chat.until(b"Waiting for consent")
            view = await live.run(chat.run)
            everywhere = (await live.get("/v1/approvals")).json["data"]
            [line] = (await live.get("/v1/runs")).json["data"]
            assert line["status"] == "waiting_for_approval"
            answered = await answer(live, asked, "allow")
            frames = await chat.rest()
        events = await live.events(chat.run)
        after = (await live.get(f"/v1/runs/{chat.run}/approvals")).json["data"]
        nothing = (await live.get("/v1/approvals")).json["data"]
        return asked, view, everywhere, answered, frames, events, after, nothing

    asked, view, everywhere, answered, frames, events, after, nothing = run_scenario(
        scenario, tmp_path, model_by_phase(), tools=ASK
    )
    assert (asked["kind"], asked["tool"], asked["status"]) == ("approval", "shell", "pending")
    assert asked["arguments"] == {"command": CONSENT}
    assert view["status"] == "waiting_for_approval"
    assert view["approvals"] == everywhere == [asked]
    assert view["waiting_on"]["kind"] == "approval"
    [event] = [frame.json for frame in events if frame.event == "approval_asked"]
    assert (event["approval"], event["arguments"]) == (asked["id"], asked["arguments"])
    assert answered.status == 200
    assert after == [answered.json]
    assert (answered.json["status"], answered.json["answered_by"]) == ("allowed", "local")
    assert nothing == []
    told = [frame.json["turnbuckle"] for frame in frames[:-1] if "turnbuckle" in frame.json]
    approvals = [one["approval"] for one in told if "approval" in one]
    assert [(one["id"], one["status"]) for one in approvals] == [
        (asked["id"], "asked"),
        (asked["id"], "allowed"),
    ]
    content = "".join(frame.json["choices"][0]["delta"].get("content") or "" for frame in frames[:-1])
    assert content == LAST
    assert done(tmp_path) == ["done"]


@pytest.mark.requirement("D8", "F5")
def test_what_is_denied_does_not_run_and_the_model_is_told_why(tmp_path: Path):
    async def scenario(live: LiveServer):
        name = await live.begin("consent")
        answered = await answer(live, await pending(live, name), "deny", "use the other file")
        view = await live.ended(name)
        return answered.json, view, told_to_model(live), [frame.event for frame in await live.events(name)]

    answered, view, told, kinds = run_scenario(scenario, tmp_path, model_by_phase(), tools=ASK)
    assert answered["status"] == "denied"
    assert (view["status"], view["output"]) == ("completed", LAST)
    assert "Not allowed, and not run" in told
    assert "use the other file" in told
    assert "tool_started" not in kinds
    assert done(tmp_path) == []


@pytest.mark.requirement("D8", "G6")
@pytest.mark.parametrize("decision, runs", [("allow", ["done"]), ("deny", [])])
def test_what_is_asked_outlives_a_restart_and_is_answered_behind_it(
    decision: str, runs: list[str], tmp_path: Path
):
    async def main():
        async with lab_provider(model_by_phase()) as behind:
            async with serve_live(tmp_path, behind, tools=ASK, server="drain = 0") as live:
                name = await live.begin("consent")
                before = await pending(live, name)
            async with serve_live(tmp_path, behind, tools=ASK, server="drain = 0") as live:
                after = await pending(live, name)
                everywhere = (await live.get("/v1/approvals")).json["data"]
                answered = await answer(live, after, decision)
                view = await live.ended(name)
                kinds = [frame.event for frame in await live.events(name)]
                return before, after, everywhere, answered, view, kinds

    before, after, everywhere, answered, view, kinds = run(main())
    assert before == after
    assert everywhere == [after]
    assert answered.status == 200
    assert view["status"] == "completed"
    assert kinds.count("approval_asked") == kinds.count("approval_answered") == kinds.count("run_left") == 1
    assert done(tmp_path) == runs


@pytest.mark.process
@pytest.mark.requirement("D8", "E2", "G6")
def test_what_is_asked_and_what_was_answered_outlive_a_kill(tmp_path: Path):
    """S12, X8. Killed while it waits, then right behind the answer, before anything of it was done."""

    async def scenario(server: ServerProcess):
        await server.start()
        name = await server.begin("consent")
        before = await pending(server, name)
        await server.kill()
        await server.start(TURNBUCKLE_FAULT="after-append:ApprovalAnswered:1")
        after = await pending(server, name)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await answer(server, after, "allow")
        await server.wait()
        between = done(tmp_path)
        await server.start()
        view = await server.ended(name)
        again = await answer(server, after, "deny")
        kinds = [frame.event for frame in await server.events(name)]
        return before, after, between, view, again, kinds, await server.stop()

    before, after, between, view, again, kinds, code = run_process_scenario(
        scenario, tmp_path, model_by_phase(), tools=ASK
    )
    assert code == 0
    assert before == after
    assert between == []
    assert (view["status"], view["output"]) == ("completed", LAST)
    assert (again.status, again.error["code"]) == (409, "approval_settled")
    assert (
        kinds.count("approval_answered") == kinds.count("tool_started") == kinds.count("tool_finished") == 1
    )
    assert done(tmp_path) == ["done"]


@pytest.mark.realtime
@pytest.mark.requirement("D8")
def test_what_nobody_answers_expires_and_nothing_runs(tmp_path: Path):
    """X6."""

    async def scenario(live: LiveServer):
        name = await live.begin("consent")
        asked = await pending(live, name)
        view = await live.ended(name)
        late = await answer(live, asked, "allow")
        [after] = (await live.get(f"/v1/runs/{name}/approvals")).json["data"]
        return asked, view, late, after, told_to_model(live)

    asked, view, late, after, told = run_scenario(
        scenario, tmp_path, model_by_phase(), tools=f"{ASK}\nanswer_seconds = 1.5"
    )
    assert asked["expires_at"] > asked["asked_at"]
    assert (view["status"], view["approvals"]) == ("completed", [])
    assert after["status"] == "expired"
    assert (late.status, late.error["code"]) == (409, "approval_settled")
    assert "expired" in late.error["message"]
    assert "Not allowed" in told
    assert done(tmp_path) == []


@pytest.mark.requirement("D8", "F5")
def test_of_many_answers_at_once_one_counts_and_later_ones_change_nothing(tmp_path: Path):
    async def scenario(live: LiveServer):
        name = await live.begin("consent")
        asked = await pending(live, name)
        at_once = await asyncio.gather(*(answer(live, asked, ("allow", "deny")[n % 2]) for n in range(10)))
        await live.ended(name)
        later = await answer(live, asked, "deny")
        [after] = (await live.get(f"/v1/runs/{name}/approvals")).json["data"]
        kinds = [frame.event for frame in await live.events(name)]
        return at_once, later, after, kinds

    at_once, later, after, kinds = run_scenario(scenario, tmp_path, model_by_phase(), tools=ASK)
    assert sorted(reply.status for reply in at_once) == [200, *[409] * 9]
    [counted] = [reply.json for reply in at_once if reply.status == 200]
    assert counted == after
    assert (later.status, later.error["code"]) == (409, "approval_settled")
    assert later.headers["x-should-retry"] == "false"
    assert kinds.count("approval_answered") == 1
    assert done(tmp_path) == (["done"] if after["status"] == "allowed" else [])


def curious(request: LabRequest) -> Iterable[ScriptItem]:
    if not results_brought(request):
        return (Call("ask_user", {"question": "Red or blue?"}), Finish())
    return (Say(LAST), Finish())


@pytest.mark.requirement("D8", "F5")
def test_a_question_is_answered_in_words_and_only_in_words(tmp_path: Path):
    async def scenario(live: LiveServer):
        name = await live.begin("ask me")
        asked = await pending(live, name)
        wrong = [await answer(live, asked, decision) for decision in ("allow", "deny", "perhaps")]
        right = await answer(live, asked, "answer", "Red.")
        view = await live.ended(name)
        return asked, wrong, right, view, told_to_model(live)

    asked, wrong, right, view, told = run_scenario(scenario, tmp_path, curious)
    assert (asked["kind"], asked["question"]) == ("question", "Red or blue?")
    assert [reply.status for reply in wrong] == [400] * 3
    assert {reply.error["param"] for reply in wrong} == {"decision"}
    assert (right.status, right.json["status"]) == (200, "answered")
    assert view["status"] == "completed"
    assert told == "Red."


@pytest.mark.requirement("D8", "F5")
def test_a_call_is_not_answered_in_words_and_what_was_not_asked_is_unknown(tmp_path: Path):
    async def scenario(live: LiveServer):
        name = await live.begin("consent")
        asked = await pending(live, name)
        wrong = await answer(live, asked, "answer", "yes")
        unknown = await answer(live, {**asked, "id": "nothing"}, "allow")
        stranger = await answer(live, {**asked, "run": "r20990101-000000-ffffff"}, "allow")
        still = (await live.run(name))["status"]
        await live.post(f"/v1/runs/{name}/stop")
        await eventually(lambda: not len(live.service.slots))
        return wrong, unknown, stranger, still

    wrong, unknown, stranger, still = run_scenario(scenario, tmp_path, model_by_phase(), tools=ASK)
    assert (wrong.status, wrong.error["param"]) == (400, "decision")
    assert (unknown.status, unknown.error["code"]) == (404, "approval_not_found")
    assert (stranger.status, stranger.error["code"]) == (404, "run_not_found")
    assert still == "waiting_for_approval"
    assert done(tmp_path) == []


@pytest.mark.requirement("D8", "F9")
def test_everybody_sees_only_what_waits_for_themselves(tmp_path: Path):
    async def scenario(live: LiveServer):
        ann, bob = live.owner("ann"), live.owner("bob")
        mine, yours = await ann.begin("consent 1"), await bob.begin("consent 2")
        of_ann, of_bob = await pending(ann, mine), await pending(bob, yours)
        lists = [(await one.get("/v1/approvals")).json["data"] for one in (ann, bob)]
        foreign = await answer(ann, of_bob, "allow")
        own = await answer(ann, of_ann, "allow")
        await ann.ended(mine)
        return of_ann, of_bob, lists, foreign, own, ann.id

    of_ann, of_bob, lists, foreign, own, key = run_scenario(scenario, tmp_path, model_by_phase(), tools=ASK)
    assert lists == [[of_ann], [of_bob]]
    assert foreign.status == 404
    assert own.json["answered_by"] == key
    assert done(tmp_path) == ["done"]
