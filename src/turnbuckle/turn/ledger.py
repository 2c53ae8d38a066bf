"""What a run has wasted, and why: a fold over its facts.

Wasted is what was received and could not be used, the input of requests that had to be made again, and the
time that brought nothing: all of an attempt that gained nothing, else only its end behind the last piece that
came, and the wait before the next try. Tokens are the provider's own count where it gave one, else a quarter
of the characters. What summaries cost stands there too, as a cause of its own.
"""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.turn.facts import (
    Compacted,
    Continue,
    Decided,
    Fact,
    ModelAsked,
    RunEnded,
    Streamed,
    SummaryDropped,
)
from turnbuckle.vocab.events import CallArgs, ReasoningDelta, RefusalDelta, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.failure import Clock
from turnbuckle.vocab.prices import Price, cost_of, without_own_cost

COMPACTION = "compaction"
"""The cause under which summaries are told."""
CHARACTERS_PER_TOKEN = 4
_CONTENT = (TextDelta, ReasoningDelta, RefusalDelta, CallArgs)


class Waste(Struct, frozen=True):
    """What one cause has cost. `money` is None where the price is not known. Of the input, `cached_tokens`
    came from the provider's cache and `cache_written_tokens` went to it."""

    cause: str
    times: int = 0
    seconds: float = 0.0
    characters: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = 0.0
    cached_tokens: int = 0
    cache_written_tokens: int = 0


class Ledger:
    """`take` the facts of a run in their order; `entries` is what was wasted, by cause."""

    def __init__(self) -> None:
        self._wastes: dict[str, Waste] = {}
        self._asked: ModelAsked | None = None
        self._last_piece = 0.0
        self._thought = self._said = 0  # characters of reasoning and of text in this attempt
        self._usage: Usage | None = None
        self._price: Price | None = None
        self._waits_for: tuple[str, float] | None = None

    @property
    def entries(self) -> tuple[Waste, ...]:
        return tuple(self._wastes.values())

    def take(self, fact: Fact) -> None:
        match fact:
            case ModelAsked():
                self._end_wait(fact.at)
                self._asked, self._last_piece = fact, fact.at
                self._thought = self._said = 0
                self._usage = self._price = None
            case Streamed():
                self._streamed(fact)
            case Decided():
                self._decided(fact)
            case Compacted() | SummaryDropped():
                self._compacted(fact)
            case RunEnded():
                self._end_wait(fact.at)
            case _:
                pass

    def _streamed(self, fact: Streamed) -> None:
        self._price = fact.price or self._price
        for event in fact.events:
            if isinstance(event, _CONTENT):
                self._last_piece = fact.at
                if isinstance(event, ReasoningDelta):
                    self._thought += len(event.text)
                elif isinstance(event, TextDelta):
                    self._said += len(event.text)
            elif isinstance(event, UsageNoted):
                self._usage = event.usage

    def _decided(self, fact: Decided) -> None:
        asked = self._asked
        if asked is None or _is_a_pause(fact):
            return
        cause = _cause(fact, compacts=asked.folding is not None)
        before = self._wastes.get(cause, Waste(cause))
        lost = fact.lost + self._thought
        given = self._usage.input if self._usage is not None and self._usage.input else 0
        output = -(-lost // CHARACTERS_PER_TOKEN)
        used = replace(self._usage or Usage(), input=given, output=output)
        # The provider's own sum is for all of the reply, also for what was kept of it.
        price = cost_of(without_own_cost(used) if fact.gained or used.cost is None else used, self._price)
        self._wastes[cause] = replace(
            before,
            times=before.times + 1,
            seconds=before.seconds + max(fact.at - (self._last_piece if fact.gained else asked.at), 0.0),
            characters=before.characters + lost,
            input_tokens=before.input_tokens + given,
            output_tokens=before.output_tokens + output,
            money=None if price is None or before.money is None else before.money + price,
            cached_tokens=before.cached_tokens + used.cached,
            cache_written_tokens=before.cache_written_tokens + used.cache_written,
        )
        self._waits_for = (cause, fact.at)

    def _compacted(self, fact: Compacted | SummaryDropped) -> None:
        """A summary is neither waste nor a part of the answer: what it cost is told as its own, used or
        not."""
        asked, self._asked = self._asked, None
        if asked is None or asked.folding is None or (isinstance(fact, Compacted) and fact.why):
            return
        before = self._wastes.get(COMPACTION, Waste(COMPACTION))
        usage = self._usage or Usage()
        given = usage.input or asked.expected
        output = usage.output or -(-(self._said + self._thought) // CHARACTERS_PER_TOKEN)
        price = cost_of(replace(usage, input=given, output=output), self._price)
        self._wastes[COMPACTION] = replace(
            before,
            times=before.times + 1,
            seconds=before.seconds + max(fact.at - asked.at, 0.0),
            input_tokens=before.input_tokens + given,
            output_tokens=before.output_tokens + output,
            money=None if price is None or before.money is None else before.money + price,
            cached_tokens=before.cached_tokens + usage.cached,
            cache_written_tokens=before.cache_written_tokens + usage.cache_written,
        )

    def _end_wait(self, now: float) -> None:
        if self._waits_for is not None:
            cause, since = self._waits_for
            waste = self._wastes[cause]
            self._wastes[cause] = replace(waste, seconds=waste.seconds + max(now - since, 0.0))
            self._waits_for = None


def total(entries: tuple[Waste, ...]) -> Waste:
    """All causes together."""
    known = [entry.money for entry in entries if entry.money is not None]
    return Waste(
        "all",
        sum(entry.times for entry in entries),
        sum(entry.seconds for entry in entries),
        sum(entry.characters for entry in entries),
        sum(entry.input_tokens for entry in entries),
        sum(entry.output_tokens for entry in entries),
        sum(known) if len(known) == len(entries) else None,
        sum(entry.cached_tokens for entry in entries),
        sum(entry.cache_written_tokens for entry in entries),
    )


def _is_a_pause(fact: Decided) -> bool:
    """A provider that pauses, and a model that declines, have wasted nothing."""
    paused = isinstance(fact.decision, Continue) and fact.decision.kind == "paused"
    cancelled = fact.failure is not None and fact.failure.kind == "cancelled"
    return paused or cancelled or fact.verdict == "refused"


_STALLS: dict[Clock, str] = {
    "connect": "stalled before it was connected",
    "first_event": "stalled before the first word",
    "gap": "stalled between words",
    "silence": "stalled without a keep-alive",
}
"""What a stall is called, by the clock that noticed it."""


def _cause(fact: Decided, *, compacts: bool) -> str:
    failure = fact.failure
    if compacts:
        return COMPACTION
    if failure is None:
        return fact.verdict.replace("_", " ")
    if failure.clock is not None:
        return _STALLS[failure.clock]
    return "no connection" if failure.kind == "connect" else failure.kind.replace("_", " ")
