"""`/v1/conversations`: a session by the name that the Responses protocol has for it."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from turnbuckle.errors import SessionBusy, SessionUnknown
from turnbuckle.journal.port import StreamRow
from turnbuckle.server.desk import Desk
from turnbuckle.server.http import Answer, Exchange, Problem, json_answer
from turnbuckle.server.names import public_session, session_id
from turnbuckle.server.problems import unknown
from turnbuckle.server.responses import item_page
from turnbuckle.vocab.ids import SessionId
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

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, exchange: Exchange) -> Answer:
        body = await exchange.read(ConversationBody)
        if body.items:
            message = "a conversation begins empty here; send the items with its first response"
            raise Problem(400, message, param="items", code="unsupported_parameter")
        owner = exchange.caller.owner
        made, _ = await self._desk.new_session_for(exchange)
        public = f"{PREFIX}{made}"
        await self._desk.sessions.create(session_id(owner, public), owner, metadata=body.metadata)
        return await self._shown(public, owner)

    async def get(self, exchange: Exchange) -> Answer:
        return await self._shown(exchange.params["conversation"], exchange.caller.owner)

    async def delete(self, exchange: Exchange) -> Answer:
        row = await self._row(exchange.params["conversation"], exchange.caller.owner)
        try:
            await self._desk.delete_session(SessionId(row.name))
        except SessionBusy as busy:
            raise Problem(409, str(busy), code="session_busy", should_retry=False) from None
        public = public_session(exchange.caller.owner, row.name)
        return json_answer({"id": public, "object": "conversation.deleted", "deleted": True})

    async def items(self, exchange: Exchange) -> Answer:
        row = await self._row(exchange.params["conversation"], exchange.caller.owner)
        told = await self._desk.sessions.messages(SessionId(row.name))
        made = [_item(place, one.message) for place, one in enumerate(told) if text_of(one.message.parts)]
        return json_answer(item_page(made, exchange.query))

    async def _shown(self, public: str, owner: str) -> Answer:
        row = await self._row(public, owner)
        labels = await self._desk.sessions.metadata(SessionId(row.name))
        return json_answer(ConversationView(public_session(owner, row.name), int(row.created), labels))

    async def _row(self, public: str, owner: str) -> StreamRow:
        try:
            return await self._desk.sessions.row(session_id(owner, public), owner)
        except (Problem, SessionUnknown):
            raise unknown("conversation", public) from None


def _item(place: int, message: Message) -> dict[str, Any]:
    kind = "output_text" if message.role == "assistant" else "input_text"
    part: dict[str, Any] = {"type": kind, "text": text_of(message.parts)}
    if kind == "output_text":
        part["annotations"] = []
    role = message.role if message.role != "tool" else "user"
    return {"type": "message", "id": f"msg_{place}", "role": role, "status": "completed", "content": [part]}
