"""All interleavings of two messages, a stop and a death in one session, in a world of its own each."""

import pytest

from turnbuckle.session.facts import BegunAnew, MessageAccepted, MessageRefused, Suspended
from turnbuckle.testing.world.session_rules import check_session, try_plots
from turnbuckle.testing.world.sessions import Chronicle, Deed, Plot, Stored, play
from turnbuckle.turn.facts import ModelAsked, RunEnded, RunStarted, StopAsked, UserSpoke
from turnbuckle.vocab.ids import PROTOCOL_NAMES

BUSY = ("queue", "steer", "interrupt", "refuse")
SECOND = range(10)
"""The first turn stores nine things, so the second message comes at each of its moments, and once behind it."""
MOMENTS = range(1, 18)
"""Two turns and what a stop and a death add to them."""


def plots(busy: str, second: int, first: str = "A", *, stride: int = 1, **more) -> list[Plot]:
    deeds = (Deed("say", 0, first), Deed("say", second, "B"))
    every = [
        Plot(
            (*deeds, Deed("stop", stop)),
            (death,),
            busy=busy,
            protocol=PROTOCOL_NAMES[(stop + death) % 3],
            **more,
        )
        for stop in MOMENTS
        for death in MOMENTS
    ]
    return every[::stride]


@pytest.mark.requirement("G1", "G2", "G5", "G6", "E2", "E6", "C5")
@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("busy", BUSY)
def test_no_interleaving_of_two_messages_a_stop_and_a_death_breaks_a_session(busy, second, record_property):
    report = try_plots(plots(busy, second))
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds == len(MOMENTS) ** 2


@pytest.mark.requirement("D3", "D4", "G1", "G2", "G5", "G6")
@pytest.mark.parametrize("busy", BUSY)
def test_nor_does_one_around_a_tool(busy, record_property):
    tried = [plot for second in (4, 7, 9) for plot in plots(busy, second, "tool A", stride=3, side="before")]
    report = try_plots(tried)
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


@pytest.mark.requirement("G3", "G5")
@pytest.mark.parametrize("kind", ["new", "undo", "retry"])
def test_nor_does_a_fresh_start_an_undo_or_a_retry_at_any_moment(kind, record_property):
    tried = [
        Plot((Deed("say", 0, "A"), Deed("say", second, "B"), Deed(kind, moment)), (death,))
        for second in (3, 6, 9)
        for moment in range(1, 20, 2)
        for death in MOMENTS
    ]
    report = try_plots(tried)
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


@pytest.mark.requirement("H6", "G5", "G6")
@pytest.mark.parametrize("first", ["A", "tool A"])
def test_nor_does_an_interrupt_at_any_moment(first, record_property):
    tried = [
        Plot((Deed("say", 0, first), Deed("say", second, "B"), Deed("interrupt", moment)), (death,))
        for second in (3, 6, 9)
        for moment in range(1, 16)
        for death in range(1, 18, 4)
    ]
    report = try_plots(tried)
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


@pytest.mark.requirement("H6")
def test_what_follows_an_interrupt_stands_on_what_was_interrupted_and_is_told_what_had_been_done():
    told = play(Plot((Deed("say", 0, "tool A"), Deed("interrupt", 8), Deed("say", 90, "B"))))
    first, second = (told.facts(run) for run in told.streams[:2])
    ended = next(fact for fact in first if isinstance(fact, RunEnded))
    begun = next(fact for fact in second if isinstance(fact, RunStarted))
    assert (ended.outcome.kind, begun.base) == ("cancelled", told.streams[0])
    assert begun.origin.notice == ""
    assert "Calls that were done: shell." in str(begun.messages)
    asked = str(told.asked[-1].request.messages)
    assert "make tool A" in asked
    assert asked.count("was interrupted before its end") == 1
    assert not any(isinstance(fact, Suspended | BegunAnew) for fact in told.facts())


@pytest.mark.requirement("G5", "G6")
def test_nor_do_several_deaths_behind_each_other(record_property):
    tried = [
        Plot((Deed("say", 0, "A"), Deed("say", 5, "B"), Deed("stop", 12)), (first, second, third), busy=busy)
        for busy in ("queue", "steer", "interrupt")
        for first in range(1, 14, 2)
        for second in range(first + 1, first + 6, 2)
        for third in range(second + 1, second + 4)
    ]
    report = try_plots(tried)
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


@pytest.mark.requirement("G5")
def test_nor_where_a_crash_suspends_instead_of_going_on(record_property):
    tried = [plot for busy in BUSY for plot in plots(busy, 5, stride=2, resume=False)]
    report = try_plots(tried)
    record_property("worlds tried", report.worlds)
    assert report.problems == ()


# The rules can fail


def spoiled(told: Chronicle, stored) -> tuple[str, ...]:
    kept = {name: getattr(told, name) for name in Chronicle.__struct_fields__}
    found = check_session(Chronicle(**{**kept, "stored": tuple(stored)}))
    return tuple(problem.partition(":")[0] for problem in found)


@pytest.fixture(scope="module")
def stopped() -> Chronicle:
    told = play(Plot((Deed("say", 0, "A"), Deed("say", 5, "B"), Deed("stop", 6))))
    assert check_session(told) == ()
    return told


def test_the_rules_notice_a_second_run_beside_the_first(stopped):
    stored = [one for one in stopped.stored if not (one.stream == "r-A" and isinstance(one.fact, RunEnded))]
    assert {"one_at_a_time", "one_end_each"} <= set(spoiled(stopped, stored))


def test_the_rules_notice_two_ends(stopped):
    end = next(one for one in stopped.stored if isinstance(one.fact, RunEnded))
    assert "one_end_each" in spoiled(stopped, (*stopped.stored, end))


def test_the_rules_notice_a_lost_message(stopped):
    stored = [one for one in stopped.stored if not isinstance(one.fact, MessageAccepted)]
    assert "no_message_is_lost" in spoiled(stopped, stored)


def test_the_rules_notice_a_reader_who_waits_for_ever(stopped):
    stored = [one for one in stopped.stored if one.stream != "r-B"]
    assert "no_message_is_lost" in spoiled(stopped, stored)


def test_the_rules_notice_a_message_that_is_taken_twice(stopped):
    twice = [one for one in stopped.stored if isinstance(one.fact, MessageAccepted)]
    assert "nothing_twice" in spoiled(stopped, (*stopped.stored, *twice))


def test_the_rules_notice_a_fresh_start_that_nobody_hears_of_or_that_did_not_happen(stopped):
    again = Stored(0, 0, "s", BegunAnew(0.0, "new"))
    assert "fresh_starts_are_told_once" in spoiled(stopped, (again, *stopped.stored))
    without = [one for one in stopped.stored if not isinstance(one.fact, BegunAnew)]
    assert "fresh_starts_are_told_once" in spoiled(stopped, without)


def test_the_rules_notice_a_run_that_goes_on_after_its_stop(stopped):
    ends = (
        place
        for place, one in enumerate(stopped.stored)
        if isinstance(one.fact, RunEnded) and one.stream == "r-A"
    )
    at = next(ends) + 1
    late = Stored(99, 5, "r-A", next(one.fact for one in stopped.stored if isinstance(one.fact, ModelAsked)))
    assert "a_stop_stops" in spoiled(stopped, (*stopped.stored[:at], late, *stopped.stored[at:]))


# What the interleavings are made of


def outcomes(told: Chronicle) -> dict[str, str]:
    return {run: told.facts(run)[-1].outcome.kind for run in told.streams}


@pytest.mark.requirement("G1", "G6")
def test_what_waits_at_a_crash_begins_after_the_next_start():
    told = play(Plot((Deed("say", 0, "A"), Deed("say", 5, "B")), (7,)))
    assert check_session(told) == ()
    assert outcomes(told) == {"r-A": "completed", "r-B": "completed", "last": "completed"}
    assert {one.life for one in told.stored if one.stream == "r-B"} == {1}


@pytest.mark.requirement("G2")
def test_a_stop_that_was_stored_holds_after_a_crash_too():
    moments = [play(Plot((Deed("say", 0, "A"), Deed("stop", 5)), (death,))) for death in range(6, 9)]
    for told in moments:
        assert any(isinstance(fact, Suspended) for fact in told.facts())
        assert outcomes(told)["r-A"] == "cancelled"


@pytest.mark.requirement("G1")
def test_a_message_that_interrupts_is_next_also_after_a_crash():
    told = play(
        Plot((Deed("say", 0, "A"), Deed("say", 5, "B", "queue"), Deed("say", 6, "C", "interrupt")), (7,))
    )
    assert check_session(told) == ()
    assert outcomes(told)["r-A"] == "cancelled"
    begun = [one.stream for one in told.stored if isinstance(one.fact, RunStarted)]
    assert begun == ["r-A", "r-C", "r-B", "last"]


@pytest.mark.requirement("G1")
def test_a_word_into_a_turn_is_answered_there_or_in_a_run_of_its_own():
    seen = set()
    for second in SECOND:
        told = play(Plot((Deed("say", 0, "A"), Deed("say", second, "B")), busy="steer"))
        assert check_session(told) == ()
        spoke = any(isinstance(fact, UserSpoke) for fact in told.facts("r-A"))
        own = "r-B" in told.streams
        seen.add((spoke, own))
        assert spoke or own
    assert (True, False) in seen
    assert (False, True) in seen


@pytest.mark.requirement("G2")
def test_what_waits_when_the_session_is_stopped_is_refused_where_its_reader_sees_it(stopped):
    assert [fact.why for fact in stopped.facts() if isinstance(fact, MessageRefused)] == [
        "the session was stopped"
    ]
    started, stop, end = stopped.facts("r-B")
    assert (started.run, end.outcome.kind, end.outcome.why) == ("r-B", "cancelled", "the session was stopped")
    assert isinstance(stop, StopAsked)


@pytest.mark.requirement("G5")
def test_a_session_whose_run_dies_again_and_again_is_suspended_and_its_call_is_named():
    told = play(Plot((Deed("say", 0, "A"),), (3, 4, 5), max_recoveries=2))
    assert check_session(told) == ()
    given_up = [fact for fact in told.facts() if isinstance(fact, Suspended)]
    assert [(fact.why, fact.run) for fact in given_up] == [("crashed", "r-A")]
    assert "a model call" in given_up[0].detail
    assert given_up[0].detail in told.facts("last")[0].origin.notice
