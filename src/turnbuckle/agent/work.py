"""What an open agent does beside the service: it keeps runs together with the callers that they belong to.

A run is its own task. Whoever called for it is its first reader, and if that reader is cancelled or leaves,
the run is stopped: what it showed is stored, and the conversation goes on behind it. A run that was started
to go on by itself is let go of in good order when the agent closes, and can be resumed. All of it happens in
one event loop.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec
from msgspec import Struct

from turnbuckle.agent.approvals import Ask, Asker, Given, give
from turnbuckle.agent.events import Cursor, Event, EventRenderer
from turnbuckle.agent.result import Result, result_of
from turnbuckle.app import App, services_of
from turnbuckle.errors import BadKey, InvalidValue, KeyReused, RunUnfinished, TurnbuckleError
from turnbuckle.journal.port import Item, JournalError
from turnbuckle.narrate.receipt import Receipt
from turnbuckle.narrate.told import QuestionAsked
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import NewRun
from turnbuckle.service.owners import LOCAL, session_id
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.service.run_view import RunFold
from turnbuckle.service.stores import RequestKey
from turnbuckle.session.facts import Busy
from turnbuckle.turn import approvals as asking
from turnbuckle.turn import facts
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.request import RunOptions

CANCELLED = "its caller was cancelled"
CLOSED = "the agent was closed"
MOST_LOST = 100
"""Runs of which is kept why they were let go of. It only adds words to an error, and the log has it too."""
KEYS = f"{LOCAL} agent"
"""To whom the keys of tasks belong: they are not those of requests to a server over the same journal."""
ORIGIN = Origin(model="agent")


class Assignment(Struct, frozen=True):
    """What is to be done, where, and how. `first` stands in front of this run, in place of what stands in
    front of every conversation. `deps` is handed to its tools."""

    message: Message
    session: str = ""
    busy: Busy | None = None
    key: str = ""
    options: RunOptions = RunOptions()
    first: tuple[Message, ...] | None = None
    deps: Any = None


class RunDeps:
    """What is handed to the tools of runs: what a run was given, or else what the agent was."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual
        self._given: dict[RunId, Any] = {}

    def keep(self, run: RunId, deps: Any) -> None:
        self._given[run] = deps

    def forget(self, run: RunId) -> None:
        self._given.pop(run, None)

    def of(self, run: RunId) -> Any:
        return self._given.get(run, self._usual)


class AgentRuns:
    """An open agent's runs."""

    def __init__(
        self,
        opened: App,
        first: tuple[Message, ...],
        ask: Ask | None,
        gone: Callable[[str], None],
        deps: "RunDeps",
    ) -> None:
        """`first` stands in front of every conversation, `ask` answers what runs ask, and `gone` is told of
        every run that is no longer driven here. `deps` keeps what is handed to tools."""
        services = services_of(opened)
        self.runs, self.sessions, self._lifecycle = services.runs, services.sessions, services.lifecycle
        self.rules = services.rules
        self._opened = opened
        self._first = first
        self._gone = gone
        self._deps = deps
        self._asker = None if ask is None else Asker(opened.journal, ask)
        self._attended: set[str] = set()
        self._mine: set[RunId] = set()
        self._lost: dict[str, BaseException] = {}
        self._chores: set[asyncio.Task[Any]] = set()
        self.runs.watch.add(self)

    # Looking on

    def began(self, running: Running) -> None:
        self._lost.pop(running.run, None)
        if self._asker is not None and running.run not in self._attended:
            self._attended.add(running.run)
            self._asker.attend(running)

    def awaits(self, run: RunId, on_disconnect: str) -> None:
        """Runs of an agent have no readers who could come back."""

    def gone(self, run: RunId, error: BaseException | None) -> None:
        self._attended.discard(run)
        self._gone(run)
        self._deps.forget(run)
        if error is not None:
            self._lost[run] = error
            if len(self._lost) > MOST_LOST:
                del self._lost[next(iter(self._lost))]

    # Beginning

    async def begin(self, task: Assignment) -> RunHandle:
        """Begin a run, or find the one that the same key began. If the caller is cancelled meanwhile,
        whatever was begun is stopped."""
        beginning = self._chore(self._begin(task))
        try:
            begun: RunHandle = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await asyncio.shield(self._chore(self._undo(beginning)))
            raise
        return begun

    async def _begin(self, task: Assignment) -> RunHandle:
        session, user = None, LOCAL
        if task.session:
            session = session_id(LOCAL, task.session, param="the name of a session")
            user = await self.sessions.user_of(session)
        names = [route.name for route in self._opened.runs.policy.routes]
        if task.options.route and task.options.route not in names:
            raise InvalidValue(
                f"there is no route {task.options.route}; there are {', '.join(names)}", "route"
            )
        new = NewRun((task.message,), session, user=user, origin=ORIGIN, options=task.options)
        try:
            begun = await self.runs.begin(
                new,
                first=self._first if task.first is None else task.first,
                anew=task.first is not None,
                busy=task.busy,
                key=_key(task) if task.key else None,
                commands=False,
                named=None if task.deps is None else lambda run: self._deps.keep(run, task.deps),
            )
        except BadKey as error:
            raise BadKey(str(error).replace("Idempotency-Key", "key"), "key") from None
        except KeyReused:
            raise KeyReused(f"the key {task.key!r} was used for another task; use a new one") from None
        if begun.mine:
            self._mine.add(begun.run)
        return begun

    def detach(self, begun: RunHandle) -> None:
        """The run is over, or goes on without whoever began it."""
        if begun.mine:
            self._mine.discard(begun.run)

    # Following

    async def follow(self, run: RunId, after: Cursor) -> AsyncGenerator[Event]:
        """Everything behind the cursor, then what comes, to the end of the run."""
        if after.seq > (head := await self.runs.head(run)):
            raise ValueError(f"there is no event {after.seq} in the run {run}: the last one is {head}")
        renderer = EventRenderer(run, after)
        async with contextlib.aclosing(self._items(run)) as pages:
            async for items in pages:
                for item in items:
                    for event in renderer.take(item):
                        yield event
                if renderer.over:
                    return
                if items[-1].seq <= after.read_after:
                    await asyncio.sleep(0)  # a long run that is only read must not hold up others

    async def result(self, run: RunId) -> Result:
        """Wait for the end of a run, and give all of it."""
        fold = RunFold(self._opened.runs.policy)
        async with contextlib.aclosing(self._items(run)) as pages:
            async for items in pages:
                for item in items:
                    fold.take(item.seq, facts.decode(item.data))
                if fold.turn.outcome is not None:
                    break
                await asyncio.sleep(0)  # a long run that is only read must not hold up those that are driven
        row = await self.runs.row(run)
        if (live := self.runs.live(run)) is not None:
            await live.settled()
        return result_of(fold, row)

    async def _items(self, run: RunId) -> AsyncGenerator[list[Item]]:
        try:
            async with contextlib.aclosing(self.runs.follow(run)) as pages:
                async for items in pages:
                    yield items
        except RunUnfinished as error:
            why = f": {self._lost[run]}" if run in self._lost else ""
            raise RunUnfinished(f"{error}{why}; agent.resume() goes on") from None

    # Stopping

    async def interrupt(self, run: str, by: str) -> Receipt:
        """End a run because somebody wants that, and keep the conversation."""
        return await self.runs.interrupt((await self.runs.find(run)).run, None, by)

    async def stop(self, run: str, by: str) -> Receipt:
        """End a run because somebody wants that: the next message of its session starts fresh."""
        return await self.runs.stop((await self.runs.find(run)).run, None, by)

    async def ended_for(self, begun: RunHandle) -> None:
        """Its caller has gone: end what was driven for it alone. A second cancellation does not break this
        off."""
        if begun.mine and begun.run in self._mine:
            await asyncio.shield(self._chore(self._let_end(begun.run)))

    async def _let_end(self, run: RunId) -> None:
        with contextlib.suppress(TurnbuckleError, JournalError):  # whoever is cancelled is told nothing else
            await self.runs.end(run, None, CANCELLED, suspends=False)
        self._mine.discard(run)

    async def _undo(self, beginning: "asyncio.Task[RunHandle]") -> None:
        with contextlib.suppress(TurnbuckleError, JournalError, ValueError):
            begun = await beginning
            if begun.mine and begun.run in self._mine:
                await self._let_end(begun.run)

    async def resume(self, run: str) -> tuple[str, ...]:
        """Go on with a run, or with all that have no end if none is named."""
        if not run:
            return await self._lifecycle.resume_all()
        known = (await self.runs.find(run)).run
        return (known,) if await self.runs.go_on(known) else ()

    # People

    async def questions(self) -> tuple[QuestionAsked, ...]:
        """What waits for an answer in the runs that are driven here."""
        found: list[QuestionAsked] = []
        for running in self._opened.runs.all_live:
            open_ids = {call.consent.id for call in asking.open_in(running.turn) if call.consent is not None}
            if not open_ids:
                continue
            renderer = EventRenderer(running.run, Cursor())
            async for items in self.runs.stored(running.run):
                for event in (event for item in items for event in renderer.take(item)):
                    if isinstance(event, QuestionAsked) and event.approval in open_ids:
                        found.append(event)
        return tuple(found)

    async def answer(self, question: QuestionAsked, answer: Given, by: str) -> bool:
        running = self.runs.live(RunId(question.run))
        if running is None:
            return False
        return await give(running, question.kind == "question", question.approval, answer, by)

    # Closing

    async def close(self) -> None:
        """End what belongs to callers that are gone, let go of everything else in good order."""
        for run in tuple(self._mine):
            await self._let_end(run)
        while self._chores:
            await asyncio.wait(self._chores)
        await self._lifecycle.leave_all(0.0, CLOSED)
        if self._asker is not None:
            await self._asker.close()

    def _chore(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Something that comes to its end even if nobody waits for it any more."""
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        return task


def _key(task: Assignment) -> RequestKey:
    said = facts.encode(facts.UserSpoke(0.0, task.session, (task.message,)))
    if task.options != RunOptions() or task.first is not None:
        said += msgspec.json.encode((task.options, task.first))
    return RequestKey(KEYS, task.key, hashlib.sha256(said).hexdigest())
