"""Whether a run has said or done anything that a client could be told, or has failed before that."""

from collections.abc import Sequence

from turnbuckle.journal.port import Item
from turnbuckle.turn.facts import ApprovalAsked, CallsHandedOver, RunEnded, RunStarted, Streamed, ToolStarted, decode
from turnbuckle.vocab.events import ReasoningDelta, RefusalDelta, TextDelta

_WORDS = (TextDelta, ReasoningDelta, RefusalDelta)
_DEEDS = (ToolStarted, ApprovalAsked, CallsHandedOver)


class FirstWord:
    """A fold that ends with the first word, or with the run. Nothing of what it took is kept."""

    def __init__(self) -> None:
        self.ended = False
        self.failed = False
        """It has ended as failed, without a word."""

    def take(self, items: Sequence[Item]) -> None:
        for item in items:
            if self.ended:
                return
            fact = decode(item.data)
            if isinstance(fact, Streamed):
                self.ended = any(isinstance(event, _WORDS) for event in fact.events)
            elif isinstance(fact, RunEnded):
                self.ended, self.failed = True, fact.outcome.kind == "failed"
            else:
                self.ended = isinstance(fact, _DEEDS) or (isinstance(fact, RunStarted) and bool(fact.notice))
