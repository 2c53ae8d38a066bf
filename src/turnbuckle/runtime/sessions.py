"""Sessions: what belongs together. A session is a stream of the journal, and its runs name it as their
parent.

The stream holds how the session was made, and the history that it began with if it is a fork. Its row in the
index holds the title and the owner. Whether something runs in it is not stored anywhere: it follows from the
runs.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from turnbuckle.errors import SessionBusy, SessionUnknown
from turnbuckle.journal.port import Changes, Grade, Held, IndexUpdate, Journal, StreamQuery, StreamRow
from turnbuckle.runtime.conversation import KIND as KEPT
from turnbuckle.runtime.conversation import Link, merged
from turnbuckle.runtime.deleting import FORK, Replacing, fork_name, replacing
from turnbuckle.runtime.held_session import KIND, OPEN
from turnbuckle.runtime.history import history_of, last_run
from turnbuckle.runtime.idempotency import Turns, marks_of_deleted
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, TOLD, Runs, listed
from turnbuckle.runtime.session_log import session_facts
from turnbuckle.runtime.transcript import Transcript
from turnbuckle.session.facts import MessageAccepted, SessionMade, encode
from turnbuckle.session.facts import decode as decode_session
from turnbuckle.session.state import SessionState
from turnbuckle.turn.commands import Record, SettleTool
from turnbuckle.turn.facts import (
    SESSION,
    RunClaimed,
    RunEnded,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    decode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.tooling import unknown

_LEASE = 10.0


class Sessions:
    """All sessions of one journal."""

    def __init__(self, journal: Journal, runs: Runs) -> None:
        self.journal = journal
        self.runs = runs
        self._turns = Turns()
        self.transcript = Transcript(journal, runs.conversations, runs.policy)

    async def create(
        self,
        session: SessionId,
        user: str,
        title: str = "",
        history: tuple[Message, ...] = (),
        metadata: dict[str, str] | None = None,
    ) -> bool:
        """Make a session. False if there is one with that name already."""
        return await self._create(
            session, user, title, SessionMade(self.runs.environment.wall(), history, metadata=metadata or {})
        )

    async def _create(
        self, session: SessionId, user: str, title: str, made: SessionMade, parent: str = ""
    ) -> bool:
        async with self._turns.of(session):
            return await self._store(session, user, title, made, parent)

    async def _store(self, session: SessionId, user: str, title: str, made: SessionMade, parent: str) -> bool:
        if await self.journal.head(session):
            return False
        claim = await self.journal.claim(session, self.runs.environment.owner, _LEASE)
        if isinstance(claim, Held):
            return False
        note = IndexUpdate(kind=KIND, title=title, status=OPEN, user=user, words=title)
        try:
            if claim.head:  # somebody made it in the meantime
                return False
            if parent:
                await self.journal.note(fork_name(session), IndexUpdate(kind=FORK, parent=parent))
            await self.journal.append(
                session, [encode(made)], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED, note=note
            )
        finally:
            await self.journal.release(claim)
        return True

    async def row(self, session: SessionId, user: str) -> StreamRow:
        """Raises SessionUnknown, also if it belongs to another user."""
        rows = await self.journal.streams(StreamQuery(kind=KIND, name=session, user=user), limit=1)
        if not rows:
            raise SessionUnknown(f"there is no session {session}")
        return rows[0]

    async def runs_of(self, session: SessionId) -> list[StreamRow]:
        """In the order in which they began."""
        found: list[StreamRow] = []
        wanted = StreamQuery(kind=RUN, parent=session, order="oldest")
        while rows := await self.journal.streams(wanted, found[-1].born if found else None):
            found += rows
        return found

    async def running(self, session: SessionId) -> RunId | None:
        """The run that has no end yet, if there is one."""
        rows = await self.journal.streams(StreamQuery(kind=RUN, parent=session, status=RUNNING), limit=1)
        return RunId(rows[0].name) if rows else None

    async def history(self, session: SessionId) -> tuple[Message, ...] | None:
        """What the next run is told before its task; None: the usual opening."""
        return await history_of(self.journal, session, await self.state(session), self.runs)

    async def state(self, session: SessionId) -> SessionState:
        """Where a session stands, as the journal has it."""
        return await self.runs.session_states.of(session)

    async def rename(self, session: SessionId, title: str) -> None:
        """Raises SessionUnknown."""
        if not await self.journal.head(session):
            raise SessionUnknown(f"there is no session {session}")
        await self.journal.note(session, IndexUpdate(title=title, words=title))

    async def delete(self, session: SessionId) -> None:
        """The session and all its runs, forever and as a whole; no key begins one of them again, and its
        background processes are ended. Raises SessionBusy while a run is under way, or somebody has not yet
        let go of it; then all of it is still there."""
        if await self.running(session) is not None:
            raise SessionBusy("a run of this session is under way; stop it first")
        own = [
            await listed(self.journal, StreamQuery(kind=kind, parent=session)) for kind in (RUN, TOLD, KEPT)
        ]
        names = [RunId(row.name) for rows in own for row in rows]
        marks = await marks_of_deleted(self.journal, (*names, *await self._said_in(session)))
        async with self._replacing(session) as kept:
            await kept.forks(session)
            if not await self.journal.change_all(
                Changes(appends=kept.appends, notes=marks, drops=(*names, fork_name(session), session))
            ):
                raise SessionBusy("a run of this session has only just ended; ask again in a moment")
        if self.runs.background is not None:
            await self.runs.background.end_all(session)

    async def _said_in(self, session: SessionId) -> list[RunId]:
        """Every run that a message was to begin, also those that entered another one."""
        runs: list[RunId] = []
        async for facts in session_facts(self.journal, session):
            runs += [fact.run for fact in facts if isinstance(fact, MessageAccepted)]
        return runs

    async def delete_run(self, run: RunId) -> bool:
        """A run that belongs to no session that is there. False if somebody has it, or goes on from it."""
        rows = await self.journal.streams(StreamQuery(kind=RUN, name=run), limit=1)
        session = SessionId(rows[0].parent if rows else "")
        if await self.running(session) not in (None, run):
            return False
        marks = await marks_of_deleted(self.journal, (run,))
        async with self._replacing(session) as kept:
            await kept.run(run, session)
            gone = [] if kept.appends else await listed(self.journal, StreamQuery(kind=KEPT, parent=session))
            drops = (run, *(row.name for row in gone))
            return await self.journal.change_all(Changes(appends=kept.appends, notes=marks, drops=drops))

    def _replacing(self, session: SessionId) -> AbstractAsyncContextManager[Replacing]:
        runs = self.runs
        return replacing(self.journal, runs.conversations, runs.environment, session)

    async def fork(
        self,
        session: SessionId,
        new: SessionId,
        user: str,
        title: str,
        run: RunId | None = None,
        at: int | None = None,
    ) -> bool:
        """A new session that shares what was said up to an item of a run: its last one if none is named. What
        had been said and done by then is its history, as if the run had been stopped there, so nothing that
        ran runs again. False if there is a session with the new name already. Raises SessionUnknown."""
        if run is not None and not await self._has(session, run):
            raise SessionUnknown(f"the session {session} has no run {run}")
        async with self._shared_with(session):
            state = await self.state(session)
            chosen = run or await last_run(self.journal, session, state)
            if chosen is not None:
                await self.runs.conversations.link(chosen, session)  # it is not somebody else's
            link = await self._shared(session, state, chosen, at)
            forked_from = {"session": session, "run": chosen, "after": at}
            fact = SessionMade(
                self.runs.environment.wall(), link.own, forked_from, {}, link.base, link.opening
            )
            return await self._create(new, user, title, fact, session)

    @asynccontextmanager
    async def _shared_with(self, session: SessionId) -> AsyncIterator[None]:
        """Nothing of a session is deleted inside of this, nor of the one that it was itself forked from: its
        forks may stand on that."""
        conversations = self.runs.conversations
        async with conversations.sharing.of(session), AsyncExitStack() as stack:
            lender = await conversations.lender(session)
            if lender != session:
                await stack.enter_async_context(conversations.sharing.of(lender))
            yield

    async def _has(self, session: SessionId, run: RunId) -> bool:
        return bool(await self.journal.streams(StreamQuery(kind=RUN, parent=session, name=run), limit=1))

    async def _shared(
        self, session: SessionId, state: SessionState, run: RunId | None, at: int | None
    ) -> Link:
        """What a fork shares: by reference, but for a part of a run."""
        conversations = self.runs.conversations
        if run is None:
            if not state.inherits:
                return Link(session, RunId(""), None, ())
            return await conversations.link(SESSION, session)
        if at is None and await self._has_ended(run):
            return Link(session, run, None, ())
        part = await self._part(run, at)
        if part.base != SESSION:
            return part
        return merged(await conversations.link(SESSION, session), part)

    async def _has_ended(self, run: RunId) -> bool:
        last = await self.journal.read(run, await self.journal.head(run) - 1, 1)
        return bool(last) and isinstance(decode(last[-1].data), RunEnded)

    async def metadata(self, session: SessionId) -> dict[str, str]:
        """The labels that it was made with."""
        fact = await self._made(session)
        return {} if fact is None else fact.metadata

    async def _made(self, session: SessionId) -> SessionMade | None:
        items = await self.journal.read(session, 0, 1)
        fact = decode_session(items[0].data) if items else None
        return fact if isinstance(fact, SessionMade) else None

    async def _part(self, run: RunId, at: int | None) -> Link:
        """What a run had added behind one of its items. Before its first, that is nothing of its own."""
        fold, after = TurnFold(self.runs.policy), 0
        started: RunStarted | None = None
        while items := await self.journal.read(run, after):
            for item in items:
                fact = decode(item.data)
                if at is not None and item.seq > at:
                    if isinstance(fact, RunStarted):
                        own = fact.messages[: len(fact.messages) - fact.fresh]
                        return Link(fact.session, fact.base, fact.opening, own)
                    if isinstance(fact, Streamed) and item.seq - fact.merged < at:
                        raise SessionUnknown(
                            f"the run {run} has no event {at} any more: it was merged with others"
                        )
                    break
                started = fact if isinstance(fact, RunStarted) else started
                if not isinstance(fact, RunEnded):
                    fold.take(fact)
            else:
                after = items[-1].seq
                continue
            break
        if started is None:
            raise SessionUnknown(f"there is no run {run}")
        return Link(started.session, started.base, started.opening, _stopped(fold))


def _stopped(fold: TurnFold) -> tuple[Message, ...]:
    """The history that this turn would leave if it were stopped where it stands. Results that are there
    stay."""
    now = fold.turn.now
    fold.take(RunClaimed(now, 0))  # what is under way in the other branch is not known here
    fold.take(StopAsked(now, "fork"))
    while due := fold.due():
        match due[0]:
            case Record(facts):
                for fact in facts:
                    fold.take(fact)
            case SettleTool(call_id, name):
                outcome = unknown("This conversation was forked while it ran.")
                fold.take(ToolFinished(now, call_id, name, outcome))
            case other:
                raise RuntimeError(f"a stopped turn wants {other}")
    return fold.turn.messages
