"""Whatever a process keeps of a session, it asks a provider what a process would ask that knows nothing.

Deeds of every kind are done in a process that lives on. Each question is asked there and, on a copy of its
database, by a process that has only just been opened: their bodies are the same to the byte."""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from support.agents.open_agent import PATIENCE, agent, lab_provider

from turnbuckle.agent.agent import Agent
from turnbuckle.call.body_cache import BodyCache
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.received import last_user_text
from turnbuckle.lab.script import Call, CutOff, Finish, LabRequest, Reason, Say, ScriptItem, Stall
from turnbuckle.narrate.told import Text
from turnbuckle.runtime.runs import NewRun, Runs
from turnbuckle.service.owners import Caller
from turnbuckle.service.sessions import Verb
from turnbuckle.vocab.ids import LOCAL, PROTOCOL_NAMES, RouteName, RunId, SessionId
from turnbuckle.vocab.messages import (
    CallPart,
    ImagePart,
    Message,
    ProviderState,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.request import RunOptions, ToolSpec

SUMMARY = "Task: talk. Decisions: none. Done: some. Files: none. Open: all. Forbidden: none."
SIGNED = ProviderState("anthropic", "m", {"type": "thinking", "signature": "c2lnbmVk"})
PICTURE = ImagePart(data="aGk=", media_type="image/png")
ODD = "no such tool!"
TOOLS: tuple[tuple[ToolSpec, ...], ...] = ((), (ToolSpec("theirs"),), (ToolSpec(ODD), ToolSpec("theirs")))


def model(request: LabRequest) -> Iterable[ScriptItem]:
    """It looks where it is asked to, is cut or waits where it is asked to, and answers all else at once."""
    said = last_user_text(request)
    if not request.body.get("tools"):
        return [Say(SUMMARY), Finish()]
    behind = msgspec.json.encode(request.body).rpartition(said.encode())[2]
    if said.startswith("look") and b"listed" not in behind:
        return [Reason("I look."), Call("shell", {"command": "echo listed"}), Finish()]
    if said.startswith("cut") and b"first half" not in behind:
        return [Say("This is the first half of what I"), CutOff()]
    if said.startswith("draft") and b"draft" not in behind:
        return [Call("write_file", {"path": "a", "content": "a line\n" * 99}), CutOff(inside="frame")]
    if said.startswith("wait"):
        return [Say("I wait."), Stall(PATIENCE)]
    return [Say(f"Answer to {said[-40:]}."), Finish()]


def talk(count: int, early: str = "word") -> tuple[Message, ...]:
    """So many messages: calls whose ids come again, tools that nobody knows, pictures, signed thoughts."""
    said = [Message("system", (TextPart("Be good."),)), Message("user", (TextPart(early),))]
    for number in range(count):
        call = CallPart(f"call {number % 5}", "shell" if number % 3 else ODD, '{"command":"ls"}')
        said += [
            Message("assistant", (ReasoningPart(f"hm {number}", SIGNED), TextPart(f"{number}?"), call)),
            Message("tool", (ResultPart(call.id, (TextPart(f"seen {number}"), PICTURE)),)),
            Message("assistant", (TextPart(f"It is {number}."),)),
            Message("user", (TextPart(f"and {number}?"),)),
        ]
    return tuple(said[:count])


class Life:
    """A process that lives on, and copies of its database that are opened by others."""

    def __init__(self, folder: Path, lab: Provider) -> None:
        self._folder, self._lab = folder, lab
        self._data = folder / "data"
        self._asked = 0
        self.equal = 0
        self.agent = self._opened(self._data)

    def _opened(self, data: Path) -> Agent:
        config = self._folder / "turnbuckle.toml"
        config.write_text(
            "".join(
                f'[[routes]]\nname = "{name}"\nprotocol = "{name}"\nbase_url = "{self._lab.url}/v1"\n'
                'model = "m"\napi_key = "k"\ncontext_window = 100000\n'
                for name in PROTOCOL_NAMES
            )
        )
        return agent(self._folder, model="", data=data, config=config)

    @property
    def runs(self) -> Runs:
        return self.agent._here()._opened.runs

    async def _body(self, opened: Agent, text: str, session: str, options: RunOptions) -> bytes:
        """What a provider is sent first."""
        before = len(self._lab.requests)
        work = opened._here()
        new = NewRun((Message("user", (TextPart(text),)),), SessionId(session), user=LOCAL, options=options)
        begun = await work.runs.begin(new, first=(), commands=False)
        assert (await work.result(begun.run)).outcome == "completed"
        return msgspec.json.encode(self._lab.requests[before].body)

    async def ask(self, session: str, route: str, text: str = "hello", tools: int = 0) -> bytes:
        """Ask here and in a process that knows nothing; both must ask the same. `equal` counts it."""
        self._asked += 1
        copy = self._folder / f"copy{self._asked}"
        copy.mkdir()
        with (
            sqlite3.connect(self._data / "journal.db") as stored,
            sqlite3.connect(copy / "journal.db") as copied,
        ):
            stored.backup(copied)
        question = f"{text} {self._asked}"
        options = RunOptions(route=RouteName(route), tools=TOOLS[tools])
        async with self._opened(copy) as fresh:
            expected = await self._body(fresh, question, session, options)
        told = await self._body(self.agent, question, session, options)
        assert told.decode() == expected.decode()
        self.equal += 1
        return told

    async def make(self, session: str, count: int, early: str = "word") -> None:
        sessions = self.agent._here().runs._stores.sessions
        assert await sessions.create(SessionId(session), LOCAL, history=talk(count, early))

    async def change(self, session: str, verb: Verb) -> None:
        work = self.agent._here()
        change = await work.sessions.change(await work.sessions.row(session), Caller(LOCAL), verb)
        if change.did == "compacting" and change.run is not None:
            await work.result(change.run)

    async def delete_run(self, session: str, place: int) -> None:
        work = self.agent._here()
        rows = await work.sessions.runs(await work.sessions.row(session))
        await work.runs.delete(RunId(rows[place % len(rows)].name), LOCAL)

    async def move(self, session: str) -> None:
        """Out, away, and in again under the same name."""
        sessions = self.agent._here().sessions
        lines = [line async for line in sessions.export(await sessions.row(session), LOCAL, 1.0)]
        await self.agent.sessions.delete(session)
        await sessions.bring_in([one for line in lines for one in line.splitlines()], LOCAL, session)

    async def interrupt(self, session: str) -> None:
        run = await self.agent.start("wait", session=session)
        async for event in self.agent.follow(run):
            if isinstance(event, Text):
                await self.agent.interrupt(run)
        await self.agent.wait(run)


def lived(folder: Path, story: Callable[[Life], Awaitable[None]]) -> int:
    """Play it. Returns how many questions were asked alike by both."""

    async def main() -> int:
        async with asyncio.timeout(PATIENCE), lab_provider(model) as lab:
            life = Life(folder, lab)
            async with life.agent:
                await story(life)
            return life.equal

    return asyncio.run(main())


@pytest.mark.requirement("C5", "E9")
def test_histories_around_the_length_from_which_something_is_kept(tmp_path: Path):
    async def story(life: Life) -> None:
        for count in (30, 31, 32, 33, 34):
            await life.make(f"s{count}", count)
            for _ in range(2):
                await life.ask(f"s{count}", "anthropic")

    assert lived(tmp_path, story) == 10


@pytest.mark.requirement("C5", "E9", "E12")
@pytest.mark.parametrize("seed", range(3))
def test_whatever_was_done_to_a_session_its_model_is_asked_the_same_by_a_process_that_knows_nothing(
    tmp_path: Path, seed: int
):
    chance = random.Random(seed)

    async def story(life: Life) -> None:
        names = ["a"]

        async def fork(name: str) -> None:
            names.append(f"f{len(names)}")
            await life.agent.sessions.fork(name, names[-1])

        async def other_of_the_same_name(name: str) -> None:
            await life.agent.sessions.delete(name)
            await life.make(name, 60, "another word")

        async def ask(name: str) -> None:
            route, text = chance.choice(PROTOCOL_NAMES), chance.choice(["hello", "look", "cut"])
            await life.ask(name, route, text, chance.randrange(3))

        deeds: list[Callable[[str], Awaitable[object]]] = [
            lambda name: life.change(name, "undo"),
            lambda name: life.change(name, "compact"),
            lambda name: life.change(name, "undo_compaction"),
            lambda name: life.change(name, "new"),
            lambda name: life.delete_run(name, chance.randrange(9)),
            lambda name: life.agent.run("draft", session=name),
            life.interrupt,
            life.move,
            fork,
            fork,
            other_of_the_same_name,
        ]
        await life.make("a", 60)
        await ask("a")
        for deed in chance.sample(deeds, len(deeds)):
            await deed(chance.choice(names))
            for name in names[-2:]:
                await ask(name)

    assert lived(tmp_path, story) >= 14  # one before, and one or two behind each of eleven deeds


@pytest.mark.requirement("C5", "E9")
@pytest.mark.parametrize("route", PROTOCOL_NAMES)
def test_what_is_said_otherwise_behind_an_undo_takes_the_place_of_what_was_kept(tmp_path: Path, route: str):
    async def story(life: Life) -> None:
        await life.make("a", 28)
        for word in ("first", "second"):
            for number in range(7):
                await life.agent.run(f"{word} {number}", session="a")
            asked = await life.ask("a", route)
            assert (b"first 0" in asked, b"second 0" in asked) == (word == "first", word == "second")
            for _ in range(8):
                await life.change("a", "undo")

    lived(tmp_path, story)


@pytest.mark.requirement("E9", "E12")
def test_a_fork_is_told_by_the_compaction_that_it_shared_also_when_that_is_deleted(tmp_path: Path):
    async def story(life: Life) -> None:
        await life.make("a", 60)
        await life.ask("a", "anthropic")
        await life.change("a", "compact")
        before = len(await life.ask("a", "anthropic"))
        await life.agent.sessions.fork("a", "b")
        await life.ask("b", "anthropic")
        await life.delete_run("a", 0)
        await life.ask("b", "anthropic")
        await life.agent.sessions.delete("a")
        assert len(await life.ask("b", "anthropic")) < before + 1_000
        await life.change("b", "undo_compaction")
        assert len(await life.ask("b", "anthropic")) > before + 1_000

    lived(tmp_path, story)


@pytest.mark.requirement("C5", "E9")
@pytest.mark.parametrize("compacted", [False, True])
def test_once_there_was_a_draft_the_tool_that_finishes_one_stays_in_the_list(tmp_path: Path, compacted: bool):
    async def story(life: Life) -> None:
        before = await life.ask("a", "openai_chat")
        await life.agent.run("draft", session="a")
        if compacted:
            await life.change("a", "compact")
        behind = [await life.ask("a", "openai_chat") for _ in range(2)]
        assert [b'"finish_call"' in body for body in (before, *behind)] == [False, True, True]

    lived(tmp_path, story)


@pytest.mark.requirement("E12")
def test_nothing_of_a_deleted_session_or_run_is_kept_in_memory(tmp_path: Path):
    async def story(life: Life) -> None:
        for name in ("a", "b"):
            await life.make(name, 60)
            await life.ask(name, "anthropic", "look")
        await life.delete_run("a", 0)
        await life.agent.sessions.delete("b")
        runs = life.runs
        (bodies,) = [
            keeper
            for forget in runs.conversations.forgets
            if isinstance(keeper := getattr(forget, "__self__", None), BodyCache)
        ]
        kept = [bodies._entries, runs._histories._kept, runs.conversations._kept]
        assert (bodies.size, *map(len, kept)) == (0, 0, 0, 0)
        assert SessionId("b") not in runs.session_states._known

    lived(tmp_path, story)
