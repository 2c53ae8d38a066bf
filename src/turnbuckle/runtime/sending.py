"""The requests of one run: the history made legal for whoever is asked, the tools, and what the caller wants.

Theory of operation. What an earlier request sent, and whose reply was kept, is never edited: providers bind
thoughts and caches to the exact words. Repair alone keeps that already, because none of its rules looks at
what comes later; here it is also enforced. What a route was sent last is remembered, and while the history
begins with it, repair gets it sealed and touches only what came since. A process that comes back remembers
nothing, repairs all of it, and comes to the same words.
"""

import asyncio
import hashlib

from msgspec import Struct

from turnbuckle.reply.repair import repair
from turnbuckle.runtime.request_tools import offered, offers_finishing, rounds_of, tool_choice
from turnbuckle.turn import ladder
from turnbuckle.turn.facts import ModelAsked
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Turn
from turnbuckle.turn.structured import constraint
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.wire.registry import rules_of

MANY_PARTS = 2_000
"""Parts of messages: some hundred are made legal within milliseconds, ten thousand in half a second."""
_KEPT = 4
"""Requests to one route that are remembered. A reply that left no trace goes back to the one before."""


class _Sent(Struct, frozen=True):
    """A history, and what was made of it for a route."""

    history: tuple[Message, ...]
    made: tuple[Message, ...]


class Sending:
    """Builds the requests of one run, one after the other."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str, str], list[_Sent]] = {}

    async def prepared(
        self, turn: Turn, asked: ModelAsked, policy: Policy, own: tuple[ToolSpec, ...]
    ) -> ModelRequest:
        """The whole request. A history that takes long to be made legal does not hold the event loop."""
        if sum(len(message.parts) for message in turn.messages) < MANY_PARTS:
            return self.request(turn, asked, policy, own)
        return await asyncio.to_thread(self.request, turn, asked, policy, own)

    def request(
        self, turn: Turn, asked: ModelAsked, policy: Policy, own: tuple[ToolSpec, ...]
    ) -> ModelRequest:
        """The whole request. The tools stand always in the same order."""
        options = turn.options
        finishing = offers_finishing(asked.protocol, asked.effort, drafted=turn.drafted)
        tools = offered(own, options, finishing=finishing)
        rounds = rounds_of(turn.messages[turn.began :], tools)
        return ModelRequest(
            model=asked.model,
            messages=self._history(turn, asked, policy, tools),
            tools=tools,
            tool_choice=tool_choice(options, asked, is_drafting=bool(turn.own_drafts), rounds=rounds),
            max_output_tokens=asked.cap,
            temperature=options.temperature,
            top_p=options.top_p,
            stop=options.stop,
            effort=asked.effort,
            response_format=constraint(turn, asked.notes),
            parallel_calls=options.parallel_calls,
            stream=asked.stream,
            extra=options.extra.get(asked.protocol, {}),
            cap_field=asked.cap_field or options.cap_field,
            cache_key=_cache_key(turn) if options.own_tools else "",
            hosted=tuple(tool for tool in options.hosted if tool.state.protocol == asked.protocol),
            headers=options.headers.get(asked.protocol, {}),
        )

    def _history(
        self, turn: Turn, asked: ModelAsked, policy: Policy, tools: tuple[ToolSpec, ...]
    ) -> tuple[Message, ...]:
        messages = turn.messages
        before = self._sent.setdefault((asked.route, asked.protocol, asked.model), [])
        while before and not _begins_with(messages, before[-1].history):
            before.pop()
        sealed = before[-1] if before else _Sent((), ())
        made = repair(
            (*sealed.made, *messages[len(sealed.history) :]),
            rules_of(asked.protocol),
            model=asked.model,
            sealed=len(sealed.made),
            quirks=policy.route(asked.route).quirks,
            to_ask=not is_paused(turn) and not ladder.goes_on_behind_itself(turn),
            tools=frozenset(tool.name for tool in tools),
        ).messages
        before.append(_Sent(messages, made))
        del before[:-_KEPT]
        return made


def _cache_key(turn: Turn) -> str:
    """The same for all requests of a session, and nothing that anybody could read anything from."""
    return hashlib.sha256(turn.session.encode()).hexdigest()[:32]


def is_paused(turn: Turn) -> bool:
    """Whether the provider wants its own words back, to go on behind them. Any other history that ends with
    the assistant would be an opening for the model to go on from, which most of them refuse."""
    last = turn.messages[-1] if turn.messages else None
    return turn.tally.pauses > 0 and last is not None and last.role == "assistant" and not last.partial


def _begins_with(messages: tuple[Message, ...], before: tuple[Message, ...]) -> bool:
    """Messages are not copied on their way, so almost all of them are the very same."""
    if len(messages) < len(before):
        return False
    return all(one is other or one == other for one, other in zip(messages, before, strict=False))
