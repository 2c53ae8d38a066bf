"""Sessions, for every surface: make one, find one by its words, read it, rename, fork, change, delete it, and
take it to another machine and back.

`SessionReader` only looks, so it also works beside the process that has the journal. Owners are checked here:
a session is found only by whoever owns it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Literal, TypeVar, cast

from msgspec import Struct

from turnbuckle.errors import (
    BadSessionName,
    InvalidValue,
    RunUnknown,
    SessionExists,
    SessionUnknown,
)
from turnbuckle.journal.port import Journal, Reader, SearchPlace, StreamOrder, StreamQuery, StreamRow
from turnbuckle.runtime.archive import Imported, Importer, exported
from turnbuckle.runtime.archive_file import read_archive
from turnbuckle.runtime.conversation import Conversations
from turnbuckle.runtime.held_session import ACTIVE
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import READING, RUNNING, NewRun, Runs, listed
from turnbuckle.runtime.session_log import SessionStates
from turnbuckle.runtime.session_manager import TakenUpRuns
from turnbuckle.runtime.session_messages import IncomingMessage
from turnbuckle.runtime.session_worker import SessionWorker
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.runtime.transcript import MessagePlace, SessionMessage
from turnbuckle.service.anywhere import anywhere
from turnbuckle.service.background import BackgroundOfSessions
from turnbuckle.service.catalog import known_route
from turnbuckle.service.commands import Commands, SessionContext
from turnbuckle.service.owners import LOCAL, Caller, Owner, of, public_session, run_id, session_id
from turnbuckle.service.stores import RequestKey, Stores
from turnbuckle.session.state import SessionState
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.request import RunOptions

T = TypeVar("T")
Verb = Literal["stop", "new", "reset", "undo", "retry", "compact", "undo_compaction"]
SessionStatus = Literal["idle", "running", "unfinished", "waiting"]
Did = Literal["stopped", "begun_anew", "retried", "undone", "compacting", "compaction_undone", "nothing"]
LONGEST_TITLE = 200
LONGEST_WORDS = 500
_SEARCHES = 8  # of the journal for one page; what stands behind is left to the next
_LISTED = 50


class SessionLine(Struct, frozen=True):
    """A session in a list. `running` is the run without an end in it, empty if there is none; `unfinished`:
    nobody drives that run at this moment. `snippet` are the words by which it was found."""

    name: str
    title: str
    created: float
    updated: float
    running: str = ""
    status: SessionStatus = "idle"
    owner: str = ""
    snippet: str = ""


class FoundSessions(Struct, frozen=True):
    """A page of a search. With `next` there may be more, even if this page shows none."""

    lines: list[SessionLine]
    next: SearchPlace | None = None


class SessionChange(Struct, frozen=True):
    """What was done to a session: the run that it concerned, if any, and the messages that will not be
    answered."""

    did: Did
    run: str | None = None
    refused: tuple[str, ...] = ()


class Made(Struct, frozen=True):
    """A session that was made, now or by the same request before."""

    session: SessionId
    public: str
    replayed: bool = False


class _OnlyReading:
    """As much of `Runs` as it takes to read."""

    policy = READING

    def __init__(self, journal: Reader) -> None:
        self.conversations = Conversations(journal, READING)
        self.session_states = SessionStates(journal)


class SessionReader:
    """Sessions to look at. `writer` is how the process that has the journal begins to call itself."""

    def __init__(self, journal: Reader, sessions: Sessions | None = None, writer: str = "") -> None:
        self._reader = journal
        self._writer = writer
        self._sessions = sessions or Sessions(cast(Journal, journal), cast(Runs, _OnlyReading(journal)))

    async def row(self, public: str, owner: Owner = None) -> StreamRow:
        """Raises SessionUnknown, also if it belongs to somebody else."""
        with contextlib.suppress(BadSessionName):  # no session has it
            name = SessionId(public) if owner is None else session_id(owner, public)
            query = StreamQuery(kind=SESSION, name=name, user=of(owner))
            for row in await self._reader.streams(query, limit=1):
                return row
        raise SessionUnknown.named(public)

    async def guess(self, text: str) -> StreamRow:
        """The session with this id, or the only one whose id contains the text; the latest without one.
        Raises SessionUnknown."""
        wanted = StreamQuery(kind=SESSION, name=text) if text else StreamQuery(kind=SESSION)
        for row in await self._reader.streams(wanted, limit=1):
            return row
        if not text:
            raise SessionUnknown("no sessions yet")
        fits = [row for row in await listed(self._reader, StreamQuery(kind=SESSION)) if text in row.name]
        if len(fits) == 1:
            return fits[0]
        if fits:
            names = ", ".join(row.name for row in fits[:5])
            raise SessionUnknown(f"{text} fits {len(fits)} sessions: {names}{' …' if len(fits) > 5 else ''}")
        raise SessionUnknown(f"there is no session {text}; `turnbuckle sessions list` shows them all")

    async def user_of(self, session: SessionId) -> str:
        """Whose it is; a new one is the machine's own."""
        rows = await self._reader.streams(StreamQuery(kind=SESSION, name=session), limit=1)
        return (rows[0].user if rows else "") or LOCAL

    async def rows(
        self,
        owner: Owner,
        place: tuple[float, str] | None = None,
        limit: int = _LISTED,
        order: StreamOrder = "touched",
    ) -> list[StreamRow]:
        """A page of sessions."""
        wanted = StreamQuery(kind=SESSION, user=of(owner), order=order)
        return await self._reader.streams(wanted, place, limit)

    async def lines(
        self, owner: Owner, limit: int = _LISTED, place: tuple[float, str] | None = None
    ) -> list[SessionLine]:
        """A page of sessions, the last touched first."""
        return [await self.line(row, owner) for row in await self.rows(owner, place, limit)]

    async def search(
        self, words: str, owner: Owner, limit: int = _LISTED, after: SearchPlace | None = None
    ) -> FoundSessions:
        """Sessions whose title, or one of whose runs, holds all the words; those first where the leading word
        was said last. Each is shown once, on whatever page, as it was when the first page was asked for."""
        words, is_first = words[:LONGEST_WORDS], after is None
        lines: dict[str, SessionLine] = {}
        for _ in range(_SEARCHES):
            page = await self._reader.search(words, StreamQuery(user=of(owner)), limit, after)
            for hit in page.hits:
                name = hit.row.name if hit.row.kind == SESSION else hit.row.parent
                if name in lines or hit.row.kind not in (SESSION, RUN):
                    continue
                if not is_first and not await self._belongs_here(name, words, hit.place):
                    continue
                query = StreamQuery(kind=SESSION, name=name, user=of(owner))
                for row in await self._reader.streams(query, limit=1):
                    lines[name] = await self.line(row, owner, hit.snippet)
                if len(lines) >= limit:
                    return FoundSessions([*lines.values()], hit.place)
            after = page.next
            if after is None:
                break
        return FoundSessions([*lines.values()], after)

    async def _belongs_here(self, session: str, words: str, place: SearchPlace) -> bool:
        """Whether nothing of the session was found on an earlier page."""
        begin = SearchPlace(place.newest + 1, place.newest)
        for query in (StreamQuery(kind=SESSION, name=session), StreamQuery(kind=RUN, parent=session)):
            hits = (await self._reader.search(words, query, 1, begin)).hits
            if hits and hits[0].place.below > place.below:
                return False
        return True

    async def line(self, row: StreamRow, owner: Owner, snippet: str = "") -> SessionLine:
        running = await self._running(row)
        name, run = public_session(owner, row.name), "" if running is None else running.name
        status: SessionStatus = "waiting" if row.status == ACTIVE else "idle"
        if running is not None:
            status = "running" if self._drives(running) else "unfinished"
        return SessionLine(name, row.title, row.created, row.updated, run, status, row.user, snippet)

    async def running(self, row: StreamRow) -> RunId | None:
        """The run that has no end yet, if there is one."""
        running = await self._running(row)
        return None if running is None else RunId(running.name)

    async def _running(self, row: StreamRow) -> StreamRow | None:
        query = StreamQuery(kind=RUN, parent=row.name, status=RUNNING)
        return next(iter(await self._reader.streams(query, limit=1)), None)

    def _drives(self, run: StreamRow) -> bool:
        """A run without an end is only running while the living process holds it."""
        return bool(self._writer) and run.holder.startswith(self._writer)

    async def runs(self, row: StreamRow) -> list[StreamRow]:
        """In the order in which they began."""
        return await self._sessions.runs_of(SessionId(row.name))

    async def latest_runs(self, row: StreamRow, limit: int = _LISTED) -> list[StreamRow]:
        """Those that began last, newest first."""
        return await self._reader.streams(StreamQuery(kind=RUN, parent=row.name, order="newest"), None, limit)

    async def messages(
        self, row: StreamRow, after: MessagePlace | None, limit: int, *, newest_first: bool
    ) -> list[SessionMessage]:
        """A page of what was said, behind a message. Raises InvalidValue for a place that there is not."""
        return await self._sessions.transcript.page(
            SessionId(row.name), after, limit, newest_first=newest_first
        )

    async def all_messages(self, row: StreamRow) -> list[SessionMessage]:
        """All that was said, oldest first."""
        return await self._sessions.transcript.every(SessionId(row.name))

    async def state(self, row: StreamRow) -> SessionState:
        """Where it stands, as the journal has it."""
        return await self._sessions.state(SessionId(row.name))

    def export(self, row: StreamRow, owner: Owner, now: float) -> AsyncIterator[bytes]:
        """All of a session as lines of JSON."""
        return exported(self._reader, row, public_session(owner, row.name), now)


class SessionService(SessionReader, BackgroundOfSessions):
    """All surfaces share one."""

    def __init__(self, stores: Stores) -> None:
        super().__init__(stores.journal, stores.sessions)
        self._stores = stores
        self._manager = stores.manager
        self._commands = Commands(stores.manager, stores.sessions, stores.spending)
        self._importer = Importer(stores.journal, stores.environment)

    # Making

    async def create(
        self,
        owner: str,
        public: str | None = None,
        title: str = "",
        *,
        key: RequestKey | None = None,
        prefix: str = "",
        metadata: dict[str, str] | None = None,
    ) -> Made:
        """Make a session; the same request under the same key gets the same one. `prefix` stands in front of
        an id that is made here. Raises BadSessionName, SessionExists, InvalidValue for a title that is too
        long, and what a key raises."""
        session = await self._named(owner, public, key, prefix)
        if session.replayed:
            return session
        title = checked_title(title)
        if not await self._stores.sessions.create(session.session, owner, title, metadata=metadata):
            raise SessionExists(f"there is a session {session.public} already")
        return session

    async def _named(self, owner: str, public: str | None, key: RequestKey | None, prefix: str = "") -> Made:
        if public is not None:
            return Made(session_id(owner, public, param="id"), public)
        reserved = await self._stores.reserve(key)
        public = prefix + self._stores.new_session(None if reserved is None else reserved.run)
        session = session_id(owner, public)
        return Made(session, public, reserved is not None and bool(await self._stores.journal.head(session)))

    async def fork(
        self,
        row: StreamRow,
        owner: Owner,
        public: str | None = None,
        *,
        title: str | None = None,
        run: str | None = None,
        after: int | None = None,
        key: RequestKey | None = None,
    ) -> Made:
        """A new session that shares what was said, up to an event of a run if one is named. Raises
        SessionExists, RunUnknown, BadSessionName, and InvalidValue."""
        user = row.user or LOCAL
        name = await self._named(user, public, key)
        if name.replayed:
            return name
        taken = SessionExists(f"there is a session {name.public} already")
        if await self._stores.journal.head(name.session):
            raise taken
        known = None if run is None else run_id(run)
        if run is not None and known is None:
            raise RunUnknown.named(run)
        await self._check_event(known, after, owner)
        title = row.title if title is None else checked_title(title)
        sessions = self._stores.sessions
        try:
            if not await sessions.fork(SessionId(row.name), name.session, user, title, known, after):
                raise taken
        except SessionUnknown as error:
            raise RunUnknown(str(error)) from None
        return name

    async def _check_event(self, run: RunId | None, after: int | None, owner: Owner) -> None:
        """Raises InvalidValue if a fork is wanted behind an event that there is not."""
        if after is None:
            return
        there = None
        if run is not None:
            if not await self._stores.rows(RUN, run, owner):
                raise RunUnknown.named(run)
            there = await self._stores.journal.head(run)
        if after < 0 or (there is not None and after > there):
            last = "" if there is None else f": the last one is {there}"
            raise InvalidValue(f"there is no event {after}{last}", "after")

    async def bring_in(self, lines: Iterable[bytes], owner: str, public: str = "") -> Imported:
        """Make a session of what was exported: under the id that is asked for, or under its own, or under a
        new one if that is taken. Raises ImportRefused, BadSessionName and SessionExists."""
        archive = await asyncio.to_thread(read_archive, lines)
        name = public or archive.head.session
        imported = await self._importer.bring_in(archive, session_id(owner, name, param="id"), owner)
        if imported is None and not public:
            name = self._stores.new_session()
            imported = await self._importer.bring_in(archive, session_id(owner, name), owner)
        if imported is None:
            raise SessionExists(f"there is a session {name} already")
        return imported

    # Reading

    async def live_state(self, row: StreamRow) -> SessionState:
        """Where it stands at this moment."""
        worker = self._manager.of(SessionId(row.name))
        return worker.state if worker is not None else await self.state(row)

    async def metadata(self, row: StreamRow) -> dict[str, str]:
        """The labels that it was made with."""
        return await self._stores.sessions.metadata(SessionId(row.name))

    @anywhere("row")
    async def status(self, row: StreamRow) -> str:
        """What runs and what waits, in words."""
        new = NewRun((), user=row.user or LOCAL)
        answer = await self._commands.perform("status", SessionId(row.name), new, IncomingMessage(()))
        return answer.text

    @anywhere("row")
    async def context(self, row: StreamRow) -> SessionContext:
        """How full the model's window is for a session, and the summary that the model is told."""
        return await self._in(row, self._commands.context)

    # Changing

    async def change(
        self,
        row: StreamRow,
        caller: Caller,
        verb: Verb,
        key: RequestKey | None = None,
        *,
        keep: str = "",
        route: str = "",
    ) -> SessionChange:
        """Stop a session, start it fresh, take its last run or its last compaction back, say its last message
        again, on `route` if one is named, or make what its model is told smaller: `keep` says what must stay.
        The same request under the same key does it once. Raises SessionBusy, InvalidValue for a route that
        there is not, and what a key raises."""
        if route:
            known_route(self._stores.runs.policy, route)
        if key is None and self.desk is not None:  # another node may do it twice, and must know
            key = RequestKey(row.user or LOCAL, self._stores.environment.new_name("once"), "")
        return await self._change(row, caller, verb, key, keep, route)

    @anywhere("row")
    async def _change(
        self, row: StreamRow, caller: Caller, verb: Verb, key: RequestKey | None, keep: str, route: str
    ) -> SessionChange:
        match verb:
            case "stop":
                left = await self._stop_left(row, caller.by)
                stopped = await self._in(row, lambda worker: worker.stop(caller.by))
                did: Did = "stopped" if left or stopped.run or stopped.refused else "nothing"
                return SessionChange(did, stopped.run or left, stopped.refused)
            case "new" | "reset":
                left = await self._stop_left(row, caller.by)
                stopped = await self._in(row, lambda worker: worker.begin_anew(verb, caller.by))
                return SessionChange("begun_anew", stopped.run or left, stopped.refused)
            case "undo":
                reserved = await self._stores.reserve(key)
                request = None if reserved is None else reserved.run
                return await self._in(row, lambda worker: _undone(worker, request))
            case "retry":
                return await self._retry(row, key, route)
            case "compact":
                reserved = await self._stores.reserve(key)
                message = IncomingMessage(
                    (), options=RunOptions(compact=keep), run=None if reserved is None else reserved.run
                )
                taken = await self._in(row, lambda worker: worker.say(message))
                return SessionChange("compacting", taken.run)
            case "undo_compaction":
                reserved = await self._stores.reserve(key)
                request = None if reserved is None else reserved.run
                run = await self._in(row, lambda worker: worker.undo_compaction(request))
                return SessionChange("nothing") if run is None else SessionChange("compaction_undone", run)

    async def _stop_left(self, row: StreamRow, by: str) -> RunId | None:
        """A run that nobody drives is taken up in order to be ended, before it can do anything more."""
        session, left = SessionId(row.name), await self.running(row)
        runs, manager = self._stores.runs, self._manager
        if left is None or runs.live(left) is not None or manager.of(session) is not None:
            return None

        async def taken() -> TakenUpRuns:
            running = await runs.resume(left)
            running.stop(by)
            return TakenUpRuns(running)

        user = row.user or LOCAL
        await manager.open(session, user, taken)
        await manager.with_worker(session, user, lambda worker: worker.suspend("stopped", left))
        if (running := runs.live(left)) is not None:
            await running.over()
        return left

    async def _retry(self, row: StreamRow, key: RequestKey | None, route: str) -> SessionChange:
        reserved = await self._stores.reserve(key)
        if reserved is None:
            taken = await self._in(row, lambda worker: worker.retry(None, route))
            return SessionChange("nothing") if taken is None else SessionChange("retried", taken.run)
        message = IncomingMessage((), run=reserved.run)
        async with self._stores.idempotency.starting(reserved.run) as fresh:
            if fresh and await self._in(row, lambda worker: worker.retry(message, route)) is None:
                return SessionChange("nothing")
        return SessionChange("retried", reserved.run)

    async def _in(self, row: StreamRow, act: Callable[[SessionWorker], Awaitable[T]]) -> T:
        return await self._manager.with_worker(SessionId(row.name), row.user or LOCAL, act)

    async def open(self, row: StreamRow) -> SessionWorker:
        """Go on with what a session left unfinished, and with what waits there. Raises SessionBusy."""
        return await self._manager.open(SessionId(row.name), row.user or LOCAL)

    async def rename(self, row: StreamRow, title: str) -> None:
        """Raises InvalidValue for a title that is too long."""
        await self._stores.sessions.rename(SessionId(row.name), checked_title(title))

    @anywhere("row")
    async def delete(self, row: StreamRow) -> None:
        """The session and all its runs, which no key begins again. Raises SessionBusy; then all of it is
        there."""
        session = SessionId(row.name)
        await self._manager.let_go(session)
        await self._stores.sessions.delete(session)
        await self.end_processes_elsewhere(session)

    def _drives(self, run: StreamRow) -> bool:
        here = self._stores.runs.live(RunId(run.name)) is not None
        return here or (self.desk is not None and self.desk.is_elsewhere(run))


async def _undone(worker: SessionWorker, request: RunId | None) -> SessionChange:
    run = await worker.undo(request)
    if run is None:
        return SessionChange("nothing")
    return SessionChange("compaction_undone" if await worker.was_compaction(run) else "undone", run)


def checked_title(title: str) -> str:
    """A title in one line. Raises InvalidValue."""
    plain = " ".join(title.split())
    if len(plain) > LONGEST_TITLE:
        raise InvalidValue(f"a title has at most {LONGEST_TITLE} characters", "title")
    return plain
