"""What nodes tell each other of routes and windows, over a real database."""

import asyncio

import pytest
from msgspec.structs import replace
from support.journals.postgres_bench import PostgresBench

from turnbuckle.call.health import MOST_NAMES, HealthBook, RouteHealth
from turnbuckle.call.limits import Limit
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.runtime.gossip import NodeGossip, books_of
from turnbuckle.runtime.windows import WindowBook
from turnbuckle.turn.policy import RouteFacts
from turnbuckle.vocab.events import Cut, Ended
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName

LAB = RouteName("lab")
ROUTE = RouteFacts(LAB, "openai_chat", "m")


class Node:
    """One node's books, by a clock of its own."""

    def __init__(self, journal, now: float) -> None:
        self.now = now
        self.health = HealthBook()
        self.windows = WindowBook(MemoryJournal())
        self.gossip = NodeGossip(
            journal.nodes.gossip, [*books_of(self.health, lambda: self.now), self.windows]
        )
        self.exchange = self.gossip.exchange


def played(scene):
    async def main():
        bench = await PostgresBench().open()
        journals = [bench.journal, await bench.another(), await bench.another()]
        try:
            async with asyncio.timeout(100):
                return await scene(*(Node(one, 100.0 * at) for at, one in enumerate(journals, 1)))
        finally:
            for journal in journals[1:]:
                await journal.close()
            await bench.close()

    return asyncio.run(main())


def fails(node: Node, kind: str = "auth") -> None:
    node.health.begin(LAB, node.now)
    node.health.note(LAB, Cut(failure(kind, "no")), node.now)


@pytest.mark.requirement("K7")
def test_a_route_that_one_node_benched_rests_everywhere_until_one_finds_that_it_works():
    async def scene(one, two, three):
        fails(one)
        for node in (one, two, three):
            await node.exchange()
        rests = [node.health.of(LAB).standing(node.now) for node in (one, two, three)]
        left = [node.health.of(LAB).benched_until - node.now for node in (one, two, three)]
        for node in (one, two, three):
            node.now += 301
        two.health.begin(LAB, two.now)  # the probe
        await two.exchange()
        await three.exchange()
        probed = three.health.of(LAB).standing(three.now)
        two.health.note(LAB, Ended("stop"), two.now)
        for node in (two, one, three):
            await node.exchange()
        fit = [node.health.of(LAB).standing(node.now) for node in (one, two, three)]
        return rests, left, probed, fit

    rests, left, probed, fit = played(scene)
    assert (rests, probed, fit) == (["benched"] * 3, "probed", ["fit"] * 3)
    assert all(200 < seconds <= 300 for seconds in left)


@pytest.mark.requirement("K7")
def test_failures_in_a_row_are_counted_by_all_together():
    async def scene(one, two, three):
        for node in (one, two, three):
            await node.exchange()
            fails(node, "server")
            await node.exchange()
        await one.exchange()
        return one.health.of(LAB).standing(one.now), two.health.of(LAB).failures

    assert played(scene) == ("benched", 2)


@pytest.mark.requirement("K7")
def test_what_is_learned_while_others_are_told_reaches_them_too():
    async def scene(one, two, three):
        await two.windows.of(ROUTE)
        limit = Limit(10.0, default=10.0)
        for size in range(1, 9):
            one.health.pace(LAB).note("gap", 1.0, limit)
            await one.windows.learn(ROUTE, 1024 * size)
            exchange = asyncio.create_task(one.exchange())
            for _ in range(3 * size):  # as far as it comes by then
                await asyncio.sleep(0)
            one.health.pace(LAB).note("gap", 2.0, limit)
            await one.windows.learn(ROUTE, 1024 * size + 1)
            await exchange
            one.now += 2
        await one.exchange()
        await two.exchange()
        paces = [node.health.pace(LAB).seen().shares["gap"] for node in (one, two)]
        return len(paces[0]), paces[0] == paces[1], await two.windows.of(ROUTE)

    assert played(scene) == (16, True, 8193)


@pytest.mark.requirement("K7")
def test_news_of_two_at_the_same_moment_are_both_heard():
    async def scene(one, two, three):
        fails(one)
        fails(two, "server")
        await asyncio.gather(one.exchange(), two.exchange())
        for node in (one, two, three, one):
            await node.exchange()
        return [node.health.of(LAB).standing(node.now) for node in (one, two, three)]

    assert played(scene) == ["benched"] * 3


@pytest.mark.requirement("K7")
def test_clocks_models_and_windows_are_learned_once_for_all():
    async def scene(one, two, three):
        await two.windows.of(ROUTE)  # it has read what the journal knows already
        for _ in range(8):
            one.health.pace(LAB).note("gap", 1.0, Limit(10.0, default=10.0))
        one.health.note_stream(LAB, "m/2", Cut(failure("unstreamable", "no")), one.now)
        one.health.note_end(LAB, "m/2", "reason")
        refused = replace(failure("unsupported", "no"), param="max_completion_tokens")
        one.health.note(LAB, Cut(refused), one.now)
        await one.windows.learn(ROUTE, 8192)
        await one.exchange()
        await two.exchange()
        return (
            two.health.pace(LAB).scale("gap"),
            two.health.streams(LAB, two.now, "m/2"),
            two.health.model(LAB, "m/2")[1].reasoned,
            two.health.cap_field(LAB),
            await two.windows.of(ROUTE),
        )

    assert played(scene) == (pytest.approx(0.4), False, True, "max_tokens", 8192)


def test_nothing_is_told_that_others_know():
    async def scene(one, two, three):
        fails(one)
        told = []
        for node in (one, two, three):
            tell = node.gossip._gossip.tell

            async def counted(name, *given, tell=tell, **more):
                told.append(name)
                return await tell(name, *given, **more)

            node.gossip._gossip.tell = counted
        for _ in range(3):
            for node in (one, two, three):
                await node.exchange()
        return told

    assert played(scene) == ["route:lab"]


def test_what_another_version_says_is_left_out():
    async def scene(one, two, three):
        await one.gossip._gossip.tell("route:lab", b'{"health": 7}', 0)
        await one.gossip._gossip.tell("model:nonsense", b"{}", 0)
        await one.gossip._gossip.tell("later:version", b"x", 0)
        await two.exchange()
        return two.health.of(LAB)

    assert played(scene) == RouteHealth()


@pytest.mark.requirement("K7")
def test_what_was_forgotten_and_is_told_again_is_heard_though_its_version_is_the_first_again():
    async def main():
        bench = await PostgresBench().open()
        other = await bench.another()
        try:
            async with asyncio.timeout(100):
                tells, hears = bench.journal.nodes.gossip, other.nodes.gossip
                await tells.tell("keys", b"one", 0)
                first = await hears.heard()
                bench.server.sql(f"DELETE FROM {bench.schema}.memo")
                for _ in range(240):  # until all is read again
                    await hears.heard()
                await tells.tell("keys", b"two", 1)
                return [memo.data for memo in (*first, *await hears.heard())]
        finally:
            await other.close()
            await bench.close()

    assert asyncio.run(main()) == [b"one", b"two"]


@pytest.mark.requirement("K7")
def test_however_many_names_others_tell_what_a_node_knows_stays_small():
    """Clients may name any model of a relay, at any node."""

    async def scene(one, two, three):
        for number in range(MOST_NAMES + 50):
            one.health.note_end(LAB, f"m{number}", "reason")
        two.health.note_end(LAB, "mine", "bare")
        for number in range(1200):
            name = f'model:["lab","other{number}"]'
            two.gossip._books[1].hear(name, b"{}", 0.0)
            two.health.pace(RouteName(f"route{number}"))
        two.windows._learned = {}
        for number in range(1200):
            two.windows.hear(f"window:{number}", b"4096", 0.0)
        return (
            len(one.health.models),
            ("lab", "m0") in one.health.models,
            len(two.health.models),
            len(two.health.routes),
            len(two.windows._learned),
        )

    found = played(scene)
    assert found[:2] == (MOST_NAMES, False)
    assert max(found[2:]) <= MOST_NAMES


def test_the_oldest_of_too_many_memos_are_forgotten():
    async def main():
        bench = await PostgresBench().open()
        try:
            gossip = bench.journal.nodes.gossip
            sql = (
                f"INSERT INTO {bench.schema}.memo SELECT 'old' || n, 1, 0, extract(epoch FROM now()) - n, '' "
            )
            bench.server.sql(sql + "FROM generate_series(1, 10050) n")
            await gossip.tidy()
            count = bench.server.sql(f"SELECT count(*) FROM {bench.schema}.memo")
            left = bench.server.sql(
                f"SELECT name FROM {bench.schema}.memo WHERE name IN ('old1', 'old10050')"
            )
            return count, left
        finally:
            await bench.close()

    count, left = asyncio.run(main())
    assert (count, left) == ("10000", "old1")
