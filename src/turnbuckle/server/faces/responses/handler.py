"""`/v1/responses`: create, stream, fetch, follow from any event, cancel, delete, chain.

A response is a run seen through that protocol, and its id is the run's. Nothing of it is stored beside the
journal: a response that is fetched, and a stream that is read again, are folded from the same facts and so
are the same to the byte. `previous_response_id` goes on behind one certain response, so a conversation may
branch; `conversation` goes on in a session, one response at a time. Instructions are never inherited.
"""

import itertools
from typing import Any

from msgspec.structs import replace

from turnbuckle.errors import RunActive, RunUnknown
from turnbuckle.runtime.runs import NewRun
from turnbuckle.server.faces.face import GRACE, Face
from turnbuckle.server.faces.responses.ids import (
    message_of_response,
    response_id,
    response_of_item,
    run_of_response,
)
from turnbuckle.server.faces.responses.renderer import ResponsesRenderer
from turnbuckle.server.http.begin import ON_DISCONNECT, SESSION, busy_of, request_key, run_headers
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, Query, Streaming, json_answer
from turnbuckle.server.http.pages import MOST, USUAL
from turnbuckle.server.http.passing import PassedOn, passed_on
from turnbuckle.server.http.problems import refused, unknown
from turnbuckle.server.streaming.disconnect import read_policy
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.service.owners import session_id
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.turn.client_calls import run_of
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import CallPart, Message, ResultPart
from turnbuckle.vocab.origin import DETACH, Origin
from turnbuckle.vocab.request import RunOptions
from turnbuckle.wire.openai_chat.parse_request import is_task_for_json
from turnbuckle.wire.openai_responses.input_items import references
from turnbuckle.wire.openai_responses.parse_request import PROTOCOL, ResponsesAsked, read_response

SURFACE = "responses"
MOST_NAMED = 500
"""Responses whose items one input may name, since each is read from the journal: ten times a long
conversation."""


class ResponsesApi(Face):
    """The handlers."""

    def new_response(self) -> str:
        """An id that no response has."""
        return response_id(RunId(self.runs.new_id()))

    async def create(self, exchange: Exchange, local: frozenset[str] = frozenset()) -> Answer | Streaming:
        """`local`: responses that were not stored and can be gone on from all the same, since this connection
        made them."""
        body = await exchange.body()
        stored = await self._stored(body, exchange.caller.owner)
        asked = read_response(body, stem=self.runs.new_id(), stored=stored)
        if isinstance(asked, Failure):
            raise refused(asked)
        begun, passed = await self._begin(exchange, asked, local)
        exchange.forget_body()
        headers = (*run_headers(begun, exchange.caller.owner), *passed.headers)
        dialect = dialect_for(begun)
        first = FirstWord()
        if asked.stream and not asked.background and not begun.origin.queued:
            first = await self._first_word(exchange, begun)
        if asked.stream and not first.failed:
            return self._streaming(begun, dialect, headers, first)
        if asked.background:
            return json_answer(await self._body(begun), 200, headers)
        dialect.open()
        return await self._collected(exchange, begun, dialect, headers)

    async def _begin(
        self, exchange: Exchange, asked: ResponsesAsked, local: frozenset[str]
    ) -> tuple[RunHandle, PassedOn]:
        chosen = self.runs.catalog.choose(asked.model)
        if chosen.own_tools and _is_small_job(asked) and not _session_named(exchange, asked):
            chosen = replace(chosen, own_tools=False)
        options = replace(
            asked.wishes, route=chosen.route, own_tools=chosen.own_tools, max_tool_calls=asked.max_tool_calls
        )
        passed = passed_on(exchange, chosen, PROTOCOL, options, asked, strict=self._strict)
        return await self._begin_with(exchange, asked, passed.options, local), passed

    async def _begin_with(
        self, exchange: Exchange, asked: ResponsesAsked, options: RunOptions, local: frozenset[str]
    ) -> RunHandle:
        owner = exchange.caller.owner
        usual = DETACH if asked.background else GRACE
        origin = Origin(
            SURFACE,
            asked.model,
            read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual),
            repeatable=not _session_named(exchange, asked) and not exchange.headers.get("idempotency-key"),
            store=asked.store,
            background=asked.background,
            echo=asked.echo,
            input=tuple(asked.input_items),
        )
        told = asked.messages[: len(asked.messages) - len(asked.fresh)]
        first = (*(self.runs.opening if options.own_tools else ()), *told)
        busy, key = busy_of(exchange), await request_key(exchange)
        if named := _session_named(exchange, asked):
            session = session_id(
                owner, named, param="conversation" if asked.conversation else "X-Turnbuckle-Session"
            )
            fresh = await self.runs.client_calls.answers(asked.fresh, owner)
            new = NewRun(fresh, session, None, owner, options, origin)
            return await self.runs.begin(new, first=first, anew=True, busy=busy, key=key)
        if asked.previous_response_id:
            session, earlier, turn = await self.earlier(asked.previous_response_id, owner, local)
            _refuse_strange_results(asked.fresh, turn.messages)
            fresh = await self.runs.client_calls.answers(asked.fresh, owner)
            new = NewRun(fresh, session, first, owner, options, origin, base=earlier, opening=len(first))
            return await self.runs.begin(new, key=key)
        fresh = await self.runs.client_calls.restored(asked.fresh, owner)
        return await self.runs.begin(NewRun(fresh, None, first, owner, options, origin), key=key)

    async def earlier(
        self, previous: str, owner: str, local: frozenset[str]
    ) -> tuple[SessionId, RunId, Turn]:
        """The session of an earlier response, the run to go on from, and what it came to. Raises Problem."""
        try:
            earlier = await self._found(previous, owner, local)
            if earlier.told:
                raise unknown("response", previous)
        except Problem:
            raise Problem(
                404,
                f"there is no response {previous[:200]!r} to go on from; one with store false is not kept",
                param="previous_response_id",
                code="previous_response_not_found",
            ) from None
        turn = (await self.runs.fold(earlier.run)).turn
        if turn.outcome is None:
            message = f"the response {previous} is still under way; wait for its end"
            raise Problem(
                409, message, param="previous_response_id", code="response_active", should_retry=False
            )
        return earlier.session, earlier.run, turn

    async def _stored(self, body: bytes, owner: str) -> dict[str, dict[str, Any]]:
        """The items that an input only names: all of the responses that they belong to. What is not found is
        told when the request is read."""
        stored: dict[str, dict[str, Any]] = {}
        named = dict.fromkeys(
            made for item in references(body) if (made := response_of_item(item)) is not None
        )
        for response in itertools.islice(named, MOST_NAMED):
            try:
                run = await self._found(response, owner)
            except Problem:
                continue
            stored.update((item["id"], item) for item in (await self._body(run))["output"])
        return stored

    async def upgrade(self, exchange: Exchange) -> Answer:
        """A GET that did not become a WebSocket: it was not asked for as one, or there is none."""
        message = "GET is for a WebSocket, which this request is not, or which is off; to create one use POST"
        raise Problem(
            426, message, code="upgrade_required", should_retry=False, headers=(("upgrade", "websocket"),)
        )

    # Fetching

    async def get(self, exchange: Exchange) -> Answer | Streaming:
        run = await self._named(exchange)
        headers = (("x-turnbuckle-run", run.run),)
        text = exchange.query.get("starting_after", "")
        after = exchange.query.integer("starting_after", 0) if text else None
        if not exchange.query.flag("stream"):
            return json_answer(await self._body(run), headers=headers)
        if after:
            answer = await self._told(run)
            if answer.merged:
                message = (
                    "the events of this response are no longer kept one by one; read it whole, without this"
                )
                raise Problem(400, message, param="starting_after", code="events_not_kept")
            if after > answer.last_number:
                message = f"there is no event {after}: the last one is {answer.last_number}"
                raise Problem(400, message, param="starting_after")
        return Streaming(run.run, dialect_for(run, after), run.after, headers, DETACH)

    async def input_items(self, exchange: Exchange) -> Answer:
        run = await self._named(exchange)
        return json_answer(item_page(list(run.origin.input), exchange.query))

    # Ending

    async def cancel(self, exchange: Exchange) -> Answer:
        """A response that has ended stays as it is, so that to cancel twice is not a mistake."""
        run = await self._named(exchange)
        if not run.origin.background:
            message = (
                "only a response with background true can be cancelled here; others end with their connection"
            )
            raise Problem(400, message, code="not_a_background_response")
        await self._stop(run, exchange)
        return json_answer(await self._body(run), headers=(("x-turnbuckle-run", run.run),))

    async def delete(self, exchange: Exchange) -> Answer:
        run = await self._named(exchange)
        await self._stop(run, exchange)
        try:
            await self.runs.delete(run.run, exchange.caller.owner)
        except RunActive:
            message = "the response is still being stopped; try again"
            raise Problem(409, message, code="response_active") from None
        return json_answer({"id": exchange.params["response"], "object": "response", "deleted": True})

    async def _stop(self, found: RunHandle, exchange: Exchange) -> None:
        await self.runs.end(found.run, exchange.caller.owner, exchange.caller.by)

    # Reading

    async def _named(self, exchange: Exchange) -> RunHandle:
        return await self._found(exchange.params["response"], exchange.caller.owner)

    async def _found(self, response: str, owner: str, local: frozenset[str] = frozenset()) -> RunHandle:
        """Raises Problem, also for one that was not to be kept and has ended."""
        run = run_of_response(response)
        try:
            known = await self.runs.find(run or "", owner)
        except RunUnknown:
            raise unknown("response", response) from None
        if message := message_of_response(response):
            into = await self.runs.steered(known, message)
            if into is None:
                raise unknown("response", response)
            known = into
        kept = known.origin.store or not known.ended or response in local
        if known.origin.surface != SURFACE or not kept:
            raise unknown("response", response)
        return known

    async def _body(self, found: RunHandle) -> dict[str, Any]:
        return (await self._told(found)).body()

    async def _told(self, found: RunHandle) -> ResponsesRenderer:
        """All that is stored of it, folded."""
        dialect = dialect_for(found)
        dialect.open()
        async for items in self.runs.stored(found.run, found.after):
            dialect.take(items)
        return dialect


def dialect_for(found: RunHandle, starting_after: int | None = None) -> ResponsesRenderer:
    return ResponsesRenderer(
        found.run,
        model=found.origin.model,
        echo=found.origin.echo,
        created=int(found.created),
        starting_after=starting_after,
        name=response_id(found.run, found.message),
        queued=found.origin.queued if not found.message else "",
    )


def _is_small_job(asked: ResponsesAsked) -> bool:
    """A frontend's own request for a title, tags or the like, as on the chat surface. A wish for a form is
    not enough: it may well be the agent's answer that is wanted in that form."""
    alone = not (asked.stream or asked.background or asked.previous_response_id or asked.wishes.tools)
    return alone and bool(asked.fresh) and is_task_for_json(asked.fresh)


def _refuse_strange_results(fresh: tuple[Message, ...], before: tuple[Message, ...]) -> None:
    """A result answers a call of ours, of the conversation, or one that came with it. Raises Problem."""
    calls = {part.id for message in (*before, *fresh) for part in message.parts if isinstance(part, CallPart)}
    for message in fresh:
        for part in message.parts:
            if isinstance(part, ResultPart) and part.call_id not in calls and not run_of(part.call_id):
                words = f"there is no call {part.call_id[:200]!r} in this conversation for a result to answer"
                raise Problem(400, words, param="input", code="tool_call_not_found")


def _session_named(exchange: Exchange, asked: ResponsesAsked) -> str:
    """The session to go on in, by either of its two names. Raises Problem if more than one history is asked
    for."""
    header = exchange.headers.get(SESSION, "")
    if header and (asked.previous_response_id or asked.conversation not in ("", header)):
        other = "previous_response_id" if asked.previous_response_id else "conversation"
        message = f"X-Turnbuckle-Session and {other} name two histories to go on from; use one of them"
        raise Problem(400, message, param=other, code="mutually_exclusive_parameters")
    return asked.conversation or header


def item_page(items: list[dict[str, Any]], query: Query) -> dict[str, Any]:
    """A page of items, newest first unless asked otherwise, in the shape that the official clients turn.
    Raises Problem."""
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
