"""`/v1/conversations`: a session by the name that the Responses protocol has for it."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from turnbuckle.errors import SessionUnknown
from turnbuckle.journal.port import StreamRow
from turnbuckle.runtime.transcript import MessagePlace, SessionMessage
from turnbuckle.server.http.begin import request_key
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, json_answer
from turnbuckle.server.http.pages import limit_of
from turnbuckle.server.http.problems import unknown
from turnbuckle.service.cursors import cursor, place_at
from turnbuckle.service.owners import public_session
from turnbuckle.service.sessions import SessionService
from turnbuckle.vocab.messages import text_of, words_of

PREFIX = "conv_"
ITEM = "msg_"


Label = Annotated[str, Meta(max_length=512)]
Labels = Annotated[dict[Annotated[str, Meta(max_length=64)], Label], Meta(max_length=16)]
"""As many and as long as the protocol itself allows."""


class ConversationBody(Struct, frozen=True):
    """Labels are kept; a conversation begins empty."""

    metadata: Labels | None = None
    items: list[dict[str, Any]] | None = None


class ConversationView(Struct, frozen=True):
    id: str
    created_at: int
    metadata: dict[str, str] = {}
    object: Literal["conversation"] = "conversation"


class ConversationsApi:
    """The handlers."""

    def __init__(self, sessions: SessionService) -> None:
        self._sessions = sessions

    async def create(self, exchange: Exchange) -> Answer:
        body = await exchange.read(ConversationBody)
        if body.items:
            message = "a conversation begins empty here; send the items with its first response"
            raise Problem(400, message, param="items", code="unsupported_parameter")
        owner, key = exchange.caller.owner, await request_key(exchange)
        session = await self._sessions.create(owner, key=key, prefix=PREFIX, metadata=body.metadata)
        return await self._shown(await self._row(session.public, owner), owner)

    async def get(self, exchange: Exchange) -> Answer:
        return await self._shown(await self._named(exchange), exchange.caller.owner)

    async def delete(self, exchange: Exchange) -> Answer:
        row = await self._named(exchange)
        await self._sessions.delete(row)
        public = public_session(exchange.caller.owner, row.name)
        return json_answer({"id": public, "object": "conversation.deleted", "deleted": True})

    async def items(self, exchange: Exchange) -> Answer:
        row, query = await self._named(exchange), exchange.query
        limit, newest_first = limit_of(query), query.word("order", ("asc", "desc"), "desc") == "desc"
        after = place_at(query.get("after", "").removeprefix(ITEM), MessagePlace)
        items: list[dict[str, Any]] = []
        while len(items) <= limit:
            messages = await self._sessions.messages(row, after, limit + 1, newest_first=newest_first)
            items += [_item(message) for message in messages if text_of(message.message.parts)]
            if len(messages) <= limit:
                break
            after = messages[-1].place
        shown = items[:limit]
        ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {}
        page = {"object": "list", "data": shown, "first_id": None, "last_id": None, **ends}
        return json_answer({**page, "has_more": len(items) > limit})

    async def _shown(self, row: StreamRow, owner: str) -> Answer:
        labels = await self._sessions.metadata(row)
        return json_answer(ConversationView(public_session(owner, row.name), int(row.created), labels))

    async def _named(self, exchange: Exchange) -> StreamRow:
        return await self._row(exchange.params["conversation"], exchange.caller.owner)

    async def _row(self, public: str, owner: str) -> StreamRow:
        try:
            return await self._sessions.row(public, owner)
        except SessionUnknown:
            raise unknown("conversation", public) from None


def _item(told: SessionMessage) -> dict[str, Any]:
    message = told.message
    kind = "output_text" if message.role == "assistant" else "input_text"
    text = text_of if message.role == "assistant" else words_of
    part: dict[str, Any] = {"type": kind, "text": text(message.parts)}
    if kind == "output_text":
        part["annotations"] = []
    role = message.role if message.role != "tool" else "user"
    name = f"{ITEM}{cursor(told.place)}"
    return {"type": "message", "id": name, "role": role, "status": "completed", "content": [part]}
