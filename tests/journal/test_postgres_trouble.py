"""A database that restarts, is locked, out of reach or in doubt: what is told, and that nothing sure is lost."""

import asyncio
import errno
import signal

import asyncpg
import pytest
from support.journals.postgres_bench import PostgresBench
from support.postgres.clock import DatabaseClock
from support.postgres.cluster import own_cluster
from support.postgres.server import address_by, address_in, new_schema, shared_server, socket_in

from turnbuckle.journal.address import is_database, password_of, read_address, shown
from turnbuckle.journal.port import (
    Claim,
    Conflict,
    Damaged,
    FormatUnknown,
    Gone,
    Grade,
    Held,
    IndexUpdate,
    OutOfFiles,
    ReadOnly,
    SearchPlace,
    StorageAway,
    StorageError,
    StorageFailed,
    StorageFull,
    StorageLocked,
    StreamQuery,
)
from turnbuckle.journal.postgres.errors import translated
from turnbuckle.journal.postgres.journal import open_postgres
from turnbuckle.journal.postgres.links import connect
from turnbuckle.journal.postgres.reader import Clocks, open_postgres_reader
from turnbuckle.journal.postgres.schema import FORMAT, STEPS, SchemaStep, bring_up_to_date, version_of
from turnbuckle.journal.postgres.unsure import KEPT_SECONDS
from turnbuckle.lab.network import NetworkProxy


def said(code):
    error = asyncpg.PostgresError("words")
    error.sqlstate = code
    return error


ERRORS = {
    "a full disk": (said("53100"), StorageFull, "no room"),
    "no room, said by the system": (OSError(errno.ENOSPC, "no"), StorageFull, "no room"),
    "too many connections": (said("53300"), StorageAway, "no more connections"),
    "a standby": (said("25006"), ReadOnly, "standby"),
    "a missing right": (said("42501"), ReadOnly, "may not"),
    "a restart": (said("57P01"), StorageAway, "restarts"),
    "a start": (said("57P03"), StorageAway, "restarts"),
    "a lock": (said("55P03"), StorageLocked, "lock"),
    "a password": (said("28P01"), StorageFailed, "refused"),
    "damage": (said("XX001"), Damaged, "damaged"),
    "nobody there": (ConnectionRefusedError(errno.ECONNREFUSED, "no"), StorageAway, "cannot be reached"),
    "a broken connection": (
        asyncpg.InterfaceError("connection is closed"),
        StorageAway,
        "cannot be reached",
    ),
    "silence": (TimeoutError(), StorageAway, "cannot be reached"),
    "too many files": (OSError(errno.EMFILE, "no"), OutOfFiles, "no more files"),
}


@pytest.mark.requirement("K1", "E10")
@pytest.mark.parametrize("name", ERRORS)
def test_every_error_of_the_database_is_one_of_the_journal(name):
    error, kind, words = ERRORS[name]
    found = translated(error, "postgresql://somewhere")
    assert isinstance(found, StorageError)
    assert type(found) is kind
    assert words in str(found)
    assert found.passes is (kind is not Damaged)


@pytest.mark.requirement("R3")
@pytest.mark.parametrize(
    "place, printed",
    [
        (".turnbuckle", ".turnbuckle"),
        ("postgresql://ann@db/x", "postgresql://ann@db/x"),
        ("postgresql://ann:p%40ss-word@db:5433/x?schema=y", "postgresql://ann:[secret]@db:5433/x?schema=y"),
        ("postgres://db/x?user=ann&password=hidden", "postgres://db/x?user=ann&password=[secret]"),
        ("postgresql://a:hidden@one:1,two:2/x", "postgresql://a:[secret]@one:1,two:2/x"),
    ],
)
def test_an_address_is_printed_without_its_password(place, printed):
    assert shown(place) == printed
    assert is_database(place) is (place != ".turnbuckle")
    assert password_of(place) in ("", "p@ss-word", "hidden")
    assert (password_of(place) == "") is ("secret" not in printed)


def test_the_schema_is_a_part_of_the_address_that_the_database_does_not_see():
    found = read_address("postgresql://ann@db/x?host=/run/pg&schema=other&sslmode=require")
    assert (found.url, found.schema) == ("postgresql://ann@db/x?host=/run/pg&sslmode=require", "other")
    assert read_address("postgresql://db/x").schema == "turnbuckle"
    for schema in ("", "a;b", 'a"b', "ä", "a" * 49):
        with pytest.raises(ValueError, match="schema"):
            read_address(f"postgresql://db/x?schema={schema}")


@pytest.mark.requirement("K1")
def test_an_append_whose_answer_is_lost_is_found_out_about_and_never_stored_twice():
    async def main():
        server = shared_server()
        async with NetworkProxy(socket_in(server.folder)) as line:
            return await scene(line, await open_postgres(address_by(line, new_schema())))

    async def scene(line, journal):
        claim = await journal.claim("run", "one", 60)
        await journal.append("run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
        line.lose_answers()
        lost = asyncio.ensure_future(
            journal.append("run", [b"b", b"c"], after=1, epoch=0, grade=Grade.FLUSHED)
        )
        behind = asyncio.ensure_future(journal.append("run", [b"d"], after=3, epoch=0, grade=Grade.SYNCED))
        await line.swallowed.wait()  # it is stored, and nobody was told
        line.cut()
        line.heal()
        failed = await asyncio.gather(lost, behind, return_exceptions=True)
        told = journal.trouble()
        with pytest.raises(Conflict) as caught:
            await journal.append("run", [b"b", b"c"], after=1, epoch=0, grade=Grade.FLUSHED)
        head = await journal.append("run", [b"e"], after=4, epoch=0, grade=Grade.SYNCED)
        items = [item.data for item in await journal.read("run")]
        mine = journal.still_mine(claim)
        after = journal.trouble()
        await journal.close()
        return [type(error) for error in failed], told.fault, caught.value.head, head, items, mine, after

    answer = asyncio.run(asyncio.wait_for(main(), 100))
    assert answer == ([StorageAway] * 2, "away", 4, 5, [b"a", b"b", b"c", b"d", b"e"], True, None)


@pytest.mark.requirement("K1", "R12")
def test_no_name_cursor_or_number_of_a_stranger_is_trouble_for_anybody():
    async def main():
        bench = await PostgresBench().open()
        journal = bench.journal
        await journal.note("a", IndexUpdate(kind="run", words="sun"))
        found: list[object] = []
        for name in ("a\0b", "\ud800", "x" * 9000):
            found += [await journal.read(name), await journal.head(name)]
            found.append(await journal.streams(StreamQuery(name=name)))
            found.append((await journal.search("sun", StreamQuery(user=name))).hits)
            await journal.streams(StreamQuery(), (1.0, name))
        with pytest.raises(Gone):
            await journal.wait("a\0b", 1)
        for number in (1 << 63, 1 << 100, -1, -(1 << 100)):
            found.append(await journal.read("a", number, number))
            await journal.streams(limit=number)
            await journal.search("sun", limit=10, after=SearchPlace(number, number))
        for name in ("a\0b", "\ud800"):
            for work in (
                journal.claim(name, "one", 1),
                journal.note(name, IndexUpdate()),
                journal.merge(name, []),
            ):
                with pytest.raises(ValueError, match="signs"):
                    await work
            assert not await journal.drop(name)
        trouble = journal.trouble()
        await bench.close()
        return [one for one in found if one], trouble

    assert asyncio.run(main()) == ([], None)


def lost_behind(bench, seq):
    """What a database that crashed may have lost."""
    bench.server.sql(f"DELETE FROM {bench.schema}.item WHERE seq > {seq}")


@pytest.mark.requirement("K6")
def test_what_a_crashed_database_lost_of_what_was_seen_is_stored_again_under_the_same_numbers():
    async def main():
        bench = await PostgresBench().open()
        journal = bench.journal
        await journal.claim("run", "one", 60)
        await journal.append("run", [b"sure"], after=0, epoch=0, grade=Grade.SYNCED)
        await journal.append("run", [b"a", b"b"], after=1, epoch=0, grade=Grade.FLUSHED)
        await journal.append("run", [b"c"], after=3, epoch=0, grade=Grade.FLUSHED)
        lost_behind(bench, 2)
        heads = await asyncio.gather(
            *(
                journal.append("run", [data], after=after, epoch=0, grade=Grade.FLUSHED)
                for after, data in ((4, b"d"), (5, b"e"))
            )
        )
        lost_behind(bench, 4)
        note = IndexUpdate(status="done")
        heads.append(await journal.append("run", [b"f"], after=6, epoch=0, grade=Grade.SYNCED, note=note))
        other = await bench.another()
        items = [(item.seq, item.data) for item in await other.read("run")]
        await other.close()
        await bench.close()
        return heads, items

    heads, items = asyncio.run(main())
    assert heads == [5, 6, 7]
    assert items == list(enumerate([b"sure", b"a", b"b", b"c", b"d", b"e", b"f"], 1))


@pytest.mark.requirement("K6")
def test_what_a_crashed_database_lost_is_stored_again_as_soon_as_it_is_back_also_if_nothing_more_is_said():
    async def main():
        bench = await PostgresBench().open()
        journal, other = bench.journal, await bench.another()
        await journal.claim("run", "one", 60)
        await journal.append("run", [b"sure"], after=0, epoch=0, grade=Grade.SYNCED)
        await journal.append("run", [b"a", b"b"], after=1, epoch=0, grade=Grade.FLUSHED)
        lost_behind(bench, 2)
        bench.server.sql(f"SELECT pg_terminate_backend({journal.listener.pid})")
        await other.wait("run", 2)
        items = [(item.seq, item.data) for item in await other.read("run")]
        await other.close()
        await bench.close()
        return items

    assert asyncio.run(asyncio.wait_for(main(), 100)) == list(enumerate([b"sure", b"a", b"b"], 1))


@pytest.mark.requirement("K6")
def test_a_process_whose_old_connection_the_database_still_has_listens_again_at_once():
    async def main():
        server, schema = shared_server(), new_schema()
        writer = await open_postgres(server.url(schema))
        async with NetworkProxy(socket_in(server.folder)) as line:
            journal = await open_postgres(address_by(line, schema))
            await writer.claim("run", "one", 60)
            old = journal.listener.pid
            line.half_open()
            while journal.listener.pid in (0, old):
                await journal.head("run")
            waiting = asyncio.ensure_future(journal.wait("run", 0))
            await journal.head("run")
            head = await writer.append("run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
            await waiting
            await journal.close()
        await writer.close()
        return head

    assert asyncio.run(asyncio.wait_for(main(), 100)) == 1


@pytest.mark.requirement("K3")
@pytest.mark.parametrize("lost", ["listener", "relaxed", "sure", "calling"])
def test_a_process_that_has_lost_one_of_its_connections_is_not_taken_for_dead(lost):
    async def main():
        server, schema = shared_server(), new_schema()
        other = await open_postgres(server.url(schema), Clocks(grace=0))
        async with NetworkProxy(socket_in(server.folder)) as line:
            journal = await open_postgres(address_by(line, schema), Clocks(grace=0))
            for name, grade in (("run", Grade.SYNCED), ("other", Grade.FLUSHED)):
                await journal.claim(name, "one", 60)
                await journal.append(name, [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
                await journal.append(name, [b"b"], after=1, epoch=0, grade=grade)
            await journal.nodes.listed()
            line.refuses = True
            pid = journal.listener.pid if lost == "listener" else journal.links[lost].pid
            server.sql(f"SELECT pg_terminate_backend({pid}, 10000)")
            found = await other.claim("run", "two", 60)
            await journal.close()
        await other.close()
        return type(found)

    assert asyncio.run(asyncio.wait_for(main(), 100)) is Held


@pytest.mark.requirement("K3")
def test_whoever_is_back_first_when_all_lost_the_database_takes_nothing_until_the_others_had_time():
    async def main():
        server, schema, now = shared_server(), new_schema(), [1000.0]
        first = await open_postgres(server.url(schema), Clocks(grace=0.001, monotonic=lambda: now[0]))
        async with NetworkProxy(socket_in(server.folder)) as line:
            journal = await open_postgres(address_by(line, schema))
            await journal.claim("run", "one", 600)
            await journal.append("run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
            old = first.listener.pid
            line.refuses = True
            line.cut()
            for pid in (old, *(link.pid for link in first.links.values() if link.pid)):
                server.sql(f"SELECT pg_terminate_backend({pid}, 10000)")
            while first.listener.pid in (0, old):
                await asyncio.sleep(0)
            early = await first.claim("run", "two", 60)
            line.refuses = False
            await journal.append("run", [b"b"], after=1, epoch=0, grade=Grade.SYNCED)
            line.refuses = True
            line.cut()
            now[0] += 1
            late: Held | Claim = early
            while isinstance(late, Held):  # the database notices a moment later that the line is gone
                late = await first.claim("run", "two", 60)
            journal.abort()
        await first.close()
        return early, late.epoch

    early, epoch = asyncio.run(asyncio.wait_for(main(), 100))
    assert isinstance(early, Held)
    assert early.by == "one"
    assert epoch == 1


@pytest.mark.requirement("K3")
def test_the_dead_are_known_also_after_the_clock_of_the_database_was_set_back():
    async def main():
        bench = PostgresBench()
        clock = DatabaseClock(bench.server, bench.schema)
        bench.url = bench.url.replace(f"schema={bench.schema}", clock.settings)
        await bench.open()
        third = await bench.another()
        await third.claim("run", "three", 1000)
        await third.append(
            "run",
            [b"a"],
            after=0,
            epoch=0,
            grade=Grade.SYNCED,
            note=IndexUpdate(kind="run", status="running"),
        )
        clock.step(-1e6)
        await bench.end(third)
        unheld = await bench.journal.nodes.unheld(5)
        orphans = await bench.journal.streams(StreamQuery(orphaned=True))
        claim = await bench.journal.claim("run", "one", 10)
        await bench.close()
        return [row.name for row in (*unheld.runs, *orphans)], claim.epoch

    assert asyncio.run(asyncio.wait_for(main(), 100)) == (["run", "run"], 1)


@pytest.mark.requirement("K6")
def test_where_something_sure_is_lost_nothing_is_stored_behind_the_gap():
    async def main():
        bench = await PostgresBench().open()
        journal = bench.journal
        await journal.claim("run", "one", 600)
        for after in range(3):
            await journal.append("run", [b"sure"], after=after, epoch=0, grade=Grade.SYNCED)
        bench.pass_time(
            2 * KEPT_SECONDS
        )  # a standby that is further behind has lost it, and so has this process
        lost_behind(bench, 1)
        with pytest.raises(Conflict) as caught:
            await journal.append("run", [b"x"], after=3, epoch=0, grade=Grade.FLUSHED)
        head = await journal.append("run", [b"y"], after=1, epoch=0, grade=Grade.FLUSHED)
        await bench.close()
        return caught.value.head, head

    assert asyncio.run(main()) == (1, 2)


@pytest.mark.requirement("K1")
def test_a_lock_that_somebody_holds_is_told_and_waited_out():
    async def main():
        bench = PostgresBench()
        bench.url += "&lock_timeout=100"
        await bench.open()
        journal = bench.journal
        await journal.claim("run", "one", 60)
        blocker = await connect(read_address(bench.url))
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE item IN EXCLUSIVE MODE")
            with pytest.raises(StorageFailed, match="holds a lock"):
                await journal.append("run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
            told = journal.trouble()
        head = await journal.append("run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
        await blocker.close()
        await bench.close()
        return told.fault, head, journal.trouble()

    assert asyncio.run(main()) == ("locked", 1, None)


@pytest.mark.requirement("K1")
def test_a_database_that_is_not_there_or_has_no_journal_is_told_in_words(tmp_path):
    async def main():
        with pytest.raises(StorageFailed, match="cannot be reached"):
            await open_postgres(f"postgresql://tester@/postgres?host={tmp_path}")
        return await open_postgres_reader(shared_server().url())

    assert asyncio.run(main()) is None


@pytest.mark.requirement("K1")
def test_a_shape_is_brought_up_to_date_in_steps_and_neighbours_work_on_it_together():
    async def main():
        bench = await PostgresBench().open()
        await bench.journal.note("a", IndexUpdate(title="kept"))
        address = read_address(bench.url)
        connection = await connect(address)
        more = SchemaStep(
            ("ALTER TABLE stream ADD COLUMN more text",),
            ("CREATE INDEX CONCURRENTLY IF NOT EXISTS more ON stream(kind, id)",),
            oldest=1,
        )
        await bring_up_to_date(connection, address, {**STEPS, FORMAT: more}, FORMAT + 1)
        versions = [await version_of(connection, address, FORMAT + ahead) for ahead in (0, 1, 2)]
        await bench.journal.note("a", IndexUpdate(status="an older program goes on"))
        other = await bench.another()
        row = (await other.streams())[0]
        await other.close()
        last = SchemaStep(("ALTER TABLE stream DROP COLUMN mark",), oldest=FORMAT + 2)
        await bring_up_to_date(connection, address, {**STEPS, FORMAT: more, FORMAT + 1: last}, FORMAT + 2)
        with pytest.raises(FormatUnknown, match=rf"format {FORMAT + 2}.*up to {FORMAT}"):
            await bench.another()
        await connection.execute("DROP TABLE format")
        with pytest.raises(FormatUnknown, match="other people's tables"):
            await bench.another()
        await connection.close()
        await bench.close()
        return versions, row.title, row.status

    assert asyncio.run(main()) == ([FORMAT + 1] * 3, "kept", "an older program goes on")


@pytest.mark.process
@pytest.mark.requirement("K6")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarts", "crashes"])
def test_a_database_that_goes_away_and_comes_back_has_lost_nothing(how):
    async def main(cluster, url):
        back = asyncio.Event()

        async def until_back(_):
            await back.wait()

        journal = await open_postgres(url, Clocks(sleep=until_back))
        looking = await open_postgres_reader(url, Clocks(sleep=until_back))
        claim = await journal.claim("run", "one", 600)
        await journal.append("run", [b"a", b"b"], after=0, epoch=0, grade=Grade.FLUSHED)
        await journal.append("run", [b"sure"], after=2, epoch=0, grade=Grade.SYNCED)
        await journal.append("run", [b"seen"], after=3, epoch=0, grade=Grade.FLUSHED)
        waiting = asyncio.ensure_future(looking.wait("run", 4))
        await looking.read("run")
        await asyncio.to_thread(cluster.stop, how)
        with pytest.raises(StorageFailed):
            await journal.append("run", [b"c"], after=4, epoch=0, grade=Grade.FLUSHED)
        told = journal.trouble()
        reading = asyncio.ensure_future(looking.head("none"))
        await asyncio.to_thread(cluster.start)
        back.set()
        assert await reading == 0
        head = await journal.append("run", [b"c"], after=4, epoch=0, grade=Grade.SYNCED)
        await waiting
        items = [item.data for item in await looking.read("run")]
        mine = journal.still_mine(claim), await journal.renew(claim, 600)
        after = journal.trouble()
        await looking.close()
        await journal.close()
        return told.fault, items, head, mine, after

    with own_cluster() as cluster:
        answer = asyncio.run(asyncio.wait_for(main(cluster, address_in(cluster.folder, "journal")), 300))
    assert answer == ("away", [b"a", b"b", b"sure", b"seen", b"c"], 5, (True, True), None)
