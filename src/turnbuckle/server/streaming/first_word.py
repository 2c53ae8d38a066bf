"""Whether a run has said or done anything that a client could be told, or has failed before that."""

from collections.abc import Sequence

from msgspec.structs import replace

from turnbuckle.journal.port import Item
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.told import (
    HandedOver,
    HeadTold,
    ModelCalled,
    ModelNamed,
    Notice,
    OtherChoice,
    QuestionAsked,
    Reasoning,
    RunOver,
    Text,
    ToolBegun,
)
from turnbuckle.turn.facts import Fact, Streamed, decode
from turnbuckle.vocab.events import ReasoningDelta, TextDelta

_SPOKEN = frozenset({TextDelta, ReasoningDelta})
_WORDS = (Text, Reasoning, OtherChoice, ToolBegun, QuestionAsked, HandedOver)


class FirstWord:
    """A fold that ends with the first word, or with the run. Nothing of what it took is kept."""

    def __init__(self) -> None:
        self._narration = Narration()
        self.ended = False
        self.failed = False
        """It has ended as failed, without a word."""
        self.route = ""
        """The one that was asked last, and so the one that speaks, once somebody does."""
        self.model = ""
        """Who speaks, in its provider's word if there was one."""
        self.headers: tuple[tuple[str, str], ...] = ()
        """What its provider said in headers."""

    def take(self, items: Sequence[Item]) -> None:
        for fact in (part for item in items for part in _up_to_a_word(decode(item.data))):
            if self.ended:
                return
            for told in self._narration.take(fact):
                if isinstance(told, ModelCalled):
                    self.route, self.model, self.headers = told.route, told.model, ()
                elif isinstance(told, ModelNamed):
                    self.model = told.model
                elif isinstance(told, HeadTold):
                    self.headers = tuple(told.headers.items())
                elif isinstance(told, RunOver):
                    self.failed = not self.ended and told.outcome == "failed"
                    self.ended = True
                elif isinstance(told, _WORDS) or (isinstance(told, Notice) and told.about == "conversation"):
                    self.ended = True


def _up_to_a_word(fact: Fact) -> tuple[Fact, ...]:
    """A burst in two: what comes behind its first word is nearly never looked at."""
    if type(fact) is Streamed:
        for place, event in enumerate(fact.events[:-1], 1):
            if type(event) in _SPOKEN:
                return replace(fact, events=fact.events[:place]), replace(fact, events=fact.events[place:])
    return (fact,)
