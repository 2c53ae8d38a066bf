"""Whether a run has said or done anything that a client could be told, or has failed before that.

Nearly every run begins, asks a model, and that one says a word. So much is seen without a narration; whatever
else comes is narrated, with all that came before it.
"""

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
from turnbuckle.turn.facts import Fact, ModelAsked, RunStarted, Streamed, decode
from turnbuckle.vocab.events import FieldsNoted, HeadNoted, ReasoningDelta, Started, TextDelta

_SILENT = frozenset({FieldsNoted, TextDelta})  # of a text nothing but an empty one is left
_SPOKEN = frozenset({TextDelta, ReasoningDelta})
_WORDS = (Text, Reasoning, OtherChoice, ToolBegun, QuestionAsked, HandedOver)
Known = dict[int, tuple[Item, Fact]]
"""Items with their facts, by their numbers."""


class FirstWord:
    """A fold that ends with the first word, or with the run."""

    def __init__(self) -> None:
        self._narration: Narration | None = None
        self.known: Known = {}
        """What came, for whoever tells it to the client: it need not be decoded again. Nothing is kept once
        it is narrated."""
        self._asked: ModelAsked | None = None
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
        for item in items:
            if self.ended:
                return
            fact = decode(item.data)
            if self._narration is not None:
                self._narrate(self._narration, fact)
            elif self._is_usual(fact):
                self.known[item.seq] = item, fact
            else:
                self._narration = Narration()
                for _, each in self.known.values():
                    self._narrate(self._narration, each)
                self._narrate(self._narration, fact)
                self.known.clear()

    def _is_usual(self, fact: Fact) -> bool:
        """Whether this is how nearly every run begins, so that it is clear what would be told of it."""
        if type(fact) is RunStarted and not (self.known or fact.notice):
            return True
        if type(fact) is ModelAsked and self._asked is None and fact.folding is None and fact.why == "first":
            self._asked = fact
            self.route, self.model = fact.route, fact.model
            return True
        if type(fact) is not Streamed or self._asked is None or fact.attempt != self._asked.attempt:
            return False
        model, headers = self.model, self.headers
        for event in fact.events:
            if type(event) is TextDelta and event.text:
                self.ended, self.model, self.headers = True, model, headers
                return True
            if type(event) is Started:
                model = event.model or model
            elif type(event) is HeadNoted:
                headers = tuple(event.headers.items())
            elif type(event) not in _SILENT:
                return False
        self.model, self.headers = model, headers
        return True

    def _narrate(self, narration: Narration, fact: Fact) -> None:
        for part in _up_to_a_word(fact):
            if self.ended:
                return
            for told in narration.take(part):
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
