"""`/v1/runs`: a run as what it is. Begin one and come back later, follow its events from any point, stop it
and get a receipt, answer what it asks, read its drafts and what it wasted.

The request that begins a run does not wait for it, so a run outlives every connection unless its request says
otherwise. All that is shown is folded from the journal, like everything else that is read."""

import contextlib
import re
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.journal.port import StreamQuery
from turnbuckle.runtime.runs import NewRun
from turnbuckle.server.api.run_shapes import RUN_FIELDS
from turnbuckle.server.faces.chat.handler import one_answer
from turnbuckle.server.faces.events import EventsRenderer
from turnbuckle.server.faces.face import divided
from turnbuckle.server.http.begin import ON_DISCONNECT, busy_of, request_key, run_headers
from turnbuckle.server.http.exchange import (
    Answer,
    Exchange,
    Problem,
    Query,
    Streaming,
    json_answer,
    whole_number,
)
from turnbuckle.server.http.pages import Page, limit_of, order_of, page, part_of, with_missing
from turnbuckle.server.http.passing import PassedOn, passed_on
from turnbuckle.server.http.problems import refused, unknown
from turnbuckle.server.streaming.disconnect import DisconnectPolicy, read_policy
from turnbuckle.service.cursors import row_place_at
from turnbuckle.service.owners import session_id
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.service.run_search import RunFilter
from turnbuckle.service.run_view import RunFold, draft_of
from turnbuckle.service.runs import Decision, RunService
from turnbuckle.session.facts import Busy
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.origin import DETACH, Origin
from turnbuckle.wire.fields import Refused, open_body
from turnbuckle.wire.openai_chat.parse_request import PROTOCOL, read_chat

SURFACE = "runs"
LAST_EVENT = "last-event-id"
_DAY, _SECONDS = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII), re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_STATUSES = ("running", "completed", "partial", "cancelled", "failed")


class AnswerBody(Struct, frozen=True):
    """`allow` or `deny` for an approval, with an optional message to the model; `allow_always` writes the
    rules that the approval lists as `always`; `answer` is for a question."""

    decision: Decision
    text: str = ""


class RunsApi:
    """The handlers."""

    def __init__(self, runs: RunService, disconnect: DisconnectPolicy, *, strict: bool = False) -> None:
        self._strict = strict
        self._runs = runs
        self._disconnect = disconnect

    # One run

    async def create(self, exchange: Exchange) -> Answer:
        (begun, passed), owner = await self._begin(exchange), exchange.caller.owner
        # Whoever took the request looks after its client, also if another node drives the run.
        if self._runs.live(begun.run) is not None or self._runs.desk is not None:
            self._disconnect.expect(begun.run, begun.origin.on_disconnect)
        line = await self._runs.line(begun, owner)
        headers = (*run_headers(begun, owner), *passed.headers, ("location", f"/v1/runs/{begun.run}"))
        return json_answer(line, 202, headers)

    async def _begin(self, exchange: Exchange) -> tuple[RunHandle, PassedOn]:
        owner, runs = exchange.caller.owner, self._runs
        body = _read(await exchange.body())
        if isinstance(body, Failure):
            raise refused(body)
        asked = read_chat(body.chat)
        if isinstance(asked, Failure):
            raise refused(replace(asked, param=asked.param.replace("messages", "input", 1)))
        named = exchange.params.get("session", body.session)  # it may be said in the address
        one_answer(asked, "here")
        chosen = runs.catalog.choose(asked.model)
        usual = read_policy(body.on_disconnect, DETACH, param="on_disconnect")
        policy = read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual)
        origin = Origin(SURFACE, asked.model, policy)
        options = replace(
            asked.wishes, route=chosen.route, own_tools=chosen.own_tools, ask_first=body.ask_first
        )
        passed = passed_on(exchange, chosen, PROTOCOL, options, asked, strict=self._strict)
        options = passed.options
        instructions = (Message("system", (TextPart(body.instructions),)),) if body.instructions else ()
        first = (*(runs.opening if chosen.own_tools else ()), *instructions)
        busy, key = busy_of(exchange), await request_key(exchange)
        if named is not None:
            session = session_id(owner, named, param="session")
            messages = await runs.client_calls.answers(asked.messages, owner)
            new = NewRun(messages, session, None, owner, options, origin)
            return await runs.begin(new, first=first, busy=body.busy or busy, key=key), passed
        history, fresh = divided(await runs.client_calls.restored(asked.messages, owner))
        new = NewRun(fresh, None, (*first, *history), owner, options, origin)
        return await runs.begin(new, key=key), passed

    async def get(self, exchange: Exchange) -> Answer:
        run, owner = exchange.params["run"], exchange.caller.owner
        if exchange.query.flag("brief"):
            return json_answer(await self._runs.brief(run, owner))
        return json_answer(await self._runs.view(run, owner))

    async def list(self, exchange: Exchange) -> Answer:
        owner, query = exchange.caller.owner, exchange.query
        wanted = StreamQuery()
        if query.get("session"):
            wanted = replace(wanted, parent=session_id(owner, query["session"], param="session"))
        if query.get("status"):
            wanted = replace(wanted, status=query.word("status", _STATUSES, "running"))
        limit, order = limit_of(query), order_of(query)
        if order != "touched" and query.get("status"):
            raise Problem(400, "order=created is for all runs: leave status out", param="order")
        wanted = replace(wanted, order=order)
        if not (fits := _filter(query)).is_empty:
            if fits.words and order != "touched":
                raise Problem(400, "order=created is not for a search: leave q out", param="order")
            found, next_at = await self._runs.search(wanted, fits, owner, query.get("after", ""), limit)
            made = Page(found.lines, True, next_at) if next_at else Page(found.lines)
        else:
            place = row_place_at(query.get("after", ""))
            rows, found = await self._runs.page(wanted, owner, place, limit)
            made = page(rows, found.lines, limit, order)
        return json_answer(with_missing(made, found.missing))

    async def resume(self, exchange: Exchange) -> Answer:
        """Take up a run that nobody drives. One that is under way, waits for its turn, or has ended, stays as
        it is."""
        begun = await self._found(exchange)
        if await self._runs.head(begun.run):
            await self._runs.go_on(begun.run)
        return json_answer(await self._runs.line(begun, exchange.caller.owner), 202)

    async def delete(self, exchange: Exchange) -> Answer:
        run = (await self._found(exchange)).run
        await self._runs.delete(run, exchange.caller.owner)
        return json_answer({"id": run, "object": "run", "deleted": True})

    # Following and stopping

    async def events(self, exchange: Exchange) -> Answer | Streaming:
        found = await self._found(exchange)
        after = exchange.query.integer("after", 0)
        # A browser that comes back by itself sends the address that it had, and in the header how far it came
        # since.
        after = max(after, whole_number(exchange.headers.get(LAST_EVENT, ""), "Last-Event-ID"))
        run = found.run
        if after > (there := await self._runs.head(run)):
            raise Problem(
                400, f"there is no event {after} in this run: the last one is {there}", param="after"
            )
        headers = (("x-turnbuckle-run", run),)
        comes_back = found.ended and after == there and LAST_EVENT in exchange.headers
        if comes_back and await self._runs.is_end(run, after):
            return Answer(204, b"", headers, "")  # a browser stays away then
        # Read from the first event on: what is waited for follows from all of them, and so does that it is
        # over. Whoever reads a run that was begun here is its client; whoever looks at somebody else's only
        # looks on.
        policy = found.origin.on_disconnect if found.origin.surface == SURFACE else DETACH
        queued = None if there else found.awaited
        told, joined = exchange.query.flag("told"), exchange.query.flag("joined")
        dialect = EventsRenderer(run, after, queued, told=told, joined=joined)
        return Streaming(run, dialect, headers=headers, on_disconnect=policy)

    async def stop(self, exchange: Exchange) -> Answer:
        caller, run = exchange.caller, (await self._found(exchange)).run
        return json_answer(await self._runs.stop(run, caller.owner, caller.by))

    async def interrupt(self, exchange: Exchange) -> Answer:
        caller, run = exchange.caller, (await self._found(exchange)).run
        return json_answer(await self._runs.interrupt(run, caller.owner, caller.by))

    # People

    async def approvals(self, exchange: Exchange) -> Answer:
        _, fold = await self._folded(exchange)
        return json_answer(part_of(fold.approvals, lambda one: one.id, exchange.query))

    async def all_approvals(self, exchange: Exchange) -> Answer:
        """Everything that waits for this owner's people, in any run."""
        waiting, missing = await self._runs.pending(exchange.caller.owner)
        shown = part_of(waiting, lambda one: f"{one.run}/{one.id}", exchange.query)
        return json_answer(with_missing(shown, missing))

    async def answer(self, exchange: Exchange) -> Answer:
        run, name = (await self._found(exchange)).run, exchange.params["approval"]
        await self._runs.approval(run, name)  # that there is none is said before what is wrong with the body
        body = await exchange.read(AnswerBody)
        return json_answer(await self._runs.answer(run, name, body.decision, exchange.caller.by, body.text))

    # What is left of it

    async def drafts(self, exchange: Exchange) -> Answer:
        run, fold = await self._folded(exchange)
        shown = [draft_of(run, draft) for draft in fold.drafts.values()]
        return json_answer(part_of(shown, lambda one: one.id, exchange.query))

    async def draft(self, exchange: Exchange) -> Answer:
        run, fold = await self._folded(exchange)
        name = exchange.params["draft"]
        if name not in fold.drafts:
            raise unknown("draft", name)
        return json_answer(draft_of(run, fold.drafts[name], with_text=True))

    async def ledger(self, exchange: Exchange) -> Answer:
        _, fold = await self._folded(exchange)
        return json_answer(fold.ledger_view())

    # Reading

    async def _found(self, exchange: Exchange) -> RunHandle:
        return await self._runs.find(exchange.params["run"], exchange.caller.owner)

    async def _folded(self, exchange: Exchange) -> tuple[RunId, RunFold]:
        """A run, and all that is stored of it: nothing, while it waits for its turn in a session."""
        run = (await self._found(exchange)).run
        return run, await self._runs.fold(run)


def _filter(query: Query) -> RunFilter:
    since, until = (_moment(query, name) for name in ("since", "until"))
    return RunFilter(query.get("q", "").strip(), query.get("route", ""), since, until)


def _moment(query: Query, name: str) -> float | None:
    """Seconds since 1970, or a day by UTC. Raises Problem."""
    text = query.get(name, "")
    if not text:
        return None
    with contextlib.suppress(ValueError, OverflowError):
        if _DAY.fullmatch(text):
            return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
        if _SECONDS.fullmatch(text):
            return float(text)
    told = f"{name} must be a day such as 2026-11-17, or seconds since 1970"
    raise Problem(400, told, param=name, code="invalid_value")


class _RunAsked(Struct, frozen=True):
    """The body of a run. `chat` is all that a chat request has, too, as one."""

    chat: bytes
    session: str | None
    instructions: str
    on_disconnect: str
    busy: Busy | None
    ask_first: bool


def _read(body: bytes) -> _RunAsked | Failure:
    """So that messages, tools and parameters are read in one way everywhere."""
    try:
        given = RUN_FIELDS.read(open_body(body))
    except Refused as wrong:
        return wrong.failure
    chat = {
        **{name: value for name, value in given.rest.items() if name not in ("stream", "messages")},
        "messages": given.values["input"],
        "model": given.get("model", "agent"),
    }
    return _RunAsked(
        msgspec.json.encode(chat),
        given.get("session"),
        given.get("instructions", ""),
        given.get("on_disconnect", ""),
        given.get("busy"),
        given.get("ask_first", False),
    )
