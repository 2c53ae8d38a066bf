"""`/v1/runs`: a run as what it is. Begin one and come back later, follow its events from any point, stop it and get a
receipt, answer what it asks, read its drafts and what it wasted.

The request that begins a run does not wait for it, so a run outlives every connection unless its request says
otherwise. All that is shown is folded from the journal, like everything else that is read."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.journal.port import StreamRow, Wanted
from turnbuckle.runtime.driver import PersonsAnswer
from turnbuckle.runtime.runs import KIND, RUNNING, NewRun
from turnbuckle.server.attendance import DETACH, read_policy
from turnbuckle.server.chat import ON_DISCONNECT, divided
from turnbuckle.server.desk import Begun, Desk
from turnbuckle.server.dialects.events import EventsDialect
from turnbuckle.server.http import Answer, Exchange, Problem, Streaming, json_answer, whole_number
from turnbuckle.server.names import public_session, session_id
from turnbuckle.server.pages import Page, limit_of, page, place_of
from turnbuckle.server.problems import refused, unknown
from turnbuckle.server.run_view import ApprovalView, RunFold, RunLine, draft_of, line_of, queued_view
from turnbuckle.turn.facts import Fact, decode
from turnbuckle.turn.ledger import Price
from turnbuckle.turn.receipt import receipt
from turnbuckle.turn.waiting import WaitingOn
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.wire.openai_chat.asked import read_chat

SURFACE = "runs"
LAST_EVENT = "last-event-id"
_STATUSES = ("running", "completed", "partial", "cancelled", "failed")


class NewRunBody(Struct, frozen=True):
    """`input` is the task, or messages as in chat completions, whose other parameters may stand beside it."""

    input: str | list[dict[str, Any]]
    model: str = "agent"
    session: str | None = None
    instructions: str | None = None
    on_disconnect: str | None = None
    busy: Literal["queue", "steer", "interrupt", "refuse"] | None = None


class AnswerBody(Struct, frozen=True):
    """`allow` or `deny` for an approval, with a word to the model if you like; `answer` for a question."""

    decision: Literal["allow", "deny", "answer"]
    text: str = ""


_VERDICTS: dict[str, PersonsAnswer] = {"allow": "allowed", "deny": "denied", "answer": "answered"}


class RunsApi:
    """The handlers."""

    def __init__(self, desk: Desk, price: Price | None = None) -> None:
        self._desk = desk
        self._price = price

    # One run

    async def create(self, exchange: Exchange) -> Answer:
        body = await exchange.read(NewRunBody)
        if "session" in exchange.params:
            body = replace(body, session=exchange.params["session"])  # it is said in the address
        begun = await self._begin(exchange, body)
        if self._desk.runs.live(begun.run) is not None:
            self._desk.attendance.expect(begun.run, begun.on_disconnect)
        line = await self._line(begun, exchange.caller.owner)
        headers = (*begun.headers(exchange.caller.owner), ("location", f"/v1/runs/{begun.run}"))
        return json_answer(line, 202, headers)

    async def _begin(self, exchange: Exchange, body: NewRunBody) -> Begun:
        owner = exchange.caller.owner
        asked = read_chat(_as_chat(body, await exchange.read(dict[str, Any])))
        if isinstance(asked, Failure):
            raise refused(replace(asked, param=asked.param.replace("messages", "input", 1)))
        chosen = self._desk.catalog.choose(asked.model)
        usual = read_policy(body.on_disconnect or "", DETACH, param="on_disconnect")
        policy = read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual)
        record = {"surface": SURFACE, "model": asked.model, "on_disconnect": policy}
        wishes = replace(asked.wishes, route=chosen.route, own_tools=chosen.own_tools)
        told = (Message("system", (TextPart(body.instructions),)),) if body.instructions else ()
        first = (*(self._desk.opening if chosen.own_tools else ()), *told)
        if body.session is not None:
            session = session_id(owner, body.session, param="session")
            messages = await self._desk.handover.answers(asked.messages, owner)
            return await self._desk.begin(
                exchange, NewRun(messages, session, None, owner, wishes, record), first=first, busy=body.busy
            )
        history, fresh = divided(await self._desk.handover.restored(asked.messages, owner))
        return await self._desk.begin(exchange, NewRun(fresh, None, (*first, *history), owner, wishes, record))

    async def _line(self, begun: Begun, owner: str) -> RunLine:
        try:
            row = await self._desk.row(begun.run, owner)
        except Problem:  # it waits for its turn
            public = public_session(owner, begun.session)
            return RunLine(begun.run, public, "queued", "", begun.created, begun.created)
        return line_of(row, owner, self._desk.runs.live(begun.run))

    async def get(self, exchange: Exchange) -> Answer:
        found = await self._desk.found(exchange.params["run"], exchange.caller.owner)
        if not await self._desk.journal.head(found.run):
            return json_answer(
                queued_view(
                    found.run, public_session(exchange.caller.owner, found.session), found.created, awaited(found)
                )
            )
        row = await self._row(exchange)
        run, fold = await self._folded(exchange)
        live = self._desk.runs.live(run) is not None
        return json_answer(fold.view(row, exchange.caller.owner, live=live, now=time.time()))

    async def list(self, exchange: Exchange) -> Answer:
        owner, query = exchange.caller.owner, exchange.query
        wanted = Wanted(kind=KIND, user=owner)
        if query.get("session"):
            wanted = replace(wanted, parent=session_id(owner, query["session"], param="session"))
        if query.get("status"):
            wanted = replace(wanted, status=query.word("status", _STATUSES, "running"))
        limit = limit_of(query)
        rows = await self._desk.journal.streams(wanted, place_of(query), limit)
        live = self._desk.runs.live
        shown = [line_of(row, owner, live(RunId(row.name))) for row in rows]
        return json_answer(page(rows, shown, limit))

    async def resume(self, exchange: Exchange) -> Answer:
        """Take up a run that nobody drives. One that is under way, waits for its turn, or has ended, stays as it is."""
        owner = exchange.caller.owner
        begun = await self._desk.found(exchange.params["run"], owner)
        if await self._desk.journal.head(begun.run):
            row = await self._row(exchange)
            if row.status == RUNNING and self._desk.runs.live(begun.run) is None:
                await self._desk.go_on(row)
        return json_answer(await self._line(begun, owner), 202)

    async def delete(self, exchange: Exchange) -> Answer:
        run = (await self._desk.found(exchange.params["run"], exchange.caller.owner)).run
        if not await self._desk.journal.head(run):
            raise Problem(
                409, f"the run {run} waits for its turn; stop it first", code="run_active", should_retry=False
            )
        if not await self._desk.delete_run(run, exchange.caller.owner):
            raise Problem(409, f"the run {run} is under way; stop it first", code="run_active", should_retry=False)
        return json_answer({"id": run, "object": "run", "deleted": True})

    # Following and stopping

    async def events(self, exchange: Exchange) -> Streaming:
        found = await self._desk.found(exchange.params["run"], exchange.caller.owner)
        after = exchange.query.integer("after", 0)
        # A browser that comes back by itself sends the address that it had, and in the header how far it came since.
        after = max(after, whole_number(exchange.headers.get(LAST_EVENT, ""), "Last-Event-ID"))
        run = found.run
        if after > (there := await self._desk.journal.head(run)):
            raise Problem(400, f"there is no event {after} in this run: the last one is {there}", param="after")
        headers = (("x-turnbuckle-run", run),)
        # Read from the first event on: what is waited for follows from all of them, and so does that it is over.
        # Whoever reads a run that was begun here is its client; whoever looks at somebody else's only looks on.
        policy = found.on_disconnect if found.asked.get("surface") == SURFACE else DETACH
        dialect = EventsDialect(run, after=after, queued=None if there else awaited(found))
        return Streaming(run, dialect, headers=headers, on_disconnect=policy)

    async def stop(self, exchange: Exchange) -> Answer:
        owner = exchange.caller.owner
        run = (await self._desk.found(exchange.params["run"], owner)).run
        too_late = not await self._desk.end(run, owner, exchange.caller.key or owner)
        facts = [fact async for _, fact in self._facts(run)]
        return json_answer(receipt(facts, too_late=too_late))

    # People

    async def approvals(self, exchange: Exchange) -> Answer:
        _, fold = await self._folded(exchange)
        return json_answer(Page(fold.approvals))

    async def all_approvals(self, exchange: Exchange) -> Answer:
        """Everything that waits for this owner's people, in any run."""
        waiting: list[ApprovalView] = []
        for running in self._desk.runs.all_live:
            rows = await self._desk.journal.streams(
                Wanted(kind=KIND, name=running.run, user=exchange.caller.owner), limit=1
            )
            if rows and any(call.consent is not None for call in running.turn.calls):
                fold = await self._fold(running.run)
                waiting.extend(one for one in fold.approvals if one.status == "pending")
        return json_answer(Page(waiting))

    async def answer(self, exchange: Exchange) -> Answer:
        run, fold = await self._folded(exchange)
        name = exchange.params["approval"]
        asked = next((one for one in fold.approvals if one.id == name), None)
        if asked is None:
            raise unknown("approval", name)
        body = await exchange.read(AnswerBody)
        if (body.decision == "answer") != (asked.kind == "question"):
            fitting = "answer" if asked.kind == "question" else "allow or deny"
            raise Problem(400, f"this is a {asked.kind}: decision must be {fitting}", param="decision")
        running = self._desk.runs.live(run)
        who = exchange.caller.key or exchange.caller.owner
        if running is None or not await running.answer(name, _VERDICTS[body.decision], who, body.text):
            raise Problem(
                409,
                f"nobody waits for this answer any more: it is {await self._how_settled(run, name)}",
                code="approval_settled",
                should_retry=False,
            )
        settled = await self._fold(run)
        return json_answer(next(one for one in settled.approvals if one.id == name))

    async def _how_settled(self, run: RunId, name: str) -> str:
        fold = await self._fold(run)
        found = next((one.status for one in fold.approvals if one.id == name), "unknown")
        return "kept until its run is taken up again" if found == "pending" else found

    # What is left of it

    async def drafts(self, exchange: Exchange) -> Answer:
        run, fold = await self._folded(exchange)
        shown = [draft_of(run, draft) for draft in fold.drafts.values()]
        return json_answer(Page(shown))

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

    async def _row(self, exchange: Exchange) -> StreamRow:
        return await self._desk.row(exchange.params["run"], exchange.caller.owner)

    async def _folded(self, exchange: Exchange) -> tuple[RunId, RunFold]:
        """A run, and all that is stored of it: nothing, while it waits for its turn in a session."""
        run = (await self._desk.found(exchange.params["run"], exchange.caller.owner)).run
        return run, await self._fold(run)

    async def _fold(self, run: RunId) -> RunFold:
        fold = RunFold(self._desk.runs.policy, self._price)
        async for seq, fact in self._facts(run):
            fold.take(seq, fact)
        return fold

    async def _facts(self, run: RunId) -> AsyncIterator[tuple[int, Fact]]:
        after = 0
        while items := await self._desk.journal.read(run, after):
            for item in items:
                yield item.seq, decode(item.data)
            after = items[-1].seq
            await asyncio.sleep(0)  # a long run must not hold up those who read live


def _as_chat(body: NewRunBody, fields: dict[str, Any]) -> bytes:
    """The body as a chat request, so that messages, tools and parameters are read in one way everywhere."""
    fields.pop("input", None)
    fields["messages"] = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    fields["model"] = body.model
    fields.pop("stream", None)
    return msgspec.json.encode(fields)


def awaited(found: Begun) -> WaitingOn:
    """What a run waits for that has not begun."""
    return WaitingOn("turn", found.queued or "its turn in this session", found.created)
