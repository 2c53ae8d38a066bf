"""What was said in a session, page by page from either end: whole, once, and for what a page shows."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from support.agents import open_agent

from turnbuckle.agent.agent import Agent
from turnbuckle.errors import InvalidValue
from turnbuckle.runtime.transcript import MessagePlace, SessionMessage, Transcript
from turnbuckle.service.sessions import SessionService
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import text_of


def service_of(agent: Agent) -> SessionService:
    return agent._work.sessions  # type: ignore[union-attr]


async def walked(agent: Agent, session: str, limit: int, *, newest_first: bool) -> list[SessionMessage]:
    """All messages, page by page, in the order in which they were said."""
    service = service_of(agent)
    row, told, after = await service.row(session), list[SessionMessage](), None
    while page := await service.messages(row, after, limit, newest_first=newest_first):
        assert len(page) <= limit
        told += page
        after = page[-1].place
    return told[::-1] if newest_first else told


async def check(agent: Agent, session: str, words: list[str]) -> None:
    whole = await agent.sessions.messages(session)
    assert [text_of(one.message.parts) for one in whole if one.message.role == "user"] == words
    assert len({one.place for one in whole}) == len(whole)
    for newest_first in (True, False):
        for limit in (1, 2, 3, 100):
            assert await walked(agent, session, limit, newest_first=newest_first) == list(whole)
    assert await agent.sessions.messages(session, last=3) == whole[-3:]


@pytest.mark.requirement("E11")
@pytest.mark.parametrize("data", [":memory:", ""])
def test_every_page_of_every_kind_of_session_shows_each_message_once(tmp_path: Path, data: str):
    async def scene(agent: Agent) -> None:
        sessions = agent.sessions
        for word in ("one", "two", "write a.txt with hi there", "gone", "three"):
            last = await agent.run(f"Say {word}.", session="work")
        await sessions.fork("work", "fork")
        await sessions.undo("work")
        await check(agent, "work", ["Say one.", "Say two.", "Say write a.txt with hi there.", "Say gone."])
        await agent.run("Say five.", session="fork")
        await sessions.fork("fork", "twice")
        await agent.run("Say six.", session="twice")
        shared = ["Say one.", "Say two.", "Say write a.txt with hi there.", "Say gone.", "Say three."]
        await check(agent, "fork", [*shared, "Say five."])
        await check(agent, "twice", [*shared, "Say five.", "Say six."])
        told = await sessions.messages("twice")
        assert [one.place.is_shared for one in told][-2:] == [False, False]
        assert all(one.place.is_shared for one in told[:-2])
        assert last.run not in [one.run for one in await sessions.messages("work")]
        await sessions.delete("work")  # what others share with it stays
        await check(agent, "fork", [*shared, "Say five."])
        await check(agent, "twice", [*shared, "Say five.", "Say six."])
        await sessions.renew("twice")
        await agent.run("Say seven.", session="twice")
        await check(agent, "twice", [*shared, "Say five.", "Say six.", "Say seven."])

    open_agent.run_scenario(tmp_path, scene, data=data or tmp_path)


@pytest.mark.requirement("E11")
def test_a_place_stays_good_while_others_speak_and_when_its_run_is_gone(tmp_path: Path):
    async def scene(agent: Agent) -> None:
        for number in range(4):
            await agent.run(f"Say {number}.", session="work")
        service = service_of(agent)
        row, whole = await service.row("work"), await agent.sessions.messages("work")
        place = whole[3].place
        await agent.run("Say more.", session="work")
        for newest_first, rest in ((True, list(whole[2::-1])), (False, list(whole[4:]))):
            page = await service.messages(row, place, 4, newest_first=newest_first)
            assert page == rest[:4]
        await agent._work.runs.delete(whole[3].run, None)  # type: ignore[union-attr]
        assert await service.messages(row, place, 4, newest_first=True) == [whole[1], whole[0]]
        assert (await service.messages(row, place, 2, newest_first=False)) == list(whole[4:6])

    open_agent.run_scenario(tmp_path, scene)


@pytest.mark.requirement("E11", "G7")
def test_a_place_that_somebody_made_up_leads_to_nothing_of_others(tmp_path: Path):
    async def scene(agent: Agent) -> None:
        secret = await agent.run("Say secret.", session="theirs")
        await agent.run("Say mine.", session="mine")
        await agent.sessions.fork("mine", "fork")
        service = service_of(agent)
        for session in ("mine", "fork"):
            row = await service.row(session)
            for newest_first in (True, False):
                for began in (-1.0, 0.0, 1e12):
                    for piece in (secret.run, "@:theirs", "@", "@:", ""):
                        page = None
                        with contextlib.suppress(InvalidValue):
                            place = MessagePlace(began, piece, 99)
                            page = await service.messages(row, place, 9, newest_first=newest_first)
                        assert "secret" not in str(page)

    open_agent.run_scenario(tmp_path, scene)


class Counted:
    """Counts what is read."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.work = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def read(self, *args: Any) -> Any:
        items = await self._journal.read(*args)
        self.work += len(items)
        return items

    async def streams(self, *args: Any, **more: Any) -> Any:
        rows = await self._journal.streams(*args, **more)
        self.work += len(rows)
        return rows


@pytest.mark.requirement("E11")
def test_the_last_page_costs_the_same_however_long_the_session_is(tmp_path: Path):
    async def scene(agent: Agent) -> list[int]:
        stores, costs = service_of(agent)._stores, list[int]()
        for turns in (20, 40):
            for _ in range(turns):
                await agent.run("Say it.", session="long")
            counted: Any = Counted(stores.journal)
            transcript = Transcript(counted, stores.runs.conversations, stores.runs.policy)
            page = await transcript.page(SessionId("long"), None, 20, newest_first=True)
            assert len(page) == 20
            costs.append(counted.work)
        return costs

    few, many = open_agent.run_scenario(tmp_path, scene)
    assert few == many < 60
