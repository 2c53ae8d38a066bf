"""Whole runs: the lab's provider over real sockets, the real call layer, driver and tools.

Time is virtual unless a scenario asks for the real one, so a silent hour takes a moment. Each route of a run plays a case
of the lab of its own. What a run left behind is a `RunRecord`: its facts, as a reader of the journal sees them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from turnbuckle.call.clock import SystemClock
from turnbuckle.call.health import HealthBook
from turnbuckle.call.limits import StallSettings
from turnbuckle.call.models import Models
from turnbuckle.call.routes import Route
from turnbuckle.call.transport import LINGER, Connections
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.lab.cases import CASES, find_case
from turnbuckle.lab.clock import RealClock
from turnbuckle.lab.provider import CASE_HEADER, Provider, Received
from turnbuckle.lab.script import Case
from turnbuckle.runtime.conversation import Conversations
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import RunRules, Runs
from turnbuckle.runtime.toolbox import Toolbox, facts_of
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import Denied, RunnableCall, Tool, ToolContext, tool
from turnbuckle.turn.facts import (
    Decided,
    Fact,
    ModelAsked,
    RunEnded,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
    decode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, TurnLimits
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import Event, ReasoningDelta, TextDelta
from turnbuckle.vocab.ids import ProtocolName, RouteName, RunId, SessionId
from turnbuckle.vocab.outcome import Outcome

T = TypeVar("T")
MAIN = "main"
TASK = "Do what there is to do."
FAST = StallSettings(connect=5, first_event=20, gap=10, gap_in_call=30, thinking=60, silence=8)
_QUIET = 0.001


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"It is fine in {city}."


@tool(effect="read")
async def get_time() -> str:
    """Tell the time."""
    return "It is noon."


@dataclass
class RunRecord:
    """What a run left behind, and what its providers were asked."""

    facts: list[Fact]
    turn: Turn
    requests: list[Received]
    workspace: Path
    seconds: float

    def of(self, kind: type[T]) -> list[T]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def outcome(self) -> Outcome:
        (ended,) = self.of(RunEnded)
        assert self.facts[-1] is ended
        return ended.outcome

    @property
    def asked(self) -> list[ModelAsked]:
        return self.of(ModelAsked)

    @property
    def decided(self) -> list[Decided]:
        return self.of(Decided)

    @property
    def started(self) -> list[ToolStarted]:
        return self.of(ToolStarted)

    @property
    def finished(self) -> list[ToolFinished]:
        return self.of(ToolFinished)

    @property
    def events(self) -> list[Event]:
        return [event for fact in self.of(Streamed) for event in fact.events]

    @property
    def shown(self) -> str:
        """All text that a reader was shown, in the order of the journal."""
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def notices(self) -> list[str]:
        return [decided.notice for decided in self.decided if decided.notice]

    def to(self, case: str) -> list[Received]:
        """The requests that a case got."""
        return [request for request in self.requests if request.case == case]

    def body(self, number: int) -> str:
        """The nth request as text, from 0."""
        return msgspec.json.encode(self.requests[number].body).decode()


@dataclass
class HarnessSettings:
    """How a harness is set up. Anything that is left out is as the program has it by default."""

    protocol: ProtocolName = "openai_chat"
    stall: StallSettings = FAST
    route: Mapping[str, Any] = field(default_factory=dict)
    limits: TurnLimits = field(default_factory=TurnLimits)
    policy: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    instead: tuple[Tool, ...] = ()  # tools that take the place of those with the same names
    decide: Callable[[RunnableCall], Awaitable[Denied | None]] | None = None
    real: bool = False
    watch: Callable[[str, Fact], None] | None = None


class RunHarness:
    """What a scenario has in its hands."""

    def __init__(
        self, folder: Path, provider: Provider, connections: Connections, clock: Any, setting: HarnessSettings
    ):
        self.provider = provider
        self.clock = clock
        self.call_clock = _Suspended(clock)
        self.setting = setting
        self.workspace, self.data = folder / "workspace", folder / "data"
        self.workspace.mkdir(exist_ok=True)
        self.data.mkdir(exist_ok=True)
        self.health = HealthBook()
        self.journal = MemoryJournal(monotonic=clock.now, wall=clock.now)
        self.policy = Policy(())
        self._connections = connections
        self._names = 0
        self.cases: Mapping[str, Case] = {}

    def set_up(self, cases: Mapping[str, Case]) -> None:
        """Build everything above the journal; after a crash, or for other cases, once more."""
        self.cases = cases
        setting, url = self.setting, self.provider.url + "/v1"
        routes = tuple(
            Route(
                RouteName(name),
                **{
                    "protocol": setting.protocol,
                    "base_url": url,
                    "model": f"model-of-{name}",
                    "stall": setting.stall,
                    "headers": {CASE_HEADER: case.name},
                    **setting.route,
                },
            )
            for name, case in cases.items()
        )
        usual = {
            one.name: one for one in (*BUILT_IN, get_weather, get_time, *setting.tools, *setting.instead)
        }
        dispatcher = Dispatcher(Registry(usual.values()))
        self.specs = dispatcher.registry.specs
        facts = tuple(route.facts for route in routes)
        self.policy = Policy(facts, facts_of(dispatcher), setting.limits, **setting.policy)
        context = ToolContext(
            workspace=self.workspace,
            data=self.data,
            clock=self.clock,
            threads=setting.real,
            environment={"PATH": "/usr/bin:/bin"},
        )
        self.models = Models(routes, self._connections, self.call_clock, self.health)
        self.runs = Runs(
            self.journal,
            RunRules(self.policy),
            self.models,
            lambda run: Toolbox(dispatcher, context, setting.decide),
            Environment(f"process {self._names}", self.clock.now, self.clock.sleep, self._name),
            watch=setting.watch,
        )

    async def start(self, task: str = TASK, session: SessionId | None = None) -> Running:
        return await self.runs.start(task, session)

    async def run(self, task: str = TASK, session: SessionId | None = None) -> "RunRecord":
        """A whole run, from its start to its end."""
        running = await self.start(task, session)
        await running.outcome()
        return await self.record(running.run)

    async def crash(self, running: Running) -> None:
        """The process dies, and the next one finds what was stored."""
        await running.abandon()
        self.journal = self.journal.after_kill()
        self.set_up(self.cases)

    async def resume(self, running: Running) -> "RunRecord":
        again = await self.runs.resume(running.run)
        await again.outcome()
        return await self.record(running.run)

    async def facts(self, run: RunId) -> list[Fact]:
        facts, after = [], 0
        while items := await self.journal.read(run, after):
            facts += [decode(item.data) for item in items]
            after = items[-1].seq
        return facts

    async def record(self, run: RunId) -> "RunRecord":
        facts = await self.facts(run)
        fold = TurnFold(self.policy)
        if facts and isinstance(facts[0], RunStarted):
            fold.base = await Conversations(self.journal, self.policy).before(facts[0])
        for fact in facts:
            fold.take(fact)
        return RunRecord(facts, fold.turn, list(self.provider.requests), self.workspace, self.clock.now())

    async def until(self, running: Running, kind: type[Fact], count: int = 1) -> None:
        """Wait for so many facts of a kind, or for the run's end."""
        while not running.done:
            facts = await self.facts(running.run)
            if sum(isinstance(fact, kind) for fact in facts) >= count:
                return
            await self.journal.wait(running.run, await self.journal.head(running.run))

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"


class _Suspended:
    """The clock of the call layer. `slept` is time that passed while the machine was asleep, unseen by the loop."""

    def __init__(self, clock: Any) -> None:
        self.slept = 0.0
        self._clock = clock

    def now(self) -> float:
        return float(self._clock.now()) + self.slept

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


Cases = Case | str | Mapping[str, Case | str]


def run_scenario(
    folder: Path, cases: Cases, scenario: Callable[[RunHarness], Awaitable[T]], **setting: Any
) -> T:
    """Run a scenario. `cases` is a case for the only route, or one for each route by its name."""
    given = cases if isinstance(cases, Mapping) else {MAIN: cases}
    played = {name: find_case(case) if isinstance(case, str) else case for name, case in given.items()}
    chosen = HarnessSettings(**setting)
    clock = _Real() if chosen.real else VirtualClock()

    async def main() -> T:
        async with AsyncExitStack() as stack:
            own = {case.name: case for case in (*CASES, *played.values())}
            provider = await stack.enter_async_context(Provider(cases=own.values(), clock=clock))
            connections = await stack.enter_async_context(Connections())
            harness = RunHarness(folder, provider, connections, clock, chosen)
            harness.set_up(played)
            result = await scenario(harness)
            if not chosen.real:
                await asyncio.sleep(LINGER + 0.5)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set(), left
        return result

    return asyncio.run(main()) if isinstance(clock, _Real) else clock.run(main, quiet=_QUIET)


class _Real(RealClock):
    """The machine's own time, as the program tells it."""

    now = SystemClock.now


def run_case(folder: Path, cases: Cases, **setting: Any) -> RunRecord:
    """One run to its end."""

    async def scenario(harness: RunHarness) -> RunRecord:
        return await harness.run()

    return run_scenario(folder, cases, scenario, **setting)
