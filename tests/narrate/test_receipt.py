"""What a stop has ended, told truly, wherever it struck."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from support.observe.observed_runs import world_facts
from support.runs.run_harness import RunHarness, run_case, run_scenario
from support.turns.histories import in_pieces
from support.turns.turn_facts import START, ask, burst, called, said
from support.worlds.tasks import TASKS

from turnbuckle.lab.script import Call, Case, Finish, More, Say, Stall
from turnbuckle.narrate.receipt import Receipt, StoppedModelCall, StoppedTool, UnstartedCall, receipt
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.testing.world.campaign import faults_of
from turnbuckle.testing.world.faults import StopInReply, StopInTool
from turnbuckle.testing.world.run_world import RunWorld
from turnbuckle.tools.spec import tool
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    Decided,
    Fact,
    RunClaimed,
    RunEnded,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.events import CallArgs, CallStarted, Cut, ReasoningDelta, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import PROTOCOL_NAMES, DraftId, RunId
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome

CANCELLED = Outcome("cancelled", "stopped")
STOPPED = Cut(failure("cancelled", "stopped"))


@tool(effect="write")
async def sits_still() -> str:
    """Wait until somebody stops it."""
    await asyncio.Event().wait()
    return "never"


def stopped_at(
    folder: Path, case, moment: type[Fact], *, count: int = 1, wait: float = 0.0, **setting
) -> Receipt:
    """Stop a real run a little after a moment, and make out the receipt."""

    async def scenario(harness: RunHarness) -> Receipt:
        running = await harness.start()
        await harness.until(running, moment, count)
        await harness.clock.sleep(wait)
        running.stop("ann")
        await running.outcome()
        return receipt(await harness.facts(running.run))

    return run_scenario(folder, case, scenario, **setting)


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_stop_before_the_first_word(tmp_path: Path, protocol):
    got = stopped_at(tmp_path, "silent", type(ask()), wait=3.0, protocol=protocol)
    assert (got.stopped, got.outcome.kind, got.by) == (True, "cancelled", "ann")
    assert got.model_call == StoppedModelCall("main", "model-of-main", 0)
    assert got.waiting_on == WaitingOn("provider_first_token", "model-of-main", 0.0)
    assert (got.tools, got.not_started, got.drafts) == ((), (), ())
    assert got.seconds is not None
    assert got.seconds < 1


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_stop_in_the_middle_of_a_text(tmp_path: Path, protocol):
    case = Case("half", "", ((Say("Half of it"), Stall("forever")),))
    got = stopped_at(tmp_path, case, Streamed, wait=3.0, protocol=protocol)
    assert got.model_call == StoppedModelCall("main", "model-of-main", len("Half of it"))
    assert got.waiting_on.kind == "provider"
    assert got.stopped
    assert got.seconds is not None
    assert got.seconds < 1


@pytest.mark.requirement("F5")
@in_pieces
def test_a_stop_in_the_middle_of_arguments_keeps_the_draft_and_names_it(tmp_path: Path, protocol):
    begun = '{"path": "a.txt", "content": "the beginning of a long'
    case = Case(
        "half", "", ((Call("write_file", begun, closed=False), Stall("forever"), More("er file"), Finish()),)
    )
    got = stopped_at(tmp_path, case, Streamed, wait=3.0, protocol=protocol)
    assert got.model_call == StoppedModelCall("main", "model-of-main", len(begun))
    assert got.waiting_on.detail == f"model-of-main: write_file, {len(begun)} characters"
    assert len(got.drafts) == 1
    assert got.drafts == got.outcome.drafts


@pytest.mark.requirement("F5")
def test_a_stop_while_a_tool_runs_names_it_and_those_that_never_began(tmp_path: Path):
    calls = (Call("sits_still", {}, id="c1"), Call("sits_still", {}, id="c2"), Finish())
    got = stopped_at(tmp_path, Case("waits", "", (calls,)), ToolStarted, wait=2.0, tools=(sits_still,))
    assert (got.stopped, got.model_call) == (True, None)
    ((stopped),) = got.tools
    assert (stopped.call_id, stopped.name, stopped.status) == ("c1", "sits_still", "killed")
    assert stopped.seconds == pytest.approx(2.0)
    assert got.not_started == (UnstartedCall("c2", "sits_still"),)
    assert got.waiting_on.kind == "tool"


@pytest.mark.requirement("F5")
def test_a_stop_in_the_wait_before_the_next_try(tmp_path: Path):
    got = stopped_at(tmp_path, "rate-limited", Decided, wait=0.5)
    assert (got.stopped, got.model_call, got.tools) == (True, None, ())
    assert got.waiting_on.kind == "rate_limit"
    assert got.seconds is not None
    assert got.seconds < 1


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("case", ["happy", "unauthorized", "stalls-in-text"])
def test_a_stop_of_a_run_that_has_ended_changes_nothing_and_says_so(tmp_path: Path, case: str):
    record = run_case(tmp_path, case)
    assert receipt(record.facts) == Receipt(RunId("r2"), outcome=record.outcome, drafts=record.outcome.drafts)
    assert receipt(record.facts, too_late=True) == receipt(record.facts)


@pytest.mark.requirement("F5")
def test_a_second_stop_of_a_run_that_the_first_one_ended_has_stopped_nothing():
    facts = [START, ask(), StopAsked(3.0, "ann"), burst(STOPPED), RunEnded(4.0, CANCELLED)]
    assert receipt(facts).stopped
    assert receipt(facts, too_late=True) == Receipt(RunId("r"), outcome=CANCELLED)


def test_a_run_that_was_done_as_the_wish_came_was_not_stopped():
    got = receipt([START, ask(), StopAsked(3.0), said("all of it"), RunEnded(4.0, Outcome("completed"))])
    assert (got.stopped, got.outcome.kind, got.model_call, got.seconds) == (False, "completed", None, 1.0)


def test_a_run_that_has_not_ended_yet_has_no_outcome():
    got = receipt([START, ask(), StopAsked(3.0, "ann")])
    assert (got.stopped, got.outcome, got.by, got.seconds) == (False, None, "ann", None)


def test_a_tool_that_could_not_be_stopped_names_what_may_be_at_work():
    killed = ToolOutcome("killed", seconds=2.5, killed=("sh (7)",), survivors=("daemon (9)",))
    facts = [
        START,
        ask(),
        called(("c", "shell", '{"command":"x"}'), ("d", "look", "{}")),
        ToolStarted(4.0, "c", "shell", {"command": "x"}, "k"),
        StopAsked(5.0),
        StopAsked(5.5, "another"),
        ToolFinished(6.0, "c", "shell", killed),
        ToolFinished(6.0, "d", "look", ToolOutcome("not_started")),
        RunEnded(7.0, Outcome("cancelled", "stopped", drafts=(DraftId("d1"),))),
    ]
    got = receipt(facts)
    assert got.tools == (StoppedTool("c", "shell", "killed", ("sh (7)",), ("daemon (9)",), 2.5),)
    assert (got.by, got.seconds, got.drafts) == ("user", 2.0, (DraftId("d1"),))


def test_only_what_the_stop_ended_is_on_the_receipt():
    facts = [
        START,
        ask(),
        called(("c", "look", "{}"), ("d", "rm_all", "{}")),
        ToolStarted(4.0, "c", "look", {}, "k"),
        ToolFinished(4.5, "c", "look", ToolOutcome("finished")),
        ToolFinished(4.5, "d", "rm_all", ToolOutcome("not_started")),
        ask(2, at=5.0),
        burst(TextDelta(0, "lost"), Cut(failure("reset", "gone")), number=2),
        ask(3, at=6.0),
        burst(ReasoningDelta(0, "ab"), CallStarted(1, "c", "look"), CallArgs(1, "{"), number=3),
        StopAsked(7.0),
        burst(STOPPED, number=3),
        RunEnded(8.0, CANCELLED),
    ]
    got = receipt(facts)
    assert (got.tools, got.not_started) == ((), ())
    assert got.model_call.characters_received == 3


def test_consents_that_nobody_gave_any_more_are_named():
    facts = [
        START,
        ApprovalAsked(2.0, "a1", "c", "shell", {}),
        ApprovalAsked(2.0, "a2", "d", "shell", {}),
        ApprovalAnswered(3.0, "a1", "denied"),
        StopAsked(4.0),
        ApprovalAnswered(4.0, "a2", "withdrawn"),
        RunEnded(5.0, CANCELLED),
    ]
    assert receipt(facts).approvals_withdrawn == ("a2",)


def test_a_tool_of_a_dead_process_is_on_the_receipt_as_unknown():
    facts = [
        START,
        ToolStarted(4.0, "c", "shell", {}, "k"),
        StopAsked(5.0),
        RunClaimed(9.0, 2),
        ToolFinished(9.0, "c", "shell", ToolOutcome("unknown")),
        RunEnded(9.0, CANCELLED),
    ]
    assert receipt(facts).tools == (StoppedTool("c", "shell", "unknown"),)


def test_a_receipt_is_a_value_that_json_can_carry():
    made = receipt([START, ask(), StopAsked(3.0), burst(STOPPED), RunEnded(4.0, CANCELLED)])
    assert msgspec.json.decode(msgspec.json.encode(made), type=Receipt) == made


@pytest.mark.requirement("F5")
@pytest.mark.parametrize(
    "name", ["a long answer", "three rounds", "a flag and a command", "a draft, finished in pieces"]
)
def test_the_receipt_is_true_wherever_the_stop_strikes(name: str, record_property):
    task = next(task for task in TASKS if task.name == name)
    base = asyncio.run(RunWorld(task).play())
    tried: Counter[str] = Counter()
    for fault in faults_of(base, ()):
        if not isinstance(fault, StopInReply | StopInTool):
            continue
        facts = world_facts(task, fault)
        got, at = receipt(facts), next(at for at, fact in enumerate(facts) if isinstance(fact, StopAsked))
        ended = {fact.call_id for fact in facts[at:] if isinstance(fact, ToolFinished)}
        began = {fact.call_id for fact in facts if isinstance(fact, ToolStarted)}
        cut = [fact for fact in facts[at:] if isinstance(fact, Streamed) and isinstance(fact.events[-1], Cut)]
        assert got.stopped == (facts[-1].outcome.kind == "cancelled")
        assert {stopped.call_id for stopped in got.tools} == ended & began
        assert {left.call_id for left in got.not_started} == ended - began
        assert (got.model_call is not None) == bool(cut)
        assert got.drafts == facts[-1].outcome.drafts
        tried[type(fault).__name__] += got.stopped
    record_property("worlds tried", tried.total())
    assert tried["StopInReply"] > 3
