"""A run as a person reads it on a terminal, in pieces. It keeps no text and looks at no clock."""

from typing import Literal

from msgspec import Struct

from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.questions import DrawnLine, LineKind, change_lines
from turnbuckle.narrate.told import (
    ModelCalled,
    Notice,
    Paragraph,
    QuestionAsked,
    Reasoning,
    RunOver,
    Text,
    Told,
    ToolBegun,
    ToolEnded,
)
from turnbuckle.turn.facts import Fact
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import Spent, of_limit, spent_text
from turnbuckle.vocab.tooling import ToolOutcome

Tone = Literal["tool", "file", "notice", "quiet", "bad", "added", "removed", "plain"]


class Words(Struct, frozen=True):
    """Words of the model, as they came. `apart`: what must stand between these and those before them, so that
    both are paragraphs."""

    text: str
    reasoning: bool = False
    apart: str = ""


class Break(Struct, frozen=True):
    """What comes next is another paragraph."""


class Line(Struct, frozen=True):
    """One line about what happens."""

    text: str
    tone: Tone = "quiet"


Piece = Words | Break | Line

SHOWN = 8
"""Lines of a diff that are shown when a call is done."""
_TONES: dict[LineKind, Tone] = {
    "about": "quiet",
    "command": "plain",
    "file": "file",
    "added": "added",
    "removed": "removed",
    "context": "quiet",
}


def drawn(lines: list[DrawnLine]) -> list[Line]:
    """Lines for a terminal, each in its colour."""
    return [Line(line.text, _TONES[line.kind]) for line in lines]


# How a call that was cut is finished is a matter between the model and us: its tool is not named.


class PieceRenderer:
    """Draws a run as pieces. `narration` is its fold."""

    def __init__(self, reasoning: bool = False, narration: Narration | None = None) -> None:
        self.reasoning = reasoning
        self.narration = Narration() if narration is None else narration
        self._thinking = False
        self._most: float | None = None
        self._seen: set[tuple[str, str]] = set()  # changes whose diffs a person was shown with a question

    def take(self, fact: Fact) -> list[Piece]:
        if text := self.narration.going_on(fact):
            return [Words(text)]
        pieces: list[Piece] = []
        for told in self.narration.take(fact):
            pieces += self.draw(told)
        return pieces

    def draw(self, told: Told) -> list[Piece]:
        match told:
            case QuestionAsked():
                self._seen |= {(change.path, change.after) for change in told.changes}
                return []
            case Text(text, gap):
                return [*self._turn(False), Words(text[gap:], apart=text[:gap])]
            case Reasoning(text):
                return [*self._turn(True), Words(text, reasoning=True)] if self.reasoning else []
            case Paragraph():
                return [Break()]
            case ToolBegun(_, tool, _, label):
                return [Break(), Line(f"→ {tool} {label}".rstrip(), "tool")]
            case ToolEnded(_, _, outcome) if told.joins:
                return [Break(), Line(f"{'✓' if outcome.ok else '✗'} {outcome.text}")]
            case ToolEnded(_, tool, outcome):
                return [Break(), _result_line(tool, outcome), *self._changes(outcome)]
            case Notice(text, "left" | "restarted" | "crashed"):
                return [Line(text)]  # no break: what the model was saying goes on behind it
            case Notice(text):
                return [Line(text, "notice")]
            case ModelCalled():
                self._most = told.max_money
                return []
            case RunOver(_, end):
                return [Break(), outcome_line(end, told.seconds, told.spent, self._most)]
            case _:
                return []

    def _changes(self, outcome: ToolOutcome) -> list[Piece]:
        """What became of files: the beginning of each diff, or only its size if it stands there already."""
        lines: list[DrawnLine] = []
        for change in outcome.changes:
            known = (change.path, change.after) in self._seen
            lines += change_lines(change, SHOWN)[:1] if known else change_lines(change, SHOWN)
        return list(drawn(lines))

    def _turn(self, thinking: bool) -> list[Piece]:
        """From words to thoughts, or back."""
        turns, self._thinking = thinking != self._thinking, thinking
        return [Break()] if turns else []


def outcome_line(
    outcome: Outcome, seconds: float, spent: Spent | None = None, most: float | None = None
) -> Line:
    """How it ended, and what it has cost, in one line."""
    cost = ""
    if spent is not None and spent.calls:
        cost = f", {spent_text(spent)}"
        cost += "" if most is None else of_limit(most, known=spent.cost is not None)
    why = f": {outcome.why}" if outcome.why else ""
    tone: Tone = (
        "quiet" if outcome.kind == "completed" else "notice" if outcome.kind == "cancelled" else "bad"
    )
    return Line(f"{outcome.kind} after {seconds:.1f} s{cost}{why}", tone)


def _result_line(name: str, outcome: ToolOutcome) -> Line:
    first = shortened(outcome.text or outcome.partial_output)
    detail = f": {first}" if first else ""
    match outcome.fact:
        case "ended" if outcome.ok:
            return Line(f"✓ {name}, {outcome.seconds:.1f} s{detail}", "tool")
        case "ended":
            code = f", exit code {outcome.exit_code}" if outcome.exit_code else ""
            return Line(f"✗ {name}, {outcome.seconds:.1f} s{code}{detail}", "bad")
        case "stopped":
            return Line(
                f"✗ {name} {outcome.status.replace('_', ' ')} after {outcome.seconds:.1f} s{detail}", "bad"
            )
        case "unknown":
            return Line(f"? {name} was started, how it ended is not known{detail}", "bad")
        case "never_started":
            return Line(f"✗ {name} did not run{detail}", "bad")
