"""`/v1/responses`: create, stream, fetch, follow from any event, cancel, delete, chain.

A response is a run seen through that protocol, and its id is the run's. Nothing of it is stored beside the journal: a
response that is fetched, and a stream that is read again, are folded from the same facts and so are the same to the
byte. `previous_response_id` goes on behind one certain response, so a conversation may branch; `conversation` goes on
in a session, one response at a time. Instructions are never inherited.
"""

import itertools
from typing import Any

from msgspec.structs import replace

from turnbuckle.runtime.history import without_opening
from turnbuckle.runtime.runs import NewRun, fold_run
from turnbuckle.server.attendance import DETACH, read_policy
from turnbuckle.server.chat import GRACE, ON_DISCONNECT, SESSION
from turnbuckle.server.desk import Begun, Desk
from turnbuckle.server.dialects.closing import REPEATABLE
from turnbuckle.server.dialects.responses import ResponsesDialect
from turnbuckle.server.http import Answer, Exchange, Problem, Query, Streaming, json_answer
from turnbuckle.server.names import (
    message_of_response,
    response_id,
    response_of_item,
    run_of_response,
    session_id,
)
from turnbuckle.server.pages import MOST, USUAL
from turnbuckle.server.problems import refused, unknown
from turnbuckle.turn.facts import UserSpoke, decode
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.wire.openai_chat.asked import is_task_for_json
from turnbuckle.wire.openai_responses.asked import ResponsesAsked, read_response
from turnbuckle.wire.openai_responses.input_items import references

SURFACE = "responses"
MOST_NAMED = 500
"""Responses whose items one input may name, since each is read from the journal: ten times a long conversation."""
NOT_OURS = ("web_search", "web_search_preview")
"""Tools of a provider's own that coding agents offer always. An offer can go without them; the answer says so."""


class ResponsesApi:
    """The handlers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, exchange: Exchange) -> Answer | Streaming:
        body = await exchange.body()
        stored = await self._stored(body, exchange.caller.owner)
        asked = read_response(body, stem=self._desk.runs.new_id(), stored=stored, without=NOT_OURS)
        if isinstance(asked, Failure):
            raise refused(asked)
        begun = await self._begin(exchange, asked)
        if begun.message:
            begun = await self._steered(begun, begun.message) or begun
        exchange.forget_body()
        headers = begun.headers(exchange.caller.owner)
        if asked.left_out:
            headers = (*headers, ("x-turnbuckle-left-out", ", ".join(asked.left_out)))
        dialect = dialect_for(begun)
        fails = (
            asked.stream
            and not asked.background
            and not begun.queued
            and await self._desk.tailing.fails_at_once(
                begun.run, exchange.line, after=begun.after, on_disconnect=begun.on_disconnect
            )
        )
        if asked.stream and not fails:
            return Streaming(begun.run, dialect, begun.after, headers, begun.on_disconnect)
        if asked.background:
            return json_answer(await self._body(begun), 200, headers)
        dialect.open()
        await self._desk.tailing.collect(
            begun.run, dialect, exchange.line, after=begun.after, on_disconnect=begun.on_disconnect
        )
        whole = dialect.answer()
        return json_answer(whole.body, whole.status, (*headers, *whole.headers))

    async def _begin(self, exchange: Exchange, asked: ResponsesAsked) -> Begun:
        owner = exchange.caller.owner
        chosen = self._desk.catalog.choose(asked.model)
        if chosen.own_tools and _is_small_job(asked) and not _session_named(exchange, asked):
            chosen = replace(chosen, own_tools=False)
        wishes = replace(
            asked.wishes, route=chosen.route, own_tools=chosen.own_tools, max_tool_calls=asked.max_tool_calls
        )
        usual = DETACH if asked.background else GRACE
        record = {
            "surface": SURFACE,
            "model": asked.model,
            "store": asked.store,
            "background": asked.background,
            "on_disconnect": read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual),
            REPEATABLE: not _session_named(exchange, asked) and not exchange.headers.get("idempotency-key"),
            "echo": asked.echo,
            "input": asked.input_items,
        }
        told = asked.messages[: len(asked.messages) - len(asked.fresh)]
        first = (*(self._desk.opening if chosen.own_tools else ()), *told)
        if named := _session_named(exchange, asked):
            session = session_id(owner, named, param="conversation" if asked.conversation else "X-Turnbuckle-Session")
            fresh = await self._desk.handover.answers(asked.fresh, owner)
            new = NewRun(fresh, session, None, owner, wishes, record)
            return await self._desk.begin(exchange, new, first=first, anew=True)
        if asked.previous_response_id:
            session, earlier = await self._earlier(asked.previous_response_id, owner)
            fresh = await self._desk.handover.answers(asked.fresh, owner)
            return await self._desk.begin(exchange, NewRun(fresh, session, (*first, *earlier), owner, wishes, record))
        fresh = await self._desk.handover.restored(asked.fresh, owner)
        return await self._desk.begin(exchange, NewRun(fresh, None, first, owner, wishes, record))

    async def _earlier(self, previous: str, owner: str) -> tuple[SessionId, tuple[Message, ...]]:
        """What was said up to an earlier response, and its session."""
        try:
            earlier = await self._found(previous, owner)
            if earlier.told:
                raise unknown("response", previous)
        except Problem:
            raise Problem(
                404,
                f"there is no response {previous[:200]!r} to go on from; one with store false is not kept",
                param="previous_response_id",
                code="previous_response_not_found",
            ) from None
        turn = await fold_run(self._desk.journal, earlier.run, self._desk.runs.policy)
        if turn.outcome is None:
            message = f"the response {previous} is still under way; wait for its end"
            raise Problem(409, message, param="previous_response_id", code="response_active", should_retry=False)
        return earlier.session, without_opening(turn.messages)

    async def _stored(self, body: bytes, owner: str) -> dict[str, dict[str, Any]]:
        """The items that an input only names: all of the responses that they belong to. What is not found is told
        when the request is read."""
        stored: dict[str, dict[str, Any]] = {}
        named = dict.fromkeys(made for item in references(body) if (made := response_of_item(item)) is not None)
        for response in itertools.islice(named, MOST_NAMED):
            try:
                found = await self._found(response, owner)
            except Problem:
                continue
            stored.update((item["id"], item) for item in (await self._body(found))["output"])
        return stored

    # Fetching

    async def get(self, exchange: Exchange) -> Answer | Streaming:
        found = await self._named(exchange)
        headers = (("x-turnbuckle-run", found.run),)
        text = exchange.query.get("starting_after", "")
        after = exchange.query.integer("starting_after", 0) if text else None
        if not exchange.query.flag("stream"):
            return json_answer(await self._body(found), headers=headers)
        if after:
            told = await self._told(found)
            if told.merged:
                message = "the events of this response are no longer kept one by one; read it whole, without this"
                raise Problem(400, message, param="starting_after", code="events_not_kept")
            if after > told.last_number:
                message = f"there is no event {after}: the last one is {told.last_number}"
                raise Problem(400, message, param="starting_after")
        return Streaming(found.run, dialect_for(found, after), found.after, headers, DETACH)

    async def input_items(self, exchange: Exchange) -> Answer:
        found = await self._named(exchange)
        return json_answer(item_page(list(found.asked.get("input", [])), exchange.query))

    # Ending

    async def cancel(self, exchange: Exchange) -> Answer:
        """A response that has ended stays as it is, so that to cancel twice is no mistake."""
        found = await self._named(exchange)
        if not found.asked.get("background"):
            message = "only a response with background true can be cancelled here; others end with their connection"
            raise Problem(400, message, code="not_a_background_response")
        await self._stop(found, exchange)
        return json_answer(await self._body(found), headers=(("x-turnbuckle-run", found.run),))

    async def delete(self, exchange: Exchange) -> Answer:
        found = await self._named(exchange)
        await self._stop(found, exchange)
        if not await self._desk.delete_run(found.run, exchange.caller.owner):
            raise Problem(409, "the response is still being stopped; try again", code="response_active")
        return json_answer({"id": exchange.params["response"], "object": "response", "deleted": True})

    async def _stop(self, found: Begun, exchange: Exchange) -> None:
        owner = exchange.caller.owner
        await self._desk.end(found.run, owner, exchange.caller.key or owner)

    # Reading

    async def _named(self, exchange: Exchange) -> Begun:
        return await self._found(exchange.params["response"], exchange.caller.owner)

    async def _found(self, response: str, owner: str) -> Begun:
        """Raises Problem, also for one that was not to be kept and has ended."""
        run = run_of_response(response)
        try:
            found = await self._desk.found(run or "", owner)
        except Problem:
            raise unknown("response", response) from None
        if message := message_of_response(response):
            into = await self._steered(found, message)
            if into is None:
                raise unknown("response", response)
            found = into
        kept = found.asked.get("store", True) or not found.ended
        if found.asked.get("surface") != SURFACE or not kept:
            raise unknown("response", response)
        return found

    async def _steered(self, found: Begun, message: str) -> Begun | None:
        """The answer to what was said into a run, from where it begins. None if the run was never told that."""
        after = 0
        while items := await self._desk.journal.read(found.run, after):
            after = items[-1].seq
            for item in items:
                fact = decode(item.data) if b'"user_spoke"' in item.data[:24] else None
                if isinstance(fact, UserSpoke) and fact.id == message:
                    began, at = int(fact.asked.get("after", item.seq)), float(fact.asked.get("created", fact.at))
                    return replace(found, asked=fact.asked, created=at, after=began, message=message)
        return None

    async def _body(self, found: Begun) -> dict[str, Any]:
        return (await self._told(found)).body()

    async def _told(self, found: Begun) -> ResponsesDialect:
        """All that is stored of it, folded."""
        dialect, after = dialect_for(found), found.after
        dialect.open()
        while items := await self._desk.journal.read(found.run, after):
            dialect.take(items)
            after = items[-1].seq
        return dialect


def dialect_for(found: Begun, starting_after: int | None = None) -> ResponsesDialect:
    asked = found.asked
    return ResponsesDialect(
        found.run,
        model=str(asked.get("model", "")),
        echo=asked.get("echo", {}),
        created=int(found.created),
        starting_after=starting_after,
        name=response_id(found.run, found.message),
        queued=found.queued if not found.message else "",
    )


def _is_small_job(asked: ResponsesAsked) -> bool:
    """A frontend's own request for a title, tags or the like, as on the chat surface. A wish for a form is not enough:
    it may well be the agent's answer that is wanted in that form."""
    alone = not (asked.stream or asked.background or asked.previous_response_id or asked.wishes.tools)
    return alone and bool(asked.fresh) and is_task_for_json(asked.fresh)


def _session_named(exchange: Exchange, asked: ResponsesAsked) -> str:
    """The session to go on in, by either of its two names. Raises Problem if more than one history is asked for."""
    header = exchange.headers.get(SESSION, "")
    if header and (asked.previous_response_id or asked.conversation not in ("", header)):
        other = "previous_response_id" if asked.previous_response_id else "conversation"
        message = f"X-Turnbuckle-Session and {other} name two histories to go on from; use one of them"
        raise Problem(400, message, param=other, code="mutually_exclusive_parameters")
    return asked.conversation or header


def item_page(items: list[dict[str, Any]], query: Query) -> dict[str, Any]:
    """A page of items, newest first unless asked otherwise, in the shape that the official clients turn. Raises
    Problem."""
    limit, after = query.integer("limit", USUAL, least=1, most=MOST), query.get("after", "")
    if query.word("order", ("asc", "desc"), "desc") == "desc":
        items = items[::-1]
    if after:
        places = [place for place, item in enumerate(items) if item.get("id") == after]
        if not places:
            raise Problem(400, f"there is no item {after[:200]!r} here", param="after")
        items = items[places[0] + 1 :]
    shown = items[:limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0].get("id") if shown else None,
        "last_id": shown[-1].get("id") if shown else None,
        "has_more": len(items) > limit,
    }
