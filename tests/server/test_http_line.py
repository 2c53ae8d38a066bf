"""The place where a wait is ended from outside: because the client leaves, or because the server lets go."""

import asyncio

import pytest
from support.http.memory_server import END, Lines

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade, StorageFailed
from turnbuckle.server.http.client_connection import ClientGone, Interrupted, Presence
from turnbuckle.server.http.exchange import Streaming
from turnbuckle.server.streaming.disconnect import DisconnectPolicy
from turnbuckle.server.streaming.heartbeat import Heartbeat, WaitingReader
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import RunId


class Wire:
    """A line that a test holds."""

    def __init__(self) -> None:
        self.gone = False
        self.dropped = False
        self.clear = True
        self.aborted = False
        self.listener = None

    def on_gone(self, call) -> None:
        self.listener = call

    def abort(self) -> None:
        self.aborted = True

    def push(self, body: bytes) -> bool:
        return False


async def begun(task_of):
    """A task that has come to its first wait."""
    task = asyncio.create_task(task_of)
    await asyncio.sleep(0)
    return task


@pytest.mark.requirement("F7")
@pytest.mark.parametrize("why", [ClientGone, Interrupted])
def test_a_wait_ends_with_the_reason_and_the_task_goes_on_as_if_never_cancelled(why):
    async def main():
        wire, seen = Wire(), []
        presence = Presence(wire)

        async def read():
            try:
                with presence:
                    await asyncio.Event().wait()
            except why:
                seen.append(why)
            await asyncio.sleep(0)  # would raise if a cancellation were left over
            seen.append(asyncio.current_task().cancelling())

        task = await begun(read())
        presence.interrupt() if why is Interrupted else wire.listener()
        presence.interrupt()  # what comes behind the first reason changes nothing
        await task
        return seen, wire.listener

    assert asyncio.run(main()) == ([why, 0], None)


def test_a_cancellation_from_elsewhere_stays_one():
    async def main():
        wire = Wire()

        async def read():
            with Presence(wire):
                await asyncio.Event().wait()

        for also_leaves in (False, True):
            task = await begun(read())
            if also_leaves:
                wire.listener()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()

    asyncio.run(main())


def test_whoever_has_left_already_is_not_waited_for():
    async def main():
        wire = Wire()
        wire.gone = True
        with pytest.raises(ClientGone), Presence(wire):
            await asyncio.Event().wait()

    asyncio.run(main())


def test_outside_of_its_block_nothing_is_ended():
    async def main():
        wire = Wire()
        presence = Presence(wire)
        presence.interrupt()
        with presence:
            await asyncio.sleep(0)
        presence.interrupt()
        await asyncio.sleep(0)
        return asyncio.current_task().cancelling(), wire.listener

    assert asyncio.run(main()) == (0, None)


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    "sending, clear, aborted", [(False, True, False), (True, True, True), (False, False, True)]
)
def test_a_reader_with_frames_on_their_way_is_cut_off_and_not_told_more(sending, clear, aborted):
    """Its frames are lost with the send, and a farewell behind a gap would be a lie."""

    async def main():
        wire = Wire()
        wire.clear = clear
        presence = Presence(wire)
        pulse = Heartbeat(keepalive=15, noop=30, wall=lambda: 0.0)
        reader = WaitingReader(wire, None, None, presence)
        reader.sending = sending
        pulse.add(presence, reader)
        pulse.interrupt_all()
        return wire.aborted, pulse.over, len(pulse)

    assert asyncio.run(main()) == (aborted, True, 1)


@pytest.mark.requirement("E5")
def test_frames_do_not_overtake_others_whose_send_waits_for_its_turn_though_the_line_is_clear_again():
    sent: list[bytes] = []

    class ClearWire(Wire):
        def push(self, body: bytes) -> bool:
            sent.append(body)
            return True

    async def main():
        wire, reads = ClearWire(), asyncio.Event()

        async def send(message) -> None:
            await reads.wait()
            sent.append(message["body"])

        reader = WaitingReader(wire, send, Lines(), Presence(wire))
        slow = await begun(reader.write(b"first"))
        reads.set()  # the client has read, and whoever waited for that had no turn yet
        pushed = reader.push(b"second")
        await slow
        return pushed, list(sent), reader.push(b"second")

    assert asyncio.run(main()) == (False, [b"first"], True)
    assert sent == [b"first", b"second"]


@pytest.mark.requirement("E5", "F2")
def test_a_beat_does_not_overtake_frames_that_were_drawn_and_not_sent():
    clock, sent = VirtualClock(), []

    async def send(message) -> None:
        sent.append(message["body"])

    async def main():
        wire = Wire()
        presence = Presence(wire)
        pulse = Heartbeat(keepalive=15, noop=30, wall=lambda: 0.0)
        reader = WaitingReader(wire, send, Lines(), presence)
        pulse.add(presence, reader)
        beating = asyncio.ensure_future(pulse.run(lambda: (), lambda: None))
        assert not reader.push(b"drawn")
        await asyncio.sleep(40)
        before = list(sent)
        await reader.write(b"drawn")
        await asyncio.sleep(40)
        beating.cancel()
        return before, sent[0], len(sent) > 1

    assert clock.run(main, quiet=0) == ([], b"drawn", True)


@pytest.mark.requirement("E5", "F2")
def test_nor_does_a_beat_that_had_to_ask_first_what_the_run_waits_for():
    clock, sent = VirtualClock(), []

    async def send(message) -> None:
        sent.append(message["body"])

    async def main():
        wire = Wire()
        presence = Presence(wire)

        async def stranded(run: RunId) -> None:
            assert not reader.push(b"drawn")  # something is stored meanwhile, for a client that is slow

        pulse = Heartbeat(keepalive=1000, noop=30, wall=lambda: 0.0, stranded=stranded)
        reader = WaitingReader(wire, send, Lines(), presence)
        pulse.add(presence, reader)
        beating = asyncio.ensure_future(pulse.run(lambda: (), lambda: None))
        await asyncio.sleep(40)
        await reader.write(b"drawn")
        beating.cancel()

    clock.run(main, quiet=0)
    assert sent == [b"drawn"]


@pytest.mark.requirement("E5")
@pytest.mark.parametrize("last", [b"more", END])
def test_a_reader_whose_frames_were_on_their_way_as_its_run_was_given_up_is_cut_off_too(last):
    """Nothing goes out behind a gap: no further frame, no farewell, no proper end."""
    sent: list[bytes] = []

    async def main():
        journal, wire, waits = MemoryJournal(), Wire(), asyncio.Event()
        claim = await journal.claim("r1", "test", 1e9)
        assert isinstance(claim, Claim)
        head = await journal.append("r1", [b"one"], after=0, epoch=claim.epoch, grade=Grade.FLUSHED)
        pulse = Heartbeat(keepalive=15, noop=30, wall=lambda: 0.0)
        stopped: list[object] = []
        policy = DisconnectPolicy(lambda run, why: stopped.append((run, why)))
        streamer = RunStreamer(journal, pulse, policy)

        async def send(message) -> None:
            if message.get("body") == b"data: open\n\ndata: one\n\n":
                waits.set()
                await asyncio.Event().wait()  # a client that does not read
            sent.append(message.get("body", b""))

        streaming = Streaming(RunId("r1"), Lines(), on_disconnect="cancel")
        reading = asyncio.create_task(streamer.perform(streaming, wire, send))
        await waits.wait()
        await journal.append("r1", [last], after=head, epoch=claim.epoch, grade=Grade.FLUSHED)
        streamer.give_up(RunId("r1"), StorageFailed("gone"))
        await reading
        return wire.aborted, stopped, streamer._lost

    assert asyncio.run(main()) == (True, [], {})
    assert sent == [b""]  # the head, and nothing behind what is lost with the client


FRAMES = b"data: open\n\ndata: one\n\ndata: [DONE]\n\n"


@pytest.mark.requirement("E5")
@pytest.mark.parametrize(
    "is_clear, pieces", [(True, [(FRAMES, False)]), (False, [(FRAMES, True), (b"", False)])]
)
def test_an_answer_that_is_there_is_one_piece_unless_its_client_must_be_waited_for(is_clear, pieces):
    """Whoever reads nothing is found out while it is looked after, so its last frames do not wait for the end."""
    sent: list[tuple[bytes, bool]] = []

    async def main():
        journal, wire = MemoryJournal(), Wire()
        wire.clear = is_clear
        claim = await journal.claim("r1", "test", 1e9)
        assert isinstance(claim, Claim)
        await journal.append("r1", [b"one", END], after=0, epoch=claim.epoch, grade=Grade.FLUSHED)

        async def send(message) -> None:
            if message["type"] == "http.response.body":
                sent.append((message["body"], message["more_body"]))

        heartbeat = Heartbeat(keepalive=15, noop=30, wall=lambda: 0.0)
        streamer = RunStreamer(journal, heartbeat, DisconnectPolicy(lambda run, why: None))
        return await streamer.perform(Streaming(RunId("r1"), Lines()), wire, send)

    assert asyncio.run(main()) == "ended"
    assert sent == pieces


@pytest.mark.requirement("F2")
def test_a_store_that_has_to_be_waited_for_keeps_neither_the_first_frame_nor_heartbeats():
    class Slow(MemoryJournal):
        async def read(self, *where, **limits):
            await asyncio.sleep(100)
            return await super().read(*where, **limits)

    class Taking(Wire):
        def push(self, body: bytes) -> bool:
            sent.append(body)
            return True

    sent: list[bytes] = []
    clock = VirtualClock()

    async def main():
        journal, wire = Slow(), Taking()
        claim = await journal.claim("r1", "test", 1e9)
        assert isinstance(claim, Claim)
        await journal.append("r1", [b"one", END], after=0, epoch=claim.epoch, grade=Grade.FLUSHED)

        async def send(message) -> None:
            sent.append(message.get("body", b"head"))

        heartbeat = Heartbeat(keepalive=15, noop=30, wall=clock.now)
        beating = asyncio.ensure_future(heartbeat.run(lambda: (), lambda: None))
        streamer = RunStreamer(journal, heartbeat, DisconnectPolicy(lambda run, why: None))
        end = await streamer.perform(Streaming(RunId("r1"), Lines()), wire, send)
        beating.cancel()
        return end

    assert clock.run(main, quiet=0) == "ended"
    assert sent[:2] == [b"head", b"data: open\n\n"]
    assert b"data: beat\n\n" in sent
    assert sent[-1] == b"data: one\n\ndata: [DONE]\n\n"
