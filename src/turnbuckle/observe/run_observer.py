"""The one way to see runs: each fact, right after it was stored, goes through here to whoever looks on.

Theory of operation. `RunObserver` is the watch that the runtime calls with every fact. It keeps a little of
each run that this process drives and tells its onlookers of everything but bursts of the model: those are
summed up, and told as one `CallStats` when the call has had its last word. So metrics, traces and logs cost
nothing per chunk, and a burst costs a look-up, a comparison and two notes, however many look on.

An onlooker that fails does not touch the run. Of a run that another process began only what follows its claim
is seen.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from turnbuckle.turn.facts import (
    Fact,
    ModelAsked,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.events import (
    CallArgs,
    CallStarted,
    ChoiceNoted,
    Cut,
    Ended,
    Finish,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.prices import cost_of

MOST_RUNS = 10_000
"""So many runs are kept in sight, which is twenty times what a server drives at once. The oldest goes
first."""
_CONTENT = frozenset({TextDelta, ReasoningDelta, RefusalDelta, CallStarted, CallArgs, ChoiceNoted})
_log = logging.getLogger(__name__)


class CallStats(Struct, frozen=True):
    """A model call that is over. `first_at` and `longest_gap` are None if no content came; the gap is the
    longest time without content between the first and the last word. `failure` is None if it came to its
    protocol's own end."""

    asked: ModelAsked
    ended_at: float
    first_at: float | None = None
    longest_gap: float | None = None
    usage: Usage | None = None
    finish: Finish | None = None
    failure: Failure | None = None
    reply_id: str = ""
    model: str = ""
    cost: float | None = None
    """US dollars; None if nobody knows."""

    @property
    def seconds(self) -> float:
        return max(self.ended_at - self.asked.at, 0.0)


class RunStats:
    """A run in sight. `claimed`: this process took it up after another. `tools` are those at work, by their
    calls."""

    __slots__ = (
        "asked", "began_at", "claimed", "finish", "first_at", "last_at", "longest_gap", "model",
        "reply_id", "route", "run", "session", "stalls", "tools", "usage",
    )  # fmt: skip

    def __init__(self, run: RunId, began_at: float, session: SessionId, claimed: bool = False) -> None:
        self.run = run
        self.session = session
        self.began_at = began_at
        self.claimed = claimed
        self.tools: dict[str, ToolStarted] = {}
        self.stalls = 0  # stalled calls that no later call has made up for
        self.route = ""  # the one that was asked last
        self.last_at = began_at
        self.begin(None)

    def begin(self, asked: ModelAsked | None) -> None:
        """Forget the last call; another one begins."""
        self.asked = asked
        self.first_at: float | None = None
        self.longest_gap = 0.0
        self.usage: Usage | None = None
        self.finish: Finish | None = None
        self.reply_id = self.model = ""


class Observer(Protocol):
    """Whoever wants to know. `take` gets every fact but bursts, `over` each model call, `gone` a run that
    this process no longer drives though it has no end."""

    def take(self, run: RunStats, fact: Fact) -> None: ...

    def over(self, run: RunStats, call: CallStats) -> None: ...

    def gone(self, run: RunStats) -> None: ...


class RunObserver:
    """Called with every fact after it was stored, in the order of the journal. It never waits and never
    raises."""

    def __init__(self, onlookers: Iterable[Observer]) -> None:
        self._onlookers = tuple(onlookers)
        self._runs: dict[str, RunStats] = {}

    def __call__(self, run: str, fact: Fact) -> None:
        seen = self._runs.get(run)
        if type(fact) is not Streamed:
            self._take(run, seen, fact)
        elif seen is not None:
            events = fact.events
            if len(events) != 1 or type(events[0]) not in _CONTENT:
                self._burst(seen, fact)
                return
            at = fact.at
            if seen.first_at is None:
                seen.first_at = at
            elif at - seen.last_at > seen.longest_gap:
                seen.longest_gap = at - seen.last_at
            seen.last_at = at

    def gone(self, run: str) -> None:
        """This process drives the run no longer. Harmless if that is known, or if it has ended."""
        seen = self._runs.pop(run, None)
        if seen is not None:
            self._tell(lambda onlooker: onlooker.gone(seen))

    def _take(self, run: str, known: RunStats | None, fact: Fact) -> None:
        if known is None or isinstance(fact, (RunStarted, RunClaimed)):
            known = self._begin(run, known, fact)
        seen = known
        if isinstance(fact, ModelAsked):
            seen.begin(fact)
            seen.last_at = fact.at
            seen.route = fact.route
        self._tell(lambda onlooker: onlooker.take(seen, fact))
        if isinstance(fact, ToolStarted):
            seen.tools[fact.call_id] = fact
        elif isinstance(fact, ToolFinished):
            seen.tools.pop(fact.call_id, None)
        elif isinstance(fact, (RunEnded, RunLeft)):
            self._runs.pop(run, None)

    def _begin(self, run: str, known: RunStats | None, fact: Fact) -> RunStats:
        self.gone(run)
        session = (
            fact.session
            if isinstance(fact, RunStarted)
            else SessionId("")
            if known is None
            else known.session
        )
        seen = self._runs[run] = RunStats(RunId(run), fact.at, session, isinstance(fact, RunClaimed))
        if len(self._runs) > MOST_RUNS:
            self.gone(next(iter(self._runs)))
        return seen

    def _burst(self, seen: RunStats, fact: Streamed) -> None:
        content, last = False, None
        for event in fact.events:
            if type(event) in _CONTENT:
                content = True
            elif isinstance(event, UsageNoted):
                seen.usage = event.usage
            elif isinstance(event, FinishNoted):
                seen.finish = event.finish
            elif isinstance(event, Started):
                seen.reply_id, seen.model = event.reply_id or seen.reply_id, event.model or seen.model
            elif isinstance(event, (Ended, Cut)):
                last = event
        if (content or last is not None) and seen.first_at is not None:
            seen.longest_gap = max(seen.longest_gap, fact.at - seen.last_at)
        if content:
            seen.first_at = seen.first_at if seen.first_at is not None else fact.at
            seen.last_at = fact.at
        if last is not None and seen.asked is not None:
            call = _summed_up(seen, seen.asked, fact, last)
            self._tell(lambda onlooker: onlooker.over(seen, call))
            seen.asked = None

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for onlooker in self._onlookers:
            try:
                tell(onlooker)
            except Exception as error:
                _log.error("%s could not follow a run", type(onlooker).__name__, exc_info=error)


def _summed_up(seen: RunStats, asked: ModelAsked, fact: Streamed, last: Ended | Cut) -> CallStats:
    return CallStats(
        asked,
        fact.at,
        first_at=seen.first_at,
        longest_gap=None if seen.first_at is None else seen.longest_gap,
        usage=seen.usage,
        finish=seen.finish,
        failure=last.failure if isinstance(last, Cut) else None,
        reply_id=seen.reply_id,
        model=seen.model,
        cost=cost_of(seen.usage, fact.price) if seen.usage is not None else None,
    )
