"""Runs that an earlier version wrote. The files are never written again: what is in them must stay readable."""

from pathlib import Path

import pytest

from turnbuckle.turn.facts import RunEnded, decode, encode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.vocab.ids import RouteName

FOLDER = Path(__file__).parent.parent / "recorded_runs"
POLICY = Policy(
    tuple(RouteFacts(RouteName(name), "openai_chat", name) for name in ("main", "other")),
    {"write_file": ToolFacts("idempotent", "content"), "read_file": ToolFacts("read")},
)
RUNS = {
    "draft": ("completed", 35),
    "fallback": ("completed", 27),
    "gave-up": ("partial", 35),
    "killed-in-text": ("completed", 60),
    "killed-in-tool": ("completed", 36),
    "limits": ("completed", 22),
}


def test_every_kept_run_is_looked_at():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(RUNS)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.requirement("E8")
def test_a_run_of_the_first_version_is_still_read_and_has_the_same_end(name):
    kind, count = RUNS[name]
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    facts = [decode(line) for line in lines]
    fold = TurnFold(POLICY)
    for fact in facts:
        fold.take(fact)
    assert len(facts) == count
    assert isinstance(facts[-1], RunEnded)
    assert (fold.turn.phase, fold.turn.outcome.kind) == ("ended", kind)
    assert [decode(encode(fact)) for fact in facts] == facts
