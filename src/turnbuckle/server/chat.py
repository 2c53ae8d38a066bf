"""`POST /v1/chat/completions`: an agent's turn, or a relay to a model, in the protocol that every client speaks.

Without a session the client's own history is the conversation. With one (`X-Turnbuckle-Session`) the server keeps it,
and only what follows the client's last assistant message is new: clients that send everything and clients that send
one message work alike.

Chat frontends send small jobs of their own to the same model: a title, tags, follow-up questions. They are plain, not
streamed, and want JSON; they have nothing to do with tools, so they go through as relays.
"""

from msgspec.structs import replace

from turnbuckle.runtime.runs import NewRun
from turnbuckle.server.attendance import CANCEL, DETACH, read_policy
from turnbuckle.server.catalog import Chosen
from turnbuckle.server.desk import Begun, Desk
from turnbuckle.server.dialects.chat import ChatDialect, Events, PlainChat
from turnbuckle.server.dialects.closing import REPEATABLE
from turnbuckle.server.http import Answer, Exchange, Problem, Streaming, json_answer
from turnbuckle.server.names import session_id
from turnbuckle.server.problems import refused
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message
from turnbuckle.wire.openai_chat.asked import ChatAsked, read_chat

SESSION = "x-turnbuckle-session"
ON_DISCONNECT = "x-turnbuckle-on-disconnect"
EVENTS = "x-turnbuckle-events"
GRACE = "60"
"""Seconds for which a request that can be repeated under its key waits for its client to do so."""


class Chat:
    """The handler."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, exchange: Exchange) -> Answer | Streaming:
        asked = read_chat(await exchange.body())
        if isinstance(asked, Failure):
            raise refused(asked)
        events = read_events(exchange)
        begun = await self._begin(exchange, asked)
        exchange.forget_body()
        # A request that is sent again may ask for another form of the same answer.
        model = str(begun.asked.get("model", asked.model))
        created, headers = int(begun.created), begun.headers(exchange.caller.owner)
        # What waits for its turn says so at once.
        fails = (
            asked.stream
            and not begun.queued
            and await self._desk.tailing.fails_at_once(
                begun.run, exchange.line, after=begun.after, on_disconnect=begun.on_disconnect
            )
        )
        if asked.stream and not fails:
            usage, queued = asked.include_usage, begun.queued
            dialect = ChatDialect(
                begun.run, model=model, created=created, include_usage=usage, events=events, queued=queued
            )
            return Streaming(begun.run, dialect, begun.after, headers, begun.on_disconnect)
        plain = PlainChat(begun.run, model=model, created=created, events=events, queued=begun.queued)
        await self._desk.tailing.collect(
            begun.run, plain, exchange.line, after=begun.after, on_disconnect=begun.on_disconnect
        )
        whole = plain.answer()
        return json_answer(whole.body, whole.status, (*headers, *whole.headers))

    async def _begin(self, exchange: Exchange, asked: ChatAsked) -> Begun:
        chosen = self._desk.catalog.choose(asked.model)
        session = exchange.headers.get(SESSION, "")
        if chosen.own_tools and not session and is_small_job(asked):
            chosen = replace(chosen, own_tools=False)
        usual = DETACH if session else GRACE if exchange.headers.get("idempotency-key") else CANCEL
        record = {
            "surface": "chat",
            "model": asked.model,
            "on_disconnect": read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual),
            REPEATABLE: not session and not exchange.headers.get("idempotency-key"),
        }
        wishes = replace(asked.wishes, route=chosen.route, own_tools=chosen.own_tools, cap_field=asked.cap_field)
        new = NewRun((), wishes=wishes, asked=record)
        if session:
            return await self._in_session(exchange, asked, new, chosen, session)
        history, fresh = divided(await self._desk.handover.restored(asked.messages, exchange.caller.owner))
        new = replace(new, history=(*self._opening(chosen), *history), messages=fresh)
        return await self._desk.begin(exchange, new)

    async def _in_session(
        self, exchange: Exchange, asked: ChatAsked, new: NewRun, chosen: Chosen, session: str
    ) -> Begun:
        owner = exchange.caller.owner
        before, fresh = divided(asked.messages)
        said = tuple(message for message in fresh if message.role != "system")
        if not said or said[-1].role == "assistant":
            message = "in a session, the last message must be the user's or a tool's"
            raise Problem(400, message, param="messages", code="invalid_value")
        first = (*self._opening(chosen), *(message for message in asked.messages if message.role == "system"))
        earlier = tuple(message for message in before if message.role != "system")
        new = replace(
            new,
            session=session_id(owner, session),
            messages=await self._desk.handover.answers(said, owner),
            history=(*first, *await self._desk.handover.restored(earlier, owner)) if earlier else None,
        )
        return await self._desk.begin(exchange, new, first=first)

    def _opening(self, chosen: Chosen) -> tuple[Message, ...]:
        """What our own agent is told in front of everything. A relay adds nothing of its own."""
        return self._desk.opening if chosen.own_tools else ()


def divided(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What was said before, and what is new: everything behind the last thing that an assistant said."""
    said = [place for place, message in enumerate(messages) if message.role == "assistant"]
    new = said[-1] + 1 if said else next((p for p, m in enumerate(messages) if m.role != "system"), 0)
    new = min(new, len(messages) - 1)  # a history that ends with the assistant's words is asked to go on from there
    return messages[:new], messages[new:]


def is_small_job(asked: ChatAsked) -> bool:
    """A frontend's own request for a title, tags or the like."""
    return asked.wants_json and not asked.stream and not asked.wishes.tools


def read_events(exchange: Exchange) -> Events:
    """How the client wants to hear of tools. Raises Problem."""
    match exchange.headers.get(EVENTS, "").strip().lower():
        case "":
            return "chunk"
        case "tools":
            return "tools"
        case "hermes":
            return "hermes"
        case "none":
            return "none"
        case _:
            message = "X-Turnbuckle-Events must be tools, hermes or none"
            raise Problem(400, message, param="X-Turnbuckle-Events", code="invalid_value")
