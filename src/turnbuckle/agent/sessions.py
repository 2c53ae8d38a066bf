"""The conversations of an agent: list them, read them, fork them, begin them anew."""

from collections.abc import Callable

from msgspec import Struct

from turnbuckle.agent.work import Work, named
from turnbuckle.errors import SessionBusy
from turnbuckle.journal.port import StreamRow, Wanted
from turnbuckle.runtime.lane import KIND as SESSION
from turnbuckle.runtime.runs import listed
from turnbuckle.runtime.saying import Stopped
from turnbuckle.runtime.sessions import Told
from turnbuckle.vocab.ids import RunId, SessionId


class SessionLine(Struct, frozen=True):
    """A session in a list. `running` is the run without an end in it, empty if there is none."""

    name: str
    title: str
    created: float
    updated: float
    running: str = ""


class AgentSessions:
    """`Agent.sessions`. Everything here raises SessionUnknown for a name that is none."""

    def __init__(self, work: Callable[[], Work]) -> None:
        self._work = work

    async def list(self) -> tuple[SessionLine, ...]:
        """All sessions, last touched first."""
        return tuple([await self._line(row) for row in await listed(self._work().journal, Wanted(kind=SESSION))])

    async def search(self, words: str) -> tuple[SessionLine, ...]:
        """Sessions in whose title or tasks all these words stand."""
        work = self._work()
        found = await work.journal.search(words)
        names = dict.fromkeys(hit.row.parent or hit.row.name for hit in found)
        rows = [await work.journal.streams(Wanted(kind=SESSION, name=name), limit=1) for name in names]
        return tuple([await self._line(row[0]) for row in rows if row])

    async def messages(self, name: str) -> tuple[Told, ...]:
        """All that was said in a session, oldest first."""
        await self._row(name)
        return tuple(await self._work().sessions.messages(SessionId(name)))

    async def rename(self, name: str, title: str) -> None:
        """Give it another title."""
        await self._work().sessions.rename(SessionId(name), title)

    async def fork(self, name: str, new: str, *, run: str = "", after: int | None = None) -> None:
        """A new session that shares what was said, up to an event of a run if one is named. Raises SessionBusy if the
        new name is taken."""
        work, row = self._work(), await self._row(name)
        made = await work.sessions.fork(
            SessionId(name), named(new), row.user, row.title, RunId(run) if run else None, after
        )
        if not made:
            raise SessionBusy(f"there is a session {new} already")

    async def delete(self, name: str) -> None:
        """The session and all its runs, for ever. Raises SessionBusy while something runs in it."""
        await self._row(name)
        await self._work().delete(SessionId(name))

    async def stop(self, name: str, by: str = "user") -> Stopped:
        """End what runs in a session, and refuse what waits; the next message begins anew."""
        row = await self._row(name)
        return await self._work().lanes.with_lane(SessionId(name), row.user, lambda lane: lane.stop(by))

    async def renew(self, name: str, by: str = "user") -> Stopped:
        """The next message begins a new conversation; what runs is stopped. What was said is kept and can be read."""
        row = await self._row(name)
        return await self._work().lanes.with_lane(SessionId(name), row.user, lambda lane: lane.begin_anew("new", by))

    async def undo(self, name: str) -> str:
        """Take back the last message and its answer; what tools did stays done. The run that was taken back, or an
        empty text. Raises SessionBusy."""
        row = await self._row(name)
        return await self._work().lanes.with_lane(SessionId(name), row.user, lambda lane: lane.undo()) or ""

    async def _row(self, name: str) -> StreamRow:
        work = self._work()
        found = await work.journal.streams(Wanted(kind=SESSION, name=name), limit=1)
        return found[0] if found else await work.sessions.row(SessionId(name), "")

    async def _line(self, row: StreamRow) -> SessionLine:
        running = await self._work().sessions.running(SessionId(row.name))
        return SessionLine(row.name, row.title, row.created, row.updated, running or "")
