"""A run is interrupted at every point, and the next process has other settings: it goes on, or ends with words."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from support.worlds.asking_tasks import ASKING_TASKS as ASKING
from support.worlds.relay_tasks import RELAY_TASKS as RELAY
from support.worlds.tasks import TASKS

from turnbuckle.call.health import HealthBook
from turnbuckle.call.models import Models
from turnbuckle.call.routes import Route
from turnbuckle.call.transport import Connections
from turnbuckle.lab.rehearsal.model import Rehearsal
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.models import RoutedModels
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.faults import Kill
from turnbuckle.testing.world.model import WorldModel
from turnbuckle.testing.world.run_world import RunWorld, Story, Task
from turnbuckle.testing.world.tools import WorldTools
from turnbuckle.turn.facts import RunEnded
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.ids import PROTOCOL_NAMES, RouteName
from turnbuckle.vocab.request import RunOptions
from turnbuckle.vocab.tooling import not_started

Change = Callable[[Policy], Policy]
NAMED = {task.name: task for task in (*TASKS, *RELAY, *ASKING)}
WISHED = replace(NAMED["one tool"], options=RunOptions(route=RouteName("route0")))


def routes(**changes) -> Change:
    return lambda policy: replace(policy, routes=tuple(replace(route, **changes) for route in policy.routes))


def renamed(policy: Policy) -> Policy:
    return replace(
        policy, routes=tuple(replace(one, name=RouteName(f"new-{one.name}")) for one in policy.routes)
    )


def of_another_protocol(policy: Policy) -> Policy:
    after = {
        protocol: PROTOCOL_NAMES[(at + 1) % len(PROTOCOL_NAMES)] for at, protocol in enumerate(PROTOCOL_NAMES)
    }
    return replace(policy, routes=tuple(replace(one, protocol=after[one.protocol]) for one in policy.routes))


CHANGES: dict[str, Change] = {
    "routes renamed": renamed,
    "routes renamed, with another protocol": lambda policy: renamed(of_another_protocol(policy)),
    "another protocol": of_another_protocol,
    "another model": routes(model="another"),
    "a smaller limit": routes(cap=5, cap_most=5),
    "only the last route is left": lambda policy: replace(policy, routes=policy.routes[-1:]),
    "all tools removed": lambda policy: replace(policy, tools={}),
    "nobody attends": lambda policy: replace(policy, attended=False),
    "no consent is asked for": lambda policy: replace(policy, consent=()),
}


class FewerTools(WorldTools):
    """Those that the settings do not name are gone."""

    known: frozenset[str] = frozenset()

    async def refuse(self, call):
        if call.name not in self.known:
            return not_started(f"There is no tool with the name {call.name!r}.")
        return await super().refuse(call)


class ChangedScene(RunWorld):
    """A world in which the settings change with the first restart."""

    def __init__(self, task: Task, append: int, change: Change) -> None:
        super().__init__(task, Kill(append, "after"), hurried=True)
        self._change = change

    async def _next_life(self, claim):
        found = await super()._next_life(claim)
        self._policy = self._change(self._policy)
        return found

    def _live(self, claim) -> Driver:
        names = [route.name for route in self._policy.routes]
        brains = dict(zip(names, self._task.brains[-len(names) :], strict=True))
        protocols = {route.name: route.protocol for route in self._policy.routes}
        model = WorldModel(brains, self._process, protocols=protocols, kill_after=self._task.kill_after)
        self._models.append(model)
        tools = FewerTools(self._disk, self._process)
        tools.known = frozenset(self._policy.tools)
        log = RunLog(self._process, claim, TurnFold(self._policy))
        driver = Driver(log, model, tools, self._environment)
        self._process.stop = driver.stop.ask
        return driver


def problems(story: Story) -> list[str]:
    ends = [fact for fact in story.facts if isinstance(fact, RunEnded)]
    found = [] if len(ends) == 1 and story.facts[-1] is ends[0] else [f"{len(ends)} ends"]
    if story.outcome.kind != "completed" and not story.outcome.why:
        found.append(f"{story.outcome.kind} without a word")
    twice = Counter(done.key for done in story.done if story.policy.tool(done.name).effect == "write")
    return found + [f"{key} was done {count} times" for key, count in twice.items() if count > 1]


CHOSEN = ("one tool", "a draft, finished at once", "write, then read", "a plain answer")


def tasks() -> list[Task]:
    chosen = [NAMED[name] for name in CHOSEN]
    with_people = [*ASKING[::6], *RELAY[::6]]
    two_routes = [task for task in TASKS if len(task.brains) > 1][:1]
    return [*chosen, WISHED, *with_people, *two_routes]


@pytest.mark.exhaustive
@pytest.mark.requirement("G10")
@pytest.mark.parametrize("change", CHANGES)
def test_a_run_that_was_interrupted_anywhere_goes_on_or_ends_with_words_under_other_settings(
    change, record_property
):
    found: list[str] = []

    async def all_of_them() -> int:
        worlds = 0
        for task in tasks():
            base = await RunWorld(task).play()
            for append in range(base.appends):
                story = await ChangedScene(task, append, CHANGES[change]).play()
                found.extend(f"{task.name}, killed behind {append}: {problem}" for problem in problems(story))
                worlds += 1
        return worlds

    worlds = asyncio.run(all_of_them())
    record_property("worlds tried", worlds)
    assert found == []
    assert worlds > 100


@pytest.mark.requirement("G10")
def test_a_route_that_is_not_in_the_settings_any_more_is_any_route():
    async def main():
        clock = VirtualClock()
        known = [
            Route(RouteName(name), "openai_chat", "http://127.0.0.1:1/v1", "m") for name in ("one", "two")
        ]
        async with Connections() as connections:
            models = Models(known, connections, clock, HealthBook())
            assert models.choose(RouteName("gone")) == "one"
            assert models.choose(RouteName("two")) == "two"
            assert models.streams(RouteName("gone"))

    asyncio.run(main())


@pytest.mark.requirement("G10")
def test_a_run_of_a_route_that_is_gone_goes_on_also_where_only_the_rehearsal_is_left():
    """No route is live then; the rules of the run say which of the others it is."""

    async def main():
        clock = VirtualClock()
        async with Connections() as connections:
            live = Models([], connections, clock, HealthBook())
            models = RoutedModels(live, {RouteName("new"): Rehearsal()})
            policy = Policy((RouteFacts(RouteName("new"), "openai_chat", "rehearsal"),))
            assert policy.route(models.choose(RouteName("gone"))).name == "new"
            assert models.streams(RouteName("gone"))

    asyncio.run(main())
