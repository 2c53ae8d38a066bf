"""Whatever a person asks of a session or a run while the store fails at any of its operations, by any kind of error: the
answer is a result, or an error that clients are told in words; and the session goes on afterwards."""

import asyncio

import pytest
from support.runs.approval_runs import HANG, HELLO, POLICY, CountingTools, ScriptedReplies

from turnbuckle.errors import TurnbuckleError
from turnbuckle.journal.port import JournalError
from turnbuckle.runtime.runs import NewRun, RunRules, Runs
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.server.http.problems import problem_of
from turnbuckle.service.owners import Caller
from turnbuckle.service.services import make_services
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.storing import FailingJournal, Misfortune
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message, TextPart

HERE, ANN = SessionId("s"), "ann"
KINDS = ("full", "damaged", "fenced", "conflict")
LONG = 200.0
"""Seconds of virtual time in which everything must have come to its end: more than a claim lasts."""


def said(text):
    return NewRun((Message("user", (TextPart(text),)),), HERE, user=ANN)


class Bench:
    """A session with an answered message and, if wanted, a run that is under way and one that waits."""

    def __init__(self, clock, *, busy):
        self.clock = clock
        self.journal = FailingJournal(clock, clock.now)
        self.model = ScriptedReplies(HELLO, HANG, HELLO) if busy else ScriptedReplies(HELLO)
        tools = CountingTools()
        self.runs = Runs(
            self.journal, RunRules(POLICY), self.model, lambda run: tools, clock.environment("a")
        )
        self.services = make_services(self.journal, self.runs, SessionRules())
        self._busy = busy
        self.first = self.under_way = self.waits = None

    async def prepare(self):
        self.first = (await self.services.runs.begin(said("one"), first=())).run
        await self.over(self.first)
        if self._busy:
            self.under_way = (await self.services.runs.begin(said("two"), first=())).run
            self.waits = (await self.services.runs.begin(said("three"), first=())).run

    async def over(self, run):
        async for _ in self.services.runs.follow(run):
            pass

    @property
    def last(self):
        return self.under_way or self.first

    async def row(self):
        return await self.services.sessions.row(HERE, ANN)

    async def change(self, verb):
        return await self.services.sessions.change(await self.row(), Caller(ANN), verb, None)

    async def on_row(self, name, *more):
        return await getattr(self.services.sessions, name)(await self.row(), *more)

    async def still_answers(self):
        """Whoever is told to come back does."""
        if self.under_way is not None:
            await self.persist(lambda: self.services.runs.stop(self.under_way, ANN, ANN))
        begun = await self.persist(lambda: self.services.runs.begin(said("and now?"), first=()))
        async with asyncio.timeout(LONG):
            await self.persist(lambda: self.over(begun.run))
        return (await self.services.runs.view(begun.run, ANN)).status

    async def persist(self, ask):
        for _ in range(100):
            try:
                return await ask()
            except (TurnbuckleError, JournalError):
                await self.clock.sleep(2.0)
        return await ask()


OPERATIONS = {
    "stop a run": lambda bench: bench.services.runs.stop(bench.last, ANN, ANN),
    "stop one that waits": lambda bench: bench.services.runs.stop(bench.waits or bench.first, ANN, ANN),
    "delete a run": lambda bench: bench.services.runs.delete(bench.first, ANN),
    "view a run": lambda bench: bench.services.runs.view(bench.last, ANN),
    "say more": lambda bench: bench.services.runs.begin(said("more"), first=()),
    "steer": lambda bench: bench.services.runs.begin(said("more"), first=(), busy="steer"),
    "interrupt": lambda bench: bench.services.runs.begin(said("more"), first=(), busy="interrupt"),
    "stop": lambda bench: bench.change("stop"),
    "new": lambda bench: bench.change("new"),
    "undo": lambda bench: bench.change("undo"),
    "retry": lambda bench: bench.change("retry"),
    "fork": lambda bench: bench.on_row("fork", ANN),
    "rename": lambda bench: bench.on_row("rename", "Another title"),
    "inbox": lambda bench: bench.on_row("live_state"),
    "delete": lambda bench: bench.on_row("delete"),
}


async def beside_another(bench, operation):
    """Somebody else says something at the same moment."""
    both = await asyncio.gather(
        bench.services.runs.begin(said("beside"), first=()),
        OPERATIONS[operation](bench),
        return_exceptions=True,
    )
    errors = [one for one in both if isinstance(one, Exception)]
    for error in sorted(errors, key=is_told):  # what nobody is told comes first
        raise error


def play(operation, misfortune=None, *, busy, crowded=False):
    clock = VirtualClock()

    async def main():
        bench = Bench(clock, busy=busy)
        await bench.prepare()
        bench.journal.count, bench.journal.misfortune = 0, misfortune
        error: Exception | None = None
        try:
            async with asyncio.timeout(LONG):
                await (beside_another(bench, operation) if crowded else OPERATIONS[operation](bench))
        except Exception as raised:
            error = raised
        count, bench.journal.misfortune = bench.journal.count, None
        status = await bench.still_answers()
        await bench.services.stores.manager.close()
        return error, count, status

    return clock.run(main, quiet=0)


def is_told(error):
    """Whether a client gets words for it, and no 500."""
    if isinstance(error, TurnbuckleError):
        return problem_of(error) is not None
    return error is None or isinstance(error, JournalError)


@pytest.mark.requirement("E10", "G6")
@pytest.mark.parametrize(
    "busy, crowded", [(False, False), (True, False), (True, True)], ids=["at rest", "under way", "crowded"]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_whatever_is_asked_while_the_store_fails_is_told_and_the_session_goes_on(
    operation, busy, crowded, record_property
):
    _, count, status = play(operation, busy=busy, crowded=crowded)
    assert status == "completed"
    wrong, worlds = [], 0
    for kind in KINDS:
        for at in range(count):
            error, _, status = play(operation, Misfortune(kind, at), busy=busy, crowded=crowded)
            worlds += 1
            if not is_told(error) or status != "completed":
                wrong.append((kind, at, repr(error), status))
    record_property("worlds tried", worlds)
    assert wrong == []
