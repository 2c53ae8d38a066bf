"""The scorecard as text for people and as lines for programs."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from turnbuckle.lab.score.grades import GRADES, Mark, waste_of
from turnbuckle.lab.score.player import ScoreRow, Scoring

_SIGNS = {True: "✓", False: "✗", None: "–"}
_PROMISES = {"kept": "nothing lost", "untouched": "nothing half done", "comes back": "comes back"}
"""What a grade is called in the last line; the others have their own names."""
_LABELS = {"comes back": "back"}
_NAME = 26
"""Columns for a name and " (plain)". All together 80."""
_LEAST = 5  # columns for a mark; the totals need them


def opening(scoring: Scoring, provider: str, *, own_tools: bool) -> str:
    """What is played to whom."""
    kind = (
        "an agent with tools of its own"
        if own_tools
        else "a relay: it offers its model no tools, so the client does"
    )
    looked = (
        f"\nTraces of cut calls are looked for in {scoring.canary}." if scoring.canary and own_tools else ""
    )
    return f"{scoring.server}, asking {provider}:\n{kind}.{looked}"


def head() -> str:
    """The line above the marks."""
    return f"{'case':<{_NAME}}{_joined(_cell(_LABELS.get(name, name), name) for name in GRADES)}".rstrip()


def line(row: ScoreRow) -> str:
    """One row, with a sentence for each mark that was not given."""
    signs = _joined(_cell(_SIGNS[mark.given], name) for name, mark in row.marks.items())
    reasons = [f"    {name}: {mark.why}" for name, mark in row.marks.items() if mark.given is False]
    if row.play.idle:
        reasons.append(f"    not played: {row.play.idle}")
    return "\n".join([f"{_title(row):<{_NAME}}{signs}".rstrip(), *reasons])


def totals(rows: Sequence[ScoreRow]) -> dict[str, tuple[int, int]]:
    """For each grade: how often it was given, of how often it applied."""
    return {name: _given([row.marks[name] for row in rows]) for name in GRADES}


def foot(rows: Sequence[ScoreRow]) -> str:
    """The totals, and what is worth quoting."""
    found = totals(rows)
    counts = [f"{_PROMISES.get(name, name)} {given}/{of}" for name, (given, of) in found.items() if of]
    unseen = [_PROMISES.get(name, name) for name, (_, of) in found.items() if not of]
    signs = _joined(_cell(f"{given}/{of}", name) for name, (given, of) in found.items())
    lines = [f"{'all':<{_NAME}}{signs}".rstrip(), "", " · ".join(counts)]
    return "\n".join([*lines, *([f"Not seen here: {', '.join(unseen)}."] if unseen else [])])


def as_json(row: ScoreRow) -> str:
    """One row for programs."""
    play = row.play
    told: dict[str, Any] = {
        "case": row.trial,
        "plain": play.heard.plain,
        "marks": {name: mark.given for name, mark in row.marks.items()},
        "why": {name: mark.why for name, mark in row.marks.items() if mark.why},
        "end": play.heard.end,
        "finish": play.heard.finish,
        "error": play.heard.error,
        "seconds": round(play.heard.seconds, 3),
        "requests": len(play.attempts),
        "characters": sum(attempt.characters for attempt in play.attempts),
        "waste": round(waste_of(play), 3),
        "idle": play.idle,
    }
    return msgspec.json.encode(told).decode()


def totals_as_json(rows: Sequence[ScoreRow]) -> str:
    """The last line for programs."""
    found = {name: {"given": given, "of": of} for name, (given, of) in totals(rows).items()}
    return msgspec.json.encode({"totals": found}).decode()


def _given(marks: Iterable[Mark]) -> tuple[int, int]:
    seen = [mark.given for mark in marks if mark.given is not None]
    return sum(seen), len(seen)


def _title(row: ScoreRow) -> str:
    return f"{row.trial} (plain)" if row.play.heard.plain else row.trial


def _cell(text: str, name: str) -> str:
    return text.center(max(len(_LABELS.get(name, name)), _LEAST))


def _joined(cells: Iterable[str]) -> str:
    return " ".join(cells)
