"""What the handlers need of the runtime, in one place: begin a run, find one, stop one.

Everything that must hold for each of them is here. A run begins once, however often its request is sent; it has a slot
as long as it is under way; in a session there is one at a time; and it is found only by whoever owns it. A run is its
own task: the request that began it is merely its first reader.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import ClaimLost, RunUnknown, SessionBusy, TurnbuckleError
from turnbuckle.journal.port import Journal, JournalError, StreamRow, Wanted
from turnbuckle.runtime.handover import Handover, finder
from turnbuckle.runtime.lane import ACTIVE
from turnbuckle.runtime.lane import KIND as SESSION
from turnbuckle.runtime.lanes import Lanes
from turnbuckle.runtime.once import Again, First, Once, Other, key_fault
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, TOLD, NewRun, Runs, listed
from turnbuckle.runtime.saying import QUEUED, Said
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.server.attendance import CANCEL, DETACH, SECOND_CHANCE, Attendance
from turnbuckle.server.catalog import Catalog
from turnbuckle.server.http import Exchange, Headers, Problem
from turnbuckle.server.limits import Slots
from turnbuckle.server.names import public_session, run_id, session_id
from turnbuckle.server.problems import unknown
from turnbuckle.server.session_commands import Commands
from turnbuckle.server.tailing import Tailing
from turnbuckle.session.commands import parse
from turnbuckle.session.facts import Busy, FreshWhy, Suspended
from turnbuckle.turn.facts import RunLeft, RunStarted, decode
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message

BUSY = "x-turnbuckle-busy"
WITHDRAWN = "it was taken back before its turn came"
Began = Callable[[Running, str], None]
STOP_SECONDS = 5.0
"""How long a stop waits for the end that it asked for. Everything under way ends within a second, except a store that
does not answer."""
_LOOK_AROUND = 0.25  # seconds after which a server that stops looks again whether a run only waits for a person

log = logging.getLogger("turnbuckle.server")


class Begun(Struct, frozen=True):
    """A run that was begun, now or by the same request before. One that waits for its turn in a session has only its
    id so far. `after` is where the answer to this request begins: behind what a run had said when it was steered.
    `message`: what was said into a run that was under way. `told`: it is the answer to a command, which no model gets
    to see."""

    run: RunId
    session: SessionId
    asked: dict[str, Any]
    created: float
    after: int = 0
    message: str = ""
    replayed: bool = False
    ended: bool = False
    told: bool = False

    @property
    def queued(self) -> str:
        """What it waited for before it began, or waits for still."""
        return str(self.asked.get(QUEUED, ""))

    @property
    def on_disconnect(self) -> str:
        return str(self.asked.get("on_disconnect", DETACH))

    def headers(self, owner: str) -> Headers:
        """What every answer about a run carries."""
        made = (("x-turnbuckle-run", self.run), ("x-turnbuckle-session", public_session(owner, self.session)))
        return (*made, ("idempotency-replayed", "true")) if self.replayed else made


def begun_by(started: RunStarted, *, replayed: bool = False, ended: bool = False) -> Begun:
    """The same for a run that has begun."""
    created = float(started.asked.get("created", started.at))
    return Begun(started.run, started.session, started.asked, created, replayed=replayed, ended=ended)


class Desk:
    """All handlers share one."""

    def __init__(
        self,
        *,
        journal: Journal,
        runs: Runs,
        sessions: Sessions,
        lanes: Callable[[Began], Lanes],
        once: Once,
        catalog: Catalog,
        slots: Slots,
        tailing: Tailing,
        attendance: Attendance,
        new_name: Callable[[str], str],
        opening: tuple[Message, ...] = (),
        gone: Callable[[str], None] | None = None,
    ) -> None:
        """`gone` is told of every run that is no longer driven here, ended or not."""
        self.journal = journal
        self.runs = runs
        self.sessions = sessions
        self.lanes = lanes(self.follow)
        self.commands = Commands(self.lanes, sessions)
        self.catalog = catalog
        self.tailing = tailing
        self.attendance = attendance
        self.opening = opening
        self.handover = Handover(finder(journal, runs.policy))
        self.once = once
        self._slots = slots
        self._new_name = new_name
        self._gone = gone
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def new_session(self) -> str:
        """A public id for a session that nobody has named."""
        return self._new_name("s")

    # Beginning

    async def begin(
        self,
        exchange: Exchange,
        new: NewRun,
        *,
        first: tuple[Message, ...] | None = None,
        anew: bool = False,
        busy: Busy | None = None,
    ) -> Begun:
        """Begin a run, or find the one that the same request began before. With `first` it belongs to a session that
        goes on, and those messages stand in front of it where the conversation begins, or `anew` with every run; `busy`
        says what happens while another one is under way there. Raises Problem."""
        in_header = read_busy(exchange.headers.get(BUSY, ""))  # a mistake in it is told, even if the body counts
        busy = busy or in_header
        new = replace(new, user=exchange.caller.owner)
        reserved = await self._reservation(exchange)
        if reserved is None:
            return await self._begin(replace(new, run=self.runs.new_id()), first, anew, busy)
        run, again = reserved.run, isinstance(reserved, Again)
        async with self.once.starting(run) as fresh:
            if fresh:
                return await self._begin(replace(new, run=run), first, anew, busy, again=again)
        await self.go_on_with(run)
        return begun_by(await self.started(run), replayed=True)

    async def go_on_with(self, run: RunId) -> None:
        """A run that was begun before and came to a halt without an end goes on for whoever asks for it again."""
        for row in await self.journal.streams(Wanted(kind=RUN, name=run, status=RUNNING), limit=1):
            if self.runs.live(run) is None:
                with contextlib.suppress(Problem):  # something else runs in its session, which goes on with it later
                    await self.go_on(row)

    async def reserved(self, exchange: Exchange) -> RunId | None:
        """The id that this request has by its Idempotency-Key, the same each time it is sent; None if it has no key.
        Raises Problem."""
        reserved = await self._reservation(exchange)
        return None if reserved is None else reserved.run

    async def _reservation(self, exchange: Exchange) -> First | Again | None:
        key = exchange.headers.get("idempotency-key")
        if key is None:
            return None
        if fault := key_fault(key):  # an empty one is a mistake of a client that thinks it is protected
            raise Problem(400, fault, param="Idempotency-Key", code="invalid_idempotency_key")
        reserved = await self.once.reserve(exchange.caller.owner, key, await fingerprint(exchange))
        if isinstance(reserved, Other):
            message = "this Idempotency-Key was used for another request; use a new one"
            raise Problem(409, message, code="idempotency_key_reused", should_retry=False)
        return reserved

    async def new_session_for(self, exchange: Exchange) -> tuple[str, bool]:
        """A public id for a session that a request makes without naming it, and whether the same request was sent
        under its key before: then it is the id of the first time. Raises Problem."""
        run = await self.reserved(exchange)
        if run is None:
            return self.new_session(), False
        public = f"s{run.removeprefix('r')}"
        session = session_id(exchange.caller.owner, public)
        return public, bool(await self.journal.head(session))

    async def _begin(
        self, new: NewRun, first: tuple[Message, ...] | None, anew: bool, busy: Busy | None, again: bool = False
    ) -> Begun:
        assert new.run is not None
        if first is not None and new.session is not None:
            return await self._say(new, new.session, Said((), busy, first=first, anew=anew, again=again))
        self._slots.acquire(new.user, new.run)
        try:
            running = await self.runs.begin(new)
        except BaseException:
            self._slots.release(new.run)
            raise
        self.follow(running)
        return begun_by(await self.started(new.run))

    async def _say(self, new: NewRun, session: SessionId, said: Said) -> Begun:
        """Say something in a session. Its run begins when its turn comes."""
        assert new.run is not None
        said = replace(said, messages=new.messages, wishes=new.wishes, asked=new.asked, run=new.run)
        async with self._locked(session):
            # What a client has said elsewhere comes along into a session that is new.
            await self.sessions.create(session, new.user, new.title, new.history or ())
        if (command := parse(new.words)) is not None:
            told = await self.commands.perform(command, session, new, said)
            if told.taken is None:
                await self.runs.tell(told.text, new, session)
            run = new.run if told.taken is None else told.taken.run
            return Begun(run, session, new.asked, time.time())
        lane = self.lanes.of(session)
        if lane is None or lane.rests:
            self._slots.acquire(new.user, new.run)
        try:
            taken = await self.lanes.with_lane(session, new.user, lambda lane: lane.say(said))
        except SessionBusy as busy:
            self._slots.release(new.run)
            raise self._busy(session, str(busy)) from None
        except RunUnknown:
            self._slots.release(new.run)
            raise unknown("run", new.run) from None
        except BaseException:
            self._slots.release(new.run)
            raise
        if taken.run != new.run:
            self._slots.release(new.run)  # it entered a run that has a slot of its own
        elif self.runs.live(new.run) is None:
            self._slots.release(new.run)  # it waits, or has ended already
        message = taken.id if taken.run != new.run else ""
        asked = {**new.asked, QUEUED: taken.queued} if taken.queued else new.asked
        return Begun(taken.run, session, asked, taken.at, taken.after, message)

    def _busy(self, session: SessionId, why: str) -> Problem:
        lane = self.lanes.of(session)
        run = lane.running.run if lane is not None and lane.running is not None else ""
        headers = (("x-turnbuckle-run", run),) if run else ()
        return Problem(409, why, code="session_busy", should_retry=False, headers=headers)

    @asynccontextmanager
    async def _locked(self, name: str) -> AsyncIterator[None]:
        """One at a time for each name; a lock that nobody wants is gone."""
        lock, wanted = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, wanted + 1)
        try:
            async with lock:
                yield
        finally:
            lock, wanted = self._locks[name]
            if wanted == 1:
                del self._locks[name]
            else:
                self._locks[name] = (lock, wanted - 1)

    def follow(self, running: Running, user: str | None = None) -> None:
        """Give the slot back at its end, however that comes. `user`: it began by itself, and has its slot from now."""
        if user is not None:
            self._slots.hold(user, running.run)

        def over(error: BaseException | None) -> None:
            self._slots.release(running.run)
            self.attendance.forget(running.run)
            if self._gone is not None:
                self._gone(running.run)
            if error is not None:
                log.error("the run %s was let go of: %s", running.run, error)
            if isinstance(error, Exception) and not isinstance(error, ClaimLost):
                self.tailing.give_up(running.run, error)  # else somebody goes on with it

        running.when_done(over)

    # Taking up again

    async def take_up(self, *, resume: bool = True, stale_after: float = 0.0, now: float = 0.0) -> int:
        """After a start: exactly the runs without an end are looked at, and the sessions in which a message waits.

        A run goes on where its journal ends. One whose client would have ended it by leaving is stopped, since that
        client is gone; with `resume` off all are. One that nobody touched for `stale_after` seconds is left alone until
        somebody asks for it. Returns how many runs there were."""
        rows = await self.runs.unfinished()
        going_on: dict[SessionId, Running] = {}
        left: dict[SessionId, Suspended] = {}
        for row in rows:
            run, session = RunId(row.name), SessionId(row.parent)
            if stale_after and now - row.updated > stale_after:
                left[session] = Suspended(now, "stale", run)
                continue
            given_up: dict[RunId, FreshWhy] = {}
            with contextlib.suppress(JournalError):  # a session that can not be read is told of when it is opened
                given_up = (await self.sessions.state(session)).given_up
            was_left = await self._was_left(run)
            running = await self.resume(row)
            if running is None:
                left[session] = Suspended(now, "crashed", run)
                continue
            if given_up.get(run, "stale") != "stale":
                running.stop("it was to be stopped before the process died")  # before it does anything
            policy = str((await self.started(run)).asked.get("on_disconnect", DETACH))
            if policy == CANCEL and was_left:
                policy = SECOND_CHANCE  # its client was told that the run is kept
            if not resume or policy == CANCEL:
                running.stop("the server was restarted")
                left[session] = Suspended(now, "crashed", run)
            else:
                self.attendance.expect(run, policy)
            going_on[session] = running
        await self._open_sessions(going_on, left)
        return len(rows)

    async def _was_left(self, run: RunId) -> bool:
        """Whether the process before let go of a run in good order."""
        last = await self.journal.read(run, max(await self.journal.head(run) - 1, 0), 1)
        return bool(last) and isinstance(decode(last[0].data), RunLeft)

    async def _open_sessions(self, going_on: dict[SessionId, Running], left: dict[SessionId, Suspended]) -> None:
        known = {SessionId(row.name): row for row in await listed(self.journal, Wanted(kind=SESSION, status=ACTIVE))}
        for session in (*going_on, *left):
            known.update((SessionId(row.name), row) for row in await self._session_rows(session))
        for session, row in known.items():
            try:
                await self.lanes.open(session, row.user, going_on.get(session), left.get(session))
            except (TurnbuckleError, JournalError) as error:  # all others are served
                log.error("the session %s can not be opened: %s", session, error)

    async def _session_rows(self, session: SessionId) -> list[StreamRow]:
        return await self.journal.streams(Wanted(kind=SESSION, name=session), limit=1)

    async def resume(self, row: StreamRow) -> Running | None:
        """Take a run up where its journal ends. None if that can not be done, which the log tells."""
        try:
            running = await self.runs.resume(RunId(row.name))
        except (TurnbuckleError, JournalError) as error:
            log.error("the run %s can not be taken up: %s", row.name, error)
            return None
        self.follow(running, row.user)
        return running

    async def go_on(self, row: StreamRow) -> None:
        """Somebody wants a run to go on that nobody drives. Raises Problem if something else runs in its session."""
        run, session = RunId(row.name), SessionId(row.parent)
        if not await self._session_rows(session):
            await self.resume(row)
            return
        try:
            await self.lanes.with_lane(session, row.user, lambda lane: lane.take_up(run))
        except SessionBusy as busy:
            raise self._busy(session, str(busy)) from None
        except (TurnbuckleError, JournalError) as error:
            log.error("the run %s can not be taken up: %s", run, error)

    async def leave_all(self, seconds: float, why: str) -> int:
        """Let the runs that are under way end, for so long; mark the others as left. Nobody waits for those that only
        wait for a person. Returns how many were left."""
        self.lanes.rest()  # what waits in a session begins after the next start
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while (rest := until - clock()) > 0:
            busy = [one for one in self.runs.all_live if not (one.done or one.waits_for_person)]
            ends = [asyncio.ensure_future(one.outcome()) for one in busy]
            if not ends:
                break
            await asyncio.wait(ends, timeout=min(rest, _LOOK_AROUND), return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        await self.lanes.close()  # so that nothing that waits begins now
        left = self.runs.all_live
        await asyncio.gather(*(running.leave(why) for running in left), return_exceptions=True)
        return len(left)

    # Finding

    async def row(self, run: str, owner: str) -> StreamRow:
        """A run of this owner, or the answer to a command. Raises Problem: one of somebody else looks unknown."""
        if (known := run_id(run)) is not None:
            for kind in (RUN, TOLD):
                if found := await self.journal.streams(Wanted(kind=kind, name=known, user=owner), limit=1):
                    return found[0]
        raise unknown("run", run)

    async def found(self, run: str, owner: str) -> Begun:
        """A run of this owner, also one that waits for its turn in a session. Raises Problem."""
        try:
            return await self._begun(run, owner)
        except Problem:
            waiting = await self.lanes.find_waiting(run, owner)
        if waiting is None:
            return await self._begun(run, owner)  # its turn came between the two looks
        session, message = waiting
        return Begun(message.run, session, message.asked, message.at)

    async def _begun(self, run: str, owner: str) -> Begun:
        """One whose beginning can be read: its row may be seen a moment before."""
        row = await self.row(run, owner)
        begun = begun_by(await self.started(RunId(row.name)), ended=row.status != RUNNING)
        return replace(begun, told=row.kind == TOLD)

    async def started(self, run: RunId) -> RunStarted:
        """How a run began. Raises Problem."""
        first = await self.journal.read(run, 0, 1)
        fact = decode(first[0].data) if first else None
        if not isinstance(fact, RunStarted):
            raise unknown("run", run)
        return fact

    # Stopping

    async def settled(self, run: RunId) -> None:
        """Wait until a run that has its end is let go of."""
        running = self.runs.live(run)
        if running is not None:
            await running.settled()

    async def delete_session(self, session: SessionId) -> None:
        """The session and all its runs, which no key begins again. Raises SessionBusy; then all of it is there."""
        await self.lanes.let_go(session)
        await self.sessions.delete(session)

    async def delete_run(self, run: RunId, owner: str) -> bool:
        """A run that has ended, for ever; its session goes on without it. False if it is under way. Raises Problem."""
        row = await self.row(run, owner)
        await self.settled(run)
        session = SessionId(row.parent)
        rows = await self._session_rows(session)
        if not rows:
            deleted = await self.sessions.delete_run(run)
            if deleted and self.runs.background is not None:
                await self.runs.background.end_all(session)  # nobody would know whose they are
            return deleted
        try:
            await self.lanes.with_lane(session, rows[0].user, lambda lane: lane.forget(run))
        except SessionBusy:
            return False
        return True

    async def end(self, run: RunId, owner: str, by: str) -> bool:
        """Ask a run to end, also one that waits for its turn. False if it had ended. Raises Problem."""
        if await self.withdraw(run, owner, by=by):
            return True
        return await self.stop(await self.row(run, owner), by)

    async def withdraw(self, run: RunId, owner: str | None = None, why: str = WITHDRAWN, by: str = "") -> bool:
        """Take back the message that would begin this run, if it still waits."""
        waiting = await self.lanes.find_waiting(run, owner)
        if waiting is None:
            return False
        session, _ = waiting
        rows = await self._session_rows(session)
        user = rows[0].user if rows else ""
        withdrawn = await self.lanes.with_lane(session, user, lambda lane: lane.withdraw(run, why, by))
        if withdrawn:
            self._slots.release(run)
        return withdrawn

    async def stop(self, row: StreamRow, by: str) -> bool:
        """Ask a run to end, and wait for that. One that nobody drives is taken up for it. False if it had ended."""
        await self.settled(RunId(row.name))
        running = self.runs.live(RunId(row.name))
        if running is None and row.status == RUNNING:
            running = await self.resume(row)
        if running is None:
            return False
        lane = self.lanes.of(SessionId(row.parent))
        if lane is not None and lane.running is running:
            await lane.suspend("stopped", running.run)
        running.stop(by)
        with contextlib.suppress(TurnbuckleError, JournalError, TimeoutError):
            await asyncio.wait_for(running.outcome(), STOP_SECONDS)
        return True


def read_busy(text: str) -> Busy | None:
    """What a request wants done while something else runs in its session. Raises Problem."""
    match text.strip().lower():
        case "":
            return None
        case "queue" | "steer" | "interrupt" | "refuse" as busy:
            return busy
        case _:
            message = "X-Turnbuckle-Busy must be queue, steer, interrupt or refuse"
            raise Problem(400, message, param="X-Turnbuckle-Busy", code="invalid_value")


async def fingerprint(exchange: Exchange) -> str:
    """What makes a request another one: where it goes, what it says, and the headers that change its meaning."""
    names = ("x-turnbuckle-session", "x-turnbuckle-on-disconnect")
    said = "\0".join((exchange.method, exchange.path, *(exchange.headers.get(name, "") for name in names)))
    return hashlib.sha256(said.encode() + b"\0" + await exchange.body()).hexdigest()
