"""When a process starts and stops: what the one before it left is taken up, and what runs is let go of."""

import asyncio
import contextlib
import logging

from turnbuckle.errors import SessionBusy, TurnbuckleError
from turnbuckle.journal.port import JournalError, StreamQuery
from turnbuckle.runtime.held_session import ACTIVE
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import listed
from turnbuckle.service.runs import RunService
from turnbuckle.service.stores import Stores
from turnbuckle.session.facts import FreshWhy, Suspended
from turnbuckle.turn.facts import RunLeft, decode
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.origin import CANCEL, SECOND_CHANCE

_LOOK_AROUND = 0.25  # seconds after which a process that stops looks again whether a run waits for a person

log = logging.getLogger("turnbuckle.service")


class Lifecycle:
    """All runs and sessions of a process at once."""

    def __init__(self, stores: Stores, service: RunService) -> None:
        self._journal = stores.journal
        self._runs = stores.runs
        self._sessions = stores.sessions
        self._manager = stores.manager
        self._stores = stores
        self._service = service

    async def take_up(self, *, resume: bool = True, stale_after: float = 0.0) -> int:
        """After a start: exactly the runs without an end are looked at, and the sessions in which a message
        waits.

        A run goes on where its journal ends. One whose client would have ended it by leaving is stopped,
        since that client is gone; with `resume` off all are. One that nobody touched for `stale_after`
        seconds is left alone until somebody asks for it. Returns how many runs there were."""
        now = self._stores.environment.wall()
        rows = await self._runs.unfinished()
        going_on: dict[SessionId, Running] = {}
        left: dict[SessionId, Suspended] = {}
        for row in rows:
            run, session = RunId(row.name), SessionId(row.parent)
            if stale_after and now - row.updated > stale_after:
                left[session] = Suspended(now, "stale", run)
                continue
            given_up: dict[RunId, FreshWhy] = {}
            with contextlib.suppress(JournalError):  # a session that cannot be read is told of when opened
                given_up = (await self._sessions.state(session)).given_up
            was_left = await self._was_left(run)
            running = await self._service.resume(row)
            if running is None:
                left[session] = Suspended(now, "crashed", run)
                continue
            if given_up.get(run, "stale") != "stale":
                running.stop("it was to be stopped before the process died")  # before it does anything
            policy = (await self._service.started(run)).origin.on_disconnect
            if policy == CANCEL and was_left:
                policy = SECOND_CHANCE  # its client was told that the run is kept
            if not resume or policy == CANCEL:
                running.stop("the server was restarted")
                left[session] = Suspended(now, "crashed", run)
            else:
                self._service.watch.awaits(run, policy)
            going_on[session] = running
        await self._open_sessions(going_on, left)
        return len(rows)

    async def _was_left(self, run: RunId) -> bool:
        """Whether the process before let go of a run in good order."""
        last = await self._journal.read(run, max(await self._journal.head(run) - 1, 0), 1)
        return bool(last) and isinstance(decode(last[0].data), RunLeft)

    async def _open_sessions(
        self, going_on: dict[SessionId, Running], left: dict[SessionId, Suspended]
    ) -> None:
        rows = await listed(self._journal, StreamQuery(kind=SESSION, status=ACTIVE))
        for session in (*going_on, *left):
            rows += await self._stores.rows(SESSION, session)
        for session, row in {SessionId(row.name): row for row in rows}.items():
            try:
                await self._manager.open(session, row.user, going_on.get(session), left.get(session))
            except (TurnbuckleError, JournalError) as error:  # all others are served
                log.error("the session %s cannot be opened: %s", session, error)

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

    async def leave_all(self, seconds: float, why: str) -> int:
        """Let the runs that are under way end, for so long; mark the others as left. Nobody waits for those
        that only wait for a person. Returns how many were left."""
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
        return len(left)
