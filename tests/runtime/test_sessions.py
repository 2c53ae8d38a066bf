"""Sessions: made, renamed, read, forked at any event, and deleted forever."""

import asyncio

import pytest
from msgspec.structs import replace
from support.runs.approval_runs import (
    HANG,
    HELLO,
    POLICY,
    ROUTE,
    SHELL,
    CountingTools,
    SlowJournal,
    call,
    new_run,
    run_scenario,
)

from turnbuckle.errors import SessionBusy, SessionUnknown
from turnbuckle.journal.port import Claim
from turnbuckle.reply.rules import violations
from turnbuckle.runtime.runs import NewRun
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.turn.facts import ApprovalAsked, Streamed, ToolFinished, ToolStarted
from turnbuckle.vocab.ids import PROTOCOL_NAMES, SessionId
from turnbuckle.vocab.messages import Message, ResultPart, TextPart, text_of
from turnbuckle.wire.registry import rules_of

S1, S2 = SessionId("s-one"), SessionId("s-two")


def sessions_of(harness, runs):
    return Sessions(harness.journal, runs)


async def said(harness, runs, session, text="Do it."):
    """One whole run in a session."""
    known = await sessions_of(harness, runs).history(session)
    running = await runs.begin(new_run(text, session=session, user="ann", history=known))
    await running.outcome()
    return running


def texts(messages):
    return [(message.role, text_of(message.parts)) for message in messages]


@pytest.mark.requirement("G7")
def test_a_session_is_made_once_and_belongs_to_its_user():
    async def scenario(harness):
        sessions = sessions_of(harness, harness.process())
        assert await sessions.create(S1, "ann", "First")
        assert not await sessions.create(S1, "ann", "Second")
        assert not await sessions.create(S1, "bob", "Third")
        row = await sessions.row(S1, "ann")
        assert (row.title, row.user, row.holder) == ("First", "ann", "")
        with pytest.raises(SessionUnknown):
            await sessions.row(S1, "bob")
        with pytest.raises(SessionUnknown):
            await sessions.row(S2, "ann")

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
def test_of_many_who_make_the_same_session_at_once_one_does():
    async def scenario(harness):
        sessions = sessions_of(harness, harness.process())
        made = await asyncio.gather(*(sessions.create(S1, "ann", f"title {number}") for number in range(6)))
        assert made.count(True) == 1
        row = await sessions.row(S1, "ann")
        assert row.title == f"title {made.index(True)}"
        assert row.holder == ""
        assert isinstance(await harness.journal.claim(S1, "anybody", 1.0), Claim)

    run_scenario(scenario, HELLO, journal=SlowJournal)


@pytest.mark.requirement("G7")
def test_a_session_gets_another_name_and_an_unknown_one_does_not_appear_by_that():
    async def scenario(harness):
        sessions = sessions_of(harness, harness.process())
        await sessions.create(S1, "ann", "First")
        await sessions.rename(S1, "Better")
        assert (await sessions.row(S1, "ann")).title == "Better"
        with pytest.raises(SessionUnknown):
            await sessions.rename(S2, "Nothing")
        assert [row.name for row in await harness.journal.streams()] == [S1]

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7", "C5")
def test_a_session_goes_on_with_all_that_was_said():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        assert await sessions.history(S1) is None
        first = await said(harness, runs, S1, "One")
        second = await said(harness, runs, S1, "Two")
        assert second.turn.messages[: len(first.turn.messages)] == first.turn.messages
        assert await sessions.history(S1) == second.turn.messages
        told = await sessions.transcript.every(S1)
        assert [(one.message.role, text_of(one.message.parts)) for one in told] == [
            ("user", "One"),
            ("assistant", "Hello."),
            ("user", "Two"),
            ("assistant", "Hello."),
        ]
        assert [one.run for one in told] == [first.run, first.run, second.run, second.run]
        assert [one.outcome.kind if one.outcome else None for one in told] == [
            None,
            "completed",
            None,
            "completed",
        ]

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
def test_what_the_runtime_told_the_model_is_not_shown_to_people():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        system = Message("system", (TextPart("You are careful."),))
        running = await runs.begin(new_run(session=S1, user="ann", history=(system,)))
        await running.outcome()
        assert any(message.note for message in running.turn.messages)
        assert texts([one.message for one in await sessions.transcript.every(S1)]) == [
            ("user", "Do it."),
            ("assistant", "Hello."),
        ]

    run_scenario(scenario, [HELLO[-1]], HELLO)  # an empty reply, and a note that asks for another


@pytest.mark.requirement("G7")
def test_the_running_run_of_a_session_is_known_by_its_run_alone():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        assert await sessions.running(S1) is None
        running = await runs.begin(new_run(session=S1, user="ann"))
        assert await sessions.running(S1) == running.run
        assert await sessions.running(S2) is None
        running.stop()
        await running.outcome()
        assert await sessions.running(S1) is None

    run_scenario(scenario, HANG)


# Deleting


@pytest.mark.requirement("G7")
def test_a_deleted_session_is_gone_with_all_its_runs_and_no_other():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        for session in (S1, S2):
            await sessions.create(session, "ann")
            await said(harness, runs, session)
            await said(harness, runs, session)
        await sessions.delete(S1)
        rows = await harness.journal.streams()
        assert {row.parent or row.name for row in rows} == {S2}
        assert len(rows) == 3
        with pytest.raises(SessionUnknown):
            await sessions.row(S1, "ann")

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
def test_a_session_with_a_run_under_way_is_not_deleted():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        running = await runs.begin(new_run(session=S1, user="ann"))
        with pytest.raises(SessionBusy):
            await sessions.delete(S1)
        running.stop()
        await running.outcome()
        await sessions.delete(S1)
        assert await harness.journal.streams() == []

    run_scenario(scenario, HANG)


@pytest.mark.requirement("G7")
def test_a_run_that_somebody_still_holds_is_not_left_behind_in_silence():
    """It has its end, and its process has not yet let go of it."""

    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        running = await said(harness, runs, S1)
        claim = await harness.journal.claim(running.run, "somebody", 30.0)
        with pytest.raises(SessionBusy, match="ask again"):
            await sessions.delete(S1)
        await sessions.row(S1, "ann")
        await harness.journal.release(claim)
        await sessions.delete(S1)
        assert await harness.journal.streams() == []

    run_scenario(scenario, HELLO)


# Forks


@pytest.mark.requirement("G7", "C5", "D3")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_fork_at_any_event_shares_the_prefix_and_runs_nothing_again(protocol):
    """S16: at every event of a run with text, two tools and an answer."""

    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        running = await said(harness, runs, S1)
        ran = list(harness.tools.ran)
        items = await harness.journal.read(running.run)
        facts = await harness.facts(running.run)
        for number, item in enumerate(items):
            new = SessionId(f"fork-{number}")
            assert await sessions.fork(S1, new, "ann", "Fork", running.run, item.seq)
            history = await sessions.history(new)
            finished = [fact for fact in facts[: number + 1] if isinstance(fact, ToolFinished)]
            results = {
                part.call_id: text_of(part.content)
                for message in history
                for part in message.parts
                if isinstance(part, ResultPart)
            }
            for fact in finished:  # what is recorded is known, word for word
                assert fact.outcome.text in results[fact.call_id]
            started = {fact.call_id for fact in facts[: number + 1] if isinstance(fact, ToolStarted)}
            for call_id in started - {fact.call_id for fact in finished}:
                assert "not known" in results[call_id]
            going_on = await runs.begin(new_run("And now?", session=new, user="ann", history=history))
            assert (await going_on.outcome()).kind == "completed"
            sent = harness.model.requests[-1].messages
            assert violations(sent, rules_of(protocol), model="m", to_ask=True) == ()
            assert harness.tools.ran == ran
        assert (await sessions.history(S1)) == running.turn.messages
        assert len(items) > 10

    policy = replace(POLICY, consent=(), routes=(replace(ROUTE, protocol=protocol),))
    replies = call("look", SHELL)
    replies = [
        replace(event, block=event.block + 1) if hasattr(event, "block") else event for event in replies
    ]
    run_scenario(scenario, [HELLO[0], *replies], HELLO, policy=policy)


@pytest.mark.requirement("G7")
def test_a_fork_in_the_middle_of_an_answer_keeps_what_was_said_by_then():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        running = await runs.begin(new_run(session=S1, user="ann"))
        await harness.until(running.run, Streamed)
        head = await harness.journal.head(running.run)
        assert await sessions.fork(S1, S2, "ann", "Fork", running.run, head)
        assert texts(await sessions.history(S2)) == [("user", "Do it."), ("assistant", "word")]
        assert [one.message.partial for one in await sessions.transcript.every(S2)] == [False, True]
        running.stop()
        await running.outcome()

    run_scenario(scenario, HANG)


@pytest.mark.requirement("G7", "D8")
def test_a_fork_takes_no_open_question_and_no_consent_with_it():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        running = await runs.begin(new_run(session=S1, user="ann"))
        await harness.until(running.run, ApprovalAsked)
        await sessions.fork(S1, S2, "ann", "Fork", running.run, await harness.journal.head(running.run))
        assert "stopped before this call" in str((await sessions.history(S2))[-1])
        assert await running.answer("a1-0", "allowed", "ann")
        await running.outcome()
        going_on = await runs.begin(
            new_run("Go on.", session=S2, user="ann", history=await sessions.history(S2))
        )
        await going_on.outcome()
        assert len(harness.tools.ran) == 1

    run_scenario(scenario, call(SHELL), HELLO, tools=CountingTools())


@pytest.mark.requirement("G7")
def test_a_fork_before_the_first_event_of_a_run_has_what_was_said_before_it():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann")
        first = await said(harness, runs, S1, "One")
        second = await said(harness, runs, S1, "Two")
        await sessions.fork(S1, S2, "ann", "Fork", second.run, 0)
        assert await sessions.history(S2) == first.turn.messages

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
def test_a_fork_shows_what_it_shares_and_goes_its_own_way():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        await sessions.create(S1, "ann", "Title")
        first = await said(harness, runs, S1, "One")
        await said(harness, runs, S1, "Two")
        assert await sessions.fork(S1, S2, "ann", "Other", first.run)
        await said(harness, runs, S2, "Instead")
        assert texts([one.message for one in await sessions.transcript.every(S2)]) == [
            ("user", "One"),
            ("assistant", "Hello."),
            ("user", "Instead"),
            ("assistant", "Hello."),
        ]
        assert [text for role, text in texts(await sessions.history(S1)) if role == "user"] == ["One", "Two"]
        again = SessionId("s-three")
        assert await sessions.fork(S2, again, "ann", "A fork of a fork")
        assert texts([one.message for one in await sessions.transcript.every(again)])[2] == (
            "user",
            "Instead",
        )

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
def test_a_fork_needs_a_run_of_its_session_and_a_new_name():
    async def scenario(harness):
        runs = harness.process()
        sessions = sessions_of(harness, runs)
        for session in (S1, S2):
            await sessions.create(session, "ann")
        other = await said(harness, runs, S2)
        with pytest.raises(SessionUnknown):
            await sessions.fork(S1, SessionId("new"), "ann", "", other.run)
        assert not await sessions.fork(S1, S2, "ann", "")
        assert texts(await sessions.history(S2)) == [("user", "Do it."), ("assistant", "Hello.")]

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("G7")
def test_a_fork_of_a_session_without_runs_is_as_empty():
    async def scenario(harness):
        sessions = sessions_of(harness, harness.process())
        await sessions.create(S1, "ann", history=(Message("user", (TextPart("Before."),)),))
        await sessions.fork(S1, S2, "ann", "Fork")
        assert texts(await sessions.history(S2)) == [("user", "Before.")]

    run_scenario(scenario, HELLO)


def test_a_run_without_a_session_makes_none():
    async def scenario(harness):
        runs = harness.process()
        await (await runs.begin(NewRun((Message("user", (TextPart("Do it."),)),), user="ann"))).outcome()
        assert [row.kind for row in await harness.journal.streams()] == ["run"]

    run_scenario(scenario, HELLO)
