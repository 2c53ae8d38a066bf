"""A task in its world, from the first word to the end of the run, through as many processes as its fault
takes."""

import asyncio
from functools import cached_property, lru_cache
from typing import Any

from msgspec import Struct

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Fenced, Item
from turnbuckle.journal.tail import items_of
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.log import RunLog
from turnbuckle.testing.clock import numbered
from turnbuckle.testing.world.faults import NOTHING, Fault
from turnbuckle.testing.world.model import Asked, Brain, WorldModel
from turnbuckle.testing.world.people import Person, attend
from turnbuckle.testing.world.process import LEASE, Killed, Luck, WorldProcess
from turnbuckle.testing.world.tools import FACTS, Disk, Done, WorldTools
from turnbuckle.turn.consent import Rule, written
from turnbuckle.turn.facts import Fact, RunStarted, decode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import CompactionRules, Policy, RouteFacts, TurnLimits, for_options
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import ProtocolName, RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.outcome import Outcome, OutcomeKind
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import RunOptions

_STREAM = "run"
_MOST_LIVES = 12
_decoded = lru_cache(2_000)(decode)  # most items of a world were in another one of the same task
_COUNTED = ("tool_runs", "questions", "appends", "seconds", "argument_characters")


class Task(Struct, frozen=True):
    """What a user wants, the models that may do it, and what must come of it when nothing goes wrong.

    `brains` in the order of the routes. `answer` is the text that the user must have seen in the end, `files`
    what must be on the disk; None: it depends on what went wrong. `steady`: one broken stream changes
    neither."""

    name: str
    brains: tuple[Brain, ...]
    ends: OutcomeKind = "completed"
    answer: str | None = None
    files: dict[str, str] | None = None
    steady: bool = True
    limits: TurnLimits = TurnLimits()
    cap: int | None = None
    cap_most: int | None = None
    effort: str | None = None
    kill_after: int | None = None
    """The provider breaks each stream after so many characters of arguments."""
    kill_plain: bool = False
    """It breaks plain answers too."""
    quirks: Quirks = Quirks()
    prompt: str = "Do it."
    history: tuple[Message, ...] = ()
    """What was said before."""
    options: RunOptions = RunOptions()
    handed: tuple[tuple[str, dict[str, Any]], ...] | None = None
    """The calls that whoever asked must have in its hands at the end: name and arguments."""
    approval: dict[str, Rule] = {}
    person: Person | None = None
    """Who answers; with nobody there, `attended` says whether anybody is waited for, for `answer_seconds`."""
    attended: bool = True
    answer_seconds: float | None = None
    window: int | None = None
    """How many tokens the models take. Histories are made smaller then."""

    def policy(self, protocol: ProtocolName) -> Policy:
        routes = tuple(
            RouteFacts(
                RouteName(f"route{at}"),
                protocol,
                f"model{at}",
                self.cap,
                self.cap_most,
                self.effort,
                self.quirks,
                self.window,
            )
            for at in range(len(self.brains))
        )
        return Policy(
            routes,
            FACTS,
            self.limits,
            consent=written(self.approval),
            attended=self.attended,
            answer_seconds=self.answer_seconds,
            compaction=CompactionRules() if self.window is not None else None,
        )


class Story(Struct, frozen=True, dict=True):
    """All that can be known of a run that has ended. `seen` is what readers had seen at each death of a
    process."""

    policy: Policy
    outcome: Outcome
    items: tuple[Item, ...]
    facts: tuple[Fact, ...]
    driven: Turn
    """The turn as the process had it that came to the end."""
    asked: tuple[Asked, ...]
    done: tuple[Done, ...]
    files: dict[str, str]
    seen: tuple[tuple[Item, ...], ...]
    reread: tuple[tuple[int, tuple[Item, ...]], ...]
    """What readers with small pages get behind some cursors."""
    robbed: tuple[tuple[int, int, int], ...]
    """For each robbed process: its epoch, the items at that moment, tools that it started afterwards."""
    tool_runs: int
    questions: int
    appends: int
    seconds: float
    argument_characters: int

    def tells_the_same(self, other: "Story") -> bool:
        """Whether all is the same in both, but for what was only counted, which no invariant looks at."""
        if self.items != other.items:  # which nearly always says it at once
            return False
        names = (name for name in self.__struct_fields__ if name not in _COUNTED)
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """Where each fact leads. Folded once for all rules that look at it."""
        fold = TurnFold(self.policy)
        turns = []
        for fact in self.facts:
            fold.take(fact)
            turns.append(fold.turn)
        return tuple(turns)

    @property
    def turn(self) -> Turn:
        """Where all of them lead."""
        return self.turns[-1]


class RunWorld:
    """One world. `play` once. `hurried`: replies that are far from the fault come in one burst. What is
    counted to find all faults, such as appends, is counted in a world that is not."""

    def __init__(
        self,
        task: Task,
        fault: Fault = NOTHING,
        *,
        protocol: ProtocolName = "openai_chat",
        wired: bool = False,
        hurried: bool = False,
    ) -> None:
        self.now = 1_000.0
        self._environment = Environment("world", lambda: self.now, self._sleep, numbered())
        self._lease_time = 0.0
        self._task = task
        self._policy = task.policy(protocol)
        self._luck = Luck(fault, hurried=hurried)
        self._disk = Disk()
        self._journal = MemoryJournal(monotonic=lambda: self._lease_time, wall=lambda: self.now)
        self._process = WorldProcess(self._journal, self._luck, self._let_lease_end)
        self._models: list[WorldModel] = []
        self._protocol = protocol
        self._wired = wired
        self._seen: list[tuple[Item, ...]] = []
        self._robbed: list[tuple[int, int, int]] = []

    async def play(self) -> Story:
        claim = await self._claim()
        for _ in range(_MOST_LIVES):
            driver = self._live(claim)
            try:
                outcome = await self._lived(driver, claim)
                if outcome is not None and self._process.stolen is None:
                    return await self._story(outcome, driver.turn)
            except Killed:
                pass
            except Fenced:
                assert self._process.stolen is not None, "nobody took the run over"
            claim = await self._next_life(claim)
        raise AssertionError(f"{self._task.name} did not end in {_MOST_LIVES} lives")

    def _live(self, claim: Claim) -> Driver:
        names = [route.name for route in self._policy.routes]
        model = WorldModel(
            dict(zip(names, self._task.brains, strict=True)),
            self._process,
            protocols=dict.fromkeys(names, self._protocol),
            wired=self._wired,
            kill_after=self._task.kill_after,
            kill_plain=self._task.kill_plain,
        )
        self._models.append(model)
        log = RunLog(self._process, claim, TurnFold(self._policy, sending=True))
        tools = WorldTools(self._disk, self._process)
        driver = Driver(log, model, tools, self._environment)
        self._process.stop = driver.stop.ask
        return driver

    async def _lived(self, driver: Driver, claim: Claim) -> Outcome | None:
        """One life of the run, up to its end; None if the process let go of it."""
        work = asyncio.ensure_future(self._drive(driver, claim))
        self._process.leave = work.cancel
        tasks: set[asyncio.Future[Any]] = {work}
        if self._task.person is not None:
            process, stream = self._process, _STREAM
            tasks.add(
                asyncio.ensure_future(
                    attend(self._task.person, process, stream, driver, process, self._pass_time)
                )
            )
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for one in done - {work}:
                one.result()  # whoever answers may be the first to learn that the process is dead
            await asyncio.wait({work})
            if not work.cancelled():
                return work.result()
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._process.stolen is None:
            await driver.leave("the server stops")
            await self._journal.release(claim)
        return None

    async def _drive(self, driver: Driver, claim: Claim) -> Outcome:
        if claim.head:
            return await driver.resume(claim.epoch)
        task = self._task
        messages = (*task.history, Message("user", (TextPart(task.prompt),)))
        return await driver.start(
            RunStarted(self.now, RunId("r"), SessionId("s"), messages, options=task.options)
        )

    async def _next_life(self, claim: Claim) -> Claim:
        """What the next process finds: everything, or after a loss of power only what was sure."""
        gone, self._process.dead = self._process, True
        if gone.stolen is not None:
            self._robbed.append((claim.epoch, gone.items_when_stolen, gone.started_when_robbed))
            self._process = WorldProcess(self._journal, self._luck, self._let_lease_end)
            return gone.stolen
        self._journal = self._journal.after_power_loss() if gone.power_lost else self._journal.after_kill()
        self._seen.append(tuple(await items_of(self._journal, _STREAM)))
        self._process = WorldProcess(self._journal, self._luck, self._let_lease_end)
        return await self._claim()

    async def _claim(self) -> Claim:
        claim = await self._journal.claim(_STREAM, f"process {len(self._models)}", LEASE)
        assert isinstance(claim, Claim)
        return claim

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self._pass_time(seconds)

    def _pass_time(self, seconds: float) -> None:
        self.now += seconds

    def _let_lease_end(self) -> None:
        self._lease_time += LEASE + 1

    async def _reread(self, cursor: int) -> tuple[int, tuple[Item, ...]]:
        found: list[Item] = []
        while page := await self._journal.read(_STREAM, found[-1].seq if found else cursor, 7):
            found += page
        return cursor, tuple(found)

    async def _story(self, outcome: Outcome, driven: Turn) -> Story:
        items = tuple(await items_of(self._journal, _STREAM))
        return Story(
            policy=for_options(self._policy, self._task.options),
            outcome=outcome,
            items=items,
            facts=tuple(_decoded(item.data) for item in items),
            driven=driven,
            asked=tuple(asked for model in self._models for asked in model.asked),
            done=tuple(self._disk.done),
            files=self._disk.files,
            seen=tuple(self._seen),
            reread=tuple(
                [await self._reread(cursor) for cursor in (0, items[len(items) // 2].seq, items[-1].seq)]
            ),
            robbed=tuple(self._robbed),
            tool_runs=self._disk.runs,
            questions=self._luck.questions,
            appends=self._luck.appends,
            seconds=self.now,
            argument_characters=sum(model.argument_characters for model in self._models),
        )
