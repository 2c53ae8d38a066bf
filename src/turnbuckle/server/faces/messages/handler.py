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
from turnbuckle.server.faces.face import Face, origin_of
from turnbuckle.server.faces.messages.renderer import MessagesRenderer, WholeMessageRenderer
from turnbuckle.server.http.begin import run_headers
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, Streaming, json_answer
from turnbuckle.server.http.passing import PassedOn, passable, passed_on
from turnbuckle.server.http.problems import refused
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.service.catalog import ModelChoice
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.service.runs import RunService
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import FilePart, ImagePart, ResultPart
from turnbuckle.vocab.request import ModelRequest, RunOptions
from turnbuckle.wire.anthropic.parse_request import (
    PROTOCOL,
    MessagesAsked,
    read_count_request,
    read_message_request,
)
from turnbuckle.wire.fields import open_body
from turnbuckle.wire.registry import PROTOCOLS
from turnbuckle.wire.thinking import is_said_by, word_elsewhere

SURFACE = "messages"
ESTIMATED = "x-turnbuckle-estimated"
_LETTERS = 4  # to a token of English text and of JSON, about
_PICTURE = 1_500  # tokens: most providers make about as many of one
CountTokens = Callable[[RouteName, ModelRequest, OwnWords | None], Awaitable[int | None]]


class MessagesApi(Face):
    """The handlers."""

    def __init__(
        self, runs: RunService, streamer: RunStreamer, count: CountTokens, *, strict: bool = False
    ) -> None:
        """`count` asks a route that can count tokens."""
        super().__init__(runs, streamer, strict=strict)
        self._count = count

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
            first = await self._first_word(exchange, begun)
        if asked.stream and not first.failed:
            dialect = MessagesRenderer(begun.run, model=model, queued=queued)
            return self._streaming(begun, dialect, headers, first)
        plain = WholeMessageRenderer(begun.run, model=model, queued=queued)
        return await self._collected(exchange, begun, plain, headers, request_id=exchange.request_id)

    async def count_tokens(self, exchange: Exchange) -> Answer:
        """What a request weighs: counted by its provider where that counts, else about as much as its letters
        say. Nobody counts what our own agent adds."""
        asked = read_count_request(await exchange.body())
        if isinstance(asked, Failure):
            raise refused(asked)
        chosen = self.runs.catalog.choose(asked.model)
        own = None
        if chosen.protocol == PROTOCOL:
            own = OwnWords(open_body(await exchange.body()).whole(), passable(exchange.headers)[0])
        number = None if chosen.own_tools else await self._count(chosen.route, _weighed(asked), own)
        if number is not None:
            return json_answer({"input_tokens": number})
        weighed = estimated(asked)
        return json_answer({"input_tokens": weighed}, headers=((ESTIMATED, "true"),))

    async def _begin(self, exchange: Exchange, asked: MessagesAsked) -> tuple[RunHandle, PassedOn]:
        chosen = self.runs.catalog.choose(asked.model)
        origin = origin_of(exchange, SURFACE, asked.model)
        received = replace(asked, only_here=_only_here(asked, chosen))
        options = _wishes(asked, chosen)
        prefills = asked.messages[-1].role == "assistant"
        passed = passed_on(
            exchange, chosen, PROTOCOL, options, received, strict=self._strict, prefills=prefills
        )
        new = NewRun((), user=exchange.caller.owner, options=passed.options, origin=origin)
        opening = (*self._opening(chosen), *asked.system)
        return await self._begin_with_history(exchange, new, opening, asked.messages), passed


def _wishes(asked: MessagesAsked, chosen: ModelChoice) -> RunOptions:
    wishes = replace(asked.wishes, route=chosen.route, own_tools=chosen.own_tools)
    return wishes if chosen.protocol == PROTOCOL else replace(wishes, effort=word_elsewhere(wishes.effort))


def _only_here(asked: MessagesAsked, chosen: ModelChoice) -> tuple[str, ...]:
    """What is lost to a provider of another protocol. How much to think is not, if that can be said there."""
    there = PROTOCOLS[chosen.protocol] if chosen.protocol is not None else None
    if not is_said_by(there, asked.wishes.extra.get(PROTOCOL, {}).get("thinking")):
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
    media = sum(isinstance(piece, (ImagePart, FilePart)) for piece in shown)
    letters = sum(
        len(msgspec.json.encode(piece)) for piece in shown if not isinstance(piece, (ImagePart, FilePart))
    )
    letters += sum(len(msgspec.json.encode(tool)) for tool in asked.wishes.tools)
    return letters // _LETTERS + media * _PICTURE + 1
