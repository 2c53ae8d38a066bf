"""What a surface must know of a run when it ends: what was wished for, what it cost, and what the model said last."""

from turnbuckle.server.outcomes import Ending, ending
from turnbuckle.turn.facts import Decided, RunStarted
from turnbuckle.vocab.events import Finish, FinishNoted, Usage, UsageNoted
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import Wishes

_DECLINED = ("refused", "filtered")
REPEATABLE = "repeatable"
"""What was asked may simply be asked again: it has no session that it would stand in twice, and no key."""


class Closing:
    """A fold that only looks at what is rare. Usage is the sum of all attempts: what was really spent."""

    def __init__(self) -> None:
        self.handed = False
        """Calls go to the client."""
        self.refused = False
        """The model declined in words of its own."""
        self._wishes = Wishes()
        self._repeatable = False
        self._spent = Usage()
        self._now: Usage | None = None
        self._finish: Finish | None = None
        self._verdict = ""

    def start(self, fact: RunStarted) -> None:
        self._wishes = fact.wishes
        self._repeatable = fact.asked.get(REPEATABLE) is True and not fact.wishes.own_tools

    def ask(self) -> None:
        """Another attempt begins. Each counts its tokens anew."""
        self._spent, self._now = self.usage, None
        self._finish, self._verdict, self.refused = None, "", False

    def note(self, event: UsageNoted | FinishNoted) -> None:
        if isinstance(event, UsageNoted):
            self._now = event.usage
        else:
            self._finish = event.finish

    def decide(self, fact: Decided) -> None:
        self._verdict = fact.verdict

    @property
    def usage(self) -> Usage:
        spent, now = self._spent, self._now
        if now is None:
            return spent
        return Usage(
            input=(spent.input or 0) + (now.input or 0),
            output=(spent.output or 0) + (now.output or 0),
            cached=spent.cached + now.cached,
            cache_written=spent.cache_written + now.cache_written,
            reasoning=spent.reasoning + now.reasoning,
        )

    def end(self, outcome: Outcome) -> Ending:
        """A text of a wanted form gets no note, nor one that stops where the client itself set the limit."""
        declined = outcome.kind != "cancelled" and (self._finish in _DECLINED or self._verdict in _DECLINED)
        at_limit = self._wishes.max_output_tokens is not None and self._finish == "length"
        quiet = self._wishes.response_format is not None or at_limit or (declined and self.refused)
        return ending(outcome, handed=self.handed, declined=declined, quiet=quiet, repeatable=self._repeatable)
