"""Runs, for every surface: begin one, find one, follow it, answer it, stop it, delete it.

Everything that must hold for each of them is here, so that no surface can forget it. A run begins once,
however often its request is sent; it has a slot as long as it is under way; in a session there is one at a
time; and it is found only by whoever owns it. A run is its own task: whoever began it is merely its first
reader.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from turnbuckle.errors import (
    ApprovalSettled,
    ApprovalUnknown,
    InvalidValue,
    RunActive,
    RunUnfinished,
    RunUnknown,
    SessionBusy,
    TurnbuckleError,
)
from turnbuckle.journal.port import Item, JournalError, StreamQuery, StreamRow
from turnbuckle.journal.tail import read_all
from turnbuckle.narrate.receipt import Receipt, receipt
from turnbuckle.runtime.client_calls import Handover, finder
from turnbuckle.runtime.driver import PersonsAnswer
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.idempotency import Replay
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, TOLD, NewRun
from turnbuckle.runtime.session_messages import IncomingMessage
from turnbuckle.runtime.supervise import told
from turnbuckle.runtime.undo import undone_in
from turnbuckle.service.catalog import Catalog
from turnbuckle.service.commands import Commands
from turnbuckle.service.owners import LOCAL, Owner, of, public_session, run_id
from turnbuckle.service.run_handle import RunHandle, handle_of
from turnbuckle.service.run_view import ApprovalView, RunFold, RunLine, RunView, line_of, queued_view
from turnbuckle.service.stores import RequestKey, Stores
from turnbuckle.service.watch import RunWatch
from turnbuckle.session.commands import parse
from turnbuckle.session.facts import Busy
from turnbuckle.turn.facts import Fact, RunStarted, UserSpoke, decode
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message

WITHDRAWN = "it was taken back before its turn came"
STOP_SECONDS = 5.0
"""How long a stop waits for the end that it asked for. Everything under way ends within a second, except a
store that does not answer."""
PATIENCE = 3.0
"""Seconds without a driver after which a run is called unfinished. A session that lost its run takes it up
again after one."""

Decision = Literal["allow", "allow_always", "deny", "answer"]
_VERDICTS: dict[Decision, PersonsAnswer] = {
    "allow": "allowed",
    "allow_always": "allowed",
    "deny": "denied",
    "answer": "answered",
}

log = logging.getLogger("turnbuckle.service")


class RunService:
    """All surfaces share one."""

    def __init__(self, stores: Stores, watch: RunWatch) -> None:
        self.watch = watch
        routes = stores.runs.policy.routes
        self.catalog = Catalog([(route.name, route.model, route.protocol) for route in routes])
        self.opening = stores.runs.rules.opening
        self.client_calls = Handover(finder(stores.journal, stores.runs.policy))
        self._stores = stores
        self._journal = stores.journal
        self._runs = stores.runs
        self._manager = stores.manager
        self.spending = stores.spending
        self._commands = Commands(stores.manager, stores.sessions, self.spending)
        self._withdrawing: set[asyncio.Task[bool]] = set()

    # Beginning

    async def begin(
        self,
        new: NewRun,
        *,
        first: tuple[Message, ...] | None = None,
        anew: bool = False,
        busy: Busy | None = None,
        key: RequestKey | None = None,
        commands: bool = True,
        named: Callable[[RunId], None] | None = None,
    ) -> RunHandle:
        """Begin a run, or find the one that the same request began before. With `first` it belongs to a
        session that goes on, and those messages stand in front of it where the conversation begins, or `anew`
        with every run; `busy` says what happens while another one is under way there. `commands`: words such
        as /stop are carried out. `named` is told the id before anything runs. Raises NotNow, LimitReached,
        BadKey, and RunUnknown if its run was deleted."""
        reserved = await self._stores.reserve(key)
        run = self._runs.new_id() if reserved is None else reserved.run
        if named is not None:
            named(run)
        session = new.session
        if first is not None and session is None:
            session = SessionId(self._stores.new_session(None if reserved is None else run))
        new = replace(new, run=run, session=session)
        again = isinstance(reserved, Replay)
        message = None if first is None else IncomingMessage((), busy, first=first, anew=anew, again=again)
        if reserved is None:
            return await self._begin(new, message, commands)
        async with self._stores.idempotency.starting(run) as fresh:
            if fresh:
                return await self._begin(new, message, commands)
        mine = await self._goes_on(run)
        return replace(handle_of(await self.started(run)), replayed=True, mine=mine)

    async def _goes_on(self, run: RunId) -> bool:
        """A run that was begun before and came to a halt without an end goes on for whoever asks for it
        again."""
        try:
            return await self.go_on(run)
        except SessionBusy:  # something else runs in its session, which goes on with it later
            return False
        except RunUnknown:
            raise
        except (TurnbuckleError, JournalError) as error:
            log.error("the run %s cannot be taken up: %s", run, error)
            return False

    async def _begin(self, new: NewRun, said: IncomingMessage | None, commands: bool) -> RunHandle:
        assert new.run is not None
        if said is not None and new.session is not None:
            return await self._say(new, new.session, said, commands)
        self.watch.slots.acquire(new.user, new.run)
        try:
            running = await self._runs.begin(new)
        except BaseException:
            self.watch.slots.release(new.run)
            raise
        self.watch.began(running, new.user)
        return replace(handle_of(await self.started(new.run)), mine=True)

    async def _say(self, new: NewRun, session: SessionId, said: IncomingMessage, commands: bool) -> RunHandle:
        """Say something in a session. Its run begins when its turn comes."""
        assert new.run is not None
        said = replace(said, messages=new.messages, options=new.options, origin=new.origin, run=new.run)
        # What a client has said elsewhere comes along into a session that is new.
        await self._stores.sessions.create(session, new.user, new.title, new.history or ())
        if commands and (command := parse(new.words)) is not None:
            answer = await self._commands.perform(command, session, new, said)
            if answer.taken is None:
                await self._runs.tell(answer.text, new, session)
            run = new.run if answer.taken is None else answer.taken.run
            return RunHandle(run, session, new.origin, self._stores.environment.wall())
        slots, worker = self.watch.slots, self._manager.of(session)
        if worker is None or worker.rests:
            slots.acquire(new.user, new.run)
        try:
            taken = await self._manager.with_worker(session, new.user, lambda worker: worker.say(said))
        except SessionBusy as busy:
            slots.release(new.run)
            raise self._in_the_way(session, busy) from None
        except RunUnknown:
            slots.release(new.run)
            raise RunUnknown.named(new.run) from None
        except BaseException:
            slots.release(new.run)
            raise
        if taken.run != new.run or self._runs.live(new.run) is None:
            slots.release(new.run)  # it entered a run that has a slot of its own, or waits, or has ended
        if taken.run == new.run:
            origin = replace(new.origin, queued=taken.queued)
            return RunHandle(new.run, session, origin, taken.at, replayed=taken.again, mine=True)
        into = RunHandle(taken.run, session, new.origin, taken.at, taken.after, taken.id, taken.again)
        return await self.steered(into, taken.id) or into

    def _in_the_way(self, session: SessionId, busy: SessionBusy) -> SessionBusy:
        worker = self._manager.of(session)
        if worker is not None and worker.running is not None:
            busy.run = worker.running.run
        return busy

    # Going on

    async def resume(self, row: StreamRow) -> Running | None:
        """Take a run up where its journal ends, beside its session. None if that cannot be done, which the
        log tells."""
        try:
            running = await self._runs.resume(RunId(row.name))
        except (TurnbuckleError, JournalError) as error:
            log.error("the run %s cannot be taken up: %s", row.name, error)
            return None
        self.watch.began(running, row.user)
        return running

    async def go_on(self, run: RunId) -> bool:
        """Take up a run that nobody drives. False if that is not needed. Raises RunUnknown, RunHeld, and
        SessionBusy if something else runs in its session."""
        if self.is_driven(run):
            return False
        row = await self.row(run)
        if row.status != RUNNING:
            return False
        session = SessionId(row.parent)
        if not await self._stores.rows(SESSION, session):
            self.watch.began(await self._runs.resume(run), row.user)
            return True
        try:
            await self._manager.with_worker(session, row.user, lambda worker: worker.take_up(run))
        except SessionBusy as busy:
            raise self._in_the_way(session, busy) from None
        return True

    def live(self, run: RunId) -> Running | None:
        """The run, if it is driven here at this moment."""
        return self._runs.live(run)

    def is_driven(self, run: RunId) -> bool:
        """Whether it is driven here, or will be when its turn comes."""
        return self._runs.live(run) is not None or self._manager.waiting(run, None) is not None

    # Finding

    async def row(self, run: str, owner: Owner = None) -> StreamRow:
        """A run of this owner, or the answer to a command. Raises RunUnknown: one of somebody else looks
        unknown."""
        if (known := run_id(run)) is not None:
            for kind in (RUN, TOLD):
                if rows := await self._stores.rows(kind, known, owner):
                    return rows[0]
        raise RunUnknown.named(run)

    async def find(self, run: str, owner: Owner = None) -> RunHandle:
        """A run of this owner, also one that waits for its turn in a session. Raises RunUnknown."""
        try:
            return await self._begun(run, owner)
        except RunUnknown:
            waiting = await self._manager.find_waiting(run, owner)
        if waiting is None:
            return await self._begun(run, owner)  # its turn came between the two looks
        session, message = waiting
        return RunHandle(message.run, session, message.origin, message.at)

    async def _begun(self, run: str, owner: Owner) -> RunHandle:
        """One whose beginning can be read: its row may be seen a moment before."""
        row = await self.row(run, owner)
        begun = handle_of(await self.started(RunId(row.name)), ended=row.status != RUNNING)
        return replace(begun, told=row.kind == TOLD)

    async def steered(self, found: RunHandle, message: str) -> RunHandle | None:
        """The answer to what was said into a run, from where it begins. None if it was not told that."""
        async for items in self.stored(found.run, found.after):
            for item in items:
                fact = decode(item.data) if b'"user_spoke"' in item.data[:24] else None
                if isinstance(fact, UserSpoke) and fact.id == message:
                    origin = fact.origin
                    began = item.seq if origin.after is None else origin.after
                    at = fact.at if origin.created is None else origin.created
                    return replace(found, origin=origin, created=at, after=began, message=message)
        return None

    async def started(self, run: RunId) -> RunStarted:
        """How a run began. Raises RunUnknown."""
        first = await self._journal.read(run, 0, 1)
        fact = decode(first[0].data) if first else None
        if not isinstance(fact, RunStarted):
            raise RunUnknown.named(run)
        return fact

    def new_id(self) -> RunId:
        return self._runs.new_id()

    async def head(self, run: RunId) -> int:
        """How many items are stored of it: none, while it waits for its turn."""
        return await self._journal.head(run)

    async def page(
        self, wanted: StreamQuery, owner: Owner, place: tuple[float, str] | None = None, limit: int = 50
    ) -> tuple[list[StreamRow], list[RunLine]]:
        """A page of runs, the last touched first: as the index has them, and as they are shown."""
        rows = await self._journal.streams(replace(wanted, kind=RUN, user=of(owner)), place, limit)
        spent = {row.name: await self.spending.of_run(row) for row in rows}
        return rows, [line_of(row, owner, self._runs.live(RunId(row.name)), spent[row.name]) for row in rows]

    # Reading

    async def stored(self, run: RunId, after: int = 0) -> AsyncIterator[Sequence[Item]]:
        """All that is stored of a run behind a number, page by page."""
        async for items in read_all(self._journal, run, after):
            yield items
            await asyncio.sleep(0)  # a long run must not hold up those who read live

    async def facts(self, run: RunId) -> AsyncIterator[tuple[int, Fact]]:
        """The same as what happened, each with its number."""
        async for items in self.stored(run):
            for item in items:
                yield item.seq, decode(item.data)

    async def said(self, run: RunId, session: SessionId) -> tuple[Message, ...]:
        """All that was said up to the end of a run."""
        return (await self._runs.conversations.until(run, session)).messages

    async def fold(self, run: RunId) -> RunFold:
        """All that is stored of a run, folded."""
        fold = RunFold(self._runs.policy)
        async for seq, fact in self.facts(run):
            fold.take(seq, fact)
        return fold

    async def line(self, begun: RunHandle, owner: Owner) -> RunLine:
        """A run in a list, also one that waits for its turn."""
        try:
            row = await self.row(begun.run, owner)
        except RunUnknown:
            session = public_session(owner, begun.session)
            return RunLine(begun.run, session, "queued", "", begun.created, begun.created)
        return line_of(row, owner, self._runs.live(begun.run), await self.spending.of_run(row))

    async def view(self, run: str, owner: Owner) -> RunView:
        """A run as it stands. Raises RunUnknown."""
        begun = await self.find(run, owner)
        if not await self.head(begun.run):
            session = public_session(owner, begun.session)
            return queued_view(begun.run, session, begun.created, begun.awaited)
        row, fold = await self.row(run, owner), await self.fold(begun.run)
        live = self._runs.live(begun.run) is not None
        undone = await undone_in(self._journal, begun.run) if fold.touched else ()
        return fold.view(row, owner, live=live, now=self._stores.environment.wall(), undone=undone)

    async def follow(self, run: RunId, after: int = 0) -> AsyncGenerator[list[Item]]:
        """Everything behind a number, then what comes, until the run has its end. Raises RunUnfinished where
        it has none and nobody drives it."""
        while True:
            if items := await self._journal.read(run, after):
                after = items[-1].seq
                yield items
                continue
            if await self._is_over(run):
                if await self._journal.head(run) <= after:
                    return
                continue
            cared_for = await self._is_cared_for(run)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE if cared_for else 0):
                    await self._journal.wait(run, after)
                continue
            if not self.is_driven(run) and not await self._is_over(run):
                raise RunUnfinished(f"the run {run} has no end, and nobody drives it")

    async def _is_cared_for(self, run: RunId) -> bool:
        """Whether it is driven, or its session is at work and will drive it again in a moment."""
        if self.is_driven(run):
            return True
        rows = await self._journal.streams(StreamQuery(name=run), limit=1)
        return not rows or self._manager.of(SessionId(rows[0].parent)) is not None

    async def _is_over(self, run: RunId) -> bool:
        if (live := self._runs.live(run)) is not None:
            return live.turn.outcome is not None
        rows = await self._journal.streams(StreamQuery(name=run), limit=1)
        return bool(rows) and rows[0].status not in ("", RUNNING)

    # People

    async def pending(self, owner: Owner) -> Sequence[ApprovalView]:
        """Everything that waits for this owner's people, in any run that is driven here."""
        waiting: list[ApprovalView] = []
        for running in self._runs.all_live:
            if any(call.consent is not None for call in running.turn.calls) and await self._stores.rows(
                RUN, running.run, owner
            ):
                fold = await self.fold(running.run)
                waiting.extend(approval for approval in fold.approvals if approval.status == "pending")
        return waiting

    async def answer(
        self, run: RunId, approval: str, decision: Decision, by: str, text: str = ""
    ) -> ApprovalView:
        """Give a person's answer; the first counts. Raises ApprovalUnknown, ApprovalSettled, and InvalidValue
        for an answer to what was not asked."""
        asked = await self.approval(run, approval)
        if (decision == "answer") != (asked.kind == "question"):
            fitting = "answer" if asked.kind == "question" else "allow or deny"
            raise InvalidValue(f"this is a {asked.kind}: decision must be {fitting}", "decision")
        always = decision == "allow_always"
        if always and not asked.always:
            raise InvalidValue("no rule can allow this for good: decision must be allow or deny", "decision")
        running = self._runs.live(run)
        given = (approval, _VERDICTS[decision], by, text)
        if running is None or not await running.answer(*given, always=always):
            status = (await self.approval(run, approval)).status
            kept = "kept until its run is taken up again" if status == "pending" else status
            raise ApprovalSettled(f"nobody waits for this answer any more: it is {kept}")
        return await self.approval(run, approval)

    async def approval(self, run: RunId, approval: str) -> ApprovalView:
        """What was asked, and what became of it. Raises ApprovalUnknown."""
        for view in (await self.fold(run)).approvals:
            if view.id == approval:
                return view
        raise ApprovalUnknown.named(approval)

    # Stopping

    async def stop(self, run: RunId, owner: Owner, by: str) -> Receipt:
        """End a run, also one that waits for its turn, and say what was stopped. Raises RunUnknown."""
        too_late = not await self.end(run, owner, by)
        made = receipt([fact async for _, fact in self.facts(run)], too_late=too_late)
        return replace(made, keeps=False)  # also if an interrupt came first, and did not end it

    async def interrupt(self, run: RunId, owner: Owner, by: str) -> Receipt:
        """The same, and the conversation goes on: the next run of its session is told what had been done.
        Raises RunUnknown."""
        too_late = not await self.end(run, owner, by, suspends=False)
        return receipt([fact async for _, fact in self.facts(run)], too_late=too_late)

    async def end(self, run: RunId, owner: Owner, by: str, *, suspends: bool = True) -> bool:
        """Ask a run to end, and wait for that. One that nobody drives is taken up for it. False if it had
        ended. `suspends`: the next message of its session starts fresh; else it is an interrupt. Raises
        RunUnknown."""
        if await self.withdraw(run, owner, by=by):
            return True
        await self._settled(run)
        row = await self.row(run, owner)
        running = self._runs.live(run)
        if running is None and row.status == RUNNING:
            running = await self.resume(row)
        if running is None:
            return False
        worker = self._manager.of(SessionId(row.parent))
        if suspends and worker is not None and worker.running is running:
            await self._manager.with_worker(worker.session, row.user, lambda one: one.suspend("stopped", run))
        running.stop(by, keeps=not suspends)
        with contextlib.suppress(TurnbuckleError, JournalError, TimeoutError):
            await asyncio.wait_for(running.outcome(), STOP_SECONDS)
        return True

    def stop_soon(self, run: RunId, why: str) -> None:
        """Ask a run to end, or take its message back, and wait for nothing."""
        if (running := self._runs.live(run)) is not None:
            running.stop(why)
        elif self._manager.waiting(run, None) is not None:
            withdrawing = asyncio.create_task(self.withdraw(run, why=why))
            task = told(withdrawing, f"taking back the message of {run}")
            self._withdrawing.add(task)
            task.add_done_callback(self._withdrawing.discard)

    async def withdraw(self, run: RunId, owner: Owner = None, why: str = WITHDRAWN, by: str = "") -> bool:
        """Take back the message that would begin this run, if it still waits."""
        waiting = await self._manager.find_waiting(run, owner)
        if waiting is None:
            return False
        session, _ = waiting
        rows = await self._stores.rows(SESSION, session)
        user = rows[0].user if rows else LOCAL
        withdrawn = await self._manager.with_worker(
            session, user, lambda worker: worker.withdraw(run, why, by)
        )
        if withdrawn:
            self.watch.slots.release(run)
        return withdrawn

    async def _settled(self, run: RunId) -> None:
        """Wait until a run that has its end is let go of."""
        if (running := self._runs.live(run)) is not None:
            await running.settled()

    async def delete(self, run: RunId, owner: Owner) -> None:
        """A run that has ended, forever; its session goes on without it. Raises RunUnknown and RunActive."""
        if not await self.head(run):
            raise RunActive(f"the run {run} waits for its turn; stop it first")
        row = await self.row(run, owner)
        await self._settled(run)
        session = SessionId(row.parent)
        rows = await self._stores.rows(SESSION, session)
        if not rows:
            if not await self._stores.sessions.delete_run(run):
                raise RunActive(f"the run {run} is under way; stop it first")
            if self._runs.background is not None:
                await self._runs.background.end_all(session)  # nobody would know whose they are
            return
        try:
            await self._manager.with_worker(session, rows[0].user, lambda worker: worker.forget(run))
        except SessionBusy as busy:  # it is under way, or was told to one that is
            raise RunActive(str(busy)) from None
