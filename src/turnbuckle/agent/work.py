"""What an open agent does: begin runs, follow them, stop them, take them up again. All of it in one event loop.

A run is its own task. Whoever called for it is its first reader, and if that reader is cancelled or leaves, the run is
stopped: what it showed is stored, and the conversation goes on behind it. A run that was started to go on by itself is
let go of in good order when the agent closes, and can be resumed.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.agent.asking import Ask, Asker, give
from turnbuckle.agent.events import ApprovalAsked, Cursor, Event, Telling, asked
from turnbuckle.agent.result import Result, result_of
from turnbuckle.app import App, lanes_of, new_name
from turnbuckle.errors import KeyReused, RunUnfinished, RunUnknown, SessionBusy, TurnbuckleError
from turnbuckle.journal.port import Item, JournalError, StreamRow, Wanted
from turnbuckle.runtime.lane import ACTIVE
from turnbuckle.runtime.lane import KIND as SESSION
from turnbuckle.runtime.once import Again, First, Once, Other, key_fault
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, NewRun, listed
from turnbuckle.runtime.saying import Said
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.server.http import Problem
from turnbuckle.server.names import LOCAL, session_id
from turnbuckle.server.run_view import RunFold
from turnbuckle.session.facts import Busy
from turnbuckle.turn import asking, facts
from turnbuckle.turn.receipt import Receipt, receipt
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message

CANCELLED = "its caller was cancelled"
CLOSED = "the agent was closed"
WITHDRAWN = "it was taken back before its turn came"
PATIENCE = 3.0
"""Seconds without a driver after which a run is called unfinished. A session that lost its run takes it up again after
one."""
STOP_SECONDS = 5.0
"""How long a stop waits for the end that it asked for. Everything under way ends within a second, except a store that
does not answer."""
MOST_LOST = 100
"""Runs of which is kept why they were let go of. It only adds words to an error, and the log has it too."""
KEYS = f"{LOCAL} agent"
"""To whom the keys of tasks belong: they are not those of requests to a server over the same journal."""
ASKED: dict[str, Any] = {"surface": "runs", "model": "agent"}


class Promised(Struct, frozen=True):
    """A run that was begun, now or under the same key before. `mine`: it is driven because of this call, so it ends
    with its caller. `after` is where the answer begins in a run that was steered."""

    run: RunId
    session: SessionId
    mine: bool = True
    after: int = 0


class Assignment(Struct, frozen=True):
    """What is to be done, and where."""

    message: Message
    session: str = ""
    busy: Busy | None = None
    key: str = ""


class Work:
    """An open agent's runs."""

    def __init__(
        self, opened: App, first: tuple[Message, ...], ask: Ask | None, gone: Callable[[str], None] | None = None
    ) -> None:
        """`first` stands in front of every conversation, `ask` answers what runs ask, and `gone` is told of every run
        that is no longer driven here."""
        self.opened = opened
        self.journal = opened.journal
        self.runs = opened.runs
        self.lanes = lanes_of(opened, self._began)
        self.sessions = Sessions(opened.journal, opened.runs, owner=opened.owner, wall=time.time)
        self._first = first
        self._gone = gone
        self._once = Once(opened.journal, opened.owner, time.time, opened.runs.new_id)
        self._asker = None if ask is None else Asker(opened.journal, ask)
        self._attended: set[str] = set()
        self._mine: set[RunId] = set()
        self._lost: dict[str, BaseException] = {}
        self._chores: set[asyncio.Task[Any]] = set()

    # Beginning

    async def begin(self, task: Assignment) -> Promised:
        """Begin a run, or find the one that the same key began. If the caller is cancelled meanwhile, whatever was
        begun is stopped."""
        beginning = self._chore(self._begin(task))
        try:
            promised: Promised = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await asyncio.shield(self._chore(self._undo(beginning)))
            raise
        return promised

    async def _begin(self, task: Assignment) -> Promised:
        run, session = self.runs.new_id(), SessionId("")
        if task.session:
            session = named(task.session)
        if task.key:
            reserved = await self._reserved(task)
            run, again = reserved.run, isinstance(reserved, Again)
            session = session or SessionId(f"s{run.removeprefix('r')}")
            async with self._once.starting(run) as fresh:
                if fresh:
                    return await self._say(task, run, session, again=again)
            mine = await self.go_on(run)
            if mine:
                self._mine.add(run)
            return Promised(run, session, mine)
        return await self._say(task, run, session or SessionId(new_name("s")))

    async def _reserved(self, task: Assignment) -> First | Again:
        if fault := key_fault(task.key):
            raise ValueError(fault.replace("Idempotency-Key", "key"))
        said = facts.encode(facts.UserSpoke(0.0, task.session, (task.message,)))
        reserved = await self._once.reserve(KEYS, task.key, hashlib.sha256(said).hexdigest())
        if isinstance(reserved, Other):
            raise KeyReused(f"the key {task.key!r} was used for another task; use a new one")
        return reserved

    async def _session_user(self, session: SessionId) -> str:
        found = await self.journal.streams(Wanted(kind=SESSION, name=session), limit=1)
        return found[0].user if found else LOCAL

    async def _say(self, task: Assignment, run: RunId, session: SessionId, *, again: bool = False) -> Promised:
        user = await self._session_user(session)
        new = NewRun((task.message,))
        await self.sessions.create(session, user, new.title)
        said = Said((task.message,), task.busy, asked=ASKED, first=self._first, run=run, again=again)
        taken = await self.lanes.with_lane(session, user, lambda lane: lane.say(said))
        mine = taken.run == run
        if mine:
            self._mine.add(run)
        return Promised(taken.run, session, mine, taken.after)

    def detach(self, promised: Promised) -> None:
        """The run is over, or goes on without whoever began it."""
        if promised.mine:
            self._mine.discard(promised.run)

    def _began(self, running: Running, user: str) -> None:
        self._lost.pop(running.run, None)
        if self._asker is not None and running.run not in self._attended:
            self._attended.add(running.run)
            self._asker.attend(running)

        def over(error: BaseException | None) -> None:
            self._attended.discard(running.run)
            if self._gone is not None:
                self._gone(running.run)
            if error is not None:
                self._lost[running.run] = error
                if len(self._lost) > MOST_LOST:
                    del self._lost[next(iter(self._lost))]

        running.when_done(over)

    # Following

    async def follow(self, run: RunId, after: Cursor) -> AsyncGenerator[Event]:
        """Everything behind the cursor, then what comes, to the end of the run."""
        if after.seq > (head := await self.journal.head(run)):
            raise ValueError(f"there is no event {after.seq} in the run {run}: the last one is {head}")
        telling = Telling(run, after)
        async with contextlib.aclosing(self._items(run, 0)) as pages:
            async for items in pages:
                for item in items:
                    for event in telling.take(item):
                        yield event
                if telling.over:
                    return
                if items[-1].seq <= after.read_after:
                    await asyncio.sleep(0)  # a long run that is only read must not hold up those that are driven

    async def result(self, run: RunId) -> Result:
        """Wait for the end of a run, and give all of it."""
        fold = RunFold(self.runs.policy, self.opened.price)
        async with contextlib.aclosing(self._items(run, 0)) as pages:
            async for items in pages:
                for item in items:
                    fold.take(item.seq, facts.decode(item.data))
                if fold.turn.outcome is not None:
                    break
                await asyncio.sleep(0)  # a long run that is only read must not hold up those that are driven
        row = await self.row(run)
        live = self.runs.live(run)
        if live is not None:
            await live.settled()
        return result_of(fold, row)

    async def _items(self, run: RunId, after: int) -> AsyncGenerator[list[Item]]:
        while True:
            items = await self.journal.read(run, after)
            if items:
                after = items[-1].seq
                yield items
                continue
            if await self._is_over(run):
                if await self.journal.head(run) <= after:
                    return
                continue
            driven = await self._is_cared_for(run)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE if driven else 0):
                    await self.journal.wait(run, after)
                continue
            if not self._is_driven(run) and not await self._is_over(run):
                why = f": {self._lost[run]}" if run in self._lost else ""
                raise RunUnfinished(f"the run {run} has no end, and nobody drives it{why}; agent.resume() goes on")

    def _is_driven(self, run: RunId) -> bool:
        return self.runs.live(run) is not None or self.lanes.waiting(run, None) is not None

    async def _is_cared_for(self, run: RunId) -> bool:
        """Whether it is driven, or its session is at work and will drive it again in a moment."""
        if self._is_driven(run):
            return True
        found = await self.journal.streams(Wanted(name=run), limit=1)
        return not found or self.lanes.of(SessionId(found[0].parent)) is not None

    async def _is_over(self, run: RunId) -> bool:
        live = self.runs.live(run)
        if live is not None:
            return live.turn.outcome is not None
        found = await self.journal.streams(Wanted(name=run), limit=1)
        return bool(found) and found[0].status not in ("", RUNNING)

    async def row(self, run: str) -> StreamRow:
        """Raises RunUnknown."""
        found = await self.journal.streams(Wanted(kind=RUN, name=run), limit=1)
        if not found:
            raise RunUnknown(f"there is no run {run}")
        return found[0]

    async def known(self, run: str) -> RunId:
        """The run, also one that waits for its turn. Raises RunUnknown."""
        if await self.lanes.find_waiting(run, None) is None:
            await self.row(run)
        return RunId(run)

    # Stopping

    async def stop(self, run: RunId, by: str) -> Receipt:
        """End a run because somebody wants that: the next message of its session begins anew."""
        too_late = not await self._end(run, by, suspends=True)
        read = [facts.decode(item.data) async for items in self._stored(run) for item in items]
        return receipt(read, too_late=too_late)

    async def ended_for(self, promised: Promised) -> None:
        """Its caller has gone: end what was driven for it alone. A second cancellation does not break this off."""
        if promised.mine and promised.run in self._mine:
            await asyncio.shield(self._chore(self._let_end(promised.run)))

    async def _let_end(self, run: RunId) -> None:
        with contextlib.suppress(TurnbuckleError, JournalError):  # whoever is cancelled is told nothing else
            await self._end(run, CANCELLED, suspends=False)
        self._mine.discard(run)

    async def _undo(self, beginning: "asyncio.Task[Promised]") -> None:
        with contextlib.suppress(TurnbuckleError, JournalError, ValueError):
            promised = await beginning
            if promised.mine and promised.run in self._mine:
                await self._let_end(promised.run)

    async def _end(self, run: RunId, by: str, *, suspends: bool) -> bool:
        """False if it had ended."""
        waiting = await self.lanes.find_waiting(run, None)
        if waiting is not None:
            lane = self.lanes.of(waiting[0])
            user = lane.user if lane is not None else (await self._session_user(waiting[0]))
            if await self.lanes.with_lane(waiting[0], user, lambda lane: lane.withdraw(run, WITHDRAWN, by)):
                return True
        running = self.runs.live(run)
        if running is not None:
            await running.settled()
            running = self.runs.live(run)
        row = await self.row(run)
        if running is None and row.status == RUNNING:
            running = await self.runs.resume(run)  # nobody drives it: taken up in order to be ended
        if running is None:
            return False
        session_lane = self.lanes.of(SessionId(row.parent))
        if suspends and session_lane is not None and session_lane.running is running:
            await session_lane.suspend("stopped", run)
        running.stop(by)
        with contextlib.suppress(TurnbuckleError, JournalError, TimeoutError):
            await asyncio.wait_for(running.outcome(), STOP_SECONDS)
        return True

    async def _stored(self, run: RunId) -> AsyncGenerator[list[Item]]:
        after = 0
        while items := await self.journal.read(run, after):
            yield items
            after = items[-1].seq

    async def delete(self, session: SessionId) -> None:
        """A session and all its runs, which no key begins again. Raises SessionBusy."""
        await self.lanes.let_go(session)
        await self.sessions.delete(session)

    # Going on

    async def go_on(self, run: RunId) -> bool:
        """Take up a run that nobody drives. False if that is not needed."""
        if self._is_driven(run):
            return False
        row = await self.row(run)
        if row.status != RUNNING:
            return False
        session = SessionId(row.parent)
        if await self.journal.streams(Wanted(kind=SESSION, name=session), limit=1):
            await self.lanes.with_lane(session, row.user, lambda lane: lane.take_up(run))
        else:
            self._began(await self.runs.resume(run), row.user)
        return True

    async def resume_all(self) -> tuple[str, ...]:
        """Take up every run without an end, and every session in which a message waits. A session has one run at a
        time, so others of it follow by themselves."""
        taken: list[str] = []
        for row in reversed(await self.runs.unfinished()):
            with contextlib.suppress(SessionBusy):
                if await self.go_on(RunId(row.name)):
                    taken.append(row.name)
        for row in await listed(self.journal, Wanted(kind=SESSION, status=ACTIVE)):
            lane = await self.lanes.open(SessionId(row.name), row.user)
            taken.extend(one.run for one in lane.state.waiting if one.run not in taken)
        return tuple(taken)

    # People

    async def questions(self) -> tuple[ApprovalAsked, ...]:
        """What waits for an answer in the runs that are driven here."""
        found: list[ApprovalAsked] = []
        for running in self.runs.all_live:
            open_ids = {call.consent.id for call in asking.open_in(running.turn) if call.consent is not None}
            if not open_ids:
                continue
            async for items in self._stored(running.run):
                for item in items:
                    fact = facts.decode(item.data)
                    if isinstance(fact, facts.ApprovalAsked) and fact.approval in open_ids:
                        found.append(replace(asked(running.run, fact), cursor=str(item.seq), at=fact.at))
        return tuple(found)

    async def answer(self, question: ApprovalAsked, answer: bool | str, by: str) -> bool:
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
        self.lanes.rest()
        await self.lanes.close()
        live = self.runs.all_live
        await asyncio.gather(*(running.leave(CLOSED) for running in live), return_exceptions=True)
        if self._asker is not None:
            await self._asker.close()

    def _chore(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Something that comes to its end even if nobody waits for it any more."""
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        return task


def named(session: str) -> SessionId:
    """The id of a session. Raises ValueError."""
    try:
        return session_id(LOCAL, session, param="the name of a session")
    except Problem as problem:
        raise ValueError(problem.message) from None
