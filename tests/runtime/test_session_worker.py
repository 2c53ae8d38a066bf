"""One session at work: what a second message does, what a stop does, and who may act for it."""

from datetime import UTC

import pytest

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Grade, IndexUpdate
from turnbuckle.runtime.held_session import ACTIVE
from turnbuckle.runtime.lease import LEASE
from turnbuckle.runtime.session_messages import IncomingMessage, SessionRules, Stopped
from turnbuckle.runtime.session_worker import MOST_WAITING, REST
from turnbuckle.session.facts import BegunAnew, MessageAccepted, MessageRefused, Suspended, encode
from turnbuckle.session.reset import ResetRule
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.sessions import SESSION, Deed, Plot, SessionWorld, message, play
from turnbuckle.turn.facts import ModelAsked, RunClaimed, RunEnded, RunStarted, UserSpoke
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import text_of


def staged(story, plot: Plot = Plot(()), rules: SessionRules | None = None):
    """Play a story in a world whose process has started."""
    clock = VirtualClock()

    async def main():
        world = SessionWorld(plot, clock, rules)
        await world.start()
        try:
            return await story(world)
        finally:
            await world.end()

    return clock.run(main, quiet=0)


async def say(world: SessionWorld, text: str, busy=None, **more):
    return await world.in_worker(lambda worker: worker.say(IncomingMessage((message(text),), busy, **more)))


def outcome(told, run):
    return told.facts(run)[-1].outcome.kind


@pytest.mark.requirement("G1")
@pytest.mark.parametrize("setting", ["queue", "steer", "interrupt", "refuse"])
@pytest.mark.parametrize("wish", ["queue", "steer", "interrupt", "refuse", None])
def test_a_request_says_what_its_message_does_while_something_runs_and_the_setting_says_it_else(
    setting, wish
):
    told = play(Plot((Deed("say", 0, "A"), Deed("say", 5, "B", wish)), busy=setting))
    match wish or setting:
        case "queue":
            assert (outcome(told, "r-A"), outcome(told, "r-B")) == ("completed", "completed")
        case "steer":
            assert "r-B" not in told.streams
            assert [ask.why for ask in told.facts("r-A") if isinstance(ask, ModelAsked)] == [
                "first",
                "steered",
            ]
        case "interrupt":
            assert (outcome(told, "r-A"), outcome(told, "r-B")) == ("cancelled", "completed")
        case "refuse":
            assert "r-B" not in told.streams
            assert told.answers[1] == "the run r-A is under way in this session; wait for it, or stop it"


@pytest.mark.requirement("G1")
def test_a_word_said_while_a_tool_runs_is_told_with_its_result_as_words_of_the_user():
    told = play(Plot((Deed("say", 0, "tool A"), Deed("say", 6, "B")), busy="steer"))
    assert any(isinstance(fact, UserSpoke) for fact in told.facts("r-tool A"))
    second = told.asked[1].request.messages
    assert [one.role for one in second] == ["user", "assistant", "tool", "user"]
    assert text_of(second[-1].parts) == "B"


@pytest.mark.requirement("G1")
def test_a_word_behind_a_cut_text_waits_until_the_model_has_come_to_its_end():
    told = play(Plot((Deed("say", 0, "A"), Deed("say", 5, "B")), (7,), busy="steer"))
    whys = [fact.why for fact in told.facts("r-A") if isinstance(fact, ModelAsked)]
    assert whys == ["first", "continue", "steered"]
    assert "B" not in [text_of(one.parts) for one in told.asked[1].request.messages]
    assert text_of(told.asked[2].request.messages[-1].parts) == "B"


@pytest.mark.requirement("G2")
def test_to_stop_where_nothing_runs_changes_nothing_and_to_stop_twice_is_to_stop_once():
    idle = play(Plot((Deed("stop", 0),)))
    assert idle.answers[0] == Stopped()
    assert [fact for fact in idle.facts() if isinstance(fact, Suspended | BegunAnew)] == []
    twice = play(Plot((Deed("say", 0, "A"), Deed("stop", 5), Deed("stop", 6))))
    assert sum(isinstance(fact, Suspended) for fact in twice.facts()) == 1
    assert sum(isinstance(fact, BegunAnew) for fact in twice.facts()) == 1
    assert outcome(twice, "r-A") == "cancelled"


@pytest.mark.requirement("G2")
def test_a_stop_while_the_run_is_starting_ends_it_before_any_model_is_asked():
    told = play(Plot((Deed("say", 0, "A"), Deed("stop", 1))))
    assert told.answers[1].run == "r-A"
    assert outcome(told, "r-A") == "cancelled"
    assert [fact for fact in told.facts("r-A") if isinstance(fact, RunEnded)] == told.facts("r-A")[-1:]


@pytest.mark.requirement("G2")
def test_a_message_right_behind_a_stop_begins_anew_also_while_the_run_is_still_ending():
    for moment in range(6, 10):
        told = play(Plot((Deed("say", 0, "A"), Deed("stop", 5), Deed("say", moment, "B"))))
        if outcome(told, "r-B") != "completed":
            continue
        started = told.facts("r-B")[0]
        assert started.origin.notice_why == "stopped"
        assert "A" not in [text_of(one.parts) for one in started.messages]


@pytest.mark.requirement("G3")
def test_new_works_while_a_run_is_active_and_only_the_next_message_is_told():
    told = play(Plot((Deed("say", 0, "A"), Deed("new", 5), Deed("say", 90, "B"), Deed("say", 91, "C"))))
    assert outcome(told, "r-A") == "cancelled"
    assert [told.facts(run)[0].origin.notice_why for run in ("r-B", "r-C")] == ["new", ""]
    assert "A" not in [text_of(one.parts) for one in told.facts("r-C")[0].messages]


@pytest.mark.requirement("G3")
def test_undo_and_retry_after_a_crash_count_the_run_that_came_back():
    undone = play(Plot((Deed("say", 0, "A"), Deed("undo", 90)), (6,)))
    assert undone.answers[1] == "r-A"
    assert [text_of(one.parts) for one in undone.facts("last")[0].messages] == ["the last word"]
    again = play(Plot((Deed("say", 0, "A"), Deed("retry", 90)), (6,)))
    run = again.answers[1].run
    assert run not in ("r-A", "last")
    assert [text_of(one.parts) for one in again.facts(run)[0].messages] == ["A"]


@pytest.mark.requirement("G1")
def test_the_queue_is_bounded_and_whoever_comes_too_late_is_told():
    async def story(world):
        await say(world, "A")
        for number in range(MOST_WAITING):
            await say(world, f"m{number}", "queue" if number % 2 else "steer")
        with pytest.raises(SessionBusy, match="100 messages wait"):
            await say(world, "one more")

    staged(story)


@pytest.mark.requirement("G4")
@pytest.mark.parametrize(
    "mode, hours, why", [("idle", 3.0, "idle"), ("idle", 1.0, None), ("none", 99.0, None)]
)
def test_after_a_long_silence_the_conversation_begins_anew_and_both_are_told_why(mode, hours, why):
    async def story(world):
        await say(world, "A")
        await world.pass_time(hours * 3600)
        taken = await say(world, "B")
        await world.pass_time(60)
        started = await world.service.started(taken.run)
        before = (await world.runs.conversations.before(started)).messages
        return started, before, await world.sessions.state(SESSION)

    started, before, state = staged(story, rules=SessionRules(reset=ResetRule(mode, 120.0), zone=UTC))
    assert started.origin.notice_why == (why or "")
    assert ("A" in [text_of(one.parts) for one in before]) == (why is None)
    assert len(state.runs) == (1 if why else 2)


@pytest.mark.requirement("G1")
def test_a_lane_that_rests_gives_its_claim_back_and_opens_again():
    async def story(world):
        await say(world, "A")
        await world.pass_time(REST * 3)
        assert world.manager.of(SESSION) is None
        claim = await world.journal.claim(SESSION, "somebody else", 1.0)
        assert isinstance(claim, Claim)
        with pytest.raises(SessionBusy, match="somebody else works on the session"):
            await say(world, "B")
        await world.pass_time(2.0)
        assert (await say(world, "B")).run

    staged(story)


@pytest.mark.requirement("E6", "G5")
def test_a_process_whose_sessions_passed_to_another_writes_nothing_and_starts_nothing():
    """M2, M3: a machine that was paused in the middle of a turn."""

    async def story(world):
        await say(world, "tool A", run="r-A")
        paused = world.pause()
        await world.pass_time(LEASE + 1)
        journal: MemoryJournal = world.journal
        await world.another()
        await say(world, "B", run="r-B")
        await world.pass_time(LEASE * 2)
        before = [len(await journal.read(name)) for name in (SESSION, "r-A", "r-B")]
        paused.wake()
        await world.pass_time(LEASE * 3)
        after = [len(await journal.read(name)) for name in (SESSION, "r-A", "r-B")]
        return before, after, world.chronicle(), world.asked_by(0), world.asked_by(1)

    before, after, stored, first, second = staged(story)
    assert before == after
    claims = [one.life for one in stored if isinstance(one.fact, RunClaimed)]
    ends = [one.life for one in stored if isinstance(one.fact, RunEnded)]
    assert claims == [1]
    assert ends == [1, 1]
    assert [one.life for one in stored if isinstance(one.fact, RunStarted)] == [0, 1]
    assert first <= 1
    assert second >= 1


@pytest.mark.requirement("K2")
def test_a_process_that_has_lost_a_session_and_does_not_know_it_yet_finds_what_waits_there():
    async def story(world):
        await say(world, "tool A", run="r-A")
        paused, manager = world.pause(), world.manager
        await world.pass_time(LEASE + 1)
        await world.another()
        await say(world, "B", "queue", run="r-B")
        waiting = world.manager.waiting("r-B", None)
        still_open = manager.of(SESSION) is not None
        paused.wake()
        return waiting is not None, still_open, await manager.find_waiting("r-B", None) == waiting

    assert staged(story) == (True, True, True)


@pytest.mark.requirement("G1", "G6")
@pytest.mark.parametrize("way", ["stop", "new", "withdraw"])
def test_the_run_of_a_message_that_is_taken_back_is_known_at_every_moment(way):
    """Its end is stored before the session says that it will not be answered; else nobody would know its id between."""

    async def story(world: SessionWorld):
        await say(world, "A")
        waiting = await say(world, "B", "queue")
        match way:
            case "stop":
                await world.in_worker(lambda worker: worker.stop("somebody"))
            case "new":
                await world.in_worker(lambda worker: worker.begin_anew("new", "somebody"))
            case _:
                await world.in_worker(lambda worker: worker.withdraw(waiting.run, "taken back"))
        return waiting, world.chronicle()

    waiting, stored = staged(story)
    ended = next(one.append for one in stored if one.stream == waiting.run and isinstance(one.fact, RunEnded))
    refused = next(one.append for one in stored if isinstance(one.fact, MessageRefused))
    assert ended < refused
    assert sum(one.stream == waiting.run and isinstance(one.fact, RunEnded) for one in stored) == 1


@pytest.mark.requirement("G1")
def test_whenever_words_are_said_into_a_turn_their_answer_has_an_end_behind_the_place_that_was_told():
    places = play(Plot((Deed("say", 0, "A"),))).appends
    for at in range(1, places + 2):
        told = play(Plot((Deed("say", 0, "A"), Deed("say", at, "B", "steer"))))
        taken = told.answers[1]
        ends = [one for one in told.stored if one.stream == taken.run and isinstance(one.fact, RunEnded)]
        assert len(ends) == 1, at
        spoke = [one for one in told.stored if isinstance(one.fact, UserSpoke) and one.fact.id == taken.id]
        assert bool(taken.after) == (taken.run == "r-A") == bool(spoke), at


@pytest.mark.requirement("F5", "K3")
def test_what_another_process_took_in_is_found_also_where_a_worker_still_believes_in_its_claim():
    """A node whose line to the database broke for a moment: others have its sessions, and it does not know."""

    async def story(world):
        await say(world, "A")
        worker = world.manager.of(SESSION)
        taken = MessageAccepted(1.0, "m-B", RunId("r-B"), (message("B"),))
        head = await world.journal.head(SESSION)
        place = {"after": head, "epoch": worker._claim.epoch, "grade": Grade.SYNCED}
        await world.journal.append(SESSION, [encode(taken)], **place, note=IndexUpdate(status=ACTIVE))
        assert worker.holds
        return [await world.manager.find_waiting("r-B", None, alone=alone) for alone in (True, False)]

    alone, among_others = staged(story)
    assert alone is None
    assert among_others is not None
    assert among_others[1].run == "r-B"
