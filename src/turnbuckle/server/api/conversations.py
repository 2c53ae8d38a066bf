"""`/v1/conversations`: a session by the name that the Responses protocol has for it."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from turnbuckle.errors import SessionUnknown
from turnbuckle.journal.port import StreamRow
from turnbuckle.server.faces.responses.handler import item_page
from turnbuckle.server.http.begin import request_key
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, json_answer
from turnbuckle.server.http.problems import unknown
from turnbuckle.service.owners import public_session
from turnbuckle.service.sessions import SessionService
from turnbuckle.vocab.messages import Message, text_of

PREFIX = "conv_"


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
        made = await self._sessions.create(owner, key=key, prefix=PREFIX, metadata=body.metadata)
        return await self._shown(await self._row(made.public, owner), owner)

    async def get(self, exchange: Exchange) -> Answer:
        return await self._shown(await self._named(exchange), exchange.caller.owner)

    async def delete(self, exchange: Exchange) -> Answer:
        row = await self._named(exchange)
        await self._sessions.delete(row)
        public = public_session(exchange.caller.owner, row.name)
        return json_answer({"id": public, "object": "conversation.deleted", "deleted": True})

    async def items(self, exchange: Exchange) -> Answer:
        told = await self._sessions.messages(await self._named(exchange))
        made = [_item(place, one.message) for place, one in enumerate(told) if text_of(one.message.parts)]
        return json_answer(item_page(made, exchange.query))

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


def _item(place: int, message: Message) -> dict[str, Any]:
    kind = "output_text" if message.role == "assistant" else "input_text"
    part: dict[str, Any] = {"type": kind, "text": text_of(message.parts)}
    if kind == "output_text":
        part["annotations"] = []
    role = message.role if message.role != "tool" else "user"
    return {"type": "message", "id": f"msg_{place}", "role": role, "status": "completed", "content": [part]}
