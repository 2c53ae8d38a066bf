"""What is said about a store that does not do its work, to clients and to readers."""

import asyncio
import uuid

import msgspec
import pytest
from support.http.memory_server import Lines
from support.journals.power_cuts import Recorder

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import (
    Closed,
    Conflict,
    Damaged,
    FolderGone,
    FormatUnknown,
    Gone,
    Grade,
    InUse,
    Item,
    OutOfFiles,
    ReadOnly,
    StorageFailed,
    StorageFull,
    TooLarge,
    Trouble,
)
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.api.health import Readiness
from turnbuckle.server.faces.chat.renderer import ChatRenderer
from turnbuckle.server.faces.events import EventsRenderer
from turnbuckle.server.faces.messages.renderer import MessagesRenderer
from turnbuckle.server.faces.responses.socket import SocketMessages
from turnbuckle.server.http.problems import storage_problem, written
from turnbuckle.server.streaming.heartbeat import KEEPALIVE, Heartbeat, WaitingReader
from turnbuckle.service.store_words import TO_DO, WORDS
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import RunId
from turnbuckle.wire.sse import comment

SECRET = "/srv/secret/journal.db"
FAULTS = {
    StorageFull(SECRET): (507, "storage_full", True),
    ReadOnly(SECRET): (503, "storage_read_only", True),
    OutOfFiles(SECRET): (503, "storage_out_of_files", True),
    FolderGone(SECRET): (503, "storage_gone", True),
    StorageFailed(SECRET): (503, "storage_failed", True),
    Damaged("run of somebody", 3, SECRET): (503, "storage_damaged", True),
    FormatUnknown(SECRET): (503, "storage_unknown_format", True),
    InUse(SECRET): (503, "storage_in_use", True),
    Closed(SECRET): (503, "interrupted", True),
    Conflict("a", 1, 2): (503, "storage_conflict", True),
    TooLarge(99_000_000): (413, "conversation_too_large", False),
    Gone(SECRET): (404, "deleted", False),
}


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_every_error_of_the_store_is_told_with_words_and_when_to_come_back(error):
    status, code, waits = FAULTS[error]
    answer = written(storage_problem(error, "r1"))
    body = msgspec.json.decode(answer.body)["error"]
    headers = dict(answer.headers)
    assert (answer.status, body["code"], "retry-after" in headers) == (status, code, waits)
    assert len(body["message"].split()) > 2
    assert SECRET not in body["message"]
    assert headers["x-turnbuckle-run"] == "r1"


@pytest.mark.requirement("E10")
def test_no_two_faults_have_the_same_words():
    assert len(set(WORDS.values())) == len(WORDS)
    assert WORDS.keys() == TO_DO.keys()


class Failing(MemoryJournal):
    def __init__(self, error=None, trouble=None):
        super().__init__()
        self.error, self.own = error, trouble

    async def look(self):
        if self.error is not None:
            raise self.error

    def trouble(self):
        return self.own


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    "error",
    [one for one, (_, code, _) in FAULTS.items() if code.startswith("storage_") and "conflict" not in code],
)
@pytest.mark.parametrize("found", ["by a look", "by its work"])
def test_readiness_tells_every_fault_of_the_store_from_each_other(error, found):
    trouble = Trouble(error.fault, str(error), 1.0)
    journal = Failing(error) if found == "by a look" else Failing(None, trouble)
    state = asyncio.run(Readiness(journal, lambda: False).state())
    assert (state.code, state.why) == (f"storage_{error.fault}", WORDS[error.fault])
    assert state.fix


class Wire:
    clear, gone, dropped = True, False, False

    def __init__(self):
        self.sent = []
        self.blocks = asyncio.Event()
        self.blocks.set()

    async def send(self, message):
        self.sent.append(message["body"])
        await self.blocks.wait()

    def on_gone(self, call):
        pass

    def abort(self):
        self.sent.append(b"aborted")


def beating(scenario, trouble=lambda: None, dialect=Lines):
    clock = VirtualClock()

    async def main():
        wire = Wire()
        reader = WaitingReader(wire, wire.send, dialect(), None)
        pulse = Heartbeat(keepalive=5, noop=10, wall=lambda: 7.0, trouble=trouble)
        pulse.add(object(), reader)
        beats = asyncio.ensure_future(pulse.run(lambda: (), lambda: None))
        try:
            return await scenario(wire, reader)
        finally:
            beats.cancel()
            await asyncio.wait({beats})

    return clock.run(main, quiet=0)


@pytest.mark.requirement("E10")
def test_readiness_does_not_stay_good_news_when_a_write_has_failed_since():
    async def main():
        journal = MemoryJournal()
        readiness = Readiness(journal, lambda: False)
        first = await readiness.state()
        journal.room = 0
        claim = await journal.claim("run", "a", 10)
        with pytest.raises(StorageFull):
            await journal.append("run", [b"more"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
        return first.why, (await readiness.state()).code

    assert asyncio.run(main()) == ("", "storage_full")


@pytest.mark.requirement("E10")
def test_a_disk_that_takes_writes_and_can_not_keep_them_is_not_ready(tmp_path):
    async def main():
        disk = Recorder(f"recorder-{uuid.uuid4().hex}")
        journal = SqliteJournal(tmp_path, connect=disk.connect)
        states = []
        for disk.refuses_syncs in (False, True, False):
            states.append((await Readiness(journal, lambda: False).state()).code)
        await journal.close()
        return states

    assert asyncio.run(main()) == ["", "storage_failed", ""]


@pytest.mark.requirement("F2", "E5")
def test_no_sign_of_life_comes_between_the_parts_of_a_send():
    """A beat in the middle of a frame that is on its way would be read as a part of it."""

    async def scenario(wire, reader):
        wire.blocks.clear()
        writing = asyncio.ensure_future(reader.write(b"data: a frame\n\n"))
        await asyncio.sleep(60)
        during = list(wire.sent)
        wire.blocks.set()
        await writing
        await asyncio.sleep(12)
        return during, wire.sent

    during, after = beating(scenario)
    assert during == [b"data: a frame\n\n"]
    assert after[1:] == [KEEPALIVE, b"data: beat\n\n"]


class Interrupted:
    """Stands where a reader's task is ended from outside."""

    count = 0

    def interrupt(self):
        self.count += 1


@pytest.mark.requirement("F2", "E5")
@pytest.mark.parametrize("sending, clear, aborted", [(False, True, 0), (True, True, 1), (False, False, 1)])
def test_only_a_reader_that_would_read_it_is_told_that_the_server_stops(sending, clear, aborted):
    async def main():
        wire, presence = Wire(), Interrupted()
        wire.clear = clear
        reader = WaitingReader(wire, wire.send, Lines(), presence)
        reader.sending = sending
        pulse = Heartbeat(keepalive=5, noop=10, wall=lambda: 7.0)
        pulse.add(presence, reader)
        pulse.interrupt_all()
        return wire.sent.count(b"aborted"), presence.count, pulse.over

    assert asyncio.run(main()) == (aborted, 1, True)


@pytest.mark.requirement("E10", "F8")
def test_a_reader_is_told_at_once_that_the_store_is_waited_for_and_then_as_often_as_of_anything():
    troubles: list[Trouble | None] = [None]

    async def scenario(wire, reader):
        reader.dialect.take([Item(1, b'{"type":"run_started","at":0,"run":"r","session":"s","messages":[]}')])
        await asyncio.sleep(2)
        before = list(wire.sent)
        troubles[0] = Trouble("full", "SECRET", 3.0)
        await asyncio.sleep(2)
        at_once = list(wire.sent)
        await asyncio.sleep(21)
        later = list(wire.sent)
        troubles[0] = None
        await asyncio.sleep(4)
        return before, at_once, later, wire.sent

    before, at_once, later, after = beating(scenario, lambda: troubles[0], lambda: EventsRenderer(RunId("r")))
    assert before == []
    (told,) = at_once
    comment, _, frame = told.partition(b"\n\n")
    assert comment == b": waiting for storage: the server's disk is full"
    waiting = msgspec.json.decode(frame.split(b"data: ")[1])["waiting_on"]
    assert waiting == {"kind": "storage", "detail": "the server's disk is full", "since": 3.0}
    assert [sent for sent in later if sent != KEEPALIVE] == [told] * 3
    assert after[len(later) :] == [KEEPALIVE]


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    "fault, seconds, told", [("full", 8, 0), ("full", 14, 1), ("failed", 14, 1), ("damaged", 60, 0)]
)
def test_a_plain_request_is_not_kept_waiting_for_a_store_that_does_not_come_back(fault, seconds, told):
    troubles: list[Trouble | None] = [None]
    gave_up: list[Trouble] = []

    async def main():
        pulse = Heartbeat(keepalive=5, noop=10, wall=lambda: 7.0, trouble=lambda: troubles[0])
        waits, reads, late = Interrupted(), Interrupted(), Interrupted()

        def give_up(trouble: Trouble) -> None:
            gave_up.append(trouble)
            pulse.remove(waits)

        pulse.add(waits, gives_up=give_up)
        pulse.add(reads)
        beats = asyncio.ensure_future(pulse.run(lambda: (), lambda: None))
        for trouble, length in (
            (Trouble(fault, "no", 1.0), 8),
            (None, 8),
            (Trouble(fault, "no", 9.0), seconds),
        ):
            troubles[0] = trouble
            await asyncio.sleep(length - 5)
            pulse.add(late, gives_up=gave_up.append)  # it is waited for as long for those who come late
            await asyncio.sleep(5)
            pulse.remove(late)
        beats.cancel()
        await asyncio.wait({beats})
        return waits.count, reads.count

    assert VirtualClock().run(main, quiet=0) == (0, 0)
    assert [trouble.since for trouble in gave_up] == [9.0] * told


class Socket:
    """Takes what a stream would be sent, as a WebSocket is."""

    def __init__(self):
        self.messages = []

    async def send(self, text):
        self.messages.append(msgspec.json.decode(text))


@pytest.mark.requirement("E10", "G9")
def test_who_reads_frames_alone_is_told_what_is_waited_for_too():
    waits = WaitingOn("storage", WORDS["full"], 3.0)
    run, words = RunId("r"), f"Waiting for storage: {WORDS['full']}"
    chunk = ChatRenderer(run, model="m", created=1).beat(7.0, waits)
    ping = MessagesRenderer(run, model="m").beat(7.0, waits)
    bare = ChatRenderer(run, model="m", created=1, events="none").beat(7.0, waits)
    socket = Socket()
    note = comment(f"waiting for storage: {WORDS['full']}")
    asyncio.run(SocketMessages(socket).send({"body": note + KEEPALIVE}))
    for frame in (chunk, ping):
        assert msgspec.json.decode(frame.split(b"data: ")[1])["turnbuckle"] == {"waiting": words}
    assert b"turnbuckle" not in bare
    assert socket.messages == [{"type": "turnbuckle.waiting", "waiting": words}]


@pytest.mark.requirement("E10")
def test_damage_somewhere_is_not_what_a_reader_waits_for():
    async def scenario(wire, reader):
        await asyncio.sleep(4)
        return wire.sent

    assert beating(scenario, lambda: Trouble("damaged", "a stream", 1.0)) == []
