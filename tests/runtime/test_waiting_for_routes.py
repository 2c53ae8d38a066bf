"""Routes that are down, and routes that fall silent: waited for where there is no other, left where there is."""

import itertools
from pathlib import Path

import pytest
from support.runs.run_harness import MAIN, RunRecord, run_case

from turnbuckle.call.limits import StallSettings, limits_for
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.script import Case, CutOff, Finish, Say, Stall, Status
from turnbuckle.turn.facts import Continue, Fallback
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName, RouteName

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
OTHER = RouteName("other")
WORKS = (Say(ANSWER), Finish())
HALF = ANSWER[:44]
SILENT_IN_TEXT = Case("silent-in-text", "half an answer, then nothing", ((Say(HALF), Stall(9_999)),))
REST = Case("rest", "the other half", ((Say(ANSWER[44:]), Finish()),))


def restarts(*first: Status | CutOff, times: int = 5) -> Case:
    return Case(
        "restarts-longer", "down for a while, then works", (*((one,) for one in first * times), WORKS)
    )


def seconds_between(record: RunRecord) -> list[float]:
    starts = [asked.at for asked in record.asked]
    return [after - before for before, after in itertools.pairwise(starts)]


@pytest.mark.requirement("B14", "A9")
@EVERY
@pytest.mark.parametrize(
    "down",
    [
        Status(503),
        Status(502),
        Status(504),
        Status(529, "overloaded", "overloaded_error"),
        Status(429),
        CutOff("reset"),
    ],
    ids=lambda one: str(getattr(one, "code", None) or getattr(one, "status", None) or "reset"),
)
def test_the_only_route_is_waited_for_while_it_restarts(
    tmp_path: Path, protocol: ProtocolName, down: Status | CutOff
):
    """Given one route whose server restarts, then it is waited for, visibly, and the turn completes."""
    record = run_case(tmp_path, restarts(down), protocol=protocol)
    assert (record.outcome.kind, record.shown) == ("completed", ANSWER)
    assert len(record.requests) == 6
    assert record.seconds >= 10
    assert ["waiting for up to 75 s" in notice for notice in record.notices] == [True]


@pytest.mark.requirement("B14")
@EVERY
def test_patience_has_an_end_and_pauses_grow_to_a_cap(tmp_path: Path, protocol: ProtocolName):
    """Given one route that stays down, then pauses grow to a cap and the turn ends when patience does."""
    record = run_case(tmp_path, Case("down", "503 each time", ((Status(503),),)), protocol=protocol)
    assert record.outcome.kind == "failed"
    assert 75 <= record.seconds <= 95
    pauses = seconds_between(record)
    assert all(pause <= 8.1 for pause in pauses)
    assert pauses[-1] >= 6
    assert 10 <= len(record.requests) <= 16


@pytest.mark.requirement("B14")
@EVERY
def test_a_provider_that_says_at_once_for_ever_is_not_hammered(tmp_path: Path, protocol: ProtocolName):
    """Given `Retry-After: 0` forever, then pauses grow all the same."""
    record = run_case(tmp_path, "come-back-at-once", protocol=protocol)
    assert record.outcome.kind == "failed"
    assert len(record.requests) <= 26
    assert record.seconds >= 30


@pytest.mark.requirement("B14")
def test_who_wants_no_silent_tries_waits_for_nobody(tmp_path: Path):
    """Given `stream_retries = 0`, then a route that is down ends the turn at once."""
    assert run_case(tmp_path, restarts(Status(503)), policy={"stream_retries": 0}).outcome.kind == "failed"
    short = run_case(tmp_path, restarts(Status(503)), policy={"patience": 0.0})
    assert (short.outcome.kind, len(short.requests)) == ("failed", 3)


@pytest.mark.requirement("B14")
@EVERY
def test_two_routes_that_are_both_down_for_a_while_are_asked_in_turn_until_one_is_back(
    tmp_path: Path, protocol: ProtocolName
):
    """Given two routes that are down, then both are asked in turn until one answers."""
    down = Case("down", "503 each time", ((Status(503),),))
    record = run_case(tmp_path, {MAIN: restarts(Status(503), times=6), "other": down}, protocol=protocol)
    assert (record.outcome.kind, record.shown) == ("completed", ANSWER)
    assert record.asked[-1].route == MAIN
    assert record.seconds <= 75


@pytest.mark.requirement("B14", "B10")
@EVERY
@pytest.mark.parametrize("case", ["silent", "opens-then-silent"])
def test_a_silent_route_is_left_at_its_first_silence(tmp_path: Path, protocol: ProtocolName, case: str):
    """Given a silent route and a healthy one, then the first silence moves the turn."""
    record = run_case(tmp_path, {MAIN: case, "other": "happy"}, protocol=protocol)
    assert [asked.route for asked in record.asked] == [MAIN, "other"]
    assert record.shown == ANSWER


@pytest.mark.requirement("B14", "B3")
@EVERY
def test_a_route_that_falls_silent_in_the_middle_of_a_text_is_left_for_the_other(
    tmp_path: Path, protocol: ProtocolName
):
    """Given silence in mid-text, then the other route goes on behind what was shown."""
    record = run_case(tmp_path, {MAIN: SILENT_IN_TEXT, "other": REST}, protocol=protocol)
    assert [asked.route for asked in record.asked] == [MAIN, "other"]
    assert record.decided[0].decision == Fallback(OTHER, Continue("text"))
    assert (record.outcome.kind, record.turn.shown) == ("completed", ANSWER)


@pytest.mark.requirement("B14")
@pytest.mark.parametrize("local", [False, True], ids=["far", "near"])
def test_clocks_are_shorter_where_another_route_stands_ready_and_settings_hold(local: bool):
    """Given several routes, then automatic clocks are shorter and written ones hold."""
    alone = limits_for(StallSettings(), prompt_size=4_000, local=local)
    beside = limits_for(StallSettings(), prompt_size=4_000, local=local, alternative=True)
    for name in ("first_event", "gap", "gap_in_call", "thinking", "silence"):
        assert getattr(beside, name).seconds < getattr(alone, name).seconds
    fixed = StallSettings(first_event=99.0, gap=33.0)
    assert limits_for(fixed, prompt_size=1, alternative=True).first_event.seconds == 99.0
    assert limits_for(fixed, prompt_size=1, alternative=True).gap.seconds == 33.0


@pytest.mark.requirement("B14")
def test_with_its_defaults_a_silent_route_costs_a_minute_and_not_four(tmp_path: Path):
    """Given defaults and two routes, then silence costs at most a minute."""
    record = run_case(tmp_path, {MAIN: "silent", "other": "happy"}, stall=StallSettings())
    assert record.shown == ANSWER
    assert record.seconds <= 70
