"""A run read to a client over real sockets. Time is virtual, so an hour of silence takes a moment."""

import asyncio
import logging
from itertools import pairwise

import pytest
from support.http.memory_server import END, RUN, Broken, Fold, Lines, Quiet, memory_server, settled

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade
from turnbuckle.server.settings import ServerSettings
from turnbuckle.server.streaming.run_streamer import PAGE
from turnbuckle.testing.clock import VirtualClock

EVENTS = f"/runs/{RUN}/events"
WHOLE = f"/runs/{RUN}/whole"
OWN = ServerSettings(port=0)


def run_scenario(scenario, settings=OWN, **more):
    """Play a scenario with a server and a clock, and give what it gives."""
    clock = VirtualClock()

    async def main():
        async with memory_server(settings, **more) as built:
            return await scenario(built, clock)

    return clock.run(main, quiet=0.001)


async def listen(client, seconds):
    """What comes within so many seconds, with the second in which it came."""
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), []
    try:
        async with asyncio.timeout(seconds):
            while True:
                piece = await client.chunk()
                seen.append((round(loop.time() - began), piece))
    except TimeoutError:
        return seen


async def passes(holds):
    """Let time pass until something holds."""
    while not holds():
        await asyncio.sleep(0.25)


@pytest.mark.requirement("F2")
def test_a_stream_begins_at_once_with_headers_against_buffering():
    async def scenario(built, clock):
        async with built.client() as client:
            reply = await client.stream(EVENTS)
            return reply, await client.chunk(), clock.now()

    reply, first, now = run_scenario(scenario)
    assert (reply.status, first, now) == (200, b"data: open\n\n", 0.0)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache, no-transform"
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["x-turnbuckle-run"] == RUN
    assert reply.headers["x-request-id"].startswith("req_")


@pytest.mark.requirement("E4")
def test_what_is_stored_comes_first_and_then_what_happens_and_then_the_proper_end():
    async def scenario(built, clock):
        await built.say(b"one", b"two")
        async with built.client() as client:
            await client.stream(EVENTS)
            first = await client.until(b"two")
            await built.say(b"three")
            second = await client.chunk()
            await built.say(END)
            return first, second, await client.rest()

    first, second, third = run_scenario(scenario)
    assert first == b"data: open\n\ndata: one\n\ndata: two\n\n"
    assert second == b"data: three\n\n"
    assert third == b"data: [DONE]\n\n"


@pytest.mark.requirement("E4")
def test_every_cursor_gives_exactly_what_comes_after_it():
    async def scenario(built, clock):
        await built.say(*(b"%d" % number for number in range(1, 8)), END)
        got = []
        for after in range(8):
            async with built.client() as client:
                await client.stream(f"{EVENTS}?after={after}")
                got.append(await client.rest())
        return got

    for after, body in enumerate(run_scenario(scenario)):
        later = b"".join(b"data: %d\n\n" % number for number in range(after + 1, 8))
        assert body == b"data: open\n\n" + later + b"data: [DONE]\n\n"


def test_what_is_stored_at_once_is_one_send():
    async def scenario(built, clock):
        async with built.client() as client:
            await client.stream(EVENTS)
            await client.chunk()
            await built.say(b"a", b"b")
            await built.say(b"c")
            return await client.chunk(), await client.chunk()

    assert run_scenario(scenario) == (b"data: a\n\ndata: b\n\n", b"data: c\n\n")


def test_a_long_run_is_replayed_whole_and_in_order():
    count = PAGE * 20 + 3

    async def scenario(built, clock):
        await built.say(*(b"%d" % number for number in range(count)), END)
        async with built.client() as client:
            await client.stream(EVENTS)
            return await client.rest()

    lines = [line for line in run_scenario(scenario).split(b"\n\n") if line]
    assert lines == [b"data: open", *(b"data: %d" % number for number in range(count)), b"data: [DONE]"]


def test_a_long_replay_lets_others_have_their_turn():
    async def scenario(built, clock):
        await built.say(*([b"x"] * PAGE * 50), run="long")
        turns = 0
        async with built.client() as client:
            reading = asyncio.create_task(client.stream("/runs/long/events"))
            while built.journal.reads < 50:
                turns += 1
                await asyncio.sleep(0)
            await reading
        return turns

    class Counted(MemoryJournal):
        reads = 0

        async def read(self, stream, after=0, limit=PAGE):
            self.reads += 1
            return await super().read(stream, after, limit)

    assert run_scenario(scenario, journal=Counted()) >= 50


@pytest.mark.requirement("F2")
def test_a_silent_stream_has_a_comment_after_keepalive_and_a_frame_after_noop():
    async def scenario(built, clock):
        async with built.client() as client:
            await client.stream(EVENTS)
            await client.chunk()
            return await listen(client, 95)

    seen = run_scenario(scenario)
    comment, frame = b": keepalive\n\n", b"data: beat\n\n"
    assert [piece for _, piece in seen] == [comment, frame] * 3
    assert all(abs(at - due) <= 2 for (at, _), due in zip(seen, (15, 30, 45, 60, 75, 90), strict=True))


@pytest.mark.requirement("F2")
def test_a_dialect_without_such_a_frame_is_kept_alive_by_comments():
    async def scenario(built, clock):
        async with built.client() as client:
            await client.stream(EVENTS)
            await client.chunk()
            return await listen(client, 63)

    dialect = Quiet()
    seen = run_scenario(scenario, dialect=lambda: dialect)
    assert dialect.asked == 2
    assert [piece for _, piece in seen] == [b": keepalive\n\n"] * 4
    assert all(14 <= later - earlier <= 17 for (earlier, _), (later, _) in pairwise(seen))


@pytest.mark.requirement("F2")
def test_a_stream_that_is_not_silent_gets_neither():
    async def scenario(built, clock):
        async def talk():
            for _ in range(20):
                await asyncio.sleep(10)
                await built.say(b"x")
            await built.say(END)

        talking = asyncio.create_task(talk())
        async with built.client() as client:
            await client.stream(EVENTS)
            body = await client.rest()
        await talking
        return body

    assert run_scenario(scenario) == b"data: open\n\n" + b"data: x\n\n" * 20 + b"data: [DONE]\n\n"


@pytest.mark.requirement("F2")
def test_items_that_say_nothing_to_a_client_do_not_keep_its_stream_alive():
    async def scenario(built, clock):
        async def work():
            while True:
                await asyncio.sleep(5)
                await built.say(b"silent")

        working = asyncio.create_task(work())
        async with built.client() as client:
            await client.stream(EVENTS)
            await client.chunk()
            seen = await listen(client, 35)
        working.cancel()
        return seen

    assert [piece for _, piece in run_scenario(scenario)] == [b": keepalive\n\n", b"data: beat\n\n"]


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("path", [EVENTS, WHOLE])
def test_a_client_that_leaves_is_noticed_at_once_while_the_run_is_silent(path):
    async def scenario(built, clock):
        async with built.client() as client:
            await client.send("GET", path, headers={"x-turnbuckle-on-disconnect": "cancel"})
            await settled(lambda: len(built.pulse) == 1)
            left = clock.now()
        await settled(lambda: len(built.pulse) == 0)
        return clock.now() - left, built.stopped, len(built.attendance)

    assert run_scenario(scenario) == (0.0, [(RUN, "the client left")], 0)


@pytest.mark.requirement("F7")
def test_a_client_that_saw_the_end_has_not_left():
    async def scenario(built, clock):
        await built.say(b"one", END)
        for path in (EVENTS, WHOLE):
            async with built.client() as client:
                await client.ask("GET", path, headers={"x-turnbuckle-on-disconnect": "cancel"})
            await settled(lambda: len(built.pulse) == 0)
        return built.stopped, len(built.attendance)

    assert run_scenario(scenario) == ([], 0)


@pytest.mark.requirement("F7")
def test_the_grace_of_a_run_begins_when_its_last_reader_leaves():
    async def scenario(built, clock):
        grace = {"x-turnbuckle-on-disconnect": "20"}
        async with built.client() as first:
            await first.stream(EVENTS, headers=grace)
        await asyncio.sleep(15)
        async with built.client() as back:  # whoever comes back in time keeps it alive, by whichever way
            await back.stream(EVENTS)
            await asyncio.sleep(100)
            assert built.stopped == []
        left = clock.now()
        await passes(lambda: bool(built.stopped))
        return built.stopped, round(clock.now() - left)

    assert run_scenario(scenario) == ([(RUN, "nobody read it for 20 seconds")], 20)


@pytest.mark.requirement("F1")
def test_a_plain_request_waits_for_the_end_and_gets_everything():
    async def scenario(built, clock):
        async with built.client() as client:
            await built.say(b"one")
            await client.send("GET", WHOLE)
            await asyncio.sleep(100)
            await built.say(b"two", END)
            return (await client.reply()).json

    assert run_scenario(scenario) == {"items": ["one", "two"]}


@pytest.mark.requirement("E5")
def test_a_reader_that_does_not_read_is_cut_off_without_an_end_and_can_come_back():
    async def scenario(built, clock):
        piece = b"x" * 60_000
        async with built.client() as client:
            await client.stream(EVENTS)
            client.reader._transport.pause_reading()
            for _ in range(200):
                await built.say(piece)
            began = clock.now()
            await passes(lambda: len(built.pulse) == 0)
            waited = clock.now() - began
            client.reader._transport.resume_reading()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.rest()
        await built.say(END)
        async with built.client() as again:
            await again.stream(EVENTS)
            body = await again.rest()
        return (
            waited,
            built.pulse.dropped,
            built.served[0].end,
            body.count(piece),
            body.endswith(b"[DONE]\n\n"),
        )

    waited, dropped, end, count, whole = run_scenario(scenario)
    assert 59 <= waited <= 63
    assert (dropped, end, count, whole) == (1, "cut", 200, True)


@pytest.mark.requirement("E5")
def test_a_reader_that_does_not_read_costs_what_its_connection_buffers_however_long_the_run():
    async def scenario(built, clock):
        async with built.client() as client:
            await client.stream(EVENTS)
            client.reader._transport.pause_reading()
            reads = []
            for _ in range(40):
                await built.say(*([b"x" * 2000] * 100))
                for _ in range(10):
                    await asyncio.sleep(0)
                reads.append(built.journal.given)
            return reads

    class Counted(MemoryJournal):
        given = 0

        async def read(self, stream, after=0, limit=PAGE):
            items = await super().read(stream, after, limit)
            self.given += len(items)
            return items

    reads = run_scenario(scenario, journal=Counted())
    assert reads[-1] == reads[-10] < 4000  # it stopped to read the journal when its client stopped to read


@pytest.mark.requirement("E5")
def test_a_reader_that_reads_slowly_is_not_cut_off():
    async def scenario(built, clock):
        await built.say(*([b"x" * 60_000] * 200), END)
        async with built.client() as client:
            await client.stream(EVENTS)
            size = paused = 0
            while piece := await client.chunk():
                size += len(piece)
                if size - paused > 600_000:
                    paused = size
                    client.reader._transport.pause_reading()
                    await asyncio.sleep(40)
                    client.reader._transport.resume_reading()
            return size

    assert run_scenario(scenario) > 200 * 60_000


def test_an_error_behind_the_headers_cuts_the_stream_and_is_in_the_log(caplog):
    async def scenario(built, clock):
        await built.say(b"one")
        async with built.client() as client:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.stream(EVENTS)
            await settled(lambda: bool(built.served))
            return built.served[0].end, len(built.pulse), len(built.attendance)

    with caplog.at_level(logging.ERROR, "turnbuckle.server"):
        assert run_scenario(scenario, dialect=Broken) == ("cut", 0, 0)
    assert "a secret of the dialect" in caplog.text


def test_a_heartbeat_that_fails_costs_only_its_own_reader(caplog):
    class Failing(Lines):
        def beat(self, now, waits=None):
            raise RuntimeError("no beat")

    made = iter([Failing(), Lines()])

    async def scenario(built, clock):
        async with built.client() as bad, built.client() as good:
            await bad.stream(EVENTS)
            await good.stream(EVENTS)
            seen = await listen(good, 40)
            return seen[-1][1], len(built.pulse)

    with caplog.at_level(logging.ERROR, "turnbuckle.server"):
        assert run_scenario(scenario, dialect=made.__next__) == (b"data: beat\n\n", 1)


def test_a_run_that_is_deleted_under_a_reader_cuts_its_stream():
    async def scenario(built, clock):
        await built.say(b"one")
        async with built.client() as client:
            await client.stream(EVENTS)
            await client.until(b"one")
            await built.journal.release(built.claims[RUN][0])
            assert await built.journal.drop(RUN)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.rest()
            await settled(lambda: bool(built.served))
            return built.served[0].end

    assert run_scenario(scenario) == "cut"


def test_a_journal_that_closes_interrupts_its_readers(caplog):
    async def scenario(built, clock):
        async with built.client() as client, built.client() as plain:
            await client.stream(EVENTS)
            await client.chunk()
            await plain.send("GET", WHOLE)
            await settled(lambda: len(built.pulse) == 2)
            await built.journal.close()
            return await client.rest(), await plain.reply()

    body, reply = run_scenario(scenario)
    assert body == b"data: interrupted\n\n"
    assert (reply.status, reply.error["code"]) == (503, "interrupted")


def test_what_is_folded_for_a_plain_answer_needs_no_bytes():
    fold = Fold()

    async def main():
        journal = MemoryJournal()
        claim = await journal.claim(RUN, "test", 10)
        assert isinstance(claim, Claim)
        await journal.append(RUN, [b"a", END], after=0, epoch=claim.epoch, grade=Grade.FLUSHED)
        fold.take(await journal.read(RUN))

    asyncio.run(main())
    assert (fold.items, fold.ended) == (["a"], True)
