"""What becomes of a call that was cut, by the ids of the scenario catalogue (T1 to T3)."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from histories import in_pieces
from stage import Story, play

from turnbuckle.lab.cases.drafts import BLOCKS, NOTE, TEXT, finishes_drafts
from turnbuckle.lab.script import Case, LabRequest, ScriptItem
from turnbuckle.turn.facts import DraftClosed
from turnbuckle.vocab.events import CallArgs
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import ResultPart, TextPart

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


def results(story: Story) -> list[str]:
    """The results as the model was told them."""
    parts = [
        part for message in story.turn.messages for part in message.parts if isinstance(part, ResultPart)
    ]
    return ["".join(text.text for text in part.content if isinstance(text, TextPart)) for part in parts]


@pytest.mark.requirement("B1", "B4", "D1")
@in_pieces
def test_T1_arguments_that_were_cut_never_reach_a_tool_and_the_model_is_told(
    tmp_path: Path, protocol: ProtocolName
):
    """Cut in mid-string: nothing starts, and the model learns what arrived of its call and why it stopped there."""
    story = play(tmp_path, "cut-in-arguments", protocol=protocol)
    assert story.started == []
    assert list(story.workspace.iterdir()) == []
    assert "Your call of write_file was cut on its way. Nothing ran yet" in story.body(1)
    assert "the first 20 characters" in story.body(1)
    assert 'The first li\\"' in story.body(1)
    assert "write_file" in story.notices[0]


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

    story = play(tmp_path, Case("watched", "", ((watching,),)), protocol=protocol)
    assert story.outcome.kind == "completed"
    assert target.read_text() == TEXT
    assert there == [False] * (len(there) - 1) + [True]
    assert [started.name for started in story.started] == ["write_file"]
    assert [path.name for path in story.workspace.iterdir()] == ["long.txt"]
    generated = sum(len(event.text) for event in story.events if isinstance(event, CallArgs))
    assert generated <= 1.15 * len(TEXT)


@pytest.mark.requirement("B8", "B13")
@in_pieces
@pytest.mark.parametrize("case", ["draft-with-overlap", "draft-in-a-fence", "draft-behind-a-preface"])
def test_T3_what_a_rest_has_too_much_is_asked_about_and_left_out(
    tmp_path: Path, protocol: ProtocolName, case: str
):
    """The rest begins with the draft's last 50 characters, or has something around it: asked once, written once."""
    story = play(tmp_path, case, protocol=protocol)
    assert (story.workspace / "note.md").read_text() == NOTE
    assert [closed.how for closed in story.of(DraftClosed)] == ["finished"]
    assert [started.name for started in story.started] == ["write_file"]
    assert sum("reading" in told for told in results(story)) == 1


@pytest.mark.requirement("B8", "B13")
@in_pieces
def test_T3_no_block_is_lost_of_several_equal_ones(tmp_path: Path, protocol: ProtocolName):
    """The cut is inside the second of four equal blocks, and the model goes on exactly there."""
    story = play(tmp_path, "draft-of-equal-blocks", protocol=protocol)
    assert (story.workspace / "note.md").read_text() == BLOCKS
    assert [closed.how for closed in story.of(DraftClosed)] == ["finished"]


@pytest.mark.requirement("B8", "B9")
@in_pieces
def test_T3_a_rest_behind_other_words_is_not_joined(tmp_path: Path, protocol: ProtocolName):
    """The anchor is nowhere in the draft: nothing is joined or run, the model is shown the true end, the draft stays."""
    story = play(tmp_path, "draft-with-wrong-anchor", protocol=protocol)
    assert not (story.workspace / "note.md").exists()
    assert story.started == []
    (told,) = results(story)
    assert told.startswith("Not run: nothing happened. Not joined")
    assert NOTE[40:70] in told
    assert story.outcome.drafts == ("d1",)


@pytest.mark.requirement("B8", "B9", "B13")
@in_pieces
@pytest.mark.parametrize(
    "case", ["small-model-copies-the-tail", "small-model-shortens-the-file", "small-model-answers-in-text"]
)
def test_T3_a_part_is_never_written_in_place_of_the_whole(tmp_path: Path, protocol: ProtocolName, case: str):
    """A small model does something else than it was asked for: no file, no success, and what arrived is kept."""
    story = play(tmp_path, case, protocol=protocol)
    assert not (story.workspace / "small.txt").exists()
    assert story.started == []
    assert story.outcome.kind == "partial"
    assert story.outcome.drafts == ("d1",)
