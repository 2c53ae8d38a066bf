"""One session at work. Whatever changes a session goes through its worker, one thing after the other.

The worker holds the session's claim, so no other process writes to the session or begins anything in it; when
the claim is lost the worker lets go of its run and closes. A message is stored before anybody is told that it
was taken. Runs begin one at a time, in the order of the messages, and a message counts as injected only when
its run has begun: if the process dies between the two, the run that is there says so, and nothing is begun
twice. Nothing begins beside a run that has no end yet: it is taken up again first, or ended if it was given
up.

A worker that has nothing to do closes after a while and gives the claim back. What it knows is a fold of the
journal, so the next one knows the same.
"""

import asyncio
import logging
from contextvars import Context

from msgspec.structs import replace

from turnbuckle.errors import BudgetSpent, ClaimLost, RunHeld, RunUnknown, SessionBusy, TurnbuckleError
from turnbuckle.journal.port import (
    Closed,
    Conflict,
    Fenced,
    JournalError,
    StorageError,
    StreamQuery,
)
from turnbuckle.runtime.conversation import fold_run
from turnbuckle.runtime.deleting import replacing
from turnbuckle.runtime.held_session import HeldSession, unfound
from turnbuckle.runtime.history import new_run
from turnbuckle.runtime.idempotency import marks_of_deleted
from turnbuckle.runtime.lease import is_held
from turnbuckle.runtime.log import may_pass
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import HOPELESS, MOST_FAILURES, RUNNING, NewRun
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.session_log import status_in
from turnbuckle.runtime.session_messages import (
    Accepted,
    IncomingMessage,
    Stopped,
    WorkerClosed,
    due_reset,
    refusal,
    said_again,
    turn_awaited,
)
from turnbuckle.session.facts import (
    BegunAnew,
    FreshWhy,
    MessageAccepted,
    MessageDeferred,
    MessageInjected,
    MessageRefused,
    RunDeleted,
    SessionFact,
    Suspended,
    TakenUp,
    Undone,
)
from turnbuckle.vocab.ids import RunId

REST = 5.0
"""Seconds without anything to do after which a worker closes."""
AGAIN = 1.0
"""Seconds until something is tried again that could not be done: the store is full, or somebody else is not
done."""
MOST_WAITING = 100
"""Messages that may wait in one session. More are refused, and whoever sent them is told."""

STOPPED = "the session was stopped"
ANEW = "a new conversation was begun"

ENDED = "the turn ended before it could be told"

log = logging.getLogger("turnbuckle.session")


class SessionWorker(HeldSession):
    """One session. Made and opened by `SessionManager`."""

    # Opening and closing

    async def open(self, running: Running | None = None, left: Suspended | None = None) -> None:
        """Fold what is stored, and begin to work. `running` is a run of this session that was taken up again;
        `left` says of one that it was not, or only to be stopped."""
        self.state = await self._runs.session_states.of(self.session)
        self._runs.conversations.look_again(self.session, self.state.deleted)
        await self._find_out(running)
        if left is not None and left.run not in self.state.given_up:
            await self._append([left])
        # In a context of their own: what is done here later belongs to no request.
        self._hold = asyncio.create_task(
            self._keep_claim(), name=f"claim of {self.session}", context=Context()
        )
        self._work = asyncio.create_task(self._go_on(), name=f"session {self.session}", context=Context())

    async def _find_out(self, running: Running | None) -> None:
        """What a process that died, or a worker that closed, left half done."""
        if running is None:
            wanted = StreamQuery(kind=RUN, parent=self.session, status=RUNNING)
            self._left = next((RunId(row.name) for row in await self._journal.streams(wanted, limit=1)), None)
            running = self._runs.live(self._left) if self._left is not None else None
        first = self.state.waiting[0] if self.state.waiting else None
        if first is not None and await self._journal.head(first.run):
            await self._append([MessageInjected(self._wall(), first.id, first.run, "task")])
        refused = [
            fate for fate in self.state.statuses.values() if fate.state == "refused" and fate.run == fate.own
        ]
        for fate in refused:
            if fate.own not in self.state.deleted and not await self._journal.head(fate.own):
                # For those who wait to read it, a message that will not be answered has an ended run all the
                # same.
                await self._runs.decline(NewRun((), user=self.user, run=fate.own), self.session, fate.why)
        if running is not None:
            self._left, self.running = None, running
            since = running.turn.started_at
            urgent = any(message.busy == "interrupt" and since < message.at for message in self.state.waiting)
            if urgent or self.state.given_up.get(running.run, "stale") != "stale":
                running.stop("it was to be stopped before the process died")

    # What people want

    @property
    def rests(self) -> bool:
        """Nothing runs and nothing waits."""
        return (self.running is None or self.running.done) and self.state.is_idle

    async def say(self, said: IncomingMessage) -> Accepted:
        """Take a message; one that would begin a run that was said to begin already is that message again.
        Raises SessionBusy where it is to be refused while something runs, or the queue is full."""
        async with self._changing():
            return await self._take(said)

    async def _take(self, said: IncomingMessage, *undone: Undone) -> Accepted:
        if (same := await self._said_before(said)) is not None:
            return same
        busy = said.busy or self._rules.busy
        running = self._under_way
        waits = running is not None or not self.state.is_idle
        if waits and busy == "refuse":
            raise SessionBusy(self._what_runs())
        if len(self.state.waiting) + len(self.state.steering) >= MOST_WAITING:
            raise SessionBusy(f"{MOST_WAITING} messages wait in this session already")
        into = running.run if busy == "steer" and running is not None else RunId("")
        queued = said.origin.queued
        if waits and busy == "queue":
            queued = turn_awaited(running.turn if running is not None else None, len(self.state.waiting))
        accepted = MessageAccepted(
            self._wall(),
            self._runs.environment.new_name("m"),
            said.run or self._runs.new_id(),
            said.messages,
            busy,
            said.options,
            replace(said.origin, queued=queued),
            said.first,
            said.anew,
            into,
        )
        facts = [*([] if waits else due_reset(self._rules, self.state, self._wall())), accepted]
        if undone:
            await self._change([*undone, *facts], notes=unfound(undone[-1].run))
        else:
            await self._append(facts)
        after = await self._journal.head(into) if into else 0
        if into and running is not None:
            origin = replace(said.origin, created=accepted.at, after=after)
            if not await running.steer(accepted.id, said.messages, origin):
                into, after = RunId(""), 0
                await self._append([MessageDeferred(self._wall(), accepted.id, ENDED)])
        elif busy == "interrupt" and running is not None:
            running.stop("a new message", keeps=True)
        self._due.set()
        if not waits and self._left is None and not self.resting:
            await self._try_to_begin(accepted)
        return Accepted(accepted.id, into or accepted.run, accepted.at, after, queued)

    async def _said_before(self, said: IncomingMessage) -> Accepted | None:
        """What became of the same message, if it was said before. Raises RunUnknown if its answer was
        deleted."""
        same = next((status for status in self.state.statuses.values() if status.own == said.run), None)
        if same is None and said.again and said.run is not None:
            same = await status_in(self._journal, self.session, said.run)
        if same is not None and same.run in self.state.deleted:
            raise RunUnknown(f"the run {same.run} was deleted")
        if same is None:
            return None
        queued = next((message.origin.queued for message in self.state.waiting if message.id == same.id), "")
        return Accepted(same.id, same.run, same.at, queued=queued, again=True)

    async def stop(self, by: str) -> Stopped:
        """End what runs, and what waits behind it. The next message starts fresh. Nothing to stop changes
        nothing."""
        return await self._end_all(by, [], STOPPED)

    async def interrupt(self, by: str) -> RunId | None:
        """End what runs, and keep the conversation: what waits is next, and the model is told what had been
        done. None if nothing runs."""
        async with self._changing():
            running = self._under_way
            if running is None:
                return None
            running.stop(by, keeps=True)
        await running.over()
        return running.run

    async def begin_anew(self, why: FreshWhy, by: str) -> Stopped:
        """A fresh start, also while something runs: that is stopped."""
        return await self._end_all(by, [BegunAnew(self._wall(), why)], ANEW)

    async def _end_all(self, by: str, behind: list[SessionFact], why: str) -> Stopped:
        async with self._changing():
            running, now = self._under_way, self._wall()
            steered = running.turn.steered if running is not None else ()
            steered_in = [message for message in self.state.steering if message.id in steered]
            begun = running.run if running is not None else None
            waiting = [message for message in self.state.waiting if message.run != begun]
            refused = (*waiting, *(message for message in self.state.steering if message not in steered_in))
            facts: list[SessionFact] = [
                MessageInjected(now, message.id, message.into, "steered") for message in steered_in
            ]
            facts += [
                MessageInjected(now, message.id, message.run, "task")
                for message in self.state.waiting
                if message.run == begun
            ]
            facts += [MessageRefused(now, message.id, why) for message in refused]
            if running is not None and running.run not in self.state.given_up:
                facts.append(Suspended(now, "stopped", running.run))
            for message in waiting:  # first, so that the id of its run is known at every moment
                await self._decline(message, why, by)
            await self._append([*facts, *behind])
            if running is not None:
                running.stop(by)
        if running is not None:
            await running.over()
        return Stopped(running.run if running is not None else None, tuple(message.id for message in refused))

    async def withdraw(self, run: RunId, why: str, by: str = "") -> bool:
        """Take back a message that still waits; the others stay. False if it does not wait any more."""
        async with self._changing():
            waiting = next((message for message in self.state.waiting if message.run == run), None)
            if waiting is None or await self._journal.head(run):
                return False
            await self._decline(waiting, why, by)
            await self._append([MessageRefused(self._wall(), waiting.id, why)])
            return True

    async def _decline(self, message: MessageAccepted, why: str, by: str, *, failed: bool = False) -> None:
        """Whoever follows the run that the message would have begun is told that it will not, once."""
        if not failed and await self._journal.head(message.run):
            return
        origin = replace(message.origin, created=message.at, message=message.id)
        new = NewRun(message.messages, None, (), self.user, message.options, origin, message.run)
        await self._write_declined(new, why, by, failed=failed)

    async def undo(self, request: RunId | None = None) -> RunId | None:
        """Take back the last run and what began it, once for each request that has an id. Raises
        SessionBusy."""
        async with self._changing():
            if request in self.state.undone_for:
                return self.state.undone_for[request] or None
            self._refuse_if_busy()
            idle, last = await self._last_that_did_something()
            if last is not None or request is not None:
                undone = Undone(self._wall(), last or RunId(""), request or RunId(""))
                untitled = last is not None and await self._is_titled_by(last)
                await self._change([*idle, undone], notes=unfound(last), untitled=untitled)
            return last

    async def retry(self, said: IncomingMessage | None = None, route: str = "") -> Accepted | None:
        """Say again what began the last run, which then counts no more; on this route, if one is named. None
        if there is none. Raises SessionBusy."""
        async with self._changing():
            if said is not None and (same := await self._said_before(said)) is not None:
                return same
            self._refuse_if_busy()
            idle, last = await self._last_that_did_something()
            started = None if last is None else await self._started(last)
            if last is None or started is None:
                return None
            run = said.run if said is not None else None
            first = said.first if said is not None else await self._opening_of(started)
            again = said_again(started, first, run, route)
            return await self._take(again, *idle, Undone(self._wall(), last))

    async def forget(self, run: RunId) -> None:
        """Delete a run forever, as a whole with what the session and the keys know of it. What stands on it
        keeps all else. Raises SessionBusy, also while a run goes on that was told of it."""
        runs = self._runs
        async with (
            self._changing(),
            replacing(self._journal, runs.conversations, runs.environment, self.session) as kept,
        ):
            self._refuse_if_told_of(run)
            await kept.run(run, self.session)
            await kept.forks(self.session, run)
            marks = await marks_of_deleted(self._journal, (run,))
            untitled = await self._is_titled_by(run)
            gone: list[SessionFact] = [RunDeleted(self._wall(), run)]
            if not await self._change(
                gone, appends=kept.appends, notes=marks, drops=[run], untitled=untitled
            ):
                raise SessionBusy(f"the run {run} is under way; stop it first")

    async def take_up(self, run: RunId) -> None:
        """Go on with a run that was left alone. Raises SessionBusy, RunHeld, and what the journal raises."""
        async with self._changing():
            if self._under_way is None or self._under_way.run != run:
                self._refuse_if_busy()
                await self._append([TakenUp(self._wall(), run)])
                await self._drive(run)
                self._due.set()

    async def suspend(self, why: FreshWhy, run: RunId, detail: str = "") -> None:
        """The run will not go on by itself; the next message starts fresh."""
        async with self._changing():
            if run not in self.state.given_up:
                await self._append([Suspended(self._wall(), why, run, detail)])

    # Working

    async def _go_on(self) -> None:
        failures = 0
        try:
            while True:
                try:
                    if self.running is not None:
                        await self._until_over(self.running)
                        continue
                    self._due.clear()
                    await self._settle_steering()
                    if await self._take_up_left() or await self._begin_next():
                        failures = 0
                        continue
                except (WorkerClosed, ClaimLost, Fenced, Conflict, Closed):
                    raise
                except Exception as error:
                    known = isinstance(error, (StorageError, RunHeld))
                    log.warning(
                        "the session %s cannot go on now: %s", self.session, error, exc_info=not known
                    )
                    failures += not (isinstance(error, RunHeld) or may_pass(error))
                    if failures >= MOST_FAILURES:
                        failures = 0
                        await self._refuse_first(error)
                    await self._sleep(AGAIN)
                    continue
                if not await self._woken() and await self._closes():
                    return
        except WorkerClosed:
            return
        except Exception as error:
            log.error("the session %s is let go of: %s", self.session, error)
        self._fail()

    async def _closes(self) -> bool:
        """Begin to close, unless somebody came in the last moment."""
        async with self._lock:
            if self._due.is_set() or self.running is not None:
                return False
            if self.closing is None:
                self.closing = asyncio.ensure_future(self._close())
            return True

    async def _woken(self) -> bool:
        """Wait for something to do; False when there was nothing for a while."""
        waking = asyncio.ensure_future(self._due.wait())
        resting = asyncio.ensure_future(self._sleep(REST))
        try:
            await asyncio.wait({waking, resting}, return_when=asyncio.FIRST_COMPLETED)
            return self._due.is_set()
        finally:
            waking.cancel()
            resting.cancel()

    async def _take_up_left(self) -> bool:
        """Nothing begins beside a run that has no end. One that was given up is ended as soon as something
        waits."""
        left = self._left
        if left is None or self.resting or (left in self.state.given_up and not self.state.waiting):
            return False
        async with self._changing():
            if self.running is not None:
                return True
            try:
                running = await self._drive(left)
            except (RunHeld, StorageError):
                raise
            except (TurnbuckleError, JournalError) as error:
                log.error("the run %s cannot be resumed: %s", left, error)
                self._left = None
                return False
            if left in self.state.given_up:
                running.stop("the conversation goes on without it")
            return True

    async def _drive(self, run: RunId) -> Running:
        live = self._runs.live(run)
        running = self.running = live if live is not None and not live.done else await self._runs.resume(run)
        self._left = None
        self._began(running, self.user)
        return running

    async def _begin_next(self) -> bool:
        async with self._changing():
            if self.running is not None:
                return True  # somebody was quicker
            if not self.state.waiting or self.resting:
                return False
            if not await is_held(self._journal, self._claim, self._runs.environment.lease):
                raise ClaimLost(f"another process has the session {self.session}")
            first = self.state.waiting[0]
            try:
                await self._begin(first)
            except HOPELESS as error:
                await self._refuse(first, error)
            return True

    async def _try_to_begin(self, message: MessageAccepted) -> None:
        """It is stored, so it begins later if it cannot now. Raises what will be the same then."""
        try:
            await self._begin(message)
        except HOPELESS as error:
            try:
                await self._refuse(message, error)
            except StorageError as trouble:  # it is first in the line, and is refused there
                log.warning("that a message cannot begin cannot be stored yet: %s", trouble)
            raise
        except Exception as error:
            log.warning("a message to the session %s cannot begin now: %s", self.session, error)

    async def _refuse_first(self, error: Exception) -> None:
        """Whatever stands first in the queue fails again and again, so others get their turn."""
        async with self._changing():
            if self.running is None and self.state.waiting:
                await self._refuse(self.state.waiting[0], error)

    async def _refuse(self, message: MessageAccepted, error: Exception) -> None:
        """The run of a message cannot begin. Whoever follows it is told why."""
        why = refusal(error)
        level, trace = (logging.WARNING, None) if isinstance(error, BudgetSpent) else (logging.ERROR, error)
        log.log(level, "a message to the session %s is refused: %s", self.session, why, exc_info=trace)
        await self._decline(message, why, "", failed=True)
        await self._append([MessageRefused(self._wall(), message.id, why)])

    async def _begin(self, message: MessageAccepted) -> None:
        if not await self._journal.head(message.run):
            if (left := self.state.suspended) is not None:
                await self._append([BegunAnew(self._wall(), left.why, left.detail)])
            self.running = await self._runs.begin(
                await new_run(
                    self._journal, self._runs, self._rules, self.session, self.state, message, self.user
                )
            )
            self._began(self.running, self.user)
        elif self.running is None:
            self._left = message.run  # it was begun right before, and nobody was told
        await self._append([MessageInjected(self._wall(), message.id, message.run, "task")])

    async def _until_over(self, running: Running) -> None:
        await running.over()
        if self.running is running:  # else somebody came first who saw its end, and the next one has begun
            self.running = None
        turn = running.turn
        if turn.phase != "ended":
            self._left = running.run
            await self._sleep(AGAIN)  # whatever made it let go may be over then
        if turn.phase == "ended" and turn.tally.recoveries > self._runs.policy.max_recoveries:
            named = ", ".join(call.name for call in turn.calls if call.started) or "a model call"
            await self.suspend("crashed", running.run, f"it died again and again in {named}")

    async def _settle_steering(self) -> None:
        """Words for a turn that took them in are injected; those for one that ended without are next in the
        queue."""
        if not self.state.steering or self.running is not None:
            return
        async with self._changing():
            facts: list[SessionFact] = []
            for message in self.state.steering if self.running is None else ():
                turn = await fold_run(self._journal, message.into, self._runs.policy, self.session)
                if message.id in turn.steered:
                    facts.append(MessageInjected(self._wall(), message.id, message.into, "steered"))
                else:
                    facts.append(MessageDeferred(self._wall(), message.id, ENDED))
            await self._append(facts)

    # Storing

    def _refuse_if_busy(self) -> None:
        if self._under_way is not None or not self.state.is_idle:
            raise SessionBusy(self._what_runs())

    def _what_runs(self) -> str:
        if self.running is not None:
            return f"the run {self.running.run} is under way in this session; wait for it, or stop it"
        return "a message waits in this session; wait for it, or stop it"
