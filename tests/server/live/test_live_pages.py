"""Lists and searches over HTTP, page by page: everything once, whatever comes meanwhile."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from live_stage import Stage, played

from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Finish, LabRequest, Say

UNLIMITED = "drain = 0\nrequests_per_minute = 0"


def echo(request: LabRequest) -> tuple[Any, ...]:
    return (Say(f"answer to {last_user_text(request)}"), Finish())


async def say(stage: Stage, text: str, session: str) -> str:
    reply = await stage.post(f"/v1/sessions/{session}/messages", {"input": text})
    assert reply.status == 202, reply.body
    await stage.events(reply.json["id"])
    return reply.json["id"]


async def walked(stage: Stage, path: str, limit: int, meanwhile: Any = None) -> list[dict[str, Any]]:
    rows, after = [], ""
    while True:
        page = (await stage.get(f"{path}limit={limit}{after}")).json
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
    async def scene(stage: Stage) -> None:
        for turn in range(3):
            for number in range(4):
                await say(stage, f"marmalade {turn}", f"s{number}")
        await say(stage, "nothing", "other")

        async def speak(count: int) -> None:
            await say(stage, "marmalade again", f"s{count % 4}")
            await say(stage, "marmalade too", f"late{count}")

        newest = ["s3", "s2", "s1", "s0"]
        for limit in (1, 2, 3, 50):
            found = await walked(stage, "/v1/sessions?q=marmalade&", limit)
            assert [one["id"] for one in found] == newest
        found = await walked(stage, "/v1/sessions?q=marmal&", 1, speak)
        assert [one["id"] for one in found] == newest
        assert all("marmalade" in one["snippet"] for one in found)
        refused = await stage.get("/v1/sessions?q=marmalade&after=nonsense")
        assert (refused.status, refused.json["error"]["param"]) == (400, "after")

    played(scene, tmp_path, echo, server=UNLIMITED)


@pytest.mark.requirement("E11")
def test_lists_in_the_order_of_creation_show_everything_once(tmp_path: Path):
    async def scene(stage: Stage) -> None:
        runs = [await say(stage, f"say {number}", f"s{number % 3}") for number in range(6)]

        async def touch(count: int) -> None:
            await say(stage, "touched", f"s{count % 3}")

        found = await walked(stage, "/v1/sessions?order=created&", 1, touch)
        assert [one["id"] for one in found] == ["s2", "s1", "s0"]
        found = await walked(stage, "/v1/runs?order=created&", 4, touch)
        assert [one["id"] for one in found][-6:] == runs[::-1]
        own = await walked(stage, "/v1/runs?order=created&session=s1&", 1)
        assert [one["id"] for one in own if one["id"] in runs] == [runs[4], runs[1]]
        assert (await stage.get("/v1/runs?order=created&status=failed")).status == 400

    played(scene, tmp_path, echo, server=UNLIMITED)


@pytest.mark.requirement("E11")
def test_messages_are_read_from_either_end(tmp_path: Path):
    async def scene(stage: Stage) -> None:
        for number in range(3):
            await say(stage, f"say {number}", "s")
        path = "/v1/sessions/s/messages?"
        whole = (await stage.get(path)).json["data"]
        assert [one["text"] for one in whole[::2]] == ["say 0", "say 1", "say 2"]
        for limit in (1, 4, 6):
            assert await walked(stage, path, limit) == whole
            assert await walked(stage, f"{path}order=desc&", limit) == whole[::-1]
        rest = (await stage.get(f"{path}after={whole[3]['id']}")).json["data"]
        assert rest == whole[4:]
        assert (await stage.get(f"{path}after=7")).status == 400
        made = await stage.post("/v1/sessions/s/fork", {"id": "fork"})
        assert made.status == 201
        shared = (await stage.get("/v1/sessions/fork/messages")).json["data"]
        assert [one["text"] for one in shared] == [one["text"] for one in whole]
        assert all(one["shared"] for one in shared)
        assert not any(one["shared"] for one in whole)

    played(scene, tmp_path, echo, server=UNLIMITED)
