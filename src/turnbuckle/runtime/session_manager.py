"""The workers of all sessions that this process works on. One is opened when somebody has business there."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TypeVar

from msgspec import Struct

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.port import Held, Journal, StreamQuery
from turnbuckle.runtime.held_session import ACTIVE, KIND
from turnbuckle.runtime.log import pause
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import Runs, listed
from turnbuckle.runtime.session_messages import SessionRules, WorkerClosed
from turnbuckle.runtime.session_worker import SessionWorker
from turnbuckle.session.facts import MessageAccepted, Suspended
from turnbuckle.vocab.ids import SessionId

T = TypeVar("T")

_MOMENT = 0.01
_MOMENTS = 1000  # ten seconds: as long as a claim lasts that somebody who died in the middle left behind

log = logging.getLogger("turnbuckle.session")


class HeldElsewhere(SessionBusy):
    """Another process has the session."""


class _HeldHere(SessionBusy):
    """This process has not let go of the session yet, or could not."""


async def _always(session: SessionId) -> bool:
    return True


class TakenUpRuns(Struct, frozen=True):
    """`running` is a run of a session that was taken up again; `left` says of one that it was given up."""

    running: Running | None = None
    left: Suspended | None = None


class SessionManager:
    """All sessions that this process works on."""

    def __init__(
        self,
        journal: Journal,
        runs: Runs,
        rules: SessionRules,
        *,
        began: Callable[[Running, str], None],
    ) -> None:
        self._journal = journal
        self._runs = runs
        self._rules = rules
        self._owner = runs.environment.owner
        self._sleep = runs.environment.sleep
        self._began = began
        self._resting = False
        self.fits: Callable[[SessionId], Awaitable[bool]] = _always
        """Whether this process may work on a session. Where it may not, it takes what is said, and begins
        nothing."""
        self._open: dict[SessionId, SessionWorker] = {}
        self._opening: dict[SessionId, asyncio.Future[SessionWorker]] = {}
        self._reopening: set[asyncio.Task[None]] = set()

    def of(self, session: SessionId) -> SessionWorker | None:
        """The worker, if it is open."""
        return self._open.get(session)

    async def open(
        self, session: SessionId, user: str, take: Callable[[], Awaitable[TakenUpRuns]] | None = None
    ) -> SessionWorker:
        """The session's worker. What is to be taken up with it is taken once the session is held, so that no
        other process can have one without the other. Raises HeldElsewhere if another process has the
        session."""
        while True:
            worker = self._open.get(session)
            if worker is not None and worker.closing is not None:
                await asyncio.shield(worker.closing)
                self._forget(worker)
                continue
            if worker is not None:
                return worker
            opening = self._opening.get(session)
            if opening is None:
                opening = self._opening[session] = asyncio.ensure_future(self._make(session, user, take))
                opening.add_done_callback(lambda _: self._opening.pop(session, None))
            return await asyncio.shield(opening)

    async def with_worker(
        self, session: SessionId, user: str, act: Callable[[SessionWorker], Awaitable[T]]
    ) -> T:
        """Do something in a session's worker; one that is just closing is opened again."""
        while True:
            with contextlib.suppress(WorkerClosed):
                worker = await self.open(session, user)
                try:
                    return await act(worker)
                finally:
                    if worker.is_foreign:
                        await worker.close()

    def waiting(self, run: str, user: str | None) -> tuple[SessionId, MessageAccepted] | None:
        """The message that will begin this run, and its session, in the workers that are open; of any user if
        none is named."""
        for worker in self._open.values():
            for message in worker.state.waiting if user in (None, worker.user) else ():
                if message.run == run:
                    return worker.session, message
        return None

    async def find_waiting(
        self, run: str, user: str | None, *, alone: bool = True
    ) -> tuple[SessionId, MessageAccepted] | None:
        """The same, also in sessions whose worker is not open: it let go because of an error, lost its claim,
        or is not open yet. If this process is not `alone`, another one may have taken a claim that this one
        still believes in, and what it took in is only stored."""
        if (waiting := self.waiting(run, user)) is not None:
            return waiting
        wanted = (
            StreamQuery(kind=KIND, status=ACTIVE)
            if user is None
            else StreamQuery(kind=KIND, status=ACTIVE, user=user)
        )
        for row in await listed(self._journal, wanted):
            worker = self._open.get(SessionId(row.name))
            if alone and worker is not None and worker.holds:
                continue
            state = await self._runs.session_states.of(SessionId(row.name))
            for message in state.waiting:
                if message.run == run:
                    return SessionId(row.name), message
        return self.waiting(run, user)  # it may have been opened meanwhile

    @property
    def beginning(self) -> int:
        """In how many sessions something is about to begin."""
        return sum(worker.running is None and bool(worker.state.waiting) for worker in self._open.values())

    @property
    def queued(self) -> tuple[int, float | None]:
        """How many messages wait here, and since when the first of them does."""
        since = [message.at for worker in self._open.values() for message in worker.state.waiting]
        return len(since), min(since, default=None)

    def rest(self) -> None:
        """Begin nothing more."""
        self._resting = True
        for worker in self._open.values():
            worker.resting = True

    async def let_go(self, session: SessionId) -> None:
        """Close the worker of a session at rest. Raises SessionBusy."""
        worker = self._open.get(session)
        if worker is not None:
            if worker.running is not None:
                await worker.running.settled()
            if not worker.rests:
                raise SessionBusy("something is under way in this session; stop it first")
            await worker.close()
            self._forget(worker)

    async def close(self) -> None:
        self._resting = True
        for task in self._reopening:
            task.cancel()
        for worker in list(self._open.values()):
            await worker.close()
            self._forget(worker)

    async def _make(
        self, session: SessionId, user: str, take: Callable[[], Awaitable[TakenUpRuns]] | None
    ) -> SessionWorker:
        claim = await self._journal.claim(session, self._owner, self._runs.environment.lease)
        for _ in range(_MOMENTS):
            if not isinstance(claim, Held) or claim.by != self._owner:
                break
            await self._sleep(_MOMENT)  # somebody here makes the session, or brings it in
            claim = await self._journal.claim(session, self._owner, self._runs.environment.lease)
        if isinstance(claim, Held):
            kind = _HeldHere if claim.by == self._owner else HeldElsewhere
            raise kind(f"{claim.by} works on the session {session} at this moment")
        worker = SessionWorker(claim, user, self._journal, self._runs, self._rules, began=self._began)
        try:
            worker.is_foreign = not await self.fits(session)
            worker.resting = self._resting or worker.is_foreign
            taken = TakenUpRuns() if take is None else await take()
            await worker.open(taken.running, taken.left)
        except BaseException:
            await worker.let_go()
            raise
        self._open[session] = worker
        worker.closed.add_done_callback(lambda _: self._forget(worker))
        return worker

    def _forget(self, worker: SessionWorker) -> None:
        """It has closed. What one that failed left undone is for the next one to find."""
        if self._open.get(worker.session) is not worker:
            return
        del self._open[worker.session]
        if worker.failed and not self._resting:
            reopening = asyncio.create_task(self._reopen(worker.session, worker.user), context=Context())
            self._reopening.add(reopening)
            reopening.add_done_callback(self._reopening.discard)

    async def _reopen(self, session: SessionId, user: str) -> None:
        """What a worker that failed left undone is found by the next one. So there is one, unless another
        process has the session."""
        tries = 0
        while not self._resting:
            await self._sleep(pause(tries))
            try:
                await self.open(session, user)
            except Exception as error:
                if isinstance(error, HeldElsewhere):
                    log.info("the session %s stays closed here: %s", session, error)
                    return
                log.warning("the session %s cannot be opened: %s", session, error)
                tries += 1
                continue
            return
