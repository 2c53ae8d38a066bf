"""`POST /v1/chat/completions`: an agent's turn, or a relay to a model, in the protocol that every client
speaks.

Without a session the client's own history is the conversation. With one (`X-Turnbuckle-Session`) the server
keeps it, and only what follows the client's last assistant message is new: clients that send everything and
clients that send one message work alike.

Chat frontends send small jobs of their own to the same model: a title, tags, follow-up questions. They are
plain, not streamed, and want JSON; they have nothing to do with tools, so they go through as relays.
"""

from msgspec.structs import replace

from turnbuckle.runtime.runs import NewRun
from turnbuckle.server.faces.chat.renderer import ChatRenderer, Events
from turnbuckle.server.faces.chat.whole_renderer import WholeChatRenderer
from turnbuckle.server.http.begin import ON_DISCONNECT, SESSION, busy_of, request_key, run_headers
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, Streaming, json_answer
from turnbuckle.server.http.passing import PassedOn, passed_on, route_header, with_left_out
from turnbuckle.server.http.problems import refused
from turnbuckle.server.streaming.disconnect import read_policy
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.service.catalog import ModelChoice
from turnbuckle.service.owners import session_id
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.service.runs import RunService
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import CANCEL, DETACH, Origin
from turnbuckle.wire.openai_chat.parse_request import PROTOCOL, ChatAsked, read_chat

EVENTS = "x-turnbuckle-events"
GRACE = "60"
"""Seconds for which a request that can be repeated under its key waits for its client to do so."""


class Chat:
    """The handler."""

    def __init__(self, runs: RunService, streamer: RunStreamer, *, strict: bool = False) -> None:
        """`strict`: what cannot be passed on is refused for everybody."""
        self._strict = strict
        self._runs = runs
        self._streamer = streamer

    async def create(self, exchange: Exchange) -> Answer | Streaming:
        asked = read_chat(await exchange.body())
        if isinstance(asked, Failure):
            raise refused(asked)
        events = read_events(exchange)
        begun, passed = await self._begin(exchange, asked)
        exchange.forget_body()
        # A request that is sent again may ask for another form of the same answer.
        model = begun.origin.model or asked.model
        created = int(begun.created)
        headers = (*run_headers(begun, exchange.caller.owner), *passed.headers)
        first = FirstWord()
        if asked.stream and not begun.origin.queued:  # what waits for its turn says so at once
            first = await self._streamer.first_word(
                begun.run, exchange.line, after=begun.after, on_disconnect=begun.origin.on_disconnect
            )
        if asked.stream and not first.failed:
            headers = (*headers, *route_header(first.route), *first.headers)
            usage, queued = asked.include_usage, begun.origin.queued
            # Packages keep the name that the first chunk has, so that it is the true one if it is known.
            name = first.model if first.ended else ""
            dialect = ChatRenderer(
                begun.run,
                model=name or model,
                created=created,
                include_usage=usage,
                events=events,
                queued=queued,
            )
            return Streaming(begun.run, dialect, begun.after, headers, begun.origin.on_disconnect)
        plain = WholeChatRenderer(
            begun.run, model=model, created=created, events=events, queued=begun.origin.queued
        )
        await self._streamer.collect(
            begun.run, plain, exchange.line, after=begun.after, on_disconnect=begun.origin.on_disconnect
        )
        whole = plain.answer()
        headers = (*headers, *route_header(plain.route), *plain.provider_headers, *whole.headers)
        headers = with_left_out(headers, plain.left.names)
        return json_answer(whole.body, whole.status, headers)

    async def _begin(self, exchange: Exchange, asked: ChatAsked) -> tuple[RunHandle, PassedOn]:
        chosen = self._runs.catalog.choose(asked.model)
        session = exchange.headers.get(SESSION, "")
        if chosen.own_tools and not session and is_small_job(asked):
            chosen = replace(chosen, own_tools=False)
        if session or chosen.own_tools:
            one_answer(asked, "in a session" if session else "with this model")
        usual = DETACH if session else GRACE if exchange.headers.get("idempotency-key") else CANCEL
        origin = Origin(
            "chat",
            asked.model,
            read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual),
            repeatable=not session and not exchange.headers.get("idempotency-key"),
        )
        options = replace(
            asked.wishes, route=chosen.route, own_tools=chosen.own_tools, cap_field=asked.cap_field
        )
        passed = passed_on(
            exchange,
            chosen,
            PROTOCOL,
            options,
            only_here=asked.only_here,
            unknown=asked.unknown,
            strict=self._strict,
            prefills=asked.messages[-1].role == "assistant",
        )
        new = NewRun((), user=exchange.caller.owner, options=passed.options, origin=origin)
        busy_of(exchange)  # a mistake in it is told, even if it does not count
        if session:
            return await self._in_session(exchange, asked, new, chosen, session), passed
        history, fresh = divided(await self._runs.client_calls.restored(asked.messages, new.user))
        new = replace(new, history=(*self._opening(chosen), *history), messages=fresh)
        return await self._runs.begin(new, key=await request_key(exchange)), passed

    async def _in_session(
        self, exchange: Exchange, asked: ChatAsked, new: NewRun, chosen: ModelChoice, session: str
    ) -> RunHandle:
        owner = exchange.caller.owner
        before, fresh = divided(asked.messages)
        messages = tuple(message for message in fresh if message.role != "system")
        if not messages or messages[-1].role == "assistant":
            message = "in a session, the last message must be the user's or a tool's"
            raise Problem(400, message, param="messages", code="invalid_value")
        first = (*self._opening(chosen), *(message for message in asked.messages if message.role == "system"))
        earlier = tuple(message for message in before if message.role != "system")
        new = replace(
            new,
            session=session_id(owner, session),
            messages=await self._runs.client_calls.answers(messages, owner),
            history=(*first, *await self._runs.client_calls.restored(earlier, owner)) if earlier else None,
        )
        return await self._runs.begin(
            new, first=first, busy=busy_of(exchange), key=await request_key(exchange)
        )

    def _opening(self, chosen: ModelChoice) -> tuple[Message, ...]:
        """What our own agent is told in front of everything. A relay adds nothing of its own."""
        return self._runs.opening if chosen.own_tools else ()


def divided(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What was said before, and what is new: everything behind the last thing that an assistant said."""
    replies = [place for place, message in enumerate(messages) if message.role == "assistant"]
    new = replies[-1] + 1 if replies else next((p for p, m in enumerate(messages) if m.role != "system"), 0)
    new = min(
        new, len(messages) - 1
    )  # a history that ends with the assistant's words is asked to go on from there
    return messages[:new], messages[new:]


def one_answer(asked: ChatAsked, where: str) -> None:
    """Raises Problem if several answers are asked for where there can be only one."""
    if asked.wishes.choices > 1:
        message = f"n must be 1 {where}. Only a relay to a Chat Completions route can return several answers."
        raise Problem(400, message, param="n", code="invalid_value")


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
