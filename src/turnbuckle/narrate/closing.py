"""How a run ends, as far as its facts tell it: what was wished for, what it cost, and what the model said
last."""

from turnbuckle.narrate.told import RunOver
from turnbuckle.turn.facts import Compacted, RunEnded, RunStarted
from turnbuckle.vocab.events import Finish, Usage
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.prices import Price, cost_of
from turnbuckle.vocab.request import RunOptions

_DECLINED = ("refused", "filtered")


class Closing:
    """A fold that only looks at what is rare. Usage is the sum of all attempts: what was really spent."""

    def __init__(self) -> None:
        self.handed = False
        """Calls go to the client."""
        self.refused = False
        """The model declined in words of its own."""
        self.finish: Finish | None = None
        self.verdict = ""
        self.price: Price | None = None
        self._options = RunOptions()
        self._repeatable = False
        self._spent = Usage()
        self._now: Usage | None = None

    def start(self, fact: RunStarted) -> None:
        self._options = fact.options
        self._repeatable = fact.origin.repeatable and not fact.options.own_tools

    def ask(self) -> None:
        """Another attempt begins. Each counts its tokens from nothing."""
        self._spent, self._now = self._usage(), None
        self.finish, self.verdict, self.refused = None, "", False

    def count(self, usage: Usage) -> None:
        self._now = usage

    @property
    def cost(self) -> float | None:
        """What this attempt has cost, as far as it was counted and anybody knows."""
        return None if self._now is None else cost_of(self._now, self.price)

    def end(self, run: RunId, fact: RunEnded, began: float, gap: int) -> RunOver:
        """A text of a wanted form gets no note, nor one that stops where the client itself set the limit."""
        outcome, seconds = fact.outcome, fact.at - began
        declined = outcome.kind != "cancelled" and (self.finish in _DECLINED or self.verdict in _DECLINED)
        at_limit = self._options.max_output_tokens is not None and self.finish == "length"
        bare = self._options.response_format is not None or at_limit or (declined and self.refused)
        usage, repeatable = self._usage(), self._repeatable
        told = (self.handed, declined, bare, repeatable, seconds, gap, fact.spent)
        return RunOver(run, outcome, usage, *told, at=fact.at)

    def _usage(self) -> Usage:
        spent, now = self._spent, self._now
        if now is None:
            return spent
        return Usage(
            input=(spent.input or 0) + (now.input or 0),
            output=(spent.output or 0) + (now.output or 0),
            cached=spent.cached + now.cached,
            cache_written=spent.cache_written + now.cache_written,
            reasoning=spent.reasoning + now.reasoning,
            cost=now.cost if spent.cost is None else spent.cost + (now.cost or 0.0),
        )


def compacted_line(fact: Compacted) -> str:
    """One quiet line about a compaction."""
    sizes = f"{fact.before:,} → {fact.after:,} tokens"
    match fact.step:
        case "results":
            what = "old results left out"
        case "reasoning":
            what = "old results and reasoning left out"
        case "newest":
            what = "large results shortened"
        case _:
            count = fact.summarised
            messages = "1 message" if count == 1 else f"{count} messages"
            what = f"{messages} {'left out' if fact.why else 'summarised'}"
    return f"compacted {sizes}, {what}{f' ({fact.why})' if fact.why else ''}"
