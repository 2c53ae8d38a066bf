"""The runtime shows every fact as it is stored, so live numbers are those of the journal."""

from pathlib import Path

import pytest
from observed import numbers, shown
from stage import Stage, Story, get_weather, on_stage, play

from turnbuckle.observe.metrics import Metrics
from turnbuckle.observe.run_observer import RunObserver
from turnbuckle.turn.facts import Fact, Streamed, ToolStarted


@pytest.mark.requirement("H5", "E1")
@pytest.mark.parametrize(
    "case", ["happy", "tool", "stalls-in-text", "draft-with-overlap", "rate-limited-once", "unauthorized"]
)
def test_what_is_watched_is_what_is_stored(tmp_path: Path, case: str):
    seen: list[tuple[str, Fact]] = []
    story = play(tmp_path, case, watch=lambda run, fact: seen.append((run, fact)))
    assert [fact for _, fact in seen] == story.facts
    assert {run for run, _ in seen} == {story.turn.run}


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("case", ["silent-once-then-works", "draft-with-overlap", "tool"])
def test_live_numbers_are_those_of_the_journal(tmp_path: Path, case: str):
    live, folded = Metrics(routes=["main"]), Metrics(routes=["main"])
    story = play(tmp_path, case, watch=RunObserver([live]))
    shown(story.facts, folded)
    assert numbers(live) == numbers(folded)
    assert numbers(live)["runs_total outcome=completed"] == 1


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("moment", [Streamed, ToolStarted])
def test_a_run_that_comes_back_after_a_crash_is_counted_once(tmp_path: Path, moment: type[Fact]):
    metrics = Metrics(routes=["main"], tools={get_weather.name: "read"})

    async def scene(stage: Stage) -> Story:
        running = await stage.start()
        await stage.until(running, moment)
        await stage.crash(running)
        assert numbers(metrics)["runs_active"] == 1
        return await stage.resume(running)

    assert on_stage(tmp_path, "tool", scene, watch=RunObserver([metrics])).outcome.kind == "completed"
    found = numbers(metrics)
    assert (found["runs_resumed_total"], found["runs_total outcome=completed"]) == (1, 1)
    assert "runs_active" not in found
