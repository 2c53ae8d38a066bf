"""What every body of the quotas must do, whether one process has them or several."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from turnbuckle.journal.quotas import DAY, Quotas, QuotaUse

Case = Callable[["QuotaBench"], Awaitable[None]]


class QuotaBench(Protocol):
    """The quotas as two nodes see them; where there can be only one, both are the same."""

    one: Quotas
    other: Quotas

    def pass_time(self, seconds: float) -> None: ...

    async def told(self) -> None:
        """All that was told by both has arrived."""
        ...


async def a_minute_has_so_many_requests_at_all_nodes(bench: QuotaBench) -> None:
    first = await bench.one.take("ann", 10, 4)
    second = await bench.other.take("ann", 10, 4)
    third = await bench.one.take("ann", 10, 4)
    assert [taken.granted for taken in (first, second, third)] == [4, 4, 2]
    assert (await bench.other.take("ann", 10, 1)).granted == 0
    assert abs(third.full_in - 60) < 0.01
    bench.pass_time(6.0)
    assert (await bench.other.take("ann", 10, 5)).granted == 1
    assert (await bench.one.take("bob", 10, 10)).granted == 10
    bench.pass_time(600.0)
    assert (await bench.one.take("ann", 10, 100)).granted == 10


async def requests_that_were_not_used_can_be_taken_again(bench: QuotaBench) -> None:
    assert (await bench.one.take("ann", 10, 10)).granted == 10
    assert (await bench.one.take("ann", 10, 2, back=6)).granted == 2
    assert (await bench.other.take("ann", 10, 9)).granted == 4
    bench.pass_time(600.0)
    assert (await bench.one.take("ann", 10, 20, back=6)).granted == 10  # a bucket is never more than full


async def runs_at_once_are_counted_at_all_nodes(bench: QuotaBench) -> None:
    assert (await bench.one.admit("ann", "r1", 2, 0)).verdict == "admitted"
    assert (await bench.other.admit("ann", "r2", 2, 0)).verdict == "admitted"
    refused = await bench.one.admit("ann", "r3", 2, 0)
    assert (refused.verdict, refused.runs) == ("too_many_runs", 2)
    assert (await bench.one.admit("bob", "r4", 2, 0)).verdict == "admitted"
    bench.other.release("r2", ended=True)
    await bench.told()
    assert (await bench.one.admit("ann", "r3", 2, 0)).verdict == "admitted"


async def the_last_slot_is_given_once(bench: QuotaBench) -> None:
    asked = [
        quotas.admit("ann", f"r{number}", 3, 0)
        for number in range(6)
        for quotas in ((bench.one, bench.other)[number % 2],)
    ]
    verdicts = [admission.verdict for admission in await asyncio.gather(*asked)]
    assert verdicts.count("admitted") == 3


async def a_run_has_one_slot_however_often_it_is_admitted(bench: QuotaBench) -> None:
    for _ in range(3):
        assert (await bench.one.admit("ann", "r1", 1, 0)).verdict == "admitted"
    assert await bench.one.use("ann") == QuotaUse(1, 0.0)


async def a_run_that_goes_on_anyway_is_counted_and_never_refused(bench: QuotaBench) -> None:
    for number in range(3):
        bench.one.hold("ann", f"r{number}")
    await bench.told()
    assert (await bench.other.admit("ann", "new", 2, 0)).runs == 3
    for number in range(3):
        bench.one.release(f"r{number}", ended=True)
    await bench.told()
    assert (await bench.other.admit("ann", "new", 2, 0)).verdict == "admitted"


async def money_of_runs_under_way_and_of_those_that_ended_counts(bench: QuotaBench) -> None:
    assert (await bench.one.admit("ann", "r1", 9, 5.0)).verdict == "admitted"
    assert (await bench.one.admit("ann", "r2", 9, 5.0)).verdict == "admitted"
    bench.one.spend("r1", 2.0)
    bench.one.spend("r1", 3.0)  # since its beginning, not since the last time
    bench.one.release("r1", ended=True)
    bench.one.spend("r2", 1.5)
    await bench.told()
    left = await bench.other.admit("ann", "r3", 9, 5.0)
    assert (left.verdict, left.cost) == ("admitted", 4.5)
    bench.one.spend("r2", 2.0)
    await bench.told()
    spent = await bench.other.admit("ann", "r4", 9, 5.0)
    assert (spent.verdict, spent.cost) == ("budget_spent", 5.0)
    assert (await bench.other.admit("bob", "r5", 9, 5.0)).verdict == "admitted"
    assert (await bench.other.admit("ann", "r4", 9, 0)).verdict == "admitted"  # no budget is no limit


async def a_day_counts_from_nothing(bench: QuotaBench) -> None:
    for run in ("r1", "r2"):
        await bench.one.admit("ann", run, 9, 5.0)
        bench.one.spend(run, 4.0)
    bench.one.release("r1", ended=True)
    await bench.told()
    assert (await bench.other.use("ann")).cost == 8.0
    bench.pass_time(DAY)
    assert (await bench.other.use("ann")).cost == 0.0  # also of one that still runs: it began yesterday
    await bench.other.admit("ann", "r3", 9, 5.0)
    bench.other.spend("r3", 1.0)
    bench.one.release("r2", ended=True)
    bench.other.release("r3", ended=True)
    await bench.told()
    assert await bench.one.use("ann") == QuotaUse(0, 1.0)


async def a_run_that_changes_hands_costs_what_it_costs_once(bench: QuotaBench) -> None:
    await bench.one.admit("ann", "r1", 9, 5.0)
    bench.one.spend("r1", 2.0)
    bench.one.release("r1", ended=False)
    await bench.told()
    assert await bench.other.use("ann") == QuotaUse(0, 2.0)
    bench.other.hold("ann", "r1")
    bench.other.spend("r1", 3.0)
    await bench.told()
    assert await bench.one.use("ann") == QuotaUse(1, 3.0)
    bench.other.release("r1", ended=True)
    await bench.told()
    assert await bench.one.use("ann") == QuotaUse(0, 3.0)


async def a_slot_that_was_not_used_leaves_nothing(bench: QuotaBench) -> None:
    await bench.one.admit("ann", "r1", 1, 5.0)
    bench.one.release("r1", ended=False)
    bench.one.release("r1", ended=False)
    await bench.told()
    assert (await bench.other.admit("ann", "r2", 1, 5.0)).verdict == "admitted"


CASES: tuple[Case, ...] = (
    a_minute_has_so_many_requests_at_all_nodes,
    requests_that_were_not_used_can_be_taken_again,
    runs_at_once_are_counted_at_all_nodes,
    the_last_slot_is_given_once,
    a_run_has_one_slot_however_often_it_is_admitted,
    a_run_that_goes_on_anyway_is_counted_and_never_refused,
    money_of_runs_under_way_and_of_those_that_ended_counts,
    a_day_counts_from_nothing,
    a_run_that_changes_hands_costs_what_it_costs_once,
    a_slot_that_was_not_used_leaves_nothing,
)
