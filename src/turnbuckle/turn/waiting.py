"""What a run is waiting for, and since when: a fold over its facts.

A person comes first: while somebody's consent or answer is missing, that is told. Then a tool that runs, then the
model. That the store is waited for is no fact of any run; whoever sees it tells it in the same shape. Only content
moves the time of the last word on, so a provider that merely pings is seen to be silent. The work per fact is constant;
of a burst only the events are looked at, never what came before them.
"""

from typing import Literal

from msgspec import Struct

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
from turnbuckle.vocab.events import CallArgs, CallNamed, CallStarted, ReasoningDelta, RefusalDelta, TextDelta

WaitingKind = Literal["provider_first_token", "provider", "tool", "approval", "rate_limit", "retry", "storage", "turn"]
Doing = Literal["text", "reasoning", "arguments"]
_FULL_UP = ("rate_limited", "overloaded")


class WaitingOn(Struct, frozen=True):
    """`detail` names the model, the tool or the question in a few words. `since` is wall time."""

    kind: WaitingKind
    detail: str
    since: float


class Waiting:
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
        self._waits_since = 0.0
        self._tools: dict[str, WaitingOn] = {}
        self._approvals: dict[str, WaitingOn] = {}

    def take(self, fact: Fact) -> None:
        match fact:
            case Streamed():
                self._streamed(fact)
                return
            case Waited():
                return  # nothing was heard
            case ModelAsked():
                self.model = fact.model
                self._kind, self._waits_since = "provider_first_token", fact.at
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
                return WaitingOn("provider", self._received(), self._waits_since)
            case "rate_limit" | "retry" as kind:
                left = max(self._waits_since + self.pause - now, 0.0)
                return WaitingOn(kind, f"next try in {left:.0f} s", self._waits_since)
            case kind:
                return WaitingOn(kind, self.model, self._waits_since)

    def _pause(self, fact: Decided, after: float) -> None:
        told = fact.failure
        full_up = told is not None and (told.kind in _FULL_UP or told.retry_after is not None)
        self._kind, self._waits_since = "rate_limit" if full_up else "retry", fact.at
        self.pause = after

    def _received(self) -> str:
        if self.doing == "arguments":
            return f"{self.model}: {self.call}, {self.characters:,} characters"
        return f"{self.model}: {self.doing}"

    def _streamed(self, fact: Streamed) -> None:
        heard = False
        for event in fact.events:
            kind = type(event)
            if kind is TextDelta or kind is RefusalDelta:
                self.doing = "text"
            elif kind is ReasoningDelta:
                self.doing = "reasoning"
            elif isinstance(event, CallArgs):
                self.doing = "arguments"
                self.characters += len(event.text)
            elif isinstance(event, CallStarted):
                self.doing, self.call, self.characters = "arguments", event.name or "a call", 0
            elif isinstance(event, CallNamed):
                self.doing, self.call = "arguments", event.name or self.call
            else:
                continue
            heard = True
        if heard:
            self._kind = "provider"
            self.since = self._waits_since = fact.at
