"""A session that this process holds: its claim, its fold, and the one way in which facts are added to it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.port import (
    Append,
    Changes,
    Claim,
    Grade,
    IndexUpdate,
    Journal,
    StorageError,
    StreamQuery,
    TooLarge,
    head_after,
)
from turnbuckle.runtime.lease import hold
from turnbuckle.runtime.log import may_pass
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import NewRun, Runs
from turnbuckle.runtime.session_messages import SessionRules, WorkerClosed
from turnbuckle.runtime.transcript import UNDONE
from turnbuckle.session import state as states
from turnbuckle.session.facts import CompactionUndone, SessionFact, Undone, encode
from turnbuckle.session.state import SessionState
from turnbuckle.turn.base import joined, opening_of
from turnbuckle.turn.facts import SESSION, RunEnded, RunStarted
from turnbuckle.turn.facts import decode as decode_run
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message

KIND = "session"
OPEN = "open"
ACTIVE = "active"
"""The status of a session with something to do: after a crash exactly these are looked at."""

log = logging.getLogger("turnbuckle.session")


class HeldSession:
    """One session, for as long as its claim is held. What is done with it is the worker's business."""

    def __init__(
        self,
        claim: Claim,
        user: str,
        journal: Journal,
        runs: Runs,
        rules: SessionRules,
        *,
        began: Callable[[Running, str], None],
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
        self._wall = runs.environment.wall
        self._sleep = runs.environment.sleep
        self._began = began
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the claim is given back and nothing more is done here."""
        self.resting = False
        """Nothing more begins here: the process is about to end, or may not work on it."""
        self.is_foreign = False
        """This process may not work on it, and lets go of it as soon as what was asked for is done."""
        self.closing: asyncio.Task[None] | None = None
        self.failed = False
        """It closes because of an error, and may have left something undone."""
        self._left: RunId | None = None
        """A run of this session without an end that nobody drives here."""
        self._lock = asyncio.Lock()
        self._due = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._hold: asyncio.Task[None] | None = None

    @property
    def holds(self) -> bool:
        """Whether nobody else can have changed the session: a claim may be lost before that is noticed."""
        return self.closing is None and self._journal.still_mine(self._claim)

    async def close(self) -> None:
        """Stop working and give the claim back. A run that is under way is left to whoever drives runs."""
        if self.closing is None:
            self.closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self.closing)

    async def _close(self) -> None:
        tasks = {task for task in (self._work, self._hold) if task is not None}
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks)
            async with self._lock:  # whoever is in the middle of a change comes to its end
                pass
            await self.let_go()
        finally:
            self.closed.set_result(None)

    def _fail(self) -> None:
        """Close because of an error."""
        self.failed = True
        if self.closing is None:
            self.closing = asyncio.ensure_future(self._close())

    async def let_go(self) -> None:
        """Give the claim back."""
        try:
            await self._journal.release(self._claim)
        except Exception as error:  # a claim that is not given back ends by itself
            log.warning("the claim of the session %s could not be given back: %s", self.session, error)

    async def _keep_claim(self) -> None:
        """Renew the claim. When it is lost, let go of everything at once."""
        await hold(self._journal, self._claim, self._sleep, self._runs.environment.lease)
        log.error("the claim of the session %s is lost; another process may have it", self.session)
        if self.running is not None:
            await self.running.abandon()
        self._fail()

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """One change at a time, and none once the worker closes. Raises WorkerClosed."""
        async with self._lock:
            if self.running is not None:
                await self.running.settled()
            if self.closing is not None:
                raise WorkerClosed
            yield

    async def _write_declined(self, new: NewRun, why: str, by: str, *, failed: bool) -> None:
        """Store that a run will not begin. A connection may break behind a commit, and is there again soon:
        without a second try the session would say so, and nobody would know the run. Raises what may pass:
        then nothing may say that it will not begin."""
        assert new.run is not None
        try:
            try:
                await self._runs.decline(new, self.session, why, by, failed=failed)
            except StorageError:
                if not await self._journal.head(new.run):
                    await self._runs.decline(new, self.session, why, by, failed=failed)
        except Exception as error:
            if may_pass(error):
                raise
            # The next worker, which opens in a moment, finds that it is missing.
            log.warning("that the run %s will not begin cannot be stored: %s", new.run, error)
            self._fail()

    async def _append(self, facts: list[SessionFact]) -> None:
        if not facts:
            return
        items = [encode(fact) for fact in facts]
        after = self.state
        for fact in facts:
            after = states.apply(after, fact)
        status = OPEN if after.is_idle else ACTIVE
        note = IndexUpdate(kind=KIND, status=status, user=self.user)
        try:
            self._head = await self._journal.append(
                self.session, items, after=self._head, epoch=self._claim.epoch, grade=Grade.SYNCED, note=note
            )
        except (StorageError, TooLarge):
            raise  # nothing of it is stored
        except Exception:
            self._fail()  # what is stored is not known here any more
            raise
        self.state = after

    async def _change(
        self,
        facts: list[SessionFact],
        *,
        appends: Sequence[Append] = (),
        notes: Sequence[tuple[str, IndexUpdate]] = (),
        drops: Sequence[str] = (),
        untitled: bool = False,
    ) -> bool:
        """Add facts, and change other streams with them or none of all. False if one of these is somebody's.
        `untitled`: the session has its title from words that are to be found no more."""
        after = self.state
        for fact in facts:
            after = states.apply(after, fact)
        note = IndexUpdate(kind=KIND, status=OPEN if after.is_idle else ACTIVE, user=self.user)
        note = replace(note, title="", forgotten=True) if untitled else note
        items = tuple(encode(fact) for fact in facts)
        append = Append(self.session, items, self._head, self._claim.epoch, note)
        try:
            if not await self._journal.change_all(
                Changes(appends=(append, *appends), notes=notes, drops=drops)
            ):
                return False
        except (StorageError, TooLarge):
            raise  # nothing of it is stored
        except Exception:
            self._fail()
            raise
        self._head = head_after(self._head, self._claim.epoch, len(items))
        self.state = after
        return True

    async def _is_titled_by(self, run: RunId) -> bool:
        """Whether the title of the session is still the first words of this run."""
        titles = [
            row.title
            for name in (run, self.session)
            for row in await self._journal.streams(StreamQuery(name=name))
        ]
        return len(titles) == 2 and titles[0] == titles[1] != ""

    async def _started(self, run: RunId) -> RunStarted | None:
        first = await self._journal.read(run, 0, 1)
        fact = decode_run(first[0].data) if first else None
        return fact if isinstance(fact, RunStarted) else None

    async def was_compaction(self, run: RunId) -> bool:
        """Whether a run was to make the history smaller, and nothing else."""
        started = await self._started(run)
        return started is not None and started.options.compact is not None

    async def _last_that_did_something(self) -> tuple[list[Undone], RunId | None]:
        """The last run, and that those behind it are undone which were to make the history smaller and
        changed nothing: by the last message nobody means them."""
        idle: list[Undone] = []
        for run in reversed(self.state.runs):
            wished = await self.was_compaction(run)
            ended = await self._journal.read(run, await self._journal.head(run) - 1, 1)
            end = decode_run(ended[-1].data) if ended else None
            if not (wished and isinstance(end, RunEnded) and end.compaction is None):
                return idle, run
            idle.append(Undone(self._wall(), run))
        return idle, None

    async def undo_compaction(self, request: RunId | None = None) -> RunId | None:
        """Let the next run be told all that the last compaction stands for, once for each request that has an
        id. None if there is none."""
        async with self._changing():
            if request in self.state.undone_for:
                return self.state.undone_for[request] or None
            by = await self.told_by()
            if by or request is not None:
                undone = CompactionUndone(self._wall(), by, request or RunId(""))
                await self._append([undone])
            return by or None

    async def told_by(self) -> RunId:
        """The run whose compaction the next one will be told by; empty if there is none."""
        last = self.state.last_run or (SESSION if self.state.inherits else None)
        if last is None:
            return RunId("")
        return await self._runs.conversations.told_by(last, self.session, self.state.untold)

    def _refuse_if_told_of(self, run: RunId) -> None:
        """Raises SessionBusy while a run goes on whose history holds this one."""
        going_on = self._under_way.run if self._under_way is not None else self._left
        if going_on not in (None, run) and run in self.state.runs:
            raise SessionBusy(f"the run {going_on} was told of {run}; wait for it, or stop it")

    async def _opening_of(self, started: RunStarted) -> tuple[Message, ...]:
        """The instructions that stood in front of a run."""
        base = await self._runs.conversations.before(started)
        return opening_of(joined(base.messages, started.messages, started.opening))

    @property
    def _under_way(self) -> Running | None:
        return self.running if self.running is not None and not self.running.done else None


def unfound(run: RunId | None) -> list[tuple[str, IndexUpdate]]:
    """What was taken back is not found by its words any more, and not shown."""
    return [] if run is None else [(run, IndexUpdate(mark=UNDONE, forgotten=True))]
