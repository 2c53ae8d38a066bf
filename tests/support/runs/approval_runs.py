"""Runs that ask people: a scripted model, tools that are counted, a journal that takes its time, and time
on request. The runs are real ones, with claims and leases."""

import asyncio

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import StorageFull
from turnbuckle.runtime.ports import Model, Tools
from turnbuckle.runtime.runs import NewRun, RunRules, Runs
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.consent import written
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, decode
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.vocab.events import CallArgs, CallClosed, CallStarted, Cut, Ended, FinishNoted, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.request import ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome, finished, not_started

TOOLS = {
    "look": ToolFacts("read"),
    "shell": ToolFacts("write", subject="command", is_command=True),
    "ask_user": ToolFacts("read", asks=True),
}
ROUTE = RouteFacts(RouteName("main"), "openai_chat", "m")
POLICY = Policy((ROUTE,), TOOLS, consent=written({"shell": "ask"}), answer_seconds=600.0)
HELLO = [TextDelta(0, "Hello."), FinishNoted("stop", "stop"), Ended("end")]
HANG = None
"""A reply that says a word and then nothing until it is stopped."""


def call(*made):
    """A reply with calls; each is a name, or a name and the text of its arguments."""
    events = []
    for block, one in enumerate(made):
        name, arguments = (one, "{}") if isinstance(one, str) else one
        events += [CallStarted(block, f"c{block}", name), CallArgs(block, arguments), CallClosed(block)]
    return [*events, FinishNoted("calls", "tool_calls"), Ended("end")]


SHELL = ("shell", '{"command": "make"}')
QUESTION = ("ask_user", '{"question": "Which?"}')


class SlowJournal(MemoryJournal):
    """Every append takes some turns of the loop before it is stored, and some more before its writer hears of it."""

    before = 2
    behind = 2
    full = 0

    async def append(self, *args, **named):
        for _ in range(self.before):
            await asyncio.sleep(0)
        if self.full:
            self.full -= 1
            raise StorageFull("no room")
        head = await super().append(*args, **named)
        for _ in range(self.behind):
            await asyncio.sleep(0)
        return head


class ScriptedReplies(Model):
    """One reply after the other, and then again the last."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.requests = []

    async def attempt(self, route, request, stop):
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply is HANG:
            yield [TextDelta(0, "word")]
            await stop.wait()
            reply = [Cut(failure("cancelled", "stopped"))]
        for event in reply:
            yield [event]


class CountingTools(Tools):
    """Counts what it runs. `slow` tools run until they are stopped."""

    def __init__(self, slow=()):
        self.ran = []
        self.slow = slow

    def specs(self):
        return tuple(ToolSpec(name) for name in (*TOOLS, "finish_call"))

    async def refuse(self, call):
        return None if call.name in TOOLS else not_started(f"There is no tool with the name {call.name!r}.")

    async def run(self, call, key, said, stop, seen=None):
        self.ran.append((call.name, call.arguments))
        if call.name in self.slow:
            await stop.wait()
            return ToolOutcome("killed")
        return finished("ok")


class ApprovalHarness:
    """A journal, a clock, and processes that share them."""

    def __init__(self, clock, *replies, policy=POLICY, journal=MemoryJournal, tools=None):
        self.clock = clock
        self.journal = journal(monotonic=clock.now, wall=clock.now)
        self.model = ScriptedReplies(*replies)
        self.tools = tools or CountingTools()
        self.policy = policy

    def process(self, name="a", policy=None):
        rules = RunRules(policy or self.policy)
        return Runs(self.journal, rules, self.model, lambda run: self.tools, self.clock.environment(name))

    async def asked(self, runs=None, count=1):
        """A run that has asked so many questions."""
        running = await (runs or self.process()).start("Do it.")
        await self.until(running.run, ApprovalAsked, count)
        return running

    async def until(self, run, kind, count=1):
        while sum(isinstance(fact, kind) for fact in await self.facts(run)) < count:
            await self.journal.wait(run, await self.journal.head(run))

    async def facts(self, run):
        found, after = [], 0
        while items := await self.journal.read(run, after):
            found += [decode(item.data) for item in items]
            after = items[-1].seq
        return found

    async def of(self, run, kind):
        return [fact for fact in await self.facts(run) if isinstance(fact, kind)]

    async def verdicts(self, run):
        return [fact.verdict for fact in await self.of(run, ApprovalAnswered)]

    def crash(self):
        """The process is gone; what was stored is there."""
        self.journal = self.journal.after_kill()


def new_run(text="Do it.", **more):
    return NewRun((Message("user", (TextPart(text),)),), **more)


def run_scenario(scenario, *replies, **setting):
    """Run a scenario, in virtual time."""
    clock = VirtualClock(1_000.0)

    async def play():
        harness = ApprovalHarness(clock, *replies, **setting)
        result = await scenario(harness)
        for _ in range(5):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set(), left
        return result

    return clock.run(play, quiet=0)
