"""Sessions in this very process: the journal of the data folder, and the lanes that work on it.

What a session left unfinished goes on when a chat opens it: its lane takes the run up where the journal ends, and
begins what waits. Every run that begins is told to whoever follows the session.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Collection

from turnbuckle.app import App as Opened
from turnbuckle.app import lanes_of
from turnbuckle.cli.chat_port import (
    Decision,
    Done,
    DraftLine,
    Numbered,
    Past,
    Recap,
    Refused,
    RunLine,
    SessionLine,
    Taken,
    Verb,
)
from turnbuckle.cli.run import checked_name
from turnbuckle.errors import ConfigError, SessionBusy, TurnbuckleError
from turnbuckle.journal.port import JournalError, StreamRow, Wanted
from turnbuckle.journal.tail import read_all
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.driver import PersonsAnswer
from turnbuckle.runtime.lane import KIND as SESSION
from turnbuckle.runtime.lane import Lane
from turnbuckle.runtime.price import price_of
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, NewRun, find_run, fold_run
from turnbuckle.runtime.saying import Said, Stopped
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.server.names import LOCAL
from turnbuckle.server.run_view import RunFold
from turnbuckle.server.session_commands import Commands
from turnbuckle.session.facts import Busy
from turnbuckle.turn.facts import RunEnded, decode
from turnbuckle.turn.ledger import Ledger, Waste
from turnbuckle.vocab.ids import RunId, SessionId

BY = "user"
_LISTED = 20
_PAST = 3  # exchanges that a chat begins with
_VERDICTS: dict[Decision, PersonsAnswer] = {"allow": "allowed", "deny": "denied", "answer": "answered"}


class LocalPlace:
    """The sessions of an app that is open."""

    stays = False

    def __init__(self, opened: Opened) -> None:
        self.about = ", ".join(dict.fromkeys(route.model for route in opened.policy.routes))
        self._opened = opened
        self._journal = opened.journal
        self._sessions = Sessions(opened.journal, opened.runs, owner=opened.owner, wall=time.time)
        self._lanes = lanes_of(opened, self._began)
        self._commands = Commands(self._lanes, self._sessions)
        self._begun: list[Running] = []
        self._news = asyncio.Event()

    def _began(self, running: Running, user: str) -> None:
        self._begun.append(running)
        self._news.set()

    # Sessions

    async def latest(self) -> str | None:
        found = await self._journal.streams(Wanted(kind=SESSION), limit=1)
        return found[0].name if found else None

    async def sessions(self, words: str) -> list[SessionLine]:
        if not words:
            rows = await self._journal.streams(Wanted(kind=SESSION), limit=_LISTED)
            return [await self._line(row) for row in rows]
        made: dict[str, SessionLine] = {}
        for kind in (SESSION, RUN):
            for hit in await self._journal.search(words, Wanted(kind=kind), 10 * _LISTED):
                name = hit.row.name if kind == SESSION else hit.row.parent
                if name not in made and len(made) < _LISTED:
                    for row in await self._rows(name):
                        made[name] = await self._line(row, hit.snippet)
        return list(made.values())

    async def _line(self, row: StreamRow, snippet: str = "") -> SessionLine:
        running = await self._sessions.running(SessionId(row.name)) is not None
        return SessionLine(row.name, row.title, row.updated, running, snippet)

    async def _rows(self, session: str) -> list[StreamRow]:
        return await self._journal.streams(Wanted(kind=SESSION, name=session), limit=1)

    async def _user(self, session: str) -> str:
        rows = await self._rows(session)
        return (rows[0].user if rows else "") or LOCAL

    async def recap(self, session: str) -> Recap:
        rows = await self._rows(session)
        if not rows:
            return Recap()
        name = SessionId(session)
        running = await self._sessions.running(name)
        undone = (await self._sessions.state(name)).undone
        ended = [row for row in await self._sessions.runs_of(name) if row.name != running]
        known = tuple(row.name for row in ended)
        runs = [row for row in ended if row.name not in undone]
        past = [await self._past(row) for row in runs[-_PAST:]]
        with contextlib.suppress(SessionBusy):  # what another process has is told when something is said
            await self._lanes.open(name, rows[0].user or LOCAL)
        return Recap(True, rows[0].title, tuple(past), known, running or "")

    async def _past(self, row: StreamRow) -> Past:
        fold = await self._folded(row.name)
        view = fold.view(row, row.user, live=False, now=0.0)
        return Past(row.title, view.output, row.status, view.outcome.why if view.outcome is not None else "")

    async def _folded(self, run: str) -> RunFold:
        fold = RunFold(self._opened.policy)
        async for items in read_all(self._journal, run):
            for item in items:
                fold.take(item.seq, decode(item.data))
        return fold

    async def status(self, session: str) -> str:
        if not await self._rows(session):
            return "Nothing was said in this session yet."
        new = NewRun((), user=await self._user(session))
        return (await self._commands.perform("status", SessionId(session), new, Said(()))).text

    async def change(self, session: str, verb: Verb) -> Done:
        rows = await self._rows(session)
        if not rows:
            return Done("nothing")
        name, user = SessionId(session), rows[0].user or LOCAL
        try:
            match verb:
                case "stop":
                    stopped = await self._lanes.with_lane(name, user, lambda lane: lane.stop(BY))
                    return _ended("stopped" if stopped.run or stopped.refused else "nothing", stopped)
                case "new" | "reset":
                    return _ended(
                        "begun_anew", await self._lanes.with_lane(name, user, lambda lane: lane.begin_anew(verb, BY))
                    )
                case "undo":
                    run = await self._lanes.with_lane(name, user, Lane.undo)
                    return Done("nothing" if run is None else "undone", run)
                case "retry":
                    taken = await self._lanes.with_lane(name, user, Lane.retry)
                    return Done("nothing") if taken is None else Done("retried", taken.run)
        except SessionBusy as busy:
            raise Refused(str(busy)) from None

    # Runs

    async def runs(self, session: str) -> list[RunLine]:
        rows = await self._sessions.runs_of(SessionId(session))
        return [RunLine(row.name, self._status(row), row.title, row.created) for row in reversed(rows[-_LISTED:])]

    def _status(self, row: StreamRow) -> str:
        live = self._opened.runs.live(RunId(row.name)) is not None
        return row.status if row.status != RUNNING or live else "unfinished"

    async def next_run(self, session: str, seen: Collection[str]) -> str:
        while True:
            self._news.clear()
            for running in self._begun:
                rows = (
                    []
                    if running.run in seen
                    else await self._journal.streams(Wanted(kind=RUN, name=running.run, parent=session), limit=1)
                )
                if rows:
                    return running.run
            await self._news.wait()

    async def follow(self, run: str, after: int) -> AsyncGenerator[list[Numbered]]:
        while True:
            items = await self._journal.read(run, after)
            if items:
                after = items[-1].seq
                facts = [(item.seq, decode(item.data)) for item in items]
                yield facts
                if isinstance(facts[-1][1], RunEnded):
                    return
            elif not await self._more(run, after):
                raise Refused(f"nobody drives the run {run} any more; turnbuckle runs resume {run} goes on with it")

    async def _more(self, run: str, after: int) -> bool:
        """Wait for more of a run. False if its lane has let go of it."""
        running = self._opened.runs.live(RunId(run))
        waiting = asyncio.ensure_future(self._journal.wait(run, after))
        over = asyncio.ensure_future(_let_go(running)) if running is not None else None
        try:
            await asyncio.wait({waiting, over} if over is not None else {waiting}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return True
            rows = await self._journal.streams(Wanted(kind=RUN, name=run), limit=1)
            if rows and self._lanes.of(SessionId(rows[0].parent)) is not None:
                await waiting  # the lane takes it up again
                return True
            return await self._journal.head(run) > after
        finally:
            waiting.cancel()
            if over is not None:
                over.cancel()

    async def say(self, session: str, text: str, busy: Busy | None, key: str) -> Taken:
        try:
            name = SessionId(session) if await self._rows(session) else checked_name(LOCAL, session)
        except ConfigError as error:
            raise Refused(str(error)) from None
        user = await self._user(session)
        said = Said((task_message(text),), busy)
        await self._sessions.create(name, user, NewRun(said.messages).title)
        try:
            taken = await self._lanes.with_lane(name, user, lambda lane: lane.say(said))
        except SessionBusy as error:
            raise Refused(str(error)) from None
        return Taken(taken.run, not await self._journal.head(taken.run))

    async def answer(self, run: str, approval: str, decision: Decision, text: str) -> bool:
        running = self._opened.runs.live(RunId(run))
        return running is not None and await running.answer(approval, _VERDICTS[decision], "terminal", text)

    async def stop(self, run: str) -> bool:
        running = self._opened.runs.live(RunId(run))
        if running is None or running.done:
            return False
        rows = await self._journal.streams(Wanted(kind=RUN, name=run), limit=1)
        lane = self._lanes.of(SessionId(rows[0].parent)) if rows else None
        if lane is not None and lane.running is running:
            await lane.suspend("stopped", running.run)
        running.stop(BY)
        return True

    async def drafts(self, session: str) -> list[DraftLine]:
        made = []
        for row in reversed(await self._sessions.runs_of(SessionId(session))):
            for draft in (await fold_run(self._journal, RunId(row.name))).drafts.values():
                target = draft.settled.get("path")
                named = target if isinstance(target, str) else ""
                made.append(DraftLine(f"{row.name}:{draft.id}", draft.tool, named, len(draft.text)))
        return made

    async def draft(self, name: str) -> str:
        run, _, wanted = name.rpartition(":")
        try:
            drafts = (await fold_run(self._journal, await find_run(self._journal, run))).drafts
        except TurnbuckleError as error:
            raise Refused(str(error)) from None
        found = next((draft for draft in drafts.values() if draft.id == wanted), None)
        if found is None:
            raise Refused(f"there is no draft {name}; /drafts lists them")
        return found.text

    async def ledger(self, run: str) -> tuple[Waste, ...]:
        ledger = Ledger(price_of)
        async for items in read_all(self._journal, run):
            for item in items:
                ledger.take(decode(item.data))
        return ledger.entries

    async def models(self) -> list[str]:
        return [f"{route.name}: {route.model}" for route in self._opened.policy.routes]

    async def leave(self) -> None:
        """What runs is left without an end, marked, and what waits stays where it is."""
        self._lanes.rest()
        await self._lanes.close()
        for running in self._opened.runs.all_live:
            with contextlib.suppress(TurnbuckleError, JournalError):  # it looks like a crash then, and is as safe
                await running.leave("the chat was closed")


def _ended(did: str, stopped: Stopped) -> Done:
    return Done(did, stopped.run, len(stopped.refused))


async def _let_go(running: Running) -> None:
    with contextlib.suppress(TurnbuckleError, JournalError):
        await running.outcome()
