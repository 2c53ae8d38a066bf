"""What a run is waiting for, and since when: a fold over its facts, for the status line."""

from turnbuckle.cli.story import short_argument
from turnbuckle.turn.facts import Decided, Fact, ModelAsked, Reask, Retry, RunEnded, Streamed, ToolFinished, ToolStarted
from turnbuckle.vocab.events import CallArgs, CallNamed, CallStarted, ReasoningDelta, TextDelta


class Waiting:
    """`take` the facts; `words` says what is waited for."""

    def __init__(self) -> None:
        self.since = 0.0
        self._what = ""
        self._model = ""
        self._tools: dict[str, tuple[str, float]] = {}
        self._call = ""
        self._characters = 0

    def take(self, fact: Fact) -> None:
        match fact:
            case ModelAsked():
                self._model, self._call = fact.model, ""
                self._now_for(f"waiting for {fact.model}", fact.at)
            case Streamed():
                self._streamed(fact)
            case Decided(decision=Retry(after) | Reask(after=after)) if after >= 1:
                self._now_for(f"waiting {after:.0f} s before the next try", fact.at)
            case ToolStarted():
                words = f"running {fact.name} {short_argument(fact.arguments)}".rstrip()
                self._tools[fact.call_id] = (words, fact.at)
                self.since = fact.at
            case ToolFinished():
                self._tools.pop(fact.call_id, None)
                self._now_for("", fact.at)
            case RunEnded():
                self._tools.clear()
                self._now_for("", fact.at)
            case _:
                self.since = fact.at

    def words(self, now: float) -> str:
        """In words; empty when nothing is waited for."""
        if self._tools:
            what, since = next(reversed(self._tools.values()))
            return f"{what}, {_seconds(now - since)}"
        if self._call:
            return f"receiving {self._call}, {self._characters:,} characters, last {_seconds(now - self.since)} ago"
        return f"{self._what}, {_seconds(now - self.since)}" if self._what else ""

    def _now_for(self, what: str, at: float) -> None:
        self._what, self.since, self._call = what, at, ""

    def _streamed(self, fact: Streamed) -> None:
        for event in fact.events:
            if isinstance(event, CallArgs):
                self._characters += len(event.text)
            elif isinstance(event, CallStarted | CallNamed):
                if event.name != self._call:
                    self._call, self._characters = event.name or "a call", 0
            elif isinstance(event, TextDelta):
                self._now_for(f"waiting for more from {self._model}", fact.at)
            elif isinstance(event, ReasoningDelta):
                self._now_for("thinking", fact.at)
        self.since = fact.at


def _seconds(seconds: float) -> str:
    whole = max(int(seconds), 0)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02} s"
