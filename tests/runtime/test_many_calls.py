"""Replies with more calls than anybody needs."""

import cProfile
from pathlib import Path

import pytest
from support.runs.run_harness import run_case

from turnbuckle.lab.script import Call, Case, Finish, Say
from turnbuckle.turn.calls import MOST_CALLS, SIDE_BY_SIDE
from turnbuckle.turn.facts import ToolFinished, ToolStarted
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


def many(count: int, tool: str = "get_weather") -> Case:
    calls = [Call(tool, {"city": f"Town {number}"}) for number in range(count)]
    return Case("many", "calls without end", ((*calls, Finish()), (Say("Done."), Finish())))


@pytest.mark.requirement("R12", "C5")
@EVERY
def test_calls_beyond_the_cap_are_refused_in_a_legal_history(tmp_path: Path, protocol: ProtocolName):
    """Given a reply with 200 calls, then 128 run, and each of the others has its answer."""
    record = run_case(tmp_path, many(200), protocol=protocol)
    assert record.outcome.kind == "completed"
    assert len(record.started) == MOST_CALLS
    results = [part for message in record.turn.messages if message.role == "tool" for part in message.parts]
    assert len(results) == 200
    refused = [part for part in results if f"more than {MOST_CALLS} calls" in str(part)]
    assert len(refused) == 200 - MOST_CALLS
    assert results[-1] is refused[-1]
    assert "more than 128 calls" in record.body(1)


def work_of(folder: Path, count: int, same_id: bool) -> int:
    """How many functions are called to get through a reply of so many calls."""
    calls = [
        Call("get_weather", {"city": f"Town {number}"}, id="one" if same_id else "")
        for number in range(count)
    ]
    case = Case("many", "calls without end", ((*calls, Finish()), (Say("Done."), Finish())))
    folder.mkdir()
    profile = cProfile.Profile()
    record = profile.runcall(run_case, folder, case)
    assert record.outcome.kind == "completed"
    assert len(record.started) == MOST_CALLS
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.requirement("R1", "R12")
@pytest.mark.parametrize("same_id", [False, True])
def test_thousands_of_calls_cost_as_much_each_as_a_few(tmp_path: Path, same_id: bool):
    """Given replies of 1,000 and of 2,000 calls, also if all have one id, then twice as many cost twice as much."""
    few, many_more = (work_of(tmp_path / str(count), count, same_id) for count in (1_000, 2_000))
    assert many_more < 2.3 * few


@pytest.mark.requirement("R12")
def test_reads_run_side_by_side_a_few_at_a_time(tmp_path: Path):
    record = run_case(tmp_path, many(40))
    at_once = most = 0
    for fact in record.facts:
        at_once += isinstance(fact, ToolStarted) - isinstance(fact, ToolFinished)
        most = max(most, at_once)
    assert most == SIDE_BY_SIDE
