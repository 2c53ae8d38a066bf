"""Sessions: what belongs together. A session is a stream of the journal, and its runs name it as their parent.

The stream holds how the session was made, and the history that it began with if it is a fork. Its row in the index
holds the title and the owner. Whether something runs in it is not stored anywhere: it follows from the runs.
"""

from typing import Any

import msgspec
from msgspec import Struct

from turnbuckle.errors import SessionBusy, SessionUnknown
from turnbuckle.journal.port import Grade, Held, Journal, Note, StreamRow, Wanted
from turnbuckle.runtime.history import history_of, last_run, without_deleted
from turnbuckle.runtime.lane import KIND, OPEN
from turnbuckle.runtime.once import Turns, marks_of_deleted
from turnbuckle.runtime.ports import Wall
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, TOLD, Runs, fold_run, listed
from turnbuckle.runtime.session_log import fold_session, session_facts
from turnbuckle.session.facts import MessageAccepted, SessionMade, encode
from turnbuckle.session.facts import decode as decode_session
from turnbuckle.session.state import SessionState
from turnbuckle.turn.commands import Record, SettleTool
from turnbuckle.turn.facts import RunClaimed, RunEnded, RunStarted, StopAsked, Streamed, ToolFinished, decode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import unknown

_LEASE = 10.0


class Told(Struct, frozen=True):
    """One message of a session as people see it."""

    run: RunId
    at: float
    message: Message
    outcome: Outcome | None = None
    """Of the run, on its last message."""


class Sessions:
    """All sessions of one journal."""

    def __init__(self, journal: Journal, runs: Runs, *, owner: str, wall: Wall) -> None:
        self.journal = journal
        self._runs = runs
        self._owner = owner
        self._wall = wall
        self._turns = Turns()

    async def create(
        self,
        session: SessionId,
        user: str,
        title: str = "",
        history: tuple[Message, ...] = (),
        forked_from: dict[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
    ) -> bool:
        """Make a session. False if there is one with that name already."""
        async with self._turns.of(session):
            return await self._create(session, user, title, history, forked_from or {}, metadata or {})

    async def _create(
        self,
        session: SessionId,
        user: str,
        title: str,
        history: tuple[Message, ...],
        forked_from: dict[str, Any],
        metadata: dict[str, str],
    ) -> bool:
        if await self.journal.head(session):
            return False
        claim = await self.journal.claim(session, self._owner, _LEASE)
        if isinstance(claim, Held):
            return False
        made = encode(SessionMade(self._wall(), history, forked_from, metadata))
        note = Note(kind=KIND, title=title, status=OPEN, user=user, words=title)
        try:
            if claim.head:  # somebody made it in the meantime
                return False
            await self.journal.append(session, [made], after=claim.head, epoch=claim.epoch, grade=Grade.SURE, note=note)
        finally:
            await self.journal.release(claim)
        return True

    async def row(self, session: SessionId, user: str) -> StreamRow:
        """Raises SessionUnknown, also if it belongs to another user."""
        found = await self.journal.streams(Wanted(kind=KIND, name=session, user=user), limit=1)
        if not found:
            raise SessionUnknown(f"there is no session {session}")
        return found[0]

    async def runs_of(self, session: SessionId) -> list[StreamRow]:
        """In the order in which they began."""
        found = await listed(self.journal, Wanted(kind=RUN, parent=session))
        return sorted(found, key=lambda row: (row.created, row.name))

    async def running(self, session: SessionId) -> RunId | None:
        """The run that has no end yet, if there is one."""
        found = await self.journal.streams(Wanted(kind=RUN, parent=session, status=RUNNING), limit=1)
        return RunId(found[0].name) if found else None

    async def history(self, session: SessionId) -> tuple[Message, ...] | None:
        """What the next run is told before its task; None: the usual opening."""
        return await history_of(self.journal, session, await self.state(session), self._runs)

    async def state(self, session: SessionId) -> SessionState:
        """Where a session stands, as the journal has it."""
        return await fold_session(self.journal, session)

    async def rename(self, session: SessionId, title: str) -> None:
        """Raises SessionUnknown."""
        if not await self.journal.head(session):
            raise SessionUnknown(f"there is no session {session}")
        await self.journal.note(session, Note(title=title, words=title))

    async def delete(self, session: SessionId) -> None:
        """The session and all its runs, for ever and as a whole; no key begins one of them again, and its background
        processes are ended. Raises SessionBusy while a run is under way, or somebody has not yet let go of it; then
        all of it is still there."""
        if await self.running(session) is not None:
            raise SessionBusy("a run of this session is under way; stop it first")
        told = await listed(self.journal, Wanted(kind=TOLD, parent=session))
        names = [RunId(row.name) for row in (*await self.runs_of(session), *told)]
        marks = await marks_of_deleted(self.journal, (*names, *await self._said_in(session)))
        if not await self.journal.change_all(notes=marks, drops=(*names, session)):
            raise SessionBusy("a run of this session has only just ended; ask again in a moment")
        if self._runs.background is not None:
            await self._runs.background.end_all(session)

    async def _said_in(self, session: SessionId) -> list[RunId]:
        """Every run that a message was to begin, also those that entered another one."""
        said: list[RunId] = []
        async for facts in session_facts(self.journal, session):
            said += [fact.run for fact in facts if isinstance(fact, MessageAccepted)]
        return said

    async def delete_run(self, run: RunId) -> bool:
        """A run that belongs to no session that is there. False if somebody has it."""
        return await self.journal.change_all(notes=await marks_of_deleted(self.journal, (run,)), drops=(run,))

    async def fork(
        self, session: SessionId, new: SessionId, user: str, title: str, run: RunId | None = None, at: int | None = None
    ) -> bool:
        """A new session that shares what was said up to an item of a run: its last one if none is named. What had
        been said and done by then is its history, as if the run had been stopped there, so nothing that ran runs
        again. False if there is a session with the new name already. Raises SessionUnknown."""
        runs = [RunId(row.name) for row in await self.runs_of(session)]
        if run is not None and run not in runs:
            raise SessionUnknown(f"the session {session} has no run {run}")
        state = await self.state(session)
        chosen = run or await last_run(self.journal, session, state)
        history = state.history if chosen is None else await self._messages_until(chosen, at)
        if chosen in state.stale and chosen in state.runs:
            history = await self._without_deleted(state, chosen, history)
        forked_from = {"session": session, "run": chosen, "after": at}
        return await self.create(new, user, title, history, forked_from)

    async def _without_deleted(
        self, state: SessionState, run: RunId, history: tuple[Message, ...]
    ) -> tuple[Message, ...]:
        """The history of a run without what it was told of runs that are deleted."""
        turn = await fold_run(self.journal, run, self._runs.policy)
        whole = await without_deleted(self.journal, state, turn, self._runs.policy)
        return whole[: max(len(whole) - (len(turn.messages) - len(history)), 0)]

    async def messages(self, session: SessionId) -> list[Told]:
        """All that was said, oldest first, without what the runtime told the model. A fork begins with what it
        shares."""
        made = await self._made(session)
        told: list[Told] = []
        if made is not None:
            origin = RunId(made.forked_from.get("run") or "")
            told = [Told(origin, made.at, message) for message in made.history if _is_shown(message)]
        undone = (await self.state(session)).undone
        for row in await self.runs_of(session):
            if row.name not in undone:
                told.extend(await self._told(RunId(row.name)))
        return told

    async def _told(self, run: RunId) -> list[Told]:
        fold, started, after = TurnFold(self._runs.policy), None, 0
        while items := await self.journal.read(run, after):
            for item in items:
                fact = decode(item.data)
                if isinstance(fact, RunStarted):
                    started = fact
                fold.take(fact)
            after = items[-1].seq
        if started is None:
            return []
        before = len(started.messages) - started.fresh
        said = [one for one in fold.turn.messages[before:] if _is_shown(one)]
        made = [Told(run, started.at, message) for message in said]
        if made and fold.turn.outcome is not None:
            made[-1] = msgspec.structs.replace(made[-1], outcome=fold.turn.outcome)
        return made

    async def metadata(self, session: SessionId) -> dict[str, str]:
        """The labels that it was made with."""
        made = await self._made(session)
        return {} if made is None else made.metadata

    async def _made(self, session: SessionId) -> SessionMade | None:
        made = await self.journal.read(session, 0, 1)
        fact = decode_session(made[0].data) if made else None
        return fact if isinstance(fact, SessionMade) else None

    async def _messages_until(self, run: RunId, at: int | None) -> tuple[Message, ...]:
        """The history of a run behind one of its items. Before its first, that is the one of the runs before it."""
        fold, after = TurnFold(self._runs.policy), 0
        while items := await self.journal.read(run, after):
            for item in items:
                fact = decode(item.data)
                if at is not None and item.seq > at:
                    if isinstance(fact, RunStarted):
                        return fact.messages[: len(fact.messages) - fact.fresh]
                    if isinstance(fact, Streamed) and item.seq - fact.merged < at:
                        raise SessionUnknown(f"the run {run} has no event {at} any more: it was merged with others")
                    return _stopped(fold)
                if not isinstance(fact, RunEnded):
                    fold.take(fact)
            after = items[-1].seq
        return _stopped(fold)


def _is_shown(message: Message) -> bool:
    return not message.note and message.role != "system"


def _stopped(fold: TurnFold) -> tuple[Message, ...]:
    """The history that this turn would leave if it were stopped where it stands. Results that are there stay."""
    now = fold.turn.now
    fold.take(RunClaimed(now, 0))  # what is under way in the other branch is not known here
    fold.take(StopAsked(now, "fork"))
    while due := fold.due():
        match due[0]:
            case Record(facts):
                for fact in facts:
                    fold.take(fact)
            case SettleTool(call_id, name):
                told = unknown("This conversation was forked while it ran.")
                fold.take(ToolFinished(now, call_id, name, told))
            case other:
                raise RuntimeError(f"a stopped turn wants {other}")
    return fold.turn.messages
