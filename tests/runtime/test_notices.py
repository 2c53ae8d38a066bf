"""A fresh start is told to the model always, and to the user once, where that is wanted."""

import asyncio

import pytest
from support.narrate.sample_runs import run_named
from support.turns.turn_facts import POLICY

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.lab.rehearsal.model import Rehearsal
from turnbuckle.runtime.runs import RunRules, Runs
from turnbuckle.runtime.session_manager import SessionManager
from turnbuckle.runtime.session_messages import IncomingMessage, SessionRules
from turnbuckle.service.run_view import RunFold
from turnbuckle.session.reset import is_told, note_for, notice_for
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import RunStarted, decode
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message, TextPart, text_of
from turnbuckle.vocab.origin import Origin

WANTED = ("new", "reset", "idle", "daily")
NEWS = ("stopped", "crashed", "stale")
SURFACES = ("chat", "responses", "runs")
HERE = SessionId("s")


class NoTools:
    async def ready(self):
        return None

    def specs(self):
        return ()


class Talk:
    """One session in a process without tools."""

    def __init__(self, quiet=()):
        self.clock = VirtualClock()
        self.journal = MemoryJournal(monotonic=self.clock.now, wall=self.clock.now)
        model = Rehearsal(self.clock.sleep)
        self.runs = Runs(
            self.journal,
            RunRules(POLICY),
            model,
            lambda run: NoTools(),  # type: ignore[return-value] # nothing is called
            self.clock.environment("p"),
        )
        rules = SessionRules(quiet=quiet)
        self.manager = SessionManager(self.journal, self.runs, rules, began=lambda running, user: None)

    def play(self, story):
        async def whole():
            try:
                return await story(self)
            finally:
                await self.manager.close()

        return self.clock.run(whole)

    async def say(self, text, surface="chat"):
        said = IncomingMessage((Message("user", (TextPart(text),)),), origin=Origin(surface))
        return await self.started(await self.manager.with_worker(HERE, "u", lambda worker: worker.say(said)))

    async def started(self, taken):
        running = self.runs.live(taken.run)
        if running is not None:
            await running.outcome()
        await asyncio.sleep(0)
        fact = decode((await self.journal.read(taken.run, 0, 1))[0].data)
        assert isinstance(fact, RunStarted)
        return fact

    async def worker(self):
        return await self.manager.open(HERE, "u")


def notes(started):
    return [text_of(message.parts) for message in started.messages if message.note]


@pytest.mark.requirement("G4")
@pytest.mark.parametrize("why", [*WANTED, *NEWS])
@pytest.mark.parametrize("surface", SURFACES)
def test_only_a_fresh_start_that_somebody_wanted_can_be_kept_quiet_and_only_where_that_is_set(why, surface):
    assert is_told(why, surface, ())
    assert is_told(why, surface, SURFACES) == (why in NEWS)
    others = tuple(one for one in SURFACES if one != surface)
    assert is_told(why, surface, others)


@pytest.mark.requirement("G4")
@pytest.mark.parametrize("why", ["new", "reset"])
@pytest.mark.parametrize("quiet", [(), ("chat",), ("runs",)])
def test_the_user_is_told_once_and_the_model_always(why, quiet):
    async def story(talk):
        await talk.say("hello")
        await (await talk.worker()).begin_anew(why, "u")
        return [await talk.say("again"), await talk.say("and more")]

    first, second = Talk(quiet).play(story)
    assert first.notice == ("" if "chat" in quiet else notice_for(why))
    assert first.origin.notice_why == ("" if "chat" in quiet else why)
    assert notes(first) == [note_for(why)]
    assert second.notice == ""


@pytest.mark.requirement("G2", "G4")
@pytest.mark.parametrize("why", NEWS)
def test_what_did_not_end_well_is_told_on_a_quiet_surface_too(why):
    async def story(talk):
        first = await talk.say("hello")
        await (await talk.worker()).suspend(why, first.run)
        return await talk.say("again")

    assert Talk(SURFACES).play(story).notice == notice_for(why)


@pytest.mark.requirement("G4")
def test_a_message_that_is_said_again_does_not_tell_the_notice_again():
    async def story(talk):
        await (await talk.worker()).begin_anew("new", "u")
        first = await talk.say("hello")
        return first, await talk.started(await (await talk.worker()).retry())

    first, again = Talk().play(story)
    assert first.notice
    assert again.run != first.run
    assert (again.notice, again.origin.notice_why) == ("", "")


@pytest.mark.requirement("G1", "F5")
def test_both_answers_of_a_steered_run_are_shown_apart():
    fold = RunFold(POLICY)
    for item in run_named("steered"):
        fold.take(item.seq, decode(item.data))
    assert fold.output == "One.\n\nTwo."
