"""What owners may use: the same rules in memory, beside a journal in a folder, and in a database for all nodes."""

import asyncio
import os

import pytest
from support.journals.journal_benches import MemoryBench, SqliteBench
from support.journals.postgres_bench import PostgresBench
from support.postgres.server import until

from turnbuckle.journal.port import Grade, IndexUpdate
from turnbuckle.journal.postgres.links import connect
from turnbuckle.journal.quotas import (
    MemoryQuotas,
    QuotaUse,
    requests_left,
    until_next_day,
    verdict_of,
    wait_for_request,
)
from turnbuckle.testing.conformance import quotas


class AloneBench:
    """One process: what it has in memory is all that there is."""

    def __init__(self, journal_bench) -> None:
        self._bench = journal_bench
        self.one = self.other = MemoryQuotas(journal_bench.time.wall)
        self.pass_time = journal_bench.pass_time

    async def told(self) -> None:
        pass

    async def close(self) -> None:
        await self._bench.close()


class NodesBench:
    """Two nodes on one database."""

    def __init__(self, bench, two) -> None:
        self.bench, self.two = bench, two
        self.one, self.other = bench.journal.nodes.quotas, two.nodes.quotas
        self.pass_time = bench.pass_time

    async def told(self) -> None:
        await self.one.flush()
        await self.other.flush()

    async def close(self) -> None:
        await self.two.close()
        await self.bench.close()


async def memory_bench(folder):
    return AloneBench(MemoryBench(folder))


async def folder_bench(folder):
    return AloneBench(SqliteBench(folder))


async def nodes_bench(folder):
    bench = await PostgresBench().open()
    return NodesBench(bench, await bench.another())


def put_through(case, bench_of, folder=None):
    async def main():
        bench = await bench_of(folder)
        try:
            async with asyncio.timeout(100):
                return await case(bench)
        finally:
            await bench.close()

    return asyncio.run(main())


@pytest.mark.requirement("K7")
@pytest.mark.parametrize("case", quotas.CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("bench_of", [memory_bench, folder_bench, nodes_bench])
def test_every_body_keeps_the_quotas(case, bench_of, tmp_path):
    assert put_through(case, bench_of, tmp_path) is None


@pytest.mark.requirement("K7")
def test_the_runs_of_a_dead_node_do_not_count_but_their_money_does():
    async def case(bench):
        third = await bench.bench.another()
        await third.nodes.quotas.admit("ann", "r1", 1, 9.0)
        third.nodes.quotas.spend("r1", 2.0)
        await third.nodes.quotas.flush()
        full = (await bench.one.admit("ann", "r2", 1, 9.0)).verdict
        await bench.bench.end(third)
        free = await bench.one.admit("ann", "r2", 1, 9.0)
        return full, free.verdict, free.cost

    assert put_through(case, nodes_bench) == ("too_many_runs", "admitted", 2.0)


@pytest.mark.requirement("K7")
def test_a_run_whose_end_is_stored_has_no_slot_even_if_nobody_gave_it_back():
    async def case(bench):
        await bench.one.admit("ann", "r1", 1, 9.0)
        journal = bench.bench.journal
        claim = await journal.claim("r1", "one", 10.0)
        note = IndexUpdate(kind="run", status="running")
        await journal.append("r1", [b"x"], after=0, epoch=0, grade=Grade.SYNCED, note=note)
        full = (await bench.other.admit("ann", "r2", 1, 9.0)).verdict
        note = IndexUpdate(status="completed")
        await journal.append("r1", [b"y"], after=1, epoch=0, grade=Grade.SYNCED, note=note)
        await journal.release(claim)
        return full, (await bench.other.admit("ann", "r2", 1, 9.0)).verdict

    assert put_through(case, nodes_bench) == ("too_many_runs", "admitted")


@pytest.mark.requirement("K7")
def test_what_a_run_cost_whose_node_died_at_its_end_is_settled_once():
    async def case(bench):
        third = await bench.bench.another()
        await third.nodes.quotas.admit("ann", "r1", 1, 9.0)
        claim = await third.claim("r1", "three", 10.0)
        note = IndexUpdate(kind="run", status="completed")
        await third.append("r1", [b"x"], after=0, epoch=claim.epoch, grade=Grade.SYNCED, note=note)
        living = await bench.one.abandoned()
        await bench.bench.end(third)
        found = await bench.one.abandoned(), await bench.other.abandoned()
        await asyncio.gather(bench.one.settle("r1", 3.0), bench.other.settle("r1", 3.0))
        return living, found, await bench.one.use("ann"), await bench.one.abandoned()

    assert put_through(case, nodes_bench) == ([], (["r1"], ["r1"]), QuotaUse(0, 3.0), [])


@pytest.mark.requirement("K7")
def test_a_node_that_was_robbed_of_a_run_tells_nothing_of_it():
    async def case(bench):
        await bench.one.admit("ann", "r1", 1, 9.0)
        bench.other.hold("ann", "r1")
        bench.other.spend("r1", 2.0)
        await bench.told()
        bench.one.spend("r1", 1.0)
        bench.one.release("r1", ended=True)
        await bench.told()
        return await bench.one.use("ann")

    assert put_through(case, nodes_bench) == QuotaUse(1, 2.0)


def test_what_cannot_be_told_is_told_later_and_the_last_word_counts():
    async def case(bench):
        await bench.one.admit("ann", "r1", 9, 9.0)
        bench.one.spend("r1", 1.0)
        schema, server = bench.bench.schema, bench.bench.server
        server.sql(f"ALTER TABLE {schema}.slot RENAME TO away")
        with pytest.raises(Exception, match="slot"):
            await bench.one.flush()
        bench.one.spend("r1", 2.0)
        bench.one.release("r1", ended=True)
        server.sql(f"ALTER TABLE {schema}.away RENAME TO slot")
        await bench.told()
        return await bench.other.use("ann")

    assert put_through(case, nodes_bench) == QuotaUse(0, 2.0)


def test_money_spent_before_a_start_is_looked_up_once_a_day_and_only_if_there_is_a_budget():
    asked = []

    async def before(owner):
        asked.append(owner)
        return 4.0

    async def main():
        now = [86_400.0 * 3]
        alone = MemoryQuotas(lambda: now[0], before)
        verdicts = [(await alone.admit("ann", "r1", 9, 0)).verdict]
        verdicts += [(await alone.admit("ann", f"r{number}", 9, 5.0)).verdict for number in (2, 3)]
        alone.spend("r2", 1.0)
        verdicts.append((await alone.admit("ann", "r4", 9, 5.0)).verdict)
        looked = list(asked)
        now[0] += 86_400.0
        await alone.admit("ann", "r5", 9, 5.0)
        return verdicts, looked, asked

    verdicts, looked, again = asyncio.run(main())
    assert verdicts == ["admitted"] * 3 + ["budget_spent"]
    assert (looked, again) == (["ann"], ["ann", "ann"])


def test_money_that_was_looked_up_over_midnight_is_not_that_of_the_new_day():
    now = [86_400.0 * 4 - 1]
    asked = []

    async def before(owner):
        asked.append(now[0])
        spent = 9.0 if len(asked) == 1 else 0.0
        if len(asked) == 1:
            now[0] += 2
            alone.hold("bob", "r0")  # somebody else sees the new day first
        return spent

    alone = MemoryQuotas(lambda: now[0], before)
    admission = asyncio.run(alone.admit("ann", "r1", 9, 5.0))
    assert (admission.verdict, admission.cost, len(asked)) == ("admitted", 0.0, 2)


@pytest.mark.parametrize(
    ("full_in", "per_minute", "left", "wait"),
    [
        (0, 60, 60, 0),
        (-5, 60, 60, 0),
        (60, 60, 0, 1),
        (59, 60, 1, 0),
        (59.4, 60, 1, 0.4),
        (90, 60, 0, 31),
        (0, 1, 1, 0),
    ],
)
def test_a_bucket_holds_a_minute(full_in, per_minute, left, wait):
    assert requests_left(full_in, per_minute) == left
    assert wait_for_request(full_in, per_minute) == pytest.approx(wait)


@pytest.mark.parametrize(
    ("runs", "cost", "most", "money", "verdict"),
    [
        (0, 0.0, 1, 0.0, "admitted"),
        (1, 0.0, 1, 0.0, "too_many_runs"),
        (0, 99.0, 1, 0.0, "admitted"),
        (0, 4.99, 1, 5.0, "admitted"),
        (0, 5.0, 1, 5.0, "budget_spent"),
        (1, 5.0, 1, 5.0, "too_many_runs"),
    ],
)
def test_a_run_may_begin_if_there_is_room_and_money(runs, cost, most, money, verdict):
    assert verdict_of(runs, cost, most, money) == verdict


def test_a_day_is_one_by_utc():
    assert until_next_day(86_400.0 * 7 + 86_000.0) == pytest.approx(400.0)


@pytest.mark.parametrize("bench_of", [memory_bench, nodes_bench])
def test_a_clock_that_is_set_back_locks_nobody_out(bench_of, tmp_path):
    async def case(bench):
        await bench.one.take("ann", 10, 10)
        bench.pass_time(-3600.0)
        refused = (await bench.other.take("ann", 10, 1)).granted
        bench.pass_time(60.0)
        return refused, (await bench.other.take("ann", 10, 10)).granted

    assert put_through(case, bench_of, tmp_path) == (0, 10)


@pytest.mark.parametrize("per_minute", [(1 << 31) - 1, 1 << 31, 10**15])
def test_a_limit_that_is_as_good_as_none_is_no_trouble_of_the_database(per_minute):
    async def case(bench):
        return (await bench.one.take("ann", per_minute, per_minute // 60)).granted > 0

    assert put_through(case, nodes_bench)


@pytest.mark.requirement("K7")
def test_what_waits_for_a_node_with_room_counts_until_it_is_withdrawn_or_ends():
    async def case(bench):
        journal, most = bench.bench.journal, 2

        async def verdict(run):
            admission = await bench.other.admit("ann", run, most, 0)
            if admission.verdict == "admitted":
                bench.other.release(run, ended=True)
                await bench.told()
            return admission.verdict, admission.runs

        async def note(stream, **fields):
            await journal.note(stream, IndexUpdate(**fields))

        await note("s1", kind="session", status="active")
        for run in ("said", "said again"):  # two messages of one session, which have no row yet
            await bench.one.admit("ann", run, 9, 0)
            bench.one.queue(run, "s1")
        await bench.told()
        found = [await verdict("r1")]
        await note("begun", kind="run", status="running", parent="s2")
        await bench.one.admit("ann", "begun", most, 0)
        bench.one.queue("begun", "s2")
        await bench.told()
        found.append(await verdict("r2"))
        abandoned = await bench.one.abandoned()
        await note("s1", status="idle")  # its messages were withdrawn
        found.append(await verdict("r3"))
        bench.other.hold("ann", "begun")
        await bench.told()
        found.append(await verdict("r4"))
        await note("begun", status="completed")
        found.append(await verdict("r5"))
        return found, abandoned, await bench.one.abandoned()

    admitted, full = "admitted", "too_many_runs"
    expected = [(admitted, 1), (full, 2), (admitted, 1), (admitted, 1), (admitted, 0)]
    assert put_through(case, nodes_bench) == (expected, [], ["said", "said again"])


@pytest.mark.requirement("K7")
def test_a_slot_that_is_given_after_its_asker_has_left_is_taken_back():
    async def case(bench):
        schema, server = bench.bench.schema, bench.bench.server
        await bench.one.admit("ann", "mine", 9, 0)
        in_the_way = await connect(bench.bench.journal.address)
        locked = in_the_way.transaction()
        await locked.start()
        await in_the_way.execute(f"SELECT FROM {schema}.quota FOR UPDATE")
        asking = asyncio.create_task(bench.one.admit("ann", "left", 9, 0))
        waits = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%admit_run%' "
            f"AND application_name LIKE '%{os.getpid()}'"
        )
        await asyncio.to_thread(until, lambda: server.sql(waits) != "0")
        asking.cancel()
        await asyncio.wait([asking])
        bench.one.release("left", ended=False)  # as whoever asked does
        await bench.told()
        await locked.rollback()
        await in_the_way.close()
        count = f"SELECT count(*) FROM {schema}.slot"  # the database does not know that nobody waits for it
        await asyncio.to_thread(until, lambda: server.sql(count) == "2")
        leaked = await bench.other.admit("ann", "r", 2, 0)
        await bench.told()
        return leaked.verdict, (await bench.other.admit("ann", "r", 2, 0)).verdict, await bench.one.use("ann")

    assert put_through(case, nodes_bench) == ("too_many_runs", "admitted", QuotaUse(2, 0.0))


def test_what_nobody_needs_any_more_is_forgotten():
    async def case(bench):
        await bench.one.admit("ann", "left", 9, 5.0)
        await bench.one.admit("bob", "runs", 9, 5.0)
        bench.one.spend("left", 1.0)
        bench.one.release("left", ended=False)
        await bench.told()
        counts = []
        for days in (1, 10):
            bench.pass_time(86_400.0 * days)
            await bench.one.tidy()
            schema, server = bench.bench.schema, bench.bench.server
            counts.append(
                [server.sql(f"SELECT count(*) FROM {schema}.{table}") for table in ("slot", "quota")]
            )
        return counts

    assert put_through(case, nodes_bench) == [["2", "2"], ["1", "1"]]
