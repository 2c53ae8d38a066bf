"""What becomes of a call that was cut, by the ids of the scenario catalogue (T1 to T3)."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.runs.run_harness import RunRecord, run_case
from support.turns.histories import in_pieces

from turnbuckle.lab.cases.drafts import BLOCKS, NOTE, TEXT, finishes_drafts
from turnbuckle.lab.script import Case, LabRequest, ScriptItem
from turnbuckle.turn.facts import DraftClosed
from turnbuckle.vocab.events import CallArgs
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import ResultPart, TextPart

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


def results(record: RunRecord) -> list[str]:
    """The results as the model was told them."""
    parts = [
        part for message in record.turn.messages for part in message.parts if isinstance(part, ResultPart)
    ]
    return ["".join(text.text for text in part.content if isinstance(text, TextPart)) for part in parts]


@pytest.mark.requirement("B1", "B4", "D1")
@in_pieces
def test_T1_arguments_that_were_cut_never_reach_a_tool_and_the_model_is_told(
    tmp_path: Path, protocol: ProtocolName
):
    """Cut in mid-string: nothing starts, and the model learns what arrived of its call and why it stopped there."""
    record = run_case(tmp_path, "cut-in-arguments", protocol=protocol)
    assert record.started == []
    assert list(record.workspace.iterdir()) == []
    assert "Your call of write_file was cut on its way. Nothing ran yet" in record.body(1)
    assert "the first 20 characters" in record.body(1)
    assert 'The first li\\"' in record.body(1)
    assert "write_file" in record.notices[0]


@pytest.mark.requirement("B8")
@in_pieces
def test_T2_a_cut_write_is_kept_out_of_sight_finished_and_appears_at_once(
    tmp_path: Path, protocol: ProtocolName
):
    """Each stream dies after 4,000 characters: the draft is nowhere to be seen, only the rest is asked for, and the
    file appears whole."""
    target = tmp_path / "workspace" / "long.txt"
    there: list[bool] = []

    def watching(request: LabRequest) -> Iterable[ScriptItem]:
        there.append(target.exists())
        return finishes_drafts(request)

    record = run_case(tmp_path, Case("watched", "", ((watching,),)), protocol=protocol)
    assert record.outcome.kind == "completed"
    assert target.read_text() == TEXT
    assert there == [False] * (len(there) - 1) + [True]
    assert [started.name for started in record.started] == ["write_file"]
    assert [path.name for path in record.workspace.iterdir()] == ["long.txt"]
    generated = sum(len(event.text) for event in record.events if isinstance(event, CallArgs))
    assert generated <= 1.15 * len(TEXT)


@pytest.mark.requirement("B8", "B13")
@in_pieces
@pytest.mark.parametrize("case", ["draft-with-overlap", "draft-in-a-fence", "draft-behind-a-preface"])
def test_T3_what_a_rest_has_too_much_is_asked_about_and_left_out(
    tmp_path: Path, protocol: ProtocolName, case: str
):
    """The rest begins with the draft's last 50 characters, or has something around it: asked once, written once."""
    record = run_case(tmp_path, case, protocol=protocol)
    assert (record.workspace / "note.md").read_text() == NOTE
    assert [closed.how for closed in record.of(DraftClosed)] == ["finished"]
    assert [started.name for started in record.started] == ["write_file"]
    assert sum("reading" in told for told in results(record)) == 1


@pytest.mark.requirement("B8", "B13")
@in_pieces
def test_T3_no_block_is_lost_of_several_equal_ones(tmp_path: Path, protocol: ProtocolName):
    """The cut is inside the second of four equal blocks, and the model goes on exactly there."""
    record = run_case(tmp_path, "draft-of-equal-blocks", protocol=protocol)
    assert (record.workspace / "note.md").read_text() == BLOCKS
    assert [closed.how for closed in record.of(DraftClosed)] == ["finished"]


@pytest.mark.requirement("B8", "B9")
@in_pieces
def test_T3_a_rest_behind_other_words_is_not_joined(tmp_path: Path, protocol: ProtocolName):
    """The anchor is nowhere in the draft: nothing is joined or run, the model is shown the true end, the draft stays."""
    record = run_case(tmp_path, "draft-with-wrong-anchor", protocol=protocol)
    assert not (record.workspace / "note.md").exists()
    assert record.started == []
    (told,) = results(record)
    assert told.startswith("Not run: nothing happened. Not joined")
    assert NOTE[40:70] in told
    assert record.outcome.drafts == ("d1",)


@pytest.mark.requirement("B8", "B9", "B13")
@in_pieces
@pytest.mark.parametrize(
    "case", ["small-model-copies-the-tail", "small-model-shortens-the-file", "small-model-answers-in-text"]
)
def test_T3_a_part_is_never_written_in_place_of_the_whole(tmp_path: Path, protocol: ProtocolName, case: str):
    """A small model does something else than it was asked for: no file, no success, and what arrived is kept."""
    record = run_case(tmp_path, case, protocol=protocol)
    assert not (record.workspace / "small.txt").exists()
    assert record.started == []
    assert record.outcome.kind == "partial"
    assert record.outcome.drafts == ("d1",)
