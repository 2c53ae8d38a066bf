"""The runtime shows every fact as it is stored, so live numbers are those of the journal."""

from pathlib import Path

import pytest
from support.observe.observed_runs import numbers, observed
from support.runs.run_harness import RunHarness, RunRecord, get_weather, run_case, run_scenario

from turnbuckle.observe.metrics import Metrics
from turnbuckle.observe.run_observer import RunObserver
from turnbuckle.turn.facts import Fact, Streamed, ToolStarted


@pytest.mark.requirement("H5", "E1")
@pytest.mark.parametrize(
    "case", ["happy", "tool", "stalls-in-text", "draft-with-overlap", "rate-limited-once", "unauthorized"]
)
def test_what_is_watched_is_what_is_stored(tmp_path: Path, case: str):
    seen: list[tuple[str, Fact]] = []
    record = run_case(tmp_path, case, watch=lambda run, fact: seen.append((run, fact)))
    assert [fact for _, fact in seen] == record.facts
    assert {run for run, _ in seen} == {record.turn.run}


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("case", ["silent-once-then-works", "draft-with-overlap", "tool"])
def test_live_numbers_are_those_of_the_journal(tmp_path: Path, case: str):
    live, folded = Metrics(routes=["main"]), Metrics(routes=["main"])
    record = run_case(tmp_path, case, watch=RunObserver([live]))
    observed(record.facts, folded)
    assert numbers(live) == numbers(folded)
    assert numbers(live)["runs_total outcome=completed"] == 1


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("moment", [Streamed, ToolStarted])
def test_a_run_that_comes_back_after_a_crash_is_counted_once(tmp_path: Path, moment: type[Fact]):
    metrics = Metrics(routes=["main"], tools={get_weather.name: "read"})

    async def scenario(harness: RunHarness) -> RunRecord:
        running = await harness.start()
        await harness.until(running, moment)
        await harness.crash(running)
        assert numbers(metrics)["runs_active"] == 1
        return await harness.resume(running)

    assert run_scenario(tmp_path, "tool", scenario, watch=RunObserver([metrics])).outcome.kind == "completed"
    found = numbers(metrics)
    assert (found["runs_resumed_total"], found["runs_total outcome=completed"]) == (1, 1)
    assert "runs_active" not in found
