"""A run as one assistant message: facts in, and a pen is told what to write. Streamed or not, it is this fold.

The texts of all replies become one text, with the paragraphs that every surface gives it (`turn/telling.py`). What the
model says in one burst is written in one piece. Calls to our own tools show only as progress; calls for the client
show only when they are handed over, whole.
"""

from typing import Any, Protocol

from turnbuckle.server.dialects import approvals
from turnbuckle.server.dialects.closing import Closing
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
    RunEnded,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.labels import short_argument
from turnbuckle.turn.telling import Answerer, Notices, Paragraphs, gap
from turnbuckle.vocab.events import Event, FinishNoted, ReasoningDelta, RefusalDelta, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.outcome import Outcome

_SPOKEN = (TextDelta, ReasoningDelta, RefusalDelta)
_NOTED = (UsageNoted, FinishNoted)
_WORTH_TELLING = 1.0  # seconds: a shorter wait is over before anybody has read of it


class Pen(Protocol):
    """Who writes. Whatever comes here comes in the order in which it is to be read."""

    def answered_by(self, model: str) -> None:
        """Who speaks from here on; empty: who was asked for."""
        ...

    def text(self, text: str) -> None: ...

    def reasoning(self, text: str) -> None: ...

    def refusal(self, text: str) -> None: ...

    def call(self, index: int, call: HandedCall) -> None: ...

    def progress(self, progress: dict[str, Any]) -> None: ...

    def aside(self, what: str, told: Any) -> None: ...

    def end(self, ending: Ending, usage: Usage) -> None: ...


class ChatStory:
    """`take` facts in the order of the journal. Keeps no text but the last piece of a thought."""

    def __init__(self, run: RunId, pen: Pen, label: Label = short_argument, queued: str = "") -> None:
        self.ended = False
        self.notice = ""
        """What the user is told before the answer."""
        self.notices: list[str] = []
        """All quiet lines; as many as the run has breaks, which its limits bound."""
        self._run = run
        self._pen = pen
        self._label = label
        self._tools = ToolLines(label)
        self._closing = Closing()
        self._text = Paragraphs()
        self._refusals = Paragraphs()  # they stand in a place of their own
        self._notices = Notices()
        self._answerer = Answerer()
        self._thought: object = None  # which reasoning the last piece of it belonged to
        self._last_thought = ""
        self._handed = 0
        if queued:
            pen.aside("waiting", queued)
            self._think(queued, "queued")

    def take(self, fact: Fact) -> None:
        if type(fact) is Streamed:
            events = fact.events
            if len(events) == 1 and type(events[0]) is TextDelta:
                self._say(fact.attempt, events[0].block, events[0].text)
            else:
                self._burst(fact)
        elif not self.ended:
            self._rare(fact)

    # What the model says

    def _burst(self, fact: Streamed) -> None:
        """Neighbours are written together, whatever blocks of text they belong to."""
        attempt = fact.attempt
        kind: type[Event] | None = None
        block = -1
        pieces: list[str] = []
        for event in fact.events:
            if isinstance(event, _SPOKEN):
                if type(event) is not kind or (kind is ReasoningDelta and event.block != block):
                    self._write(kind, "".join(pieces), (attempt, block))
                    kind, block, pieces = type(event), event.block, []
                paragraphs = self._refusals if kind is RefusalDelta else self._text
                pieces += (paragraphs.before(attempt, event), event.text)
            elif isinstance(event, _NOTED):
                self._closing.note(event)
            else:
                self._text.before(attempt, event)
        self._write(kind, "".join(pieces), (attempt, block))

    def _write(self, kind: type[Event] | None, text: str, where: tuple[int, int]) -> None:
        if not text:
            return
        if kind is TextDelta:
            self._pen.text(text)
        elif kind is ReasoningDelta:
            self._think(text, where)
        else:
            self._closing.refused = True
            self._pen.refusal(text)

    def _say(self, attempt: int, block: int, text: str) -> None:
        if text:
            self._pen.text(f"{self._text.words(attempt, block, text)}{text}")

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
        self._text.take(fact)
        self._refusals.take(fact)
        self._answerer.take(fact)
        if notice := self._notices.take(fact):
            self.notices.append(notice)
            self._pen.aside("notice", notice)
        match fact:
            case RunStarted():
                self._closing.start(fact)
                self.notice = fact.notice
                self._think(fact.notice, "notice")  # a plain client shows that, and takes it for no part of the answer
            case ModelAsked():
                self._closing.ask()
                self._pen.answered_by(self._answerer.model)
            case Decided():
                self._decided(fact)
            case ToolStarted():
                if (shown := self._tools.start(fact)) is not None:
                    self._pen.progress(shown.progress())
            case ToolFinished():
                if (shown := self._tools.finish(fact)) is not None:
                    self._pen.progress(shown.progress(fact.outcome))
            case ApprovalAsked():
                self._pen.aside("approval", approvals.asked(self._run, fact, self._label))
                self._think(approvals.words(self._run, fact, self._label), fact.approval)
            case ApprovalAnswered():
                self._pen.aside("approval", approvals.answered(fact))
            case CallsHandedOver(_, calls):
                self._hand_over(calls)
            case RunEnded(_, outcome):
                self._end(outcome)
            case _:
                pass

    def _decided(self, fact: Decided) -> None:
        self._closing.decide(fact)
        if isinstance(fact.decision, Retry | Reask) and fact.decision.after >= _WORTH_TELLING:
            self._pen.aside("notice", f"waiting {fact.decision.after:.0f} s before the next try")

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
            self._text.part()
            self._say(0, 0, ending.note)
        self.ended = True
        self._pen.end(ending, self._closing.usage)
