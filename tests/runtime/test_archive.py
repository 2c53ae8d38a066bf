"""A session goes out as lines of JSON and comes in again: whole, able to go on, or not at all."""

import asyncio
import contextlib
import itertools

import msgspec
import pytest
from support.runs.approval_runs import HANG, HELLO, call, run_scenario

from turnbuckle.errors import ImportRefused
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import StorageFull, StreamQuery
from turnbuckle.runtime.archive import Importer, exported, finish_imports
from turnbuckle.runtime.archive_file import read_archive
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.held_session import KIND, OPEN
from turnbuckle.runtime.retention import merge_run
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.session_manager import SessionManager
from turnbuckle.runtime.session_messages import IncomingMessage, SessionRules
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import RunEnded, RunStarted
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message, TextPart, text_of

ONE, TWO = SessionId("one"), SessionId("two")


def words(text):
    return IncomingMessage((Message("user", (TextPart(text),)),))


class Talk:
    """A session of a harness, and people who talk in it."""

    def __init__(self, harness, journal=None, name=ONE):
        self.harness = harness
        self.session = name
        if journal is not None:
            harness.journal = journal
        self.runs = harness.process()
        self.sessions = Sessions(harness.journal, self.runs)
        self.manager = SessionManager(
            harness.journal, self.runs, SessionRules(), began=lambda running, user: None
        )

    async def say(self, *texts):
        await self.sessions.create(self.session, "ann", "Small talk")
        for text in texts:
            worker = await self.manager.open(self.session, "ann")
            taken = await worker.say(words(text))
            await self.runs.live(taken.run).outcome()
        return self

    async def told(self):
        return [
            (one.message.role, text_of(one.message.parts))
            for one in await self.sessions.transcript.every(self.session)
        ]

    async def lines(self):
        return b"".join(await self.pieces()).splitlines(keepends=True)

    async def pieces(self):
        row = await self.sessions.row(self.session, "ann")
        return [piece async for piece in exported(self.harness.journal, row, self.session, 5.0)]


def importer(journal):
    names = itertools.count(1)
    clock = VirtualClock(2000.0)
    environment = Environment("b", clock.now, clock.sleep, lambda kind: f"{kind}-new-{next(names)}")
    return Importer(journal, environment)


def lines_of_a_talk():
    """A session of two runs, one of them with a tool."""

    async def scenario(harness):
        talk = await Talk(harness).say("first question", "second question")
        await talk.manager.close()
        return await talk.lines()

    return run_scenario(scenario, call("look"), HELLO)


LINES = lines_of_a_talk()


async def everything(journal):
    return sorted(row.name for row in await journal.streams(limit=100))


@pytest.mark.requirement("G7")
def test_an_imported_session_is_the_same_and_goes_on_with_the_same_history():
    async def scenario(harness):
        talk = await Talk(harness).say("first question", "second question")
        lines, told = await talk.lines(), await talk.told()
        history = await talk.sessions.history(ONE)
        await talk.manager.close()
        other = MemoryJournal(monotonic=harness.clock.now, wall=harness.clock.now)
        made = await importer(other).bring_in(read_archive(lines), ONE, "ann")
        assert (made.session, made.title, made.runs) == (ONE, "Small talk", 2)
        again = Talk(harness, other)
        assert await again.told() == told
        assert await again.sessions.history(ONE) == history
        assert [
            found.row.parent for found in (await other.search("second question", StreamQuery(kind=RUN))).hits
        ] == [ONE]
        assert [
            found.row.name for found in (await other.search("small talk", StreamQuery(kind=KIND))).hits
        ] == [ONE]
        await again.say("third question")
        assert harness.model.requests[-1].messages[: len(history)] == history
        await again.manager.close()

    run_scenario(scenario, call("look"), HELLO)


@pytest.mark.requirement("G7")
def test_beside_its_origin_it_is_another_session_with_runs_of_its_own():
    async def scenario(harness):
        talk = await Talk(harness).say("first question", "second question")
        worker = await talk.manager.open(ONE, "ann")
        await worker.undo()
        await worker.close()
        archive = read_archive(await talk.lines())
        assert await importer(harness.journal).bring_in(archive, ONE, "ann") is None
        assert await importer(harness.journal).bring_in(archive, TWO, "bob")
        copy = Talk(harness, name=TWO)
        assert await copy.told() == await talk.told()
        assert await copy.sessions.history(TWO) == await talk.sessions.history(ONE)
        runs = {row.name for row in await talk.sessions.runs_of(ONE)}
        copies = {row.name for row in await copy.sessions.runs_of(TWO)}
        assert len(runs) == len(copies) == 2
        assert not runs & copies
        assert {row.user for row in await harness.journal.streams(StreamQuery(parent=TWO))} == {"bob"}
        started = [fact for name in copies for fact in await harness.of(name, RunStarted)]
        assert {(fact.run, fact.session) for fact in started} == {(name, TWO) for name in copies}
        await copy.sessions.delete(TWO)
        assert len(await talk.told()) == 2  # the first question and its answer

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
def test_runs_that_were_merged_go_out_and_come_in_like_others():
    async def scenario(harness):
        talk = await Talk(harness).say("first question")
        await talk.manager.close()
        told = await talk.told()
        (run,) = await talk.sessions.runs_of(ONE)
        assert await merge_run(harness.journal, run.name)
        other = MemoryJournal(monotonic=harness.clock.now, wall=harness.clock.now)
        assert await importer(other).bring_in(read_archive(await talk.lines()), ONE, "ann")
        assert await Talk(harness, other).told() == told

    run_scenario(scenario, [HELLO[0], HELLO[0], HELLO[0], *HELLO[1:]])


@pytest.mark.requirement("G7")
def test_nothing_that_comes_in_begins_to_work():
    async def scenario(harness):
        talk = await Talk(harness).say("first question")
        worker = await talk.manager.open(ONE, "ann")
        taken = await worker.say(words("and now"))
        await harness.journal.wait(taken.run, 2)
        await worker.say(words("and then"))
        lines = await talk.lines()
        harness.journal, before = harness.journal.after_kill(), harness.journal
        other = MemoryJournal(monotonic=harness.clock.now, wall=harness.clock.now)
        assert await importer(other).bring_in(read_archive(lines), ONE, "ann")
        asked = len(harness.model.requests)
        copy = Talk(harness, other)
        assert await copy.runs.unfinished() == []
        row = (await other.streams(StreamQuery(kind=KIND)))[0]
        assert row.status == OPEN
        state = await copy.sessions.state(ONE)
        assert [fate.state for fate in state.statuses.values()] == ["injected", "injected", "refused"]
        ends = [
            fact for row in await copy.sessions.runs_of(ONE) for fact in await harness.of(row.name, RunEnded)
        ]
        assert [end.outcome.kind for end in ends] == ["completed", "cancelled"]
        await copy.manager.open(ONE, "ann")
        await copy.manager.close()
        assert len(harness.model.requests) == asked
        harness.journal = before
        await worker.stop("user")
        await talk.manager.close()

    run_scenario(scenario, HELLO, HANG)


# What is refused


def changed(number, **changes):
    line = {**msgspec.json.decode(LINES[number]), **changes}
    return [*LINES[:number], msgspec.json.encode(line) + b"\n", *LINES[number + 1 :]]


def with_runs(change):
    head = msgspec.json.decode(LINES[0])
    head["runs"] = [change(dict(run)) for run in head["runs"]]
    return [msgspec.json.encode(head) + b"\n", *LINES[1:]]


WRONG = {
    "nothing": ([], "line 1: this is not an exported session"),
    "a letter": ([b"Dear Sir or Madam,\n"], "line 1: this is not an exported session"),
    "a list": ([b"[1, 2]\n"], "line 1: this is not an exported session"),
    "another format": (changed(0, format="diary"), "line 1: this is not an exported session"),
    "a newer version": (changed(0, version=2), "the file has version 2, and this turnbuckle reads version 1"),
    "no version": (changed(0, version=None), "the file has version None"),
    "a torn line": ([*LINES[:3], LINES[3][:-20] + b"\n", *LINES[4:]], "line 4 is broken"),
    "no JSON": ([*LINES[:3], b"\xff\xfe\n", *LINES[4:]], "line 4 is broken"),
    "an unknown fact": (changed(5, fact={"type": "song"}), "line 6: this is not a fact that we know"),
    "a stream that is not named": (
        changed(8, stream="stranger"),
        "line 9: nothing of 'stranger' is expected here",
    ),
    "a run whose name is a path": (
        with_runs(lambda run: {**run, "run": "../x"}),
        "cannot be the name of a run",
    ),
    "a run that is named twice": (with_runs(lambda run: {**run, "run": "r1"}), "a run is named twice"),
    "lines that change places": ([*LINES[:7], LINES[8], LINES[7], *LINES[9:]], "out of order"),
    "a session without a beginning": (
        changed(1, fact={"type": "undone", "at": 1.0, "run": "r"}),
        "how it was made",
    ),
}


@pytest.mark.requirement("R2")
def test_a_forged_file_leads_to_no_run_that_is_not_in_it():
    """Given a file whose session names a run of somebody else, as begun, taken up, stopped, undone or deleted in
    it, then what comes of it knows nothing of that run."""

    async def scenario(harness):
        talk = await Talk(harness).say("a secret question")
        (theirs,) = [row.name for row in await talk.sessions.runs_of(ONE)]
        own = {run.run for run, _ in read_archive(LINES).runs}
        imports = importer(harness.journal)
        for victim in own:
            forged = [line.replace(victim.encode(), theirs.encode()) for line in LINES[1:]]
            forged = [
                new if msgspec.json.decode(new)["stream"] == msgspec.json.decode(old)["stream"] else old
                for new, old in zip(forged, LINES[1:], strict=True)
            ]
            copy = Talk(harness, name=SessionId(f"forged-{victim}"))
            made = await imports.bring_in(read_archive([LINES[0], *forged]), copy.session, "bob")
            assert made is not None
            await copy.manager.close()
            told = await copy.told() + [
                (message.role, text_of(message.parts))
                for message in await copy.sessions.history(copy.session)
            ]
            assert "secret" not in str(told)
            names = {row.name for row in await copy.sessions.runs_of(copy.session)}
            assert not names & {*own, theirs}
        await talk.manager.close()

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_whole_session_is_refused_with_the_line_that_is_wrong(name):
    lines, why = WRONG[name]
    with pytest.raises(ImportRefused) as caught:
        read_archive(lines)
    assert why in str(caught.value)


@pytest.mark.requirement("G7")
def test_no_line_can_be_lost_or_come_twice():
    assert read_archive(LINES).head.session == ONE
    for number in range(len(LINES)):
        for lines in (
            [*LINES[:number], *LINES[number + 1 :]],
            LINES[:number],
            [*LINES[:number], LINES[number], *LINES[number:]],
        ):
            with pytest.raises(ImportRefused):
                read_archive(lines)


class Unlucky(MemoryJournal):
    """Fails, or dies, at one of its changes."""

    def __init__(self, at, how):
        super().__init__(monotonic=lambda: 0.0, wall=lambda: 0.0)
        self.left = at
        self.how = how

    async def _strike(self):
        self.left -= 1
        if not self.left:
            raise self.how("now")

    async def append(self, *args, **named):
        await self._strike()
        return await super().append(*args, **named)

    async def note(self, *args, **named):
        await self._strike()
        return await super().note(*args, **named)

    async def claim(self, *args, **named):
        await self._strike()
        return await super().claim(*args, **named)

    async def change_all(self, changes):
        await self._strike()
        return await super().change_all(changes)


class Dead(BaseException):
    """The process is no more: nothing tidies up behind it."""


class Grave(Unlucky):
    """After its end nothing happens any more."""

    async def drop(self, stream):
        return False if self.left <= 0 else await super().drop(stream)

    async def change_all(self, changes):
        return False if self.left <= 0 else await super().change_all(changes)

    async def release(self, claim):
        if self.left > 0:
            await super().release(claim)


@pytest.mark.requirement("G7", "E12")
def test_an_import_that_fails_leaves_nothing():
    async def at(number):
        journal = Unlucky(number, StorageFull)
        try:
            made = await importer(journal).bring_in(read_archive(LINES), ONE, "ann")
        except StorageFull:
            assert await everything(journal) == []
            return False
        return made

    results = [asyncio.run(at(number)) for number in range(1, 15)]
    assert False in results
    assert results[-1].runs == 2


@pytest.mark.requirement("G7", "E2", "E12")
def test_after_an_import_that_died_anywhere_there_is_the_whole_session_or_nothing():
    async def at(number):
        dying = Grave(number, Dead)
        with contextlib.suppress(Dead):
            await importer(dying).bring_in(read_archive(LINES), ONE, "ann")
        journal = dying.after_kill()
        there = await journal.streams(StreamQuery(kind=KIND))
        assert bool(there) == bool(await journal.head(ONE))
        await finish_imports(journal, older_than=1.0)
        runs = sorted(row.name for row in await journal.streams(StreamQuery(kind=RUN)))
        assert runs == (["r-new-1", "r-new-2"] if there else [])
        assert await journal.streams(StreamQuery(kind="import")) == []
        return bool(there)

    results = [asyncio.run(at(number)) for number in range(1, 15)]
    assert results[0] is False
    assert results[-1] is True
    assert sorted(results) == results


def test_an_import_that_may_be_under_way_is_left_alone():
    async def main():
        journal = Grave(6, Dead)
        with pytest.raises(Dead):
            await importer(journal).bring_in(read_archive(LINES), ONE, "ann")
        before = await everything(journal)
        assert await finish_imports(journal, older_than=-1.0) == 0
        assert await everything(journal) == before

    asyncio.run(main())


def test_what_is_added_while_it_is_written_is_left_out():
    async def scenario(harness):
        talk = await Talk(harness).say("first question")
        row = await talk.sessions.row(ONE, "ann")
        lines = exported(harness.journal, row, ONE, 5.0)
        first = await anext(lines)
        await talk.say("second question")
        rest = [piece async for piece in lines]
        archive = read_archive(b"".join([first, *rest]).splitlines(keepends=True))
        assert len(archive.runs) == 1
        await talk.manager.close()

    run_scenario(scenario, HELLO)
