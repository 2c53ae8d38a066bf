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
from turnbuckle.server.faces.face import Face, origin_of, session_of
from turnbuckle.server.http.begin import run_headers
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, Streaming
from turnbuckle.server.http.passing import PassedOn, passed_on
from turnbuckle.server.http.problems import refused
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.vocab.failure import Failure
from turnbuckle.wire.openai_chat.parse_request import PROTOCOL, ChatAsked, read_chat

EVENTS = "x-turnbuckle-events"


class Chat(Face):
    """The handler."""

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
        queued = begun.origin.queued
        if asked.stream and not queued:  # what waits for its turn says so at once
            first = await self._first_word(exchange, begun)
        if asked.stream and not first.failed:
            # Packages keep the name that the first chunk has, so that it is the true one if it is known.
            name = first.model if first.ended else ""
            dialect = ChatRenderer(
                begun.run,
                model=name or model,
                created=created,
                include_usage=asked.include_usage,
                events=events,
                queued=queued,
                known=first.known,
            )
            return self._streaming(begun, dialect, headers, first)
        plain = WholeChatRenderer(begun.run, model=model, created=created, events=events, queued=queued)
        return await self._collected(exchange, begun, plain, headers)

    async def _begin(self, exchange: Exchange, asked: ChatAsked) -> tuple[RunHandle, PassedOn]:
        chosen = self.runs.catalog.choose(asked.model)
        session = session_of(exchange)
        if chosen.own_tools and not session and is_small_job(asked):
            chosen = replace(chosen, own_tools=False)
        if session or chosen.own_tools:
            one_answer(asked, "in a session" if session else "with this model")
        origin = origin_of(exchange, "chat", asked.model)
        options = replace(
            asked.wishes, route=chosen.route, own_tools=chosen.own_tools, cap_field=asked.cap_field
        )
        prefills = asked.messages[-1].role == "assistant"
        passed = passed_on(exchange, chosen, PROTOCOL, options, asked, strict=self._strict, prefills=prefills)
        new = NewRun((), user=exchange.caller.owner, options=passed.options, origin=origin)
        return await self._begin_with_history(exchange, new, self._opening(chosen), asked.messages), passed


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
