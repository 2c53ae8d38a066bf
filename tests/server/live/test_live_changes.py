"""A person sees a change before it is made and after, allows a kind of call for good, and undoes a file, once."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import ApiClient, LiveServer, run_scenario

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem


def writer(request: LabRequest) -> Iterable[ScriptItem]:
    """Writes, then runs a command, then is done."""
    done = results_brought(request)
    if done == 0:
        return (Call("write_file", {"path": "a.txt", "content": "one\nnew\n"}), Finish())
    if done == 1:
        return (Call("shell", {"command": "true"}), Finish())
    return (Say("Done."), Finish())


async def asked(server: ApiClient, run: str, seen: int = 0) -> dict[str, Any]:
    async with server.listen(f"/v1/runs/{run}/events?told=true") as reader:
        await reader.until(lambda body: body.count(b"event: approval_asked") > seen)
    return (await server.get(f"/v1/runs/{run}/approvals")).json["data"][seen]


async def answer(server: ApiClient, one: dict[str, Any], decision: str, text: str = "") -> dict[str, Any]:
    path = f"/v1/runs/{one['run']}/approvals/{one['id']}"
    reply = await server.post(path, {"decision": decision, "text": text})
    assert reply.status == 200, reply.body
    return reply.json


@pytest.mark.requirement("H9", "H10")
def test_a_person_sees_the_change_allows_it_for_good_and_undoes_it_once(tmp_path: Path):
    async def scenario(live: LiveServer) -> None:
        (live.work / "a.txt").write_text("one\ntwo\n")
        run = await live.begin("Change a.txt", ask_first=True)
        first = await asked(live, run)
        assert (first["title"], first["tool"]) == ("Change a.txt", "write_file")
        assert "git work tree" in first["why"]
        assert first["changes"][0]["diff"] == "@@ -1,2 +1,2 @@\n one\n-two\n+new"
        assert first["always"] == ['"write_file" = "allow"']
        await answer(live, first, "allow")
        second = await asked(live, run, 1)
        assert (second["command"], second["always"]) == ("true", ['"shell:true" = "allow"'])
        await answer(live, second, "allow_always")
        ended = await live.ended(run)
        assert ended["status"] == "completed"
        expected = {"path": "a.txt", "kind": "changed", "calls": 1, "can_undo": True, "undone_at": None}
        assert ended["changes"] == [expected]
        [diff] = (await live.get(f"/v1/runs/{run}/changes")).json["data"]
        assert (diff["added"], diff["removed"]) == (1, 1)
        undone = await live.post(f"/v1/runs/{run}/changes/undo", {"path": "a.txt"})
        assert undone.status == 200
        assert (live.work / "a.txt").read_text() == "one\ntwo\n"
        again = await live.post(f"/v1/runs/{run}/changes/undo", {"path": "a.txt"})
        assert (again.status, again.json["error"]["code"]) == (409, "file_not_as_left")
        assert (await live.run(run))["changes"][0]["undone_at"]
        unknown = await live.post(f"/v1/runs/{run}/changes/undo", {"path": "b.txt"})
        assert unknown.status == 404
        # The command was allowed for good: the next run does not ask about it.
        other = await live.begin("Change it again", ask_first=True)
        await answer(live, await asked(live, other), "allow")
        assert (await live.ended(other))["status"] == "completed"
        assert len((await live.get(f"/v1/runs/{other}/approvals")).json["data"]) == 1

    run_scenario(scenario, tmp_path, writer)
    assert '"true"' in (tmp_path / "data" / "allowed.json").read_text()


@pytest.mark.requirement("H10")
def test_a_client_that_says_nothing_of_a_person_follows_the_settings(tmp_path: Path):
    async def scenario(live: LiveServer) -> dict[str, Any]:
        return await live.ended(await live.begin("Change a.txt"))

    assert run_scenario(scenario, tmp_path, writer)["status"] == "completed"


@pytest.mark.requirement("H9")
def test_a_file_that_changed_between_the_yes_and_the_write_is_left_alone_and_the_model_is_told(
    tmp_path: Path,
):
    async def scenario(live: LiveServer) -> tuple[str, str]:
        file = live.work / "a.txt"
        file.write_text("one\n")
        run = await live.begin("Change a.txt", ask_first=True)
        first = await asked(live, run)
        file.write_text("somebody else was here\n")
        await answer(live, first, "allow")
        await answer(live, await asked(live, run, 1), "deny", "Look at the file first.")
        await live.ended(run)
        told = [one["content"] for one in live.lab.requests[-1].body["messages"] if one["role"] == "tool"]
        return file.read_text(), "\n".join(told)

    left, told = run_scenario(scenario, tmp_path, writer)
    assert left == "somebody else was here\n"
    assert "has changed since the user allowed this" in told
    assert "Look at the file first." in told


@pytest.mark.requirement("H9")
def test_the_model_is_told_in_its_next_turn_that_the_user_has_undone_its_work(tmp_path: Path):
    async def scenario(live: LiveServer) -> str:
        (live.work / "a.txt").write_text("one\ntwo\n")
        begun = await live.post("/v1/sessions/s1/messages", {"input": "Change a.txt"})
        await live.ended(begun.json["id"])
        await live.post(f"/v1/runs/{begun.json['id']}/changes/undo", {"path": "a.txt"})
        second = await live.post("/v1/sessions/s1/messages", {"input": "And now?"})
        await live.ended(second.json["id"])
        return str(live.lab.requests[-1].body["messages"])

    assert "undone your changes to a.txt" in run_scenario(scenario, tmp_path, writer)


def lister(request: LabRequest) -> Iterable[ScriptItem]:
    """Runs the same command in every run."""
    if results_brought(request):
        return (Say("Done."), Finish())
    return (Call("shell", {"command": "echo hello"}), Finish())


@pytest.mark.requirement("H10", "F9")
def test_what_one_owner_always_allows_is_asked_of_every_other_and_again_once_it_is_taken_away(tmp_path: Path):
    async def scenario(live: LiveServer) -> None:
        ann, bob = live.owner("ann"), live.owner("bob")

        async def asks(who: ApiClient) -> bool:
            """Whether a run waits for consent; if it does, it gets a no."""
            run = await who.begin("list", ask_first=True)
            async with who.listen(f"/v1/runs/{run}/events?told=true") as reader:
                await reader.until(
                    lambda body: b"event: approval_asked" in body or b"event: run_ended" in body
                )
            found = (await who.get(f"/v1/runs/{run}/approvals")).json["data"]
            for one in found:
                await answer(who, one, "deny")
            await who.ended(run)
            return bool(found)

        async def says(who: ApiClient, words: str) -> str:
            body = {"model": "agent", "messages": [{"role": "user", "content": words}]}
            told = await who.post("/v1/chat/completions", body, x_turnbuckle_session="s")
            return str(told.json["choices"][0]["message"]["content"])

        run = await ann.begin("list", ask_first=True)
        await answer(ann, await asked(ann, run), "allow_always")
        await ann.ended(run)
        [rule] = (await ann.get("/v1/rules")).json["data"]
        assert (rule["text"], rule["owner"]) == ('"shell:echo hello" = "allow"', "ann")
        assert not await asks(ann)
        assert await asks(bob)
        assert (await bob.get("/v1/rules")).json["data"] == []
        gone = await bob.ask("DELETE", f"/v1/rules/{rule['id']}")
        assert (gone.status, gone.json["error"]["code"]) == (404, "rule_not_found")
        assert not await asks(ann)
        # In a chat it is a command, on every surface.
        assert rule["text"] in await says(ann, "/rules")
        assert "Removed" in await says(ann, f"/rules remove {rule['id']}")
        assert (await ann.ask("DELETE", f"/v1/rules/{rule['id']}")).status == 404
        assert await asks(ann)

    run_scenario(scenario, tmp_path, lister)


@pytest.mark.requirement("H10")
def test_a_rule_that_was_taken_away_does_not_come_back_with_the_next_one_of_the_same_run(tmp_path: Path):
    async def scenario(live: LiveServer) -> None:
        run = await live.begin("Change a.txt", ask_first=True)
        await answer(live, await asked(live, run), "allow_always")
        second = await asked(live, run, 1)
        [rule] = (await live.get("/v1/rules")).json["data"]
        assert (await live.ask("DELETE", f"/v1/rules/{rule['id']}")).status == 200
        await answer(live, second, "allow_always")
        await live.ended(run)
        left = (await live.get("/v1/rules")).json["data"]
        assert [one["text"] for one in left] == ['"shell:true" = "allow"']

    run_scenario(scenario, tmp_path, writer)
