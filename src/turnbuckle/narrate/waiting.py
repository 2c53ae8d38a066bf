"""What a run is waiting for, and since when: a fold over its facts.

A person comes first: while somebody's consent or answer is missing, that is told. Then a tool that runs, then
the model. That the store is waited for is not a fact of any run; whoever sees it tells it in the same shape.
Only content moves the time of the last word on, so a provider that merely pings is seen to be silent. The
work per fact is constant; of a burst only the events are looked at, never what came before them.
"""

from typing import Literal

from msgspec import Struct

from turnbuckle.narrate.told import Waiting, WaitingKind
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    Decided,
    Fact,
    Fallback,
    ModelAsked,
    Reask,
    Retry,
    RunClaimed,
    RunEnded,
    RunLeft,
    Streamed,
    ToolFinished,
    ToolStarted,
    Waited,
)
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.vocab.events import (
    CallArgs,
    CallNamed,
    CallStarted,
    ChoiceNoted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from turnbuckle.vocab.tooling import FINISH_CALL, REST_OF_A_CALL

Doing = Literal["text", "reasoning", "arguments"]
_CALLS = frozenset({CallArgs, CallNamed, CallStarted})
_FULL_UP = ("rate_limited", "overloaded")
_NOTHING = Waiting()


class WaitingOn(Struct, frozen=True):
    """`detail` names the model, the tool or the question in a few words. `since` is wall time."""

    kind: WaitingKind
    detail: str
    since: float

    @property
    def words(self) -> str:
        """For people who see only this."""
        return f"Waiting for {self.kind}: {self.detail}"


class WaitingFold:
    """`take` the facts in their order; `on` says what is waited for."""

    def __init__(self) -> None:
        self.since = 0.0
        """When something was last heard of the run, apart from mere signs of life."""
        self.model = ""
        self.doing: Doing = "text"
        """What the model was at when it was last heard."""
        self.call = ""
        """The tool whose arguments are coming in, and how much of them is here."""
        self.characters = 0
        self.pause = 0.0
        """Seconds from a decision to the next try."""
        self._kind: WaitingKind | None = None
        self.waits_since = 0.0
        """When the wait for the model, or for the next try, began."""
        self._tools: dict[str, WaitingOn] = {}
        self._approvals: dict[str, WaitingOn] = {}
        self.finishes = True
        """Whether `finish_call` is ours, and not a tool that the caller brought."""

    def take(self, fact: Fact) -> None:
        match fact:
            case Streamed():
                self._streamed(fact)
                return
            case Waited():
                return  # nothing was heard
            case ModelAsked():
                self.model = fact.model
                self._kind, self.waits_since = "provider_first_token", fact.at
            case Decided(decision=Retry(after) | Reask(after=after) | Fallback(after=after)) if after > 0:
                self._pause(fact, after)
            case ToolStarted():
                words = f"{fact.name} {short_argument(fact.arguments)}".rstrip()
                self._tools[fact.call_id] = WaitingOn("tool", words, fact.at)
            case ToolFinished():
                self._tools.pop(fact.call_id, None)
                self._kind = None
            case ApprovalAsked():
                words = f"{fact.name} {short_argument(fact.arguments)}".rstrip()
                words = shortened(fact.question) if fact.question else words
                self._approvals[fact.approval] = WaitingOn("approval", words, fact.at)
            case ApprovalAnswered():
                self._approvals.pop(fact.approval, None)
            case RunClaimed() | RunLeft():
                # What was under way died with its process; what a person was asked is still to be answered.
                self._kind = None
                self._tools.clear()
            case CallsHandedOver():
                self._kind = None
            case RunEnded():
                self._kind = None
                self._tools.clear()
                self._approvals.clear()
            case _:
                pass
        self.since = fact.at

    def on(self, now: float) -> WaitingOn | None:
        """What is waited for at this moment; None when nothing is, or when nobody goes on with the run."""
        for waits in (self._approvals, self._tools):
            if waits:
                return next(reversed(waits.values()))
        match self._kind:
            case None:
                return None
            case "provider":
                return WaitingOn("provider", self._received(), self.waits_since)
            case "rate_limit" | "retry" as kind:
                left = max(self.waits_since + self.pause - now, 0.0)
                return WaitingOn(kind, f"next try in {left:.0f} s", self.waits_since)
            case kind:
                return WaitingOn(kind, self.model, self.waits_since)

    def told(self) -> Waiting:
        """The same as it is told when it changes. How long a model is silent counts from its last word, which
        needs no telling."""
        for waits in (self._approvals, self._tools):
            if waits:
                on = next(reversed(waits.values()))
                return Waiting(on.kind, on.detail, on.since)
        match self._kind:
            case None:
                return _NOTHING
            case "provider":
                return Waiting("provider", f"{self.model}: {self._received_what()}")
            case "rate_limit" | "retry" as kind:
                return Waiting(kind, f"next try in {self.pause:.0f} s", self.waits_since, self.pause)
            case kind:
                return Waiting(kind, self.model, self.waits_since)

    def heard_arguments(self, at: float, characters: int) -> None:
        """More arguments of the call that the model was at already."""
        self.since = self.waits_since = at
        self.characters += characters

    def _name(self, tool: str) -> str:
        return REST_OF_A_CALL if self.finishes and tool == FINISH_CALL else tool

    def _received_what(self) -> str:
        return self.call if self.doing == "arguments" else self.doing

    def _pause(self, fact: Decided, after: float) -> None:
        failure = fact.failure
        full_up = failure is not None and (failure.kind in _FULL_UP or failure.retry_after is not None)
        self._kind, self.waits_since = "rate_limit" if full_up else "retry", fact.at
        self.pause = after

    def _received(self) -> str:
        count = f", {self.characters:,} characters" if self.doing == "arguments" else ""
        return f"{self.model}: {self._received_what()}{count}"

    def _streamed(self, fact: Streamed) -> None:
        heard = False
        for event in fact.events:
            kind = type(event)
            if kind is TextDelta or kind is RefusalDelta or kind is ChoiceNoted:
                self.doing = "text"
            elif kind is ReasoningDelta:
                self.doing = "reasoning"
            elif kind not in _CALLS:
                continue
            elif isinstance(event, CallArgs):
                self.doing = "arguments"
                self.characters += len(event.text)
            elif isinstance(event, CallStarted):
                self.doing, self.call, self.characters = "arguments", self._name(event.name) or "a call", 0
            elif isinstance(event, CallNamed):
                self.doing, self.call = "arguments", self._name(event.name) or self.call
            heard = True
        if heard:
            self._kind = "provider"
            self.since = self.waits_since = fact.at
