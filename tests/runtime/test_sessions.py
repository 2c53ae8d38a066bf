"""Sessions: made, renamed, read, forked at any event, and deleted for ever."""

import asyncio

import pytest
from asking_stage import HANG, HELLO, POLICY, ROUTE, SHELL, SlowJournal, Tools, call, new_run, on_stage
from msgspec.structs import replace

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


def sessions_of(stage, runs):
    return Sessions(stage.journal, runs, owner="a", wall=stage.clock.now)


async def said(stage, runs, session, text="Do it."):
    """One whole run in a session."""
    known = await sessions_of(stage, runs).history(session)
    running = await runs.begin(new_run(text, session=session, user="ann", history=known))
    await running.outcome()
    return running


def texts(messages):
    return [(message.role, text_of(message.parts)) for message in messages]


@pytest.mark.requirement("G7")
def test_a_session_is_made_once_and_belongs_to_its_user():
    async def scene(stage):
        sessions = sessions_of(stage, stage.process())
        assert await sessions.create(S1, "ann", "First")
        assert not await sessions.create(S1, "ann", "Second")
        assert not await sessions.create(S1, "bob", "Third")
        row = await sessions.row(S1, "ann")
        assert (row.title, row.user, row.holder) == ("First", "ann", "")
        with pytest.raises(SessionUnknown):
            await sessions.row(S1, "bob")
        with pytest.raises(SessionUnknown):
            await sessions.row(S2, "ann")

    on_stage(scene, HELLO)


@pytest.mark.requirement("G7")
def test_of_many_who_make_the_same_session_at_once_one_does():
    async def scene(stage):
        sessions = sessions_of(stage, stage.process())
        made = await asyncio.gather(*(sessions.create(S1, "ann", f"title {number}") for number in range(6)))
        assert made.count(True) == 1
        row = await sessions.row(S1, "ann")
        assert row.title == f"title {made.index(True)}"
        assert row.holder == ""
        assert isinstance(await stage.journal.claim(S1, "anybody", 1.0), Claim)

    on_stage(scene, HELLO, journal=SlowJournal)


@pytest.mark.requirement("G7")
def test_a_session_gets_another_name_and_an_unknown_one_does_not_appear_by_that():
    async def scene(stage):
        sessions = sessions_of(stage, stage.process())
        await sessions.create(S1, "ann", "First")
        await sessions.rename(S1, "Better")
        assert (await sessions.row(S1, "ann")).title == "Better"
        with pytest.raises(SessionUnknown):
            await sessions.rename(S2, "Nothing")
        assert [row.name for row in await stage.journal.streams()] == [S1]

    on_stage(scene, HELLO)


@pytest.mark.requirement("G7", "C5")
def test_a_session_goes_on_with_all_that_was_said():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        assert await sessions.history(S1) is None
        first = await said(stage, runs, S1, "One")
        second = await said(stage, runs, S1, "Two")
        assert second.turn.messages[: len(first.turn.messages)] == first.turn.messages
        assert await sessions.history(S1) == second.turn.messages
        told = await sessions.messages(S1)
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

    on_stage(scene, HELLO)


@pytest.mark.requirement("G7")
def test_what_the_runtime_told_the_model_is_not_shown_to_people():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        system = Message("system", (TextPart("You are careful."),))
        running = await runs.begin(new_run(session=S1, user="ann", history=(system,)))
        await running.outcome()
        assert any(message.note for message in running.turn.messages)
        assert texts([one.message for one in await sessions.messages(S1)]) == [
            ("user", "Do it."),
            ("assistant", "Hello."),
        ]

    on_stage(scene, [HELLO[-1]], HELLO)  # an empty reply, and a note that asks for another


@pytest.mark.requirement("G7")
def test_the_running_run_of_a_session_is_known_by_its_run_alone():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        assert await sessions.running(S1) is None
        running = await runs.begin(new_run(session=S1, user="ann"))
        assert await sessions.running(S1) == running.run
        assert await sessions.running(S2) is None
        running.stop()
        await running.outcome()
        assert await sessions.running(S1) is None

    on_stage(scene, HANG)


# Deleting


@pytest.mark.requirement("G7")
def test_a_deleted_session_is_gone_with_all_its_runs_and_no_other():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        for session in (S1, S2):
            await sessions.create(session, "ann")
            await said(stage, runs, session)
            await said(stage, runs, session)
        await sessions.delete(S1)
        rows = await stage.journal.streams()
        assert {row.parent or row.name for row in rows} == {S2}
        assert len(rows) == 3
        with pytest.raises(SessionUnknown):
            await sessions.row(S1, "ann")

    on_stage(scene, HELLO)


@pytest.mark.requirement("G7")
def test_a_session_with_a_run_under_way_is_not_deleted():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        running = await runs.begin(new_run(session=S1, user="ann"))
        with pytest.raises(SessionBusy):
            await sessions.delete(S1)
        running.stop()
        await running.outcome()
        await sessions.delete(S1)
        assert await stage.journal.streams() == []

    on_stage(scene, HANG)


@pytest.mark.requirement("G7")
def test_a_run_that_somebody_still_holds_is_not_left_behind_in_silence():
    """It has its end, and its process has not yet let go of it."""

    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        running = await said(stage, runs, S1)
        claim = await stage.journal.claim(running.run, "somebody", 30.0)
        with pytest.raises(SessionBusy, match="ask again"):
            await sessions.delete(S1)
        await sessions.row(S1, "ann")
        await stage.journal.release(claim)
        await sessions.delete(S1)
        assert await stage.journal.streams() == []

    on_stage(scene, HELLO)


# Forks


@pytest.mark.requirement("G7", "C5", "D3")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_fork_at_any_event_shares_the_prefix_and_runs_nothing_again(protocol):
    """S16: at every event of a run with text, two tools and an answer."""

    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        running = await said(stage, runs, S1)
        ran = list(stage.tools.ran)
        items = await stage.journal.read(running.run)
        facts = await stage.facts(running.run)
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
            sent = stage.model.requests[-1].messages
            assert violations(sent, rules_of(protocol), model="m", to_ask=True) == ()
            assert stage.tools.ran == ran
        assert (await sessions.history(S1)) == running.turn.messages
        assert len(items) > 10

    policy = replace(POLICY, consent=(), routes=(replace(ROUTE, protocol=protocol),))
    replies = call("look", SHELL)
    replies = [
        replace(event, block=event.block + 1) if hasattr(event, "block") else event for event in replies
    ]
    on_stage(scene, [HELLO[0], *replies], HELLO, policy=policy)


@pytest.mark.requirement("G7")
def test_a_fork_in_the_middle_of_an_answer_keeps_what_was_said_by_then():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        running = await runs.begin(new_run(session=S1, user="ann"))
        await stage.until(running.run, Streamed)
        head = await stage.journal.head(running.run)
        assert await sessions.fork(S1, S2, "ann", "Fork", running.run, head)
        assert texts(await sessions.history(S2)) == [("user", "Do it."), ("assistant", "word")]
        assert [one.message.partial for one in await sessions.messages(S2)] == [False, True]
        running.stop()
        await running.outcome()

    on_stage(scene, HANG)


@pytest.mark.requirement("G7", "D8")
def test_a_fork_takes_no_open_question_and_no_consent_with_it():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        running = await runs.begin(new_run(session=S1, user="ann"))
        await stage.until(running.run, ApprovalAsked)
        await sessions.fork(S1, S2, "ann", "Fork", running.run, await stage.journal.head(running.run))
        assert "stopped before this call" in str((await sessions.history(S2))[-1])
        assert await running.answer("a1-0", "allowed", "ann")
        await running.outcome()
        going_on = await runs.begin(
            new_run("Go on.", session=S2, user="ann", history=await sessions.history(S2))
        )
        await going_on.outcome()
        assert len(stage.tools.ran) == 1

    on_stage(scene, call(SHELL), HELLO, tools=Tools())


@pytest.mark.requirement("G7")
def test_a_fork_before_the_first_event_of_a_run_has_what_was_said_before_it():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann")
        first = await said(stage, runs, S1, "One")
        second = await said(stage, runs, S1, "Two")
        await sessions.fork(S1, S2, "ann", "Fork", second.run, 0)
        assert await sessions.history(S2) == first.turn.messages

    on_stage(scene, HELLO)


@pytest.mark.requirement("G7")
def test_a_fork_shows_what_it_shares_and_goes_its_own_way():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        await sessions.create(S1, "ann", "Title")
        first = await said(stage, runs, S1, "One")
        await said(stage, runs, S1, "Two")
        assert await sessions.fork(S1, S2, "ann", "Other", first.run)
        await said(stage, runs, S2, "Instead")
        assert texts([one.message for one in await sessions.messages(S2)]) == [
            ("user", "One"),
            ("assistant", "Hello."),
            ("user", "Instead"),
            ("assistant", "Hello."),
        ]
        assert [text for role, text in texts(await sessions.history(S1)) if role == "user"] == ["One", "Two"]
        again = SessionId("s-three")
        assert await sessions.fork(S2, again, "ann", "A fork of a fork")
        assert texts([one.message for one in await sessions.messages(again)])[2] == ("user", "Instead")

    on_stage(scene, HELLO)


@pytest.mark.requirement("G7")
def test_a_fork_needs_a_run_of_its_session_and_a_new_name():
    async def scene(stage):
        runs = stage.process()
        sessions = sessions_of(stage, runs)
        for session in (S1, S2):
            await sessions.create(session, "ann")
        other = await said(stage, runs, S2)
        with pytest.raises(SessionUnknown):
            await sessions.fork(S1, SessionId("new"), "ann", "", other.run)
        assert not await sessions.fork(S1, S2, "ann", "")
        assert texts(await sessions.history(S2)) == [("user", "Do it."), ("assistant", "Hello.")]

    on_stage(scene, HELLO)


@pytest.mark.requirement("G7")
def test_a_fork_of_a_session_without_runs_is_as_empty():
    async def scene(stage):
        sessions = sessions_of(stage, stage.process())
        await sessions.create(S1, "ann", history=(Message("user", (TextPart("Before."),)),))
        await sessions.fork(S1, S2, "ann", "Fork")
        assert texts(await sessions.history(S2)) == [("user", "Before.")]

    on_stage(scene, HELLO)


def test_a_run_without_a_session_makes_none():
    async def scene(stage):
        runs = stage.process()
        await (await runs.begin(NewRun((Message("user", (TextPart("Do it."),)),), user="ann"))).outcome()
        assert [row.kind for row in await stage.journal.streams()] == ["run"]

    on_stage(scene, HELLO)
