"""What breaks cost by day and cause, and how each route fares: over real runs."""

from pathlib import Path

import pytest
from support.observe.observed_runs import observed
from support.runs.run_harness import run_case

from turnbuckle.observe.run_observer import RunStats
from turnbuckle.observe.tally import MOST_DAYS, MOST_ROUTES, WasteTally
from turnbuckle.turn.facts import Decided, Retry
from turnbuckle.vocab.ids import RunId, SessionId


@pytest.mark.requirement("H11")
def test_a_stall_that_was_survived_is_waste_of_its_cause_and_a_recovery_of_its_route(tmp_path: Path):
    tally = WasteTally()
    observed(run_case(tmp_path, "silent-once-then-works").facts, tally)
    (line,) = tally.waste
    assert (line.cause, line.times, line.characters) == ("stalled", 1, 0)
    assert line.seconds > 0
    route = tally.route("main")
    assert (route.calls, route.breaks, route.stalls, route.recovered, route.given_up) == (2, 1, 1, 1, 0)
    assert tally.route("nobody").calls == 0


@pytest.mark.requirement("H11")
def test_days_and_routes_have_a_most(tmp_path: Path):
    tally = WasteTally()
    run = RunStats(RunId("r"), 0.0, SessionId("s"))
    for day in range(MOST_DAYS + 20):
        tally.take(run, Decided(day * 86_400.0, 1, "cut_by_length", (), Retry(0.0), lost=3))
    assert len({line.day for line in tally.waste}) == MOST_DAYS
    assert tally.waste[0].day > tally.waste[-1].day
    assert tally.waste[0].characters == 3
    for number in range(MOST_ROUTES * 2):
        tally._route(f"route {number}")
    assert tally.route("other").route == "other"
    assert tally.route(f"route {MOST_ROUTES * 2 - 1}").calls == 0
