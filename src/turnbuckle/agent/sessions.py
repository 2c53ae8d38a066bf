"""The conversations of an agent: list them, read them, fork them, start them fresh."""

from collections.abc import Callable

from turnbuckle.agent.work import AgentRuns
from turnbuckle.journal.port import StreamRow
from turnbuckle.runtime.session_messages import Stopped
from turnbuckle.runtime.transcript import SessionMessage
from turnbuckle.service.owners import LOCAL, Caller
from turnbuckle.service.sessions import SessionChange, SessionLine, SessionService, Verb
from turnbuckle.vocab.ids import RunId

__all__ = ["AgentSessions", "SessionLine"]
_MOST = 10_000


class AgentSessions:
    """`Agent.sessions`. Everything here raises SessionUnknown for a name that is none."""

    def __init__(self, work: Callable[[], AgentRuns]) -> None:
        self._work = work

    async def list(self) -> tuple[SessionLine, ...]:
        """All sessions, last touched first."""
        return tuple(await self._sessions.lines(None, _MOST))

    async def search(self, words: str, limit: int = 50) -> tuple[SessionLine, ...]:
        """Sessions in whose title, tasks or answers all these words stand, the newest first."""
        lines: list[SessionLine] = []
        after = None
        while len(lines) < limit:
            page = await self._sessions.search(words, None, limit - len(lines), after)
            lines += page.lines
            after = page.next
            if after is None:
                break
        return tuple(lines)

    async def messages(self, name: str, last: int | None = None) -> tuple[SessionMessage, ...]:
        """All that was said in a session, or the last messages of it, oldest first."""
        row = await self._row(name)
        if last is None:
            return tuple(await self._sessions.all_messages(row))
        return tuple(await self._sessions.messages(row, None, last, newest_first=True))[::-1]

    async def rename(self, name: str, title: str) -> None:
        """Give it another title."""
        await self._sessions.rename(await self._row(name), title)

    async def fork(self, name: str, new: str, *, run: str = "", after: int | None = None) -> None:
        """A new session that shares what was said, up to an event of a run if one is named. Raises
        SessionExists if the new name is taken, and RunUnknown."""
        await self._sessions.fork(await self._row(name), None, new, run=run or None, after=after)

    async def delete(self, name: str) -> None:
        """The session and all its runs, forever. Raises SessionBusy while something runs in it."""
        await self._sessions.delete(await self._row(name))

    async def stop(self, name: str, by: str = "user") -> Stopped:
        """End what runs in a session, and refuse what waits; the next message starts fresh."""
        return _stopped(await self._change(name, "stop", by))

    async def renew(self, name: str, by: str = "user") -> Stopped:
        """The next message begins a new conversation; what runs is stopped. What was said is kept and can be
        read."""
        return _stopped(await self._change(name, "new", by))

    async def undo(self, name: str) -> str:
        """Undo the last message and its answer; what tools did stays done. The run that was taken back,
        or an empty text. Raises SessionBusy."""
        return (await self._change(name, "undo")).run or ""

    @property
    def _sessions(self) -> SessionService:
        return self._work().sessions

    async def _row(self, name: str) -> StreamRow:
        return await self._sessions.row(name)

    async def _change(self, name: str, verb: Verb, by: str = "user") -> SessionChange:
        return await self._sessions.change(await self._row(name), Caller(LOCAL, by), verb)


def _stopped(done: SessionChange) -> Stopped:
    return Stopped(RunId(done.run) if done.run else None, done.refused)
