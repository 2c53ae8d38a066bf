"""Where a session stands, from its facts alone."""

import itertools

import pytest

from turnbuckle.session.commands import HELP, help_text, parse, status_text, stopped_text, words_for
from turnbuckle.session.facts import (
    BegunAnew,
    MessageAccepted,
    MessageDeferred,
    MessageInjected,
    MessageRefused,
    SessionMade,
    Suspended,
    TakenUp,
    Undone,
    decode,
    encode,
)
from turnbuckle.session.state import KEPT, SessionState, fold
from turnbuckle.vocab.messages import Message, TextPart


def said(name: str, **more) -> MessageAccepted:
    return MessageAccepted(1.0, name, f"r-{name}", (Message("user", (TextPart(name),)),), **more)


def waiting(state: SessionState) -> list[str]:
    return [one.id for one in state.waiting]


@pytest.mark.requirement("G1", "G6")
def test_messages_wait_in_the_order_in_which_they_were_taken():
    state = fold((SessionMade(0.0), said("a"), said("b"), said("c")))
    assert waiting(state) == ["a", "b", "c"]
    assert [fate.state for fate in state.statuses.values()] == ["accepted"] * 3
    assert not state.is_idle


@pytest.mark.requirement("G1")
@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "i", "j"])))
def test_one_that_interrupts_is_next_behind_those_that_wanted_the_same(order):
    facts = [said(name, busy="interrupt" if name in "ij" else "queue") for name in order]
    urgent = [name for name in order if name in "ij"]
    assert waiting(fold(tuple(facts))) == urgent + [name for name in order if name in "ab"]


@pytest.mark.requirement("G1")
def test_a_word_into_a_turn_is_no_part_of_the_queue_until_it_comes_too_late():
    facts = (
        said("a"),
        MessageInjected(2.0, "a", "r-a", "task"),
        said("b", busy="steer", into="r-a"),
        said("c"),
    )
    state = fold(facts)
    assert [one.id for one in state.steering] == ["b"]
    assert waiting(state) == ["c"]
    assert state.statuses["b"].run == "r-a"
    late = fold((*facts, MessageDeferred(3.0, "b", "too late")))
    assert waiting(late) == ["b", "c"]
    assert (late.statuses["b"].state, late.statuses["b"].run, late.statuses["b"].why) == (
        "deferred",
        "r-b",
        "too late",
    )
    told = fold((*facts, MessageInjected(3.0, "b", "r-a", "steered")))
    assert (told.statuses["b"].state, told.statuses["b"].run, told.runs) == ("injected", "r-a", ("r-a",))


@pytest.mark.requirement("G1")
def test_a_refused_message_says_why_and_waits_no_more():
    state = fold((said("a"), MessageRefused(2.0, "a", "the session was stopped")))
    assert state.is_idle
    assert (state.statuses["a"].state, state.statuses["a"].why) == ("refused", "the session was stopped")


@pytest.mark.requirement("G2", "G4")
def test_a_fresh_start_leaves_all_runs_behind_and_is_due_until_a_run_has_told_it():
    facts = (said("a"), MessageInjected(2.0, "a", "r-a", "task"), Suspended(3.0, "stopped", "r-a"))
    assert fold(facts).suspended is not None
    fresh = fold((*facts, BegunAnew(4.0, "stopped")))
    assert (fresh.suspended, fresh.runs, fresh.anew) == (None, (), BegunAnew(4.0, "stopped"))
    assert fresh.given_up == {"r-a": "stopped"}
    told = fold((*facts, BegunAnew(4.0, "stopped"), said("b"), MessageInjected(5.0, "b", "r-b", "task")))
    assert (told.anew, told.runs) == (None, ("r-b",))


@pytest.mark.requirement("G5")
def test_a_run_that_is_taken_up_after_all_is_not_given_up_any_more():
    facts = (said("a"), MessageInjected(2.0, "a", "r-a", "task"), Suspended(3.0, "stale", "r-a"))
    assert fold((*facts, TakenUp(4.0, "r-other"))).suspended is not None
    state = fold((*facts, TakenUp(4.0, "r-a")))
    assert (state.suspended, state.given_up, state.runs) == (None, {}, ("r-a",))


def test_what_was_taken_back_counts_no_more():
    state = fold((said("a"), MessageInjected(2.0, "a", "r-a", "task"), Undone(3.0, "r-a")))
    assert (state.runs, state.last_run, state.undone) == ((), None, frozenset({"r-a"}))


def test_the_fates_at_hand_are_bounded_and_the_newest_are_kept():
    facts = [
        fact
        for name in map(str, range(KEPT + 5))
        for fact in (said(name), MessageInjected(2.0, name, "r", "task"))
    ]
    state = fold(tuple(facts))
    assert len(state.statuses) == KEPT
    assert list(state.statuses)[-1] == str(KEPT + 4)


@pytest.mark.parametrize(
    "fact",
    [
        SessionMade(1.0),
        said("a", busy="steer", into="r"),
        MessageInjected(1.0, "a", "r", "task"),
        MessageDeferred(1.0, "a", "why"),
        MessageRefused(1.0, "a", "why"),
        Suspended(1.0, "crashed", "r", "it died"),
        TakenUp(1.0, "r"),
        BegunAnew(1.0, "daily"),
        Undone(1.0, "r"),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_every_fact_is_stored_and_read_as_it_was(fact):
    assert decode(encode(fact)) == fact


# Commands


@pytest.mark.requirement("G2", "G3")
def test_a_command_is_one_word_alone_in_its_message():
    assert [parse(f"/{name}") for name in HELP] == list(HELP)
    assert parse("  /STOP\n") == "stop"
    for text in ("stop", "/stop it", "/etc/hosts", "/stopp", "//stop", "", "/", "a /stop"):
        assert parse(text) is None, text
    assert all(f"/{name}: " in help_text() for name in HELP)


@pytest.mark.requirement("G2")
def test_a_stop_says_what_it_ended_and_what_will_not_be_answered():
    assert stopped_text(None, 0) == "Nothing was running."
    assert stopped_text("r1", 0) == "Stopped. The next message starts fresh."
    assert "1 waiting message will" in stopped_text("r1", 1)
    assert "2 waiting messages will" in stopped_text(None, 2)


def test_the_status_names_what_runs_what_waits_and_what_comes_next():
    state = fold((said("a"), Suspended(2.0, "stale", "r")))
    assert status_text(state, "r9", "3 model calls so far") == (
        f"Running: r9, 3 model calls so far. Waiting: 1. The next message starts fresh ({words_for('stale')})."
        " Messages in this conversation: 0."
    )
    assert status_text(SessionState(), "", "").startswith("Nothing runs.")
