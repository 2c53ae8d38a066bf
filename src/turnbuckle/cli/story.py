"""A run as a person reads it: facts in, pieces to show out. It keeps no text and looks at no clock."""

from typing import Literal

from msgspec import Struct

from turnbuckle.turn.facts import (
    Fact,
    ModelAsked,
    RunClaimed,
    RunEnded,
    RunLeft,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.turn.telling import Notices, Paragraphs
from turnbuckle.vocab.events import ReasoningDelta, RefusalDelta, TextDelta
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome

Tone = Literal["tool", "notice", "quiet", "bad"]


class Text(Struct, frozen=True):
    """Words of the model, as they came. `apart`: what must stand between these and those before them, so that both are
    paragraphs."""

    text: str
    reasoning: bool = False
    apart: str = ""


class Break(Struct, frozen=True):
    """What comes next is another paragraph."""


class Line(Struct, frozen=True):
    """One line about what happens."""

    text: str
    tone: Tone = "quiet"


Piece = Text | Break | Line


class Story:
    """Turns facts into pieces. It remembers when the run began, and where paragraphs end."""

    def __init__(self, reasoning: bool = False) -> None:
        self.reasoning = reasoning
        self._thinking = False
        self._began = 0.0
        self._paragraphs = Paragraphs()
        self._notices = Notices()

    def take(self, fact: Fact) -> list[Piece]:
        self._began = self._began or fact.at
        if isinstance(fact, Streamed):
            return self._streamed(fact)
        self._paragraphs.take(fact)
        return self._rare(fact, self._notices.take(fact))

    def _rare(self, fact: Fact, notice: str) -> list[Piece]:
        match fact:
            case ModelAsked(why="after_tools" | "steered"):
                return [Break()]
            case ToolStarted(_, _, name, arguments):
                return [Break(), Line(f"→ {name} {short_argument(arguments)}".rstrip(), "tool")]
            case ToolFinished(_, _, name, outcome):
                return [Break(), _result_line(name, outcome)]
            case RunClaimed() | RunLeft():
                return [Line(notice)]  # no break: what the model was saying goes on behind it
            case RunEnded(at, outcome):
                return [Break(), outcome_line(outcome, at - self._began)]
            case _:
                return [Line(notice, "notice")] if notice else []

    def _streamed(self, fact: Streamed) -> list[Piece]:
        pieces: list[Piece] = []
        for event in fact.events:
            before = self._paragraphs.before(fact.attempt, event)
            if isinstance(event, TextDelta | RefusalDelta):
                if self._thinking:
                    self._thinking = False
                    pieces.append(Break())
                pieces.append(Text(event.text, apart=before))
            elif isinstance(event, ReasoningDelta) and self.reasoning:
                if not self._thinking:
                    self._thinking = True
                    pieces.append(Break())
                pieces.append(Text(event.text, reasoning=True))
        return pieces


def outcome_line(outcome: Outcome, seconds: float) -> Line:
    """How it ended, in one line."""
    why = f": {outcome.why}" if outcome.why else ""
    tone: Tone = "quiet" if outcome.kind == "completed" else "notice" if outcome.kind == "cancelled" else "bad"
    return Line(f"{outcome.kind} after {seconds:.1f} s{why}", tone)


def _result_line(name: str, outcome: ToolOutcome) -> Line:
    first = shortened(outcome.text or outcome.partial_output)
    told = f": {first}" if first else ""
    match outcome.fact:
        case "ended" if outcome.ok:
            return Line(f"✓ {name}, {outcome.seconds:.1f} s{told}", "tool")
        case "ended":
            code = f", exit code {outcome.exit_code}" if outcome.exit_code else ""
            return Line(f"✗ {name}, {outcome.seconds:.1f} s{code}{told}", "bad")
        case "stopped":
            return Line(f"✗ {name} {outcome.status.replace('_', ' ')} after {outcome.seconds:.1f} s{told}", "bad")
        case "unknown":
            return Line(f"? {name} was started, how it ended is not known{told}", "bad")
        case "never_started":
            tone: Tone = "quiet" if name == FINISH_CALL else "bad"
            return Line(f"✗ {name} did not run{told}", tone)
