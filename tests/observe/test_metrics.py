"""The numbers of real runs, exactly."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.observe.observed_runs import numbers, observed, world_facts
from support.runs.run_harness import RunRecord, run_case
from support.turns.turn_facts import RESET, START, ask, burst, said
from support.worlds.tasks import APPEND, DONE, END, FLAG, READ, SHELL, TASKS, WRITE

from turnbuckle.observe.metrics import Metrics
from turnbuckle.testing.world.brains import Round, planned
from turnbuckle.testing.world.faults import KillInTool
from turnbuckle.testing.world.run_world import Task
from turnbuckle.testing.world.tools import FACTS
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    Decided,
    DraftKept,
    GiveUp,
    ModelAsked,
    RunClaimed,
    RunEnded,
    RunLeft,
    Streamed,
    ToolFinished,
)
from turnbuckle.vocab.events import Cut, Ended, FinishNoted, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import MILLION, Price
from turnbuckle.vocab.tooling import ToolOutcome

EFFECTS = {name: facts.effect for name, facts in FACTS.items()}


def counted(record: RunRecord) -> dict[str, float]:
    metrics = Metrics(routes=["main", "other"], tools={"write_file": "write", "get_weather": "read"})
    observed(record.facts, metrics)
    found = numbers(metrics)
    found.pop("unpriced_calls_total", None)  # no model of the lab has a price
    return found


@pytest.mark.requirement("H5")
def test_a_stall_that_was_survived(tmp_path: Path):
    found = counted(run_case(tmp_path, "silent-once-then-works"))
    assert found.pop("tokens_total direction=input") > 1_000
    assert found == {
        "runs_total outcome=completed": 1,
        "model_calls_total route=main why=first": 1,
        "model_calls_total route=main why=retry": 1,
        "model_call_breaks_total clock=first_event kind=stalled route=main": 1,
        "stalls_survived_total": 1,
        "recoveries_total cause=stalled decision=retry route=main": 1,
        "first_token_seconds_count route=main": 1,
        "gap_seconds_count route=main": 1,
        "tokens_total direction=output": 25,
    }


@pytest.mark.requirement("H5")
def test_stalls_that_were_not_survived(tmp_path: Path):
    record = run_case(tmp_path, "stalls-in-text")
    found = counted(record)
    assert found == {
        "runs_total outcome=partial": 1,
        "model_calls_total route=main why=first": 1,
        "model_calls_total route=main why=continue": 1,
        "model_calls_total route=main why=retry": 2,
        "model_call_breaks_total clock=silence kind=stalled route=main": 4,
        "recoveries_total cause=stalled decision=continue route=main": 1,
        "recoveries_total cause=stalled decision=retry route=main": 2,
        "give_ups_total cause=stalled route=main": 1,
        "characters_salvaged_total": len(record.shown),
        "first_token_seconds_count route=main": 1,
        "gap_seconds_count route=main": 1,
        "gap_seconds_sum route=main": 8,
    }


@pytest.mark.requirement("H5")
def test_a_draft_that_was_kept_and_finished(tmp_path: Path):
    record = run_case(tmp_path, "draft-with-overlap")
    (kept,) = record.of(DraftKept)
    found = counted(record)
    assert found["characters_salvaged_total"] == len(kept.draft.text) == 70
    assert record.decided[0].lost == 0  # all of it is in the draft
    assert "characters_lost_total" not in found
    assert found["recoveries_total cause=reset decision=finish_draft route=main"] == 1
    assert found["tool_runs_total status=finished tool=write_file"] == 1
    assert found["tool_seconds_count tool=write_file"] == 1


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [
        (SHELL, 1, 1),  # nobody can know, so it is not run again
        (WRITE, 0, 1),  # a probe knows
        (APPEND, 0, 1),
        (FLAG, 0, 0),  # may be done twice, and is
        (READ, 0, 0),
    ],
)
def test_effects_that_a_crash_did_not_repeat(wanted, before, after, side):
    task = Task("t", (planned(Round("", (wanted,)), END),), answer=DONE)
    facts = world_facts(task, KillInTool(0, side))
    metrics = Metrics(tools=EFFECTS)
    observed(facts, metrics)
    found = numbers(metrics)
    assert found.get("effects_not_repeated_total", 0) == {"before": before, "after": after}[side]
    assert found["runs_resumed_total"] == 1
    # The process that comes back has not seen what was before its claim, and counts the same.
    second = Metrics(tools=EFFECTS)
    claim = next(at for at, fact in enumerate(facts) if isinstance(fact, RunClaimed))
    observed(facts[claim:], second)
    assert numbers(second).get("effects_not_repeated_total", 0) == found.get("effects_not_repeated_total", 0)


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_numbers_of_every_task_agree_with_its_facts(task: Task):
    facts = world_facts(task)
    metrics = Metrics(routes=["route0", "route1"], tools=EFFECTS)
    observed(facts, metrics)
    found = numbers(metrics)

    def total(name: str) -> float:
        return sum(value for key, value in found.items() if key.split()[0] == name)

    def count(kind: type) -> int:
        return sum(isinstance(fact, kind) for fact in facts)

    ends = [
        fact.events[-1]
        for fact in facts
        if isinstance(fact, Streamed) and isinstance(fact.events[-1], Cut | Ended)
    ]
    decided = [fact for fact in facts if isinstance(fact, Decided)]
    assert total("runs_total") == 1
    assert total("model_calls_total") == count(ModelAsked)
    assert total("model_call_breaks_total") == sum(isinstance(end, Cut) for end in ends)
    assert total("recoveries_total") == sum(not isinstance(fact.decision, GiveUp) for fact in decided)
    assert total("give_ups_total") == sum(isinstance(fact.decision, GiveUp) for fact in decided)
    assert total("characters_lost_total") == sum(fact.lost for fact in decided)
    assert total("tool_runs_total") == count(ToolFinished)
    assert total("runs_active") == 0
    assert total("effects_not_repeated_total") == 0


def test_every_end_that_has_no_fact_lets_the_run_go():
    for end in (RunEnded(9.0, Outcome("failed")), RunLeft(9.0, "stopping"), None):
        metrics = Metrics()
        sight = observed([START, ask()], metrics)
        assert numbers(metrics)["runs_active"] == 1
        sight("r", end) if end is not None else sight.gone("r")
        assert "runs_active" not in numbers(metrics)


@pytest.mark.requirement("H5")
def test_names_that_are_not_known_do_not_become_labels():
    metrics = Metrics(routes=["main"], tools={"look": "read"}, endpoints=["/v1/runs/{id}"])
    facts = [
        ToolFinished(1.0, f"c{number}", f"made_up_{number}", ToolOutcome("not_started"))
        for number in range(50)
    ]
    routes = [ModelAsked(1.0, 1, f"route-{number}", "openai_chat", "m", "first") for number in range(50)]
    observed([START, *facts, *routes], metrics)
    for number in range(50):
        metrics.http("BREW", f"/v1/runs/{number}", 404, 0.5)
    metrics.http("GET", "/v1/runs/{id}", 200, 0.5)
    found = numbers(metrics)
    assert found["tool_runs_total status=not_started tool=other"] == 50
    assert found["model_calls_total route=other why=first"] == 50
    assert found["http_requests_total endpoint=other method=other status=404"] == 50
    assert found["http_requests_total endpoint=/v1/runs/{id} method=GET status=200"] == 1
    assert found["http_seconds_sum endpoint=other"] == 25


def test_tokens_and_money_are_those_of_every_call_also_of_broken_ones():
    told = burst(TextDelta(0, "x"), UsageNoted(Usage(input=100, output=10, cost=0.5)), RESET)
    untold = burst(
        TextDelta(0, "x"), UsageNoted(Usage(input=7, output=3)), FinishNoted("stop", ""), Ended("end")
    )
    untold = replace(untold, price=Price(MILLION, MILLION))
    metrics = Metrics()
    observed([START, ask(), told, ask(2), untold, ask(3), said("no usage")], metrics)
    found = numbers(metrics)
    assert (
        found["tokens_total direction=input"],
        found["tokens_total direction=output"],
        found["money_total"],
    ) == (
        107,
        13,
        10.5,
    )


@pytest.mark.requirement("H8")
def test_a_call_whose_price_nobody_knows_is_counted_as_that():
    metrics = Metrics()
    observed([START, ask(), burst(UsageNoted(Usage(input=7, output=3)), Ended("end"))], metrics)
    found = numbers(metrics)
    assert "money_total" not in found
    assert found["unpriced_calls_total"] == 1


def test_a_plain_answer_has_no_first_token_and_no_gap():
    metrics = Metrics(routes=["main"])
    observed([START, ask(stream=False), said("whole")], metrics)
    assert not [name for name in numbers(metrics) if name.startswith(("first_token", "gap"))]


def test_a_call_that_a_person_stopped_is_not_a_break():
    metrics = Metrics(routes=["main"])
    observed([START, ask(), burst(Cut(failure("cancelled", "stopped")), at=4.0)], metrics)
    assert not [name for name in numbers(metrics) if name.startswith("model_call_breaks_total")]


def test_consents_and_readers_are_counted():
    metrics = Metrics()
    observed([START, ApprovalAnswered(2.0, "a1", "allowed"), ApprovalAnswered(3.0, "a2", "expired")], metrics)
    for _ in range(3):
        metrics.reader_came()
    metrics.reader_left()
    metrics.reader_left(dropped=True)
    found = numbers(metrics)
    assert (found["approvals_total verdict=allowed"], found["approvals_total verdict=expired"]) == (1, 1)
    assert (found["readers"], found["readers_dropped_total"]) == (1, 1)


def test_two_books_of_numbers_do_not_mix():
    first, second = Metrics(), Metrics()
    first.reader_came()
    assert "readers" not in numbers(second)


def test_every_number_is_described_and_explained():
    page = Metrics().render().decode()
    names = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE turnbuckle_")]
    explained = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
    assert len(names) == len(set(names)) == 36
    assert [name for name in names if f"`{name}`" not in explained] == []


@pytest.mark.requirement("H5")
def test_names_are_counted_apart_from_when_they_are_known():
    metrics = Metrics()
    metrics.http("GET", "/healthz", 200, 0.0)
    observed([START, ask()], metrics)
    metrics.know(endpoints=["/healthz"], routes=["main"], tools={"shell": "write"})
    metrics.http("GET", "/healthz", 200, 0.0)
    observed([RunClaimed(1.0, 2), ask(), ToolFinished(2.0, "c", "shell", ToolOutcome("unknown"))], metrics)
    found = numbers(metrics)
    assert found["http_requests_total endpoint=other method=GET status=200"] == 1
    assert found["http_requests_total endpoint=/healthz method=GET status=200"] == 1
    assert (
        found["model_calls_total route=other why=first"],
        found["model_calls_total route=main why=first"],
    ) == (1, 1)
    assert found["effects_not_repeated_total"] == 1
