"""The requests of one run: the history made legal for whoever is asked, the tools, and what the caller wants.

Theory of operation. What an earlier request sent, and whose reply was kept, is never edited: providers bind
thoughts and caches to the exact words. Repair alone keeps that already, because none of its rules looks at
what comes later; here it is also enforced. What a route was sent last is remembered, and while the history
begins with it, repair gets it sealed and touches only what came since. A process that comes back remembers
nothing, repairs all of it, and comes to the same words.

The first request of a run goes on from what is settled of its session's history
(`runtime/history_book.py`), so a turn costs the same however long the conversation is.
"""

import asyncio
import hashlib

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.reply.repair.growing import ForWhom, Settled, grown, sealed, settle
from turnbuckle.runtime.history_book import SHORT, HistoryBook
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


class Sending:
    """Builds the requests of one run, one after the other."""

    def __init__(self, histories: HistoryBook | None = None) -> None:
        self._histories = histories if histories is not None else HistoryBook(lambda: 0.0)
        self._sent: dict[tuple[str, str, str, bool], list[Settled]] = {}

    async def prepared(
        self, turn: Turn, asked: ModelAsked, policy: Policy, own: tuple[ToolSpec, ...]
    ) -> ModelRequest:
        """The whole request. A history that takes long to be made legal does not hold the event loop."""
        work = self._work(turn, asked, policy, own)
        many = sum([len(message.parts) for message in turn.messages[work.known :]]) >= MANY_PARTS
        done = await asyncio.to_thread(_legal, work) if many else _legal(work)
        return self._request(turn, asked, work.tools, self._remembered(turn, asked, work, done))

    def request(
        self, turn: Turn, asked: ModelAsked, policy: Policy, own: tuple[ToolSpec, ...]
    ) -> ModelRequest:
        """The same at once."""
        work = self._work(turn, asked, policy, own)
        return self._request(turn, asked, work.tools, self._remembered(turn, asked, work, _legal(work)))

    def _request(
        self, turn: Turn, asked: ModelAsked, tools: tuple[ToolSpec, ...], messages: tuple[Message, ...]
    ) -> ModelRequest:
        """The tools stand always in the same order."""
        options = turn.options
        rounds = rounds_of(turn.messages[turn.began :], tools)
        return ModelRequest(
            model=asked.model,
            messages=messages,
            tools=tools,
            tool_choice=tool_choice(options, asked, is_drafting=bool(turn.own_drafts), rounds=rounds),
            max_output_tokens=asked.cap,
            temperature=options.temperature,
            top_p=options.top_p,
            stop=options.stop,
            effort=asked.effort,
            thinking_budget=options.thinking_budget,
            response_format=constraint(turn, asked.notes),
            parallel_calls=options.parallel_calls,
            stream=asked.stream,
            extra=options.extra.get(asked.protocol, {}),
            choices=options.choices if asked.protocol == next(iter(options.extra), "") else 1,
            cap_field=asked.cap_field or options.cap_field,
            cache_key=_cache_key(turn) if options.own_tools else "",
            hosted=tuple([tool for tool in options.hosted if tool.state.protocol == asked.protocol]),
            headers=options.headers.get(asked.protocol, {}),
            conversation=turn.session,
        )

    def _work(self, turn: Turn, asked: ModelAsked, policy: Policy, own: tuple[ToolSpec, ...]) -> "_Work":
        """What is to be made legal, and what of it is so already."""
        tools = _tools(turn, asked, own)
        names = frozenset([tool.name for tool in tools])
        quirks = policy.route(asked.route).quirks
        rules = rules_of(asked.protocol)
        if (asked.route, asked.model) in turn.words_only:
            rules = replace(rules, takes_own_parts=False)
        whom = ForWhom(rules, asked.model, quirks, names)
        goes_on = ladder.goes_on_behind_itself(turn) or ladder.is_prefilled(turn, asked.protocol)
        to_ask = not is_paused(turn) and not goes_on
        before = self._sent.setdefault(_place(asked, whom), [])
        while before and before[-1].history != turn.messages[: len(before[-1].history)]:
            before.pop()
        sent = before[-1] if before else None
        settled = self._histories.settled(turn.session, turn.messages, whom)
        return _Work(turn.messages, tools, whom, to_ask, sent, settled)

    def _remembered(self, turn: Turn, asked: ModelAsked, work: "_Work", done: "_Done") -> tuple[Message, ...]:
        before = self._sent[_place(asked, work.whom)]
        known = done.settled if work.sent is None else work.sent
        before.append(known.followed_by(work.messages, done.made))
        del before[:-_KEPT]
        if done.settled is not work.settled:
            self._histories.keep(turn.session, work.whom, done.settled)
        return done.made


class _Work(Struct, frozen=True):
    """A history that is to be made legal, and the tools it is sent with. `sent` is what the run sent last of
    it."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    whom: ForWhom
    to_ask: bool
    sent: Settled | None
    settled: Settled

    @property
    def known(self) -> int:
        """So many messages were made legal before."""
        return max(len(self.settled.history), 0 if self.sent is None else len(self.sent.history))


class _Done(Struct, frozen=True):
    made: tuple[Message, ...]
    settled: Settled


def _place(asked: ModelAsked, whom: ForWhom) -> tuple[str, str, str, bool]:
    """By what a request is remembered: another route, or other rules, may make something else of the same
    history."""
    return asked.route, asked.protocol, asked.model, whom.rules.takes_own_parts


def _legal(work: _Work) -> _Done:
    messages, settled = work.messages, work.settled
    if len(messages) - len(settled.history) > SHORT:
        settled = settle(messages, work.whom, settled)
    if work.sent is None:
        return _Done(grown(messages, work.whom, settled, to_ask=work.to_ask), settled)
    return _Done(sealed(work.sent, messages, work.whom, to_ask=work.to_ask), settled)


def _tools(turn: Turn, asked: ModelAsked, own: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    finishing = offers_finishing(asked.protocol, asked.effort, drafted=turn.drafted)
    return offered(own, turn.options, finishing=finishing)


def _cache_key(turn: Turn) -> str:
    """The same for all requests of a session, and nothing that anybody could read anything from."""
    return hashlib.sha256(turn.session.encode()).hexdigest()[:32]


def is_paused(turn: Turn) -> bool:
    """Whether the provider wants its own words back, to go on behind them. Any other history that ends with
    the assistant would be an opening for the model to go on from, which most of them refuse."""
    last = turn.messages[-1] if turn.messages else None
    return turn.tally.pauses > 0 and last is not None and last.role == "assistant" and not last.partial
