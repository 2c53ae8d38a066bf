"""What the faces do alike, whatever protocol they speak: begin a run, and stream or collect its answer."""

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from turnbuckle.journal.port import Item
from turnbuckle.runtime.runs import NewRun
from turnbuckle.server.faces.left_out import LeftOut
from turnbuckle.server.http.begin import KEY, ON_DISCONNECT, SESSION, busy_of, request_key
from turnbuckle.server.http.exchange import (
    Answer,
    Dialect,
    Exchange,
    Headers,
    Problem,
    Streaming,
    json_answer,
)
from turnbuckle.server.http.passing import route_header, with_left_out
from turnbuckle.server.outcomes import PlainAnswer
from turnbuckle.server.streaming.disconnect import read_policy
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.service.catalog import ModelChoice
from turnbuckle.service.owners import session_id
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.service.runs import RunService
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import CANCEL, DETACH, Origin

GRACE = "60"
"""Seconds for which a request that can be repeated under its key waits for its client to do so."""


class WholeRenderer(Protocol):
    """A run as one answer."""

    ended: bool
    route: str
    provider_headers: tuple[tuple[str, str], ...]
    left: LeftOut

    def take(self, items: Sequence[Item]) -> object: ...
    def answer(self) -> PlainAnswer: ...


class Face:
    """The part of a handler that no protocol changes."""

    def __init__(self, runs: RunService, streamer: RunStreamer, *, strict: bool = False) -> None:
        """`strict`: what cannot be passed on is refused for everybody."""
        self.runs = runs
        self._strict = strict
        self._streamer = streamer

    # Beginning

    async def _begin_with_history(
        self, exchange: Exchange, new: NewRun, opening: tuple[Message, ...], messages: tuple[Message, ...]
    ) -> RunHandle:
        """Begin a run of a client that sends its whole history. Without a session that is the conversation;
        with one, only what follows the client's last assistant message is new."""
        owner, session = exchange.caller.owner, session_of(exchange)
        busy = busy_of(exchange)  # a mistake in it is told, even if it does not count
        key = await request_key(exchange)
        if not session:
            before, fresh = divided(await self.runs.client_calls.restored(messages, owner))
            return await self.runs.begin(replace(new, history=(*opening, *before), messages=fresh), key=key)
        before, fresh = divided(tuple(message for message in messages if message.role != "system"))
        if not fresh or fresh[-1].role == "assistant":
            message = "in a session, the last message must be the user's or a tool's"
            raise Problem(400, message, param="messages", code="invalid_value")
        first = (*opening, *(message for message in messages if message.role == "system"))
        earlier = await self.runs.client_calls.restored(before, owner)
        new = replace(
            new,
            session=session_id(owner, session),
            messages=await self.runs.client_calls.answers(fresh, owner),
            history=(*first, *earlier) if earlier else None,
        )
        return await self.runs.begin(new, first=first, busy=busy, key=key)

    def _opening(self, chosen: ModelChoice) -> tuple[Message, ...]:
        """What our own agent is told in front of everything. A relay adds nothing of its own."""
        return self.runs.opening if chosen.own_tools else ()

    # Answering

    async def _first_word(self, exchange: Exchange, begun: RunHandle) -> FirstWord:
        return await self._streamer.first_word(
            begun.run, exchange.line, after=begun.after, on_disconnect=begun.origin.on_disconnect
        )

    def _streaming(self, begun: RunHandle, dialect: Dialect, headers: Headers, first: FirstWord) -> Streaming:
        headers = (*headers, *route_header(first.route), *first.headers)
        return Streaming(begun.run, dialect, begun.after, headers, begun.origin.on_disconnect)

    async def _collected(
        self,
        exchange: Exchange,
        begun: RunHandle,
        renderer: WholeRenderer,
        headers: Headers,
        **if_failed: str,
    ) -> Answer:
        await self._streamer.collect(
            begun.run, renderer, exchange.line, after=begun.after, on_disconnect=begun.origin.on_disconnect
        )
        whole = renderer.answer()
        headers = (*headers, *route_header(renderer.route), *renderer.provider_headers, *whole.headers)
        body = whole.body if whole.status < 400 else {**whole.body, **if_failed}
        return json_answer(body, whole.status, with_left_out(headers, renderer.left.names))


def session_of(exchange: Exchange) -> str:
    """The session that a header names, in the client's word."""
    return exchange.headers.get(SESSION, "")


def origin_of(exchange: Exchange, surface: str, model: str) -> Origin:
    """Where a run comes from whose client sends its whole history."""
    session, keyed = session_of(exchange), bool(exchange.headers.get(KEY))
    usual = DETACH if session else GRACE if keyed else CANCEL
    policy = read_policy(exchange.headers.get(ON_DISCONNECT, ""), usual)
    return Origin(surface, model, policy, repeatable=not session and not keyed)


def divided(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What was said before, and what is new: everything behind the last thing that an assistant said. A
    history that ends with the assistant's words is asked to go on from there."""
    replies = [place for place, message in enumerate(messages) if message.role == "assistant"]
    new = replies[-1] + 1 if replies else next((p for p, m in enumerate(messages) if m.role != "system"), 0)
    new = min(new, len(messages) - 1)
    return messages[:new], messages[new:]
