"""A large file through a provider that ends every stream after 4,000 characters of arguments, with the real command."""

from pathlib import Path

import pytest
from support.processes.commands import command, configure, facts_of, provider
from support.turns.histories import in_pieces

from turnbuckle.lab.cases.drafts import PATH, SIZE, TEXT
from turnbuckle.turn.facts import Decided, RunEnded, Streamed, ToolStarted
from turnbuckle.vocab.events import CallArgs
from turnbuckle.vocab.ids import ProtocolName


@pytest.mark.process
@pytest.mark.requirement("B4", "B8")
@in_pieces
def test_a_large_file_gets_through_and_is_generated_about_once(
    protocol: ProtocolName, tmp_path: Path
) -> None:
    with provider("long-write-by-drafts") as lab:
        configure(tmp_path, lab.url, protocol)
        ran = command(tmp_path, "run", "write the long file")
    facts = facts_of(tmp_path)
    events = [event for fact in facts if isinstance(fact, Streamed) for event in fact.events]
    generated = sum(len(event.text) for event in events if isinstance(event, CallArgs))
    assert ran.code == 0, ran.err
    assert ran.out == "The file is written.\n"
    assert (tmp_path / PATH).read_text() == TEXT
    assert [fact.name for fact in facts if isinstance(fact, ToolStarted)] == ["write_file"]
    assert generated <= 1.15 * SIZE
    assert "in write_file, 3,889 characters kept, finishing the draft" in ran.err
    cuts = sum(isinstance(fact, Decided) for fact in facts)
    assert cuts >= SIZE // 4000
    assert "wasted: " in ran.err
    assert f"(incomplete ×{cuts})" in ran.err


@pytest.mark.process
@pytest.mark.requirement("B7")
@in_pieces
def test_a_model_that_ignores_drafts_gets_through_by_smaller_calls(
    protocol: ProtocolName, tmp_path: Path
) -> None:
    with provider("long-write-by-smaller-calls") as lab:
        configure(tmp_path, lab.url, protocol)
        ran = command(tmp_path, "run", "write the long file")
    assert ran.code == 0, ran.err
    assert (tmp_path / PATH).read_text() == TEXT
    assert command(tmp_path, "drafts", "list").err == "no open drafts\n"


@pytest.mark.process
@pytest.mark.requirement("B6", "B9", "C6")
def test_a_model_that_ignores_everything_ends_honestly_and_its_draft_can_be_saved(tmp_path: Path) -> None:
    with provider("long-write-stubborn") as lab:
        configure(tmp_path, lab.url)
        ran = command(tmp_path, "run", "write the long file")
        asked = len(lab.requests)
    last = facts_of(tmp_path)[-1]
    assert isinstance(last, RunEnded)
    assert last.outcome.kind == "partial"
    assert ran.code == 3
    assert asked <= 10
    assert not (tmp_path / PATH).exists()
    name = ran.err.rstrip().rpartition("turnbuckle drafts show ")[2]
    saved = command(tmp_path, "drafts", "save", name, "kept.txt")
    assert saved.code == 0, saved.err
    kept = (tmp_path / "kept.txt").read_text()
    assert len(kept) > 3000
    assert TEXT.startswith(kept)
