"""Group commit: who waits for the disk, what is written together, and what happens when the disk cannot keep up."""

import asyncio

import pytest
from support.journals.watched_journal import Bench, run
from support.server.live_server import eventually

from turnbuckle.journal.port import (
    Changes,
    Claim,
    Fenced,
    Grade,
    Held,
    IndexUpdate,
    StorageFailed,
    StorageFull,
    StreamQuery,
)
from turnbuckle.journal.sqlite import committer
from turnbuckle.journal.tail import tail


async def spin_until(condition) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_seen_items_are_stored_without_a_thread_and_sure_ones_never_on_the_loop(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        bench.watched.log.clear()
        await bench.append("run", [b"first"], 0, Grade.FLUSHED)
        assert not any(on_loop for _, on_loop in bench.watched.log)  # the claim becomes sure with it
        bench.watched.log.clear()
        for number in range(1, 6):
            await bench.append("run", [b"x"], number, Grade.FLUSHED)
            await asyncio.sleep(0)
        assert all(on_loop for _, on_loop in bench.watched.log)
        bench.watched.log.clear()
        await bench.append("run", [b"x"], 6)
        assert not any(on_loop for _, on_loop in bench.watched.log)
        await bench.append("run", [b"x" * (committer.INLINE_BYTES + 1)], 7, Grade.FLUSHED)
        assert not any(on_loop for _, on_loop in bench.watched.log)  # too much to hold the loop up with
        await bench.journal.close()

    run(main())


def test_of_a_small_batch_only_the_commit_is_made_in_the_thread(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        await bench.append("run", [b"first"])
        bench.watched.log.clear()
        await bench.append("run", [b"x", b"y"], 1)
        places = [("COMMIT" if sql == "COMMIT" else "", on_loop) for sql, on_loop in bench.watched.log]
        assert (set(places[:-1]), places[-1]) == ({("", True)}, ("COMMIT", False))
        bench.watched.log.clear()
        await bench.append("run", [b"x" * committer.INLINE_BYTES, b"y"], 3)
        assert not any(on_loop for _, on_loop in bench.watched.log)
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("broken", ["INSERT INTO item", "COMMIT"])
def test_a_small_batch_that_fails_where_it_is_made_or_committed_leaves_nothing_and_is_tried_again(
    broken, tmp_path
):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        await bench.append("run", [b"first"])
        bench.watched.breaks = broken
        with pytest.raises(StorageFailed):
            await bench.append("run", [b"x", b"y"], 1)
        assert not bench.watched.in_transaction
        bench.watched.breaks = ""
        assert await bench.append("run", [b"x", b"y"], 1) == 3
        stored = [item.data for item in await bench.journal.read("run")]
        await bench.journal.close()
        return stored

    assert asyncio.run(asyncio.wait_for(main(), 100)) == [b"first", b"x", b"y"]


def test_a_batch_that_is_made_slowly_leaves_the_loop(tmp_path):
    """As beside a stranger who has locked the file, for whom each beginning of a transaction waits."""

    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        head = await bench.append("run", [b"first"])
        bench.seconds = 5.0
        places = []
        for _ in range(2):
            bench.watched.log.clear()
            head = await bench.append("run", [b"x", b"y"], head)
            places.append({on_loop for sql, on_loop in bench.watched.log if sql != "COMMIT"})
        await bench.journal.close()
        return places

    assert asyncio.run(asyncio.wait_for(main(), 100)) == [{True}, {False}]


def test_commits_that_have_become_slow_leave_the_loop_until_they_are_quick_again(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        head = await bench.append("run", [b"first"])

        async def one_more() -> bool:
            """Whether it was stored on the loop."""
            nonlocal head
            bench.watched.log.clear()
            head = await bench.append("run", [b"x"], head, Grade.FLUSHED)
            await asyncio.sleep(0)
            return all(on_loop for sql, on_loop in bench.watched.log if sql.startswith("INSERT"))

        quick = [await one_more() for _ in range(3)]
        bench.seconds = 10 * committer.SLOW
        slow = [await one_more() for _ in range(4)]
        bench.seconds = 0.0
        again = [await one_more() for _ in range(60)]
        await bench.journal.close()
        return quick, slow, again

    quick, slow, again = asyncio.run(asyncio.wait_for(main(), 5))
    assert quick == [True] * 3
    assert slow[-1] is False
    assert (again[0], again[-1]) == (False, True)


@pytest.mark.requirement("E10")
def test_so_do_commits_that_fail_slowly(tmp_path):
    """As beside a stranger who has locked the file: each try waits for him, and then fails."""

    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        head = await bench.append("run", [b"first"])

        async def one_more() -> bool:
            """Whether it was tried on the loop."""
            bench.watched.log.clear()
            with pytest.raises(StorageFailed):
                await bench.append("run", [b"x", b"y"], head, Grade.FLUSHED)
            await asyncio.sleep(0)
            return all(on_loop for sql, on_loop in bench.watched.log if sql == "COMMIT")

        bench.watched.broken = True
        bench.seconds = 5.0
        slow = [await one_more() for _ in range(3)]
        bench.watched.broken = False
        await bench.journal.close()
        return slow

    assert asyncio.run(asyncio.wait_for(main(), 5)) == [True, False, False]


def test_words_are_never_put_into_the_index_or_taken_out_of_it_on_the_loop(tmp_path):
    async def main():
        bench = Bench(tmp_path, catch_up=0.001)
        await bench.claim("run")
        for note in (
            IndexUpdate(title="moon"),
            IndexUpdate(words="a", title="b", status="c"),
            IndexUpdate(words="", forgotten=True),
        ):
            bench.watched.log.clear()
            await bench.journal.note("run", note)
            head = await bench.journal.head("run")
            await bench.journal.append("run", [b"x"], after=head, epoch=0, grade=Grade.FLUSHED, note=note)
            assert not any(on_loop for sql, on_loop in bench.watched.log if "stream" in sql)
        for note in IndexUpdate(title="sea"), IndexUpdate(words="", forgotten=True):
            bench.watched.log.clear()
            assert await bench.journal.change_all(Changes(notes=[("run", note)]))
            assert not any(on_loop for sql, on_loop in bench.watched.log if "stream" in sql)
        bench.watched.log.clear()
        await bench.journal.note("run", IndexUpdate(status="idle", words="the sun"))
        assert all(on_loop for sql, on_loop in bench.watched.log if "UPDATE stream" in sql)
        await eventually(lambda: any("word_index" in sql for sql, _ in bench.watched.log))
        assert not any(on_loop for sql, on_loop in bench.watched.log if "word_index" in sql)
        await bench.journal.close()

    run(main())


def test_appends_of_one_moment_share_one_commit(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        for number in range(50):
            await bench.claim(f"run-{number}")
        for grade, most in ((Grade.SYNCED, 1), (Grade.FLUSHED, 2)):
            bench.watched.log.clear()
            heads = [await bench.journal.head(f"run-{number}") for number in range(50)]
            work = [bench.append(f"run-{number}", [b"x"], heads[number], grade) for number in range(50)]
            await asyncio.gather(*work)
            assert bench.watched.count("COMMIT") <= most
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E1")
def test_no_reader_sees_an_item_before_it_is_stored(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        bench.watched.gate.clear()
        seen: list[int] = []

        async def follow():
            async for page in tail(bench.journal, "run"):
                seen.extend(item.seq for item in page)

        reader = asyncio.create_task(follow())
        work = asyncio.create_task(bench.append("run", [b"a", b"b"]))
        await spin_until(lambda: bench.watched.count("COMMIT") == 2)  # the claim's and now this one
        assert seen == []
        assert await bench.journal.head("run") == 0
        assert await bench.journal.read("run") == []
        bench.watched.gate.set()
        assert await work == 2
        await spin_until(lambda: seen == [1, 2])
        reader.cancel()
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E5")
def test_writers_that_outrun_the_disk_are_slowed_to_its_pace(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        streams = [f"run-{number}" for number in range(20)]
        begun = dict.fromkeys(streams, 0)

        async def write(stream: str):
            for number in range(30):
                begun[stream] += 1
                await bench.append(stream, [b"x" * 5000], number, Grade.FLUSHED)

        for stream in streams:
            await bench.claim(stream)
        claims = bench.watched.count("COMMIT")
        await bench.claim("slow")
        bench.watched.gate.clear()
        slow = asyncio.create_task(bench.append("slow", [b"a", b"b"]))
        await spin_until(lambda: bench.watched.count("COMMIT") == claims + 2)
        writers = [asyncio.create_task(write(stream)) for stream in streams]
        for _ in range(300):
            await asyncio.sleep(0)
        assert set(begun.values()) == {1}  # the disk is busy, so nobody got further than one append
        assert len(bench.journal._committer._line) == len(streams)
        bench.watched.gate.set()
        await asyncio.gather(slow, *writers)
        assert [await bench.journal.head(stream) for stream in streams] == [30] * 20
        await bench.journal.close()

    run(main())


def test_a_failed_batch_fails_all_that_stands_on_it_and_nothing_else(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("bad")
        await bench.claim("good")
        bench.watched.gate.clear()
        first = asyncio.create_task(bench.append("bad", [b"1"]))
        await spin_until(lambda: bench.watched.count("COMMIT") == 3)
        behind = asyncio.create_task(bench.append("bad", [b"2"], 1))
        other = asyncio.create_task(bench.append("good", [b"1"]))
        await asyncio.sleep(0)
        bench.watched.broken = True
        bench.watched.gate.set()
        for task in (first, behind):
            with pytest.raises(StorageFailed, match="the disk is gone"):
                await task
        bench.watched.broken = False
        results = await asyncio.gather(other, return_exceptions=True)
        assert results[0] == 1 or isinstance(results[0], StorageFailed)
        assert await bench.journal.head("bad") == 0
        assert await bench.append("bad", [b"again"]) == 1
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E8")
def test_a_claim_that_could_not_be_stored_leaves_no_trace(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        bench.watched.broken = True
        with pytest.raises(StorageFailed):
            await bench.journal.claim("run", "one", 60)
        bench.watched.broken = False
        assert await bench.journal.streams() == []
        claim = await bench.claim("run")
        assert claim.epoch == 0
        assert await bench.append("run", [b"a"]) == 1
        assert [row.name for row in await bench.journal.streams()] == ["run"]
        await bench.journal.close()

    run(main())


def test_streams_that_nobody_writes_cost_no_memory(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        for number in range(20):
            claim = await bench.claim(f"run-{number}")
            await bench.append(f"run-{number}", [b"x"])
            await bench.journal.release(claim)
            await bench.journal.read(f"run-{number}")
        assert bench.journal._live == {}
        assert len(bench.journal._waiters) == 0
        await bench.journal.close()

    run(main())


@pytest.mark.requirement("E2")
def test_a_drop_that_was_cut_short_is_finished_by_the_next_process(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        claim = await bench.claim("run")
        await bench.append("run", [b"x"] * 9000)
        await bench.journal.note("run", IndexUpdate(title="t", words="sun"))
        await bench.journal.release(claim)
        dropping = asyncio.create_task(bench.journal.drop("run"))
        await spin_until(lambda: bench.watched.count("INSERT INTO dropped(stream) VALUES(?)") == 1)
        dropping.cancel()
        await asyncio.wait([dropping])
        await bench.journal.close()
        bench = Bench(tmp_path)
        for table in ("item", "dropped", "stream", "word"):
            assert bench.watched.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        await bench.journal.close()

    run(main())


def test_a_full_disk_is_told_apart_from_a_broken_one(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("run")
        bench.watched.execute("PRAGMA max_page_count=1").fetchall()
        with pytest.raises(StorageFull, match="no room for the journal"):
            await bench.append("run", [b"x" * 100_000])
        await bench.journal.close()

    run(main())


def test_the_claim_of_a_stream_that_begins_is_stored_with_its_first_items(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        bench.watched.log.clear()
        claim = await bench.journal.claim("run", "one", 60, begins=True)
        assert isinstance(claim, Claim)
        for _ in range(5):  # whoever begins may do something else first
            await asyncio.sleep(0)
        assert bench.watched.log == []
        note = IndexUpdate(
            kind="run", parent="p", title="Moon", status="new", user="u", mark="m", words="the sun"
        )
        await bench.journal.append("run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED, note=note)
        assert bench.watched.count("COMMIT") == 1
        (row,) = await bench.journal.streams(StreamQuery(name="run"))
        assert (row.holder, row.epoch) == ("one", 0)
        assert (row.kind, row.parent, row.title, row.status, row.user, row.mark) == (
            "run", "p", "Moon", "new", "u", "m",
        )  # fmt: skip
        assert [len((await bench.journal.search(word)).hits) for word in ("moon", "sun", "run")] == [1, 1, 0]
        assert bench.journal.still_mine(claim)
        await bench.journal.close()

    run(main())


def test_a_claim_with_no_items_behind_it_is_stored_all_the_same_and_listed(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.journal.claim("run", "one", 60, begins=True)
        assert [row.holder for row in await bench.journal.streams()] == ["one"]
        assert isinstance(await bench.journal.claim("run", "two", 60), Held)
        await bench.journal.close()

    run(main())


@pytest.mark.parametrize("note", [None, IndexUpdate(kind="run")])
def test_a_beginning_that_can_not_be_stored_leaves_no_claim(note, tmp_path):
    async def main():
        bench = Bench(tmp_path)
        claim = await bench.journal.claim("run", "one", 60, begins=True)
        assert isinstance(claim, Claim)
        bench.watched.broken = True
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(StorageFailed):
            await bench.journal.append("run", [b"lost"], after=0, epoch=0, grade=Grade.SYNCED, note=note)
        assert not bench.journal.still_mine(claim)
        with pytest.raises(Fenced):
            await bench.append("run", [b"later"])
        bench.watched.broken = False
        assert await bench.journal.streams() == []
        await bench.journal.claim("run", "two", 60, begins=True)
        assert await bench.append("run", [b"again"]) == 1
        assert [item.data for item in await bench.journal.read("run")] == [b"again"]
        await bench.journal.close()

    run(main())


def test_streams_are_listed_while_a_beginning_can_not_be_stored(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        await bench.claim("there")
        await bench.append("there", [b"kept"])
        bench.watched.broken = True
        await bench.journal.claim("run", "one", 60, begins=True)
        assert [row.name for row in await bench.journal.streams()] == ["there"]
        bench.watched.broken = False
        await bench.journal.close()

    run(main())


def test_one_who_cannot_hear_what_became_of_an_item_makes_nobody_else_wait(tmp_path):
    def deaf(head: int, error: object) -> None:
        raise ValueError("cannot hear")

    async def main() -> None:
        bench = Bench(tmp_path)
        journal = bench.journal
        heads: list[int] = []
        claims = [await bench.claim(name) for name in ("first", "second")]
        after = [
            await journal.append(claim.stream, [b"a"], after=0, epoch=claim.epoch, grade=Grade.FLUSHED)
            for claim in claims
        ]
        for claim, head, landed in zip(
            claims, after, (deaf, lambda head, _: heads.append(head)), strict=True
        ):
            assert journal.append_soon(claim.stream, b"b", after=head, epoch=claim.epoch, landed=landed)
        await journal.append("second", [b"c"], after=after[1] + 1, epoch=claims[1].epoch, grade=Grade.FLUSHED)
        assert heads == [after[1] + 1]
        for claim in claims:
            assert [item.data for item in await journal.read(claim.stream, 0)][:2] == [b"a", b"b"]
        await journal.close()

    run(main())


def test_works_that_must_be_synced_are_gathered_while_more_of_them_come_and_others_do_not_wait(tmp_path):
    async def main():
        bench = Bench(tmp_path)
        names = [f"run{number}" for number in range(4)]
        for name in (*names, "other"):
            await bench.claim(name)
        after = await bench.append("other", [b"first"])  # so that its claim is sure
        bench.watched.log.clear()

        async def append_later(name, passes):
            for _ in range(passes):
                await asyncio.sleep(0)
            await bench.append(name, [b"sure"])

        synced = [asyncio.create_task(append_later(name, passes)) for passes, name in enumerate(names)]
        await asyncio.sleep(0)
        await bench.append("other", [b"word"], after, Grade.FLUSHED)
        assert all(on_loop for _, on_loop in bench.watched.log)  # nobody waits for the disk yet
        assert not any(task.done() for task in synced)
        await asyncio.gather(*synced)
        assert [on_loop for sql, on_loop in bench.watched.log if sql == "COMMIT"] == [False]
        await bench.journal.close()

    run(main())
