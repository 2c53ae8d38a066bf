"""The place where a wait is ended from outside: because the client leaves, or because the server lets go."""

import asyncio

import pytest
from support.http.memory_server import Lines

from turnbuckle.server.http.client_connection import ClientGone, Interrupted, Presence
from turnbuckle.server.streaming.heartbeat import Heartbeat, WaitingReader
from turnbuckle.testing.clock import VirtualClock


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
