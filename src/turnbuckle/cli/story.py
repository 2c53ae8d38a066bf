"""A run as a person reads it: facts in, pieces to show out. It keeps no text and looks at no clock."""

from typing import Literal

from msgspec import Struct

from turnbuckle.turn.facts import (
    Decided,
    Fact,
    ModelAsked,
    RunClaimed,
    RunEnded,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.vocab.events import ReasoningDelta, RefusalDelta, TextDelta
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome

Tone = Literal["tool", "notice", "quiet", "bad"]


class Text(Struct, frozen=True):
    """Words of the model, as they came."""

    text: str
    reasoning: bool = False


class Break(Struct, frozen=True):
    """What comes next is another paragraph."""


class Line(Struct, frozen=True):
    """One line about what happens."""

    text: str
    tone: Tone = "quiet"


Piece = Text | Break | Line


class Story:
    """Turns facts into pieces. `started_at` and tool names are all that it remembers."""

    def __init__(self, reasoning: bool = False) -> None:
        self.reasoning = reasoning
        self._thinking = False
        self._began = 0.0

    def take(self, fact: Fact) -> list[Piece]:
        self._began = self._began or fact.at
        match fact:
            case Streamed():
                return self._streamed(fact)
            case RunStarted(notice=notice) if notice:
                return [Line(notice, "notice")]
            case ModelAsked(why="after_tools" | "steered"):
                return [Break()]
            case ToolStarted(_, _, name, arguments):
                return [Break(), Line(f"→ {name} {short_argument(arguments)}".rstrip(), "tool")]
            case ToolFinished(_, _, name, outcome):
                return [Break(), _result_line(name, outcome)]
            case Decided(notice=notice) if notice:
                return [Line(notice, "notice")]
            case RunClaimed():
                return [Break(), Line("taken up again after its process died")]
            case StopAsked():
                return [Break(), Line("stopping", "notice")]
            case RunEnded(at, outcome):
                return [Break(), outcome_line(outcome, at - self._began)]
            case _:
                return []

    def _streamed(self, fact: Streamed) -> list[Piece]:
        pieces: list[Piece] = []
        for event in fact.events:
            if isinstance(event, TextDelta | RefusalDelta):
                if self._thinking:
                    self._thinking = False
                    pieces.append(Break())
                pieces.append(Text(event.text))
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
