"""`/v1/sessions`: what belongs together. Make one, find one by its words, read what was said, rename it, fork it at any
event, delete it."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from msgspec import Struct

from turnbuckle.errors import SessionBusy, SessionUnknown
from turnbuckle.journal.port import StreamRow, Wanted
from turnbuckle.runtime.lane import KIND, Lane
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.saying import Said
from turnbuckle.runtime.sessions import Told
from turnbuckle.server.desk import Desk
from turnbuckle.server.http import Answer, Exchange, Problem, json_answer
from turnbuckle.server.names import LOCAL, public_session, run_id, session_id
from turnbuckle.server.pages import Page, limit_of, page, place_of
from turnbuckle.server.problems import unknown
from turnbuckle.session.facts import FreshWhy, MessageAccepted
from turnbuckle.session.state import MessageState
from turnbuckle.tools.background import Process, ProcessState
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import CallPart, FilePart, ImagePart, ReasoningPart, RefusalPart, ResultPart, text_of

T = TypeVar("T")
Did = Literal["stopped", "begun_anew", "retried", "undone", "nothing"]

LONGEST_TITLE = 200
LONGEST_WORDS = 500
_SHOWN_OF_MESSAGE = 2000  # characters; the run has all of them when its turn comes
_SEARCHED = 4  # hits that are looked at for each that is shown: several runs of one session may fit


class NewSessionBody(Struct, frozen=True):
    """Everything may be left out; an id is made then."""

    id: str | None = None
    title: str = ""


class RenameBody(Struct, frozen=True):
    title: str


class ForkBody(Struct, frozen=True):
    """Up to the event `after` of `run`; of its last run, and all of it, if they are left out."""

    id: str | None = None
    title: str | None = None
    run: str | None = None
    after: int | None = None


class SessionView(Struct, frozen=True):
    """One session. `running` is the run that is under way in it."""

    id: str
    title: str
    created_at: float
    updated_at: float
    running: str | None = None
    snippet: str | None = None
    object: Literal["session"] = "session"


class MessageView(Struct, frozen=True):
    """One message as people see it. The last one of a run carries its outcome."""

    index: int
    run: str
    role: str
    text: str
    at: float
    partial: bool = False
    parts: tuple[dict[str, Any], ...] = ()
    outcome: str | None = None
    why: str | None = None
    object: Literal["message"] = "message"


class InboxView(Struct, frozen=True):
    """A message that was said in a session, and what became of it. Its answer is in the run. While it waits, `text` is
    what it says, or the beginning of that."""

    id: str
    state: MessageState
    run: str
    at: float
    why: str = ""
    text: str | None = None
    object: Literal["session.message"] = "session.message"


class ProcessView(Struct, frozen=True):
    """A process that a run started in the background. `lost`: it is not there any more, and nobody saw
    how it ended."""

    id: str
    command: str
    run: str
    folder: str
    state: ProcessState
    started_at: float
    pid: int
    exit_code: int | None = None
    ended_at: float | None = None
    output_bytes: int = 0
    object: Literal["process"] = "process"


class DoneView(Struct, frozen=True):
    """What was done to a session: the run that it concerned, if any, and the messages that will not be answered."""

    did: Did
    run: str | None = None
    refused: tuple[str, ...] = ()
    object: Literal["session.change"] = "session.change"


class SessionsApi:
    """The handlers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, exchange: Exchange) -> Answer:
        body = await exchange.read(NewSessionBody)
        owner = exchange.caller.owner
        public, again = (body.id, False) if body.id is not None else await self._desk.new_session_for(exchange)
        session = session_id(owner, public, param="id")
        if again:
            return await self._made_before(session, owner, public)
        if not await self._desk.sessions.create(session, owner, checked_title(body.title)):
            raise Problem(409, f"there is a session {public} already", code="session_exists", should_retry=False)
        return json_answer(await self._view(session, owner), 201, (("location", f"/v1/sessions/{public}"),))

    async def _made_before(self, session: SessionId, owner: str, public: str) -> Answer:
        """The same request under the same key gets the same session."""
        headers = (("location", f"/v1/sessions/{public}"), ("idempotency-replayed", "true"))
        return json_answer(await self._view(session, owner), 201, headers)

    async def list(self, exchange: Exchange) -> Answer:
        owner, limit = exchange.caller.owner, limit_of(exchange.query)
        words = exchange.query.get("q", "").strip()
        if words:
            return await self._search(owner, words[:LONGEST_WORDS], limit)
        rows = await self._desk.journal.streams(Wanted(kind=KIND, user=owner), place_of(exchange.query), limit)
        shown = [await self._shown(row, owner) for row in rows]
        return json_answer(page(rows, shown, limit))

    async def _search(self, owner: str, words: str, limit: int) -> Answer:
        """Sessions whose title, questions or answers hold the words, best first."""
        found: dict[str, SessionView] = {}
        for kind in (KIND, RUN):
            for hit in await self._desk.journal.search(words, Wanted(kind=kind, user=owner), _SEARCHED * limit):
                name = hit.row.name if kind == KIND else hit.row.parent
                if name in found or len(found) >= limit:
                    continue
                rows = await self._desk.journal.streams(Wanted(kind=KIND, name=name, user=owner), limit=1)
                if rows:
                    found[name] = await self._shown(rows[0], owner, hit.snippet)
        return json_answer(Page(list(found.values())))

    async def get(self, exchange: Exchange) -> Answer:
        session, owner = self._named(exchange)
        return json_answer(await self._view(session, owner))

    async def messages(self, exchange: Exchange) -> Answer:
        """Oldest first; `after` is the index of the last one that was seen."""
        session, owner = self._named(exchange)
        await self._row(session, owner)
        limit, after = limit_of(exchange.query), exchange.query.integer("after", -1)
        told = await self._desk.sessions.messages(session)
        shown = [message_view(index, one) for index, one in enumerate(told)][after + 1 : after + 1 + limit]
        more = after + 1 + limit < len(told)
        following = shown[-1].index if shown and more else None
        return json_answer(Page(shown, more, following))

    async def rename(self, exchange: Exchange) -> Answer:
        session, owner = self._named(exchange)
        body = await exchange.read(RenameBody)
        await self._row(session, owner)
        await self._desk.sessions.rename(session, checked_title(body.title))
        return json_answer(await self._view(session, owner))

    async def fork(self, exchange: Exchange) -> Answer:
        session, owner = self._named(exchange)
        body = await exchange.read(ForkBody)
        row = await self._row(session, owner)
        public, again = (body.id, False) if body.id is not None else await self._desk.new_session_for(exchange)
        new = session_id(owner, public, param="id")
        if again:
            return await self._made_before(new, owner, public)
        if await self._desk.journal.head(new):
            raise Problem(409, f"there is a session {public} already", code="session_exists", should_retry=False)
        run = None if body.run is None else run_id(body.run)
        if body.run is not None and run is None:
            raise unknown("run", body.run)
        await self._check_event(run, body.after, owner)
        title = checked_title(body.title) if body.title is not None else row.title
        try:
            await self._desk.sessions.fork(session, new, owner, title, run, body.after)
        except SessionUnknown:
            raise unknown("run", body.run or "") from None
        return json_answer(await self._view(new, owner), 201, (("location", f"/v1/sessions/{public}"),))

    async def _check_event(self, run: RunId | None, after: int | None, owner: str) -> None:
        """Raises Problem if a fork is wanted behind an event that there is not."""
        if after is None:
            return
        there = None if run is None else await self._desk.journal.head((await self._desk.row(run, owner)).name)
        if after < 0 or (there is not None and after > there):
            message = f"there is no event {after}" + (f": the last one is {there}" if there is not None else "")
            raise Problem(400, message, param="after", code="invalid_value")

    async def inbox(self, exchange: Exchange) -> Answer:
        """The latest messages and what became of each, oldest first."""
        session, owner = self._named(exchange)
        await self._row(session, owner)
        lane = self._desk.lanes.of(session)
        state = lane.state if lane is not None else await self._desk.sessions.state(session)
        said = {one.id: _words_of(one) for one in (*state.waiting, *state.steering)}
        shown = [
            InboxView(fate.id, fate.state, fate.run, fate.at, fate.why, said.get(fate.id))
            for fate in state.fates.values()
        ]
        return json_answer(Page(shown))

    async def processes(self, exchange: Exchange) -> Answer:
        """What runs, or ran, in the background, oldest first."""
        session, owner = self._named(exchange)
        await self._row(session, owner)
        background = self._desk.runs.background
        found = () if background is None else background.listed(session)
        return json_answer(Page([process_view(one) for one in found]))

    async def all_processes(self, exchange: Exchange) -> Answer:
        """Every background process of this owner, of any session or of none, oldest first."""
        found = await self._processes_of(exchange.caller.owner)
        return json_answer(Page([process_view(one) for one in found]))

    async def stop_process(self, exchange: Exchange) -> Answer:
        """One that has ended stays as it is."""
        name = exchange.params["process"]
        found = await self._processes_of(exchange.caller.owner)
        if self._desk.runs.background is None or name not in [one.id for one in found]:
            raise unknown("process", name)
        ended = await self._desk.runs.background.stop(name)
        if ended is None:
            raise unknown("process", name)
        return json_answer(process_view(ended))

    async def _processes_of(self, owner: str) -> tuple[Process, ...]:
        """All background processes of an owner. What nobody is known to have begun any more is the machine's own."""
        found = () if self._desk.runs.background is None else self._desk.runs.background.listed()
        owners = {one.id: await self._owner_of(one) for one in found}
        return tuple(one for one in found if owners[one.id] == owner)

    async def _owner_of(self, process: Process) -> str:
        for name in (process.run, process.session):
            if rows := await self._desk.journal.streams(Wanted(name=name), limit=1):
                return rows[0].user or LOCAL
        return LOCAL

    async def stop(self, exchange: Exchange) -> Answer:
        who = exchange.caller.key or exchange.caller.owner
        stopped = await self._in_lane(exchange, lambda lane: lane.stop(who))
        did: Did = "stopped" if stopped.run is not None or stopped.refused else "nothing"
        return json_answer(DoneView(did, stopped.run, stopped.refused))

    async def new(self, exchange: Exchange) -> Answer:
        return await self._anew(exchange, "new")

    async def reset(self, exchange: Exchange) -> Answer:
        return await self._anew(exchange, "reset")

    async def _anew(self, exchange: Exchange, why: FreshWhy) -> Answer:
        who = exchange.caller.key or exchange.caller.owner
        stopped = await self._in_lane(exchange, lambda lane: lane.begin_anew(why, who))
        return json_answer(DoneView("begun_anew", stopped.run, stopped.refused))

    async def undo(self, exchange: Exchange) -> Answer:
        request = await self._desk.reserved(exchange)
        run = await self._in_lane(exchange, lambda lane: lane.undo(request))
        return json_answer(DoneView("nothing" if run is None else "undone", run))

    async def retry(self, exchange: Exchange) -> Answer:
        run = await self._desk.reserved(exchange)
        if run is None:
            taken = await self._in_lane(exchange, lambda lane: lane.retry())
            return json_answer(DoneView("nothing") if taken is None else DoneView("retried", taken.run))
        async with self._desk.once.starting(run) as fresh:
            if fresh and await self._in_lane(exchange, lambda lane: lane.retry(Said((), run=run))) is None:
                return json_answer(DoneView("nothing"))
        return json_answer(DoneView("retried", run))

    async def _in_lane(self, exchange: Exchange, act: Callable[[Lane], Awaitable[T]]) -> T:
        session, owner = self._named(exchange)
        await self._row(session, owner)
        try:
            return await self._desk.lanes.with_lane(session, owner, act)
        except SessionBusy as busy:
            raise Problem(409, str(busy), code="session_busy", should_retry=False) from None

    async def delete(self, exchange: Exchange) -> Answer:
        session, owner = self._named(exchange)
        row = await self._row(session, owner)
        try:
            await self._desk.delete_session(session)
        except SessionBusy as busy:
            raise Problem(409, str(busy), code="session_busy", should_retry=False) from None
        return json_answer({"id": public_session(owner, row.name), "object": "session", "deleted": True})

    def _named(self, exchange: Exchange) -> tuple[SessionId, str]:
        owner, public = exchange.caller.owner, exchange.params["session"]
        try:
            return session_id(owner, public), owner
        except Problem:
            raise unknown("session", public) from None

    async def _row(self, session: SessionId, owner: str) -> StreamRow:
        try:
            return await self._desk.sessions.row(session, owner)
        except SessionUnknown:
            raise unknown("session", public_session(owner, session)) from None

    async def _view(self, session: SessionId, owner: str) -> SessionView:
        return await self._shown(await self._row(session, owner), owner)

    async def _shown(self, row: StreamRow, owner: str, snippet: str | None = None) -> SessionView:
        running = await self._desk.sessions.running(SessionId(row.name))
        return SessionView(public_session(owner, row.name), row.title, row.created, row.updated, running, snippet)


def _words_of(message: MessageAccepted) -> str:
    """What somebody said, as much as a list shows of it."""
    return "\n".join(text_of(one.parts) for one in message.messages if one.role == "user")[:_SHOWN_OF_MESSAGE]


def process_view(process: Process) -> ProcessView:
    return ProcessView(
        process.id,
        process.command,
        process.run,
        process.folder,
        process.state,
        process.started_at,
        process.pid,
        process.exit_code,
        process.ended_at,
        process.output_bytes,
    )


def checked_title(title: str) -> str:
    """A title in one line. Raises Problem."""
    plain = " ".join(title.split())
    if len(plain) > LONGEST_TITLE:
        raise Problem(400, f"a title has at most {LONGEST_TITLE} characters", param="title")
    return plain


def message_view(index: int, told: Told) -> MessageView:
    message, outcome = told.message, told.outcome
    return MessageView(
        index,
        told.run,
        message.role,
        text_of(message.parts),
        told.at,
        message.partial,
        tuple(shown for part in message.parts if (shown := part_view(part)) is not None),
        outcome.kind if outcome is not None else None,
        outcome.why or None if outcome is not None else None,
    )


def part_view(part: Any) -> dict[str, Any] | None:
    """What a message holds besides its text, in plain words. What only a provider understands is not shown."""
    match part:
        case CallPart():
            return {"type": "call", "id": part.id, "tool": part.name, "arguments": part.arguments}
        case ResultPart():
            return {"type": "result", "id": part.call_id, "text": text_of(part.content), "failed": part.failed}
        case ReasoningPart() if part.text:
            return {"type": "reasoning", "text": part.text}
        case RefusalPart():
            return {"type": "refusal", "text": part.text}
        case ImagePart():
            return {"type": "image", "url": part.url, "media_type": part.media_type}
        case FilePart():
            return {"type": "file", "name": part.name, "url": part.url, "media_type": part.media_type}
        case _:
            return None
