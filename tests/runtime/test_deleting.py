"""Changes that concern a session and its runs happen as a whole, and once for each request."""

import asyncio
from pathlib import Path

import pytest
from support.agents import open_agent
from support.runs.approval_runs import HELLO, new_run, run_scenario

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.port import Claim, StreamQuery
from turnbuckle.runtime.session_messages import IncomingMessage
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.session.facts import (
    MessageAccepted,
    MessageInjected,
    MessageRefused,
    RunDeleted,
    SessionFact,
    SessionMade,
    Undone,
)
from turnbuckle.session.state import KEPT, fold, status_of
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.sessions import Plot, SessionWorld, message
from turnbuckle.vocab.ids import RunId, SessionId

S1 = SessionId("s-one")
A, B, C = RunId("r-a"), RunId("r-b"), RunId("r-c")


def staged(story):
    """Play a story in a world whose process has started."""
    clock = VirtualClock()

    async def main():
        world = SessionWorld(Plot(()), clock, None)
        await world.start()
        try:
            return await story(world)
        finally:
            await world.end()

    return clock.run(main, quiet=0)


async def say(world, text):
    return await world.in_worker(lambda worker: worker.say(IncomingMessage((message(text),))))


def three_runs():
    made: list[SessionFact] = [SessionMade(0.0)]
    for number, run in enumerate((A, B, C)):
        made += [MessageAccepted(1.0, f"m{number}", run, ()), MessageInjected(2.0, f"m{number}", run, "task")]
    return tuple(made)


@pytest.mark.requirement("G8")
@pytest.mark.parametrize("gone, runs", [(A, (B, C)), (B, (A, C)), (C, (A, B))])
def test_a_deleted_run_counts_no_more_and_the_others_do(gone, runs):
    state = fold((*three_runs(), RunDeleted(3.0, gone)))
    assert (state.runs, state.deleted) == (runs, {gone})


@pytest.mark.requirement("E12")
def test_a_request_that_took_nothing_back_is_remembered_too():
    state = fold(
        (SessionMade(0.0), Undone(1.0, RunId(""), RunId("q")), *three_runs()[1:], Undone(3.0, C, RunId("p")))
    )
    assert state.undone_for == {"q": "", "p": C}
    assert (state.runs, state.undone) == ((A, B), {C})


@pytest.mark.requirement("F6")
def test_the_fate_of_a_message_is_known_however_many_were_said_since():
    many = [MessageAccepted(2.0, f"n{one}", RunId(f"r-{one}"), ()) for one in range(2 * KEPT)]
    facts = (MessageAccepted(1.0, "m", A, (), into=B), MessageInjected(1.5, "m", B, "steered"), *many)
    assert A not in {fate.own for fate in fold(facts).statuses.values()}
    fate = status_of(facts, A)
    assert fate is not None
    assert (fate.state, fate.run) == ("injected", B)
    refused = status_of((*facts, MessageRefused(3.0, "n7", "no")), RunId("r-7"))
    assert refused is not None
    assert (refused.state, refused.run) == ("refused", "r-7")
    assert status_of(facts, C) is None


@pytest.mark.requirement("E12")
@pytest.mark.parametrize("held", [0, 1, 2, 3])
def test_a_session_that_can_not_be_deleted_is_still_there_as_a_whole(held: int):
    async def scenario(harness):
        runs = harness.process()
        sessions = Sessions(harness.journal, runs)
        await sessions.create(S1, "ann", "First")
        for _ in range(3):
            await (await runs.begin(new_run(session=S1, user="ann"))).outcome()
        names = [S1, *(row.name for row in await sessions.runs_of(S1))]
        claim = await harness.journal.claim(names[held], "somebody", 60)
        assert isinstance(claim, Claim)
        with pytest.raises(SessionBusy):
            await sessions.delete(S1)
        assert all([await harness.journal.head(name) for name in names])
        await harness.journal.release(claim)
        await sessions.delete(S1)
        assert [await harness.journal.head(name) for name in names] == [0, 0, 0, 0]
        assert await harness.journal.streams(StreamQuery()) == []

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("E12")
def test_an_undo_whose_answer_was_lost_takes_back_nothing_more_when_it_is_sent_again():
    async def story(world):
        for text in ("A", "B", "C"):
            await say(world, text)
            await world.pass_time(60)
        first = await world.in_worker(lambda worker: worker.undo(RunId("q")))
        again = await world.in_worker(lambda worker: worker.undo(RunId("q")))
        other = await world.in_worker(lambda worker: worker.undo(RunId("p")))
        return first, again, other

    first, again, other = staged(story)
    assert first == again
    assert other not in (None, first)


@pytest.mark.requirement("F6", "G1")
def test_a_message_that_comes_again_under_its_key_is_found_behind_any_number_of_others():
    async def story(world):
        await say(world, "A")
        await world.pass_time(60)
        await world.in_worker(
            lambda worker: worker._append(
                [
                    MessageAccepted(1.0, "m", B, (), into=C),
                    MessageInjected(1.0, "m", C, "steered"),
                    *(
                        fact
                        for one in range(KEPT)
                        for fact in (
                            MessageAccepted(2.0, f"n{one}", RunId(f"r-{one}"), ()),
                            MessageRefused(2.0, f"n{one}", "no"),
                        )
                    ),
                ]
            )
        )
        return await world.in_worker(lambda worker: worker.say(IncomingMessage((), run=B, again=True)))

    assert staged(story).run == C


@pytest.mark.requirement("G1")
def test_first_messages_of_a_new_session_at_the_same_moment_are_all_taken(tmp_path: Path):
    async def scenario(agent):
        return await asyncio.gather(
            *(agent.run(f"Say {word}.", session="new") for word in ("one", "two", "three"))
        )

    results = open_agent.run_scenario(tmp_path, scenario)
    assert [result.outcome for result in results] == ["completed"] * 3
