"""What a reader sees where a text broke off and went on (P31)."""

from pathlib import Path

import pytest
from support.runs.run_harness import RunHarness, RunRecord, run_case, run_scenario

from turnbuckle.lab.cases.breaks import DOCUMENT, REFUSES
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.script import Case, CutOff, Finish, Say
from turnbuckle.reply.anchored_seam import NOTICE_NEW
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.runs import NewRun
from turnbuckle.turn.facts import Noticed
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import RunOptions

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


@pytest.mark.requirement("B13")
@EVERY
def test_P31_an_answer_to_something_else_is_not_glued_on(tmp_path: Path, protocol: ProtocolName):
    """The continuation refuses in the middle of a sentence: it stands behind a break, and the reader is told."""
    record = run_case(tmp_path, "answers-something-else", protocol=protocol)
    assert record.shown == f"{ANSWER[:44]}\n\n{REFUSES}"
    assert [fact.notice for fact in record.of(Noticed)] == [NOTICE_NEW]


@pytest.mark.requirement("C10")
@EVERY
def test_P31_a_cut_document_becomes_one_document(tmp_path: Path, protocol: ProtocolName):
    """Forced into its form again the model would begin another document: it is asked for the rest without that."""

    async def scenario(harness: RunHarness) -> RunRecord:
        options = RunOptions(response_format={"type": "json_object"})
        running = await harness.runs.begin(NewRun((task_message("Where?"),), options=options))
        await running.outcome()
        return await harness.record(running.run)

    record = run_scenario(tmp_path, "cut-in-a-document", scenario, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert record.shown == DOCUMENT


@pytest.mark.requirement("B3", "B13")
@pytest.mark.parametrize("cut", [6, 44, 97])
def test_P31_a_small_model_is_asked_the_same_again_and_only_what_is_new_is_shown(tmp_path: Path, cut: int):
    """It gets no note that it could take for the question, and nothing of the answer that broke off."""
    case = Case("own", "cut, then whole", ((Say(ANSWER[:cut]), CutOff("reset")), (Say(ANSWER), Finish())))
    record = run_case(tmp_path, case, route={"quirks": Quirks(drafts="text")})
    assert (record.outcome.kind, record.shown) == ("completed", ANSWER)
    first, second = (request.body["messages"] for request in record.requests)
    assert first == second
