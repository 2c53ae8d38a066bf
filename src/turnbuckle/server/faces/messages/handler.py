"""`POST /v1/messages`: an agent's turn, or a relay to any model, for clients of Anthropic's API.

Without a session the client's own history is the conversation, as the protocol has it. With one
(`X-Turnbuckle-Session`) the server keeps it, and only what follows the client's last assistant message is
new. Any `anthropic-version` and `anthropic-beta` is taken; they go to providers of the same protocol.
"""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from turnbuckle.call.token_count import OwnWords
from turnbuckle.runtime.runs import NewRun
from turnbuckle.server.faces.chat.handler import GRACE, divided
from turnbuckle.server.faces.messages.renderer import MessagesRenderer, WholeMessageRenderer
from turnbuckle.server.http.begin import KEY, ON_DISCONNECT, SESSION, busy_of, request_key, run_headers
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, Streaming, json_answer
from turnbuckle.server.http.passing import PassedOn, passable, passed_on, route_header, with_left_out
from turnbuckle.server.http.problems import refused
from turnbuckle.server.streaming.disconnect import read_policy
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.service.catalog import ModelChoice
from turnbuckle.service.owners import session_id
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.service.runs import RunService
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import FilePart, ImagePart, Message, ResultPart
from turnbuckle.vocab.origin import CANCEL, DETACH, Origin
from turnbuckle.vocab.request import ModelRequest, RunOptions
from turnbuckle.wire.anthropic.parse_request import (
    PROTOCOL,
    MessagesAsked,
    read_count_request,
    read_message_request,
)
from turnbuckle.wire.fields import open_body
from turnbuckle.wire.thinking import is_said_by, word_elsewhere

SURFACE = "messages"
ESTIMATED = "x-turnbuckle-estimated"
_LETTERS = 4  # to a token of English text and of JSON, about
_PICTURE = 1_500  # tokens: most providers make about as many of one
CountTokens = Callable[[RouteName, ModelRequest, OwnWords | None], Awaitable[int | None]]


class MessagesApi:
    """The handlers."""

    def __init__(
        self, runs: RunService, streamer: RunStreamer, count: CountTokens, *, strict: bool = False
    ) -> None:
        """`count` asks a route that can count tokens. `strict`: what cannot be passed on is refused for
        everybody."""
        self._strict = strict
        self._count = count
        self._runs = runs
        self._streamer = streamer

    async def create(self, exchange: Exchange) -> Answer | Streaming:
        asked = read_message_request(await exchange.body())
        if isinstance(asked, Failure):
            raise refused(asked)
        if asked.previous:
            # Official clients send the whole history then, by themselves.
            message = f"there is no thread behind {asked.previous[:200]!r}: send all messages"
            raise Problem(404, message, code="thread_not_found", should_retry=False)
        begun, passed = await self._begin(exchange, asked)
        exchange.forget_body()
        # A request that is sent again may ask for another form of the same answer.
        model, queued = begun.origin.model or asked.model, begun.origin.queued
        headers = (*run_headers(begun, exchange.caller.owner), *passed.headers)
        first = FirstWord()
        if asked.stream and not queued:  # what waits for its turn says so at once
            first = await self._streamer.first_word(
                begun.run, exchange.line, after=begun.after, on_disconnect=begun.origin.on_disconnect
            )
        if asked.stream and not first.failed:
            dialect = MessagesRenderer(begun.run, model=model, queued=queued)
            headers = (*headers, *route_header(first.route), *first.headers)
            return Streaming(begun.run, dialect, begun.after, headers, begun.origin.on_disconnect)
        plain = WholeMessageRenderer(begun.run, model=model, queued=queued)
        await self._streamer.collect(
            begun.run, plain, exchange.line, after=begun.after, on_disconnect=begun.origin.on_disconnect
        )
        whole = plain.answer()
        body = whole.body if whole.status < 400 else {**whole.body, "request_id": exchange.request_id}
        headers = (*headers, *route_header(plain.route), *plain.provider_headers, *whole.headers)
        headers = with_left_out(headers, plain.left.names)
        return json_answer(body, whole.status, headers)

    async def count_tokens(self, exchange: Exchange) -> Answer:
        """What a request weighs: counted by its provider where that counts, else about as much as its letters
        say. Nobody counts what our own agent adds."""
        asked = read_count_request(await exchange.body())
        if isinstance(asked, Failure):
            raise refused(asked)
        chosen = self._runs.catalog.choose(asked.model)
        own = None
        if chosen.protocol == PROTOCOL:
            own = OwnWords(open_body(await exchange.body()).whole(), passable(exchange.headers)[0])
        number = None if chosen.own_tools else await self._count(chosen.route, _weighed(asked), own)
        if number is not None:
            return json_answer({"input_tokens": number})
        weighed = estimated(asked)
        return json_answer({"input_tokens": weighed}, headers=((ESTIMATED, "true"),))

    async def _begin(self, exchange: Exchange, asked: MessagesAsked) -> tuple[RunHandle, PassedOn]:
        chosen = self._runs.catalog.choose(asked.model)
        owner, session = exchange.caller.owner, exchange.headers.get(SESSION, "")
        keyed = bool(exchange.headers.get(KEY))
        usual = DETACH if session else GRACE if keyed else CANCEL
        policy = read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual)
        origin = Origin(SURFACE, asked.model, policy, repeatable=not session and not keyed)
        passed = passed_on(
            exchange,
            chosen,
            PROTOCOL,
            _wishes(asked, chosen),
            only_here=_only_here(asked, chosen),
            unknown=asked.unknown,
            strict=self._strict,
            prefills=asked.messages[-1].role == "assistant",
        )
        new = NewRun((), user=owner, options=passed.options, origin=origin)
        busy = busy_of(exchange)  # a mistake in it is told, even if it does not count
        first = (*self._opening(chosen), *asked.system)
        key = await request_key(exchange)
        if not session:
            history, fresh = divided(await self._runs.client_calls.restored(asked.messages, owner))
            new = replace(new, history=(*first, *history), messages=fresh)
            return await self._runs.begin(new, key=key), passed
        before, fresh = divided(tuple(message for message in asked.messages if message.role != "system"))
        if not fresh or fresh[-1].role == "assistant":
            message = "in a session, the last message must be the user's"
            raise Problem(400, message, param="messages", code="invalid_value")
        first = (*first, *(message for message in asked.messages if message.role == "system"))
        earlier = await self._runs.client_calls.restored(before, owner)
        new = replace(
            new,
            session=session_id(owner, session),
            messages=await self._runs.client_calls.answers(fresh, owner),
            history=(*first, *earlier) if earlier else None,
        )
        return await self._runs.begin(new, first=first, busy=busy, key=key), passed

    def _opening(self, chosen: ModelChoice) -> tuple[Message, ...]:
        """What our own agent is told in front of everything. A relay adds nothing of its own."""
        return self._runs.opening if chosen.own_tools else ()


def _wishes(asked: MessagesAsked, chosen: ModelChoice) -> RunOptions:
    wishes = replace(asked.wishes, route=chosen.route, own_tools=chosen.own_tools)
    return wishes if chosen.protocol == PROTOCOL else replace(wishes, effort=word_elsewhere(wishes.effort))


def _only_here(asked: MessagesAsked, chosen: ModelChoice) -> tuple[str, ...]:
    """What is lost to a provider of another protocol. How much to think is not, if that can be said there."""
    if not is_said_by(chosen.protocol, asked.wishes.extra.get(PROTOCOL, {}).get("thinking")):
        return asked.only_here
    return tuple(name for name in asked.only_here if name != "thinking")


def _weighed(asked: MessagesAsked) -> ModelRequest:
    """The request as far as it counts."""
    wishes = asked.wishes
    return ModelRequest(
        "", (*asked.system, *asked.messages), wishes.tools, wishes.tool_choice, effort=wishes.effort
    )


def estimated(asked: MessagesAsked) -> int:
    """About how many tokens a request has, for whom nobody counts. Pictures and documents by their number,
    since their letters say nothing."""
    parts = [part for message in (*asked.system, *asked.messages) for part in message.parts]
    shown = [piece for part in parts for piece in (part.content if isinstance(part, ResultPart) else (part,))]
    media = sum(isinstance(piece, ImagePart | FilePart) for piece in shown)
    letters = sum(
        len(msgspec.json.encode(piece)) for piece in shown if not isinstance(piece, ImagePart | FilePart)
    )
    letters += sum(len(msgspec.json.encode(tool)) for tool in asked.wishes.tools)
    return letters // _LETTERS + media * _PICTURE + 1
