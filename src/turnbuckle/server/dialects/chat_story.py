"""A run as one assistant message: facts in, and a pen is told what to write. Streamed or not, it is this fold.

The texts of all replies become one text. A reply that goes on behind a cut goes on in the same words, since seams are
clean already; behind a round of tools, or when the user has said more, a new paragraph begins. What the model says in
one burst is written in one piece. Calls to our own tools show only as progress; calls for the client show only when
they are handed over, whole.
"""

from typing import Any, Protocol

from turnbuckle.server.dialects.closing import Closing, begins_anew, gap
from turnbuckle.server.dialects.tool_lines import LEFT, Label, ToolLines
from turnbuckle.server.outcomes import Ending
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    Decided,
    Fact,
    HandedCall,
    ModelAsked,
    Reask,
    Retry,
    RunClaimed,
    RunEnded,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.vocab.events import FinishNoted, ReasoningDelta, RefusalDelta, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.redaction import without_credentials

_SPOKEN = (TextDelta, ReasoningDelta, RefusalDelta)
_NOTED = (UsageNoted, FinishNoted)
_WORTH_TELLING = 1.0  # seconds: a shorter wait is over before anybody has read of it


class Pen(Protocol):
    """Who writes. Whatever comes here comes in the order in which it is to be read."""

    def text(self, text: str) -> None: ...

    def reasoning(self, text: str) -> None: ...

    def refusal(self, text: str) -> None: ...

    def call(self, index: int, call: HandedCall) -> None: ...

    def progress(self, progress: dict[str, Any]) -> None: ...

    def aside(self, what: str, told: Any) -> None: ...

    def end(self, ending: Ending, usage: Usage) -> None: ...


class ChatStory:
    """`take` facts in the order of the journal. Keeps no text but the last piece of it."""

    def __init__(self, run: RunId, pen: Pen, label: Label = short_argument) -> None:
        self.ended = False
        self.notice = ""
        """What the user is told before the answer."""
        self._run = run
        self._pen = pen
        self._label = label
        self._tools = ToolLines(label)
        self._closing = Closing()
        self._last = ""  # the last piece of text
        self._apart = False  # what comes next is another message
        self._thought: object = None  # which reasoning the last piece of it belonged to
        self._last_thought = ""
        self._handed = 0

    def take(self, fact: Fact) -> None:
        if type(fact) is Streamed:
            events = fact.events
            if len(events) == 1 and type(events[0]) is TextDelta:
                self._say(events[0].text)
            else:
                self._burst(fact)
        elif not self.ended:
            self._rare(fact)

    # What the model says

    def _burst(self, fact: Streamed) -> None:
        kind: object = None
        block = -1
        pieces: list[str] = []
        for event in fact.events:
            if isinstance(event, _SPOKEN):
                if type(event) is not kind or (kind is ReasoningDelta and event.block != block):
                    self._write(kind, "".join(pieces), (fact.attempt, block))
                    kind, block, pieces = type(event), event.block, []
                pieces.append(event.text)
            elif isinstance(event, _NOTED):
                self._closing.note(event)
        self._write(kind, "".join(pieces), (fact.attempt, block))

    def _write(self, kind: object, text: str, where: tuple[int, int]) -> None:
        if kind is TextDelta:
            self._say(text)
        elif kind is ReasoningDelta:
            self._think(text, where)
        elif text:
            self._closing.refused = True
            self._pen.refusal(text)

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._apart:
            self._apart = False
            text = f"{gap(self._last, text)}{text}"
        self._last = text
        self._pen.text(text)

    def _think(self, text: str, thought: object) -> None:
        if not text:
            return
        if thought != self._thought:
            self._thought = thought
            text = f"{gap(self._last_thought, text)}{text}"
        self._last_thought = text
        self._pen.reasoning(text)

    # What else happens

    def _rare(self, fact: Fact) -> None:
        match fact:
            case RunStarted():
                self._closing.start(fact)
                self._begun(fact.notice)
            case ModelAsked():
                self._apart = self._apart or begins_anew(fact)
                self._closing.ask()
            case Decided():
                self._decided(fact)
            case ToolStarted():
                self._apart = True
                if (shown := self._tools.start(fact)) is not None:
                    self._pen.progress(shown.progress())
            case ToolFinished():
                self._apart = True
                if (shown := self._tools.finish(fact)) is not None:
                    self._pen.progress(shown.progress(fact.outcome))
            case ApprovalAsked():
                self._asked(fact)
            case ApprovalAnswered():
                self._pen.aside("approval", {"id": fact.approval, "status": fact.verdict})
            case CallsHandedOver(_, calls):
                self._hand_over(calls)
            case StopAsked():
                self._pen.aside("notice", "stopping")
            case RunClaimed():
                self._pen.aside("notice", "taken up again by another process")
            case RunEnded(_, outcome):
                self._end(outcome)
            case _:
                pass

    def _begun(self, notice: str) -> None:
        """Said in the reasoning, too: a plain client shows that, and takes it for no part of the answer."""
        self.notice = notice
        if notice:
            self._pen.aside("notice", notice)
            self._think(notice, "notice")

    def _decided(self, fact: Decided) -> None:
        self._closing.decide(fact)
        if fact.notice:
            self._pen.aside("notice", fact.notice)
        if isinstance(fact.decision, Retry | Reask) and fact.decision.after >= _WORTH_TELLING:
            self._pen.aside("notice", f"waiting {fact.decision.after:.0f} s before the next try")

    def _asked(self, fact: ApprovalAsked) -> None:
        """A plain client must see why nothing happens, so it is said in the reasoning, too."""
        where = f"POST /v1/runs/{self._run}/approvals/{fact.approval}"
        label = self._label(fact.arguments)
        question = without_credentials(shortened(fact.question))
        told = {
            "id": fact.approval,
            "status": "asked",
            "kind": fact.kind,
            "tool": fact.name,
            "label": question or label,
            "expires": fact.expires,
            "answer": where,
        }
        self._pen.aside("approval", told)
        if fact.kind == "question":
            words = f"Waiting for an answer: {question or label}"
        elif question:
            words = f"Waiting for consent. {fact.name}{f': {label}' if label else ''}: {question}"
        else:
            words = f"Waiting for consent to run {fact.name}{f': {label}' if label else ''}"
        self._think(f"{words} ({where})", fact.approval)

    def _hand_over(self, calls: tuple[HandedCall, ...]) -> None:
        self._closing.handed = True
        for call in calls:
            self._pen.call(self._handed, call)
            self._handed += 1

    def _end(self, outcome: Outcome) -> None:
        for shown in self._tools.left():
            self._pen.progress(shown.progress(LEFT))
        ending = self._closing.end(outcome)
        if ending.note:
            self._apart = True
            self._say(ending.note)
        self.ended = True
        self._pen.end(ending, self._closing.usage)
