"""Facts to a turn, live and in replay alike: one fold, so that a run that comes back is the run that went."""

from collections.abc import Callable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from turnbuckle.reply.accumulate import Accumulator
from turnbuckle.turn.base import NO_BASE, Base, joined
from turnbuckle.turn.budget import worked_on
from turnbuckle.turn.commands import Command
from turnbuckle.turn.consent import ConsentRule
from turnbuckle.turn.facts import Fact, ModelAsked, RunStarted, Streamed
from turnbuckle.turn.machine import AttemptOver, Input, apply, pending
from turnbuckle.turn.policy import Policy, for_options
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import Cut, Ended


class TurnFold:
    """`take` facts in the order of the journal; `turn` is where they lead, `due` what is to be done there.

    A burst of stream events costs only its fold. The turn itself moves when the attempt has its last word.
    """

    def __init__(self, policy: Policy, *, sending: bool = False) -> None:
        """`policy` are the rules of every run; the options of this one are put into them when it
        starts. With `sending`, the history is the one that models are told, compactions applied."""
        self.turn = Turn()
        self.base: Base = NO_BASE
        """What the run stands on, for whoever needs the whole history. Known before its first fact is taken;
        without it the turn's messages are the run's own, and all else is the same."""
        self.policy = policy
        self.given: Callable[[], tuple[ConsentRule, ...]] | None = None
        """What people have allowed for good, as it is at this moment."""
        self._sending = sending
        self._reply = Accumulator()
        self._worked = 0.0

    def take(self, fact: Fact) -> None:
        if isinstance(fact, Streamed):
            self._reply.add_all(fact.events)
            if fact.events and isinstance(fact.events[-1], (Ended, Cut)):
                reply = self._reply.snapshot()
                over = AttemptOver(fact.at, fact.attempt, reply, fact.price, fact.worked, fact.resting)
                self._apply(over)
            elif fact.worked is not UNSET:
                self._worked += fact.worked
            return
        if isinstance(fact, ModelAsked):
            self._reply = Accumulator()
        elif isinstance(fact, RunStarted):
            self.policy = for_options(self.policy, fact.options)
        self._apply(fact)
        if isinstance(fact, RunStarted) and fact.base:
            self._stand_on(self.base, fact)

    def _stand_on(self, base: Base, fact: RunStarted) -> None:
        whole = joined(base.messages, fact.messages, fact.opening)
        turn = replace(self.turn, messages=whole, began=len(whole), compaction=base.compaction)
        turn = replace(turn, words_only=base.words_only)
        if base.measure is not None and fact.opening is None:
            turn = replace(turn, measure=base.measure, measured=len(base.messages) - base.measure.left)
        self.turn = turn

    def _apply(self, taken: Input) -> None:
        """The time of bursts that moved nothing is counted with whatever comes behind them."""
        if self._worked:
            self.turn, self._worked = worked_on(self.turn, self._worked), 0.0
        self.turn = apply(self.turn, taken, self.policy, sending=self._sending)

    def after(self, facts: Sequence[Fact]) -> Turn | None:
        """Where these facts would lead that are not taken yet; None if that cannot be told without taking
        them."""
        turn: Turn | None = self.turn
        for fact in facts:
            if turn is None or isinstance(fact, Streamed):
                return None
            turn = apply(turn, fact, self.policy, sending=self._sending)
        return turn

    @property
    def unsettled(self) -> float:
        """Seconds of work that bursts have told of since the turn moved."""
        return self._worked

    def due(self) -> tuple[Command, ...]:
        if self.given is not None and self.turn.calls and (given := self.given()) is not self.policy.allowed:
            self.policy = replace(self.policy, allowed=given)
        return pending(self.turn, self.policy)
