"""Every fault of one task, one world for each: every cut of every reply, every death, every theft, every
stop, and every moment at which a process may let go in good order."""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

from turnbuckle.testing.world.faults import (
    NOTHING,
    CutReply,
    EndKind,
    Fault,
    Kill,
    KillInTool,
    Leave,
    Nothing,
    Steal,
    StealInTool,
    StopInQuestion,
    StopInReply,
    StopInTool,
    singles,
)
from turnbuckle.testing.world.invariants import check_run, check_wanted
from turnbuckle.testing.world.run_world import RunWorld, Story, Task
from turnbuckle.turn.facts import ToolFinished
from turnbuckle.vocab.ids import ProtocolName

ENDS: tuple[EndKind, ...] = ("tidy", "reset", "stall")
_MOST_PROBLEMS = 20
_REMEMBERED = 8
"""Stories. A death right behind an append and one right before the next are so close together."""


class CampaignReport(Struct, frozen=True):
    """How many worlds were tried, by the kind of their fault, and what was wrong in them."""

    tried: dict[str, int]
    problems: tuple[str, ...]

    @property
    def worlds(self) -> int:
        return sum(self.tried.values())


def faults_of(story: Story, ends: tuple[EndKind, ...] = ENDS) -> Iterator[Fault]:
    """Every single fault that can come into a run which went like this one."""
    for reply, asked in enumerate(story.asked):
        for after in range(asked.events):
            yield from (CutReply(reply, after, end) for end in ends)
            yield StopInReply(reply, after)
    for append in range(story.appends):
        yield Kill(append, "before")
        yield Kill(append, "after")
        yield Kill(append, "after", power=True)
        yield Steal(append, "before")
        yield Steal(append, "after")
        yield Leave(append)
    for run in range(story.tool_runs):
        yield from (KillInTool(run, side) for side in ("before", "after"))
        yield from (StealInTool(run, side) for side in ("before", "after"))
        yield StopInTool(run)
    yield from (StopInQuestion(question) for question in range(story.questions))


async def try_every_fault(task: Task, protocol: ProtocolName) -> CampaignReport:
    """Play the task once as it should go, and then once with each fault."""
    story = await RunWorld(task, protocol=protocol).play()
    return await try_faults(task, protocol, (NOTHING, *faults_of(story)))


async def try_faults(task: Task, protocol: ProtocolName, faults: Iterable[Fault]) -> CampaignReport:
    """Play the task once with each of these faults."""
    tried: dict[str, int] = {}
    problems: list[str] = []
    judge = _Judge()
    for fault in faults:
        name = type(fault).__name__
        tried[name] = tried.get(name, 0) + 1
        try:
            played = await RunWorld(task, fault, protocol=protocol, hurried=True).play()
        except Exception as error:
            problems.append(f"{task.name}, {fault}: raised {error!r}")
        else:
            found = [
                *judge.problems_of(played),
                *(check_wanted(task, played) if _must_succeed(task, fault, played) else ()),
            ]
            problems += [f"{task.name}, {fault}: {problem}" for problem in found]
        if len(problems) > _MOST_PROBLEMS:
            break
    return CampaignReport(tried, tuple(problems[:_MOST_PROBLEMS]))


class _Judge:
    """Looks at each story once. About every third fault leads to one that another fault has led to just
    before."""

    def __init__(self) -> None:
        self._known: deque[tuple[Story, tuple[str, ...]]] = deque(maxlen=_REMEMBERED)

    def problems_of(self, story: Story) -> tuple[str, ...]:
        for known, problems in self._known:
            if known.tells_the_same(story):
                return problems
        problems = check_run(story)
        self._known.append((story, problems))
        return problems


def _must_succeed(task: Task, fault: Fault, story: Story) -> bool:
    """A stop changes the end, and so may a result that nobody knows. Nothing else may."""
    if isinstance(fault, Nothing):
        return True
    unknown = any(isinstance(fact, ToolFinished) and fact.outcome.status == "unknown" for fact in story.facts)
    stops = any(isinstance(one, StopInReply | StopInTool | StopInQuestion) for one in singles(fault))
    return task.steady and not unknown and not stops
