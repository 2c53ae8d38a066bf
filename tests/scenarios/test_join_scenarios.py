"""What a reader sees where a text broke off and went on (P31)."""

from pathlib import Path

import pytest
from stage import Stage, Story, on_stage, play

from turnbuckle.lab.cases.breaks import DOCUMENT, REFUSES
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.script import Case, CutOff, Finish, Say
from turnbuckle.reply.anchored_seam import NOTICE_NEW
from turnbuckle.runtime.runs import NewRun, task_message
from turnbuckle.turn.facts import Noticed
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import RunOptions

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


@pytest.mark.requirement("B13")
@EVERY
def test_P31_an_answer_to_something_else_is_not_glued_on(tmp_path: Path, protocol: ProtocolName):
    """The continuation refuses in the middle of a sentence: it stands behind a break, and the reader is told."""
    story = play(tmp_path, "answers-something-else", protocol=protocol)
    assert story.shown == f"{ANSWER[:44]}\n\n{REFUSES}"
    assert [fact.notice for fact in story.of(Noticed)] == [NOTICE_NEW]


@pytest.mark.requirement("C10")
@EVERY
def test_P31_a_cut_document_becomes_one_document(tmp_path: Path, protocol: ProtocolName):
    """Forced into its form again the model would begin another document: it is asked for the rest without that."""

    async def scene(stage: Stage) -> Story:
        options = RunOptions(response_format={"type": "json_object"})
        running = await stage.runs.begin(NewRun((task_message("Where?"),), options=options))
        await running.outcome()
        return await stage.story(running.run)

    story = on_stage(tmp_path, "cut-in-a-document", scene, protocol=protocol)
    assert story.outcome.kind == "completed"
    assert story.shown == DOCUMENT


@pytest.mark.requirement("B3", "B13")
@pytest.mark.parametrize("cut", [6, 44, 97])
def test_P31_a_small_model_is_asked_the_same_again_and_only_what_is_new_is_shown(tmp_path: Path, cut: int):
    """It gets no note that it could take for the question, and nothing of the answer that broke off."""
    case = Case("own", "cut, then whole", ((Say(ANSWER[:cut]), CutOff("reset")), (Say(ANSWER), Finish())))
    story = play(tmp_path, case, route={"quirks": Quirks(drafts="text")})
    assert (story.outcome.kind, story.shown) == ("completed", ANSWER)
    first, second = (request.body["messages"] for request in story.requests)
    assert first == second
