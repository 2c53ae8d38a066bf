"""How much one owner may ask for, and how many runs there may be at once."""

import asyncio

import pytest
from support.http.memory_server import memory_server

from turnbuckle.errors import BudgetSpent, LimitReached
from turnbuckle.journal.port import StorageFailed
from turnbuckle.journal.quotas import MemoryQuotas
from turnbuckle.server.http.problems import problem_of
from turnbuckle.server.settings import ServerSettings
from turnbuckle.service.limits import Rates, RequestsLeft, SharedRates, Slots
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import RunId


def refusal(call, *arguments):
    with pytest.raises(LimitReached) as caught:
        call(*arguments)
    return problem_of(caught.value)


@pytest.mark.requirement("F9")
@pytest.mark.parametrize("per_minute", [1, 7, 60, 1200])
def test_a_minute_has_so_many_requests_however_they_come(per_minute):
    now = [1000.0]
    rates = Rates(per_minute, lambda: now[0])
    for _ in range(per_minute):
        rates.check("ann")
    problem = refusal(rates.check, "ann")
    assert (problem.status, problem.code, problem.should_retry) == (429, "rate_limit_exceeded", True)
    assert problem.retry_after == pytest.approx(60 / per_minute)
    rates.check("bob")  # each owner has a minute of their own
    for _ in range(3):
        now[0] += problem.retry_after
        rates.check("ann")
        assert refusal(rates.check, "ann").retry_after == pytest.approx(60 / per_minute)
    now[0] += 60
    for _ in range(per_minute):
        rates.check("ann")


def test_no_limit_is_no_limit():
    rates = Rates(0, lambda: 0.0)
    for _ in range(10_000):
        rates.check("ann")
    assert len(rates) == 0


def test_owners_who_do_not_come_back_are_forgotten():
    now = [0.0]
    rates = Rates(6000, lambda: now[0])
    for number in range(5000):
        now[0] += 1.0
        rates.check(f"owner {number}")
    assert len(rates) <= 1000


@pytest.mark.requirement("F9")
def test_a_refusal_over_http_says_when_to_come_back_and_health_is_not_counted():
    async def main():
        async with memory_server(ServerSettings(port=0, requests_per_minute=2)) as built:
            good = [await built.ask("GET", "/v1/models") for _ in range(2)]
            bad = await built.ask("GET", "/v1/models")
            health = [await built.ask("GET", "/healthz") for _ in range(5)]
            return [reply.status for reply in (*good, *health)], bad

    statuses, bad = asyncio.run(main())
    assert set(statuses) == {200}
    assert (bad.status, bad.error["type"]) == (429, "rate_limit_error")
    assert 25 <= int(bad.headers["retry-after"]) <= 31
    assert "server.requests_per_minute" in bad.error["message"]


@pytest.mark.requirement("F9")
def test_runs_at_once_are_limited_for_one_and_for_all():
    slots = Slots(3, 2)
    slots.acquire("ann", RunId("1"))
    slots.acquire("ann", RunId("2"))
    mine = refusal(slots.acquire, "ann", RunId("3"))
    slots.acquire("bob", RunId("4"))
    all_taken = refusal(slots.acquire, "cid", RunId("5"))
    assert "max_runs_per_owner" in mine.message
    assert "server.max_runs)" in all_taken.message
    for problem in (mine, all_taken):
        assert (problem.status, problem.code, problem.should_retry) == (429, "too_many_runs", True)
        assert problem.retry_after
    assert len(slots) == 3
    slots.release(RunId("1"))
    slots.release(RunId("1"))  # once given back it is given back
    slots.acquire("ann", RunId("5"))
    assert refusal(slots.acquire, "ann", RunId("6")).status == 429


def test_a_run_takes_one_slot_however_often_it_is_begun():
    slots = Slots(1, 1)
    for _ in range(3):
        slots.acquire("ann", RunId("1"))
    assert len(slots) == 1


def test_runs_that_go_on_after_a_restart_are_counted_but_never_refused():
    slots = Slots(1, 1)
    for number in range(5):
        slots.hold("ann", RunId(str(number)))
    assert len(slots) == 5
    assert refusal(slots.acquire, "bob", RunId("x")).status == 429
    for number in range(5):
        slots.release(RunId(str(number)))
    slots.acquire("bob", RunId("x"))


def test_a_server_that_stops_starts_nothing_new_and_says_when_to_come_back():
    slots = Slots(5, 5)
    slots.acquire("ann", RunId("1"))
    slots.close()
    slots.acquire("ann", RunId("1"))  # what runs, runs
    problem = refusal(slots.acquire, "ann", RunId("2"))
    assert (problem.status, problem.code, problem.should_retry) == (503, "stopping", True)
    assert problem.retry_after


def test_rates_run_on_the_time_that_they_are_given():
    clock = VirtualClock()

    async def main():
        rates = Rates(1, clock.now)
        rates.check("ann")
        await asyncio.sleep(61)
        rates.check("ann")
        return refusal(rates.check, "ann").status

    assert clock.run(main, quiet=0.0) == 429


class Away(MemoryQuotas):
    """A store that does not answer."""

    asked = 0

    async def take(self, owner, per_minute, wanted, back=0):
        self.asked += 1
        raise StorageFailed("the database is away")

    async def admit(self, owner, run, most, money):
        raise StorageFailed("the database is away")


@pytest.mark.requirement("K7", "F9")
@pytest.mark.parametrize("per_minute", [1, 30, 600])
def test_a_burst_at_three_nodes_gets_a_minute_and_no_more(per_minute):
    async def main():
        quotas = MemoryQuotas(lambda: 1000.0)
        nodes = [SharedRates(per_minute, lambda: 1000.0, quotas) for _ in range(3)]
        asked = [nodes[number % 3].count("ann") for number in range(per_minute * 3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        return sum(isinstance(one, RequestsLeft) for one in found)

    granted = asyncio.run(main())
    ahead = max(per_minute // 60, 1)
    assert per_minute - 2 * (ahead - 1) <= granted <= per_minute


@pytest.mark.requirement("K7")
def test_a_node_takes_requests_ahead_and_what_it_does_not_use_comes_back():
    async def main():
        now, quotas = [1000.0], MemoryQuotas(lambda: now[0])
        one, two = (SharedRates(600, lambda: now[0], quotas) for _ in range(2))
        first = await one.count("ann")
        others = await two.count("ann")
        now[0] += 1.0  # what was taken ahead is too old, and goes back
        again = await one.count("ann")
        return first, others, again

    first, others, again = asyncio.run(main())
    assert (first.remaining, others.remaining) == (599, 589)  # ten that the other one has taken
    # Of the twenty a second has filled ten, and nine came back; one more is used.
    assert again.remaining == 598
    assert first.limit == 600


@pytest.mark.requirement("K7")
def test_while_the_store_is_away_each_server_counts_by_itself():
    async def main():
        now, quotas = [1000.0], Away(lambda: 1000.0)
        rates = SharedRates(2, lambda: now[0], quotas)
        left = [await rates.count("ann") for _ in range(2)]
        with pytest.raises(LimitReached):
            await rates.count("ann")
        asked = quotas.asked
        now[0] += 5.0
        with pytest.raises(LimitReached):
            await rates.count("ann")
        slots = Slots(9, 1, 5.0)
        slots.share(quotas, lambda: 0.0, tuple)
        await slots.admit("ann", RunId("1"))
        with pytest.raises(LimitReached):
            await slots.admit("ann", RunId("2"))
        return [one.remaining for one in left], asked, quotas.asked, len(slots)

    assert asyncio.run(main()) == ([1, 0], 1, 2, 1)


@pytest.mark.requirement("K7")
def test_a_budget_counts_what_runs_under_way_have_cost_until_now():
    costs = {RunId("1"): 3.0}

    async def main():
        quotas = MemoryQuotas(lambda: 90_000.0)
        slots = Slots(9, 9, 5.0)
        slots.share(quotas, lambda: 90_000.0, lambda: [*costs.items()])
        await slots.admit("ann", RunId("1"))
        await slots.admit("ann", RunId("2"))
        costs[RunId("1")] = 5.0
        with pytest.raises(BudgetSpent) as caught:
            await slots.admit("ann", RunId("3"))
        with pytest.raises(BudgetSpent):
            await slots.afford("ann", RunId("3"))
        await slots.afford("ann", RunId("2"))  # it has begun
        await slots.admit("bob", RunId("4"))
        slots.release(RunId("1"), ended=True, cost=5.0)
        with pytest.raises(BudgetSpent):
            await slots.admit("ann", RunId("3"))
        slots.allow(9, 9, 6.0)
        await slots.admit("ann", RunId("3"))
        return problem_of(caught.value), len(slots)

    problem, taken = asyncio.run(main())
    assert (problem.status, problem.code, problem.should_retry, taken) == (429, "budget_spent", False, 3)
    assert problem.retry_after == 86_400.0 * 2 - 90_000.0
    assert "$5.00" in problem.message
