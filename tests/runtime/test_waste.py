"""What breaks cost by day and cause, and how each route fares: counted from the ends of runs, once each."""

from pathlib import Path
from typing import Any

import pytest
from support.runs.run_harness import RunHarness, run_scenario

from turnbuckle.journal.port import Claim, Grade, IndexUpdate, StreamQuery
from turnbuckle.journal.wrapped import WrappedJournal
from turnbuckle.service.spending import SpendingService
from turnbuckle.service.waste import (
    KIND,
    LOOKED_AT,
    MOST_DAYS,
    MOST_ROUTES,
    SETTLED,
    WasteService,
    WasteSums,
    counted,
    report_of,
)
from turnbuckle.turn.facts import Continue, Decided, GiveUp, Retry, RunEnded
from turnbuckle.turn.route_uses import with_break, with_call
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.route_use import BreakSum, RouteUse

STALLS = "silent-once-then-works"
DAY = 86_400.0


def _service(harness: RunHarness) -> WasteService:
    return WasteService(harness.journal, harness.runs, SpendingService(harness.journal, harness.runs))


def _decided(verdict: str = "cut_by_transport", decision: Any = None, why: str = "reset") -> Decided:
    failed = failure(why, "it broke") if why else None  # type: ignore[arg-type]
    return Decided(9.0, 1, verdict, (), decision or Retry(0.0), failed, lost=3)


@pytest.mark.requirement("H11")
@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (_decided(), RouteUse("main", 1, (BreakSum("reset", 1, 5.0, 3, 0.5, 1, 0),))),
        (
            _decided(decision=GiveUp("failed", "no more")),
            RouteUse("main", 1, (BreakSum("reset", 1, 5.0, 3, 0.5, 0, 1),)),
        ),
        (
            _decided("cut_by_length", why=""),
            RouteUse("main", 1, (BreakSum("cut_by_length", 1, 5.0, 3, 0.5, 1, 0),)),
        ),
        (_decided(decision=GiveUp("cancelled", "stopped")), RouteUse("main", 1, stopped=1)),
        (_decided(why="cancelled"), RouteUse("main", 1, stopped=1)),
        (_decided("refused", why=""), RouteUse("main", 1)),
        (_decided("paused", Continue("paused"), why=""), RouteUse("main", 1)),
    ],
)
def test_what_a_decision_means_for_its_route(fact: Decided, expected: RouteUse):
    assert with_break((RouteUse("main", 1),), "main", fact, 5.0, 0.5) == (expected,)


@pytest.mark.requirement("H11")
def test_the_route_that_was_asked_last_stands_last():
    uses: tuple[RouteUse, ...] = ()
    for route in ("one", "other", "one"):
        uses = with_call(uses, route)
    assert uses == (RouteUse("other", 1), RouteUse("one", 2))


@pytest.mark.requirement("H11")
def test_a_stall_that_was_survived_is_waste_of_its_cause_and_a_recovery_of_its_route(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        record = await harness.run()
        return record.of(RunEnded)[0].routes, await _service(harness).look()

    ended, told = run_scenario(tmp_path, STALLS, scenario)
    assert [(use.route, use.calls) for use in ended] == [("main", 2)]
    (line,) = told.lines
    assert (line.cause, line.times, line.characters) == ("stalled", 1, 0)
    assert line.seconds > 0
    route = told.route("main")
    assert (route.calls, route.breaks, route.stalls, route.recovered, route.given_up) == (2, 1, 1, 1, 0)
    assert told.route("nobody").calls == 0
    assert told.complete


@pytest.mark.requirement("H11")
def test_what_was_counted_is_stored_counted_once_and_survives_its_run(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        first = await harness.run()
        fresh = await _service(harness).look()
        await harness.clock.sleep(SETTLED + 1)
        service = _service(harness)
        await service.catch_up()
        await service.catch_up()
        stored = await harness.journal.streams(StreamQuery(kind=KIND))
        assert await harness.journal.drop(first.turn.run)
        again = await _service(harness).look()  # as after a restart
        await harness.run()
        return fresh, len(stored), again, await _service(harness).look()

    fresh, stored, again, more = run_scenario(tmp_path, STALLS, scenario)
    assert stored == 1
    assert (again.lines, again.ever, again.routes) == (fresh.lines, fresh.ever, fresh.routes)
    assert more.route("main").calls > again.route("main").calls


class Ahead(WrappedJournal):
    """A journal that has stored the end of a run, row and all, and cannot be asked for it yet."""

    hides = True

    async def head(self, stream: str) -> int:
        head = await super().head(stream)
        return head - 1 if self.hides else head


@pytest.mark.requirement("H8", "H11")
def test_a_run_whose_end_is_stored_and_cannot_be_read_yet_is_counted_when_it_can(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        run = (await harness.run()).turn.run
        journal = Ahead(harness.journal)
        spending = SpendingService(journal, harness.runs)
        waste = WasteService(journal, harness.runs, spending)
        (row,) = await journal.streams(StreamQuery(kind="run", name=run))
        early = await spending.of_run(row)
        await harness.clock.sleep(SETTLED / 2)
        await waste.catch_up()
        journal.hides = False
        late = await spending.of_run(row)
        await harness.clock.sleep(SETTLED + 1)
        return row.status, early, late, await waste.look(), await _service(harness).look()

    status, early, late, told, usual = run_scenario(tmp_path, STALLS, scenario)
    assert status == "completed"
    assert early is None
    assert late is not None
    assert (told.lines, told.routes) == (usual.lines, usual.routes)
    assert told.route("main").calls == 2


@pytest.mark.requirement("H11")
def test_a_run_without_an_end_counts_as_it_stands_and_again_only_by_its_end(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        service = _service(harness)
        before = harness.clock.now()
        running = await harness.start()
        calls = []
        for _ in range(3):
            await harness.clock.sleep(1)
            calls.append((await service.look()).route("main").calls)
        await running.outcome()
        await harness.clock.sleep(SETTLED + 1)
        calls.append((await service.look()).route("main").calls)
        calls.append((await service.look()).route("main").calls)
        return calls, (await service.look()).first == before

    calls, first = run_scenario(tmp_path, STALLS, scenario)
    assert calls == [1, 1, 1, 2, 2]
    assert first


@pytest.mark.requirement("H11")
def test_one_look_counts_a_bounded_number_of_runs_and_the_next_goes_on(tmp_path: Path):
    count = LOOKED_AT + 20

    async def scenario(harness: RunHarness) -> Any:
        first = await harness.run()
        items = [item.data for item in await harness.journal.read(first.turn.run)]
        for number in range(count - 1):
            await _copied(harness, f"copy {number:04}", items)
        await harness.clock.sleep(SETTLED + 1)
        service = _service(harness)
        told = [await service.look(), await service.look()]
        return [(one.complete, one.route("main").calls) for one in told]

    assert run_scenario(tmp_path, STALLS, scenario) == [(False, 2 * LOOKED_AT), (True, 2 * count)]


async def _copied(harness: RunHarness, name: str, items: list[bytes]) -> None:
    claim = await harness.journal.claim(name, "somebody", 10)
    assert isinstance(claim, Claim)
    note = IndexUpdate(kind="run", status="completed")
    await harness.journal.append(name, items, after=0, epoch=claim.epoch, grade=Grade.SYNCED, note=note)
    await harness.journal.release(claim)


@pytest.mark.requirement("H11")
def test_days_and_routes_have_a_most():
    sums = WasteSums()
    for day in range(MOST_DAYS + 20):
        sums = counted(sums, day * DAY, [RouteUse("main", 1, (BreakSum("reset", 1, 2.0),))])
    for number in range(MOST_ROUTES * 2):
        sums = counted(sums, 0.0, [RouteUse(f"route {number}", 1)])
    told = report_of(sums, 31, complete=True)
    assert len(sums.days) == MOST_DAYS
    assert len({line.day for line in told.lines}) == 31
    assert told.lines[0].day > told.lines[-1].day
    assert [line.times for line in told.ever] == [MOST_DAYS + 20]
    assert told.route("other").calls == MOST_ROUTES + 1
    assert len(told.routes) == MOST_ROUTES + 1


@pytest.mark.requirement("H11")
def test_a_run_that_is_taken_up_long_after_it_began_is_counted_by_its_end(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        running = await harness.start()
        await harness.crash(running)
        await harness.clock.sleep(SETTLED + 1)
        service = _service(harness)
        left = await service.look()
        await harness.resume(running)
        ended = await service.look()
        await harness.clock.sleep(SETTLED + 1)
        return left.route("main").calls, ended.routes, (await service.look()).routes

    left, ended, later = run_scenario(tmp_path, STALLS, scenario)
    assert left == 0
    assert ended == later
    assert (ended["main"].calls, ended["main"].recovered) == (3, 2)  # the call of the process that died, too


@pytest.mark.requirement("H11")
def test_what_another_node_counted_and_deleted_since_stays_counted(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        ours, other = _service(harness), _service(harness)
        await ours.catch_up()
        await harness.run()
        first = await harness.run()
        await harness.clock.sleep(SETTLED + 1)
        await other.catch_up()
        assert await harness.journal.drop(first.turn.run)
        await harness.run()
        await harness.clock.sleep(SETTLED + 1)
        await ours.catch_up()
        stored = await harness.journal.streams(StreamQuery(kind=KIND))
        looks = [await one.look() for one in (ours, other, _service(harness))]
        return len(stored), [one.route("main").breaks for one in looks], looks[0].route("main").calls

    stored, breaks, calls = run_scenario(tmp_path, STALLS, scenario)
    assert (stored, calls) == (1, 6)
    assert breaks == [3, 3, 3]


@pytest.mark.requirement("H11")
def test_two_nodes_that_store_at_once_leave_the_sum_that_goes_further(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        await harness.run()
        await harness.clock.sleep(SETTLED + 1)
        late, other = _service(harness), _service(harness)
        await late.look()
        await harness.run()
        await harness.clock.sleep(SETTLED + 1)
        await other.catch_up()
        assert not await late.save()  # it had counted less
        return (await late.look()).route("main").calls, await late.save()

    assert run_scenario(tmp_path, STALLS, scenario) == (4, True)


@pytest.mark.requirement("H11")
def test_more_new_runs_than_one_look_takes_do_not_hold_up_a_sweep(tmp_path: Path):
    async def scenario(harness: RunHarness) -> Any:
        first = await harness.run()
        await harness.clock.sleep(SETTLED + 1)
        items = [item.data for item in await harness.journal.read(first.turn.run)]
        for number in range(LOOKED_AT):
            await _copied(harness, f"copy {number:04}", items)
        service = _service(harness)
        await service.catch_up()
        return len(await harness.journal.streams(StreamQuery(kind=KIND))), (await service.look()).complete

    assert run_scenario(tmp_path, STALLS, scenario) == (1, False)
