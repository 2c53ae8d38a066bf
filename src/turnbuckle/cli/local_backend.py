"""Sessions in this very process: the services over the journal of the data folder.

What a session left unfinished goes on when a chat opens it: its worker takes the run up where the journal
ends, and begins what waits. Every run that begins is told to whoever follows the session.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from turnbuckle.app import App as Opened
from turnbuckle.app import open_app, services_of
from turnbuckle.cli.backend import BackendRefused, DraftLine, Fork, Numbered, Past, Recap, RouteLine, Taken
from turnbuckle.config import Loaded
from turnbuckle.errors import ApprovalSettled, RunUnfinished, SessionBusy, SessionUnknown, TurnbuckleError
from turnbuckle.journal.port import InUse, StreamQuery, StreamRow
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.find_run import find_run
from turnbuckle.runtime.retention import prune_outputs
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import NewRun
from turnbuckle.runtime.transcript import UNDONE
from turnbuckle.service.changed_files import ChangedFile
from turnbuckle.service.changes import FileDiff
from turnbuckle.service.owners import LOCAL, Caller, session_id
from turnbuckle.service.run_view import RunLine
from turnbuckle.service.runs import Decision
from turnbuckle.service.sessions import SessionChange, SessionLine, Verb
from turnbuckle.session.facts import Busy
from turnbuckle.turn.consent import asks_first
from turnbuckle.turn.facts import RunEnded, decode
from turnbuckle.turn.ledger import Ledger, Waste
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.request import RunOptions

USER = Caller(LOCAL, "user")
_LISTED = 20
_PAST = 3  # exchanges that a chat begins with


class JournalTaken(TurnbuckleError):
    """Another process has the journal."""


@asynccontextmanager
async def open_local(
    loaded: Loaded, call: str, *, begins: bool = False, attended: bool = False
) -> "AsyncIterator[LocalBackend]":
    """The sessions of the data folder, to change them. With `begins`, what waits in a session that is opened
    begins. `call` is what a running server can be asked instead. Raises JournalTaken."""
    try:
        async with open_app(loaded, attended=attended) as opened:
            place = LocalBackend(opened, attended=attended)
            if not begins:
                place.services.stores.manager.rest()
            try:
                yield place
            finally:
                await place.services.stores.manager.close()
    except InUse as error:
        server = loaded.settings.server
        base = f"http://{server.host}:{server.port}"
        raise JournalTaken(f"{error}. If it is a server, add --server {base}, which does: {call}") from None


class LocalBackend:
    """The sessions of an app that is open."""

    stays = False

    def __init__(self, opened: Opened, *, attended: bool = False) -> None:
        self._ask_first = asks_first("terminal", attended)
        self.about = ", ".join(dict.fromkeys(route.model for route in opened.runs.policy.routes))
        self.opened = opened
        self.services = services_of(opened)
        self._runs, self._sessions = self.services.runs, self.services.sessions
        self._begun: list[Running] = []
        self._news = asyncio.Event()
        self._runs.watch.add(self)

    def began(self, running: Running) -> None:
        self._begun.append(running)
        self._news.set()

    def awaits(self, run: RunId, on_disconnect: str) -> None:
        """Whoever follows here asks for it by itself."""

    def gone(self, run: RunId, error: BaseException | None) -> None:
        """Whoever follows it is told."""

    # Sessions

    async def latest(self) -> str | None:
        return next((row.name for row in await self._sessions.rows(None, limit=1)), None)

    async def resolve(self, text: str) -> str:
        return (await self._sessions.guess(text)).name

    async def sessions(self, words: str) -> list[SessionLine]:
        if words:
            return (await self._sessions.search(words, None, _LISTED)).lines
        return await self._sessions.lines(None, _LISTED)

    async def recap(self, session: str) -> Recap:
        try:
            row = await self._sessions.row(session)
        except SessionUnknown:
            return Recap()
        running = await self._sessions.running(row)
        ended = [run for run in await self._sessions.latest_runs(row) if run.name != running]
        shown = [run for run in ended if run.mark != UNDONE][:_PAST]
        past = [await self._past(run) for run in reversed(shown)]
        with contextlib.suppress(SessionBusy):  # what another process has is told when something is said
            await self._sessions.open(row)
        return Recap(True, row.title, tuple(past), tuple(run.name for run in ended), running or "")

    async def _past(self, row: StreamRow) -> Past:
        view = await self._runs.view(row.name, None)
        return Past(row.title, view.output, row.status, view.outcome.why if view.outcome is not None else "")

    async def status(self, session: str) -> str:
        try:
            return await self._sessions.status(await self._sessions.row(session))
        except SessionUnknown:
            return "Nothing was said in this session yet."

    async def told(self, session: str, command: str) -> str:
        name = session_id(LOCAL, session, param="the name of a session")
        user, options = await self._sessions.user_of(name), RunOptions(ask_first=self._ask_first)
        new = NewRun((task_message(command),), name, user=user, options=options)
        begun = await self._runs.begin(new, first=())
        return (await self._runs.view(begun.run, None)).output

    async def change(self, session: str, verb: Verb, keep: str = "", route: str = "") -> SessionChange:
        try:
            row = await self._sessions.row(session)
        except SessionUnknown:
            return SessionChange("nothing")
        if verb in ("undo", "retry", "compact"):
            await self._refuse_beside_unfinished(row)
        return await self._sessions.change(row, USER, verb, keep=keep, route=route)

    async def _refuse_beside_unfinished(self, row: StreamRow) -> None:
        left = await self._sessions.running(row)
        if left is not None and not self._runs.is_driven(left):
            way_out = (
                f"`turnbuckle runs resume {left}` goes on with it, and `turnbuckle sessions stop` ends it"
            )
            raise SessionBusy(f"the run {left} of this session has no end; {way_out}")

    async def rename(self, session: str, title: str) -> SessionLine:
        await self._sessions.rename(await self._sessions.row(session), title)
        return await self._line(session)

    async def fork(self, session: str, fork: Fork) -> SessionLine:
        row = await self._sessions.row(session)
        made = await self._sessions.fork(row, None, fork.id, title=fork.title, run=fork.run, after=fork.after)
        return await self._line(made.session)

    async def _line(self, session: str) -> SessionLine:
        return await self._sessions.line(await self._sessions.row(session), None)

    async def delete(self, session: str) -> None:
        await self._sessions.delete(await self._sessions.row(session))
        await prune_outputs(self.opened.journal, Path(self.opened.settings.folder))

    # Runs

    async def runs(self, session: str) -> list[RunLine]:
        _, found = await self._runs.page(StreamQuery(parent=session, order="newest"), None, limit=_LISTED)
        return found.lines

    async def next_run(self, session: str, seen: Collection[str]) -> str:
        while True:
            self._news.clear()
            for running in self._begun:
                if running.run not in seen and (await self._runs.row(running.run)).parent == session:
                    return running.run
            await self._news.wait()

    async def follow(self, run: str, after: int) -> AsyncGenerator[list[Numbered]]:
        try:
            async with contextlib.aclosing(self._runs.follow(RunId(run), after)) as pages:
                async for items in pages:
                    facts = [(item.seq, decode(item.data)) for item in items]
                    yield facts
                    if isinstance(facts[-1][1], RunEnded):
                        return
        except RunUnfinished as error:
            raise BackendRefused(f"{error} any more; turnbuckle runs resume {run} goes on with it") from None

    async def say(self, session: str, text: str, busy: Busy | None, key: str, route: str = "") -> Taken:
        try:
            name = SessionId((await self._sessions.row(session)).name)
        except SessionUnknown:
            name = session_id(LOCAL, session, param="the name of a session")
        options = RunOptions(route=RouteName(route), ask_first=self._ask_first)
        user = await self._sessions.user_of(name)
        new = NewRun((task_message(text),), name, user=user, options=options)
        begun = await self._runs.begin(new, first=(), busy=busy)
        return Taken(begun.run, not await self._runs.head(begun.run))

    async def answer(self, run: str, approval: str, decision: Decision, text: str) -> bool:
        try:
            await self._runs.answer(RunId(run), approval, decision, "terminal", text)
        except ApprovalSettled:
            return False
        return True

    async def interrupt(self, run: str) -> bool:
        return await self._runs.end(RunId(run), None, USER.by, suspends=False)

    async def stop(self, run: str) -> bool:
        return await self._runs.end(RunId(run), None, USER.by)

    async def drafts(self, session: str) -> list[DraftLine]:
        row = await self._sessions.row(session)
        made = []
        for run in await self._sessions.latest_runs(row, _LISTED):
            for draft in (await self._runs.fold(RunId(run.name))).drafts.values():
                target = draft.settled.get("path")
                named = target if isinstance(target, str) else ""
                made.append(DraftLine(f"{run.name}:{draft.id}", draft.tool, named, len(draft.text)))
        return made

    async def draft(self, name: str) -> str:
        run, _, wanted = name.rpartition(":")
        drafts = (await self._runs.fold(await find_run(self.opened.journal, run))).drafts
        draft = next((draft for draft in drafts.values() if draft.id == wanted), None)
        if draft is None:
            raise BackendRefused(f"there is no draft {name}; /drafts lists them")
        return draft.text

    async def changes(self, run: str) -> list[FileDiff]:
        return await self.services.changes.diffs(run, None)

    async def revert(self, run: str, path: str) -> ChangedFile:
        return await self.services.changes.undo(run, path, None, "terminal")

    async def ledger(self, run: str) -> tuple[Waste, ...]:
        ledger = Ledger()
        async for _, fact in self._runs.facts(RunId(run)):
            ledger.take(fact)
        return ledger.entries

    async def routes(self) -> list[RouteLine]:
        return [RouteLine(route.name, route.model) for route in self.opened.runs.policy.routes]

    async def leave(self) -> None:
        """What runs is left without an end, marked, and what waits stays where it is."""
        await self.services.lifecycle.leave_all(0.0, "the chat was closed")
