"""Lists and searches over HTTP, page by page: everything once, whatever comes meanwhile."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.received import brings_results, last_user_text
from turnbuckle.lab.script import Call, Finish, LabRequest, Say
from turnbuckle.server.http.exchange import Query
from turnbuckle.server.http.pages import part_of

UNLIMITED = "drain = 0\nrequests_per_minute = 0"


def echo(request: LabRequest) -> tuple[Any, ...]:
    return (Say(f"answer to {last_user_text(request)}"), Finish())


async def say(server: LiveServer, text: str, session: str) -> str:
    reply = await server.post(f"/v1/sessions/{session}/messages", {"input": text})
    assert reply.status == 202, reply.body
    await server.events(reply.json["id"])
    return reply.json["id"]


async def walked(server: LiveServer, path: str, limit: int, meanwhile: Any = None) -> list[dict[str, Any]]:
    rows, after = [], ""
    while True:
        page = (await server.get(f"{path}limit={limit}{after}")).json
        assert len(page["data"]) <= limit
        rows += page["data"]
        if not page["has_more"]:
            assert page["next"] is None
            return rows
        after = f"&after={quote(page['next'])}"
        if meanwhile is not None:
            await meanwhile(len(rows))


@pytest.mark.requirement("E11", "G7")
def test_a_search_shows_every_session_once_whatever_is_said_meanwhile(tmp_path: Path):
    async def scene(server: LiveServer) -> None:
        for turn in range(3):
            for number in range(4):
                await say(server, f"marmalade {turn}", f"s{number}")
        await say(server, "nothing", "other")

        async def speak(count: int) -> None:
            await say(server, "marmalade again", f"s{count % 4}")
            await say(server, "marmalade too", f"late{count}")

        newest = ["s3", "s2", "s1", "s0"]
        for limit in (1, 2, 3, 50):
            found = await walked(server, "/v1/sessions?q=marmalade&", limit)
            assert [one["id"] for one in found] == newest
        found = await walked(server, "/v1/sessions?q=marmal&", 1, speak)
        assert [one["id"] for one in found] == newest
        assert all("marmalade" in one["snippet"] for one in found)
        refused = await server.get("/v1/sessions?q=marmalade&after=nonsense")
        assert (refused.status, refused.json["error"]["param"]) == (400, "after")

    run_scenario(scene, tmp_path, echo, server=UNLIMITED)


@pytest.mark.requirement("E11")
def test_lists_in_the_order_of_creation_show_everything_once(tmp_path: Path):
    async def scene(server: LiveServer) -> None:
        runs = [await say(server, f"say {number}", f"s{number % 3}") for number in range(6)]

        async def touch(count: int) -> None:
            await say(server, "touched", f"s{count % 3}")

        found = await walked(server, "/v1/sessions?order=created&", 1, touch)
        assert [one["id"] for one in found] == ["s2", "s1", "s0"]
        found = await walked(server, "/v1/runs?order=created&", 4, touch)
        assert [one["id"] for one in found][-6:] == runs[::-1]
        own = await walked(server, "/v1/runs?order=created&session=s1&", 1)
        assert [one["id"] for one in own if one["id"] in runs] == [runs[4], runs[1]]
        assert (await server.get("/v1/runs?order=created&status=failed")).status == 400

    run_scenario(scene, tmp_path, echo, server=UNLIMITED)


@pytest.mark.requirement("E11")
def test_messages_are_read_from_either_end(tmp_path: Path):
    async def scene(server: LiveServer) -> None:
        for number in range(3):
            await say(server, f"say {number}", "s")
        path = "/v1/sessions/s/messages?"
        whole = (await server.get(path)).json["data"]
        assert [one["text"] for one in whole[::2]] == ["say 0", "say 1", "say 2"]
        for limit in (1, 4, 6):
            assert await walked(server, path, limit) == whole
            assert await walked(server, f"{path}order=desc&", limit) == whole[::-1]
        rest = (await server.get(f"{path}after={whole[3]['id']}")).json["data"]
        assert rest == whole[4:]
        assert (await server.get(f"{path}after=7")).status == 400
        made = await server.post("/v1/sessions/s/fork", {"id": "fork"})
        assert made.status == 201
        shared = (await server.get("/v1/sessions/fork/messages")).json["data"]
        assert [one["text"] for one in shared] == [one["text"] for one in whole]
        assert all(one["shared"] for one in shared)
        assert not any(one["shared"] for one in whole)

    run_scenario(scene, tmp_path, echo, server=UNLIMITED)


def asks_thrice(request: LabRequest) -> tuple[Any, ...]:
    if brings_results(request):
        return (Say("Done."), Finish())
    calls = [Call("shell", {"command": f"echo {number}"}, number) for number in range(3)]
    return (*calls, Finish())


@pytest.mark.requirement("E11")
def test_short_lists_have_pages_too(tmp_path: Path):
    async def scene(server: LiveServer) -> None:
        runs = [await server.begin("go", session=f"s{number}") for number in range(3)]
        for run in runs:
            async with server.listen(f"/v1/runs/{run}/events") as reader:
                await reader.until(b"event: approval_asked")
        await server.post(f"/v1/runs/{runs[0]}/approvals/a1-0", {"decision": "deny"})
        async with server.listen(f"/v1/runs/{runs[0]}/events") as reader:
            await reader.until(b'"a1-1"')
        said = [await server.begin(f"later {number}", session="s0") for number in range(4)]
        for path, whole in (
            (f"/v1/runs/{runs[0]}/approvals", {("a1-0", runs[0]), ("a1-1", runs[0])}),
            ("/v1/approvals", {("a1-1", runs[0]), ("a1-0", runs[1]), ("a1-0", runs[2])}),
        ):
            for limit in (1, 2, 100):
                found = await walked(server, f"{path}?", limit)
                assert len(found) == len(whole)
                assert {(one["id"], one["run"]) for one in found} == whole
        for limit in (1, 3, 100):
            found = await walked(server, "/v1/sessions/s0/inbox?", limit)
            assert [one["run"] for one in found] == [runs[0], *said]
        assert (await server.get("/v1/approvals?limit=101")).status == 400

    run_scenario(scene, tmp_path, asks_thrice, server=UNLIMITED, tools='approval = { shell = "ask" }')


@pytest.mark.requirement("E11", "D10")
def test_so_have_background_processes(tmp_path: Path):
    async def scene(server: LiveServer) -> None:
        for number in range(3):
            await say(server, f"go {number}", "s")
        for path in ("/v1/processes?", "/v1/sessions/s/processes?"):
            whole = [one["id"] for one in await walked(server, path, 100)]
            assert len(whole) == 3
            assert [one["id"] for one in await walked(server, path, 1)] == whole

    run_scenario(scene, tmp_path, leaves_one, tools='approval = { shell = "allow" }')


def leaves_one(request: LabRequest) -> tuple[Any, ...]:
    if brings_results(request):
        return (Say("Done."), Finish())
    return (Call("shell", {"command": "true", "background": True}), Finish())


def test_a_page_goes_on_behind_the_last_one_or_begins_again_if_that_is_gone():
    def ask(items: str, **query: str) -> tuple[str, str | None]:
        made = part_of(items, str, Query("&".join(f"{key}={value}" for key, value in query.items()).encode()))
        return "".join(made.data), made.next

    assert ask("abcde", limit="2") == ("ab", "b")
    assert ask("abcde", limit="2", after="b") == ("cd", "d")
    assert ask("abcde", limit="2", after="d") == ("e", None)
    assert ask("abcde", limit="2", after="e") == ("", None)
    assert ask("cde", limit="2", after="b") == ("cd", "d")
    assert ask("ab", limit="2") == ("ab", None)
    assert ask("") == ("", None)
