"""What becomes of a run when its readers leave, by policy."""

import asyncio
from itertools import permutations
from typing import Any

import pytest

from turnbuckle.errors import InvalidValue
from turnbuckle.server.streaming.disconnect import DisconnectPolicy, read_policy
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import RunId

RUN = RunId("r1")


def run_scenario(scenario, read_elsewhere=None):
    """Play a scenario, let an hour pass, and give the stops with their time, and how many runs are still looked after."""
    clock = VirtualClock()
    stops = []

    async def main():
        attendance = DisconnectPolicy(
            lambda run, why: stops.append((run, why, round(clock.now()))), read_elsewhere
        )
        await scenario(attendance)
        await asyncio.sleep(3600)
        return len(attendance)

    left = clock.run(main, quiet=0.0)
    return stops, left


@pytest.mark.requirement("F7")
@pytest.mark.parametrize(
    "policy, stops",
    [
        ("detach", []),
        ("cancel", [(RUN, "the client left", 0)]),
        ("30", [(RUN, "nobody read it for 30 seconds", 30)]),
        ("0", [(RUN, "nobody read it for 0 seconds", 0)]),
        ("0.5", [(RUN, "nobody read it for 0.5 seconds", 0)]),
    ],
)
def test_a_lone_reader_that_leaves_has_its_policy_applied(policy, stops):
    async def scenario(attendance):
        attendance.enter(RUN, policy)
        attendance.leave(RUN, policy, ended=False)

    assert run_scenario(scenario) == (stops, 0)


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("policy", ["detach", "cancel", "30"])
def test_a_reader_that_saw_the_end_stops_nothing(policy):
    async def scenario(attendance):
        attendance.enter(RUN, policy)
        attendance.leave(RUN, policy, ended=True)

    assert run_scenario(scenario) == ([], 0)


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("order", sorted(set(permutations(["cancel", "cancel", "detach"]))))
def test_of_two_that_would_cancel_the_last_one_does_whoever_else_looks_on(order):
    async def scenario(attendance):
        for policy in order:
            attendance.enter(RUN, policy)
        for policy in order:
            attendance.leave(RUN, policy, ended=False)
            await asyncio.sleep(10)

    last = max(at for at, policy in enumerate(order) if policy == "cancel")
    assert run_scenario(scenario) == ([(RUN, "the client left", last * 10)], 0)


@pytest.mark.requirement("F7")
def test_a_grace_counts_from_the_last_reader_of_any_policy_and_is_the_longest_asked_for():
    async def scenario(attendance):
        attendance.enter(RUN, "60")
        attendance.enter(RUN, "20")
        attendance.enter(RUN, "detach")
        for policy in ("60", "20"):
            attendance.leave(RUN, policy, ended=False)
        await asyncio.sleep(500)
        attendance.leave(RUN, "detach", ended=False)

    assert run_scenario(scenario) == ([(RUN, "nobody read it for 60 seconds", 560)], 0)


@pytest.mark.requirement("F7")
def test_whoever_comes_back_in_time_keeps_the_run_and_its_grace_begins_anew():
    async def scenario(attendance):
        for _ in range(3):
            attendance.enter(RUN, "20")
            attendance.leave(RUN, "20", ended=False)
            await asyncio.sleep(19)

    assert run_scenario(scenario) == ([(RUN, "nobody read it for 20 seconds", 58)], 0)


def test_a_run_that_ended_by_itself_is_not_stopped():
    async def scenario(attendance):
        attendance.enter(RUN, "20")
        attendance.leave(RUN, "20", ended=False)
        attendance.forget(RUN)
        attendance.forget(RUN)
        other = RunId("r2")
        attendance.enter(other, "20")
        attendance.forget(other)
        attendance.leave(other, "20", ended=False)

    assert run_scenario(scenario) == ([], 0)


@pytest.mark.parametrize(
    "policy, stops", [("detach", []), ("cancel", []), ("5", [(RUN, "nobody read it for 5 seconds", 5)])]
)
def test_a_run_that_nobody_reads_yet_has_only_its_grace(policy, stops):
    async def scenario(attendance):
        attendance.expect(RUN, policy)

    assert run_scenario(scenario) == (stops, 0)


def test_a_reader_that_comes_to_an_expected_run_keeps_it():
    async def scenario(attendance):
        attendance.expect(RUN, "5")
        attendance.enter(RUN, "detach")
        attendance.expect(RUN, "5")
        await asyncio.sleep(100)
        attendance.leave(RUN, "detach", ended=True)

    assert run_scenario(scenario) == ([], 0)


@pytest.mark.requirement("K2", "F7")
@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_grace_begins_again_as_long_as_somebody_reads_at_another_node(times):
    answers = [True] * times

    async def read_elsewhere(run):
        return bool(answers) and answers.pop()

    async def scenario(attendance):
        attendance.expect(RUN, "30")

    told = "nobody read it for 30 seconds"
    assert run_scenario(scenario, read_elsewhere) == ([(RUN, told, 30 * (times + 1))], 0)


@pytest.mark.requirement("K2", "F7")
@pytest.mark.parametrize("how", ["ends", "is read"])
def test_what_happens_while_other_nodes_are_asked_counts(how):
    async def scenario(attendance):
        async def read_elsewhere(run):
            if how == "ends":
                attendance.forget(run)
            else:
                attendance.enter(run, "detach")
            return False

        asked["of"] = read_elsewhere
        attendance.expect(RUN, "30")
        await asyncio.sleep(100)
        if how == "is read":
            attendance.leave(RUN, "detach", ended=True)

    asked: dict[Any, Any] = {}

    async def elsewhere(run):
        return await asked["of"](run)

    assert run_scenario(scenario, elsewhere) == ([], 0)


@pytest.mark.parametrize(
    "text, policy",
    [("", "detach"), ("cancel", "cancel"), (" Detach ", "detach"), ("15", "15"), ("0", "0"), ("1.5", "1.5")],
)
def test_a_policy_is_read_from_its_header(text, policy):
    assert read_policy(text, "detach") == policy


@pytest.mark.parametrize("text", ["never", "-1", "nan", "inf", "1e99", "99999999", "cancel,detach"])
def test_what_is_no_policy_is_refused_by_name(text):
    with pytest.raises(InvalidValue, match="X-Turnbuckle-On-Disconnect must be cancel, detach, or a number"):
        read_policy(text, "detach")
