"""Several processes on one database: what one holds no other can write, and what one writes every other can read."""

import asyncio
from typing import Any

import pytest
from support.journals.postgres_bench import PostgresBench
from support.postgres.server import shared_server

from turnbuckle.journal.nodes import NodeReply, NodeState
from turnbuckle.journal.port import (
    Append,
    Changes,
    Claim,
    Fenced,
    Gone,
    Grade,
    Held,
    IndexUpdate,
    Item,
    Merge,
    StorageFailed,
    StreamQuery,
)
from turnbuckle.journal.postgres import nodes
from turnbuckle.journal.postgres.reader import open_postgres_reader
from turnbuckle.journal.tail import tail

TTL = 10.0


def played(scene):
    """Play a scene with two processes on a new database."""

    async def main():
        bench = await PostgresBench().open()
        other = await bench.another()
        try:
            return await asyncio.wait_for(scene(bench, bench.journal, other), 100)
        finally:
            await other.close()
            await bench.close()

    return asyncio.run(main())


async def put(journal, claim, data, after=0, grade=Grade.FLUSHED):
    return await journal.append(claim.stream, data, after=after, epoch=claim.epoch, grade=grade)


@pytest.mark.requirement("K1")
def test_what_one_process_holds_no_other_can_have():
    async def scene(bench, one, other):
        claim = await one.claim("run", "one", TTL)
        assert isinstance(claim, Claim)
        assert await other.claim("run", "two", TTL) == Held("run", "one", TTL)
        assert not await other.drop("run")
        assert not await other.change_all(Changes(drops=["run"]))
        assert not await other.merge("run", [])
        assert await other.streams(StreamQuery(orphaned=True)) == []
        with pytest.raises(Fenced):
            await other.append("run", [b"x"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
        await put(one, claim, [b"a"])
        await one.release(claim)
        second = await other.claim("run", "two", TTL)
        return second.epoch, second.head

    assert played(scene) == (1, 1)


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("grade", Grade)
def test_a_stalled_process_whose_claim_another_took_stores_nothing(grade):
    async def scene(bench, one, other):
        stalled = await one.claim("run", "one", TTL)
        await put(one, stalled, [b"a"], grade=Grade.SYNCED)
        bench.pass_time(TTL + 1)
        taken = await other.claim("run", "two", TTL)
        note = IndexUpdate(status="zombie", words="zombie")
        sent = [
            one.append("run", [b"zombie"], after=1, epoch=stalled.epoch, grade=grade),
            one.append("run", [b"zombie"], after=2, epoch=stalled.epoch, grade=grade, note=note),
        ]
        refused = await asyncio.gather(*sent, return_exceptions=True)
        with pytest.raises(Fenced):
            await one.change_all(Changes(appends=[Append("run", (b"zombie",), 1, stalled.epoch)]))
        assert not one.still_mine(stalled)
        assert not await one.renew(stalled, TTL)
        head = await put(other, taken, [b"b"], after=1)
        found = await other.search("zombie")
        row = (await other.streams())[0]
        read = [item.data for item in await one.read("run")]
        return [type(error) for error in refused], head >> 32, found.hits, row.status, row.holder, read

    assert played(scene) == ([Fenced, Fenced], 1, [], "", "two", [b"a", b"b"])


@pytest.mark.requirement("K1")
def test_what_a_dead_process_held_is_free_at_once():
    async def scene(bench, one, other):
        third = await bench.another()
        claim = await third.claim("run", "three", 1000)
        await put(third, claim, [b"a"], grade=Grade.SYNCED)
        assert await other.streams(StreamQuery(orphaned=True)) == []
        await bench.end(third)
        orphans = [row.name for row in await other.streams(StreamQuery(orphaned=True))]
        taken = await other.claim("run", "two", TTL)
        return orphans, taken.epoch, taken.head

    assert played(scene) == (["run"], 1, 1)


@pytest.mark.requirement("K1")
def test_readers_in_every_process_see_the_same_items_as_they_come():
    total = 60

    async def scene(bench, one, other):
        looking = await open_postgres_reader(bench.url)

        async def follow(journal, after):
            seen = []
            reading = tail(journal, "run", after, limit=7)
            async for page in reading:
                seen.extend(page)
                if seen[-1].seq == total:
                    break
            await reading.aclose()
            return seen

        claim = await one.claim("run", "one", TTL)
        followed = [asyncio.ensure_future(follow(other, after)) for after in (0, 0, 20, 59)]
        followed.append(asyncio.ensure_future(follow(looking, 0)))
        for number in range(0, total, 3):
            grade = Grade.SYNCED if number % 15 == 0 else Grade.FLUSHED
            await put(one, claim, [b"%d" % at for at in range(number, number + 3)], number, grade)
        seen = await asyncio.gather(*followed)
        await looking.close()
        return seen

    all_items = [Item(seq, b"%d" % (seq - 1)) for seq in range(1, total + 1)]
    assert played(scene) == [all_items[after:] for after in (0, 0, 20, 59, 0)]


@pytest.mark.requirement("K1")
def test_whoever_waits_in_another_process_hears_that_a_stream_was_dropped_or_merged():
    async def scene(bench, one, other):
        for name in ("gone", "merged"):
            claim = await one.claim(name, "one", TTL)
            await put(one, claim, [b"a", b"b"])
            await one.release(claim)
        waiting = asyncio.ensure_future(other.wait("gone", 2))
        await other.read("gone")  # so that the wait has begun
        assert await one.merge("merged", [Merge(1, Item(2, b"ab"))])
        assert await one.drop("gone")
        with pytest.raises(Gone):
            await waiting
        return await other.read("merged"), await other.head("gone")

    assert played(scene) == ([Item(2, b"ab")], 0)


@pytest.mark.requirement("K1")
def test_processes_that_note_and_claim_the_same_streams_at_once_do_not_stop_each_other():
    async def scene(bench, one, other):
        async def busy(journal, names):
            for name in names * 4:
                await asyncio.gather(
                    journal.note(name, IndexUpdate(title=name, words=f"about {name}")),
                    journal.claim(name, "owner", 0),
                )

        names = [f"s{number}" for number in range(6)]
        await asyncio.gather(busy(one, names), busy(other, names[::-1]))
        rows = await one.streams(limit=100)
        return {row.name: row.epoch for row in rows}

    assert played(scene) == {f"s{number}": 7 for number in range(6)}


@pytest.mark.requirement("K1")
def test_a_sure_commit_carries_no_hint_and_a_relaxed_one_sends_it_afterwards():
    async def scene(bench, one, other):
        said = []
        for name in ("sure", "relaxed"):
            async with one.links[name].use() as connection:
                connection.add_query_logger(
                    lambda query, name=name: (
                        said.append((name, [*query.args[10:11], *query.args[1:2]][0]))
                        if "pg_notify" in query.query
                        else None
                    )
                )
        claim = await one.claim("run", "one", TTL)
        for seq in (1, 2):  # two hints that wait at once become one, so each leaves before the next commit
            await put(one, claim, [b"x"], seq - 1, Grade.SYNCED)
            while len(said) < 2 * seq:
                await asyncio.sleep(0)
        await put(one, claim, [b"y"], 2)
        return said

    first, second, third = '{"run":[0,1,["x"]]}', '{"run":[1,2,["x"]]}', '{"run":[2,3,["y"]]}'
    told = [("sure", ""), ("relaxed", [first]), ("sure", ""), ("relaxed", [second]), ("relaxed", third)]
    assert played(scene) == told


class Taken:
    """A reader that is handed what is stored."""

    def __init__(self):
        self.items = []
        self.more = asyncio.Event()

    def __call__(self, items):
        self.items.extend(items)
        self.more.set()
        return True


async def follows(journal, after, taken):
    """A reader at a process, that has everything up to a number."""
    waiting = asyncio.ensure_future(journal.wait("run", after, taken))
    await journal.head("run")  # asked together with the reader's own question, so the reader waits by now
    return waiting


@pytest.mark.requirement("K2")
def test_a_reader_in_another_process_is_handed_what_is_stored_without_a_query():
    async def scene(bench, one, other):
        claim = await one.claim("run", "one", TTL)
        await put(one, claim, [b"a"], grade=Grade.SYNCED)
        taken, asked = Taken(), []
        waiting = await follows(other, 1, taken)
        async with other.links["reading"].use() as connection:
            connection.add_query_logger(lambda query: asked.append(query.query))
        await put(one, claim, [b"b"], 1)
        await put(one, claim, ["ü\0".encode(), b"d"], 2, Grade.SYNCED)
        while len(taken.items) < 3:
            await taken.more.wait()
            taken.more.clear()
        await put(one, claim, [b"x" * 5000], 4)  # too much for a hint
        await waiting
        queries = len(asked)
        return taken.items, queries, [item.seq for item in await other.read("run", 4)]

    items, queries, rest = played(scene)
    assert items == [Item(2, b"b"), Item(3, "ü\0".encode()), Item(4, b"d")]
    assert (queries, rest) == (0, [5])


@pytest.mark.requirement("H11", "K1")
def test_the_size_of_the_journal_is_that_of_its_own_tables_with_their_indexes():
    async def scene(bench, one, other):
        bench.server.sql(f"CREATE TABLE {bench.schema}_beside AS SELECT repeat('x', 100000) AS x")
        before = await one.nodes.journal_bytes()
        claim = await one.claim("run", "one", TTL)
        words = b"".join(b"%d " % (number * 7919 % 104729) for number in range(40_000))
        await put(one, claim, [words], grade=Grade.SYNCED)
        after = await other.nodes.journal_bytes()
        bench.server.sql(f"DROP TABLE {bench.schema}_beside")
        return before, after

    before, after = played(scene)
    assert 0 < before < before + 50_000 < after


@pytest.mark.requirement("K5")
def test_nobody_is_handed_what_a_stalled_process_could_not_store():
    async def scene(bench, one, other):
        stalled = await one.claim("run", "one", TTL)
        await put(one, stalled, [b"a"], grade=Grade.SYNCED)
        bench.pass_time(TTL + 1)
        taken = await other.claim("run", "two", TTL)
        looking, seen = await open_postgres_reader(bench.url), Taken()
        waiting = await follows(looking, 1, seen)
        with pytest.raises(Fenced):
            await put(one, stalled, [b"zombie"], 1)
        await put(other, taken, [b"b"], 1, Grade.FLUSHED)
        await seen.more.wait()
        waiting.cancel()
        await looking.close()
        return [item.data for item in seen.items]

    assert played(scene) == [b"b"]


@pytest.mark.requirement("K2", "K5")
@pytest.mark.parametrize("way", ["a hint", "a list"])
def test_a_process_that_another_took_something_from_learns_it_by(way):
    async def scene(bench, one, other):
        lost = await one.claim("run", "one", TTL)
        await put(one, lost, [b"a"], grade=Grade.SYNCED)
        bench.server.sql(f"UPDATE {bench.schema}.stream SET node = 1")  # it seems dead, for a moment
        taken = await other.claim("run", "two", TTL)
        before = one.still_mine(lost)
        if way == "a hint":
            waiting = asyncio.ensure_future(one.wait("run", 1))
            await put(other, taken, [b"b"], 1)
            await waiting
        else:
            await one.streams()
        return before, one.still_mine(lost), len(await one.read("run")), way == "a hint"

    before, after, items, grew = played(scene)
    assert (before, after, items) == (True, False, 1 + grew)


@pytest.mark.requirement("K1")
def test_a_writer_need_not_wait_for_the_database_and_is_told_what_came_of_it():
    async def scene(bench, one, other):
        claim = await one.claim("run", "one", TTL)
        told = []

        def begun(after, epoch=claim.epoch):
            return one.append_soon(
                "run", b"soon", after=after, epoch=epoch, landed=lambda *came: told.append(came)
            )

        tries = [begun(0)]  # the claim is not sure yet
        await put(one, claim, [b"a"], grade=Grade.SYNCED)
        tries += [begun(0), begun(1, claim.epoch + 1), begun(1), begun(1)]
        head = await put(one, claim, [b"b"], 2)
        bench.pass_time(TTL + 1)
        await other.claim("run", "two", TTL)
        tries.append(begun(3))
        while len(told) < 2:
            await one.head("none")
        return tries, head, [(seq, type(error)) for seq, error in told]

    tries, head, told = played(scene)
    assert (tries, head) == ([False, False, False, True, False, True], 3)
    assert told == [(2, type(None)), (4, StorageFailed)]


@pytest.mark.requirement("K1")
def test_a_stream_that_is_lost_keeps_no_reader_elsewhere_from_being_handed_another_in_the_same_commit():
    async def scene(bench, one, other):
        claims = [await one.claim(name, "one", TTL) for name in ("mine", "lost")]
        for claim in claims:
            await put(one, claim, [b"a"], grade=Grade.SYNCED)
        taken = Taken()
        landed: asyncio.Queue[object] = asyncio.Queue()
        reading = asyncio.ensure_future(other.wait("mine", 1, taken))
        bench.pass_time(TTL + 1)
        await other.claim("lost", "two", TTL)
        for claim in claims:
            assert one.append_soon(
                claim.stream, b"b", after=1, epoch=0, landed=lambda _, error: landed.put_nowait(error)
            )
        errors = [await landed.get(), await landed.get()]
        await taken.more.wait()
        reading.cancel()
        return [type(error) for error in errors], [item.data for item in taken.items]

    assert played(scene) == ([type(None), StorageFailed], [b"b"])


@pytest.mark.requirement("K1")
def test_several_processes_may_open_a_new_database_at_once():
    async def main():
        bench = PostgresBench(shared_server())
        journals = await asyncio.gather(*(bench.another() for _ in range(4)))
        claims = await asyncio.gather(
            *(journal.claim("run", f"owner{at}", TTL) for at, journal in enumerate(journals))
        )
        for journal in journals:
            await journal.close()
        return sum(isinstance(claim, Claim) for claim in claims)

    assert asyncio.run(main()) == 1


@pytest.mark.requirement("K1")
def test_readers_who_ask_at_the_same_time_are_answered_by_few_queries():
    async def scene(bench, one, other):
        names = [f"run{number}" for number in range(40)]
        for name in names:
            claim = await one.claim(name, "one", TTL)
            await put(one, claim, [name.encode(), b"more"])
        asked = []
        async with other.links["reading"].use() as connection:
            connection.add_query_logger(lambda query: asked.append(query.query))
        pages = await asyncio.gather(*(other.read(name, 0, 1) for name in names), other.read("none"))
        heads = await asyncio.gather(*(other.head(name) for name in names), other.head("none"))
        cancelled = asyncio.ensure_future(other.read("run1"))
        await asyncio.sleep(0)
        cancelled.cancel()
        after = await other.read("run2", 1)
        return [[item.data for item in page] for page in pages], heads, len(asked) < 10, after

    pages, heads, few, after = played(scene)
    assert pages == [[f"run{number}".encode()] for number in range(40)] + [[]]
    assert heads == [2] * 40 + [0]
    assert (few, after) == (True, [Item(2, b"more")])


async def joined(journal, asked):
    """Be a node that answers with what it was asked for."""

    async def perform(data):
        asked.append(data)
        return data

    await journal.nodes.join("name", "1", NodeState, perform, lambda: None)


@pytest.mark.requirement("K2")
def test_a_node_that_does_not_answer_is_told_as_that_and_never_does_what_was_given_up():
    async def scene(bench, one, other):
        asked: list[Any] = []
        await joined(one, [])
        await joined(other, asked)
        async with other.links["calling"].use():  # it stands still
            silent = await one.nodes.ask_all(b"first")
        told = silent
        while told[0].data is None:
            told = await one.nodes.ask_all(b"second")
        for journal in (one, other):
            await journal.nodes.leave()
        return silent, told, set(asked)

    assert played(scene) == ([NodeReply("name", None)], [NodeReply("name", b"second")], {b"second"})


@pytest.mark.requirement("K2")
def test_an_answer_that_the_last_look_finds_is_given(monkeypatch: pytest.MonkeyPatch):
    """Nobody else looks for it: the node that asks has not joined the others yet."""
    monkeypatch.setattr(nodes, "_GLANCE", 0.0)  # so that the first look is the last

    async def scene(bench, one, other):
        await joined(other, [])
        for _ in range(20):  # a slow machine may need more than one look
            told = await one.nodes.ask_all(b"question")
            if told[0].data is not None:
                break
        await other.nodes.leave()
        return told

    assert played(scene) == [NodeReply("name", b"question")]


@pytest.mark.requirement("K2")
def test_nodes_that_are_gone_are_swept_away_and_those_that_live_stay():
    async def scene(bench, one, other):
        await joined(one, [])
        for old in (
            "node(number, name, version, since) VALUES(1, 'gone', '1', 0)",
            "question(stream, asker, asked, data) VALUES('', 1, 0, 'old')",
        ):
            bench.server.sql(f"INSERT INTO {bench.schema}.{old}")
        await one.nodes.tidy()
        counts = [
            bench.server.sql(f"SELECT count(*) FROM {bench.schema}.{table}") for table in ("node", "question")
        ]
        await one.nodes.leave()
        return counts

    assert played(scene) == ["1", "0"]


@pytest.mark.requirement("K5")
def test_a_process_that_stands_still_in_the_middle_of_a_change_does_not_hold_the_others_for_ever():
    async def scene(bench, one, other):
        limits = []
        for link in one.links.values():
            async with link.use() as connection:
                limits.append(await connection.fetchval("SHOW idle_in_transaction_session_timeout"))
        return set(limits)

    assert played(scene) == {"10s"}


@pytest.mark.requirement("K3")
def test_what_cannot_be_taken_up_does_not_stand_before_what_can():
    async def scene(bench, one, other):
        for name in ("broken", "good"):
            await one.note(name, IndexUpdate(kind="run", status="running"))
        found = [await one.nodes.unheld(1), await one.nodes.unheld(1, ["broken"])]
        return [[row.name for row in each.runs] for each in found]

    assert played(scene) == [["broken"], ["good"]]


def test_calls_for_work_that_cannot_be_sent_yet_are_one_call():
    async def scene(_bench, journal, _other):
        async with journal.links["calling"].use():
            for _ in range(20):
                journal.nodes.call()
                await asyncio.sleep(0)
            waiting = [task for task in asyncio.all_tasks() if task.get_name() == "call for work"]
        await asyncio.wait(waiting)
        journal.nodes.call()
        again = [task for task in asyncio.all_tasks() if task.get_name() == "call for work"]
        await asyncio.wait(again)
        return len(waiting), len(again)

    assert played(scene) == (1, 1)
