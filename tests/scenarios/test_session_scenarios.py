"""The scenarios of sessions, restarts and several processes, by their ids, in the simulated world. What needs real
processes is proved elsewhere; `test_every_scenario.py` says where."""

import pytest

from turnbuckle.runtime.session_messages import IncomingMessage
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.session_rules import check_session
from turnbuckle.testing.world.sessions import SESSION, USER, Deed, Plot, SessionWorld, message, play
from turnbuckle.turn.facts import ModelAsked, RunClaimed, ToolFinished, ToolStarted, decode
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import text_of


def outcome(told, run):
    return told.facts(run)[-1].outcome


@pytest.mark.requirement("G5")
def test_S4_a_run_without_a_driver_is_no_running_run_and_goes_on_by_the_normal_call():
    """Given a run without an end that nobody drives, then a message to its session takes it up and waits behind it."""
    clock = VirtualClock()

    async def story():
        world = SessionWorld(Plot(()), clock)
        await world.start()
        await world.in_worker(lambda worker: worker.say(IncomingMessage((message("A"),), run=RunId("r-A"))))
        running = world.runs.live(RunId("r-A"))
        await running.abandon()
        assert world.runs.live(RunId("r-A")) is None
        await world.in_worker(lambda worker: worker.say(IncomingMessage((message("B"),), run=RunId("r-B"))))
        await world.pass_time(60)
        unfinished, stored = await world.runs.unfinished(), world.chronicle()
        await world.end()
        return unfinished, stored

    unfinished, stored = clock.run(story, quiet=0)
    assert unfinished == []
    assert any(isinstance(one.fact, RunClaimed) and one.stream == "r-A" for one in stored)


@pytest.mark.requirement("G5")
def test_S7_deaths_with_progress_between_them_do_not_end_a_turn_and_without_they_do():
    """Given one death after the other, then the turn goes on as long as each life brings something."""
    with_progress = play(Plot((Deed("say", 0, "tool A"),), (4, 8, 12), max_recoveries=1))
    assert check_session(with_progress) == ()
    without = play(Plot((Deed("say", 0, "A"),), (3, 4), max_recoveries=1))
    assert outcome(without, "r-A").kind == "failed"
    assert "came back 2 times" in outcome(without, "r-A").why


@pytest.mark.requirement("G5")
def test_S8_a_recovery_that_dies_itself_leaves_a_session_that_can_be_used():
    """Given deaths in the recovery, then the run has an end and the next message is answered."""
    for death in range(3, 8):
        told = play(Plot((Deed("say", 0, "A"),), (death, death + 1, death + 2, death + 3)))
        assert check_session(told) == ()


@pytest.mark.requirement("G5")
def test_S9_a_run_of_yesterday_waits_for_the_user_and_a_message_leaves_it_behind():
    """Given a run that nobody touched for long, when a message comes, then it is fresh, and the old run is ended."""
    clock = VirtualClock()

    async def story():
        world = SessionWorld(Plot(()), clock)
        await world.start()
        await world.in_worker(lambda worker: worker.say(IncomingMessage((message("A"),), run=RunId("r-A"))))
        await world.fall_and_rise(stale_after=100.0, later=1000.0)
        left = [row.name for row in await world.runs.unfinished()]
        asked = world.asked_by(1)
        await world.in_worker(lambda worker: worker.say(IncomingMessage((message("B"),), run=RunId("r-B"))))
        await world.pass_time(60)
        again = [row.name for row in await world.runs.unfinished()]
        started = await world.service.started(RunId("r-B"))
        await world.end()
        return left, asked, again, started

    left, asked, again, started = clock.run(story, quiet=0)
    assert (left, asked, again) == (["r-A"], 0, [])
    assert started.origin.notice_why == "stale"
    assert "A" not in [text_of(one.parts) for one in started.messages]


@pytest.mark.requirement("G5", "C5")
def test_S10_a_run_that_goes_on_never_has_a_blank_word_of_the_user():
    """Given a death anywhere, then every user message of every request has words."""
    for death in range(1, 12):
        for asked in play(Plot((Deed("say", 0, "tool A"),), (death,))).asked:
            users = [one for one in asked.request.messages if one.role == "user"]
            assert all(text_of(one.parts).strip() for one in users)


@pytest.mark.requirement("G6")
def test_S11_messages_that_wait_at_a_crash_are_all_there_in_their_order():
    """Given three that wait, when the process dies, then they are answered one after the other."""
    deeds = (Deed("say", 0, "A"), Deed("say", 4, "B"), Deed("say", 5, "C"), Deed("say", 6, "D"))
    told = play(Plot(deeds, (9,)))
    assert check_session(told) == ()
    assert told.streams == ["r-A", "r-B", "r-C", "r-D", "last"]


@pytest.mark.requirement("C6")
def test_S15_an_answer_that_was_stopped_is_kept_as_partial_and_not_as_the_whole():
    """Given a stop in the text, then the run says so, and its words are kept with their mark."""
    told = play(Plot((Deed("say", 0, "A"), Deed("stop", 5))))
    assert outcome(told, "r-A").kind == "cancelled"


@pytest.mark.requirement("D3", "D4", "G7")
def test_S16_a_fork_shares_what_was_said_and_runs_no_tool_again():
    """Given a run with a tool, when it is forked at its result, then the new session has that and nothing ran again."""
    clock = VirtualClock()

    async def story():
        world = SessionWorld(Plot(()), clock)
        await world.start()
        await world.in_worker(
            lambda worker: worker.say(IncomingMessage((message("tool A"),), run=RunId("r-A")))
        )
        await world.pass_time(60)
        items = await world.journal.read("r-A")
        at = next(one.seq for one in items if isinstance(decode(one.data), ToolFinished))
        await world.sessions.fork(SESSION, SessionId("fork"), USER, "", RunId("r-A"), at)
        history = await world.sessions.history(SessionId("fork"))
        done, ran = world.done(), sum(isinstance(one.fact, ToolStarted) for one in world.chronicle())
        await world.end()
        return history, done, ran

    history, done, ran = clock.run(story, quiet=0)
    assert [one.role for one in history][:3] == ["user", "assistant", "tool"]
    assert (done, ran) == (1, 1)


@pytest.mark.requirement("G1")
def test_M7_of_two_messages_at_once_one_runs_and_the_other_waits_or_is_refused():
    """Given two at the same moment, then one turn runs at a time."""
    told = play(Plot((Deed("say", 0, "A"), Deed("say", 0, "B"))))
    assert check_session(told) == ()
    refused = play(Plot((Deed("say", 0, "A"), Deed("say", 0, "B")), busy="refuse"))
    assert sum(isinstance(answer, str) for answer in refused.answers.values()) == 1
    assert any(isinstance(fact, ModelAsked) for fact in told.facts("r-B"))
