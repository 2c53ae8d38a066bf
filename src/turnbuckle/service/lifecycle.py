"""When a process starts and stops: what the one before it left is taken up, and what runs is let go of.

A node among others does the first all the time: what no living node holds is taken up by whoever has room.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from msgspec import DecodeError, Struct

from turnbuckle.errors import RunHeld, SessionBusy, TurnbuckleError
from turnbuckle.journal.nodes import NodeState
from turnbuckle.journal.port import Damaged, FormatUnknown, JournalError, StreamQuery, StreamRow
from turnbuckle.journal.quotas import Quotas
from turnbuckle.runtime.held_session import ACTIVE
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import listed
from turnbuckle.runtime.session_manager import HeldElsewhere, TakenUpRuns
from turnbuckle.service.runs import RunService
from turnbuckle.service.stores import Stores
from turnbuckle.session.facts import FreshWhy, Suspended
from turnbuckle.turn.facts import RunLeft, decode
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.origin import CANCEL, SECOND_CHANCE

_LOOK_AROUND = 0.25  # seconds after which a process that stops looks again whether a run waits for a person
_MOST_AT_ONCE = 200  # of what nobody holds, in one look
_AGAIN = 5.0  # seconds until something is tried again that could not be taken up

log = logging.getLogger("turnbuckle.service")


class TakingUp(Struct, frozen=True):
    """How runs without an end are taken up. With `resume` off all are stopped. One that nobody touched for
    `stale_after` seconds is left alone until somebody asks for it; 0: none is."""

    resume: bool = True
    stale_after: float = 0.0


class Lifecycle:
    """All runs and sessions of a process at once."""

    def __init__(self, stores: Stores, service: RunService) -> None:
        self._journal = stores.journal
        self._runs = stores.runs
        self._sessions = stores.sessions
        self._manager = stores.manager
        self._stores = stores
        self._service = service
        self._rules = TakingUp()
        self._most = 0
        self._leaving = False
        self._looking: asyncio.Task[None] | None = None
        self._looks_again = False
        self._failed: type[Exception] | None = None
        self._left_alone: dict[str, float] = {}
        """By the names of runs and sessions: until when they are not looked at."""

    # Starting

    async def take_up(self, *, resume: bool = True, stale_after: float = 0.0) -> int:
        """After a start: exactly the runs without an end are looked at, and the sessions in which a message
        waits; those that another node has are its own.

        A run goes on where its journal ends. One whose client would have ended it by leaving is stopped,
        since that client is gone; among nodes it has a moment to come back to another one. Returns how many
        runs there were."""
        self._rules = TakingUp(resume, stale_after)
        if self._stores.desk is None:
            rows = await self._runs.unfinished()
            sessions = await listed(self._journal, StreamQuery(kind=SESSION, status=ACTIVE))
        else:
            found = await self._stores.desk.nodes.unheld(_MOST_AT_ONCE, labels=self._labels)
            rows, sessions = found.runs, found.sessions
        await self._take_all(rows, sessions)
        return len(rows)

    async def _take_all(self, rows: Sequence[StreamRow], sessions: Sequence[StreamRow]) -> None:
        of_session: dict[SessionId, list[StreamRow]] = {}
        for row in rows:
            of_session.setdefault(SessionId(row.parent), []).append(row)
        found = {SessionId(row.name): row for row in sessions}
        for session in of_session:
            for row in await self._stores.rows(SESSION, session):
                found[session] = row
        for session, row in found.items():
            await self._take_session(row, of_session.pop(session, []))
        for alone in of_session.values():
            await self._take_rows(alone)

    async def _take_session(self, row: StreamRow, rows: list[StreamRow]) -> None:
        """The session first: whoever has it has its runs."""
        is_taken = False

        async def take() -> TakenUpRuns:
            nonlocal is_taken
            is_taken = True
            return await self._take_rows(rows)

        try:
            await self._manager.open(SessionId(row.name), row.user, take)
        except HeldElsewhere:
            if self._stores.desk is None:
                log.error("the session %s is in use by another process", row.name)
        except (TurnbuckleError, JournalError) as error:  # all others are served
            log.error("the session %s cannot be opened: %s", row.name, error)
            self._leave_alone(row.name)
            if not is_taken:
                await self._take_rows(rows)

    async def _take_rows(self, rows: Sequence[StreamRow]) -> TakenUpRuns:
        """Runs without an end, all of one session."""
        taken = TakenUpRuns()
        for row in rows:
            with contextlib.suppress(RunHeld):  # another node was quicker
                one = await self._take_row(row)
                taken = TakenUpRuns(one.running or taken.running, one.left or taken.left)
        return taken

    async def _take_row(self, row: StreamRow) -> TakenUpRuns:
        now = self._stores.environment.wall()
        run, session = RunId(row.name), SessionId(row.parent)
        if self._rules.stale_after and now - row.updated > self._rules.stale_after:
            self._leave_alone(run, forever=True)
            return TakenUpRuns(None, Suspended(now, "stale", run))
        given_up: dict[RunId, FreshWhy] = {}
        with contextlib.suppress(JournalError):  # a session that cannot be read is told of when opened
            given_up = (await self._sessions.state(session)).given_up
        was_left = await self._was_left(run)
        running = await self._service.resume(row)
        if running is None:
            self._leave_alone(run)
            return TakenUpRuns(None, Suspended(now, "crashed", run))
        if given_up.get(run, "stale") != "stale":
            running.stop("it was to be stopped before the process died")  # before it does anything
        policy = (await self._service.started(run)).origin.on_disconnect
        if policy == CANCEL and (was_left or self._stores.desk is not None):
            policy = SECOND_CHANCE  # its client was told that the run is kept, or comes back to another node
        if not self._rules.resume or policy == CANCEL:
            running.stop("the server was restarted")
            return TakenUpRuns(running, Suspended(now, "crashed", run))
        self._service.watch.awaits(run, policy)
        return TakenUpRuns(running)

    async def _was_left(self, run: RunId) -> bool:
        """Whether the process before let go of a run in good order."""
        last = await self._journal.read(run, max(await self._journal.head(run) - 1, 0), 1)
        return bool(last) and isinstance(decode(last[0].data), RunLeft)

    async def resume_all(self) -> tuple[RunId, ...]:
        """Take up every run without an end, and every session in which a message waits. A session has one run
        at a time, so others of it follow by themselves."""
        taken: list[RunId] = []
        for row in reversed(await self._runs.unfinished()):
            with contextlib.suppress(SessionBusy):
                if await self._service.go_on(RunId(row.name)):
                    taken.append(RunId(row.name))
        for row in await listed(self._journal, StreamQuery(kind=SESSION, status=ACTIVE)):
            worker = await self._manager.open(SessionId(row.name), row.user)
            taken.extend(message.run for message in worker.state.waiting if message.run not in taken)
        return tuple(taken)

    # Among nodes

    async def join(self, name: str, version: str, most: int = 0) -> None:
        """From here on this process answers other nodes, and takes up what none of them holds: as many runs
        at once as `most`, or any number if that is 0."""
        desk = self._stores.desk
        if desk is not None:
            self._most = most
            self._service.is_full = lambda: self._room <= 0
            self._service.watch.add(self)
            await desk.nodes.join(name, version, self.state, desk.perform, self._look)

    async def depart(self) -> None:
        """Answer nothing more."""
        if self._looking is not None:
            await asyncio.wait([self._looking])
        if self._stores.desk is not None:
            await self._stores.desk.nodes.leave()

    async def settle_abandoned(self, quotas: Quotas) -> None:
        """Runs that have ended, whose node died before it could say what they cost."""
        for run in await quotas.abandoned():
            await quotas.settle(run, await self._cost_of(run))

    async def _cost_of(self, run: str) -> float | None:
        """What a run has cost by its end; None also if that cannot be read, so that others get their turn."""
        try:
            return await self._stores.spending.stored(run)
        except (Damaged, FormatUnknown, DecodeError) as error:
            log.warning("what the run %s has cost cannot be read: %s", run, error)
            return None

    def began(self, running: Running) -> None:
        """One more is driven here."""

    def awaits(self, run: RunId, on_disconnect: str) -> None:
        """Its readers are somebody else's business."""

    def gone(self, run: RunId, error: BaseException | None) -> None:
        """There is room for another one."""
        if self._most:
            self._look()

    def state(self) -> NodeState:
        """How much this process has to do."""
        return NodeState(len(self._runs.all_live), self._most, tuple(sorted(self._labels)))

    @property
    def _labels(self) -> frozenset[str]:
        return frozenset() if self._stores.pins is None else self._stores.pins.labels

    @property
    def _room(self) -> int:
        taken = len(self._runs.all_live) + self._manager.beginning
        return self._most - taken if self._most else _MOST_AT_ONCE

    def _look(self) -> None:
        """There may be work that nobody holds. What is called for during a look may have come too late for
        it, so there is another one then."""
        self._looks_again = self._looking is not None
        if self._looking is None and not self._leaving and self._room > 0:
            self._looking = asyncio.create_task(self._take_what_is_there(), name="work of other nodes")

    async def _take_what_is_there(self) -> None:
        desk = self._stores.desk
        assert desk is not None
        try:
            now = self._stores.environment.wall()
            self._left_alone = {name: until for name, until in self._left_alone.items() if until > now}
            found = await desk.nodes.unheld(_MOST_AT_ONCE, self._left_alone, self._labels)
            room = max(self._room, 0)
            await self._take_all(found.runs[:room], found.sessions[: max(room - len(found.runs), 0)])
        except (TurnbuckleError, JournalError) as error:
            if type(error) is not self._failed:  # it is looked for several times a second
                log.warning("runs that nobody drives cannot be resumed now: %s", error)
            self._failed = type(error)
        else:
            self._failed = None
        finally:
            self._looking = None
            if self._looks_again:
                self._look()

    def _leave_alone(self, name: str, *, forever: bool = False) -> None:
        self._left_alone[name] = self._stores.environment.wall() + (1e9 if forever else _AGAIN)

    # Stopping

    async def leave_all(self, seconds: float, why: str) -> int:
        """Let the runs that are under way end, for so long; mark the others as left. Nobody waits for those
        that only wait for a person. Returns how many were left."""
        self._leaving = True
        self._manager.rest()  # what waits in a session begins after the next start
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while (rest := until - clock()) > 0:
            busy = [run for run in self._runs.all_live if not (run.done or run.waits_for_person)]
            ends = [asyncio.ensure_future(run.outcome()) for run in busy]
            if not ends:
                break
            await asyncio.wait(ends, timeout=min(rest, _LOOK_AROUND), return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        await self._manager.close()  # so that nothing that waits begins now
        left = self._runs.all_live
        await asyncio.gather(*(running.leave(why) for running in left), return_exceptions=True)
        if self._stores.desk is not None:
            self._stores.desk.nodes.call()  # somebody else goes on with them
        return len(left)
