"""A conversation that goes on for as long as one likes, with tools, through a window of any size.

The model is scripted: to every message it calls `look`, whose results are large, and answers. Asked what
it was told of something, it calls `recall` and answers with what that found. It refuses what its window
does not take, and counts tokens as providers do. Runs, sessions, commands and the journal are the real
ones.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator

from msgspec import Struct

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Journal
from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.ports import Model, Publish, Seen, Tools
from turnbuckle.runtime.recall import recall
from turnbuckle.runtime.runs import NewRun, RunRules, Runs
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.service.services import Services, make_services
from turnbuckle.testing.world.compaction_rules import SUMMARY, windowed
from turnbuckle.testing.world.model import Step, events_of
from turnbuckle.turn.facts import Compacted, Fact, RunEnded
from turnbuckle.turn.policy import CompactionRules, Policy, RouteFacts, ToolFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Cut, Event
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, ResultPart, TextPart, text_of
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome, finished

SESSION = SessionId("s-long")
ROUTE = RouteName("main")
ASKS = "What was I told about"
OPENING = (Message("system", (TextPart("You look things up for the user."),)),)
_TEXT = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
TOOLS = (ToolSpec("look", "Look something up.", _TEXT), ToolSpec("recall", "Search the past.", _TEXT))


def answers(request: ModelRequest, number: int) -> list[Step]:
    """What the model says."""
    last = request.messages[-1]
    results = [part for part in last.parts if isinstance(part, ResultPart)]
    if results:
        return [Say(f"I found this: {text_of(results[0].content)[:200]}"), Finish()]
    said = text_of(last.parts)
    if said.startswith(ASKS):
        return [Call("recall", {"query": said.removeprefix(ASKS).strip(" ?")}, 0), Finish()]
    return [Call("look", {"query": said[:40]}, 0), Finish()]


class TalkingModel(Model):
    """The model's port. It counts what it was sent, and how often it refused."""

    def __init__(self, window: int, summary: str = SUMMARY) -> None:
        self.sent = self.refused = self.asked = 0
        self._brain = windowed(answers, window, summary=summary)

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        self.asked += 1
        events = events_of(self._brain(request, self.asked), f"r{self.asked}")
        self.refused += isinstance(events[-1], Cut)
        for event in events:
            usage = getattr(event, "usage", None)
            self.sent += (usage.input or 0) if usage is not None else 0
        yield events


class TalkTools(Tools):
    """The tools of one run."""

    def __init__(self, journal: Journal, run: RunId, size: int) -> None:
        self._journal, self._run, self._size = journal, run, size

    def specs(self) -> tuple[ToolSpec, ...]:
        return TOOLS

    async def run(
        self, call: SoundCall, key: str, publish: Publish, stop: StopSignal, seen: Seen = None
    ) -> ToolOutcome:
        query = call.arguments["query"]
        if call.name == "recall":
            return finished(await recall(self._journal, self._run, SESSION, query))
        return finished(f"{query}: " + "this is what there is to know of it. " * (self._size // 37))

    async def probe(self, call: SoundCall, key: str) -> str:
        return "again"


class Said(Struct, frozen=True):
    """What came of one message."""

    run: RunId
    text: str
    outcome: str
    why: str
    compactions: tuple[Compacted, ...]


class LongTalk:
    """One session of such a conversation. `results` is the size of what `look` finds, in characters."""

    def __init__(self, window: int, results: int = 3_000, journal: Journal | None = None) -> None:
        self.journal: Journal = journal if journal is not None else MemoryJournal()
        self.model = TalkingModel(window)
        policy = Policy(
            (RouteFacts(ROUTE, "openai_chat", "m", window=window),),
            {"look": ToolFacts("read"), "recall": ToolFacts("read")},
            compaction=CompactionRules(),
        )
        self._rules = RunRules(policy, OPENING)
        self._results = results
        self._names = itertools.count()
        self._lives = 0
        self.services = self._live()

    def _live(self) -> Services:
        self._lives += 1
        environment = Environment(
            f"process {self._lives}",
            lambda: 1_000.0,
            asyncio.sleep,
            lambda kind: f"{kind}{next(self._names):06}",
        )
        self.runs = Runs(
            self.journal,
            self._rules,
            self.model,
            lambda run: TalkTools(self.journal, run, self._results),
            environment,
        )
        return make_services(self.journal, self.runs, SessionRules(opening=OPENING))

    def use(self, model: TalkingModel) -> None:
        """Let another model answer from here on."""
        self.model = model
        self.services = self._live()

    async def restart(self) -> None:
        """Another process goes on, and knows nothing but the journal."""
        await self.services.stores.manager.close()
        self.services = self._live()

    async def say(self, text: str) -> Said:
        """Say something, and wait for the answer."""
        new = NewRun((Message("user", (TextPart(text),)),), SESSION, user="local")
        begun = await self.services.runs.begin(new, first=OPENING)
        if (running := self.runs.live(begun.run)) is not None:
            await running.over()
        fold = await self.services.runs.fold(begun.run)
        facts = await self.facts(begun.run)
        ended = facts[-1]
        assert isinstance(ended, RunEnded), "the run has no end"
        made = tuple(fact for fact in facts if isinstance(fact, Compacted))
        return Said(begun.run, fold.output, ended.outcome.kind, ended.outcome.why, made)

    async def facts(self, run: RunId) -> list[Fact]:
        return [fact async for _, fact in self.services.runs.facts(run)]

    async def close(self) -> None:
        await self.services.stores.manager.close()
