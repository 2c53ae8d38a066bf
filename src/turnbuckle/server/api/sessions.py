"""`/v1/sessions`: what belongs together. Make one, find one by its words, read what was said, rename it, fork
it at any event, delete it."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from turnbuckle.journal.port import SearchPlace, StreamRow
from turnbuckle.runtime.transcript import MessagePlace, SessionMessage
from turnbuckle.server.http.begin import request_key
from turnbuckle.server.http.exchange import Answer, Exchange, Headers, json_answer
from turnbuckle.server.http.pages import NodesPage, Page, limit_of, order_of, page, part_of, with_missing
from turnbuckle.service.background import FoundProcesses
from turnbuckle.service.cursors import cursor, place_at, row_place_at
from turnbuckle.service.sessions import Did, Made, SessionLine, SessionService, Verb
from turnbuckle.session.facts import MessageAccepted
from turnbuckle.session.state import MessageState
from turnbuckle.tools.background import BackgroundProcess, ProcessState
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    text_of,
    words_of,
)
from turnbuckle.vocab.tooling import FINISH_CALL, REST_OF_A_CALL

LONGEST_KEEP = 10_000
MESSAGE_ORDERS = ("asc", "desc")
_SHOWN_OF_MESSAGE = 2000  # characters; the run has all of them when its turn comes


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


class SessionCompactBody(Struct, frozen=True):
    """`keep` says what the summary must hold, in any words."""

    keep: Annotated[str, Meta(max_length=LONGEST_KEEP)] = ""


class SessionRetryBody(Struct, frozen=True):
    """`route` is the one to retry on; empty: the one that it was asked on."""

    route: Annotated[str, Meta(max_length=200)] = ""


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
    """One message as people see it. Its id is where it stands, which `after` takes. The last one of a run
    carries its outcome. `shared`: it was said in the session from which this one was forked."""

    id: str
    run: str
    role: str
    text: str
    at: float
    partial: bool = False
    parts: tuple[dict[str, Any], ...] = ()
    outcome: str | None = None
    why: str | None = None
    shared: bool = False
    object: Literal["message"] = "message"


class InboxView(Struct, frozen=True):
    """A message that was said in a session, and what became of it. Its answer is in the run. While it waits,
    `text` is what it says, or the beginning of that."""

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
    """What was done to a session: the run that it concerned, if any, and the messages that will not be
    answered."""

    did: Did
    run: str | None = None
    refused: tuple[str, ...] = ()
    object: Literal["session.change"] = "session.change"


class SessionsApi:
    """The handlers."""

    def __init__(self, sessions: SessionService) -> None:
        self._sessions = sessions

    async def create(self, exchange: Exchange) -> Answer:
        body, owner = await exchange.read(NewSessionBody), exchange.caller.owner
        session = await self._sessions.create(owner, body.id, body.title, key=await request_key(exchange))
        return await self._made(session, owner)

    async def _made(self, made: Made, owner: str) -> Answer:
        """The same request under the same key gets the same session."""
        headers: Headers = (("location", f"/v1/sessions/{made.public}"),)
        if made.replayed:
            headers = (*headers, ("idempotency-replayed", "true"))
        row = await self._sessions.row(made.public, owner)
        return json_answer(await self._view(row, owner), 201, headers)

    async def list(self, exchange: Exchange) -> Answer:
        owner, limit = exchange.caller.owner, limit_of(exchange.query)
        after, order = exchange.query.get("after", ""), order_of(exchange.query)
        if words := exchange.query.get("q", "").strip():
            hits = await self._sessions.search(words, owner, limit, place_at(after, SearchPlace))
            shown = [session_view(line) for line in hits.lines]
            return json_answer(Page(shown, True, cursor(hits.next)) if hits.next else Page(shown))
        rows = await self._sessions.rows(owner, row_place_at(after), limit, order)
        return json_answer(page(rows, [await self._view(row, owner) for row in rows], limit, order))

    async def get(self, exchange: Exchange) -> Answer:
        return json_answer(await self._view(await self._row(exchange), exchange.caller.owner))

    async def messages(self, exchange: Exchange) -> Answer:
        """From either end; `after` is the id of the last one that was seen."""
        row, limit = await self._row(exchange), limit_of(exchange.query)
        newest_first = exchange.query.word("order", MESSAGE_ORDERS, "asc") == "desc"
        after = place_at(exchange.query.get("after", ""), MessagePlace)
        page = await self._sessions.messages(row, after, limit + 1, newest_first=newest_first)
        shown = [message_view(message) for message in page[:limit]]
        more = len(page) > limit
        return json_answer(Page(shown, more, shown[-1].id if more else None))

    async def rename(self, exchange: Exchange) -> Answer:
        body, row = await exchange.read(RenameBody), await self._row(exchange)
        await self._sessions.rename(row, body.title)
        return json_answer(await self._view(await self._row(exchange), exchange.caller.owner))

    async def fork(self, exchange: Exchange) -> Answer:
        body, row, owner = await exchange.read(ForkBody), await self._row(exchange), exchange.caller.owner
        session = await self._sessions.fork(
            row,
            owner,
            body.id,
            title=body.title,
            run=body.run,
            after=body.after,
            key=await request_key(exchange),
        )
        return await self._made(session, owner)

    async def inbox(self, exchange: Exchange) -> Answer:
        """The latest messages and what became of each, oldest first."""
        state = await self._sessions.live_state(await self._row(exchange))
        words = {message.id: _words_of(message) for message in (*state.waiting, *state.steering)}
        shown = [
            InboxView(status.id, status.state, status.run, status.at, status.why, words.get(status.id))
            for status in state.statuses.values()
        ]
        return json_answer(part_of(shown, lambda message: message.id, exchange.query))

    async def processes(self, exchange: Exchange) -> Answer:
        """What runs, or ran, in the background, oldest first."""
        found = await self._sessions.processes(await self._row(exchange))
        return json_answer(_processes(found, exchange))

    async def all_processes(self, exchange: Exchange) -> Answer:
        """Every background process of this owner, of any session or of none, oldest first."""
        found = await self._sessions.all_processes(exchange.caller.owner)
        return json_answer(_processes(found, exchange))

    async def stop_process(self, exchange: Exchange) -> Answer:
        """One that has ended stays as it is."""
        process = await self._sessions.stop_process(exchange.params["process"], exchange.caller.owner)
        return json_answer(process_view(process))

    async def stop(self, exchange: Exchange) -> Answer:
        return await self._change(exchange, "stop")

    async def new(self, exchange: Exchange) -> Answer:
        return await self._change(exchange, "new")

    async def reset(self, exchange: Exchange) -> Answer:
        return await self._change(exchange, "reset")

    async def undo(self, exchange: Exchange) -> Answer:
        return await self._change(exchange, "undo")

    async def retry(self, exchange: Exchange) -> Answer:
        body = await exchange.read(SessionRetryBody)
        return await self._change(exchange, "retry", route=body.route)

    async def compact(self, exchange: Exchange) -> Answer:
        body = await exchange.read(SessionCompactBody)
        return await self._change(exchange, "compact", keep=body.keep)

    async def undo_compaction(self, exchange: Exchange) -> Answer:
        return await self._change(exchange, "undo_compaction")

    async def context(self, exchange: Exchange) -> Answer:
        return json_answer(await self._sessions.context(await self._row(exchange)))

    async def _change(self, exchange: Exchange, verb: Verb, *, keep: str = "", route: str = "") -> Answer:
        row, key = await self._row(exchange), await request_key(exchange)
        done = await self._sessions.change(row, exchange.caller, verb, key, keep=keep, route=route)
        return json_answer(DoneView(done.did, done.run, done.refused))

    async def delete(self, exchange: Exchange) -> Answer:
        await self._sessions.delete(await self._row(exchange))
        return json_answer({"id": exchange.params["session"], "object": "session", "deleted": True})

    async def _row(self, exchange: Exchange) -> StreamRow:
        return await self._sessions.row(exchange.params["session"], exchange.caller.owner)

    async def _view(self, row: StreamRow, owner: str) -> SessionView:
        return session_view(await self._sessions.line(row, owner))


def session_view(line: SessionLine) -> SessionView:
    running, snippet = line.running or None, line.snippet or None
    return SessionView(line.name, line.title, line.created, line.updated, running, snippet)


def _words_of(message: MessageAccepted) -> str:
    """What somebody said, as much as a list shows of it."""
    return "\n".join(words_of(each.parts) for each in message.messages if each.role == "user")[
        :_SHOWN_OF_MESSAGE
    ]


def _processes(found: FoundProcesses, exchange: Exchange) -> NodesPage[ProcessView]:
    views = [process_view(process) for process in found.processes]
    return with_missing(part_of(views, lambda process: process.id, exchange.query), found.missing)


def process_view(process: BackgroundProcess) -> ProcessView:
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


def message_view(told: SessionMessage) -> MessageView:
    message, outcome = told.message, told.outcome
    return MessageView(
        cursor(told.place),
        told.run,
        message.role,
        text_of(message.parts) if message.role == "assistant" else words_of(message.parts),
        told.at,
        message.partial,
        tuple(shown for part in message.parts if (shown := part_view(part)) is not None),
        outcome.kind if outcome is not None else None,
        outcome.why or None if outcome is not None else None,
        told.place.is_shared,
    )


def part_view(part: Any) -> dict[str, Any] | None:
    """What a message holds besides its text, in plain words. What only a provider understands is not
    shown."""
    match part:
        case CallPart():
            tool = REST_OF_A_CALL if part.name == FINISH_CALL else part.name
            return {"type": "call", "id": part.id, "tool": tool, "arguments": part.arguments}
        case ResultPart():
            return {
                "type": "result",
                "id": part.call_id,
                "text": text_of(part.content),
                "failed": part.failed,
            }
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
