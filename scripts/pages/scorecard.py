"""The scorecard: every case of the lab, played to the whole runtime, and what came of it.

The lab's provider answers over real sockets; time is virtual, so that silent hours take a moment; the
settings are the defaults. Each case is played twice: with one route, which breaks, and with a second one
behind it, which works. Everything here follows from the code alone, so the table can be compared to the
character.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct
from support.runs.run_harness import MAIN, run_case

from turnbuckle.call.limits import StallSettings
from turnbuckle.lab.cases.breaks import BREAKS
from turnbuckle.lab.cases.calls import CALLS
from turnbuckle.lab.cases.drafts import DRAFTS, SIZE
from turnbuckle.lab.cases.errors import ERRORS
from turnbuckle.lab.cases.finishes import FINISHES
from turnbuckle.lab.cases.refusals import REFUSALS
from turnbuckle.lab.cases.spellings import SPELLINGS
from turnbuckle.lab.cases.whole import WHOLE
from turnbuckle.lab.script import Case
from turnbuckle.vocab.events import CallArgs

GROUPS: dict[str, tuple[Case, ...]] = {
    "sound streams, in every spelling and at every pace": (*WHOLE, *SPELLINGS),
    "calls: whole, mixed up, cut, malformed": CALLS,
    "long files cut every 4,000 characters": DRAFTS,
    "silence, resets, closes, half events": BREAKS,
    "errors, limits, foreign bodies": ERRORS,
    "requests that are refused as they are": REFUSALS,
    "ends that lie or say nothing": FINISHES,
}
SHOWN = (
    "reset-in-text",
    "continues-with-overlap",
    "comments-only",
    "cut-in-shell",
    "cut-in-arguments",
    "long-write-by-drafts",
    "long-write-stubborn",
    "length-called-tool-calls",
    "silent",
    "rate-limited-once",
    "html-page",
    "unauthorized",
)


class End(Struct, frozen=True):
    """How one run went: its outcome, the model calls and seconds it took, and the characters of all
    arguments."""

    outcome: str
    calls: int
    seconds: int
    arguments: int

    def __str__(self) -> str:
        return f"{self.outcome}, {self.calls} model call{'s' if self.calls > 1 else ''}, {self.seconds} s"


class Row(Struct, frozen=True):
    """How one case went: alone, and with a good route behind it."""

    group: str
    case: str
    summary: str
    alone: End
    backed: End


def rows_of(group: str) -> list[Row]:
    """Each case of a group, played both ways."""
    return [
        Row(
            group, case.name, case.summary, _played({MAIN: case}), _played({MAIN: case, "elsewhere": "happy"})
        )
        for case in GROUPS[group]
    ]


def lines(rows: Iterable[Row]) -> str:
    """Rows as they are kept."""
    return "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)


def read(text: str) -> list[Row]:
    """Rows that were kept."""
    return [msgspec.json.decode(line, type=Row) for line in text.splitlines()]


def tables(rows: list[Row]) -> str:
    """What the page shows: totals, the cases that people ask about, and all of them."""
    by_name = {row.case: row for row in rows}
    drafted = by_name["long-write-by-drafts"].alone
    more = f"{drafted.arguments / SIZE - 1:.0%}"
    words = (
        f"The file of {SIZE:,} characters in `long-write-by-drafts` is written once and whole. The "
        "arguments of all\n"
        f"its calls together are {more} longer than the file: that is what the checked seams cost."
    )
    every = f"<details><summary>Every case</summary>\n\n{_listed(rows)}\n\n</details>"
    return "\n\n".join([_totals(rows), _listed([by_name[name] for name in SHOWN]), words, every])


def _played(cases: dict[str, Case | str]) -> End:
    with tempfile.TemporaryDirectory() as folder:
        record = run_case(Path(folder), cases, stall=StallSettings())
    said = sum(len(event.text) for event in record.events if isinstance(event, CallArgs))
    return End(record.outcome.kind, len(record.asked), round(record.seconds), said)


def _totals(rows: list[Row]) -> str:
    made = [
        (
            "| what the provider does | cases | one route: completed, partial, failed | with a second route: "
            "the same |"
        ),
        "|---|---|---|---|",
    ]
    groups = {name: [row for row in rows if row.group == name] for name in GROUPS}
    for name, inside in (*groups.items(), ("**all**", rows)):
        alone, backed = _kinds(row.alone for row in inside), _kinds(row.backed for row in inside)
        made.append(f"| {name} | {len(inside)} | {alone} | {backed} |")
    return "\n".join(made)


def _kinds(ends: Iterable[End]) -> str:
    count = Counter(end.outcome for end in ends)
    return ", ".join(str(count[kind]) for kind in ("completed", "partial", "failed"))


def _listed(rows: list[Row]) -> str:
    made = ["| case | what the provider does | one route | with a second route |", "|---|---|---|---|"]
    made += [f"| `{row.case}` | {row.summary} | {row.alone} | {row.backed} |" for row in rows]
    return "\n".join(made)
