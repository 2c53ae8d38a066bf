"""What a stop has ended: a fold over a run's facts, for whoever asked for it.

Only what was under way when the wish came is on the receipt, with the end that it really had: a tool that was
done in time is told as done, and one that could not be stopped names what may still be running. A run whose
end was there before the wish is left as it is, and the receipt says that nothing was stopped.
"""

from collections.abc import Iterable

from msgspec import Struct

from turnbuckle.narrate.waiting import WaitingFold, WaitingOn
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    Fact,
    ModelAsked,
    RunEnded,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.events import CallArgs, Cut, Ended, ReasoningDelta, RefusalDelta, TextDelta
from turnbuckle.vocab.ids import DraftId, RouteName, RunId
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import FINISH_CALL, ToolStatus

_RECEIVED = (TextDelta, ReasoningDelta, RefusalDelta, CallArgs)


class StoppedModelCall(Struct, frozen=True):
    """The model call that was cut off, and how much had come of it."""

    route: RouteName
    model: str
    characters_received: int


class StoppedTool(Struct, frozen=True):
    """A tool that was at work, and how it ended. `killed` and `survivors` name processes."""

    call_id: str
    name: str
    status: ToolStatus
    killed: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    seconds: float = 0.0


class UnstartedCall(Struct, frozen=True):
    """A call that was to come and never began."""

    call_id: str
    name: str


class Receipt(Struct, frozen=True):
    """`stopped`: the run ended because of this request. `outcome` is None while it has not yet ended.
    `seconds` are those from the request to the end, `waiting_on` is what the run was waiting for when the
    request came; of one that has not ended, since its end cannot be stored, it is the store. `keeps`: it was
    an interrupt, and the conversation goes on."""

    run: RunId
    stopped: bool = False
    outcome: Outcome | None = None
    by: str = ""
    model_call: StoppedModelCall | None = None
    tools: tuple[StoppedTool, ...] = ()
    not_started: tuple[UnstartedCall, ...] = ()
    approvals_withdrawn: tuple[str, ...] = ()
    drafts: tuple[DraftId, ...] = ()
    waiting_on: WaitingOn | None = None
    seconds: float | None = None
    keeps: bool = False


def receipt(facts: Iterable[Fact], *, too_late: bool = False) -> Receipt:
    """The receipt for a stop, from all facts of the run. `too_late`: its end was there before this wish
    came."""
    seen = _Seen()
    for fact in facts:
        seen.take(fact)
    return seen.receipt(too_late)


class _Seen:
    """What the facts have told so far."""

    def __init__(self) -> None:
        self._run = RunId("")
        self._outcome: Outcome | None = None
        self._ended_at = 0.0
        self._stop: StopAsked | None = None
        self._waiting = WaitingFold()
        self._waiting_on: WaitingOn | None = None
        self._asked: ModelAsked | None = None  # a model call without its last word
        self._received = 0
        self._cut: StoppedModelCall | None = None
        self._running: set[str] = set()
        self._tools: list[StoppedTool] = []
        self._not_started: list[UnstartedCall] = []
        self._withdrawn: list[str] = []

    def take(self, fact: Fact) -> None:
        self._waiting.take(fact)
        match fact:
            case Streamed():
                self._streamed(fact)
            case RunStarted():
                self._run = fact.run
            case ModelAsked():
                self._asked, self._received = fact, 0
                self._running.clear()
            case ToolStarted():
                self._running.add(fact.call_id)
            case ToolFinished():
                self._finished(fact)
            case ApprovalAnswered(verdict="withdrawn"):
                self._withdrawn.append(fact.approval)
            case StopAsked() if self._stop is None:
                self._stop, self._waiting_on = fact, self._waiting.on(fact.at)
            case RunEnded():
                self._outcome, self._ended_at = fact.outcome, fact.at
            case _:
                pass

    def receipt(self, too_late: bool) -> Receipt:
        outcome, stop = self._outcome, self._stop
        drafts = () if outcome is None else outcome.drafts
        if stop is None or too_late:
            return Receipt(self._run, outcome=outcome, drafts=drafts)
        return Receipt(
            self._run,
            stopped=outcome is not None and outcome.kind == "cancelled",
            outcome=outcome,
            by=stop.by,
            model_call=self._cut,
            tools=tuple(self._tools),
            not_started=tuple(self._not_started),
            approvals_withdrawn=tuple(self._withdrawn),
            drafts=drafts,
            waiting_on=self._waiting_on,
            seconds=None if outcome is None else max(self._ended_at - stop.at, 0.0),
            keeps=stop.keeps,
        )

    def _streamed(self, fact: Streamed) -> None:
        self._received += sum(len(event.text) for event in fact.events if isinstance(event, _RECEIVED))
        asked, last = self._asked, fact.events[-1] if fact.events else None
        if asked is None or not isinstance(last, (Ended, Cut)):
            return
        if self._stop is not None and isinstance(last, Cut):
            self._cut = StoppedModelCall(asked.route, asked.model, self._received)
        self._asked = None

    def _finished(self, fact: ToolFinished) -> None:
        running = fact.call_id in self._running
        self._running.discard(fact.call_id)
        if self._stop is None:
            return
        told = fact.outcome
        if running:
            tool = StoppedTool(
                fact.call_id, fact.name, told.status, told.killed, told.survivors, told.seconds
            )
            self._tools.append(tool)
        elif told.fact == "never_started" and fact.name != FINISH_CALL:  # which runs nothing by itself
            self._not_started.append(UnstartedCall(fact.call_id, fact.name))
