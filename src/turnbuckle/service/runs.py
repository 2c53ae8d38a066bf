"""Runs, for every surface: begin one, find one, follow it, answer it, stop it, delete it.

Everything that must hold for each of them is here, so that no surface can forget it. A run begins once,
however often its request is sent; it has a slot as long as it is under way; in a session there is one at a
time; and it is found only by whoever owns it. A run is its own task: whoever began it is merely its first
reader.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from turnbuckle.errors import (
    ApprovalSettled,
    ChangingHands,
    InvalidValue,
    RunActive,
    RunHeld,
    RunUnknown,
    SessionBusy,
    TooManyRuns,
    TurnbuckleError,
)
from turnbuckle.journal.port import JournalError, StreamRow
from turnbuckle.narrate.receipt import Receipt, receipt
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.runtime.client_calls import Handover, finder
from turnbuckle.runtime.driver import PersonsAnswer
from turnbuckle.runtime.held_session import ACTIVE
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.idempotency import Replay
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import NO_ROOM, RUNNING, NewRun
from turnbuckle.runtime.session_manager import HeldElsewhere
from turnbuckle.runtime.session_messages import Accepted, IncomingMessage
from turnbuckle.runtime.session_worker import SessionWorker
from turnbuckle.runtime.supervise import told
from turnbuckle.service.anywhere import anywhere
from turnbuckle.service.catalog import Catalog
from turnbuckle.service.commands import Commands
from turnbuckle.service.owners import LOCAL, Owner
from turnbuckle.service.run_handle import RunHandle, handle_of
from turnbuckle.service.run_reading import RunReading
from turnbuckle.service.run_view import ApprovalView
from turnbuckle.service.store_words import words
from turnbuckle.service.stores import RequestKey, Stores
from turnbuckle.service.watch import RunWatch
from turnbuckle.session.commands import parse
from turnbuckle.session.facts import Busy
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message

OTHER_NODE = "it needs a server with the label"
WITHDRAWN = "it was withdrawn before its turn came"
STOP_SECONDS = 5.0
"""How long a stop waits for the end that it asked for. Everything under way ends within a second, except a
store that does not answer."""
Decision = Literal["allow", "allow_always", "deny", "answer"]
_VERDICTS: dict[Decision, PersonsAnswer] = {
    "allow": "allowed",
    "allow_always": "allowed",
    "deny": "denied",
    "answer": "answered",
}

log = logging.getLogger("turnbuckle.service")


class RunService(RunReading):
    """All surfaces share one."""

    def __init__(self, stores: Stores, watch: RunWatch) -> None:
        super().__init__(stores)
        self.watch = watch
        routes = stores.runs.policy.routes
        quirks = {route.name: route.quirks for route in routes}
        self.catalog = Catalog([(route.name, route.model, route.protocol) for route in routes], quirks)
        self.opening = stores.runs.rules.opening
        self.client_calls = Handover(finder(stores.journal, stores.runs.policy))
        self._commands = Commands(stores.manager, stores.sessions, self.spending)
        self._withdrawing: set[asyncio.Task[bool]] = set()
        self.is_full: Callable[[], bool] = lambda: False
        """Whether this node drives as many runs as it may. Others have them then."""

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
                try:
                    return await self._begin(new, message, commands)
                except RunHeld:  # another node begins it at this moment
                    await self._stores.idempotency.wait_for_first_fact(run)
        mine = await self._goes_on(run)
        return replace(handle_of(await self.started(run)), replayed=True, mine=mine)

    async def _goes_on(self, run: RunId) -> bool:
        """A run that was begun before and came to a halt without an end goes on for whoever asks for it
        again."""
        try:
            return await self.go_on(run)
        except (SessionBusy, RunHeld):  # something else runs in its session, which goes on with it later
            return False
        except RunUnknown:
            raise
        except (TurnbuckleError, JournalError) as error:
            log.error("the run %s cannot be resumed: %s", run, error)
            return False

    async def _begin(self, new: NewRun, said: IncomingMessage | None, commands: bool) -> RunHandle:
        assert new.run is not None
        if said is not None and new.session is not None:
            return await self._say(new, new.session, said, commands)
        run, leaves = new.run, NO_ROOM if self.is_full() else ""
        if (pins := self._stores.pins) is not None:
            session = new.session or SessionId(self._stores.environment.new_name("s"))
            new = replace(new, session=session)
            if missing := await pins.begin(session):
                leaves = f"{OTHER_NODE} {', '.join(sorted(missing))}"
                new = replace(new, origin=replace(new.origin, queued=await pins.awaited(session)))
        await self.watch.slots.admit(new.user, run)
        try:
            running = await self._runs.begin(new, leaves=leaves)
        except BaseException:
            self.watch.slots.release(run)
            raise
        if not leaves:
            self.watch.began(running, new.user)
        else:
            self._give_away(run, running.turn.session)
        created = running.turn.started_at if new.origin.created is None else new.origin.created
        return RunHandle(run, running.turn.session, new.origin, created, mine=True)

    @anywhere("session")
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
            try:
                await slots.admit(new.user, new.run)
            except TooManyRuns:
                if worker is not None or not await self._waits_for_node(session):
                    raise  # what waits behind another message needs no slot of its own
        gives_away = worker is None and self.is_full()

        async def say(worker: SessionWorker) -> Accepted:
            worker.resting = worker.resting or gives_away
            accepted = await worker.say(said)
            if gives_away:
                await worker.close()
                self._give_away(accepted.run, session)
            return accepted

        try:
            if worker is None and (pins := self._stores.pins) is not None and await pins.begin(session):
                gives_away = True
                said = replace(said, origin=replace(said.origin, queued=await pins.awaited(session)))
            taken = await self._manager.with_worker(session, new.user, say)
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

    def _give_away(self, run: RunId, session: SessionId) -> None:
        """It is stored, and for a node that has room."""
        self.watch.slots.queue(run, session)
        if self.desk is not None:
            self.desk.nodes.call()

    async def _waits_for_node(self, session: SessionId) -> bool:
        """Whether something was said there already that waits for a node with room."""
        if self.desk is None:
            return False
        rows = await self._stores.rows(SESSION, session)
        return bool(rows) and rows[0].status == ACTIVE

    def _in_the_way(self, session: SessionId, busy: SessionBusy) -> SessionBusy:
        worker = self._manager.of(session)
        if worker is not None and worker.running is not None:
            busy.run = worker.running.run
        return busy

    # Going on

    async def resume(self, row: StreamRow) -> Running | None:
        """Take a run up where its journal ends, beside its session. None if that cannot be done, which the
        log tells. Raises RunHeld if another node has it."""
        try:
            running = await self._runs.resume(RunId(row.name))
        except RunHeld:
            if self.desk is not None:
                raise
            return None
        except (TurnbuckleError, JournalError) as error:
            log.error("the run %s cannot be resumed: %s", row.name, error)
            return None
        self.watch.began(running, row.user)
        return running

    @anywhere("run")
    async def go_on(self, run: RunId) -> bool:
        """Take up a run that nobody drives. False if that is not needed. Raises RunUnknown, RunHeld, and
        SessionBusy if something else runs in its session."""
        if self.is_driven(run):
            return False
        row = await self.row(run)
        if row.status != RUNNING:
            return False
        session = SessionId(row.parent)
        if self._stores.pins is not None and not await self._stores.pins.fits(session):
            return False
        if not await self._stores.rows(SESSION, session):
            self.watch.began(await self._runs.resume(run), row.user)
            return True
        try:
            await self._manager.with_worker(session, row.user, lambda worker: worker.take_up(run))
        except SessionBusy as busy:
            raise self._in_the_way(session, busy) from None
        return True

    # People

    async def pending(self, owner: Owner) -> tuple[Sequence[ApprovalView], Sequence[str]]:
        """Everything that waits for this owner's people, in any run that is driven; and the nodes that did
        not answer."""
        waiting = await self._pending_here(owner)
        missing: list[str] = []
        if self.desk is not None:
            elsewhere = await self.desk.from_all(self, RunService._pending_here, owner)
            waiting += [one for each in elsewhere.given for one in each]
            missing = elsewhere.missing
        return sorted(waiting, key=lambda one: one.run), missing  # the same at every node, so that pages fit

    async def _pending_here(self, owner: Owner) -> list[ApprovalView]:
        waiting: list[ApprovalView] = []
        for running in self._runs.all_live:
            if any(call.consent is not None for call in running.turn.calls) and await self._stores.rows(
                RUN, running.run, owner
            ):
                fold = await self.fold(running.run)
                waiting.extend(approval for approval in fold.approvals if approval.status == "pending")
        return waiting

    @anywhere("run")
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
            raise InvalidValue("no rule can always allow this: decision must be allow or deny", "decision")
        running = self._runs.live(run)
        given = (approval, _VERDICTS[decision], by, text)
        if running is None or not await running.answer(*given, always=always):
            status = (await self.approval(run, approval)).status
            if status == "pending" and self.desk is not None and (await self.row(run)).status == RUNNING:
                raise ChangingHands("no server drives this run at this moment; try again")
            kept = "kept until its run is taken up again" if status == "pending" else status
            raise ApprovalSettled(f"this question is no longer open: it is {kept}")
        return await self.approval(run, approval)

    # Stopping

    async def stop(self, run: RunId, owner: Owner, by: str) -> Receipt:
        """End a run, also one that waits for its turn, and say what was stopped. Raises RunUnknown."""
        too_late = not await self.end(run, owner, by)
        made = await self._receipt(run, too_late)
        return replace(made, keeps=False)  # also if an interrupt came first, and did not end it

    async def interrupt(self, run: RunId, owner: Owner, by: str) -> Receipt:
        """The same, and the conversation goes on: the next run of its session is told what had been done.
        Raises RunUnknown."""
        too_late = not await self.end(run, owner, by, suspends=False)
        return await self._receipt(run, too_late)

    async def _receipt(self, run: RunId, too_late: bool) -> Receipt:
        made = receipt([fact async for _, fact in self.facts(run)], too_late=too_late)
        trouble = self._stores.journal.trouble()
        if made.outcome is not None or trouble is None:
            return made
        return replace(made, waiting_on=WaitingOn("storage", words(trouble.fault), trouble.since))

    async def end(self, run: RunId, owner: Owner, by: str, *, suspends: bool = True) -> bool:
        """Ask a run to end, and wait for that. One that nobody drives is taken up for it. False if it had
        ended. `suspends`: the next message of its session starts fresh; else it is an interrupt. Raises
        RunUnknown."""
        return await self.withdraw(run, owner, by=by) or await self._end(run, owner, by, suspends)

    @anywhere("run")
    async def _end(self, run: RunId, owner: Owner, by: str, suspends: bool) -> bool:
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
        elif self._manager.waiting(run, None) is not None or self.desk is not None:
            ending = self.withdraw(run, why=why) if self.desk is None else self.end(run, None, why)
            task = told(asyncio.create_task(ending), f"taking back the message of {run}")
            self._withdrawing.add(task)
            task.add_done_callback(self._withdrawing.discard)

    async def withdraw(self, run: RunId, owner: Owner = None, why: str = WITHDRAWN, by: str = "") -> bool:
        """Take back the message that would begin this run, if it still waits."""
        waiting = await self._manager.find_waiting(run, owner, alone=self.desk is None)
        if waiting is None:
            return False
        session, _ = waiting
        rows = await self._stores.rows(SESSION, session)
        user = rows[0].user if rows else LOCAL
        return await self._take_back(session, user, run, why, by)

    @anywhere("session")
    async def _take_back(self, session: SessionId, user: str, run: RunId, why: str, by: str) -> bool:
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

    @anywhere("run")
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
            await self._end_processes(session)  # nobody would know whose they are
            if self.desk is not None:
                await self.desk.from_all(self, RunService._end_processes, session)
            return
        try:
            await self._manager.with_worker(session, rows[0].user, lambda worker: worker.forget(run))
        except HeldElsewhere:  # its session is just changing hands
            raise
        except SessionBusy as busy:  # it is under way, or was told to one that is
            raise RunActive(str(busy)) from None

    async def _end_processes(self, session: SessionId) -> bool:
        if self._runs.background is not None:
            await self._runs.background.end_all(session)
        return True
