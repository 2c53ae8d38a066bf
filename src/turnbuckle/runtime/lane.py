"""A lane: one session at work. Whatever changes a session goes through its lane, one thing after the other.

The lane holds the session's claim, so no other process writes to the session or begins anything in it; when the claim
is lost the lane lets go of its run and closes. A message is stored before anybody is told that it was taken. Runs begin
one at a time, in the order of the messages, and a message counts as injected only when its run has begun: if the
process dies between the two, the run that is there says so, and nothing is begun twice.

A lane that has nothing to do closes after a while and gives the claim back. What it knows is a fold of the journal, so
the next one knows the same.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from datetime import tzinfo
from typing import Any

from msgspec import Struct

from turnbuckle.errors import ClaimLost, SessionBusy, TurnbuckleError
from turnbuckle.journal.port import Claim, Grade, Journal, JournalError, Note, Reader, Wanted
from turnbuckle.runtime.ports import Sleep, Wall
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import NewRun, Running, Runs, fold_run
from turnbuckle.session import state as states
from turnbuckle.session.facts import (
    BegunAnew,
    Busy,
    FreshWhy,
    MessageAccepted,
    MessageDeferred,
    MessageInjected,
    MessageRefused,
    SessionFact,
    Suspended,
    Undone,
    decode,
    encode,
)
from turnbuckle.session.reset import ResetRule, note_for, notice_for, reason
from turnbuckle.session.state import Fate, SessionState
from turnbuckle.turn.facts import RunStarted
from turnbuckle.turn.facts import decode as decode_run
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.request import Wishes

KIND = "session"
OPEN = "open"
ACTIVE = "active"
"""The status of a session with something to do: after a crash exactly these are looked at."""
LEASE = 30.0
RENEWALS = 3
REST = 5.0
"""Seconds without anything to do after which a lane closes."""
MOST_WAITING = 100
"""Messages that may wait in one session. More are refused, and whoever sent them is told."""

log = logging.getLogger("turnbuckle.session")


class LaneClosed(Exception):
    """The lane gave its claim back a moment ago; open it again."""


class Said(Struct, frozen=True):
    """A message as it comes in."""

    messages: tuple[Message, ...]
    busy: Busy | None = None
    wishes: Wishes = Wishes()
    asked: dict[str, Any] = {}
    first: tuple[Message, ...] = ()
    anew: bool = False
    run: RunId | None = None


class Taken(Struct, frozen=True):
    """A message that was stored. `after` is where its answer begins in the run's stream: behind what is there already,
    if it entered a run that was under way."""

    id: str
    run: RunId
    at: float
    after: int = 0


class Stopped(Struct, frozen=True):
    """What a stop found: the run that it ended, and the messages that will not be answered."""

    run: RunId | None = None
    refused: tuple[str, ...] = ()


class LaneRules(Struct, frozen=True):
    """The settings of every session."""

    busy: Busy = "queue"
    reset: ResetRule = ResetRule()
    zone: tzinfo | None = None
    opening: tuple[Message, ...] = ()


class Lane:
    """One session. Made and opened by `Lanes`."""

    def __init__(
        self,
        claim: Claim,
        user: str,
        journal: Journal,
        runs: Runs,
        rules: LaneRules,
        *,
        wall: Wall,
        sleep: Sleep,
        new_name: Callable[[str], str],
        began: Callable[[Running, str], None],
        closed: Callable[["Lane"], None],
    ) -> None:
        self.session = SessionId(claim.stream)
        self.user = user
        self.state = SessionState()
        self.running: Running | None = None
        self._claim = claim
        self._head = claim.head
        self._journal = journal
        self._runs = runs
        self._rules = rules
        self._wall = wall
        self._sleep = sleep
        self._new_name = new_name
        self._began = began
        self._closed = closed
        self.resting = False
        """Nothing more begins here: the process is about to end."""
        self.closing: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._due = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._hold: asyncio.Task[None] | None = None

    # Opening and closing

    async def open(self, running: Running | None = None) -> None:
        """Fold what is stored, and begin to work. `running` is a run of this session that was taken up again."""
        self.running = running
        after = 0
        while items := await self._journal.read(self.session, after):
            for item in items:
                self.state = states.apply(self.state, decode(item.data))
            after = items[-1].seq
        self._head = max(self._head, after)
        # In a context of their own: what is done here later belongs to no request.
        self._hold = asyncio.create_task(self._keep_claim(), name=f"claim of {self.session}", context=Context())
        self._work = asyncio.create_task(self._go_on(), name=f"session {self.session}", context=Context())

    async def close(self) -> None:
        """Stop working and give the claim back. A run that is under way is left to whoever drives runs."""
        if self.closing is None:
            self.closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self.closing)

    async def _close(self) -> None:
        tasks = {task for task in (self._work, self._hold) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        with contextlib.suppress(JournalError):  # a claim that is not given back ends by itself
            await self._journal.release(self._claim)
        self._closed(self)

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """One change at a time, and none once the lane closes. Raises LaneClosed."""
        async with self._lock:
            if self.closing is not None:
                raise LaneClosed
            yield

    # What people want

    @property
    def rests(self) -> bool:
        """Nothing runs and nothing waits."""
        return (self.running is None or self.running.done) and self.state.is_idle

    async def say(self, said: Said) -> Taken:
        """Take a message; one that would begin a run that waits already is that message again. Raises SessionBusy
        where it is to be refused while something runs, or the queue is full."""
        async with self._changing():
            same = next((one for one in self.state.waiting if one.run == said.run), None)
            if same is not None:
                return Taken(same.id, same.run, same.at)
            busy = said.busy or self._rules.busy
            running = self.running if self.running is not None and not self.running.done else None
            waits = running is not None or not self.state.is_idle
            if waits and busy == "refuse":
                raise SessionBusy(self._what_runs())
            if len(self.state.waiting) >= MOST_WAITING:
                raise SessionBusy(f"{MOST_WAITING} messages wait in this session already")
            steered = busy == "steer" and running is not None
            run = running.run if steered and running is not None else said.run or self._runs.new_id()
            accepted = MessageAccepted(
                self._wall(),
                self._new_name("m"),
                run,
                said.messages,
                "steer" if steered else "queue" if busy == "steer" else busy,
                said.wishes,
                said.asked,
                said.first,
                said.anew,
            )
            facts: list[SessionFact] = [*([] if waits else self._fresh_start()), accepted]
            await self._append(facts)
            after = await self._journal.head(run)
            if steered and running is not None:
                await running.steer(accepted.id, said.messages)
            elif busy == "interrupt" and running is not None:
                running.stop("a new message")
            elif not waits:
                await self._begin(accepted)
            self._due.set()
            return Taken(accepted.id, run, accepted.at, after)

    async def stop(self, by: str) -> Stopped:
        """End what runs, and what waits behind it. The next message begins anew. Nothing to stop changes nothing."""
        async with self._changing():
            running = self.running if self.running is not None and not self.running.done else None
            if running is None and self.state.is_idle:
                return Stopped()
            refused = tuple(one.id for one in (*self.state.waiting, *self.state.steering))
            facts: list[SessionFact] = [MessageRefused(self._wall(), one, "the session was stopped") for one in refused]
            if running is not None:
                facts.append(Suspended(self._wall(), "stopped", running.run))
            await self._append(facts)
            if running is None:
                return Stopped(None, refused)
            running.stop(by)
        with contextlib.suppress(TurnbuckleError, JournalError):
            await running.outcome()
        return Stopped(running.run, refused)

    async def begin_anew(self, why: FreshWhy, by: str) -> Stopped:
        """A fresh start, also while something runs: that is stopped first."""
        stopped = await self.stop(by)
        async with self._changing():
            await self._append([BegunAnew(self._wall(), why)])
        return stopped

    async def undo(self) -> RunId | None:
        """Take back the last run and what began it. Raises SessionBusy."""
        async with self._changing():
            self._refuse_if_busy()
            last = self.state.last_run
            if last is not None:
                await self._append([Undone(self._wall(), last)])
            return last

    async def retry(self, said: Said | None = None) -> Taken | None:
        """Say again what began the last run, which then counts no more. None if there is none. Raises SessionBusy."""
        last = self.state.last_run
        started = None if last is None else await self._started(last)
        if started is None:
            return None
        await self.undo()
        messages = started.messages[len(started.messages) - started.fresh :]
        asked = {**started.asked, **(said.asked if said is not None else {})}
        run = said.run if said is not None else None
        first = said.first if said is not None else ()
        return await self.say(Said(messages, "refuse", started.wishes, asked, first, run=run))

    def fate(self, message: str) -> Fate | None:
        return self.state.fates.get(message)

    async def suspend(self, why: FreshWhy, run: RunId, detail: str = "") -> None:
        """The run will not go on by itself; the next message begins anew."""
        async with self._changing():
            await self._append([Suspended(self._wall(), why, run, detail)])

    # Working

    async def _go_on(self) -> None:
        try:
            while True:
                await self._settle_steering()
                if self.running is not None:
                    await self._until_over(self.running)
                    continue
                self._due.clear()
                if await self._begin_next():
                    continue
                if not await self._woken():
                    break
        except (JournalError, ClaimLost) as error:
            log.error("the session %s is let go of: %s", self.session, error)
        except LaneClosed:
            return
        async with self._lock:
            if self.closing is None:
                self.closing = asyncio.ensure_future(self._close())

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

    async def _begin_next(self) -> bool:
        async with self._changing():
            if not self.state.waiting or self.resting:
                return False
            await self._begin(self.state.waiting[0])
            return True

    async def _begin(self, message: MessageAccepted) -> None:
        if not await self._journal.head(message.run):
            self.running = await self._runs.begin(await self._new_run(message))
            self._began(self.running, self.user)
        # A run that is there already was begun right before the process died.
        await self._append([MessageInjected(self._wall(), message.id, message.run, "task")])

    async def _new_run(self, message: MessageAccepted) -> NewRun:
        history = await history_of(self._journal, self.session, self.state, self._runs)
        anew = self.state.anew
        if history is None:
            history = message.first or self._rules.opening
        elif message.anew:
            history = (*message.first, *without_opening(history))
        asked = message.asked
        if anew is not None:
            note = Message("user", (TextPart(note_for(anew.why, anew.detail)),), note=True)
            history = (*history, note)
            asked = {**asked, "notice": notice_for(anew.why, anew.detail), "notice_why": anew.why}
        asked = {**asked, "created": message.at, "message": message.id}
        return NewRun(message.messages, self.session, history, self.user, message.wishes, asked, message.run)

    async def _until_over(self, running: Running) -> None:
        with contextlib.suppress(TurnbuckleError, JournalError, asyncio.CancelledError):
            await running.outcome()
        if not running.done:
            raise asyncio.CancelledError  # it was this lane that was cancelled, and not the run
        self.running = None
        turn = running.turn
        if turn.phase == "ended" and turn.tally.recoveries > self._runs.policy.max_recoveries:
            named = ", ".join(call.name for call in turn.calls if call.started) or "a model call"
            await self.suspend("crashed", running.run, f"it died again and again in {named}")

    async def _settle_steering(self) -> None:
        """Words for a turn that took them in are injected; those for one that ended without are next in the queue."""
        if not self.state.steering or self.running is not None:
            return
        async with self._changing():
            facts: list[SessionFact] = []
            for message in self.state.steering:
                turn = await fold_run(self._journal, message.run, self._runs.policy)
                if message.id in turn.steered:
                    facts.append(MessageInjected(self._wall(), message.id, message.run, "steered"))
                else:
                    facts.append(MessageDeferred(self._wall(), message.id, "the turn ended before it could be told"))
            await self._append(facts)

    # Storing

    def _fresh_start(self) -> list[SessionFact]:
        """What a message that finds the session at rest changes before it is taken."""
        why = states.why_anew(self.state)
        suspended = self.state.suspended
        if why is not None and suspended is not None:
            return [BegunAnew(self._wall(), why, suspended.detail)]
        if not self.state.runs and not self.state.history:
            return []
        zone = self._rules.zone
        due = reason(self._rules.reset, self.state.spoken_at, self._wall(), zone) if zone is not None else None
        return [BegunAnew(self._wall(), due)] if due is not None else []

    async def _append(self, facts: list[SessionFact]) -> None:
        if not facts:
            return
        items = [encode(fact) for fact in facts]
        after = self.state
        for fact in facts:
            after = states.apply(after, fact)
        status = OPEN if after.is_idle else ACTIVE
        note = Note(kind=KIND, status=status, user=self.user)
        self._head = await self._journal.append(
            self.session, items, after=self._head, epoch=self._claim.epoch, grade=Grade.SURE, note=note
        )
        self.state = after

    async def _started(self, run: RunId) -> RunStarted | None:
        first = await self._journal.read(run, 0, 1)
        fact = decode_run(first[0].data) if first else None
        return fact if isinstance(fact, RunStarted) else None

    def _refuse_if_busy(self) -> None:
        if (self.running is not None and not self.running.done) or not self.state.is_idle:
            raise SessionBusy(self._what_runs())

    def _what_runs(self) -> str:
        if self.running is not None:
            return f"the run {self.running.run} is under way in this session; wait for it, or stop it"
        return "a message waits in this session; wait for it, or stop it"

    async def _keep_claim(self) -> None:
        """Renew the claim. When it is lost, let go of everything at once."""
        while True:
            await self._sleep(LEASE / RENEWALS)
            try:
                if await self._journal.renew(self._claim, LEASE):
                    continue
            except JournalError:
                if self._journal.still_mine(self._claim):
                    continue
            log.error("the session %s was taken over by another process", self.session)
            if self.running is not None:
                await self.running.abandon()
            if self.closing is None:
                self.closing = asyncio.ensure_future(self._close())
            return


async def history_of(
    journal: Reader, session: SessionId, state: SessionState, runs: Runs
) -> tuple[Message, ...] | None:
    """What the next run of a session is told before its task; None where the conversation begins."""
    last = state.last_run
    if last is None and state.anew is None and not state.undone:
        # Runs that were begun without a lane, as a command does that has the journal to itself.
        found = await journal.streams(Wanted(kind=RUN, parent=session), limit=1)
        last = RunId(found[0].name) if found else None
    if last is not None and await journal.head(last):
        return (await fold_run(journal, last, runs.policy)).messages
    return state.history or None


def without_opening(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A history without the instructions in front of it."""
    begins = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    return messages[begins:]
